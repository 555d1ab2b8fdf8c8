"""A table at a CSN, as files of its own or as a new shard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage.csn import Csn
from storage.environment import Environment
from storage.errors import Determinate
from storage.ids import ShardId
from storage.parts import ROW_ID
from storage.shard import ShardSnapshot
from storage.txns import Committed, Txn


async def live_rows(env: Environment, snapshot: ShardSnapshot) -> AsyncIterator[pa.Table]:
    """The rows of `snapshot`, one table per part that has any, in the newest schema, without row ids.

    A column that a part lacks is NULL. The caller holds the snapshot's CSN.
    """
    gone = [np.asarray((await env.read_part(part, [ROW_ID])).column(0)) for part in snapshot.deletes]
    deleted = np.sort(np.concatenate(gone)) if gone else np.empty(0, np.int64)
    for part in snapshot.inserts:
        table = await env.read_part(part, [ROW_ID, *snapshot.schema.names])
        if len(deleted):
            table = table.filter(pa.array(~np.isin(np.asarray(table.column(ROW_ID)), deleted)))
        if not table.num_rows:
            continue
        columns = [
            table.column(field.name).cast(field.type)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
            for field in snapshot.schema
        ]
        yield pa.table(columns, schema=snapshot.schema)


async def export_shard(
    env: Environment, shard: ShardId, as_of: Csn, directory: Path, names: Mapping[str, str] | None = None
) -> int:
    """Write the rows of `shard` at `as_of` as Parquet files into `directory`, which must be empty or absent.

    `names` renames physical columns (``c1``) to what people call them; columns it lacks are left out. Returns how
    many rows were written. Raises Determinate when the directory has contents, and as `Environment.snapshot` does.
    """
    await asyncio.to_thread(directory.mkdir, parents=True, exist_ok=True)
    if await asyncio.to_thread(lambda: any(directory.iterdir())):
        raise Determinate(f"directory {directory} is not empty")
    rows = number = 0
    async with await env.hold([shard], as_of):
        snapshot = await env.snapshot(shard, as_of)
        async for table in live_rows(env, snapshot):
            if names is not None:
                table = table.select([name for name in table.column_names if name in names])
                table = table.rename_columns([names[name] for name in table.column_names])
            path = directory / f"part-{number:05}.parquet"
            await asyncio.to_thread(pq.write_table, table, path, compression="zstd")
            rows, number = rows + table.num_rows, number + 1
    return rows


async def clone_into(env: Environment, shard: ShardId, as_of: Csn, txn: Txn) -> ShardId:
    """Make `txn` create a new shard with the rows of `shard` at `as_of`. Nothing is shared with the old one."""
    new = env.new_shard_id()
    async with await env.hold([shard], as_of):
        snapshot = await env.snapshot(shard, as_of)
        txn.create_shard(new, snapshot.schema)
        async for table in live_rows(env, snapshot):
            txn.write(new, table)
            await txn.spill()
    return new


async def clone_shard(env: Environment, shard: ShardId, as_of: Csn) -> tuple[ShardId, Committed]:
    """Commit a clone of `shard` at `as_of`. Returns the new shard and the commit."""
    txn = env.begin()
    new = await clone_into(env, shard, as_of, txn)
    while True:
        ts = await env.oracle.write_ts("user")
        result = await env.commit(txn, ts=ts)
        if isinstance(result, Committed):
            await env.oracle.apply_write("user", ts)
            return new, result
        env.oracle.abandon_write("user", ts)
        env.oracle.observe(Csn(result.least_committable - 1))
