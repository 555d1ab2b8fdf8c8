"""From a table's parts to what an engine scans: which columns, which parts alike, which rows are deleted.

`ScanPlan` is the part of a scan that both engines share. An engine turns it into a FROM item with the columns
``c<attnum>`` and, when the query asks for it, ``_row_id``:

- inline parts (and small files, where the engine wants them so) come as Arrow tables (`inline_rows`), already cast to
  the relation's types;
- Parquet parts come as `FileGroup`s: files with the same physical columns, read by one scan;
- a column that a part lacks (it is older than ADD COLUMN) is NULL or the column's `missing` value;
- deleted rows are named by row id (`DeletedRows`), and only parts that a delete part can hit pay for it.

Row ids are `first_row_id` + position in the part, or the hidden column of parts that compaction wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Struct

from adapter.distinct_ids import distinct_ids
from adapter.engines.common.engine import TableInput
from adapter.plans.computed.constant_rows import array_of
from planner.ir.nodes import Literal, Rel, Scan, SystemScan
from planner.ir.physical import arrow_type
from planner.ir.rewrite import walk
from planner.types.types import SqlType, type_of_column
from planner.types.user_types import held_as
from planner.values.text_values import parse_text
from storage.bounded_map import BoundedMap
from storage.cache_memory import aging, share, watched
from storage.catalog.model import Relation
from storage.off_loop import computed
from storage.shards.columns.widening import widened
from storage.shards.parts import ROW_ID, Part, RowIdRange

PartIdentity: TypeAlias = tuple[str | bytes, int, tuple[RowIdRange, ...]]
"""What a part's rows and row ids follow from: its file or bytes, and the ids it got."""

DELETE_SETS_BYTES = share(32)
"""Bytes of sets of deleted row ids kept; one per recent combination of delete parts."""

DELETE_PARTS_BYTES = share(64)
"""Bytes of row ids kept by delete part, so that a combination that differs from another by one part is soon made."""

ENTRY_BYTES = 256
"""What an entry of either takes beside its row ids, for each part that its key names, about."""

MAX_CACHED_PART_ROWS = 4096
"""Larger delete parts are read again: that is little beside what else the query does."""


class PartReader(Protocol):
    """What engines need of an environment to read parts."""

    async def read_part(self, part: Part, columns: Sequence[str] | None = None) -> pa.Table:
        """See `storage.reading.reader.ShardReader.read_part`."""
        ...

    async def verify_parts(self, parts: Iterable[Part]) -> None:
        """See `storage.reading.reader.ShardReader.verify_parts`."""
        ...

    async def check_links(self, parts: Iterable[Part]) -> None:
        """See `storage.reading.reader.ShardReader.check_links`."""
        ...


class ScanColumn(Struct, frozen=True, kw_only=True):
    """A live column of a table: its physical name, type, and the value of rows older than the column."""

    name: str
    type: SqlType
    missing: Literal
    form: int = 0
    """See `storage.catalog.model.Column.form`."""

    @property
    def arrow(self) -> pa.DataType:
        """The physical type."""
        return arrow_type(self.type)


class ScanNeeds(Struct, frozen=True, kw_only=True):
    """What a query reads: the relations it scans (True: row ids too), and the system relations (True: their system
    columns too), all by oid."""

    tables: Mapping[int, bool]
    system: Mapping[int, tuple[SystemScan, bool]]


class FileGroup(Struct, frozen=True, kw_only=True):
    """Parquet parts with the same physical columns. `columns` are those of the relation that they hold.

    With `row_ids` an id is needed for each row, because the query asks for it or because rows are `deleted`.
    `stored_row_ids`: the files carry the ids in a hidden column. `names`: those of the columns in files of others.
    """

    parts: tuple[Part, ...]
    columns: frozenset[str]
    row_ids: bool
    deleted: bool
    stored_row_ids: bool
    names: Mapping[str, str] | None = None

    def name(self, column: str) -> str:
        """What the physical `column` is called in the files."""
        return column if self.names is None else self.names[column]


class ScanPlan(Struct, frozen=True, kw_only=True):
    """One table of one query. `deletes` are the delete parts that can hit the inserts; `hit_inline` those of the
    inline parts that they can hit."""

    columns: tuple[ScanColumn, ...]
    row_ids: bool
    inline: tuple[Part, ...]
    hit_inline: frozenset[int]
    files: tuple[FileGroup, ...]
    deletes: tuple[Part, ...]


@lru_cache(maxsize=1024)
def scan_columns(relation: Relation) -> tuple[ScanColumn, ...]:
    """The live columns of `relation`, in attnum order."""
    columns = []
    for column in relation.live_columns():
        type = type_of_column(column)
        value = None if column.missing is None else parse_text(column.missing, held_as(type))
        missing = Literal(value=value, type=type)
        columns.append(ScanColumn(name=f"c{column.attnum}", type=type, missing=missing, form=column.form))
    return tuple(columns)


def scan_needs(rel: Rel) -> ScanNeeds:
    """The scans anywhere in a bound tree, subqueries included."""
    tables: dict[int, bool] = {}
    system: dict[int, tuple[SystemScan, bool]] = {}
    for node in walk(rel):
        if isinstance(node, Scan):
            tables[node.relation_oid] = tables.get(node.relation_oid, False) or node.row_id is not None
        elif isinstance(node, SystemScan):
            wants = any(field.origin is not None and field.origin.attnum < 0 for field in node.fields)
            known = system.get(node.relation_oid)
            system[node.relation_oid] = (node, wants or (known is not None and known[1]))
    return ScanNeeds(tables=tables, system=system)


def identity(part: Part) -> PartIdentity:
    """See `PartIdentity`."""
    source = part.key if part.inline is None else part.inline
    assert source is not None
    return source, part.first_row_id, part.row_ids


