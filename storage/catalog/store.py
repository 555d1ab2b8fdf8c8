"""The catalog: a shard like any other, kept current in memory.

Its rows are the catalog's live records, one each: ``c1`` the oid, ``c2`` the record as MessagePack. One more row,
with oid 0, carries the first oid never used, so that an oid is not given out again after its record is gone.

`CatalogStore` follows the shard. A snapshot is an immutable value, taken by reference; `snapshot_at` and
`subscribe_at` know every version since this process opened the environment, and older ones for as long as
the shard can be read there.
"""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa
from msgspec import Struct

from storage.bounded_map import BoundedMap
from storage.catalog.model import WHOLE, CatalogRecord, CatalogSnapshot, CatalogUpdate
from storage.errors import AsOfNotReadable, CatalogConflict, CorruptState, NewerFormat, UnknownDatabase
from storage.ids import CATALOG_SHARD, ShardId
from storage.shards.part_store import PartStore
from storage.shards.parts import ROW_ID, Part
from storage.shards.shard import ShardChanges, ShardSnapshot
from storage.shards.writes import ShardWrites
from storage.timestamps.csn import Csn

CATALOG_SCHEMA = pa.schema([pa.field("c1", pa.int64()), pa.field("c2", pa.binary())])
NEXT_OID_ROW = 0

KEPT_VERSIONS = 1024
"""Versions of the catalog held in memory; they share almost all of their structure."""

KEPT_PAST = 16
"""Versions of before that have been read again, by who looks at the past, held in memory."""

_Row = tuple[int, int, int, bytes]
"""Whether a row of the shard came (1) or went (-1), its row id, its oid and its record."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[CatalogRecord] = msgspec.msgpack.Decoder(CatalogRecord)


class CatalogDelta(Struct, frozen=True, kw_only=True):
    """One change: `updates` took effect at `csn` and led to `snapshot`."""

    csn: Csn
    updates: tuple[CatalogUpdate, ...]
    snapshot: CatalogSnapshot


class CatalogReader(Protocol):
    """How the catalog reads its shard."""

    async def snapshot(self, shard: ShardId, as_of: Csn) -> ShardSnapshot:
        """The parts that make up `shard` at `as_of`. Raises AsOfNotReadable."""
        ...

    async def changes(self, shard: ShardId, after: Csn, until: Csn) -> ShardChanges:
        """What was written to `shard` in (`after`, `until`]. Raises AsOfNotReadable."""
        ...

    async def read_part(self, part: Part, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of `part`."""
        ...

    def last_write(self, shard: ShardId) -> Csn:
        """The latest write of `shard` that this process has seen committed."""
        ...


