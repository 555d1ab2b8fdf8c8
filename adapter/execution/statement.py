"""One statement in execution (`Running`), and what carrying it out gives (`Outcome`).

`adapter.sessions.statement_life` makes a `Running` for each statement, and `adapter.statements.dispatch` returns the
outcome. A `RowsOutcome` with `streaming` set reads while the client fetches, so its transaction stays open until the
rows are through; every other outcome has finished its work, and an autocommit transaction commits before the client
hears of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from adapter.execution.cancellation import CancelScope
from adapter.plans.computed.constant_rows import batch_of
from adapter.plans.computed.row_values import Given
from adapter.results import ColumnDescription, Command, CopyIn, CopyOut, RecordBatch
from planner.ir.nodes import Literal
from planner.syntax.parse import Parsed

if TYPE_CHECKING:
    from adapter.engines.engines import Engines
    from adapter.execution.services import Services
    from adapter.execution.session_registry import SessionRegistry
    from adapter.execution.session_state import SessionState
    from adapter.execution_context import SessionFacts
    from adapter.plans.plan_cache import Plan
    from adapter.transactions.pending import Mark
    from adapter.transactions.transaction import Transaction


class Beside(Struct, eq=False):
    """A statement of another session that is carried out with one of the same plan and the same settings."""

    session: SessionState
    params: tuple[Literal, ...]
    tag: str = ""
    """What its client is told."""


class NotTogether(Exception):
    """Statements cannot be carried out together after all. No client is told."""


class Running(Struct, kw_only=True, eq=False):
    """A statement in execution: all that the code which carries it out may ask of its session and its server.

    `in_block` tells whether it is inside a transaction block, or one of several statements of a query string
    (PostgreSQL's IsTransactionBlock).
    """

    session: SessionState
    transaction: Transaction
    services: Services
    engines: Engines
    sessions: SessionRegistry
    facts: SessionFacts
    parsed: Parsed
    params: tuple[Literal, ...]
    declared: tuple[int, ...]
    """The oids of the parameters' types, where the client gave them."""
    scope: CancelScope
    run: Callable[[Running, Plan], Awaitable[Outcome]]
    """Carries out a plan, as one of the statements of a function."""
    let_hold_nan: Callable[[Running, int, frozenset[int]], Awaitable[None]]
    """Lets columns (attnums) of a table (oid) have NaN: the table is another one afterwards, with its rows. Raises
    NanNotHeld."""
    started_at: datetime
    in_block: bool
    may_retry: bool = False
    is_alone: bool = False
    """Whether it is the only one of its implicit transaction, which commits when it is over, and runs again when that
    may not be."""
    """Whether a conflict at its commit runs it again."""
    attempt: int = 0
    """How often that has happened."""
    token: str = ""
    """Names this execution, in the whole server process: see `ExecutionContext`."""
    depth: int = 0
    """How many functions it is inside of."""
    inserted: frozenset[int] = frozenset()
    """The tables (oids) that it inserts into, as it may: their identity columns get their numbers."""
    beside: tuple[Beside, ...] = ()
    """Statements of other sessions that it carries out as well."""
    before: Mark | None = None
    """Where its transaction was before it wrote anything; None: nobody has marked that."""
    given: Mapping[int, frozenset[int]] = MappingProxyType({})
    """The columns (attnums) that it gives values to, by the oid of their table: messages may show these."""


def given_to(running: Running, params: tuple[Literal, ...] | None = None) -> Given:
    """What the statement's expressions over single rows are computed with: its own parameters, or `params`."""
    return Given(
        running.params if params is None else params,
        running.transaction.started_at,
        running.started_at,
        running.session.values.flat["TimeZone"],
    )


class RowsOutcome(Struct, kw_only=True):
    """Rows, and the tag for the number of rows sent. `read`: the `PreparedRead` that has them, not begun before
    the first of `batches` is asked for."""

    columns: tuple[ColumnDescription, ...]
    batches: AsyncIterator[RecordBatch]
    tag: Callable[[int], str]
    streaming: bool = False
    binary: bool = False
    read: Any = None


Outcome: TypeAlias = Command | RowsOutcome | CopyOut | CopyIn


class _AtHand(AsyncIterator[RecordBatch]):
    """Batches that need not be waited for."""

    __slots__ = ("_batches",)

    def __init__(self, batches: tuple[RecordBatch, ...]) -> None:
        self._batches = iter(batches)

    async def __anext__(self) -> RecordBatch:
        for batch in self._batches:
            return batch
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Lets go of what has not been read, as closing a generator does."""
        self._batches = iter(())


def batches_of(*batches: RecordBatch) -> AsyncIterator[RecordBatch]:
    """A stream of batches that are at hand."""
    return _AtHand(batches)


select_tag: Callable[[int], str] = "SELECT {}".format
"""The tag of a query of so many rows."""


def rows_outcome(columns: tuple[ColumnDescription, ...], rows: list[tuple[Any, ...]], tag: str) -> RowsOutcome:
    """Rows of Python values as an outcome with a fixed tag."""
    batch = batch_of([column.type for column in columns], rows)
    return RowsOutcome(columns=columns, batches=batches_of(batch), tag=lambda _: tag)
