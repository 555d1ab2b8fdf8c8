"""The extensions that CREATE EXTENSION knows: what their control files say in PostgreSQL 15, and the scripts, in SQL,
that make their functions. What is computed in Python is in `planner.functions.udfs.extensions`.

May import nothing of the planner. Read `available` first.
"""
