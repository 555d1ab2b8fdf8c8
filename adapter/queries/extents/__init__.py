"""How large tables and indexes are, and what was counted of them: pg_class.reltuples, pg_stat_user_tables, ...

May import `statistics`, `system_catalogs`, `transactions` and what stands below them. Read `extents` first.
"""