class CatalogStore:
    """See the module's contract."""

    def __init__(self, reader: CatalogReader, parts: PartStore) -> None:
        self._reader = reader
        self._parts = parts
        self._lock = asyncio.Lock()
        self._moved = asyncio.Event()
        self._deltas: list[CatalogDelta] = []
        self._base = CatalogSnapshot.empty()
        self.newest = self._base
        self._rows: dict[int, tuple[int, bytes]] = {}
        self._past: BoundedMap[Csn, CatalogSnapshot] = BoundedMap(max_entries=KEPT_PAST)

    def current(self, database: int = WHOLE) -> CatalogSnapshot:
        """The newest catalog, from memory: the whole, or what sessions of a database see. Raises
        `UnknownDatabase` once that has been dropped."""
        if database == WHOLE:
            return self.newest
        # NOTE: each statement comes by here.
        found = self.newest.databases.get(database)
        if found is None:
            raise UnknownDatabase(f"there is no database with oid {database}")
        return found

    @property
    def is_behind(self) -> bool:
        """Whether this process has seen a definition committed that `current` lacks."""
        return self._reader.last_write(CATALOG_SHARD) > self.newest.csn

    async def load(self, as_of: Csn, last_write: Csn) -> None:
        """Read the whole catalog at `as_of`; its latest write up to there is at `last_write`."""
        async with self._lock:
            self._base, self._rows = await self._read(as_of, last_write)
            self.newest = self._base
            self._deltas = []

    async def catch_up(self) -> CatalogSnapshot:
        """Bring `current` up to everything that this process had seen committed when this was called."""
        last_write = self._reader.last_write(CATALOG_SHARD)
        async with self._lock:
            if last_write > self.newest.csn:
                await self._advance(last_write)
            return self.newest

    async def snapshot_at(self, ts: Csn) -> CatalogSnapshot:
        """The catalog as of `ts`. Raises `AsOfNotReadable` when its history there has been folded away."""
        if ts > self.newest.csn and self.is_behind:
            # Another process's definition that this one has seen committed, and not read yet.
            await self.catch_up()
        if ts >= self.newest.csn:
            return self.newest
        if ts >= self._base.csn:
            at = bisect.bisect_right(self._deltas, ts, key=lambda delta: delta.csn)
            return self._base if at == 0 else self._deltas[at - 1].snapshot
        known = self._past.get(ts)
        if known is None:
            known, _ = await self._read(ts, ts)
            self._past.put(ts, known)
        return known

    async def subscribe_at(self, ts: Csn) -> AsyncIterator[CatalogDelta]:
        """The catalog at `ts` (as one delta of additions), then every later change. Endless.

        However late a subscriber takes its deltas, their sum is the catalog: what is not in memory any more is read
        from the shard, and comes as one delta where its history has been folded.
        """
        seen = await self.snapshot_at(ts)
        yield CatalogDelta(
            csn=seen.csn,
            updates=tuple(CatalogUpdate(record=record, diff=1) for record in seen.all()),
            snapshot=seen,
        )
        while True:
            moved = self._moved
            if seen.csn < self._base.csn:
                missed = await self._missed(seen, self._base)
            else:
                at = bisect.bisect_right(self._deltas, seen.csn, key=lambda delta: delta.csn)
                missed = self._deltas[at:]
            for delta in missed:
                seen = delta.snapshot
                yield delta
            if seen.csn >= self.newest.csn:
                await moved.wait()

    async def _missed(self, seen: CatalogSnapshot, until: CatalogSnapshot) -> list[CatalogDelta]:
        """The changes between two versions that are not in memory."""
        try:
            changes = await self._reader.changes(CATALOG_SHARD, seen.csn, until.csn)
        except AsOfNotReadable:
            return [CatalogDelta(csn=until.csn, updates=_difference(seen, until), snapshot=until)]
        found = []
        for csn, rows in await self._rows_by_csn(changes):
            updates = _updates(rows)
            next_oids = {oid: (row_id, data) for _, row_id, oid, data in rows if oid == NEXT_OID_ROW}
            seen = _with_next_oid(_applied(seen, updates, csn), next_oids)
            found.append(CatalogDelta(csn=csn, updates=updates, snapshot=seen))
        return found

    async def writes_for(self, updates: Sequence[CatalogUpdate], expected: Csn) -> ShardWrites:
        """What `updates` to the catalog of `expected` come to as a write of its shard.

        Raises CatalogConflict when the catalog has moved past `expected`, or when an update does not fit.
        """
        async with self._lock:
            if self.newest.csn > expected:
                raise CatalogConflict(f"the catalog changed at {self.newest.csn}")
            try:
                after = self.newest.apply(updates, self.newest.csn)
            except ValueError as error:
                raise CatalogConflict(str(error)) from error
            gone = [update.record.oid for update in updates if update.diff == -1]
            added = [(u.record.oid, _encoder.encode(u.record)) for u in updates if u.diff == 1]
            if after.next_oid != self.newest.next_oid or not self._rows:
                if NEXT_OID_ROW in self._rows:
                    gone.append(NEXT_OID_ROW)
                added.append((NEXT_OID_ROW, _encoder.encode(after.next_oid)))
            parts: list[Part] = []
            if added:
                parts.append(await self._parts.encode("insert", CATALOG_SHARD, _record_table(added)))
            if gone:
                rows = [(self._rows[oid][0], oid, self._rows[oid][1]) for oid in gone]
                parts.append(await self._parts.encode("delete", CATALOG_SHARD, _delete_table(rows)))
            return ShardWrites(shard=CATALOG_SHARD, parts=tuple(parts))

    async def _read(self, as_of: Csn, csn: Csn) -> tuple[CatalogSnapshot, dict[int, tuple[int, bytes]]]:
        snapshot = await self._reader.snapshot(CATALOG_SHARD, as_of)
        live: dict[int, tuple[int, bytes]] = {}
        for part in snapshot.inserts:
            for row_id, oid, data in await self._rows_of(part):
                live[row_id] = (oid, data)
        for part in snapshot.deletes:
            for row_id, _, _ in await self._rows_of(part):
                live.pop(row_id, None)
        rows = {oid: (row_id, data) for row_id, (oid, data) in live.items()}
        if len(rows) != len(live):
            raise CorruptState("the catalog holds two records with one oid")
        records = [decoded(oid, data) for oid, (_, data) in rows.items() if oid != NEXT_OID_ROW]
        try:
            catalog = CatalogSnapshot.empty().apply((CatalogUpdate(record=r, diff=1) for r in records), csn)
        except ValueError as error:
            raise CorruptState(f"the catalog contradicts itself: {error}") from error
        return _with_next_oid(catalog, rows), rows

    async def _rows_of(self, part: Part) -> list[tuple[int, int, bytes]]:
        table = await self._reader.read_part(part, [ROW_ID, "c1", "c2"])
        return list(zip(*(table.column(name).to_pylist() for name in (ROW_ID, "c1", "c2")), strict=True))

    async def _advance(self, last_write: Csn) -> None:
        try:
            changes = await self._reader.changes(CATALOG_SHARD, self.newest.csn, last_write)
        except AsOfNotReadable:
            # The history between was folded while we did not look; the difference is one delta.
            snapshot, self._rows = await self._read(last_write, last_write)
            self._publish(snapshot, _difference(self.newest, snapshot))
            return
        for csn, rows in await self._rows_by_csn(changes):
            for diff, row_id, oid, data in rows:
                if diff == 1:
                    self._rows[oid] = (row_id, data)
                elif oid in self._rows and self._rows[oid][0] == row_id:
                    del self._rows[oid]
            updates = _updates(rows)
            self._publish(_with_next_oid(_applied(self.newest, updates, csn), self._rows), updates)

    async def _rows_by_csn(self, changes: ShardChanges) -> list[tuple[Csn, list[_Row]]]:
        """The rows that went and came at each CSN, in this order."""
        by_csn: dict[Csn, list[Part]] = {}
        for part in (*changes.deletes, *changes.inserts):
            by_csn.setdefault(part.csn, []).append(part)
        found = []
        for csn in sorted(by_csn):
            rows: list[_Row] = []
            for part in by_csn[csn]:
                diff = 1 if part.kind == "insert" else -1
                rows += [(diff, *row) for row in await self._rows_of(part)]
            found.append((csn, rows))
        return found

    def _publish(self, snapshot: CatalogSnapshot, updates: tuple[CatalogUpdate, ...]) -> None:
        self.newest = snapshot
        self._deltas.append(CatalogDelta(csn=snapshot.csn, updates=updates, snapshot=snapshot))
        if len(self._deltas) > KEPT_VERSIONS:
            self._base = self._deltas[0].snapshot
            del self._deltas[0]
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


