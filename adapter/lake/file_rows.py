"""Rows of files for engines: in place of an Arrow table, an Arrow dataset or the files themselves.

Both engines see the columns ``c1``, ``c2``, ... in the physical types of the columns' SQL types. The local engine scans
datasets, and hands its conditions and the columns that it needs on to Arrow. Spark reads Parquet and ORC files of the
server's file systems itself; what it would read in another way than Arrow does (text files, some types, objects of a
store) Arrow copies to Parquet files first.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from adapter.lake.databases import RemoteRows
from adapter.results import RecordBatch
from adapter.store_errors import sql_error
from adapter.threads import Workers
from planner.dialects.dialect import Dialect
from planner.dialects.engine_name import EngineName
from planner.dialects.of_engine import dialect_of
from planner.errors import CharacterNotInRepertoire, FeatureNotSupported, SqlError
from planner.files.arrow_types import sql_type
from planner.ir.file_rows import FileTable
from planner.ir.physical import arrow_type
from planner.types.types import SqlType
from storage.lake.folder_values import is_plain
from storage.lake.nested import converted_leaves, is_nested, leaves, with_leaves
from storage.lake.places import is_url
from storage.lake.snapshots.tables import SnapshotTable
from storage.lake.tables import LakeColumn, LakeTable, Piece
from storage.lake.troubles import FileTrouble, malformed

_FIRST_DAY = date(1582, 10, 25)
"""From here on it is all the same in which calendar an ORC file counts its days, which files do not always say."""

_OLD_DAY = FeatureNotSupported(f"dates before {_FIRST_DAY} in ORC files are not supported")

_ODD_FOLDER = re.compile(r"=/|=[^/]*%[89A-Fa-f][0-9A-Fa-f][^/]*/")
"""Folders that Spark reads another value from: one without text, and escaped bytes of UTF-8, each a character to it."""

COPY_ROWS = 1 << 16
"""Rows of a row group of what is copied."""


class FileRows:
    """The rows of one table of files."""

    def __init__(self, table: FileTable) -> None:
        self.table: LakeTable | SnapshotTable = table.content
        self.types: tuple[SqlType, ...] = tuple(type for _, type in table.columns)
        self.kept = False
        """Whether an engine stores what becomes of the rows: it has to refuse texts with zero bytes then, which are
        seen otherwise as rows come."""

    @property
    def bytes(self) -> int:
        """What all files have together."""
        return self.table.bytes

    # ------------------------------------------------------------ the local engine

    def pieces(self) -> tuple[Piece, ...]:
        """What the local engine scans, by the files' own names and types. Blocks, and raises what looking at files
        raises."""
        try:
            return self.table.pieces()
        except FileTrouble as trouble:
            raise sql_error(trouble) from trouble

    def local_select(self, known: Sequence[tuple[str, Piece]]) -> str:
        """A FROM item over the pieces, each with the name by which it is known."""
        local = dialect_of("local")
        selects = []
        for source, piece in known:
            items = []
            columns = zip(piece.names, self.table.columns, self.types, strict=True)
            for number, (name, column, type) in enumerate(columns, 1):
                read = local.quoted_name(name)
                if column.nested:
                    read = _json_text("local", column.type, read)
                elif column.type != arrow_type(type):
                    read = local.cast(read, type)
                if self._may_be_old(column):
                    read = _without_old_days(local, read)
                items.append(f"{read} AS c{number}")
            selects.append(f"SELECT {', '.join(items)} FROM {source}")
        return f"({' UNION ALL '.join(selects)})"

    # ------------------------------------------------------------ Spark

    @property
    def native(self) -> bool:
        """Whether Spark reads the files as they are."""
        table = self.table
        if not table.files or (isinstance(table, SnapshotTable) and not table.plain):
            return False
        if (
            not table.format.typed
            or table.format.streamed
            or any(is_url(file.path) or not file.size for file in table.files)
        ):
            return False
        if any(column.partition for column in table.columns) and (
            table.root is None or any(_ODD_FOLDER.search(file.path) for file in table.files)
        ):
            return False
        return all(
            is_plain(column.type) if column.partition else column.uniform and _is_common(column.type)
            for column in table.columns
        )

    def spark_view(
        self,
        session: Any,
        folder: Path,
        *,
        as_they_are: bool,
        sent: Callable[[Path], str],
    ) -> Any:
        """A data frame of the rows. The files are read `as_they_are`, or copied to `folder`, from where `sent` gives
        them to the executors, and says what these open. Blocks."""
        spark = dialect_of("spark")
        reader = session.read.option("__globPaths__", "false")
        columns = list(zip(self.table.columns, self.types, strict=True))
        if not as_they_are:
            names, copied = [f"c{number}" for number in range(1, len(columns) + 1)], self._copied_types()
            stored = [
                spark.type_name(wanted) if type == arrow_type(wanted) and not column.nested else _stored(type, name)
                for name, (column, wanted), type in zip(names, columns, copied, strict=True)
            ]
            ddl = ", ".join(f"{name} {type}" for name, type in zip(names, stored, strict=True))
            path = folder / "rows.parquet"
            self._copy(path)
            frame = reader.schema(ddl).parquet(sent(path))
            return frame.selectExpr(
                *(
                    f"{_json_text('spark', with_leaves(column.type, _physical), name)} AS {name}"
                    if column.nested
                    else name
                    if type == arrow_type(wanted)
                    else f"{spark.cast(name, wanted)} AS {name}"
                    for name, (column, wanted), type in zip(names, columns, copied, strict=True)
                )
            )
        ddl = ", ".join(
            f"{spark.quoted_name(column.name)} {_stored(column.type, column.name)}" for column in self.table.columns
        )
        if self.table.root is not None:
            reader = reader.option("basePath", self.table.root)
        files = [file.path for file in self.table.files]
        frame = reader.schema(ddl).format(self.table.format.name).load(files)
        items = []
        for number, (column, type) in enumerate(columns, 1):
            if column.nested:
                read = _json_text("spark", column.type, spark.quoted_name(column.name), maps=True)
            else:
                read = f"CAST({spark.quoted_name(column.name)} AS {spark.type_name(type)})"
            if self.kept:
                read = _without_zeros(spark, read, column.type)
            items.append(f"{_without_old_days(spark, read) if self._may_be_old(column) else read} AS c{number}")
        return frame.selectExpr(*items)

    def _copied_types(self) -> list[pa.DataType]:
        """The physical types of the columns; nested ones stay that, with physical types in them, and so do numbers that
        may be out of range, which is an error only where they are asked for."""
        return [
            with_leaves(column.read_as, _physical) if column.nested else _copied(column.type, arrow_type(type))
            for column, type in zip(self.table.columns, self.types, strict=True)
        ]

    def _copy(self, path: Path) -> None:
        schema = pa.schema([pa.field(f"c{number}", type) for number, type in enumerate(self._copied_types(), 1)])
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with pq.ParquetWriter(path, schema, compression="snappy") as writer:
                for batch in self.batches():
                    writer.write_batch(batch.rename_columns(schema.names), row_group_size=COPY_ROWS)
        except (pa.ArrowException, OSError) as error:
            raise self.trouble(error) or error from error

    def batches(self) -> Iterable[pa.RecordBatch]:
        """All rows in the types of copies, by the files' names; blocks. Raises what reading raises: see `trouble`."""
        types = self._copied_types()
        names = [column.name for column in self.table.columns]
        for batch in self.table.batches():
            for array, column in zip(batch.columns, self.table.columns, strict=True):
                if self._may_be_old(column) and pc.any(pc.less(array, _FIRST_DAY)).as_py():
                    raise _OLD_DAY
            if self.kept and has_nul(batch):
                raise _nul((self,))
            arrays = [
                converted_leaves(array, type, _converted) for array, type in zip(batch.columns, types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names)
        self.check()

    def _may_be_old(self, column: LakeColumn) -> bool:
        """Whether the values of `column` may be days of the calendar before 1582, which each engine reads its own
        way."""
        return self.table.format.name == "orc" and column.type == pa.date32() and not column.partition

    def check(self) -> None:
        """Raises what reading files has run into: rows that were read are not all there are then."""
        if self.table.opened.trouble is not None:
            raise sql_error(self.table.opened.trouble)

    def check_unchanged(self) -> None:
        """Raises 58030 or 58P01 when one of the files has changed since it was listed. Blocks."""
        try:
            self.table.check_unchanged()
        except FileTrouble as trouble:
            raise sql_error(trouble) from trouble

    # ------------------------------------------------------------ what goes wrong

    def with_nul(self) -> str | None:
        """The path of the first file in whose texts there is a zero byte, if there is one. Blocks."""
        for path, fragment in self.table.fragments():
            if any(map(has_nul, fragment.to_batches(schema=self.table.schema))):
                return path
        return None

    def trouble(self, error: BaseException) -> SqlError | None:
        """What `error`, which reading has raised, says of a file; None when it is about none. Blocks: to name a file
        that cannot be read it is read again."""
        table = self.table
        if table.opened.trouble is not None:
            return sql_error(table.opened.trouble)
        found: BaseException | None = error
        while found is not None:
            if isinstance(found, FileTrouble):
                return sql_error(found)
            found = found.__cause__
        for path, fragment in table.fragments():
            try:
                for _ in fragment.to_batches(schema=table.schema):
                    pass
            except (pa.ArrowException, OSError) as broken:
                return sql_error(table.opened.trouble or malformed(path, broken))
        return None


def _without_old_days(dialect: Dialect, read: str) -> str:
    refused = dialect.raise_sql(_OLD_DAY.sqlstate, _OLD_DAY.message)
    return f"CASE WHEN {read} < DATE '{_FIRST_DAY}' THEN {refused} ELSE {read} END"


def _without_zeros(dialect: Dialect, read: str, type: pa.DataType) -> str:
    """What Spark reads of a text or of texts, refused where a zero byte is in them."""
    error = _nul(())
    refused = dialect.raise_sql(error.sqlstate, error.message)
    if type == pa.string():
        return f"CASE WHEN contains({read}, chr(0)) THEN {refused} ELSE {read} END"
    if pa.types.is_list(type) and type.value_type == pa.string():
        return f"CASE WHEN exists({read}, text -> contains(text, chr(0))) THEN {refused} ELSE {read} END"
    return read


def rows_of_files(files: Mapping[int, FileTable]) -> dict[int, FileRows | RemoteRows]:
    """What engines read of the `files` of a query."""
    return {id: table.content if table.remote else FileRows(table) for id, table in files.items()}


async def checked(
    stream: Callable[[], AsyncIterator[RecordBatch]], files: Iterable[FileRows | RemoteRows], threads: Workers
) -> AsyncIterator[RecordBatch]:
    """The batches of `stream`, which reads `files`. Raises 58030 or 58P01 at the end when one of them has changed, and
    22021 for a text with a zero byte, which files can hold and PostgreSQL's texts cannot."""
    batches: Any = stream()
    async with aclosing(batches) as running:
        async for batch in running:
            if has_nul(batch):
                raise await threads.run(partial(_nul, tuple(files)))
            yield batch
    for rows in files:
        if isinstance(rows, FileRows):
            await threads.run(rows.check_unchanged)


@contextmanager
def kept(at_hand: Mapping[int, Any] | None) -> Iterator[None]:
    """While an engine stores what becomes of the files `at_hand`. Raises 58030 or 58P01 at the end when one of them has
    changed. Blocks."""
    files = [rows for rows in (at_hand or {}).values() if isinstance(rows, FileRows)]
    for rows in files:
        rows.kept = True
    yield
    for rows in files:
        rows.check_unchanged()


def has_nul(batch: pa.RecordBatch) -> bool:
    """Whether a zero byte is in a text of `batch`."""
    return any(map(_has_nul, batch.columns))


def _has_nul(array: pa.Array) -> bool:
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return _has_nul(array.flatten())
    if pa.types.is_struct(array.type):
        return any(map(_has_nul, array.flatten()))
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return bool(pa.types.is_string_view(array.type)) and bool(pc.any(pc.match_substring(array, "\0")).as_py())
    data, width = array.buffers()[2], np.int32 if pa.types.is_string(array.type) else np.int64
    if data is None or not len(array):
        return False
    ends = np.frombuffer(array.buffers()[1], width)
    held = np.frombuffer(data, np.uint8)[ends[array.offset] : ends[array.offset + len(array)]]
    # What stands in place of a NULL is no text.
    return not held.all() and bool(pc.any(pc.match_substring(array, "\0")).as_py())


def _nul(files: Iterable[FileRows | RemoteRows]) -> SqlError:
    path = next((path for rows in files if isinstance(rows, FileRows) and (path := rows.with_nul()) is not None), None)
    error = CharacterNotInRepertoire('invalid byte sequence for encoding "UTF8": 0x00')
    error.where = None if path is None else f'file "{path}"'
    return error


def _converted(array: pa.Array, type: pa.DataType) -> pa.Array:
    if array.type == type:
        return array
    if isinstance(array.type, pa.UuidType):
        import uuid

        texts = [None if value is None else str(uuid.UUID(bytes=value)) for value in array.storage.to_pylist()]
        return pa.array(texts, type)
    if (pa.types.is_timestamp(type) or pa.types.is_time(type)) and array.type.unit == "ns":
        return _microseconds(array).cast(type)
    return array.cast(type, safe=pa.types.is_decimal(type))


def _copied(held: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    if pa.types.is_list(held) and pa.types.is_list(wanted):
        return pa.list_(_copied(held.value_type, wanted.value_type))
    numbers = all(pa.types.is_integer(type) or pa.types.is_decimal(type) for type in (held, wanted))
    return _physical(held) if numbers else wanted


def _microseconds(array: pa.Array) -> pa.Array:
    """Counts of nanoseconds as microseconds, rounded half away from zero as the local engine does."""
    count = array.cast(pa.int64())
    whole = pc.divide(count, 1000)
    rest = pc.subtract(count, pc.multiply(whole, 1000))
    up = pc.greater_equal(rest, 500).cast(pa.int64())
    down = pc.less_equal(rest, -500).cast(pa.int64())
    return pc.subtract(pc.add(whole, up), down)


_COMMON = frozenset(
    {
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.float32(),
        pa.float64(), pa.string(), pa.binary(), pa.date32(),
    }
)  # fmt: skip
"""Plain types that Spark reads from Parquet files as Arrow does."""


def _is_common(type: pa.DataType) -> bool:
    if is_nested(type):
        return all(map(_is_common, leaves(type)))
    if pa.types.is_list(type):
        return type.value_type in _COMMON
    return type in _COMMON or pa.types.is_decimal(type) or (pa.types.is_timestamp(type) and type.unit in ("us", "ms"))


_STORED = {pa.int8(): "TINYINT", pa.uint8(): "SMALLINT", pa.uint16(): "INT", pa.uint32(): "BIGINT"}


def _json_text(engine: EngineName, type: pa.DataType, value: str, *, maps: bool = False) -> str:
    # NOTE: imported here, so that a server that starts does not load what lowers queries.
    from planner.files.nested_values import json_text

    return json_text(engine, type, value, maps=maps)


def _physical(type: pa.DataType) -> pa.DataType:
    return arrow_type(sql_type(type, ""))


def _stored(type: pa.DataType, column: str) -> str:
    """Spark's name of the type that files have for a column, which may not be the one that is wanted of it."""
    if type in _STORED:
        return _STORED[type]
    spark = dialect_of("spark")
    if pa.types.is_struct(type):
        fields = ", ".join(f"{spark.quoted_name(each.name)}: {_stored(each.type, each.name)}" for each in type)
        return f"STRUCT<{fields}>"
    if pa.types.is_map(type):
        return f"MAP<{_stored(type.key_type, column)}, {_stored(type.item_type, column)}>"
    if is_nested(type):
        return f"ARRAY<{_stored(type.value_type, column)}>"
    return spark.type_name(sql_type(type, column))
