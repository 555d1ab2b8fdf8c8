"""A transaction's buffer: what it will write, until it is committed.

A `Txn` belongs to one process and one task at a time. It buffers Arrow tables, takes over Parquet files that
engines wrote, and keeps what is not data (new shards and schemas, dropped shards, catalog updates). Beyond a
budget the buffered tables are spilled: encoded and uploaded, so that a transaction of any size needs bounded
memory (`spill_due`, `spill`).

Row ids of uncommitted rows are provisional (`PROVISIONAL_ROW_ID` and above, counted per shard), so that later
statements of the transaction can delete them; they are translated when the parts are appended.

`seal` turns the buffer into parts once. A commit that has to be repeated at a higher CSN uses the same parts,
byte for byte. Savepoints cost the same however much is buffered.

A crash loses the buffer and nothing else; spilled files of a dead process are garbage-collected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NewType, Protocol, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from storage.catalog.model import CatalogUpdate
from storage.catalog.store import net_updates
from storage.errors import StorageError
from storage.ids import ShardId
from storage.off_loop import AT_ONCE_ROWS, MANY_COLUMNS
from storage.shards.partitions.transforms import PartitionField
from storage.shards.parts import (
    INLINE_LIMIT_BYTES,
    PROVISIONAL_ROW_ID,
    ROW_ID,
    Part,
    UploadedPart,
    arrow_bytes,
    inline_part,
    written_table,
)
from storage.shards.shard_state import encode_schema
from storage.shards.whole_deletions import deletion_of
from storage.shards.writes import ShardWrites
from storage.timestamps.csn import Csn
from storage.transactions.buffers import (
    Buffer,
    BufferedRun,
    buffered_parts,
    deleted_ids,
    missing_rows,
    rows_in_memory,
    rows_of,
    settle,
    slices,
)
from storage.transactions.local_parts import LocalParts, schema_groups
from storage.transactions.row_places import NewPart, Run, coalesced, committed_ids, delete_groups, is_provisional
from storage.transactions.rows_ahead import Ints, apart, netted

SPILL_BUDGET_BYTES = 32 * 1024 * 1024
"""Arrow bytes that one transaction buffers before `spill_due`."""

SPILL_FILE_BYTES = 64 * 1024 * 1024
"""Arrow bytes that go into one spilled file at most."""

SPILL_FILE_ROWS = 1024 * 1024
"""Rows that go into one spilled file, or that one transaction buffers, at most: key runs take 200 bytes for each."""

COMMIT_INLINE_BYTES = 4 * 1024 * 1024
"""Inline bytes in one commit at most: it is one value in consensus, whose limit is 16 MiB."""

Savepoint = NewType("Savepoint", int)

Partition: TypeAlias = tuple[PartitionField, ...]


class PartWriter(Protocol):
    """What a transaction needs of its environment."""

    async def upload(self, kind: str, shard: ShardId, table: pa.Table, partition: Partition = ()) -> Part:
        """Encode `table` as Parquet and store it under a new key. `partition`: what its rows may have in common."""
        ...

    async def prepare(self, kind: str, shard: ShardId, table: pa.Table, partition: Partition = ()) -> Part:
        """Encode `table` as Parquet and begin to store it; the commit waits for it, or promises it."""
        ...

    async def finished(self, keys: Iterable[str]) -> StorageError | None:
        """Wait until the files begun by `prepare` are stored; the first failure, or None."""
        ...

    async def describe(self, kind: str, uploaded: UploadedPart, partition: Partition = ()) -> Part:
        """The part for a file that an engine wrote: rows and statistics from its footer."""
        ...

    def discard(self, parts: Sequence[Part]) -> None:
        """These parts will not be committed; their files may be removed."""
        ...


class SealedTxn(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction ready to commit at any CSN."""

    shards: tuple[ShardWrites, ...]
    xids: tuple[int, ...] = ()
    catalog_updates: tuple[CatalogUpdate, ...] = ()
    catalog_expected: Csn | None = None

    @property
    def has_definitions(self) -> bool:
        """Whether it changes more than rows."""
        return bool(self.catalog_updates) or any(
            item.create or item.drop or item.schema is not None for item in self.shards
        )


