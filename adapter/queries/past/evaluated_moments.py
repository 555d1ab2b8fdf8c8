"""The moments of AS OF, and of tidegate.as_of and tidegate.changes in FROM, as CSNs."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from adapter.execution.statement import Running
from adapter.materialized.freshness import stale_views_at
from adapter.queries.single_row import evaluate
from adapter.transactions.past.looking_back import past_snapshot
from adapter.transactions.past.moments import csn_at, moment
from planner.errors import DatatypeMismatch, FeatureNotSupported, InvalidParameterValue, SqlError
from planner.files.past_calls import past_calls
from planner.ir.bound import BoundQuery
from planner.ir.past_rows import NO_PAST, PastMoment, PastTable
from planner.syntax.parse import Parsed
from planner.types import types as t
from planner.types.type_names import format_type
from planner.values.text_values import format_text
from storage.timestamps.csn import Csn

_NUMBERS = (t.INT2, t.INT4, t.INT8)
_TIMES = (t.DATE, t.TIMESTAMP)
_TEXTS = (t.TEXT, t.VARCHAR, t.UNKNOWN)


async def evaluated_moment(running: Running, expression: Parsed, clause: str = "AS OF") -> Csn:
    """The CSN that the expression of `clause` means. Raises 42804 for another type than that of a number or a time, and
    0A000 for one that reads tables."""
    session, settings = running.session, running.session.values.flat
    catalog = await running.transaction.begin_statement(running.services.env)
    plan = session.plan(expression, catalog, running.declared)
    if not isinstance(plan.statement, BoundQuery) or plan.templates or plan.steps:
        raise FeatureNotSupported(f"{clause} must not read tables")
    if len(plan.statement.rel.fields) != 1:
        raise FeatureNotSupported(f"{clause} takes one value")
    plan.check_access()
    (value,) = await evaluate(running, catalog, plan.statement)
    type_ = plan.statement.rel.fields[0].type
    if value is None:
        raise InvalidParameterValue(f"{clause} must not be null")
    if type_.oid in _NUMBERS:
        return Csn(value)
    if type_.oid == t.TIMESTAMPTZ and isinstance(value, datetime):
        return csn_at(value)
    if type_.oid in _TIMES:
        return moment(format_text(value, type_), settings["TimeZone"], clause)
    if type_.oid in _TEXTS:
        return moment(value, settings["TimeZone"], clause)
    raise DatatypeMismatch(f"{clause} takes a CSN or a time, not a value of type {format_type(type_.oid)}")


async def look_up_past(running: Running, parsed: Parsed) -> None:
    """Find the tables that a statement, or one inside it, reads as they were by functions in FROM. Who binds it says
    what is wrong, but for the errors of evaluating its moments."""
    if not parsed.reads_past:
        return
    evaluated: dict[tuple[int, int], Csn | SqlError] = {}
    for call in past_calls(parsed):
        for number, each in enumerate(call.moments):
            if isinstance(each, Parsed):
                evaluated[call.location, number] = await evaluated_moment(running, each, "the moment of a table")
    whole, extension = None, parsed.extension
    if extension is not None and extension.as_of is not None:
        whole = await past_moment(running, await evaluated_moment(running, extension.as_of))
    session = running.session
    await session.look_up_past(parsed, evaluated, whole)
    calls = {}
    for place, found in session.past.calls.items():
        if isinstance(found, PastTable) and found.moment is not None and found.since is None:
            moment = found.moment
            expanded = await stale_views_at(running.services.env, moment.then, moment.csn)
            found = replace(found, moment=replace(moment, context=replace(moment.context, expanded=expanded)))
        calls[place] = found
    session.past = replace(session.past, calls=calls)


async def past_moment(running: Running, csn: Csn) -> PastMoment:
    """What a query has to know that is bound at `csn` in a statement of the present. Raises as `past_snapshot`."""
    env, session = running.services.env, running.session
    then = (await past_snapshot(env, csn, session.database_oid)).catalog
    expanded = await stale_views_at(env, then, csn)
    context = session.bind_context(then)
    return PastMoment(csn=csn, then=then, context=replace(context, expanded=expanded, past=NO_PAST))
