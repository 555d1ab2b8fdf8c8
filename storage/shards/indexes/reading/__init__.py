"""Reading rows by their keys, over all parts of a shard. Read `reader` first: it is what others use."""
