"""Durable, timestamped collections, and transactions over any number of them. Knows nothing of SQL.

An *environment* is a blob store and a consensus store. Any number of server processes share it and none is special;
what is durable is in the two stores, and nothing else.

Jargon
------
- *CSN*: commit sequence number, the one timestamp: 48 bits of Unix milliseconds and a 16-bit counter.
- *part*: an immutable run of new or of deleted rows: a Parquet file in the blob store, or Arrow bytes when small.
- *shard*: a collection (a table, the catalog) as a changelog of parts. It can be read at every CSN from its *since*
  to below its *upper*. Its *handle* is what a process has of it in memory.
- *txns shard*: one per environment; says what has committed. A commit is *applied* when its parts are in the data
  shards, and then *retracted* from the txns shard.
- *lease*: a process's sign of life in the txns shard. *Hold*: keeps history readable for somebody who reads.
- *oracle*: gives out the CSNs to read at and to write at.

Key ideas
---------
- Each state is a run of numbered diffs under one key of the consensus store; changing it is a compare-and-set.
- One compare-and-set on the txns shard commits a transaction, whatever it wrote to, and with it moves how far *every*
  shard can be read. So a commit costs what it writes, and nothing for tables that merely exist.
- What a committed write does to a shard follows from the shard's state and the write. Readers work it out in memory;
  who applies it, and when, makes no difference to them.
- A row's id follows from its place in its part. Deletes are parts that name ids. Compaction keeps ids, so it conflicts
  with no writer.
- An error says whether the operation did not happen (`Determinate`) or may have (`Indeterminate`).

Guarantees
----------
- A commit is atomic and, once acknowledged, durable. No commit follows below a CSN that somebody has read at.
- A read begins at or above every commit that was acknowledged before. A snapshot never changes.
- Who commits with `validated` learns of every write since then to the shards that it named. The storeys above make
  serializability of it.
- A row costs one write of the consensus store to insert, shared with those that commit at that moment; a read costs
  none, nor a listing of the blob store.

Restrictions
------------
- Only an environment's own processes write to its stores; only `transactions` and `upkeep` write to a registered shard.
- One commit's inline parts fit into one diff (`COMMIT_INLINE_BYTES`); larger ones are files.
- A process that stands still for longer than its lease is deposed: it stops, and what it has not committed is lost.

What a crash leaves
-------------------
Commits that are not applied: every reader sees them, the next process applies them. Staged transactions: whom they hold
up decides them. Uploads, holds and leases: reclaimed once the lease has run out. No step needs a repair.

Clock, randomness and the two stores are arguments, so that the whole storey runs in a simulation (`tests.simulation`).
It imports none of the other storeys. Read `environment.environment` first; then from the ground: `stores`, `durable`,
`timestamps`, `shards`, `catalog`, `transactions`, `membership`, `upkeep`, `reading`. `offline` looks from outside.
"""
