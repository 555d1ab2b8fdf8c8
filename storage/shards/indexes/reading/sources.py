"""What a reading by key is made of: the keys of a list of parts, their rows, and which rows are deleted.

A reading is written as *steps*: a generator that takes what is at hand, and where something is not, yields what to wait
for. `at_once` runs one that may not wait, `awaited` one that may; so each reading is written once, and is no slower for
it when it needs no file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from storage.bounded_map import BoundedMap
from storage.ids import ShardId
from storage.shards.indexes import filters
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.durable_runs import durable_run
from storage.shards.indexes.keys import Ints, Keys, Mask
from storage.shards.indexes.reading.part_views import PartView, keys_of
from storage.shards.indexes.reading.row_groups import RowGroup, RowGroups, decode_inline
from storage.shards.indexes.reading.run_store import RunStore
from storage.shards.indexes.reading.small_parts import DeletedRows, PartKeys, SmallParts, TableKeys
from storage.shards.indexes.runs import KeyRun
from storage.shards.part_store import PartStore
from storage.shards.parts import ROW_ID, Part, read_table

MAX_VIEWS = 256
"""Lists of parts that are kept sorted out."""

SMALL_BYTES = 512 * 1024 * 1024
"""Memory for the keys of inline parts and for deleted row ids, of all shards together."""

AT_ONCE_BYTES = 128 * 1024
"""Inline parts of so many bytes together are decoded at once; more in a thread."""

R = TypeVar("R")
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
    def inserts(self) -> tuple[Part, ...]:
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


class Sources:
    """See the module. Belongs to the event loop."""

    def __init__(self, parts: PartStore, *, validate: bool) -> None:
        self._parts = parts
        self.rows = RowGroups(parts)
        self.runs = RunStore(parts, self.rows, validate=validate)
        self._views: BoundedMap[tuple[ShardId, bool, int, int], PartView] = BoundedMap(max_entries=MAX_VIEWS)
        self._small: BoundedMap[ShardId, SmallParts] = BoundedMap(max_bytes=SMALL_BYTES)

    def views(self, parts: PartList, local: Sequence[Part]) -> list[PartView]:
        """`parts`, and the `local` ones on top of them."""
        found = [self._view(parts.shard, parts.inserts, parts.deletes, local=False)]
        if local:
            found.append(self._view(parts.shard, local, (), local=True))
        return found

    def _view(self, shard: ShardId, inserts: Sequence[Part], deletes: Sequence[Part], *, local: bool) -> PartView:
        key = shard, local, id(inserts), id(deletes)
        view = self._views.get(key)
        if view is None:
            view = PartView(shard, inserts, deletes, local=local)
            self._views.put(key, view)
        else:
            self._views.touch(key)
        return view

    def run(self, part: Part, index: IndexDefinition) -> Steps[KeyRun]:
        """The key run of a file."""
        found = self.runs.get(part, index)
        if found is None:
            found = yield lambda: self.runs.load(part, index)
        return found

    def run_with(self, part: Part, index: IndexDefinition, hashed: Keys) -> Steps[KeyRun | None]:
        """The key run of a file; None when a filter says that it has none of the hashes `hashed`."""
        found = self.runs.get(part, index)
        if found is not None:
            return found
        ref = durable_run(part, index)
        if ref is not None:
            filter_ = ref.filter
            if filter_ is None:
                head = self.runs.head(ref)
                if head is None:
                    head = yield lambda: self.runs.load_head(part, ref)
                filter_ = None if head is None else head.filter
            if filter_ and not filters.may_hold_each(filter_, hashed).any():
                return None
        return (yield from self.run(part, index))

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
        numbers = np.searchsorted(np.array(layout.starts), positions, "right") - 1
        order = np.argsort(numbers, kind="stable")
        found, starts = np.unique(numbers[order], return_index=True)
        return list(zip(found.tolist(), np.split(order, starts[1:]), strict=True))

    # ------------------------------------------------------------ small parts

    def table_keys(self, view: PartView, index: IndexDefinition) -> Steps[TableKeys]:
        """The keys of small parts, those of all inline parts of `view` among them."""
        ready = view.keys.get(index.fingerprint)
        if ready is not None:
            return ready
        small = self._small_of(view)
        keys = small.keys.get(index.fingerprint)
        if keys is None or keys.outgrown(view.inline):
            self._forget_views(view.shard)
            keys = small.keys[index.fingerprint] = TableKeys()
        known = keys.known
        new = [(id_, part) for id_, part in view.inline.items() if id_ not in known]
        if sum([part.bytes for _, part in new]) <= AT_ONCE_BYTES:
            for id_, part in new:
                keys.add(id_, keys_of(index, self.rows.inline(part)))
        else:
            made = yield lambda: asyncio.to_thread(_keys_of_parts, index, [part for _, part in new])
            for (id_, part), (group, found) in zip(new, made, strict=True):
                self.rows.keep_inline(part, group)
                # Somebody else may have been faster.
                if id_ not in known:
                    keys.add(id_, found)
        view.keys[index.fingerprint] = keys
        self._count(view, small)
        return keys

    def is_deleted(self, views: Sequence[PartView], row_id: int) -> Steps[bool]:
        """Whether a delete part of `views` names `row_id`."""
        for view in views:
            if view.deletes:
                deleted = view.deleted or (yield from self._deleted(view))
                if deleted.has(row_id, view.deletes):
                    return True
        return False

    def deleted_among(self, views: Sequence[PartView], row_ids: Ints) -> Steps[Mask]:
        """Which of `row_ids` a delete part of `views` names."""
        gone: Mask = np.zeros(len(row_ids), bool)
        for view in views:
            if view.deletes:
                deleted = view.deleted or (yield from self._deleted(view))
                gone |= deleted.among(row_ids, view.deletes)
        return gone

    def _deleted(self, view: PartView) -> Steps[DeletedRows]:
        """The deleted rows, those of all delete parts of `view` among them."""
        small = self._small_of(view)
        if small.deleted.outgrown(view.deletes):
            self._forget_views(view.shard)
            small.deleted = DeletedRows()
        deleted = small.deleted
        known = deleted.known
        new = [(id_, part) for id_, part in view.deletes.items() if id_ not in known]
        if sum([part.bytes for _, part in new]) <= AT_ONCE_BYTES and all(part.inline is not None for _, part in new):
            for id_, part in new:
                deleted.add(id_, _ids_of(part))
        else:
            made = yield lambda: self._ids_of_parts([part for _, part in new])
            for (id_, _), row_ids in zip(new, made, strict=True):
                if id_ not in known:
                    deleted.add(id_, row_ids)
        view.deleted = deleted
        self._count(view, small)
        return deleted

    async def _ids_of_parts(self, parts: Sequence[Part]) -> list[Ints]:
        found: list[Ints] = []
        for part in parts:
            table = await self._parts.read(part, [ROW_ID], keep=False)
            found.append(table.column(ROW_ID).to_numpy())
        return found

    def _small_of(self, view: PartView) -> SmallParts:
        if view.local:
            return SmallParts()
        small = self._small.get(view.shard)
        if small is None:
            small = SmallParts()
            self._small.put(view.shard, small)
        else:
            self._small.touch(view.shard)
        return small

    def _count(self, view: PartView, small: SmallParts) -> None:
        """Note what is known of small parts now, and keep within the bound."""
        if not view.local and self._small.get(view.shard) is small:
            self._small.resize(view.shard, small.nbytes)
            for shard, _ in self._small.trim():
                self._forget_views(shard)

    def _forget_views(self, shard: ShardId) -> None:
        for key, view in self._views.items():
            if key[0] == shard and not view.local:
                view.keys.clear()
                view.deleted = None


def _keys_of_parts(index: IndexDefinition, parts: Sequence[Part]) -> list[tuple[RowGroup, PartKeys]]:
    """Runs in a thread."""
    groups = [decode_inline(part) for part in parts]
    return [(group, keys_of(index, group)) for group in groups]


def _ids_of(part: Part) -> Ints:
    assert part.inline is not None
    ids: Ints = read_table(part, part.inline, [ROW_ID]).column(ROW_ID).to_numpy()
    return ids
