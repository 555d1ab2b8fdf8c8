"""What a reading by key is made of: the keys of a list of parts, their rows, and which rows are deleted.

A reading is written as *steps*: a generator that takes what is at hand, and where something is not, yields what to wait
for. `at_once` runs one that may not wait, `awaited` one that may; so each reading is written once, and is no slower for
it when it needs no file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from msgspec import Struct

from storage.bounded_map import BoundedMap
from storage.cache_memory import ages, aging, share
from storage.ids import ShardId
from storage.off_loop import AT_ONCE_ROWS, computed
from storage.shards.indexes import filters
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.durable_runs import durable_run
from storage.shards.indexes.keys import Ints, Keys, Mask
from storage.shards.indexes.reading.part_views import UNCOMMITTED, PartView, keys_of
from storage.shards.indexes.reading.row_groups import RowGroup, RowGroups, decode_inline
from storage.shards.indexes.reading.run_store import RunStore, StoredHead
from storage.shards.indexes.reading.small_parts import DeletedRows, PartKeys, SmallParts, TableKeys
from storage.shards.indexes.runs import KeyRun, joined
from storage.shards.packed_parts import PackedParts, PartSequence
from storage.shards.part_store import PartStore
from storage.shards.parts import ROW_ID, Part, RunRef, read_table
from storage.shards.shard import ShardSnapshot
from storage.timestamps.csn import Csn

MAX_VIEWS = 256
"""Lists of parts that are kept sorted out."""

VIEW_BYTES = share(16)
"""Memory for them, and for what is known of the rows of transactions that have many."""

PART_BYTES = 200
"""What a part takes in a view, about."""

PACKED_BYTES = 16
"""What a part that is packed takes there for each index."""

SMALL_BYTES = share(4)
"""Memory for the keys of inline parts and for deleted row ids, of all shards together."""

LOCAL_ROWS = 4 * 1024**2
"""What is known of so many uncommitted rows of a transaction is kept from one of its look-ups to the next; beyond that
each begins anew."""

NOTED_PARTS = 64
"""Parts of few bytes that a shard may get before it is noted again how much memory it takes."""

FEW_BYTES = 4 * 1024
"""So many bytes of a part are few."""

AT_ONCE_BYTES = 128 * 1024
"""Inline parts of so many bytes together are decoded at once; more in a thread."""

R = TypeVar("R")
ViewName: TypeAlias = tuple[ShardId, int, int]
"""A shard, and the identities of its lists of insert and delete parts, or that of uncommitted parts and 0."""
Need: TypeAlias = Callable[[], Awaitable[Any]]
Steps: TypeAlias = Generator[Need, Any, R]
"""See the module: yields what to wait for, and is sent the result of that."""


class PartList(Protocol):
    """Parts of one shard: a `ShardSnapshot`, or `ShardChanges`."""

    @property
    def shard(self) -> ShardId:
        """The shard."""
        ...

    @property
    def newest(self) -> Csn:
        """Everything that was committed to the shard up to here counts, and nothing after it."""
        ...

    @property
    def inserts(self) -> PartSequence:
        """Its insert parts."""
        ...

    @property
    def deletes(self) -> tuple[Part, ...]:
        """Its delete parts."""
        ...


def at_once(steps: Steps[R]) -> R | None:
    """The result of `steps`; None when they would have to wait."""
    try:
        next(steps)
    except StopIteration as stopped:
        result: R = stopped.value
        return result
    steps.close()
    return None


async def awaited(steps: Steps[R]) -> R:
    """The result of `steps`, waiting for what they need. Raises what that raises."""
    try:
        need = next(steps)
        while True:
            need = steps.send(await need())
    except StopIteration as stopped:
        result: R = stopped.value
        return result
    finally:
        steps.close()


def over_rows(rows: int, work: Callable[[], R], *, in_threads: bool = False) -> Steps[R]:
    """The result of `work` over so many `rows`, on a thread when they are many, or `in_threads`: it must not touch
    what belongs to the event loop."""
    if rows <= AT_ONCE_ROWS and not (in_threads and rows):
        return work()
    result: R = yield lambda: asyncio.to_thread(work)
    return result


class _Shard(Struct):
    """What is kept of a shard: its newest view, of the parts at `as_of`, from which the next one is made."""

    small: SmallParts
    local: SmallParts
    """Of the parts that transactions have not committed yet, those of all transactions together: what is known of a
    part follows from its content."""
    latest: PartView | None = None
    as_of: Csn = Csn(0)
    unnoted: int = 0
    """Parts that have come since it was noted how much memory it takes."""


class Sources:
    """See the module. Belongs to the event loop."""

    def __init__(self, parts: PartStore, *, validate: bool) -> None:
        self._parts = parts
        self.rows = RowGroups(parts)
        self.runs = RunStore(parts, self.rows, validate=validate)
        self._views: BoundedMap[ViewName, PartView] = aging(BoundedMap(max_entries=MAX_VIEWS, max_bytes=VIEW_BYTES))
        self._shards: BoundedMap[ShardId, _Shard] = BoundedMap(max_bytes=SMALL_BYTES)
        ages(self._age)

    def views(self, parts: PartList, local: Sequence[Part]) -> list[PartView]:
        """`parts`, and the `local` ones on top of them."""
        found = [self._view(parts)]
        if local:
            key = parts.shard, id(local), 0
            view = self._views.get(key)
            if view is None:
                view = self._local_view(parts.shard, local)
                self._views.put(key, view, _view_bytes(view))
            else:
                self._views.touch(key)
            found.append(view)
        return found

    def _local_view(self, shard: ShardId, local: Sequence[Part]) -> PartView:
        rows = sum([part.rows for part in local])
        held = self._shards.get(shard)
        if rows > LOCAL_ROWS or held is None:
            small = SmallParts()
        else:
            if held.local.outgrown(rows):
                held.local = SmallParts()
            small = held.local
        view = PartView(shard, small, (local, ()))
        inserts = [part for part in local if part.kind == "insert"]
        view.add(inserts, [part for part in local if part.kind == "delete"])
        return view

    def _view(self, parts: PartList) -> PartView:
        key = parts.shard, id(parts.inserts), id(parts.deletes)
        view = self._views.get(key)
        if view is not None:
            self._views.touch(key)
            return view
        shard = self._shards.get(parts.shard)
        if shard is None:
            shard = _Shard(small=SmallParts(), local=SmallParts())
            self._shards.put(parts.shard, shard)
        else:
            self._shards.touch(parts.shard)
        view = self._new_view(shard, parts)
        self._views.put(key, view, _view_bytes(view))
        return view

    def _new_view(self, shard: _Shard, parts: PartList) -> PartView:
        sources = inserts, deletes = parts.inserts, parts.deletes
        latest = shard.latest
        # Only all parts of a shard tell which have gone, and which the next snapshot will begin with.
        if not isinstance(parts, ShardSnapshot) or latest is None or not latest.is_extended_by(inserts, deletes):
            view = PartView(parts.shard, shard.small, sources, as_of=parts.newest)
            if isinstance(inserts, PackedParts):
                if latest is not None:
                    view.continue_bounds(latest)
                view.add(inserts.loose_from(0), deletes)
            else:
                view.add(inserts, deletes)
        else:
            view = PartView(parts.shard, shard.small, sources, latest, parts.newest)
            before, gone = latest.sources
            if isinstance(inserts, PackedParts) and isinstance(before, PackedParts):
                view.add(inserts.behind[len(before.behind) :], deletes[len(gone) :])
            else:
                view.add(inserts[len(before) :], deletes[len(gone) :])
        if isinstance(parts, ShardSnapshot) and parts.as_of >= shard.as_of:
            if shard.small.outgrown(view.small_rows):
                shard.small = SmallParts()
                self._forget_views(parts.shard)
                outgrown, view = view, PartView(parts.shard, shard.small, sources, as_of=parts.newest)
                view.continue_bounds(outgrown)
                view.add(inserts.loose_from(0) if isinstance(inserts, PackedParts) else inserts, deletes)
            shard.latest, shard.as_of = view, parts.as_of
        return view

    def run(self, part: Part, index: IndexDefinition) -> Steps[KeyRun]:
        """The key run of a file."""
        found = self.runs.get(part, index)
        if found is None:
            found = yield lambda: self.runs.load(part, index)
        return found

    def run_with(self, part: Part, index: IndexDefinition, hashed: Keys) -> Steps[KeyRun | None]:
        """The key run of a file, or so much of it as has the hashes `hashed`; None when a filter says that it has none
        of them."""
        found = self.runs.get(part, index)
        ref = None if found is not None else durable_run(part, index)
        if ref is None:
            return found or (yield from self.run(part, index))
        if ref.filter is not None:
            # A small one, which is read whole.
            likely = yield from self._likely(ref.filter, hashed)
            return (yield from self.run(part, index)) if len(likely) else None
        held = self.runs.head(ref)
        if held is None:
            held = yield lambda: self.runs.load_head(part, index, ref)
        pages = None if held is None else held.head.by_hash
        if held is None or pages is None:
            return (yield from self.run(part, index))
        numbers = yield from over_rows(len(hashed), partial(pages.holding, hashed, hashed))
        if held.filter is None and self.runs.is_worth_whole(held, len(numbers)):
            held = yield partial(self.runs.load_filter, ref, held)
            if held is None:
                return (yield from self.run(part, index))
        if held.filter is not None:
            hashed = yield from self._likely(held.filter, hashed)
            if not len(hashed):
                return None
            numbers = yield from over_rows(len(hashed), partial(pages.holding, hashed, hashed))
        return (yield from self._some_pages(part, index, ref, held, True, numbers))

    def run_within(self, part: Part, index: IndexDefinition, low: int, high: int) -> Steps[KeyRun]:
        """As `run_between`, for one range."""
        found = self.runs.get(part, index)
        if found is not None:
            return found
        return (yield from self.run_between(part, index, np.array([low], np.uint64), np.array([high], np.uint64)))

    def run_between(self, part: Part, index: IndexDefinition, low: Keys, high: Keys) -> Steps[KeyRun]:
        """The key run of a file, or so much of it as has the prefixes from low[i] to high[i], for every i."""
        found = self.runs.get(part, index)
        ref = None if found is not None else durable_run(part, index)
        if ref is None or ref.filter is not None:
            return found or (yield from self.run(part, index))
        held = self.runs.head(ref)
        if held is None:
            held = yield lambda: self.runs.load_head(part, index, ref)
        pages = None if held is None else held.head.by_order
        if held is None or pages is None:
            return (yield from self.run(part, index))
        numbers = yield from over_rows(len(low), partial(pages.holding, low, high))
        return (yield from self._some_pages(part, index, ref, held, False, numbers))

    def _some_pages(
        self, part: Part, index: IndexDefinition, ref: RunRef, held: StoredHead, by_hash: bool, numbers: Ints
    ) -> Steps[KeyRun]:
        """The run with the pages `numbers` of one section; or the whole run, when it is better to read that."""
        wanted: list[int] = numbers.tolist()
        found = self.runs.pages(ref, by_hash, wanted)
        missing = [number for number in wanted if number not in found]
        if missing:
            if self.runs.is_worth_whole(held, len(missing)):
                return (yield from self.run(part, index))
            loaded = yield lambda: self.runs.load_pages(part, index, ref, by_hash, missing)
            if loaded is None:
                made: KeyRun = yield lambda: self.runs.make(part, index)
                return made
            found.update(loaded)
        section = joined([found[number] for number in wanted])
        by_order = None if by_hash else section
        return KeyRun(head=held.head, by_hash=section if by_hash else None, by_order=by_order)

    def _likely(self, filter_: bytes, hashed: Keys) -> Steps[Keys]:
        """Those of the hashes that a filter may have been built with."""
        if not filter_:
            return hashed
        if len(hashed) == 1:
            return hashed if filters.may_hold(filter_, int(hashed[0])) else hashed[:0]
        mask = yield from over_rows(len(hashed), partial(filters.may_hold_each, filter_, hashed))
        return hashed[mask]

    def group(self, part: Part, number: int) -> Steps[RowGroup]:
        """A row group of `part`."""
        found = self.rows.get(part, number)
        if found is None:
            found = yield lambda: self.rows.load(part, number)
        return found

    def group_at(self, part: Part, position: int) -> Steps[RowGroup]:
        """The row group of `part` that has the row at `position`."""
        if part.inline is not None:
            return self.rows.inline(part)
        layout = self.rows.layout(part)
        if layout is None:
            layout = yield lambda: self.rows.load_layout(part)
        return (yield from self.group(part, layout.group_of(position)))

    def groups_at(self, part: Part, positions: Ints) -> Steps[list[tuple[int, Ints]]]:
        """The row groups of `part` that have the rows at `positions`: the number of each, and which positions."""
        if part.inline is not None:
            return [(0, np.arange(len(positions)))]
        layout = self.rows.layout(part)
        if layout is None:
            layout = yield lambda: self.rows.load_layout(part)
        starts = np.array(layout.starts)

        def by_group() -> list[tuple[int, Ints]]:
            numbers = np.searchsorted(starts, positions, "right") - 1
            order = np.argsort(numbers, kind="stable")
            found, first = np.unique(numbers[order], return_index=True)
            return list(zip(found.tolist(), np.split(order, first[1:]), strict=True))

        return (yield from over_rows(len(positions), by_group))

    # ------------------------------------------------------------ small parts

    def table_keys(self, view: PartView, index: IndexDefinition) -> Steps[TableKeys]:
        """The keys of small parts, those of all inline parts of `view` among them."""
        ready = view.keys.get(index.fingerprint)
        if ready is not None:
            return ready
        keys = view.small.keys.get(index.fingerprint)
        if keys is None:
            keys = view.small.keys[index.fingerprint] = TableKeys()
        new = view.missing_keys(index, keys.known)
        if not new or (not index.in_threads and sum([part.bytes for _, part in new]) <= AT_ONCE_BYTES):
            for number, part in new:
                keys.add(number, keys_of(index, self.rows.inline(part)))
        else:
            made = yield lambda: asyncio.to_thread(_keys_of_parts, index, [part for _, part in new])
            for (number, part), (group, found) in zip(new, made, strict=True):
                self.rows.keep_inline(part, group)
                keys.add(number, found)
        view.keys[index.fingerprint] = keys
        self._keep_within_memory(view, new)
        return keys

    def is_deleted(self, views: Sequence[PartView], row_id: int) -> Steps[bool]:
        """Whether a delete part of `views` names `row_id`."""
        for view in views:
            if view.deletes:
                deleted = view.deleted or (yield from self._deleted(view))
                if deleted.has(row_id, view.deletes):
                    return True
        return False

    def retire(
        self, views: Sequence[PartView], index: IndexDefinition, hashed: int, part: Part, position: int, row_id: int
    ) -> None:
        """Have later lookups pass over the row `row_id` of an inline part, which is deleted in one of `views`, if that
        is what was committed."""
        view = views[0]
        keys = view.keys.get(index.fingerprint)
        if keys is None or view.deleted is None or view.as_of == UNCOMMITTED:
            return
        if view.deleted.has(row_id, view.deletes):
            keys.retire(hashed, view.small.number(part), position, view.as_of)

    def deleted_among(self, views: Sequence[PartView], row_ids: Ints) -> Steps[Mask]:
        """Which of `row_ids` a delete part of `views` names."""
        tests = []
        for view in views:
            if view.deletes:
                deleted = view.deleted or (yield from self._deleted(view))
                tests.append(deleted.among(view.deletes))

        def among() -> Mask:
            gone: Mask = np.zeros(len(row_ids), bool)
            for test in tests:
                gone |= test(row_ids)
            return gone

        return (yield from over_rows(len(row_ids), among))

    def _deleted(self, view: PartView) -> Steps[DeletedRows]:
        """The deleted rows, those of all delete parts of `view` among them."""
        deleted = view.small.deleted
        new = view.missing_deletes(deleted.known)
        if sum([part.bytes for _, part in new]) <= AT_ONCE_BYTES and all(part.inline is not None for _, part in new):
            for number, part in new:
                deleted.add(number, _ids_of(part))
        else:
            made = yield lambda: self._ids_of_parts([part for _, part in new])
            for (number, _), row_ids in zip(new, made, strict=True):
                deleted.add(number, row_ids)
        view.deleted = deleted
        self._keep_within_memory(view, new)
        return deleted

    async def _ids_of_parts(self, parts: Sequence[Part]) -> list[Ints]:
        found: list[Ints] = []
        for part in parts:
            table = await self._parts.read(part, [ROW_ID], keep=False)
            found.append(await computed(table.num_rows, partial(_ascending_ids, table)))
        return found

    def _keep_within_memory(self, view: PartView, new: Sequence[tuple[int, Part]]) -> None:
        """Note what is known of small parts now, the `new` ones among them, and let go of shards that were not read for
        longest."""
        shard = self._shards.get(view.shard)
        if shard is not None and (shard.small is view.small or shard.local is view.small):
            # NOTE: each statement comes by here, with the few rows of the one before.
            few = len(new) < 2 and all(part.bytes <= FEW_BYTES for _, part in new)
            shard.unnoted = shard.unnoted + len(new) if few else NOTED_PARTS
            if shard.unnoted < NOTED_PARTS:
                return
            shard.unnoted = 0
            self._shards.resize(view.shard, shard.small.nbytes + shard.local.nbytes)
            for dropped, _ in self._shards.trim():
                self._forget_views(dropped)
            return
        inserts, deletes = view.sources
        for name in ((view.shard, id(inserts), 0), (view.shard, id(inserts), id(deletes))):
            if self._views.get(name) is view:
                self._views.resize(name, _view_bytes(view) + view.small.nbytes)
                self._views.trim()

    def _age(self, limit: int) -> list[tuple[ShardId, _Shard]]:
        dropped = self._shards.age(limit)
        for shard, _ in dropped:
            self._forget_views(shard)
        return dropped

    def _forget_views(self, shard: ShardId) -> None:
        for key in [key for key, _ in self._views.items() if key[0] == shard]:
            self._views.pop(key)


def _view_bytes(view: PartView) -> int:
    """What `view` takes beside what is known of rows, about."""
    known = PART_BYTES * (len(view.loose) + len(view.inline) + len(view.deletes))
    return known + (PACKED_BYTES * sum([block.count for block in view.blocks]) if view.blocks else 0)


def _keys_of_parts(index: IndexDefinition, parts: Sequence[Part]) -> list[tuple[RowGroup, PartKeys]]:
    """Runs in a thread."""
    groups = [decode_inline(part) for part in parts]
    return [(group, keys_of(index, group)) for group in groups]


def _ids_of(part: Part) -> Ints:
    assert part.inline is not None
    return _ascending_ids(read_table(part, part.inline, [ROW_ID]))


def _ascending_ids(table: pa.Table) -> Ints:
    ids: Ints = np.sort(table.column(ROW_ID).to_numpy())
    return ids
