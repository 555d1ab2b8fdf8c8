"""The data files of a snapshot, and where in them its deleted rows are.

A Parquet part is a data file as it is. What is inline, and what readers of Iceberg would not understand (columns added
with a default, types that were changed), is *folded*: written once more for publishing, with the row ids, and kept for
as long as all the parts that it was made of are there.

The files come in groups, one for each block of packed parts (`storage.shards.packed_parts`). Blocks never change, so
what was found of one is good for the next publication, and nobody looks at its parts again unless rows of theirs are
deleted.

A position in a file is a row id minus the part's first one, or else the place of the id in the column ``_row_id``.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from storage.publishing.columns import PublishedColumn
from storage.publishing.names import Names, names_of
from storage.publishing.partitions import fields_of
from storage.publishing.schemas import is_promoted
from storage.reading.reader import ShardReader
from storage.shards.columns.widening import widened
from storage.shards.field_ids import column_id
from storage.shards.links import Link
from storage.shards.packed_parts import Block, PackedParts
from storage.shards.part_store import PartStore
from storage.shards.partitions.transforms import PartitionField
from storage.shards.parts import ROW_ID, Part, file_part
from storage.shards.shard import ShardSnapshot

RowIds: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

Identity: TypeAlias = tuple[int, int, int, str | None]
"""What tells a part from all others of its shard, whoever applies it: first row id, rows, CSN and file."""

Bytes: TypeAlias = bytes
"""The type, where a field of the same name hides it."""

FOLDED_ROWS = 1 << 19
"""Rows that are gathered in memory to be folded into one file."""


class Fold(Struct, frozen=True, kw_only=True):
    """Files that were written for publishing, of the parts `made_of`; `columns` tells how they were to look."""

    made_of: frozenset[Identity]
    columns: tuple[PublishedColumn, ...]
    files: tuple[Part, ...]


class Group(Struct, frozen=True, kw_only=True):
    """Some data files: those of the block `block`, or of the parts `loose`.

    `columns`: their physical columns by the names that files of others have for them; `partitions`: by what they are
    each of one partition. `deleted`: how many of their rows are deleted, by location, when the deleted ids that the
    group may have are those with the digest `deletions`.
    """

    block: Block | None = None
    loose: tuple[Part, ...] = ()
    names: Names
    columns: Mapping[str, str]
    partitions: frozenset[tuple[PartitionField, ...]]
    rows: int
    bytes: int
    deletions: Bytes | None = None
    deleted: Mapping[str, int] = {}

    @property
    def parts(self) -> tuple[Part, ...]:
        """Those whose files they are."""
        return self.loose if self.block is None else self.block.parts()


class Files(Struct, frozen=True, kw_only=True):
    """The files of a snapshot. `names`: the physical columns by the names that files of others have for them.
    `positions`: which rows are deleted of the files, by location, where these may be others than they were, with their
    parts."""

    groups: tuple[Group, ...]
    folds: tuple[Fold, ...]
    names: dict[str, str]
    positions: dict[str, tuple[Part, RowIds]]

    @property
    def deleted(self) -> Counter[str]:
        """How many rows are deleted of each file that has such, by location."""
        return Counter({location: rows for group in self.groups for location, rows in group.deleted.items()})


def identity(part: Part) -> Identity:
    """See `Identity`."""
    return part.row_id_bounds[0], part.rows, part.csn, part.key


class Sources:
    """Finds the files of snapshots of one shard; `new_key` gives the key of a new file, `store` stores it, `locate`
    says where that of a part is."""

    def __init__(
        self,
        reader: ShardReader,
        parts: PartStore,
        new_key: Callable[[], str],
        store: Callable[[str, bytes], Awaitable[None]],
        locate: Callable[[Part], str],
    ) -> None:
        self._reader = reader
        self._parts = parts
        self._new_key = new_key
        self._store = store
        self._locate = locate

    async def files(
        self,
        snapshot: ShardSnapshot,
        columns: tuple[PublishedColumn, ...],
        before: Sequence[Fold],
        known: Mapping[Block, Group],
        deleted: RowIds,
    ) -> Files:
        """The files of `snapshot`; rows of new ones are left out where they are `deleted` (sorted row ids). `known`:
        groups that were found for the same columns."""
        groups, to_fold, names = await asyncio.to_thread(self._grouped, snapshot, columns, known)
        folds = [fold for fold in before if fold.made_of <= to_fold.keys() and fold.columns == columns]
        for fold in folds:
            for each in fold.made_of:
                del to_fold[each]
        if to_fold:
            made = await self._folded(list(to_fold.values()), columns, deleted)
            folds.append(Fold(made_of=frozenset(to_fold), columns=columns, files=made))
        groups.append(self._group(tuple([part for fold in folds for part in fold.files]), {}))
        positions: dict[str, tuple[Part, RowIds]] = {}
        groups = [await self._with_deletes(group, deleted, positions) for group in groups]
        return Files(groups=tuple(groups), folds=tuple(folds), names=names, positions=positions)

    def _grouped(
        self, snapshot: ShardSnapshot, columns: tuple[PublishedColumn, ...], known: Mapping[Block, Group]
    ) -> tuple[list[Group], dict[Identity, Part], dict[str, str]]:
        """The files that are published as they are, the parts that are to be folded, and the names of columns. What is
        known of a block is good while no other file calls another column so."""
        groups: list[Group] = []
        loose: list[Part] = []
        to_fold: dict[Identity, Part] = {}
        names: dict[str, str] = {}

        def plain(parts: Iterable[Part]) -> tuple[list[Part], dict[str, str]]:
            found: list[Part] = []
            own: dict[str, str] = {}
            for part in parts:
                if part.key is not None and _is_understood(snapshot, part, columns) and _is_named(part, names):
                    found.append(part)
                    own.update({} if part.link is None else _names(part.link))
                else:
                    to_fold[identity(part)] = part
            return found, own

        inserts = snapshot.inserts
        for block in inserts.blocks if isinstance(inserts, PackedParts) else ():
            group = known.get(block)
            if group is None or any(names.get(name, at) != at for name, at in group.columns.items()):
                parts, own = plain(block.parts())
                if len(parts) < block.count:
                    loose += parts
                    continue
                group = self._group(parts, own, block)
            names.update(group.columns)
            groups.append(group)
        loose += plain(inserts.loose_from(0) if isinstance(inserts, PackedParts) else inserts)[0]
        return [*groups, self._group(loose, {})], to_fold, names

    def _group(self, parts: Sequence[Part], columns: Mapping[str, str], block: Block | None = None) -> Group:
        return Group(
            block=block,
            loose=() if block is not None else tuple(parts),
            names=names_of(map(self._locate, parts)),
            columns=columns,
            partitions=frozenset(map(fields_of, parts)),
            rows=sum([part.rows for part in parts]),
            bytes=sum([part.bytes for part in parts]),
        )

    async def _with_deletes(self, group: Group, deleted: RowIds, positions: dict[str, tuple[Part, RowIds]]) -> Group:
        """`group` with what is deleted of it; where that may have changed, it is added to `positions`."""
        ids = deleted if group.block is None else _between(deleted, group.block.row_ids)
        digest = hashlib.blake2b(ids.tobytes(), digest_size=16).digest()
        if group.block is not None and group.deletions == digest:
            return group
        found: dict[str, int] = {}
        if len(ids):
            concerned = await asyncio.to_thread(
                lambda: [part for part in group.parts if len(_between(ids, part.row_id_bounds))]
            )
            for part in concerned:
                places = await self._positions(part, ids)
                if len(places):
                    location = self._locate(part)
                    positions[location], found[location] = (part, places), len(places)
        return replace(group, deletions=digest, deleted=found)

    async def _folded(
        self, parts: Sequence[Part], columns: tuple[PublishedColumn, ...], deleted: RowIds
    ) -> tuple[Part, ...]:
        made: list[Part] = []
        alike: list[pa.Table] = []
        gathered: list[pa.Table] = []
        rows = 0

        def convert() -> None:
            if alike:
                gathered.append(_as_published(pa.concat_tables(alike).combine_chunks(), columns, deleted))
                alike.clear()

        async def flush() -> None:
            nonlocal rows
            convert()
            table = pa.concat_tables(gathered) if gathered else None
            gathered.clear()
            rows = 0
            if table is not None and table.num_rows:
                key = self._new_key()
                part, data = await asyncio.to_thread(file_part, "insert", table, key)
                await self._store(key, data)
                made.append(replace(part, has_row_id_column=True))

        names = [ROW_ID, *(column.stored_name for column in columns)]
        for part in parts:
            async for piece in self._parts.pieces(part, names):
                # Small writes are many and look alike: all of them at once take half the time.
                if alike and not piece.schema.equals(alike[0].schema):
                    convert()
                alike.append(piece)
                rows += piece.num_rows
                if rows >= FOLDED_ROWS:
                    await flush()
        await flush()
        return tuple(made)

    async def deleted(self, snapshot: ShardSnapshot) -> RowIds:
        """The ids of the rows that are deleted in `snapshot`, sorted."""
        gone = [np.asarray((await self._reader.read_part(part, [ROW_ID])).column(0)) for part in snapshot.deletes]
        return np.unique(np.concatenate(gone)).astype(np.int64) if gone else np.empty(0, np.int64)

    async def _positions(self, part: Part, deleted: RowIds) -> RowIds:
        """Where in the file of `part` its rows are that are `deleted` (sorted), in order."""
        ids = _between(deleted, part.row_id_bounds)
        if not part.has_row_id_column:
            return ids - part.first_row_id
        table = await self._reader.read_part(part, [ROW_ID])
        stored = np.asarray(table.column(0).combine_chunks())
        return np.flatnonzero(np.isin(stored, ids)).astype(np.int64)


def _between(ids: RowIds, bounds: tuple[int, int]) -> RowIds:
    """Those of the sorted `ids` within `bounds`."""
    low, high = bounds
    return ids[np.searchsorted(ids, low) : np.searchsorted(ids, high, "right")]


def _names(link: Link) -> dict[str, str]:
    """The physical columns of a file of others, by their names there."""
    return {name: physical for physical, name in link.names.items()}


def _is_named(part: Part, names: dict[str, str]) -> bool:
    """Whether the columns of a file of others are found by their names, which are added to `names`: no other file may
    have called another column so."""
    if part.link is None:
        return True
    own = _names(part.link)
    if part.link.is_odd or any(names.get(name, physical) != physical for name, physical in own.items()):
        return False
    if any(column_id(name) is not None and name != physical for name, physical in own.items()):
        return False
    names.update(own)
    return True


def _is_understood(snapshot: ShardSnapshot, part: Part, columns: Iterable[PublishedColumn]) -> bool:
    """Whether readers of Iceberg read the file of `part` as we do."""
    types = _stored_types(snapshot, part)
    for column in columns:
        stored = types.get(column.stored_name) if column.stored_name in part.stats else None
        if stored is None:
            if column.missing is not None:
                return False
        elif not is_promoted(stored, column.type):
            return False
    return True


def _stored_types(snapshot: ShardSnapshot, part: Part) -> Mapping[str, pa.DataType]:
    schema = snapshot.schemas[part.schema_version].schema()
    return {field.name: field.type for field in schema}


def _as_published(rows: pa.Table, columns: Iterable[PublishedColumn], deleted: RowIds) -> pa.Table:
    """`rows`, which have row ids, with these columns in their types, without those that are `deleted`."""
    ids = np.asarray(rows.column(ROW_ID))
    gone = np.isin(ids, deleted)
    if gone.any():
        rows = rows.filter(pa.array(~gone))
    table = {ROW_ID: rows.column(ROW_ID)}
    for column in columns:
        if column.stored_name in rows.column_names:
            table[column.stored_name] = widened(rows.column(column.stored_name), column.type)
        else:
            missing = pa.scalar(None, column.type) if column.missing is None else column.missing
            table[column.stored_name] = pa.repeat(missing, rows.num_rows)
    return pa.table(table)
