"""What the functions that read files mean: their requests looked up, as tables that can be bound and read.

Everything here blocks, and runs on a thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adapter.store_errors import sql_error
from planner.errors import InsufficientPrivilege, SqlError
from planner.files.arrow_types import check_nested, sql_type
from planner.ir.file_rows import FileRequest, FileTable
from planner.types.types import JSON, SqlType
from storage.lake.formats import FileFormat
from storage.lake.snapshots.tables import SnapshotTable
from storage.lake.tables import LakeColumn, LakeTable, LakeTables
from storage.lake.troubles import FileTrouble

READING_ROLE = "pg_read_server_files"


def refuse_reading() -> InsufficientPrivilege:
    """42501 for who may not read files of the server."""
    return InsufficientPrivilege(f"must be superuser or have privileges of the {READING_ROLE} role to read files")


def looked_up(
    tables: LakeTables, requests: Iterable[FileRequest], *, allowed: bool
) -> dict[FileRequest, FileTable | SqlError]:
    """What each request has found, or the error that it has run into; blocks."""
    return {request: _looked_up(tables, request, allowed=allowed) for request in requests}


def _looked_up(tables: LakeTables, request: FileRequest, *, allowed: bool) -> FileTable | SqlError:
    if not allowed:
        return refuse_reading()
    options: dict[str, Any] = dict(request.options)
    hive = options.pop("hive_partitioning", True)
    format: Any = request.format
    try:
        return file_table(tables.table(request.patterns, FileFormat(name=format, **options), hive=hive))
    except FileTrouble as trouble:
        return sql_error(trouble)
    except SqlError as error:
        return error


def file_table(table: LakeTable | SnapshotTable) -> FileTable:
    """`table` as statements see it. Raises 0A000 for a column of a type that there is not."""
    path = table.files[0].path if isinstance(table, LakeTable) and len(table.files) == 1 else None
    columns = tuple((column.name, _type(column, path)) for column in table.columns)
    return FileTable(columns=columns, bytes=table.bytes, content=table)


def _type(column: LakeColumn, path: str | None) -> SqlType:
    if column.nested:
        check_nested(column.type, column.name, path)
    return SqlType(JSON) if column.json or column.nested else sql_type(column.type, column.name, path)


def check_nested_columns(table: LakeTable | SnapshotTable) -> None:
    """Raises 0A000 for a column with a type in it that there is not."""
    for column in table.columns:
        if column.nested:
            check_nested(column.type, column.name)
