"""A table at a CSN, as files of its own or as a new shard.

Rows are read through a `SnapshotReader` while a `Holder` keeps their history: the reader and the leases of a process
that takes part, or an `InspectorReader`, which is both and looks at an environment from outside while its servers run.
That one writes one thing, a hold in the shard, so that maintenance leaves alone what it reads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage.catalog.model import CatalogUpdate, Relation
from storage.durable.state import Abandon
from storage.environment.environment import Environment
from storage.errors import AsOfNotReadable, Determinate, Indeterminate, UnknownShard, not_readable
from storage.ids import ShardId, random_text
from storage.offline.admin import Inspector
from storage.shards.history import Archives
from storage.shards.part_store import PartStore
from storage.shards.parts import ROW_ID, Part
from storage.shards.shard import DataShard, ShardSnapshot, snapshot_among, snapshot_of
from storage.shards.shard_state import HOLD_MS, Hold, SetHold, ShardDiff, ShardState
from storage.timestamps.csn import Csn
from storage.timestamps.oracle import acquired
from storage.transactions.txn import Txn
from storage.transactions.txns_shard import Committed

RENEW_S = HOLD_MS / 4 / 1000
"""How often an `InspectorReader` renews what it holds."""


class Holder(Protocol):
    """Keeps history readable."""

    async def hold(self, shards: Iterable[ShardId], at: Csn) -> AbstractAsyncContextManager[object]:
        """Keep `shards` readable at `at` while the result is open. Raises AsOfNotReadable."""
        ...


class SnapshotReader(Protocol):
    """Reads a table at a CSN."""

    async def snapshot(self, shard: ShardId, as_of: Csn) -> ShardSnapshot: ...

    async def read_part(self, part: Part, columns: Sequence[str] | None = None) -> pa.Table: ...


class InspectorReader:
    """A `SnapshotReader` and `Holder` that takes no part in the environment."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._store = PartStore(inspector.blob, inspector.clock, inspector.random, "inspector")
        self._archives = Archives(self._store)
        self._name = f"inspector/{random_text(inspector.random)}"

    async def hold(self, shards: Iterable[ShardId], at: Csn) -> AbstractAsyncContextManager[object]:
        """A hold at `at` in each shard, renewed for as long as it lasts. Raises AsOfNotReadable."""
        async with AsyncExitStack() as stack:
            handles = [self._inspector.handle(shard) for shard in shards]
            for handle in handles:
                await handle.refresh()
                await _set_hold(handle, self._name, self._hold(at))
                stack.push_async_callback(_set_hold, handle, self._name, None)
            renewing = asyncio.get_running_loop().create_task(self._renew(handles, at))
            stack.push_async_callback(_stopped, renewing)
            return stack.pop_all()

    def _hold(self, at: Csn) -> Hold:
        return Hold(at=at, expires_ms=self._inspector.clock.now_ms() + HOLD_MS, reason="export")

    async def _renew(self, handles: Sequence[DataShard], at: Csn) -> None:
        while True:
            await self._inspector.clock.sleep(RENEW_S)
            for handle in handles:
                # The next round tries again, well before the hold expires.
                with contextlib.suppress(Determinate, Indeterminate):
                    await _set_hold(handle, self._name, self._hold(at))

    async def newest(self) -> Csn:
        """The newest CSN that can be read."""
        return Csn((await self._inspector.txns()).upper - 1)

    async def snapshot(self, shard: ShardId, as_of: Csn) -> ShardSnapshot:
        """See `ShardReader.snapshot`. Raises Determinate when a transaction at or before `as_of` is undecided."""
        txns = await self._inspector.txns()
        if as_of >= txns.upper:
            raise AsOfNotReadable(f"nothing is decided yet at {as_of}: the upper is {txns.upper}")
        dropped = txns.forgotten.get(shard)
        if (shard not in txns.registered and dropped is None) or (dropped is not None and as_of >= dropped):
            raise UnknownShard(f"shard {shard} does not exist at {as_of}")
        for record in txns.staged.values():
            if record.csn <= as_of and any(write.shard == shard for write in record.writes):
                raise Determinate(f"transaction {record.txid} at {record.csn} is not decided yet; try again")
        _, state = await self._inspector.shard(shard, txns)
        if state.earliest <= as_of < state.since and not state.dropped:
            return snapshot_among(await self._archives.parts_at(state, as_of), state, as_of)
        return snapshot_of(state, as_of)

    async def read_part(self, part: Part, columns: Sequence[str] | None = None) -> pa.Table:
        """See `ShardReader.read_part`."""
        return await self._store.read(part, columns)


async def _stopped(task: asyncio.Task[None]) -> None:
    """End `task`."""
    task.cancel()
    await asyncio.wait([task])


async def _set_hold(handle: DataShard, name: str, hold: Hold | None) -> None:
    def propose(state: ShardState) -> ShardDiff | Abandon[None]:
        if hold is not None and hold.at < state.earliest:
            raise not_readable(state.shard, hold.at, state.earliest)
        return ShardDiff((SetHold(name=name, hold=hold),))

    await handle.update(propose)


