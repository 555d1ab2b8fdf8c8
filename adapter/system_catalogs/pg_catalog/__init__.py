"""The rows of pg_catalog that follow from a catalog snapshot: pg_class and its like, and PostgreSQL's views over them.

May import `objects` of the system catalogs. Read `class_rows` first.
"""
