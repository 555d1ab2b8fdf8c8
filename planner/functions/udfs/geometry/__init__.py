"""Functions and operators of the geometric types (PostgreSQL 15, 9.11).

May import `udfs.table` and the values of geometry. Read `table` first.
"""
