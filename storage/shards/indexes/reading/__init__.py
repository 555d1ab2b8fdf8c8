"""Reading rows by their keys, over all parts of a shard.

May import `storage.shards.indexes` and below. Read `reader` first: it is what others use.
"""
