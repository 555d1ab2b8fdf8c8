"""Durable, timestamped collections: blob, consensus, shards, transactions, CSN oracle, catalog.

Knows nothing of SQL. Clock, randomness, blob and consensus come from outside, so that the whole layer runs in a
simulation (`tests/simulation`). An order in which to read it:

1. The primitives: `blob`, `consensus` and their implementations, `errors`, `clock`, `csn`.
2. A state that is a run of diffs: `durable`.
3. A shard: `parts` (rows, statistics, pruning), `shard_state` (pure), `shard` (I/O), `part_store` (files).
4. Transactions: `txn` (the buffer), `txns_state` (pure), `txns` (commit, apply, tidy), `txns_cache`,
   `parallel_commit` (staged records), `reader` (snapshots and changes through the txns shard), `subscribe`.
5. Timestamps: `hlc`, `oracle`, `oracle_shared`, `visibility`, `xids`.
6. The catalog: `catalog_model`, `catalog`.
7. The whole: `environment`, `local_environment`, `leases`, `peers`, `maintenance`, `compaction`.
8. From outside: `admin`, `fsck`, `export`.
"""
