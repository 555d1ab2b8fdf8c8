"""The catalog functions: privileges, descriptions, definitions, and the oid aliases (regclass and its like).

They run inside the local engine and find their session's catalog by a token. May import `relations`, `pg_catalog` and
`objects` of the system catalogs. Read `contexts` first, then `register`.
"""
