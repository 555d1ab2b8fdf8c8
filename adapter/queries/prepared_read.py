"""A query that is ready to run (`PreparedRead`): what reads its rows, or the rows themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from adapter.engines.common.engine import Engine
from adapter.execution_context import ExecutionContext
from adapter.queries.by_index.table_rows import Paths
from adapter.results import RecordBatch
from adapter.transactions.snapshots import ResolvedTables
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery

NOTHING: Mapping[int, Any] = MappingProxyType({})


class PreparedRead(Struct, frozen=True, kw_only=True):
    """A query ready to run. `rows` holds its rows when they are at hand; otherwise `engine` runs it, and `reason` says
    why that one."""

    query: BoundQuery
    params: tuple[ir.Literal, ...]
    context: ExecutionContext
    resolved: ResolvedTables
    rows: RecordBatch | None
    engine: Engine | None
    reason: str
    stream: Callable[[], AsyncIterator[RecordBatch]]
    """Begins to give the rows. Closing what it returns ends the engine's work."""
    again: BoundQuery | None = None
    """What gives its rows by their newest versions, if not `query`: without what acts on the session."""
    writer: Engine | None = None
    """The engine, if it can write the rows so that they do not pass this process."""
    at_hand: Mapping[int, Any] = NOTHING
    """The rows (Arrow tables) that it reads as `CteScan`s of these ids."""
    over: Callable[[Any], RecordBatch | None] | None = None
    """What it gives for other rows (a table in `scan_schema`) of its only table than its key has found, without an
    engine; None when it takes one."""
    paths: Mapping[int, Paths] = NOTHING
    """The tables that are read by indexes, by oid."""


def with_token(context: ExecutionContext, suffix: str) -> ExecutionContext:
    """The same context under another token, for a second execution of one statement."""
    return replace(context, token=f"{context.token}.{suffix}")