def decoded(oid: int, data: bytes) -> CatalogRecord:
    """A record. Raises NewerFormat when it says what this version does not know: without that it would be another one,
    and written again it would be lost."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise NewerFormat(
            f"the definition of object {oid} is not one that this version of Tidegate knows ({error}); upgrade Tidegate"
        ) from error


def _updates(rows: Iterable[_Row]) -> tuple[CatalogUpdate, ...]:
    return tuple(CatalogUpdate(record=decoded(oid, data), diff=d) for d, _, oid, data in rows if oid != NEXT_OID_ROW)


def _applied(catalog: CatalogSnapshot, updates: Iterable[CatalogUpdate], csn: Csn) -> CatalogSnapshot:
    try:
        return catalog.apply(updates, csn)
    except ValueError as error:
        raise CorruptState(f"the catalog's change at {csn} does not fit: {error}") from error


def _record_table(rows: Iterable[tuple[int, bytes]]) -> pa.Table:
    oids, data = zip(*rows, strict=True)
    return pa.table([pa.array(oids, pa.int64()), pa.array(data, pa.binary())], schema=CATALOG_SCHEMA)


def _delete_table(rows: Iterable[tuple[int, int, bytes]]) -> pa.Table:
    row_ids, oids, data = zip(*rows, strict=True)
    schema = CATALOG_SCHEMA.insert(0, pa.field(ROW_ID, pa.int64()))
    return pa.table(
        [pa.array(row_ids, pa.int64()), pa.array(oids, pa.int64()), pa.array(data, pa.binary())],
        schema=schema,
    )


def _with_next_oid(catalog: CatalogSnapshot, rows: dict[int, tuple[int, bytes]]) -> CatalogSnapshot:
    if NEXT_OID_ROW not in rows:
        return catalog
    next_oid = msgspec.msgpack.decode(rows[NEXT_OID_ROW][1], type=int)
    return msgspec.structs.replace(catalog, next_oid=max(catalog.next_oid, next_oid))


def _difference(before: CatalogSnapshot, after: CatalogSnapshot) -> tuple[CatalogUpdate, ...]:
    old = {record.oid: record for record in before.all()}
    new = {record.oid: record for record in after.all()}
    gone = [CatalogUpdate(record=r, diff=-1) for oid, r in old.items() if new.get(oid) != r]
    came = [CatalogUpdate(record=r, diff=1) for oid, r in new.items() if old.get(oid) != r]
    return (*gone, *came)


def net_updates(updates: Iterable[CatalogUpdate]) -> list[CatalogUpdate]:
    """The net effect of `updates`: a record that is added and retracted again is neither."""
    kept: list[CatalogUpdate | None] = []
    places: dict[int, list[int]] = {}
    """By oid, where its updates are kept."""
    for update in updates:
        same = places.setdefault(update.record.oid, [])
        for place in reversed(same):
            other = kept[place]
            if other is not None and other.diff == -update.diff and other.record == update.record:
                kept[place] = None
                same.remove(place)
                break
        else:
            same.append(len(kept))
            kept.append(update)
    return [update for update in kept if update is not None]
