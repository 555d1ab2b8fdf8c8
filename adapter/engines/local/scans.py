"""FROM items of the local engine for the tables of one query.

A `LocalScan` holds what one scan refers to by name (the rows of a small table, a pool table, registered Arrow tables)
until the execution ends.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct, field

from adapter.engines.common.engine import TableInput
from adapter.engines.common.scan_sources import (
    DeletedRows,
    FileGroup,
    PartIdentity,
    PartReader,
    ScanColumn,
    ScanPlan,
    deleted_within,
    identity,
    inline_rows,
    plan_scan,
    without_deleted,
)
from adapter.engines.local.inline_pool import Generation, InlinePool
from adapter.engines.local.small_tables import MAX_ROWS, SmallTables
from adapter.engines.local.stored_fields import read_composite
from adapter.plans.computed.constant_rows import array_of
from planner.dialects.of_engine import dialect_of
from planner.errors import InternalError
from planner.ir.nodes import Literal
from planner.lowering.fragments.sources import ScanSource, constants_layout
from planner.types.types import SqlType, is_wide
from storage.bounded_map import BoundedMap
from storage.ids import ShardId
from storage.shards.links import file_of
from storage.shards.parts import PROVISIONAL_ROW_ID, ROW_ID, Part
from storage.stores.blob import Blob

if TYPE_CHECKING:
    from adapter.engines.local.database import Connection, Cursor

LITERAL_ROW_IDS = 64
"""Up to so many deleted rows are listed in the query's text; more are joined."""

MEMORY_BYTES = 2 << 20
"""A table whose files have no more than this is read into memory once: opening a file takes longer than a point read
of a table."""

MAX_KEPT_CONSTANTS = 64
"""Small tables kept with constants beside their rows; each is at most some hundred KiB."""

_registered = itertools.count()


class LocalScan(Struct, eq=False):
    """One table of one query: the plan and what was read for it.

    All of a small table is in `rows`, under `name` (with constants beside them, under a longer one). Of another one,
    `pooled` are the parts that the pool holds, and `own` the rows that the open transaction inserted.
    """

    plan: ScanPlan
    name: str | None
    rows: pa.Table | None
    pooled: tuple[Part, ...]
    own: tuple[pa.Table, ...]
    generation: Generation | None
    missing: Mapping[PartIdentity, pa.Table]
    deleted: Any
    registered: list[str] = field(default_factory=list)
    offered: str | None = None

    def source(self, cursor: Cursor, blob: Blob) -> ScanSource:
        """The FROM item, after registering on `cursor` what it refers to, but for a small table's rows; blocks."""
        if self.name is not None:
            outputs = self._outputs()
            return ScanSource(
                f"(SELECT {outputs} FROM {self.name})", f"(SELECT {outputs}{{columns}} FROM {self.name}{{layout}})"
            )
        connection = cursor.connection
        selects = [self._pooled(connection)] if self.pooled else []
        if self.own:
            rows = without_deleted(pa.concat_tables(self.own), self.deleted)
            selects.append(f"SELECT {self._outputs()} FROM {self._register(connection, rows)}")
        for group in self.plan.files:
            selects.extend(self._files(connection, blob, group))
        return ScanSource(f"({' UNION ALL '.join(selects)})")

    def offer(self, cursor: Cursor, beside: ConstantColumns, constants: tuple[Literal, ...]) -> None:
        """Puts a small table's rows, with a column of each of `constants`, where the FROM item finds them."""
        if self.name is None or self.rows is None:
            return
        self.offered, rows = self.name, self.rows
        if constants:
            self.offered += constants_layout([constant.type for constant in constants])
            rows = beside.of(rows, constants)
        cursor.offer(self.offered, rows)

    def unregister(self, cursor: Cursor) -> None:
        """Takes back what `source` and `offer` made known; blocks."""
        if self.offered is not None:
            cursor.withdraw(self.offered)
            self.offered = None
        for name in self.registered:
            cursor.connection.unregister(name)
        self.registered.clear()

    def _outputs(self) -> str:
        names = [column.name for column in self.plan.columns]
        return ", ".join([*names, ROW_ID] if self.plan.row_ids else names) or "1 AS nothing"

    def _register(self, connection: Connection, rows: pa.Table) -> str:
        name = f"arrow{next(_registered)}"
        connection.register(name, rows)
        self.registered.append(name)
        return name

    def _pooled(self, connection: Connection) -> str:
        if self.generation is None:
            raise InternalError("inline parts are read without a table for them")
        self.generation.add(connection, self.missing)
        condition = self.generation.condition(self.pooled)
        if self.plan.hit_inline:
            condition += self._not_deleted(connection, self.pooled)
        return f"SELECT {self._outputs()} FROM {self.generation.name} WHERE {condition}"

    def _not_deleted(self, connection: Connection, parts: tuple[Part, ...]) -> str:
        ids = deleted_within(self.deleted, parts)
        if not len(ids):
            return ""
        if len(ids) <= LITERAL_ROW_IDS:
            return f" AND {ROW_ID} NOT IN ({', '.join(map(str, ids.tolist()))})"
        name = self._register(connection, pa.table({"id": ids}))
        return f" AND NOT EXISTS (SELECT 1 FROM {name} WHERE {name}.id = {ROW_ID})"

    def _files(self, connection: Connection, blob: Blob, group: FileGroup) -> list[str]:
        local = dialect_of("local")
        uris = [local.string(file_of(_key(part), part.link, blob.uri)) for part in group.parts]
        # The names of folders are no columns.
        alone = "" if group.names is None else ", hive_partitioning=false"

        def read(column: ScanColumn) -> str:
            if column.name not in group.columns:
                return local.literal(column.missing.value, column.type)
            name = local.quoted_name(group.name(column.name))
            if not column.form:
                return _read_as(name, column.type)
            return read_composite(connection, f"read_parquet({uris[0]}{alone})", name, column.type)

        items = [f"{read(column)} AS {column.name}" for column in self.plan.columns]
        if not group.row_ids:
            return [f"SELECT {', '.join(items) or '1 AS nothing'} FROM read_parquet([{', '.join(uris)}]{alone})"]
        if group.stored_row_ids:
            sources = [f"SELECT {', '.join([*items, ROW_ID])} FROM read_parquet([{', '.join(uris)}]{alone})"]
        else:
            sources = [
                f"SELECT {', '.join([*items, f'{part.first_row_id} + file_row_number AS {ROW_ID}'])}"
                f" FROM read_parquet({uri}, file_row_number=true{alone})"
                for part, uri in zip(group.parts, uris, strict=True)
            ]
        if not group.deleted:
            return sources
        condition = self._not_deleted(connection, group.parts)
        if not condition:
            return [f"SELECT {self._outputs()} FROM ({source})" for source in sources]
        return [f"SELECT {self._outputs()} FROM ({source}) WHERE TRUE{condition}" for source in sources]


