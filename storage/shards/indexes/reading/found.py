"""What a reading by key finds, and how rows are gathered for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from storage.shards.indexes.definition import Domain, IndexDefinition, KeyColumn, StoredColumn
from storage.shards.indexes.keys import WIDE_DECIMAL, Ints, Values, key_arrays, values_of
from storage.shards.indexes.reading.row_groups import RowGroup
from storage.shards.parts import Part

MAX_SCHEMAS = 1000
"""Lists of columns whose schemas are known."""


class Found(Struct, frozen=True, kw_only=True):
    """Rows that were found, with their ids and the columns that were asked for. `keys`: for `lookup`, the number of the
    key that each was found by."""

    keys: Ints
    row_ids: Ints
    rows: pa.RecordBatch
    arrays: Sequence[pa.Array] | None = None
    """The columns of `rows`, where they are at hand: a batch takes 10 us to make them."""


class Gathered:
    """Rows on their way into a `Found`: the columns that are asked for, and those that the keys follow from, unless
    without `index` nobody asks for `values`."""

    def __init__(self, index: IndexDefinition | None, columns: Sequence[StoredColumn]) -> None:
        self._index = index
        self._asked = [column.name for column in columns]
        inputs = () if index is None else index.inputs
        self._columns = tuple({column.name: column for column in (*columns, *inputs)}.values())
        self._pieces: list[list[pa.Array]] = [[] for _ in self._columns]
        self._keys: list[Ints] = []
        self._row_ids: list[Ints] = []

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum([len(keys) for keys in self._keys])

    def read(self, part: Part, group: RowGroup, positions: Ints, keys: Ints) -> None:
        """Add the rows of `part` at `positions`, which are in `group`, found by the keys of these numbers."""
        at = positions - group.first
        where = pa.array(at) if len(at) > 1 else None
        for column, pieces in zip(self._columns, self._pieces, strict=True):
            stored = group.columns.get(column.name)
            if stored is not None:
                stored = stored.slice(int(at[0]), 1) if where is None else stored.take(where)
            pieces.append(column.conform(stored, len(at)))
        self._row_ids.append(part.first_row_id + positions if group.row_ids is None else group.row_ids[at])
        self._keys.append(keys)

    def rows(self) -> Rows:
        """All rows that were added, and none any more."""
        names = [column.name for column in self._columns]
        arrays = [
            pa.concat_arrays(pieces) if pieces else pa.array([], column.type)
            for column, pieces in zip(self._columns, self._pieces, strict=True)
        ]
        rows = Rows(
            table=pa.Table.from_arrays(arrays, names=names), keys=_joined(self._keys), row_ids=_joined(self._row_ids)
        )
        self._pieces, self._keys, self._row_ids = [[] for _ in self._columns], [], []
        return rows

    def values(self, rows: Rows) -> list[Values]:
        """The keys of `rows`."""
        assert self._index is not None
        return values_of(self._index.columns, key_arrays(self._index, rows.table))

    def found(self, rows: Rows) -> Found:
        """`rows` as the answer."""
        return Found(keys=rows.keys, row_ids=rows.row_ids, rows=_batch(rows.table.select(self._asked)))


class Rows(Struct, frozen=True, kw_only=True):
    """Rows that were gathered: columns, numbers of keys, row ids."""

    table: pa.Table
    keys: Ints
    row_ids: Ints

    def take(self, at: Ints) -> Rows:
        """The rows `at`."""
        if len(at) == len(self.keys) and (at[1:] - at[:-1] == 1).all():
            return self
        return Rows(table=self.table.take(pa.array(at)), keys=self.keys[at], row_ids=self.row_ids[at])

    @staticmethod
    def joined(pieces: Sequence[Rows]) -> Rows:
        """All of `pieces`, of which there is one at least."""
        if len(pieces) == 1:
            return pieces[0]
        return Rows(
            table=pa.concat_tables([piece.table for piece in pieces]),
            keys=_joined([piece.keys for piece in pieces]),
            row_ids=_joined([piece.row_ids for piece in pieces]),
        )


_SCHEMAS: dict[int, tuple[Sequence[StoredColumn], pa.Schema]] = {}
"""By the identity of columns that are asked for again and again."""


def found_at(
    columns: Sequence[StoredColumn], places: Sequence[tuple[RowGroup, int]], keys: Sequence[int], row_ids: Sequence[int]
) -> Found:
    """`columns` of the rows at `places`, few of them, with these numbers of keys and ids."""
    arrays: list[pa.Array] = []
    for column in columns:
        pieces = []
        for group, at in places:
            stored = group.columns.get(column.name)
            pieces.append(column.conform(None if stored is None else stored.slice(at, 1), 1))
        if len(pieces) == 1:
            arrays.append(pieces[0])
        else:
            arrays.append(pa.concat_arrays(pieces) if pieces else pa.array([], column.type))
    if columns:
        known = _SCHEMAS.get(id(columns))
        if known is None:
            if len(_SCHEMAS) >= MAX_SCHEMAS:
                _SCHEMAS.clear()
            known = _SCHEMAS[id(columns)] = columns, pa.schema([(column.name, column.type) for column in columns])
        rows = pa.RecordBatch.from_arrays(arrays, schema=known[1])
    else:
        rows = _without_columns(len(places))
    return Found(keys=np.array(keys, np.int64), row_ids=np.array(row_ids, np.int64), rows=rows, arrays=arrays)


def rows_of_group(columns: Sequence[StoredColumn], group: RowGroup, at: Ints) -> list[pa.Array]:
    """`columns` of the rows `at` of `group`."""
    where = pa.array(at)
    return [
        column.conform(None if stored is None else stored.take(where), len(at))
        for column, stored in ((column, group.columns.get(column.name)) for column in columns)
    ]


def arrays_of(columns: Sequence[KeyColumn], keys: Sequence[Sequence[Any]]) -> list[pa.Array]:
    """Keys of Python's values (`scalar_keys.plain` says which) as columns."""
    return [
        pa.array([key[n] for key in keys], _widest(column.source.type, column.domain))
        for n, column in enumerate(columns)
    ]


def _widest(type_: pa.DataType, domain: Domain) -> pa.DataType:
    """A type for values to compare with: PostgreSQL compares across the widths of a kind of number."""
    if pa.types.is_integer(type_):
        return pa.int64()
    if domain is Domain.FLOAT:
        return pa.float64()
    return WIDE_DECIMAL if domain is Domain.DECIMAL else type_


def _batch(rows: pa.Table) -> pa.RecordBatch:
    if not rows.num_columns:
        return _without_columns(rows.num_rows)
    (batch,) = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    return batch


@lru_cache(maxsize=16)
def _without_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""]).select([])


def _joined(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)
