"""Environments on in-memory stores, and the rows of a snapshot, for the tests of shards and transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from storage.clock import Clock, SystemClock
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.environment import Environment
from storage.environment.opening import open_on_stores
from storage.ids import ShardId
from storage.shards.parts import ROW_ID
from storage.shards.shard import ShardSnapshot
from storage.stores.counting import CountingBlob, CountingConsensus
from storage.timestamps.csn import Csn
from storage.transactions.txn import Txn
from storage.transactions.txns_shard import Committed, UpperMismatch

SCHEMA = pa.schema([pa.field("c1", pa.int64()), pa.field("c2", pa.string())])


class Stores:
    """Counted stores that outlive an environment, so that it can be opened again."""

    def __init__(self, seed: int = 1, clock: Clock | None = None, retain_ms: int = 0) -> None:
        self.retain_ms = retain_ms
        self.clock = clock or SystemClock()
        self.blob = CountingBlob(MemoryBlob())
        self.consensus = CountingConsensus(MemoryConsensus())
        self.random = SeededRandomness(seed)

    async def open(self, process: str = "test", *, background: bool = False) -> Environment:
        """Open the environment on these stores, validating every structure after each change."""
        return await open_on_stores(
            blob=self.blob,
            consensus=self.consensus,
            clock=self.clock,
            random=self.random,
            process=process,
            background=background,
            validate=True,
            retain_ms=self.retain_ms,
        )


def rows(*values: tuple[int, str | None]) -> pa.Table:
    """A table of the test schema."""
    return pa.table({"c1": [v[0] for v in values], "c2": pa.array([v[1] for v in values], pa.string())}, schema=SCHEMA)


def deletion(*values: tuple[int, int, str | None]) -> pa.Table:
    """A deletion: row id, then the old values."""
    return rows(*[(v[1], v[2]) for v in values]).add_column(
        0, pa.field(ROW_ID, pa.int64()), pa.array([v[0] for v in values], pa.int64())
    )


async def commit(env: Environment, txn: Txn) -> Committed:
    """Commit at the oracle's timestamp, publish, and return the commit."""
    while True:
        ts = await env.oracle.write_ts("user")
        result = await env.committer.commit(txn, ts=ts)
        if isinstance(result, UpperMismatch):
            env.oracle.abandon_write("user", ts)
            env.oracle.observe(result.least_committable)
            continue
        await env.oracle.apply_write("user", ts)
        return result


async def create(env: Environment, *values: tuple[int, str | None]) -> ShardId:
    """A new shard of the test schema that holds `values`."""
    shard = env.new_shard_id()
    txn = env.begin()
    txn.create_shard(shard, SCHEMA)
    if values:
        txn.write(shard, rows(*values))
    await commit(env, txn)
    return shard


async def insert(env: Environment, shard: ShardId, *values: tuple[int, str | None]) -> Committed:
    """Commit new rows."""
    txn = env.begin()
    txn.write(shard, rows(*values))
    return await commit(env, txn)


async def read(
    env: Environment, shard: ShardId, as_of: Csn | None = None, columns: Sequence[str] = ("c1", "c2")
) -> dict[int, tuple[Any, ...]]:
    """The rows of `shard` by row id, at `as_of` or now."""
    at = await env.oracle.read_ts("user") if as_of is None else as_of
    return await snapshot_rows(env, await env.reader.snapshot(shard, at), columns)


async def snapshot_rows(
    env: Environment, snapshot: ShardSnapshot, columns: Sequence[str] = ("c1", "c2")
) -> dict[int, tuple[Any, ...]]:
    """The rows of `snapshot` by row id: inserted and not deleted."""
    live: dict[int, tuple[Any, ...]] = {}
    for part in snapshot.inserts:
        table = await env.reader.read_part(part, [ROW_ID, *columns])
        for row in table.to_pylist():
            assert row[ROW_ID] not in live, "two rows with one id"
            live[row[ROW_ID]] = tuple(row.get(name) for name in columns)
    for part in snapshot.deletes:
        for row_id in (await env.reader.read_part(part, [ROW_ID])).column(0).to_pylist():
            live.pop(row_id, None)
    return live
