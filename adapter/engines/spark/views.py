"""Tables as Spark temporary views: analysed once per table version, used by every statement that reads it.

Inline parts, less their deleted rows, become one local relation (no file, no job). Parquet parts are read with a
given schema, so that no job infers one. A version is known by the identity of the parts that are read, so a view never
goes stale; the least recently used are dropped.

Everything but `prepare_scan` blocks and runs on a thread of the Spark runtime.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from msgspec import Struct

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
    scan_schema,
    without_deleted,
)
from adapter.engines.spark.cluster.side_files import SideFiles
from adapter.engines.spark.databases.jdbc import frame_of
from adapter.engines.spark.frames import RunningSpark
from adapter.engines.spark.profiles import Mode
from adapter.lake.databases import RemoteRows
from adapter.lake.file_rows import FileRows
from planner.dialects.of_engine import dialect_of
from planner.errors import InternalError
from planner.types.types import is_wide
from storage.bounded_map import BoundedMap
from storage.cache_memory import portion
from storage.shards.links import file_of
from storage.shards.parts import ROW_ID, Part

MAX_VIEWS = 512
MAX_INLINE_BYTES = portion(64 << 20)
"""Views kept, and Arrow bytes of the local relations in them: they live in the driver's heap, which
all workers share."""

LITERAL_ROW_IDS = 2000
"""Up to so many deleted rows are listed in the plan, as a set; more are joined, which takes a job of its own."""

DRIVER_ROW_IDS = 1_000_000
"""Above so many deleted rows the executors read the ids from the delete parts' files."""

_FILE, _POSITION = "_metadata.file_name", "_metadata.row_index AS _position"
_FILE_OF_OTHERS = "regexp_replace(_metadata.file_path, '^file:/+', '/')"
"""What says in which file a row is: those of the blob store have names of their own, those of others in folders."""

_PLAIN_PATH = re.compile(r"[A-Za-z0-9._=/:-]+")
"""Paths that are the same in a URI."""

CASE_FILES = 16
"""Up to so many files the first row id of each is a CASE on the file's name; more are joined."""

ViewKey: TypeAlias = tuple[Mode, bool, tuple[ScanColumn, ...], bool, tuple[PartIdentity, ...], tuple[PartIdentity, ...]]


class SparkScan(Struct, frozen=True, kw_only=True):
    """One table of one query: the plan, the inline rows that are left, and the deleted row ids or the files of delete
    parts that have them."""

    plan: ScanPlan
    inserts: tuple[Part, ...]
    inline: pa.Table
    deleted: Any
    delete_files: tuple[Part, ...]


async def prepare_scan(table: TableInput, *, row_ids: bool, reader: PartReader, deleted: DeletedRows) -> SparkScan:
    """Reads what a scan of `table` needs in memory."""
    plan = plan_scan(table, row_ids=row_ids)
    await reader.check_links([part for group in plan.files if group.names is not None for part in group.parts])
    in_files = tuple(part for part in plan.deletes if part.inline is None and not part.row_ids)
    if sum(part.rows for part in in_files) <= DRIVER_ROW_IDS or plan.hit_inline:
        in_files = ()
    from_files = {id(part) for part in in_files}
    ids = await deleted.ids([part for part in plan.deletes if id(part) not in from_files])
    pieces = [await inline_rows(reader, plan.columns, part) for part in plan.inline]
    inline = pa.concat_tables(pieces) if pieces else scan_schema(plan.columns).empty_table()
    return SparkScan(
        plan=plan,
        inserts=table.inserts,
        inline=without_deleted(inline, ids) if plan.hit_inline else inline,
        deleted=ids,
        delete_files=in_files,
    )


