"""SUBSCRIBE, as COPY (SUBSCRIBE ...) TO STDOUT and DECLARE ... CURSOR FOR SUBSCRIBE ...."""

from __future__ import annotations

from adapter.changes.copy.copy_options import copy_format
from adapter.execution.guards import require_block
from adapter.execution.portals import Portal
from adapter.execution.statement import Outcome, Running
from adapter.materialized.freshness import views_on_commit
from adapter.plans.plan_cache import Plan
from adapter.queries.past.evaluated_moments import evaluated_moment
from adapter.results import ColumnDescription, Command, CopyOut
from adapter.subscriptions.change_cursor import ChangeCursor
from adapter.subscriptions.feed import Feed, leading_columns
from adapter.transactions.past.looking_back import past_snapshot
from adapter.wall_clock import utc_now
from planner.errors import (
    ActiveSqlTransaction,
    DuplicateCursor,
    FeatureNotSupported,
    InvalidCursorDefinition,
    InvalidParameterValue,
)
from planner.ir.bound import BoundQuery
from planner.statements import records as st
from planner.syntax.parse import Subscription


async def run_subscribe(running: Running, subscription: Subscription) -> Outcome:
    """Carry out a statement around SUBSCRIBE. Raises 0A000 for what cannot be subscribed to, 22023 and 72000 for
    moments that cannot be read, 42501, and 25001 in a transaction that has written."""
    env, session, transaction = running.services.env, running.session, running.transaction
    await transaction.begin_statement(env)
    if running.parsed.kind not in ("copy_stmt", "declare_cursor_stmt"):
        raise FeatureNotSupported(
            "SUBSCRIBE cannot stand by itself",
            hint="Use COPY (SUBSCRIBE ...) TO STDOUT, or DECLARE ... CURSOR FOR SUBSCRIBE ....",
        )
    if transaction.has_writes:
        raise ActiveSqlTransaction("SUBSCRIBE cannot run in a transaction that has changed something")
    around = session.plan(running.parsed, transaction.catalog, running.declared).statement
    feed, columns = await _feed(running, subscription)
    match around:
        case st.Copy() if not around.is_from and around.filename is None:
            if around.options.format not in ("text", "csv", "binary"):
                raise FeatureNotSupported(f"SUBSCRIBE is not copied in format {around.options.format}")
            format_ = copy_format(around.options, [column.name for column in columns], None)
            _hold_nothing(running)
            return CopyOut(columns=columns, format=format_, batches=feed.batches(), live=True)
        case st.DeclareCursor():
            require_block(running, "DECLARE CURSOR")
            if around.hold or around.scroll:
                what = "WITH HOLD" if around.hold else "SCROLL"
                raise InvalidCursorDefinition(f"a cursor over a subscription cannot be {what}")
            if around.name in session.portals.by_name:
                raise DuplicateCursor(f'cursor "{around.name}" already exists')
            await session.portals.put(
                Portal(
                    name=around.name,
                    text=running.parsed.text,
                    parsed=running.parsed,
                    plan=None,
                    params=running.params,
                    columns=columns,
                    result_formats=(1,) if around.binary else (),
                    created_at=utc_now(),
                    depth=transaction.savepoint_depth,
                    cursor=ChangeCursor(feed),
                    binary=around.binary,
                )
            )
            _hold_nothing(running)
            return Command(tag="DECLARE CURSOR")
        case _:
            raise FeatureNotSupported("SUBSCRIBE only writes to STDOUT")


async def _feed(running: Running, subscription: Subscription) -> tuple[Feed, tuple[ColumnDescription, ...]]:
    env, session, transaction = running.services.env, running.session, running.transaction
    assert transaction.snapshot is not None
    as_of, catalog = transaction.snapshot.csn, transaction.catalog
    up_to = None
    if subscription.up_to is not None:
        up_to = await evaluated_moment(running, subscription.up_to, "UP TO")
    if subscription.as_of is not None:
        as_of = await evaluated_moment(running, subscription.as_of)
        catalog = (await past_snapshot(env, as_of, session.database_oid)).catalog
    if up_to is not None and up_to < as_of:
        raise InvalidParameterValue("UP TO must not be before AS OF")
    # Views that are kept by what they are made of are followed by that.
    session.expanded = frozenset(view.oid for view in views_on_commit(catalog))
    plan: Plan = session.plan(subscription.query, catalog, running.declared)
    if not isinstance(plan.statement, BoundQuery):
        raise FeatureNotSupported("SUBSCRIBE is for queries")
    plan.check_access()
    feed = Feed(
        running,
        plan,
        subscription.query,
        as_of=as_of,
        up_to=up_to,
        snapshot=subscription.snapshot,
        progress=subscription.progress,
    )
    await feed.begin()
    return feed, (*leading_columns(progress=subscription.progress), *(plan.columns or ()))


def _hold_nothing(running: Running) -> None:
    """The transaction keeps no history while it waits for changes, unless it has read something else before."""
    transaction = running.transaction
    if transaction.may_renew:
        transaction.renew()
        if transaction.hold is not None:
            transaction.hold.release()
            transaction.hold = None
