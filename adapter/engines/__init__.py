"""The engines that run bound queries: Spark, the engine of record, and local (DuckDB), the fast path.

`engines` has both and chooses; `router` holds the rule. `local` and `spark` do not know each other; what they share,
the contract among it, is in `common`. May import those three, `system_catalogs`, `plans` and `settings`. Read
`common.engine` (the contract) first, then `router`.
"""