class SparkViews:
    """The temporary views of one running Spark."""

    def __init__(
        self, spark: RunningSpark, uri: Callable[[str], str], url: Callable[[str], str], side_files: SideFiles
    ) -> None:
        """`uri` says what the executors open to read an object of the blob store, and `url` one that is named by its
        URL; the files of deleted row ids go to `side_files`."""
        self._spark = spark
        self._uri = uri
        self._url = url
        self._side_files = side_files
        self._lock = threading.Lock()
        self._views: BoundedMap[ViewKey, str] = BoundedMap(max_entries=MAX_VIEWS, max_bytes=MAX_INLINE_BYTES)
        self._names = itertools.count()

    def view(self, scan: SparkScan, mode: Mode, *, single: bool) -> str:
        """The name of the view of `scan` in the session of `mode`. `single`: it is one partition, so that joining
        and grouping need no exchange."""
        plan = scan.plan
        key = (
            mode,
            single,
            plan.columns,
            plan.row_ids,
            tuple(identity(part) for part in scan.inserts),
            tuple(identity(part) for part in plan.deletes),
        )
        with self._lock:
            found = self._views.get(key)
            if found is not None:
                self._views.touch(key)
                return found
        name = f"scan{next(self._names)}"
        self._create(scan, mode, name, single)
        with self._lock:
            found = self._views.get(key)
            if found is not None:
                # Another thread was faster.
                self._forget(mode, name)
                return found
            dropped = self._views.put(key, name, scan.inline.nbytes)
        for (old_mode, *_), old_name in dropped:
            self._forget(old_mode, old_name)
        return name

    def register(
        self, rows: pa.Table, columns: tuple[tuple[str, str], ...], mode: Mode, *, single: bool = False
    ) -> str:
        """A view of `rows`, whose columns are named and typed (Spark's SQL) by `columns`; `drop` it afterwards.
        `single` as for `view`."""
        name = f"rows{next(self._names)}"
        frame = self._local_relation(rows, columns, mode, name)
        (frame.coalesce(1) if single else frame).createOrReplaceTempView(name)
        return name

    def register_files(self, rows: FileRows | RemoteRows, mode: Mode, folder: Path | None) -> str:
        """A view of rows of files, or of another database; `drop` it afterwards. `folder` takes what has to be copied
        for Spark."""
        name = f"files{next(self._names)}"
        assert folder is not None
        session = self._spark.session(mode)
        if isinstance(rows, RemoteRows):
            self._spark.check_databases()
            frame_of(session, rows).createOrReplaceTempView(name)
            return name
        files = self._side_files
        frame = rows.spark_view(
            session,
            folder / name,
            as_they_are=rows.native and files.shared,
            sent=partial(files.sent, view=name),
        )
        frame.createOrReplaceTempView(name)
        return name

    def drop(self, name: str, mode: Mode) -> None:
        """Drops a view made by `register`."""
        self._spark.session(mode).catalog.dropTempView(name)
        self._side_files.remove(name)

    def _create(self, scan: SparkScan, mode: Mode, name: str, single: bool) -> None:
        plan = scan.plan
        session = self._spark.session(mode)
        simple = len(plan.files) == 1 and not scan.inline.num_rows and _is_plain(plan.files[0], plan)
        if simple:
            frame = self._reader(session, plan.files[0], plan)
            (frame.coalesce(1) if single else frame).createOrReplaceTempView(name)
            return
        helpers: list[str] = []
        try:
            selects = [self._file_select(scan, group, mode, name, helpers) for group in plan.files]
            if scan.inline.num_rows or not selects:
                selects.append(self._inline_select(scan, mode, name, helpers))
            frame = self._spark.frame(mode, " UNION ALL ".join(selects))
            (frame.coalesce(1) if single else frame).createOrReplaceTempView(name)
        finally:
            # The view's plan is analysed and refers to them no more.
            for helper in helpers:
                session.catalog.dropTempView(helper)

    def _inline_select(self, scan: SparkScan, mode: Mode, name: str, helpers: list[str]) -> str:
        spark = dialect_of("spark")
        types = [(column.name, spark.type_name(column.type)) for column in scan.plan.columns]
        rows = scan.inline
        if scan.plan.row_ids:
            types.append((ROW_ID, "BIGINT"))
        elif not types:
            types = [("nothing", "BIGINT")]
            rows = rows.rename_columns(["nothing"])
        rows = rows.select([column for column, _ in types])
        helper = f"{name}_inline"
        self._local_relation(rows, tuple(types), mode, name).createOrReplaceTempView(helper)
        helpers.append(helper)
        return f"SELECT * FROM {helper}"

    def _local_relation(self, rows: pa.Table, columns: tuple[tuple[str, str], ...], mode: Mode, name: str) -> Any:
        ddl, rows = ", ".join(f"{column} {type}" for column, type in columns), _for_spark(rows)
        if rows.nbytes <= self._spark.most_relation_bytes:
            return self._spark.relation(mode, rows.combine_chunks(), ddl)
        return self._read(self._spark.session(mode), ddl, [self._side_files.write(rows, name, "rows")])

    def _reader(self, session: Any, group: FileGroup, plan: ScanPlan) -> Any:
        spark = dialect_of("spark")
        fields = [
            f"{spark.quoted_name(group.name(c.name))} {_OLD_NUMERIC if _is_old(group, c) else spark.type_name(c.type)}"
            for c in plan.columns
            if c.name in group.columns
        ]
        if group.stored_row_ids and group.row_ids:
            fields.append(f"{ROW_ID} BIGINT")
        return self._parquet(session, ", ".join(fields), group.parts)

    def _parquet(self, session: Any, ddl: str, parts: tuple[Part, ...]) -> Any:
        return self._read(session, ddl, [self._location(part) for part in parts])

    def _location(self, part: Part) -> str:
        """What the executors open to read a part."""
        location = file_of(_key(part), part.link, self._uri)
        if part.link is not None and "://" in location:
            # Executors read objects by themselves, those of others too.
            return self._url(part.link.path)
        return location

    def _shown_file(self, part: Part) -> str:
        """What Spark's rows say of the file that they are in, as `_file_select` asks for it."""
        if part.link is None:
            return _key(part).rpartition("/")[2]
        location = self._location(part)
        if _PLAIN_PATH.fullmatch(location):
            return location
        return self._spark.shown_path(location)

    def _read(self, session: Any, ddl: str, uris: list[str]) -> Any:
        # Keys are plain names, but the folder above them may hold characters of a glob pattern.
        return session.read.schema(ddl).option("__globPaths__", "false").parquet(*uris)

    def _ids_file(self, name: str, helper: str, ids: Any) -> str:
        """Writes row ids where the executors can read them: as rows of a plan they would be copied at every step."""
        return self._side_files.write(pa.table({"id": pa.array(ids)}), name, helper)

    def _forget(self, mode: Mode, name: str) -> None:
        self._spark.session(mode).catalog.dropTempView(name)
        self._side_files.remove(name)

    def _file_select(self, scan: SparkScan, group: FileGroup, mode: Mode, name: str, helpers: list[str]) -> str:
        spark = dialect_of("spark")
        session = self._spark.session(mode)
        helper = f"{name}_{len(helpers)}"
        frame = self._reader(session, group, scan.plan)
        positions = group.row_ids and not group.stored_row_ids
        if positions:
            file = _FILE if group.names is None else _FILE_OF_OTHERS
            frame = frame.selectExpr("*", f"{file} AS _file", _POSITION)
        frame.createOrReplaceTempView(helper)
        helpers.append(helper)
        items = [
            f"{spark.without_trailing_zeros(f'CAST(f.{column.name} AS STRING)')} AS {column.name}"
            if _is_old(group, column)
            else f"f.{spark.quoted_name(group.name(column.name))} AS {column.name}"
            if column.name in group.columns
            else f"{spark.literal(column.missing.value, column.type)} AS {column.name}"
            for column in scan.plan.columns
        ]
        source = f"{helper} AS f"
        row_id = f"f.{ROW_ID}"
        if positions:
            firsts = {self._shown_file(part): part.first_row_id for part in group.parts}
            if len(firsts) != len(group.parts):
                raise InternalError("two parts of a table have files of the same name")
            if len(firsts) <= CASE_FILES:
                cases = " ".join(f"WHEN {spark.string(file)} THEN {first}L" for file, first in firsts.items())
                row_id = f"(CASE f._file {cases} END + f._position)"
            else:
                values = ", ".join(f"({spark.string(file)}, {first}L)" for file, first in firsts.items())
                source += f" JOIN VALUES {values} AS n(file, first) ON f._file = n.file"
                row_id = "(n.first + f._position)"
        condition = ""
        if group.deleted:
            condition, source = self._not_deleted(scan, group, mode, row_id, source, helpers, name)
        outputs = [*items, f"{row_id} AS {ROW_ID}"] if scan.plan.row_ids else items
        return f"SELECT {', '.join(outputs) or '1 AS nothing'} FROM {source}{condition}"

    def _not_deleted(
        self,
        scan: SparkScan,
        group: FileGroup,
        mode: Mode,
        row_id: str,
        source: str,
        helpers: list[str],
        name: str,
    ) -> tuple[str, str]:
        """A WHERE clause and a FROM clause that leave out the group's deleted rows."""
        session = self._spark.session(mode)
        condition = ""
        ids = deleted_within(scan.deleted, group.parts)
        if 0 < len(ids) <= LITERAL_ROW_IDS:
            condition = f" WHERE {row_id} NOT IN ({', '.join(f'{i}L' for i in ids.tolist())})"
        elif len(ids):
            helper = f"{name}_ids{len(helpers)}"
            self._read(session, "id BIGINT", [self._ids_file(name, helper, ids)]).createOrReplaceTempView(helper)
            helpers.append(helper)
            source += f" LEFT ANTI JOIN {helper} AS d ON {row_id} = d.id"
        if scan.delete_files:
            helper = f"{name}_gone{len(helpers)}"
            self._parquet(session, f"{ROW_ID} BIGINT", scan.delete_files).createOrReplaceTempView(helper)
            helpers.append(helper)
            source += f" LEFT ANTI JOIN {helper} AS g ON {row_id} = g.{ROW_ID}"
        return condition, source


