"""Statements about statements: EXPLAIN, prepared statements, cursors."""

from __future__ import annotations

from typing import Literal as OneOf

from msgspec import Struct

from planner.syntax.parse import Parsed


class Explain(Struct, frozen=True, kw_only=True):
    """EXPLAIN. `format` is text, json, yaml or xml."""

    query: Parsed
    analyze: bool = False
    verbose: bool = False
    costs: bool = True
    buffers: bool = False
    timing: bool | None = None
    summary: bool | None = None
    settings: bool = False
    wal: bool = False
    format: OneOf["text", "json", "yaml", "xml"] = "text"


class Prepare(Struct, frozen=True, kw_only=True):
    """PREPARE name (types) AS query. An unspecified parameter type is 0."""

    name: str
    param_types: tuple[int, ...]
    query: Parsed


class Execute(Struct, frozen=True, kw_only=True):
    """EXECUTE name (expressions). `planner.analyze.bind_execute` binds the parameters; there are `count`."""

    name: str
    count: int
    statement: Parsed


class Deallocate(Struct, frozen=True, kw_only=True):
    """DEALLOCATE; `name` is None for ALL."""

    name: str | None


class DeclareCursor(Struct, frozen=True, kw_only=True):
    """DECLARE CURSOR. `scroll` None leaves it to the server."""

    name: str
    query: Parsed
    binary: bool = False
    scroll: bool | None = None
    hold: bool = False
    insensitive: bool = False


class Fetch(Struct, frozen=True, kw_only=True):
    """FETCH, or MOVE when `move`. `count` None is ALL."""

    name: str
    direction: OneOf["forward", "backward", "absolute", "relative"]
    count: int | None
    move: bool = False


class CloseCursor(Struct, frozen=True, kw_only=True):
    """CLOSE; `name` is None for ALL."""

    name: str | None