class ConstantColumns:
    """Small tables with constants beside their rows; the latest are kept. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: BoundedMap[object, tuple[pa.Table, pa.Table]] = BoundedMap(max_entries=MAX_KEPT_CONSTANTS)
        """By identity of the rows, which an entry keeps alive, and the constants."""

    def of(self, rows: pa.Table, constants: tuple[Literal, ...]) -> pa.Table:
        """`rows` with the columns ``p1``, ``p2``, ..., each of which holds one of `constants` in every row."""
        if not constants:
            return rows
        key = (id(rows), constants)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.touch(key)
                return kept[1]
        made = rows
        for number, constant in enumerate(constants, 1):
            made = made.append_column(f"p{number}", _repeated(constant, rows.num_rows))
        with self._lock:
            self._kept.put(key, (rows, made))
        return made


def _read_as(name: str, type_: SqlType) -> str:
    """A column of a file, by its quoted name, in the type that its table has (`storage.shards.columns.widening`)."""
    read = dialect_of("local").cast(name, type_)
    if not is_wide(type_):
        return read
    shown = f"rtrim(rtrim({read}, '0'), '.')"
    return f"CASE WHEN starts_with(typeof({name}), 'DECIMAL') AND contains({read}, '.') THEN {shown} ELSE {read} END"


def _repeated(constant: Literal, rows: int) -> pa.Array:
    """`constant` in every row. A text is there once, however long it is."""
    value = array_of(constant.type, [constant.value])
    if pa.types.is_string(value.type):
        return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int8()), rows), value)
    return pa.repeat(value[0], rows)


def _key(part: Part) -> str:
    if part.key is None:
        raise InternalError("a part is neither inline nor in the blob store")
    return part.key


def plan_local(table: TableInput, *, row_ids: bool) -> ScanPlan:
    """The plan of a scan of `table`, whose files are read into memory when they are small."""
    return plan_scan(table, row_ids=row_ids, memory_bytes=MEMORY_BYTES)


def is_small(plan: ScanPlan) -> bool:
    """Whether all rows of the table are read as those of a small table (`small_scan`)."""
    return not plan.files and sum([part.rows for part in plan.inline]) <= MAX_ROWS


async def small_scan(oid: int, table: TableInput, plan: ScanPlan, small: SmallTables) -> LocalScan:
    """The scan of a table that is small, or of rows picked out of one, with its rows. `oid` is what the query reads it
    by."""
    rows = table.picked
    return LocalScan(
        plan=plan,
        name=small.name(_shard(table), plan.columns, oid),
        rows=await small.rows(plan.columns, plan.inline, plan.deletes) if rows is None else rows,
        pooled=(),
        own=(),
        generation=None,
        missing={},
        deleted=None,
    )


async def large_scan(
    table: TableInput, plan: ScanPlan, *, reader: PartReader, pool: InlinePool, deleted: DeletedRows
) -> LocalScan:
    """The scan of any table, with what has to be read into memory for it. `release_scan` afterwards."""
    for group in plan.files:
        # DuckDB does not notice a flipped bit in a page.
        await reader.verify_parts(group.parts)
    committed = tuple(part for part in plan.inline if part.first_row_id < PROVISIONAL_ROW_ID)
    own = tuple(part for part in plan.inline if part.first_row_id >= PROVISIONAL_ROW_ID)
    generation: Generation | None = None
    missing: dict[PartIdentity, pa.Table] = {}
    if committed:
        generation = pool.lease(_shard(table), plan.columns, committed)
    try:
        if generation is not None:
            for part in generation.missing(committed):
                missing[identity(part)] = await inline_rows(reader, plan.columns, part)
        return LocalScan(
            plan=plan,
            name=None,
            rows=None,
            pooled=committed,
            own=tuple([await inline_rows(reader, plan.columns, part) for part in own]),
            generation=generation,
            missing=missing,
            deleted=await deleted.ids(plan.deletes),
        )
    except BaseException:
        if generation is not None:
            pool.release(generation)
        raise


def _shard(table: TableInput) -> ShardId:
    if table.relation.shard is None:
        raise InternalError(f'relation "{table.relation.name}" has no shard')
    return table.relation.shard


def release_scan(scan: LocalScan, pool: InlinePool) -> None:
    """Ends the scan's use of the pool."""
    if scan.generation is not None:
        pool.release(scan.generation)
        scan.generation = None
