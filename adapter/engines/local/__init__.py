"""The local engine: DuckDB in this process, for catalog queries and small reads.

May import `engines.common`, `system_catalogs` (whose relations and functions it holds) and `plans`; DuckDB is imported
here alone, when it is first needed. Read `engine` first, then `scans`.
"""
