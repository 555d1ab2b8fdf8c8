"""Functions of numbers: numeric as PostgreSQL computes it, integers and floats.

May import `udfs.table`, the types, their values and the errors. Read `numeric` first.
"""
