"""SELECT ... AS OF: one statement that reads a moment of the past.

The moment is evaluated first, in the present; the statement is then bound with the catalog of then. Its transaction
goes on as it was, unless it has written, for what it wrote has no place in the past (25001).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from adapter.execution.session_state import SessionState
from adapter.execution.statement import Running
from adapter.queries.single_row import evaluate
from adapter.transactions.past.looking_back import look_back, past_snapshot
from adapter.transactions.past.moments import csn_at, moment
from adapter.transactions.transaction import State
from planner.errors import DatatypeMismatch, FeatureNotSupported, InvalidParameterValue
from planner.ir.bound import BoundQuery
from planner.syntax.parse import Parsed
from planner.types import types as t
from planner.types.type_names import format_type
from planner.values.text_values import format_text
from storage.catalog.model import CatalogSnapshot
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


async def past_catalog(session: SessionState, parsed: Parsed) -> CatalogSnapshot | None:
    """The catalog that `parsed` is prepared with when it says AS OF with a constant; None: that of the present. Raises
    what `past_snapshot` does."""
    if parsed.extension is None or parsed.extension.as_of is None:
        return None
    (target,) = parsed.extension.as_of.tree.target_list
    constant = target.res_target.val.a_const
    text = constant.sval.sval or str(constant.ival.ival or constant.fval.fval or "")
    if not text:
        return None
    csn = moment(text, session.values.flat["TimeZone"], "AS OF")
    return (await past_snapshot(session.services.env, csn, session.database_oid)).catalog


@asynccontextmanager
async def reading(running: Running, csn: Csn) -> AsyncIterator[None]:
    """Within it, the transaction reads at `csn`. Raises what `past_snapshot` and `look_back` do."""
    transaction, session = running.transaction, running.session
    snapshot = await past_snapshot(running.services.env, csn, session.database_oid)
    before = transaction.snapshot, transaction.state, transaction.looks_back
    look_back(transaction, snapshot)
    try:
        yield
    finally:
        if transaction.state is State.READING:
            transaction.snapshot, transaction.state, transaction.looks_back = before
