"""PostgreSQL 15's own catalogs as data, and the tool that made them.

May import nothing of the planner. Read `content` first.
"""
