"""pg_catalog and information_schema: relations whose rows follow from a catalog snapshot or describe sessions, and the
functions that look things up in them.

`objects` knows what exists; `pg_catalog` and `information_schema` make rows of it; `relations` gathers them and caches
their tables; `functions` are the catalog functions; `local_engine` puts all that into the local engine's database. They
import each other in that order, from the last to the first, and otherwise only the ground of the adapter. Read
`relations.contents` first, then `local_engine`.
"""
