"""What Spark's Python processes run: the functions that statements call in Python, and the process that they are
forked from.

May import the planner. Read `functions` first; `daemon` runs by itself.
"""
