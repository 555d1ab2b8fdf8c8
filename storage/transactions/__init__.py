"""Transactions over any number of shards: their buffer, the txns shard in which they commit, and their ids.

A *txn* is one transaction's buffer (`Txn`); the *txns shard* is where all of them commit: `txns_state` is its state and
pure transitions, `txns_cache` this process's copy, `txns_shard` what changes it. May import `catalog` (for the records
that a transaction carries), `shards`, `timestamps` and what lies below. Read `txns_state` (the words) first, then
`txns_shard`, and `parallel_commit` last.
"""