class _Budget(Struct):
    """Inline bytes that a commit may still carry."""

    left: int


class _Segment(Struct):
    """What was written between two savepoints."""

    buffers: dict[ShardId, Buffer] = field(default_factory=dict)
    creates: dict[ShardId, bytes] = field(default_factory=dict)
    schemas: dict[ShardId, bytes] = field(default_factory=dict)
    forgets: list[ShardId] = field(default_factory=list)
    catalog_updates: list[CatalogUpdate] = field(default_factory=list)


class Txn:
    """See the module's contract. Made by `Environment.begin`."""

    def __init__(self, writer: PartWriter, catalog_csn: Csn, xid: int | None = None) -> None:
        self.xid = xid
        self.changes = 0
        """How often it was written to."""
        self.place = 0
        """By which other transactions name its rows (`storage.transactions.rows_ahead`); 0: they do not."""
        self._sealed_xids: tuple[int, ...] = ()
        self._writer = writer
        self._catalog_csn = catalog_csn
        self._catalog_expected: Csn | None = None
        self._segments: list[_Segment] = [_Segment()]
        self._next_row: dict[ShardId, int] = {}
        self._rows_at: list[dict[ShardId, int]] = [{}]
        self._buffered = 0
        self._sealed: SealedTxn | None = None
        self._local: dict[ShardId, tuple[Part, ...]] = {}
        self._merged: list[Txn] = []
        self._placed: dict[ShardId, list[list[Run]]] = {}
        self._partition: dict[ShardId, Partition] = {}
        self._prepared: dict[tuple[str, ShardId, tuple[int, ...]], tuple[list[pa.Table], Part]] = {}

    @property
    def buffered_bytes(self) -> int:
        """Arrow bytes held in memory."""
        return self._buffered + sum(other.buffered_bytes for other in self._merged)

    @property
    def has_files(self) -> bool:
        """Whether files are in it that were not made of the rows that it holds in memory."""
        return any(
            buffer.parts
            for member in self._members()
            for segment in member._segments
            for buffer in segment.buffers.values()
        )

    @property
    def shards(self) -> frozenset[ShardId]:
        """Every shard that the transaction writes to, creates, alters or forgets."""
        named: set[ShardId] = set()
        for segment in self._segments:
            named.update(segment.buffers, segment.creates, segment.schemas, segment.forgets)
        for other in self._merged:
            named |= other.shards
        return frozenset(named)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return (
            not self.shards
            and not any(segment.catalog_updates for segment in self._segments)
            and all(other.is_empty for other in self._merged)
        )

    def write(self, shard: ShardId, rows: pa.Table | pa.RecordBatch) -> int:
        """Buffer new rows (columns ``c<attnum>``). Returns the provisional id of the first."""
        table = written_table(rows)
        buffer = self._buffer(shard)
        first = self._take_rows(shard, table.num_rows)
        if table.num_rows:
            if buffer.open_run and buffer.runs[-1].tables[0].schema.equals(table.schema):
                buffer.runs[-1].tables.append(table)
                buffer.runs[-1].rows += table.num_rows
            else:
                buffer.runs.append(BufferedRun(first, [table], table.num_rows))
                buffer.open_run = True
            self._buffered += arrow_bytes(table)
        self._changed(shard)
        return first

    def lay_out(self, shard: ShardId, partition: Partition) -> None:
        """From now on new files of `shard` say their rows' values of `partition`, where they have them in common."""
        self._partition[shard] = partition

    def end_run(self, shard: ShardId) -> None:
        """Let the rows of `shard` that are written next begin a new part, unless all are few."""
        self._buffer(shard).open_run = False

    async def write_part(self, shard: ShardId, uploaded: UploadedPart | Part) -> Part:
        """Take over a file of new rows: an engine's, or (a Part) another shard's. Returns it with provisional ids."""
        if isinstance(uploaded, Part):
            part = uploaded
        else:
            part = await self._writer.describe("insert", uploaded, self._partition.get(shard, ()))
        part = msgspec.structs.replace(part, first_row_id=self._take_rows(shard, part.rows))
        if part.rows:
            buffer = self._buffer(shard)
            buffer.parts.append(part)
            buffer.open_run = False
        self._changed(shard)
        return part

    def delete(self, shard: ShardId, rows: pa.Table | pa.RecordBatch) -> None:
        """Buffer deletions: first column ``_row_id`` (int64), then the rows' old values.

        Raises ValueError when the first column is not that.
        """
        table = written_table(rows)
        if not table.num_columns or table.schema.field(0).name != ROW_ID:
            raise ValueError(f"the first column of a deletion must be {ROW_ID}")
        if table.num_rows:
            self._buffer(shard).deletes.append(table)
            self._buffered += arrow_bytes(table)
        self._changed(shard)

    async def delete_part(self, shard: ShardId, uploaded: UploadedPart) -> Part:
        """Take over a Parquet file of deletions (layout as in `delete`) that an engine wrote."""
        part = await self._writer.describe("delete", uploaded)
        if part.rows:
            self._buffer(shard).parts.append(part)
        self._changed(shard)
        return part

    def delete_whole(self, shard: ShardId, part: Part) -> None:
        """Delete all rows of the insert part `part`, none of which is deleted yet (`storage.shards.whole_deletions`).
        The caller holds what it has read the part from until the transaction has ended."""
        self._buffer(shard).parts.append(deletion_of(part))
        self._changed(shard)

    def create_shard(self, shard: ShardId, schema: pa.Schema) -> None:
        """Create and register `shard` in this commit."""
        self._segments[-1].creates[shard] = encode_schema(schema)
        self._changed(shard)

    def alter_schema(self, shard: ShardId, schema: pa.Schema) -> None:
        """Give `shard` a new schema version in this commit. Parts written before keep theirs."""
        self._segments[-1].schemas[shard] = encode_schema(schema)
        self._changed(shard)

    def forget_shard(self, shard: ShardId) -> None:
        """Drop `shard` in this commit: it is unreadable from then on, and its files are removed later."""
        self._segments[-1].forgets.append(shard)
        self._changed(shard)

    def update_catalog(self, updates: Sequence[CatalogUpdate], *, expected: Csn | None = None) -> None:
        """Change the catalog in this commit.

        `expected` is the CSN of the catalog snapshot that `updates` were worked out from (default: the current
        one when the transaction began). The commit raises `CatalogConflict` when the catalog has changed since.
        """
        if self._catalog_expected is None:
            self._catalog_expected = self._catalog_csn if expected is None else expected
        elif expected is not None:
            self._catalog_expected = min(self._catalog_expected, expected)
        self._segments[-1].catalog_updates.extend(updates)
        self._sealed = None

    def merge(self, other: Txn) -> None:
        """Make `other` part of this transaction: both commit together or not at all.

        `other` must not be used afterwards. Raises ValueError when both change the catalog or one shard's schema.
        """
        if other._has_ddl() and self._has_ddl():
            raise ValueError("two transactions that change the catalog cannot be merged")
        self._merged.append(other)
        self._sealed = None
        self._local.clear()

    def savepoint(self) -> Savepoint:
        """A point to return to."""
        self._segments.append(_Segment())
        self._rows_at.append(dict(self._next_row))
        return Savepoint(len(self._segments) - 1)

    def rollback_to(self, savepoint: Savepoint) -> None:
        """Undo everything since `savepoint`, which stays usable. Raises ValueError when it is gone."""
        if not 1 <= savepoint < len(self._segments):
            raise ValueError(f"savepoint {savepoint} does not exist")
        for segment in self._segments[savepoint:]:
            for buffer in segment.buffers.values():
                self._buffered -= buffer.nbytes()
                self._writer.discard(buffer.parts)
        self._segments[savepoint:] = [_Segment()]
        self._next_row = dict(self._rows_at[savepoint])
        del self._rows_at[savepoint + 1 :]
        self._sealed = None
        self._local.clear()

    def release(self, savepoint: Savepoint) -> None:
        """Forget `savepoint` and all later ones: what was done since stays."""
        into, later = self._segments[savepoint - 1], self._segments[savepoint:]
        for segment in later:
            for shard, buffer in segment.buffers.items():
                known = into.buffers.get(shard)
                if known is None:
                    into.buffers[shard] = buffer
                else:
                    known.absorb(buffer)
            into.creates.update(segment.creates)
            into.schemas.update(segment.schemas)
            into.forgets.extend(segment.forgets)
            into.catalog_updates.extend(segment.catalog_updates)
        del self._segments[savepoint:], self._rows_at[savepoint:]

    def discard_rows(self, shard: ShardId) -> None:
        """Forget everything that was written to `shard`, whatever the savepoints. Row ids are not used again."""
        for segment in self._segments:
            buffer = segment.buffers.pop(shard, None)
            if buffer is not None:
                self._buffered -= buffer.nbytes()
                self._writer.discard(buffer.parts)
        self._changed(shard)

    def abandon(self) -> None:
        """Roll the whole transaction back: its uploaded files may be removed."""
        for segment in self._segments:
            for buffer in segment.buffers.values():
                self._writer.discard(buffer.parts)
        for other in self._merged:
            other.abandon()
        self.unseal()
        self._segments = [_Segment()]
        self._merged = []
        self._buffered = 0
        self._sealed = None

    def local_parts(self, shard: ShardId) -> tuple[Part, ...]:
        """The transaction's own inserts and deletes in `shard`, in order, with provisional row ids."""
        cached = self._local.get(shard)
        if cached is None:
            buffers = self._buffers_of(shard)
            cached = self._local[shard] = buffered_parts(buffers) if buffers else ()
        return cached

    async def make_local_parts(self, shard: ShardId) -> None:
        """Let `local_parts` be at hand: what takes long to make is made on a thread. Nothing else may use the
        transaction meanwhile."""
        if shard not in self._local:
            buffers = self._buffers_of(shard)
            missing = sum([missing_rows(buffer) for buffer in buffers])
            if missing > AT_ONCE_ROWS:
                self._local[shard] = await asyncio.to_thread(buffered_parts, buffers)

    def _buffers_of(self, shard: ShardId) -> list[Buffer]:
        found = [segment.buffers.get(shard) for segment in self._segments]
        return [buffer for buffer in found if buffer is not None]

    def inserted_rows(self, shard: ShardId) -> int:
        """How many rows the transaction itself has added to `shard`, those that it has deleted again among them."""
        return self._next_row.get(shard, PROVISIONAL_ROW_ID) - PROVISIONAL_ROW_ID

    def deletes_from(self, shard: ShardId) -> bool:
        """Whether the transaction itself (not what was merged into it) deletes rows of `shard`."""
        return any(
            bool(buffer.deletes) or any(part.kind == "delete" for part in buffer.parts)
            for segment in self._segments
            if (buffer := segment.buffers.get(shard)) is not None
        )

    def rows(self, shard: ShardId, ids: Iterable[int]) -> pa.Table | None:
        """The buffered new rows of `shard` with these provisional ids, in their order; None when one is not there, or
        not in memory, or they are of several schemas."""
        return rows_of(self._buffers_of(shard), ids)

    def deleted_ids(self, shard: ShardId) -> Ints | None:
        """The ids of the rows of `shard` that the transaction itself deletes; None when a file has some of them."""
        return deleted_ids(self._buffers_of(shard))

    def rows_in_memory(self, shard: ShardId) -> list[tuple[int | None, pa.Table]] | None:
        """The rows of `shard` that the transaction itself adds and deletes, as `buffers.rows_in_memory` has them."""
        return rows_in_memory(self._buffers_of(shard))

    def settle(self, shard: ShardId, committed: Mapping[int, int]) -> None:
        """Rows of other transactions that this one deletes have got ids of their own: `committed`, by their names."""
        settle(self._buffers_of(shard), committed)
        self._changed(shard)

    @property
    def spill_due(self) -> bool:
        """Whether the buffer has outgrown its budget."""
        return self._buffered > SPILL_BUDGET_BYTES or any(
            run.rows > SPILL_FILE_ROWS
            for segment in self._segments[-1:]
            for buffer in segment.buffers.values()
            for run in buffer.runs[-1:]
        )

    async def spill(self, *, force: bool = False) -> None:
        """Upload what is buffered if it has outgrown its budget (or at any size with `force`)."""
        if not force and not self.spill_due:
            return
        for segment, shard in [(each, shard) for each in self._segments for shard in each.buffers]:
            await self._spill_buffer(segment, shard)

    async def _spill_buffer(self, segment: _Segment, shard: ShardId) -> None:
        buffer = segment.buffers[shard]
        while buffer.runs:
            run = buffer.runs[0]
            first = run.first
            for table in slices(run.table(), SPILL_FILE_BYTES, SPILL_FILE_ROWS):
                part = await self._writer.upload("insert", shard, table, self._partition.get(shard, ()))
                buffer.parts.append(msgspec.structs.replace(part, first_row_id=first))
                first += table.num_rows
            self._buffered -= sum([arrow_bytes(table) for table in run.tables])
            del buffer.runs[0]
        buffer.open_run = False
        kept, deletes = apart(buffer.deletes)  # What is in a file cannot be settled.
        for group in schema_groups(deletes):
            for table in slices(pa.concat_tables(group), SPILL_FILE_BYTES, SPILL_FILE_ROWS):
                buffer.parts.append(await self._writer.upload("delete", shard, table))
        self._buffered -= sum([arrow_bytes(table) for table in deletes])
        buffer.deletes = kept
        buffer.local_deletes = LocalParts("delete")
        self._changed(shard)

    @staticmethod
    def of(writer: PartWriter, catalog_csn: Csn, writes: Iterable[ShardWrites], xid: int) -> Txn:
        """The transaction `xid` with what it `writes`, which has been sealed; with its provisional row ids."""
        txn = Txn(writer, catalog_csn)
        txn._sealed_xids = (xid,)
        segment = txn._segments[0]
        for item in writes:
            if item.schema is not None:
                (segment.creates if item.create else segment.schemas)[item.shard] = item.schema
            if item.drop:
                segment.forgets.append(item.shard)
            if item.parts:
                segment.buffers[item.shard] = Buffer(parts=list(item.parts))
                inserts = [part for part in item.parts if part.kind == "insert"]
                ends = [part.first_row_id + part.rows for part in inserts]
                txn._next_row[item.shard] = max([PROVISIONAL_ROW_ID, *ends])
        return txn

    async def seal(self) -> SealedTxn:
        """The transaction as parts, uploading what is too large to go inline. Cached until something changes."""
        if self._sealed is None:
            self._sealed = await self._seal()
        return self._sealed

    async def _seal(self) -> SealedTxn:
        members = self._members()
        shards: dict[ShardId, None] = {}
        for member in members:
            for segment in member._segments:
                for group in (segment.creates, segment.schemas, segment.buffers, segment.forgets):
                    shards.update(dict.fromkeys(group))
        budget = _Budget(COMMIT_INLINE_BYTES)
        sealed = [await self._seal_shard(members, shard, budget) for shard in shards]
        updates, expected = list[CatalogUpdate](), None
        own = [member.xid for member in members if member.xid is not None]
        xids = (*own, *(xid for member in members for xid in member._sealed_xids))
        for member in members:
            for segment in member._segments:
                updates.extend(segment.catalog_updates)
            if member._catalog_expected is not None:
                expected = member._catalog_expected
        return SealedTxn(
            shards=tuple(sealed),
            xids=xids,
            catalog_updates=tuple(net_updates(updates) if updates else ()),
            catalog_expected=expected,
        )

    async def _seal_shard(self, members: list[Txn], shard: ShardId, budget: _Budget) -> ShardWrites:
        parts: list[Part] = []
        inserts: list[NewPart] = []
        deletes: list[tuple[int, pa.Table]] = []
        schema: bytes | None = None
        create = drop = False
        for scope, member in enumerate(members):
            for segment in member._segments:
                schema = segment.creates.get(shard, schema)
                create = create or shard in segment.creates
                schema = segment.schemas.get(shard, schema)
                drop = drop or shard in segment.forgets
                buffer = segment.buffers.get(shard)
                if buffer is None:
                    continue
                parts.extend(msgspec.structs.replace(part, scope=scope) for part in buffer.parts)
                inserts.extend(NewPart([Run(scope, run.first, run.rows)], run.tables) for run in buffer.runs)
                deletes.extend((scope, table) for table in buffer.deletes)
        if drop and create:
            self._writer.discard(parts)
            return ShardWrites(shard=shard)
        if drop:
            self._writer.discard(parts)
            return ShardWrites(shard=shard, drop=True)
        if deletes:
            inserts, deletes = netted(inserts, deletes, [member.place for member in members])
        own = any(is_provisional(table) for _, table in deletes) or any(
            part.kind == "delete" and part.row_id_bounds[1] >= PROVISIONAL_ROW_ID for part in parts
        )
        placed = [[Run(part.scope, part.first_row_id, part.rows)] for part in parts if part.kind == "insert"]
        for insert in inserts if own or len(inserts) < 2 else coalesced(inserts):
            scope, first, _ = insert.runs[0]
            part = await members[scope]._encode("insert", shard, insert.tables, budget)
            parts.append(msgspec.structs.replace(part, scope=scope, first_row_id=first))
            placed.append(insert.runs)
        self._placed[shard] = placed
        for scope, group in delete_groups(deletes):
            part = await members[scope]._encode("delete", shard, group, budget)
            parts.append(msgspec.structs.replace(part, scope=scope))
        return ShardWrites(shard=shard, parts=tuple(parts), schema=schema, create=create)

    async def _encode(self, kind: str, shard: ShardId, tables: list[pa.Table], budget: _Budget) -> Part:
        """One part for `tables`. A file is made once, also when this transaction is merged into several others."""
        slot = (kind, shard, tuple(id(table) for table in tables))
        prepared = self._prepared.get(slot)
        if prepared is not None:
            return prepared[1]
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        if arrow_bytes(table) <= INLINE_LIMIT_BYTES * 2:
            wide = table.num_columns > MANY_COLUMNS
            part = await asyncio.to_thread(inline_part, kind, table) if wide else inline_part(kind, table)
            if part.bytes <= min(INLINE_LIMIT_BYTES, budget.left):
                budget.left -= part.bytes
                return part
        part = await self._writer.prepare(
            kind, shard, table, self._partition.get(shard, ()) if kind == "insert" else ()
        )
        # NOTE: the tables are kept with it. The slot has their addresses, which nothing else may get meanwhile.
        self._prepared[slot] = (list(tables), part)
        return part

    def committed_row_ids(
        self, member: Txn, shard: ShardId, ids: np.ndarray[Any, Any], parts: Sequence[Part]
    ) -> np.ndarray[Any, Any]:
        """`ids` of rows of `member` (this transaction, or one that was merged into it) as they are after the commit,
        whose insert parts the shard has as `parts`. Raises ValueError when `parts` are others."""
        return committed_ids(ids, self._members().index(member), self._placed[shard], parts)

    def unseal(self) -> None:
        """Forget the parts made by `seal`: their keys are spent, and the next `seal` makes new ones."""
        for member in self._members():
            self._writer.discard([part for _, part in member._prepared.values()])
            member._prepared.clear()
            member._sealed = None

    def _members(self) -> list[Txn]:
        found: list[Txn] = [self]
        for other in self._merged:
            found.extend(other._members())
        return found

    def _has_ddl(self) -> bool:
        return any(
            segment.catalog_updates or segment.creates or segment.schemas or segment.forgets
            for member in self._members()
            for segment in member._segments
        )

    def _buffer(self, shard: ShardId) -> Buffer:
        buffers = self._segments[-1].buffers
        if shard not in buffers:
            buffers[shard] = Buffer()
        return buffers[shard]

    def _take_rows(self, shard: ShardId, rows: int) -> int:
        first = self._next_row.get(shard, PROVISIONAL_ROW_ID)
        self._next_row[shard] = first + rows
        return first

    def _changed(self, shard: ShardId) -> None:
        self.changes += 1
        self._sealed = None
        self._local.pop(shard, None)
