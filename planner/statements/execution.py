"""Statements about statements: EXPLAIN, prepared statements, cursors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from planner.parse import Parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """PREPARE name (types) AS query. An unspecified parameter type is 0."""

    name: str
    param_types: tuple[int, ...]
    query: Parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """EXECUTE name (expressions). `planner.analyze.bind_execute` binds the parameters; there are `count`."""

    name: str
    count: int
    statement: Parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Deallocate:
    """DEALLOCATE; `name` is None for ALL."""

    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareCursor:
    """DECLARE CURSOR. `scroll` None leaves it to the server."""

    name: str
    query: Parsed
    binary: bool = False
    scroll: bool | None = None
    hold: bool = False
    insensitive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """FETCH, or MOVE when `move`. `count` None is ALL."""

    name: str
    direction: OneOf["forward", "backward", "absolute", "relative"]
    count: int | None
    move: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseCursor:
    """CLOSE; `name` is None for ALL."""

    name: str | None
