"""Rows of files in a query: what a statement asks for by name, and what was found before it was bound.

Binding looks at no file. Who has a statement bound looks its requests up first, and puts what was found into the
context; the query then reads the rows as a `CteScan` of an id from `FILE_ROWS` down.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from planner.types.types import SqlType

FILE_ROWS = -500_000
"""From here down, one for each request of a statement: the `CteScan.cte` of rows of files."""


class FileRequest(Struct, frozen=True, kw_only=True):
    """A call of read_parquet, read_orc, read_avro, read_csv or read_json: the format, the patterns of the files, the
    options given."""

    format: str
    patterns: tuple[str, ...]
    options: tuple[tuple[str, str | bool], ...] = ()


class FileTable(Struct, frozen=True, kw_only=True, eq=False):
    """What a request has found: the columns, the bytes of all files, and, for who reads the rows, where they are."""

    columns: tuple[tuple[str, SqlType], ...]
    bytes: int
    content: Any
    name: str | None = None
    """Of a foreign table: what it is called."""
    remote: bool = False
    """Whether it is one of another database, which Spark alone can ask."""


class ForeignRead(Struct, frozen=True, kw_only=True):
    """A foreign table in a query: its oid, who reads it (None: the current role), and its columns as the files call
    them, with the types in which they are read."""

    oid: int
    role: int | None
    columns: tuple[tuple[str, SqlType], ...]
