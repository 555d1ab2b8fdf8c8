"""The catalog: its records, the shard that holds them, and what is given out to its objects: oids, sequence numbers.

May import `shards`, `durable`, `timestamps.csn` and what lies below. Read `model` first, then `store`.
"""
