"""The engines that run bound queries: Spark, the engine of record, and local (DuckDB), the fast path."""
