"""The statements of a function or procedure, carried out one after the other.

Each is planned with the arguments as constants and sees what earlier ones have changed. What the last one returns is
the result. While they run the function's settings hold, and its owner is the current user where it says SECURITY
DEFINER.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager, nullcontext
from copy import copy
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from adapter.execution.session_settings import apply_setting
from adapter.execution.statement import RowsOutcome, Running
from adapter.materialized.freshness import stale_views
from adapter.plans.operands import operands_of
from adapter.plans.plan_cache import Plan, describe_query, make_plan
from adapter.plans.row_text import literal_value
from adapter.procedures.extensions.running import check_only_reads, run_native
from adapter.results import Command
from adapter.settings.values import IDENTITY_SETTINGS
from adapter.transactions.snapshots import seeing_own
from planner.calls.inlining import may_lock_rows
from planner.calls.user_functions import statements_of
from planner.common_errors import too_deep
from planner.definitions.routines import converted, with_arguments
from planner.errors import FeatureNotSupported, UndefinedFunction
from planner.ir.bound import BoundChange, BoundQuery
from planner.ir.nodes import Literal
from planner.resolution.statement import BindContext
from planner.statements import records as st
from planner.syntax.parse import Parsed
from planner.types.signature import Signature
from planner.types.type_scope import types_of
from planner.types.types import RECORD, VOID, SqlType, column_type
from planner.types.user_types import attributes
from storage.catalog.routines import Function

MAX_DEPTH = 100
"""Calls inside calls: deeper ones are refused before Python's stack is."""

MAX_ROWS = 100_000
"""Rows of a function's result: they are held in memory, each as Python values."""

_NOT_IN_FUNCTIONS = (st.Begin, st.Commit, st.Rollback, st.Savepoint, st.Release, st.RollbackTo, st.PreparedTransaction)


async def call_function(running: Running, *args: Any, signature: Signature) -> Any:
    """The value of a function that returns one: what the first row of its last statement has in the first column."""
    rows, _ = await run_body(running, signature, args)
    if signature.result == VOID:
        return None
    return rows[0][0] if rows else None


async def run_body(
    running: Running, signature: Signature, args: Sequence[Any], columns: Sequence[SqlType] | None = None
) -> tuple[list[tuple[Any, ...]], tuple[SqlType, ...]]:
    """Carry out the statements of the function with this signature; the rows of the last one, as `Literal` has values,
    and their types. `columns` are those that they are to have, where the result is a row."""
    record = running.transaction.catalog.get(signature.oid)
    if not isinstance(record, Function):
        raise UndefinedFunction(f"function with OID {signature.oid} does not exist")
    if running.depth >= MAX_DEPTH:
        raise too_deep()
    if record.native:
        return await run_native(running, record, args, columns or ()), tuple(columns or ())
    values = [Literal(value=value, type=column_type(oid)) for value, oid in zip(args, signature.args, strict=True)]
    rows: list[tuple[Any, ...]] = []
    types: tuple[SqlType, ...] = ()
    with _as_declared(running, record):
        statements = statements_of(record.body, record.sql_body)
        for place, parsed in enumerate(statements, 1):
            if record.volatility == "v":
                catalog = await running.transaction.begin_statement(running.services.env)
                running.session.expanded = await stale_views(running.services.env, running.transaction, catalog)
                running.session.brought = {}
            context = with_arguments(record, running.session.bind_context(running.transaction.catalog), values)
            with types_of(context.catalog, context.search_path):
                plan = make_plan(parsed, context, ())
                if isinstance(plan.statement, _NOT_IN_FUNCTIONS):
                    raise FeatureNotSupported(f"{plan.tag} is not allowed in an SQL function")
                if record.volatility != "v":
                    check_only_reads(parsed, plan, may_lock_rows(record, statements))
                if place == len(statements) and signature.result != VOID:
                    declared = column_type(record.result)
                    result = declared if declared.domain else column_type(signature.result)
                    plan = _as_result(plan, context, result, columns)
                within = copy(running)
                within.parsed, within.params, within.declared = parsed, (), ()
                within.depth, within.in_block, within.may_retry = running.depth + 1, True, False
                within.token = f"{running.token}.{running.depth}.{place}"
                if isinstance(plan.statement, BoundChange) or plan.steps:
                    running.session.changes_by_calls += 1
                began = perf_counter()
                with seeing_own(running.transaction) if record.volatility == "v" else nullcontext():
                    outcome = await running.run(within, plan)
                if isinstance(outcome, RowsOutcome):
                    types = tuple(column.type for column in outcome.columns)
                    rows = await _rows(outcome, types)
                else:
                    rows = []
                if running.services.statistics.is_on and isinstance(outcome, (RowsOutcome, Command)):
                    tag = outcome.tag if isinstance(outcome, Command) else outcome.tag(len(rows))
                    _count(running, parsed, tag, perf_counter() - began)
    return rows, types


def _count(running: Running, parsed: Parsed, tag: str, seconds: float) -> None:
    """A statement inside a function has been carried out."""
    session = running.session
    running.services.statistics.note(
        parsed,
        session.values.flat,
        session.values.identity.current,
        session.database_oid,
        tag,
        seconds,
        is_sent=False,
    )


def _as_result(plan: Plan, context: BindContext, result: SqlType, columns: Sequence[SqlType] | None) -> Plan:
    """The plan of the last statement with its columns in the types of the result. 42P13."""
    statement = plan.statement
    wanted = columns
    if columns is not None and len(columns) == 1 and result.oid != RECORD:
        # The only field of a row, or a value: which is a row itself when it has the type of the result.
        is_field = attributes(result.oid) is not None and columns[0].oid != result.oid
        wanted = columns if is_field else None
    if isinstance(statement, BoundQuery):
        query = converted(statement, context, result, wanted)
        operands = None if plan.acts else operands_of(query)
        described = describe_query(query.rel)
        return replace(plan, statement=query, query=query, columns=described, operands=operands, key_read=None)
    if isinstance(statement, BoundChange) and statement.returning is not None:
        query = converted(statement.returning.query, context, result, wanted)
        changed = replace(statement, returning=replace(statement.returning, query=query))
        return replace(plan, statement=changed, columns=describe_query(query.rel))
    return plan


async def _rows(outcome: RowsOutcome, types: Sequence[SqlType]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    stream: Any = outcome.batches
    closable: AsyncIterator[Any]
    async with aclosing(stream) as closable:
        async for batch in closable:
            for row in range(batch.num_rows):
                if len(rows) >= MAX_ROWS:
                    raise FeatureNotSupported(
                        f"functions carried out by statement are not supported for more than {MAX_ROWS} rows"
                    )
                rows.append(tuple(literal_value(batch.column(place), row, type) for place, type in enumerate(types)))
    return rows


@contextmanager
def _as_declared(running: Running, record: Function) -> Iterator[None]:
    """The function's settings and its user hold for the length of the block."""
    session = running.session
    values, views = session.values, (session.expanded, session.brought)
    try:
        for setting in record.settings:
            name, _, value = setting.partition("=")
            if name in IDENTITY_SETTINGS:
                apply_setting(running, name, value, local=True)
            else:
                session.values = session.values.with_local(name, value)
        if record.security_definer:
            session.values = session.values.within(record.owner)
        yield
    finally:
        if record.settings or record.security_definer:
            session.values = values
        session.expanded, session.brought = views
