"""The views of information_schema, each made from a catalog snapshot and the generated data.

May import `pg_catalog` and `objects` of the system catalogs. Read `tables` first.
"""
