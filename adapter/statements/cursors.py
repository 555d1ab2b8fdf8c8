"""SQL cursors: DECLARE, FETCH, MOVE and CLOSE. They share the portals' namespace."""

from __future__ import annotations

from collections.abc import AsyncIterator

from adapter.execution.cursors import CursorRows, PortalCursor, RowReader
from adapter.execution.guards import require_block
from adapter.execution.portals import Portal
from adapter.execution.statement import Outcome, RowsOutcome, Running
from adapter.plans.plan_cache import Plan
from adapter.queries.acting.cursor_rows import with_row_ids
from adapter.queries.read import run_query
from adapter.results import ColumnDescription, Command, RecordBatch
from adapter.settings.values import number_of
from adapter.statements.scrolling import scrolls
from adapter.subscriptions.change_cursor import ChangeCursor
from adapter.wall_clock import utc_now
from planner.errors import (
    DuplicateCursor,
    FeatureNotSupported,
    InvalidCursorDefinition,
    InvalidCursorName,
    InvalidParameterValue,
    ObjectNotInPrerequisiteState,
)
from planner.ir.bound import BoundQuery
from planner.statements import records as st

BINARY_FORMATS = (1,)
"""Result formats of a BINARY cursor: all its columns are binary."""


async def declare(running: Running, statement: st.DeclareCursor, plan: Plan) -> Command:
    """DECLARE CURSOR. `plan` is the inner query's."""
    session = running.session
    if not statement.hold:
        require_block(running, "DECLARE CURSOR")
    if not isinstance(plan.statement, BoundQuery):
        raise InvalidCursorDefinition("DECLARE CURSOR must specify a SELECT or VALUES command")
    if plan.steps:
        raise FeatureNotSupported("DECLARE CURSOR must not contain data-modifying statements in WITH")
    if plan.statement.locking and (statement.hold or statement.scroll):
        what = "CURSOR WITH HOLD" if statement.hold else "SCROLL CURSOR"
        raise FeatureNotSupported(
            f"DECLARE {what} ... {plan.statement.locking} is not supported",
            detail="Holdable cursors must be READ ONLY." if statement.hold else "Scrollable cursors must be READ ONLY.",
        )
    existing = session.portals.by_name.get(statement.name)
    if existing is not None and statement.name:
        raise DuplicateCursor(f'cursor "{statement.name}" already exists')
    read, known = with_row_ids(plan, running.transaction.catalog, running.params)
    outcome = await run_query(running, read, is_cursor=True)
    snapshot = running.transaction.snapshot
    scroll = statement.scroll
    if scroll is None:
        scroll = not plan.statement.locking and scrolls(plan.statement.rel)
    await session.portals.put(
        Portal(
            name=statement.name,
            text=running.parsed.text,
            parsed=running.parsed,
            plan=plan,
            params=running.params,
            columns=outcome.columns,
            result_formats=BINARY_FORMATS if statement.binary else (),
            created_at=utc_now(),
            depth=running.transaction.savepoint_depth,
            cursor=CursorRows(
                RowReader(outcome.batches), running.session.temporary_files, scroll=scroll, hidden=len(known)
            ),
            known_rows=known,
            csn=None if snapshot is None else snapshot.csn,
            scroll=scroll,
            binary=statement.binary,
            hold=statement.hold,
        )
    )
    return Command(tag="DECLARE CURSOR")


def _portal(running: Running, name: str) -> Portal:
    portal = running.session.portals.by_name.get(name)
    if portal is None:
        raise InvalidCursorName(f'cursor "{name}" does not exist')
    return portal


async def _cursor(running: Running, portal: Portal) -> PortalCursor:
    """The portal's rows as a cursor. A portal that Bind made moves forward only, and both ways of pulling its rows
    share one position."""
    if portal.cursor is None:
        if portal.rows is None:
            plan = portal.plan
            if plan is None or not isinstance(plan.statement, BoundQuery):
                raise ObjectNotInPrerequisiteState(f'portal "{portal.name}" cannot be run')
            params, running.params = running.params, portal.params
            await running.transaction.lock(plan.locks, begin_again=False)
            outcome = await run_query(running, plan)
            running.params = params
            portal.rows, portal.tag = RowReader(outcome.batches), outcome.tag
        portal.cursor = CursorRows(portal.rows, running.session.temporary_files, scroll=False)
    return portal.cursor


def _timeout_s(shown: str) -> float:
    """A time in milliseconds or with a unit, as in settings, 0 or more. Raises 22023."""
    try:
        value = number_of("statement_timeout", shown)
        if value < 0:
            raise InvalidParameterValue("it is negative", hint="Give a time, or 0 not to wait.")
        return value / 1000
    except InvalidParameterValue as error:
        raise InvalidParameterValue(f'invalid value for option "timeout": "{shown}"', hint=error.hint) from error


async def fetch(running: Running, statement: st.Fetch) -> Outcome:
    """FETCH and MOVE."""
    portal = _portal(running, statement.name)
    cursor = await _cursor(running, portal)
    extension = running.parsed.extension
    if extension is not None and extension.timeout is not None:
        if not isinstance(cursor, ChangeCursor):
            raise FeatureNotSupported("only a cursor over a subscription has a timeout")
        cursor.timeout_s = _timeout_s(extension.timeout)
    rows = cursor.fetch(statement)
    if statement.move:
        moved = 0
        async for batch in rows:
            moved += batch.num_rows
        return Command(tag=f"MOVE {moved}")
    columns: tuple[ColumnDescription, ...] = portal.columns or ()
    first = await anext(rows, None)
    return RowsOutcome(
        columns=columns,
        batches=_chain(first, rows),
        tag=lambda count: f"FETCH {count}",
        streaming=True,
        binary=portal.binary,
    )


async def _chain(first: RecordBatch | None, rows: AsyncIterator[RecordBatch]) -> AsyncIterator[RecordBatch]:
    if first is not None:
        yield first
    async for batch in rows:
        yield batch


async def close(running: Running, statement: st.CloseCursor) -> Command:
    """CLOSE name and CLOSE ALL."""
    session = running.session
    if statement.name is None:
        await session.portals.drop_all(keep_held=False)
        return Command(tag="CLOSE CURSOR ALL")
    _portal(running, statement.name)
    await session.portals.drop(statement.name)
    return Command(tag="CLOSE CURSOR")


def fetch_forward(name: str, count: int | None) -> st.Fetch:
    """FETCH FORWARD of `count` rows (None: all)."""
    return st.Fetch(name=name, direction="forward", count=count)
