"""All system relations: which module makes the rows of which (`all`), their tables by snapshot, and those that sessions
describe (`session`).

May import `information_schema`, `pg_catalog` and `objects` of the system catalogs. Read `contents` first.
"""
