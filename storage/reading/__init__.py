"""Reading at a CSN: the snapshot of a shard, what was written since, and what became of a transaction.

May import `membership` (who reads needs a lease), `transactions`, `shards` and what lies below. Read `reader` first.
"""