def plan_scan(table: TableInput, *, row_ids: bool, memory_bytes: int = -1) -> ScanPlan:
    """How to scan `table`; `row_ids` when the query asks for them. Files that together have at most `memory_bytes` are
    taken like inline parts."""
    in_memory = sum([part.bytes for part in table.inserts if part.inline is None]) <= memory_bytes
    columns = scan_columns(table.relation)
    bounds = [part.row_id_bounds for part in table.deletes]
    inline: list[Part] = []
    hit_inline: set[int] = set()
    groups: dict[tuple[object, ...], list[Part]] = {}
    used: set[int] = set()
    for part in table.inserts:
        hits: list[int] = []
        if bounds:
            first, last = part.row_id_bounds
            hits = [index for index, (low, high) in enumerate(bounds) if low <= last and first <= high]
            used.update(hits)
        if in_memory or part.inline is not None:
            if hits:
                hit_inline.add(len(inline))
            inline.append(part)
        else:
            names = None if part.link is None else tuple(part.link.names.items())
            groups.setdefault((bool(hits), part.has_row_id_column, part.fingerprint, names), []).append(part)
    files = tuple(
        FileGroup(
            parts=tuple(parts),
            columns=frozenset([column.name for column in columns]).intersection(parts[0].columns),
            row_ids=row_ids or bool(deleted),
            deleted=bool(deleted),
            stored_row_ids=bool(stored),
            names=None if parts[0].link is None else parts[0].link.names,
        )
        for (deleted, stored, *_), parts in groups.items()
    )
    return ScanPlan(
        columns=columns,
        row_ids=row_ids,
        inline=tuple(inline),
        hit_inline=frozenset(hit_inline),
        files=files,
        deletes=tuple(part for index, part in enumerate(table.deletes) if index in used),
    )


def scan_schema(columns: Iterable[ScanColumn]) -> pa.Schema:
    """The Arrow schema of a scan with row ids: ``_row_id`` first."""
    return pa.schema([pa.field(ROW_ID, pa.int64()), *(pa.field(column.name, column.arrow) for column in columns)])


async def inline_rows(reader: PartReader, columns: tuple[ScanColumn, ...], part: Part) -> pa.Table:
    """The rows of a part in `scan_schema`: missing columns filled in, widened types cast."""
    held = set(part.columns)
    stored = await reader.read_part(part, [ROW_ID, *(column.name for column in columns if column.name in held)])
    return conform(stored, columns)


def conform(stored: pa.Table, columns: tuple[ScanColumn, ...]) -> pa.Table:
    """`stored`, which has ``_row_id`` and some of `columns`, in `scan_schema`."""
    schema = scan_schema(columns)
    arrays: list[pa.ChunkedArray | pa.Array] = [stored.column(ROW_ID)]
    present = set(stored.column_names)
    for column in columns:
        if column.name in present:
            array = stored.column(column.name)
            arrays.append(array if array.type == column.arrow else widened(array, column.arrow))
        else:
            arrays.append(_constant(column, stored.num_rows))
    return pa.Table.from_arrays(arrays, schema=schema)


def _constant(column: ScanColumn, rows: int) -> pa.Array:
    return array_of(column.type, [column.missing.value] * rows)


_NONE = np.empty(0, np.int64)


class DeletedRows:
    """Row ids named by delete parts, as sorted arrays; cached by the parts they come from."""

    def __init__(self, reader: PartReader) -> None:
        self._reader = reader
        self._sets: BoundedMap[tuple[PartIdentity, ...], Any] = watched(
            "deletions", aging(BoundedMap(max_bytes=DELETE_SETS_BYTES))
        )
        self._parts: BoundedMap[PartIdentity, Any] = aging(BoundedMap(max_bytes=DELETE_PARTS_BYTES))

    async def ids(self, deletes: Sequence[Part]) -> Any:
        """A sorted numpy int64 array of the row ids in `deletes`."""
        key = tuple([identity(part) for part in deletes])
        found = self._sets.get(key)
        if found is None:
            pieces = [await self._ids_of(part, of) for part, of in zip(deletes, key, strict=True)]
            made: Any = await computed(sum(map(len, pieces)), lambda: distinct_ids(np.concatenate([_NONE, *pieces])))
            found = made
            self._sets.misses += 1
            self._sets.put(key, found, made.nbytes + ENTRY_BYTES * len(key))
        else:
            self._sets.hits += 1
            self._sets.touch(key)
        return found

    async def _ids_of(self, part: Part, key: PartIdentity) -> Any:
        found = self._parts.get(key)
        if found is None:
            found = (await self._reader.read_part(part, [ROW_ID])).column(ROW_ID).to_numpy()
            if part.rows <= MAX_CACHED_PART_ROWS:
                self._parts.put(key, found, found.nbytes + ENTRY_BYTES)
        else:
            self._parts.touch(key)
        return found


def without_deleted(rows: pa.Table, deleted: Any) -> pa.Table:
    """`rows` less those whose ``_row_id`` is in the sorted array `deleted`."""
    if not len(deleted) or not rows.num_rows:
        return rows
    ids = rows.column(ROW_ID).to_numpy()
    positions = np.minimum(np.searchsorted(deleted, ids), len(deleted) - 1)
    gone = deleted[positions] == ids
    return rows.filter(pa.array(~gone)) if gone.any() else rows


def deleted_within(deleted: Any, parts: Iterable[Part]) -> Any:
    """Those of the sorted row ids `deleted` that lie between the smallest and the largest row id of `parts`."""
    bounds = [part.row_id_bounds for part in parts]
    low, high = min(first for first, _ in bounds), max(last for _, last in bounds)
    return deleted[np.searchsorted(deleted, low) : np.searchsorted(deleted, high, "right")]