_OLD_NUMERIC = "DECIMAL(38,16)"


def _is_old(group: FileGroup, column: ScanColumn) -> bool:
    """Whether the group's files have a numeric that is text now as decimals; see `storage.shards.columns.widening`."""
    stats = group.parts[0].stats.get(column.name)
    return is_wide(column.type) and stats is not None and stats.domain == "decimal"


def _is_plain(group: FileGroup, plan: ScanPlan) -> bool:
    """Whether reading the group's files alone gives the scan's columns."""
    if not plan.columns or len(group.columns) != len(plan.columns) or group.names is not None:
        return False
    if any(_is_old(group, column) for column in plan.columns):
        return False
    return not group.row_ids or (group.stored_row_ids and not group.deleted)


def _for_spark(rows: pa.Table) -> pa.Table:
    """`rows` as Spark's Arrow reader wants them: its TIME counts nanoseconds."""
    for index, field in enumerate(rows.schema):
        wanted = _type_for_spark(field.type)
        if wanted != field.type:
            rows = rows.set_column(index, field.name, rows.column(index).cast(wanted))
    return rows


def _type_for_spark(type: pa.DataType) -> pa.DataType:
    """`type` with times in nanoseconds, in lists and structs too."""
    if pa.types.is_time(type):
        return pa.time64("ns")
    if pa.types.is_list(type):
        item = _type_for_spark(type.value_type)
        return type if item == type.value_type else pa.list_(item)
    if pa.types.is_struct(type):
        fields = [field.with_type(_type_for_spark(field.type)) for field in type]
        return type if fields == list(type) else pa.struct(fields)
    return type


def _key(part: Part) -> str:
    if part.key is None:
        raise InternalError("a part is neither inline nor in the blob store")
    return part.key


def spark_columns(rows: pa.Table) -> tuple[tuple[str, str], ...]:
    """Columns c1, c2, ... with Spark's names of the Arrow types of `rows`."""
    return tuple((f"c{index + 1}", _spark_type(field.type)) for index, field in enumerate(rows.schema))


def _spark_type(type: pa.DataType) -> str:
    if pa.types.is_decimal(type):
        return f"DECIMAL({type.precision},{type.scale})"
    if pa.types.is_timestamp(type):
        return "TIMESTAMP_NTZ" if type.tz is None else "TIMESTAMP"
    if pa.types.is_time(type):
        return "TIME(6)"
    if pa.types.is_list(type):
        return f"ARRAY<{_spark_type(type.value_type)}>"
    if pa.types.is_struct(type):
        return f"STRUCT<{', '.join(f'{field.name}: {_spark_type(field.type)}' for field in type)}>"
    return _SPARK_TYPES[str(type)]


_SPARK_TYPES = {
    "bool": "BOOLEAN",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "binary": "BINARY",
    "date32[day]": "DATE",
}
