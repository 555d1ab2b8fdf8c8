"""Queries and changes of rows: SELECT with all its clauses, VALUES, set operations, WITH, INSERT, UPDATE, DELETE.

May import `calls`, `expressions`, `resolution`, the IR and all below. Read `select` first; `binder` puts together
everything that binds.
"""
