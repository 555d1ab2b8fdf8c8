"""What is worked out with Python's values, without an engine or before it: rows of constants, expressions over one row,
and the constant parts of a statement whose failure is its own. May import `planner` and the ground of the adapter
only. Read `constant_rows` first.
"""
