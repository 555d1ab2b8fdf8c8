"""Checking an environment: every reference resolves, every checksum and row count matches, orphans are listed.

Safe on a live environment: nothing is written, and what looks wrong is looked at again in newer states before it is
reported, because a live environment moves files while they are being checked.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct

from storage.catalog.model import CatalogRecord, Constraint, Index, Relation
from storage.catalog.oids import OID_KEY
from storage.catalog.sequences import SEQUENCE_PREFIX
from storage.catalog.store import decoded
from storage.durable.registers import decode_register
from storage.durable.state import Entry, unframed
from storage.environment.identity import COMPLETE_KEY, MARKER_KEY, check_marker
from storage.errors import (
    CorruptData,
    CorruptPart,
    ForeignEnvironment,
    NewerFormat,
    StorageError,
    missing_blob,
    wrong_size,
)
from storage.ids import CATALOG_SHARD, ShardId
from storage.lake.troubles import FileTrouble
from storage.offline.admin import Inspector
from storage.publishing.record import PUBLICATION_PREFIX, PUSHED_PREFIX
from storage.shards import shard_state
from storage.shards.history import Archives
from storage.shards.indexes.definition import RUN_VERSION
from storage.shards.indexes.durable_runs import open_run
from storage.shards.indexes.runs import CorruptRun, version_of
from storage.shards.indexes.runs import check as check_run
from storage.shards.links import claiming_link
from storage.shards.part_store import TOMBSTONE, PartStore, owner_of
from storage.shards.parts import ROW_ID, Part, RunRef, read_table
from storage.shards.shard import shard_key
from storage.shards.shard_state import ShardState
from storage.stores.consensus import FIRST_SEQNO
from storage.timestamps.in_process import WINDOW_KEY
from storage.transactions.txns_state import TXNS_KEY, TxnsState
from storage.transactions.xid_blocks import XID_KEY

REGISTER_PREFIXES = (OID_KEY, WINDOW_KEY, XID_KEY, SEQUENCE_PREFIX, PUBLICATION_PREFIX, PUSHED_PREFIX)
"""Keys of what `storage.durable.registers` keeps."""


class Problem(Struct, frozen=True, kw_only=True):
    """Something that is not as it should be: where, what, and what it means."""

    where: str
    what: str


class Report(Struct, frozen=True, kw_only=True):
    """The result of a check. `orphans` are objects that nothing refers to; they cost room and nothing else."""

    shards: int
    parts: int
    bytes: int
    problems: tuple[Problem, ...]
    orphans: tuple[str, ...]


class Fsck:
    """One check of one environment."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._store = PartStore(inspector.blob, inspector.clock, inspector.random, "fsck")
        self._problems: list[Problem] = []
        self._parts = 0
        self._bytes = 0
        self._shared: dict[ShardId, frozenset[ShardId]] = {}
        self._borrowed: dict[ShardId, set[ShardId]] = {}
        """The shards that others are noted with as referring to their files, and whose files each refers to."""

    async def run(self, *, deep: bool = True) -> Report:
        """Check everything. `deep` reads every part; otherwise only their presence and sizes are checked."""
        listed = {entry.key: entry.bytes async for entry in self._inspector.blob.list("")}
        await self._inspector.record()
        txns = await self._inspector.txns()
        needed: set[str] = set()
        for shard in sorted({*txns.registered, *txns.forgotten, *txns.pending}):
            needed |= await self._check_shard(shard, txns, deep)
        for shard, owners in self._borrowed.items():
            for owner in sorted(owners):
                if shard not in self._shared.get(owner, ()):
                    self._problem(f"shard {shard}", f"it refers to files of {owner}, which does not know it")
        needed |= {
            key
            for record in txns.staged.values()
            for write in record.writes
            for part in write.parts
            for key in part.files
        }
        needed.update(key for record in txns.prepared.values() for key in record.files())
        for key in (TXNS_KEY, *(shard_key(s) for s in {*txns.registered, *txns.forgotten})):
            needed |= await self._check_rollups(key)
        await self._check_catalog(txns)
        await self._check_halves()
        await self._check_registers()
        needed |= {MARKER_KEY, COMPLETE_KEY}
        needed |= {key for key in listed if claiming_link(key) in needed}
        alive = set(txns.leases)
        orphans = [
            key
            for key in sorted(listed)
            if key not in needed and key.rsplit("/", 1)[-1].rpartition("-")[0] not in alive
        ]
        return Report(
            shards=len(txns.registered),
            parts=self._parts,
            bytes=self._bytes,
            problems=tuple(self._problems),
            orphans=tuple(orphans),
        )

    async def _check_halves(self) -> None:
        """Whether the two stores are those of one environment."""
        try:
            await check_marker(self._inspector.blob, await self._inspector.record())
        except ForeignEnvironment as error:
            self._problem("environment", str(error))

    async def _check_registers(self) -> None:
        """Whether the reservations can be read."""
        consensus = self._inspector.consensus
        for key in await consensus.list_keys():
            if not key.startswith(REGISTER_PREFIXES):
                continue
            head = await consensus.head(key)
            if head is not None:
                try:
                    decode_register(head.data, object, key)
                except (CorruptData, FileTrouble) as error:
                    self._problem(key, str(error))

    def _problem(self, where: str, what: str) -> None:
        self._problems.append(Problem(where=where, what=what))

    async def _check_shard(self, shard: ShardId, txns: TxnsState, deep: bool) -> set[str]:
        where = f"shard {shard}"
        try:
            durable, state = await self._inspector.shard(shard, txns)
        except (StorageError, ValueError) as error:
            self._problem(where, f"its state cannot be read: {error}")
            return set()
        try:
            shard_state.check(state)
        except AssertionError as error:
            self._problem(where, f"its state contradicts itself: {error}")
        self._shared[shard] = frozenset(state.shared)
        self._borrowed[shard] = {owner_of(key) for key in shard_state.state_files(state)} - {shard}
        registration = txns.registered.get(shard)
        if registration is not None and registration.applied and durable.upper <= registration.applied:
            self._problem(where, f"writes up to {registration.applied} were retracted but are not in the shard")
        ids: dict[str, list[np.ndarray]] = {"insert": [], "delete": []}
        complete = deep and not state.dropped
        for part in state.parts.values():
            self._parts += 1
            self._bytes += part.bytes
            try:
                table = await self._read(part, deep)
            except (CorruptData, FileTrouble) as error:
                complete = False
                if await self._still_there(shard, part):
                    self._problem(f"{where}, part {part.id}", str(error))
                continue
            if table is not None:
                ids[part.kind].append(table.column(ROW_ID).to_numpy())
            for index, ref in part.runs.items():
                try:
                    await self._check_run(part, ref, deep)
                except (CorruptData, NewerFormat, FileTrouble) as error:
                    if await self._still_there(shard, part):
                        self._problem(f"{where}, part {part.id}, key run of index {index}", str(error))
        if complete:
            self._check_row_ids(where, state, ids)
        await self._check_history(where, shard, state, deep)
        return {*shard_state.state_files(state), *state.garbage}

    async def _check_history(self, where: str, shard: ShardId, state: ShardState, deep: bool) -> None:
        """Whether the archives are there and whole, and the files of their parts."""
        for archive in state.history.values():
            self._bytes += archive.bytes
            try:
                size = await self._inspector.blob.size(archive.key)
                if size is None:
                    raise missing_blob(archive.key)
                if size != archive.bytes:
                    raise wrong_size(archive.key, size, archive.bytes)
                if deep:
                    for part in await Archives(self._store).read(archive):
                        await self._read(part, deep)
            except (CorruptData, FileTrouble) as error:
                txns = await self._inspector.txns()
                if archive.key in (await self._inspector.shard(shard, txns))[1].history:
                    self._problem(f"{where}, archive {archive.key}", str(error))

    async def _check_run(self, part: Part, ref: RunRef, deep: bool) -> None:
        """Raise unless the key run `ref` of `part` is there, whole, what its part says that it is, and says of each row
        at most one thing."""
        self._bytes += ref.bytes
        size = await self._inspector.blob.size(ref.key)
        if size is None:
            raise missing_blob(ref.key)
        if size != ref.bytes:
            raise wrong_size(ref.key, size, ref.bytes)
        if deep:
            data = await self._store.read_file(ref.key)
            if 0 < version_of(data) < RUN_VERSION:
                # Nobody reads it any more: it is made again by the servers.
                return
            run = open_run(part, ref, data)
            check_run(run)
            head = run.head
            if (ref.low, ref.high) != (head.low, head.high):
                raise CorruptRun("its part says other bounds")
            if ref.filter is not None and ref.filter != run.filter:
                raise CorruptRun("its part has another filter")

    def _check_row_ids(self, where: str, state: ShardState, ids: dict[str, list[np.ndarray]]) -> None:
        inserted = np.concatenate([*ids["insert"], np.empty(0, np.int64)])
        deleted = np.concatenate([*ids["delete"], np.empty(0, np.int64)])
        unique = np.unique(inserted)
        if len(unique) != len(inserted):
            self._problem(where, f"{len(inserted) - len(unique)} row ids occur twice")
        if len(inserted) and int(inserted.max()) >= state.next_row_id:
            self._problem(where, f"row id {int(inserted.max())} has not been given out yet")
        unknown = np.setdiff1d(deleted, unique)
        if len(unknown):
            self._problem(where, f"{len(unknown)} deletions refer to rows that are in no part")

    async def _read(self, part: Part, deep: bool) -> pa.Table | None:
        """The row ids of `part` after checking it; None when it was only looked at from outside."""
        if part.inline is not None:
            return read_table(part, part.inline, [ROW_ID, *part.columns]).select([ROW_ID])
        assert part.key is not None
        size = await self._inspector.blob.size(part.key)
        if size is None:
            raise missing_blob(part.key)
        if size == len(TOMBSTONE) and size != part.bytes:
            raise CorruptPart(f"{part.key} was prevented, but its transaction counts as committed")
        if size != part.bytes:
            raise wrong_size(part.key, size, part.bytes)
        if not deep:
            return None
        metadata = await self._store.footer(part.key, size)
        if metadata.num_rows != part.rows:
            raise CorruptPart(f"{part.key} has {metadata.num_rows} rows, expected {part.rows}")
        table = await self._store.read(part, [ROW_ID, *part.columns])
        return table.select([ROW_ID])

    async def _still_there(self, shard: ShardId, part: Part) -> bool:
        """Whether the newest state still has `part`: a live environment may have replaced it meanwhile."""
        txns = await self._inspector.txns()
        _, state = await self._inspector.shard(shard, txns)
        return state.parts.get(part.id) == part

    async def _check_rollups(self, key: str) -> set[str]:
        found: set[str] = set()
        for item in await self._inspector.consensus.scan(key, FIRST_SEQNO):
            try:
                entry = msgspec.msgpack.decode(unframed(item.data, f"diff {item.seqno} of {key}"), type=Entry)
            except (CorruptData, msgspec.MsgspecError) as error:
                self._problem(key, str(error))
                continue
            if entry.rollup is None or entry.rollup.key is None:
                continue
            found.add(entry.rollup.key)
            data = await self._inspector.blob.get(entry.rollup.key)
            if data is None:
                self._problem(key, f"rollup {entry.rollup.key} is not in the blob store")
                continue
            try:
                unframed(data, f"rollup {entry.rollup.key}")
            except (CorruptData, FileTrouble) as error:
                self._problem(key, str(error))
        return found

    async def catalog(self) -> list[CatalogRecord]:
        """Every record of the catalog as it is now."""
        return await self._catalog(await self._inspector.txns())

    async def _check_catalog(self, txns: TxnsState) -> None:
        records = await self._catalog(txns)
        oids = {record.oid for record in records}
        for record in records:
            if isinstance(record, Relation) and record.shard is not None and record.shard not in txns.registered:
                self._problem(f"table {record.name}", f"its shard {record.shard} is not registered")
            if isinstance(record, Relation):
                unknown = [oid for oid in record.constraints if oid not in oids]
                if unknown:
                    self._problem(f"table {record.name}", f"it names what is not there: {unknown}")
            if isinstance(record, (Constraint, Index)) and record.relation not in oids:
                what = "index" if isinstance(record, Index) else "constraint"
                self._problem(f"{what} {record.name}", f"its table {record.relation} is not there")

    async def _catalog(self, txns: TxnsState) -> list[CatalogRecord]:
        _, state = await self._inspector.shard(CATALOG_SHARD, txns)
        live: dict[int, tuple[int, bytes]] = {}
        try:
            for _, part in sorted(state.parts.items(), key=lambda item: item[1].kind == "delete"):
                table = await self._store.read(part, [ROW_ID, "c1", "c2"])
                for row in table.to_pylist():
                    if part.kind == "insert":
                        live[row[ROW_ID]] = (row["c1"], row["c2"])
                    else:
                        live.pop(row[ROW_ID], None)
            return [decoded(oid, data) for oid, data in live.values() if oid]
        except (CorruptData, msgspec.MsgspecError) as error:
            self._problem("catalog", str(error))
            return []


async def fsck(inspector: Inspector, *, deep: bool = True) -> Report:
    """Check the environment that `inspector` looks at."""
    return await Fsck(inspector).run(deep=deep)


def render(report: Report) -> str:
    """`report` as text for a terminal."""
    lines = [f"checked {report.shards} shards, {report.parts} parts, {report.bytes} bytes"]
    lines += [f"PROBLEM {problem.where}: {problem.what}" for problem in report.problems]
    lines += [f"orphan {key}" for key in report.orphans]
    lines.append("clean" if not report.problems else f"{len(report.problems)} problems")
    return "\n".join(lines)
