"""Indexes: for each part, its rows by their keys.

`definition` says what an index is to storage, `keys` (and `scalar_keys`, for one key at a time) how values become
64-bit numbers, `runs` how those of one part are stored in order, `levels` how those of many small parts are kept in
memory. `reading` finds rows with them. May import `storage.shards` and below. Read `definition` first.

How to use it::

    column = StoredColumn(name="c1", type=pa.int64())     # and `missing`, for older rows
    index = IndexDefinition(id=oid, columns=(KeyColumn(source=column),), unique=True)     # once; keep it
    reader = env.keys                                                                     # the process's `KeyReader`

    found = reader.lookup_now(snapshot, index, [(5,), (7,)], columns, local=txn.local_parts(shard))
    if found is None:                                     # something has to be read first
        found = await reader.lookup(snapshot, index, [(5,), (7,)], columns, local=txn.local_parts(shard))
    found.keys, found.row_ids, found.rows                 # numbers of the keys, ids of the rows, a record batch

    await reader.lookup_columns(snapshot, index, [pa.array([...])], columns)              # many keys
    await reader.range(snapshot, index, KeyRange(low=Bound((5,)), high=Bound((9,), False)), columns, limit=10)
    await reader.range(snapshot, index, KeyRange(equal=(5,)), columns, descending=True)   # first columns equal
    await reader.count(snapshot, index, KeyRange(...))    # how many rows at most, without reading one

`snapshot` is a `ShardSnapshot`, or `ShardChanges`: what was written between two CSNs. No index has to be built first:
what a part lacks is made from the part when it is first asked for.
"""
