"""One shard: parts and their files, the state with its pure transitions, and the handle that reads and writes it.

May import `durable`, `stores` and `timestamps.csn`. Read `shard_state` (what a shard is) first, then `parts` and
`shard`. What large tables know of their files is in `packed_parts`.
"""
