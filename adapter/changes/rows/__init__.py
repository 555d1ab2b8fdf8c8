"""What every change of rows computes: the values of defaults, and expressions over rows of Arrow.

May import `queries`, `execution` and what is below them. Read `over_rows` first.
"""
