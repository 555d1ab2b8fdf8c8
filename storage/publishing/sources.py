"""The data files of a snapshot, and where in them its deleted rows are.

A Parquet part is a data file as it is. What is inline, and what readers of Iceberg would not understand (columns added
with a default, types that were changed), is *folded*: written once more for publishing, with the row ids, and kept for
as long as all the parts that it was made of are there.

A position in a file is a row id minus the part's first one, or else the place of the id in the column ``_row_id``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from storage.publishing.columns import PublishedColumn
from storage.publishing.schemas import is_promoted
from storage.reading.reader import ShardReader
from storage.shards.columns.widening import widened
from storage.shards.field_ids import column_id
from storage.shards.part_store import PartStore
from storage.shards.parts import ROW_ID, Part, file_part
from storage.shards.shard import ShardSnapshot

RowIds: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

Identity: TypeAlias = tuple[int, int, int, str | None]
"""What tells a part from all others of its shard, whoever applies it: first row id, rows, CSN and file."""

FOLDED_ROWS = 1 << 19
"""Rows that are gathered in memory to be folded into one file."""


class Source(Struct, frozen=True, kw_only=True):
    """A data file: the part that it is, or is written as, and the key of its file."""

    part: Part
    key: str


class Fold(Struct, frozen=True, kw_only=True):
    """Files that were written for publishing, of the parts `made_of`; `columns` tells how they were to look."""

    made_of: frozenset[Identity]
    columns: tuple[PublishedColumn, ...]
    files: tuple[Source, ...]


class Files(Struct, frozen=True, kw_only=True):
    """The files of a snapshot: those to write are in `written` by key. `names`: the physical columns by the names that
    files of others have for them."""

    plain: tuple[Source, ...]
    folds: tuple[Fold, ...]
    written: dict[str, bytes]
    names: dict[str, str]

    @property
    def all(self) -> tuple[Source, ...]:
        """Every data file."""
        return (*self.plain, *[source for fold in self.folds for source in fold.files])


def identity(part: Part) -> Identity:
    """See `Identity`."""
    return part.row_id_bounds[0], part.rows, part.csn, part.key


class Sources:
    """Finds the files of snapshots of one shard; `new_key` gives the key of a new file."""

    def __init__(self, reader: ShardReader, parts: PartStore, new_key: Callable[[], str]) -> None:
        self._reader = reader
        self._parts = parts
        self._new_key = new_key

    async def files(
        self, snapshot: ShardSnapshot, columns: tuple[PublishedColumn, ...], before: Sequence[Fold], deleted: RowIds
    ) -> Files:
        """The files of `snapshot`; rows of new ones are left out where they are `deleted` (sorted row ids)."""
        plain: list[Source] = []
        to_fold: dict[Identity, Part] = {}
        names: dict[str, str] = {}
        for part in snapshot.inserts:
            if part.key is not None and _is_understood(snapshot, part, columns) and _is_named(part, names):
                plain.append(Source(part=part, key=part.key))
            else:
                to_fold[identity(part)] = part
        folds = [fold for fold in before if fold.made_of <= to_fold.keys() and fold.columns == columns]
        for fold in folds:
            for each in fold.made_of:
                del to_fold[each]
        written: dict[str, bytes] = {}
        if to_fold:
            made = await self._folded(list(to_fold.values()), columns, deleted, written)
            folds.append(Fold(made_of=frozenset(to_fold), columns=columns, files=made))
        return Files(plain=tuple(plain), folds=tuple(folds), written=written, names=names)

    async def _folded(
        self, parts: Sequence[Part], columns: tuple[PublishedColumn, ...], deleted: RowIds, written: dict[str, bytes]
    ) -> tuple[Source, ...]:
        made: list[Source] = []
        gathered: list[pa.Table] = []
        rows = 0

        async def flush() -> None:
            nonlocal gathered, rows
            if rows:
                table = pa.concat_tables(gathered)
                key = self._new_key()
                part, written[key] = await asyncio.to_thread(file_part, "insert", table, key)
                made.append(Source(part=replace(part, has_row_id_column=True), key=key))
            gathered, rows = [], 0

        names = [ROW_ID, *(column.stored_name for column in columns)]
        for part in parts:
            async for piece in self._parts.pieces(part, names):
                table = _as_published(piece, columns, deleted)
                if table.num_rows:
                    gathered.append(table)
                    rows += table.num_rows
                if rows >= FOLDED_ROWS:
                    await flush()
        await flush()
        return tuple(made)

    async def deleted(self, snapshot: ShardSnapshot) -> RowIds:
        """The ids of the rows that are deleted in `snapshot`, sorted."""
        gone = [np.asarray((await self._reader.read_part(part, [ROW_ID])).column(0)) for part in snapshot.deletes]
        return np.unique(np.concatenate(gone)).astype(np.int64) if gone else np.empty(0, np.int64)

    async def positions(self, source: Source, deleted: RowIds) -> RowIds:
        """Where in the file `source` its rows are that are `deleted` (sorted), in order."""
        part = source.part
        low, high = part.row_id_bounds
        ids = deleted[np.searchsorted(deleted, low) : np.searchsorted(deleted, high, "right")]
        if not len(ids):
            return ids
        if not part.has_row_id_column:
            return ids - part.first_row_id
        table = await self._reader.read_part(part, [ROW_ID])
        stored = np.asarray(table.column(0).combine_chunks())
        return np.flatnonzero(np.isin(stored, ids)).astype(np.int64)


def _is_named(part: Part, names: dict[str, str]) -> bool:
    """Whether the columns of a file of others are found by their names, which are added to `names`: no other file may
    have called another column so."""
    if part.link is None:
        return True
    own = {name: physical for physical, name in part.link.names.items()}
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
    rows = rows.filter(pa.array(~np.isin(ids, deleted)))
    table = {ROW_ID: rows.column(ROW_ID)}
    for column in columns:
        if column.stored_name in rows.column_names:
            table[column.stored_name] = widened(rows.column(column.stored_name), column.type)
        else:
            missing = pa.scalar(None, column.type) if column.missing is None else column.missing
            table[column.stored_name] = pa.repeat(missing, rows.num_rows)
    return pa.table(table)