Missing: TypeAlias = Mapping[str, pa.Scalar]
"""By physical column, the value of rows in parts that lack it; NULL where it is not named."""


async def live_rows(
    reader: SnapshotReader, snapshot: ShardSnapshot, missing: Missing = MappingProxyType({})
) -> AsyncIterator[pa.Table]:
    """The rows of `snapshot`, one table per part that has any, in the newest schema, without row ids.

    The caller holds the snapshot's CSN.
    """
    gone = [np.asarray((await reader.read_part(part, [ROW_ID])).column(0)) for part in snapshot.deletes]
    deleted = np.sort(np.concatenate(gone)) if gone else np.empty(0, np.int64)
    for part in snapshot.inserts:
        table = await reader.read_part(part, [ROW_ID, *snapshot.schema.names])
        if len(deleted):
            table = table.filter(pa.array(~np.isin(np.asarray(table.column(ROW_ID)), deleted)))
        if not table.num_rows:
            continue
        columns = [
            table.column(field.name).cast(field.type)
            if field.name in table.column_names
            else pa.repeat(missing.get(field.name, pa.scalar(None, field.type)), table.num_rows)
            for field in snapshot.schema
        ]
        yield pa.table(columns, schema=snapshot.schema)


async def export_shard(
    holder: Holder,
    reader: SnapshotReader,
    shard: ShardId,
    as_of: Csn,
    directory: Path,
    names: Mapping[str, str] | None = None,
    missing: Missing = MappingProxyType({}),
) -> int:
    """Write the rows of `shard` at `as_of` as Parquet files into `directory`, which must be empty or absent.

    `names` renames physical columns (``c1``) to what people call them; columns it lacks are left out. Returns how
    many rows were written. Raises Determinate when the directory has contents, and as `ShardReader.snapshot` does.
    """
    await asyncio.to_thread(directory.mkdir, parents=True, exist_ok=True)
    if await asyncio.to_thread(lambda: any(directory.iterdir())):
        raise Determinate(f"directory {directory} is not empty")
    rows = number = 0
    async with await holder.hold([shard], as_of):
        snapshot = await reader.snapshot(shard, as_of)
        async for table in live_rows(reader, snapshot, missing):
            if names is not None:
                table = table.select([name for name in table.column_names if name in names])
                table = table.rename_columns([names[name] for name in table.column_names])
            path = directory / f"part-{number:05}.parquet"
            await asyncio.to_thread(pq.write_table, table, path, compression="zstd")
            rows, number = rows + table.num_rows, number + 1
    return rows


async def clone_into(
    env: Environment, shard: ShardId, as_of: Csn, txn: Txn, missing: Missing = MappingProxyType({})
) -> ShardId:
    """Make `txn` create a new shard with the rows of `shard` at `as_of`. Nothing is shared with the old one."""
    new = env.new_shard_id()
    async with await env.leases.hold([shard], as_of):
        snapshot = await env.reader.snapshot(shard, as_of)
        txn.create_shard(new, snapshot.schema)
        async for table in live_rows(env.reader, snapshot, missing):
            txn.write(new, table)
            await txn.spill()
    return new


async def clone_shard(env: Environment, shard: ShardId, as_of: Csn) -> tuple[ShardId, Committed]:
    """Commit a clone of `shard` at `as_of`. Returns the new shard and the commit."""
    txn = env.begin()
    new = await clone_into(env, shard, as_of, txn)
    return new, await commit_alone(env, txn)


async def clone_table(
    env: Environment, relation: Relation, as_of: Csn, name: str, schema_oid: int, missing: Missing
) -> Committed:
    """Commit a new table `name` in the schema `schema_oid`, with the columns of `relation` and its rows at `as_of`, and
    without its constraints and indexes.

    Raises Determinate when there is one of that name, and as `ShardReader.snapshot` does.
    """
    assert relation.shard is not None
    catalog = env.catalog.current()
    if (schema_oid, name) in catalog.relation_names:
        raise Determinate(f'table "{name}" exists already')
    await env.oids.provide(catalog.next_oid)
    txn = env.begin()
    shard = await clone_into(env, relation.shard, as_of, txn, missing)
    columns = tuple(msgspec.structs.replace(column, missing=None) for column in relation.columns)
    record = msgspec.structs.replace(
        relation, oid=env.oids.take(), name=name, schema=schema_oid, columns=columns, shard=shard, constraints=(),
        kind="r", definition=None, depends_on=(), materialized=None,
    )  # fmt: skip
    txn.update_catalog([CatalogUpdate(record=record, diff=1)], expected=catalog.csn)
    return await commit_alone(env, txn)


async def commit_alone(env: Environment, txn: Txn) -> Committed:
    """Commit `txn` by itself, at a higher CSN as often as others are faster."""
    while True:
        async with acquired(env.oracle, "user") as ts:
            result = await env.committer.commit(txn, ts=ts)
            if isinstance(result, Committed):
                await env.oracle.apply_write("user", ts)
                return result
        env.oracle.observe(Csn(result.least_committable - 1))
