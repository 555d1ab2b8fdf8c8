"""Parse, Describe and Bind of the protocol, and PREPARE of SQL: how prepared statements and portals are made.

The statements themselves are kept in `adapter.execution.prepared`. None of these functions runs a statement; they take
the session's transaction as it is, and fail in one that has failed.
"""

from __future__ import annotations

from msgspec.structs import replace

from adapter.execution.guards import in_failed_transaction
from adapter.execution.portals import Portal
from adapter.execution.prepared import PreparedStatement, check_unchanged
from adapter.execution.relation_locks import wait_for_definitions
from adapter.execution.session_settings import describe_show
from adapter.execution.session_state import SessionState
from adapter.plans.plan_cache import WITHOUT_CATALOG, Plan
from adapter.results import ColumnDescription, StatementDescription
from adapter.statements.as_of import past_catalog
from adapter.statements.explaining.formats import result_column
from adapter.transactions.pending import State
from adapter.wall_clock import utc_now
from planner.errors import (
    DuplicateCursor,
    IndeterminateDatatype,
    InvalidCursorName,
    ProtocolViolation,
    SqlError,
    SqlSyntaxError,
)
from planner.ir.array_value import ArrayValue, held_type
from planner.ir.nodes import Literal
from planner.resolution.reg_types import resolve_reg
from planner.statements import records as st
from planner.syntax.parse import Parsed
from planner.types import types as t
from planner.types.types import SqlType, declared_as
from storage.catalog.model import CatalogSnapshot


async def parse(session: SessionState, name: str, text: str, declared: tuple[int, ...]) -> None:
    """Parse. Raises 42601, 42P05, 25P02 and the binder's errors."""
    statements = session.statements
    if not name:
        statements.forget("")
    parsed = await session.services.plans.parse(text)
    if len(parsed) > 1:
        raise SqlSyntaxError("cannot insert multiple commands into a prepared statement")
    if parsed:
        await _plan_ahead(session, parsed[0], _catalog(session), declared)
    if not parsed or not _tells_nothing_new(session, parsed[0], declared):
        await session.refresh_catalog()
        if parsed:
            await _plan_ahead(session, parsed[0], _catalog(session), declared)
    past = await past_catalog(session, parsed[0]) if parsed else None
    try:
        prepare(session, name, text, parsed[0] if parsed else None, declared, from_sql=False, past=past)
    except SqlError:
        if not parsed or past is not None or not await wait_for_definitions(session, parsed[0]):
            raise
        await session.refresh_catalog()
        prepare(session, name, text, parsed[0], declared, from_sql=False)


def _tells_nothing_new(session: SessionState, parsed: Parsed, declared: tuple[int, ...]) -> bool:
    """Whether the catalog known here will do to prepare `parsed`: the client learns nothing of it."""
    if parsed.kind in WITHOUT_CATALOG:
        return True
    transaction = session.transaction
    if 0 in declared or (transaction is not None and transaction.state is State.FAILED):
        return False
    try:
        plan = _plan(session, parsed, declared)
    except SqlError:
        return False
    return plan.columns is None and len(plan.param_types) <= len(declared)


def prepare(
    session: SessionState,
    name: str,
    text: str,
    parsed: Parsed | None,
    declared: tuple[int, ...],
    *,
    from_sql: bool,
    past: CatalogSnapshot | None = None,
) -> None:
    """Bind `parsed`, against the catalog `past` if it reads that, and keep it as `name`. Raises 42P05, 25P02 and the
    binder's errors."""
    param_types: tuple[SqlType, ...] = ()
    columns: tuple[ColumnDescription, ...] | None = None
    if parsed is not None and parsed.kind != "transaction_stmt":
        if session.transaction is not None and session.transaction.state is State.FAILED:
            raise in_failed_transaction()
        plan = _plan(session, parsed, declared, past)
        param_types, columns = plan.param_types, _columns_of(session, plan)
        session.stands_for(parsed, plan)
    session.statements.check_free(name)
    if not from_sql:
        param_types += _unused(declared, len(param_types))
    session.statements.keep(
        PreparedStatement(
            name=name,
            text=text,
            parsed=parsed,
            declared=declared,
            param_types=param_types,
            param_oids=tuple(type_.oid for type_ in param_types),
            columns=columns,
            from_sql=from_sql,
            prepared_at=utc_now(),
            past=past,
        )
    )


def _plan(
    session: SessionState, parsed: Parsed, declared: tuple[int, ...], past: CatalogSnapshot | None = None
) -> Plan:
    return session.plan(parsed, past or _catalog(session), declared)


def _catalog(session: SessionState) -> CatalogSnapshot:
    return session.newest_catalog()


def _columns_of(session: SessionState, plan: Plan) -> tuple[ColumnDescription, ...] | None:
    """The columns of a statement's result, None when it returns no rows."""
    match plan.statement:
        case st.Show():
            return describe_show(session, plan.statement)
        case st.Explain():
            return (result_column(plan.statement),)
        case st.Execute():
            return session.statements.require(plan.statement.name).columns
        case st.Fetch() if not plan.statement.move:
            portal = session.portals.by_name.get(plan.statement.name)
            if portal is None:
                raise InvalidCursorName(f'cursor "{plan.statement.name}" does not exist')
            return portal.columns
        case _:
            return plan.columns


def _unused(declared: tuple[int, ...], used: int) -> tuple[SqlType, ...]:
    """The types of parameters that the client declared beyond the `used` first ones: they count, though the statement
    does without them. Raises 42P18 for one of no type."""
    if used >= len(declared):
        return ()
    for number, oid in enumerate(declared[used:], used + 1):
        if oid == 0:
            raise IndeterminateDatatype(f"could not determine data type of parameter ${number}")
    return tuple(SqlType(oid) for oid in declared[used:])


async def plan_long(session: SessionState, name: str) -> None:
    """Let the plan of the prepared statement `name` be at hand for `describe` and `bind`, made on a thread, where it
    is a long one. Raises nothing."""
    statement = session.statements.by_name.get(name)
    transaction = session.transaction
    if statement is None or statement.parsed is None or statement.parsed.is_brief:
        return
    if transaction is None or transaction.state is not State.FAILED:
        await _plan_ahead(session, statement.parsed, statement.past or _catalog(session), statement.param_oids)


async def _plan_ahead(
    session: SessionState, parsed: Parsed, catalog: CatalogSnapshot, declared: tuple[int, ...]
) -> None:
    if not parsed.is_brief:
        await session.look_up_past(parsed)
    await session.plan_ahead(parsed, catalog, declared)


def _revalidated(session: SessionState, statement: PreparedStatement) -> Plan | None:
    """The statement's plan now; None when it has none. 0A000 when its columns have changed."""
    if statement.parsed is None or statement.parsed.kind == "transaction_stmt":
        return None
    plan = _plan(session, statement.parsed, statement.param_oids, statement.past)
    check_unchanged(statement.columns, _columns_of(session, plan))
    return plan


async def describe(session: SessionState, name: str) -> StatementDescription:
    """Describe. Raises 26000, 0A000, and 25P02 for a statement with rows in a failed transaction."""
    statement = session.statements.require(name)
    transaction = session.transaction
    if transaction is not None and transaction.state is State.FAILED:
        if statement.columns is not None:
            raise in_failed_transaction()
    else:
        if statement.columns is not None or statement.param_types:
            await session.refresh_catalog()
        await plan_long(session, name)
        _revalidated(session, statement)
    return StatementDescription(param_types=statement.param_types, columns=statement.columns)


def _with_objects(session: SessionState, plan: Plan, params: tuple[Literal, ...]) -> tuple[Literal, ...]:
    """`params` with the oids of what those of regclass and its like name. Raises 42P01, 42883, ..."""
    context = session.bind_context(plan.catalog)
    return tuple(
        replace(param, value=resolve_reg(context, param.type.oid, param.value))
        if param.type.oid in t.REG_TYPES and isinstance(param.value, str)
        else param
        for param in params
    )


def bind(
    session: SessionState, portal: str, name: str, params: tuple[Literal, ...], result_formats: tuple[int, ...]
) -> Portal:
    """Bind: the portal, which is not in the session's table yet. Raises 26000, 42P03, 08P01, 25P02, 0A000."""
    statement = session.statements.require(name)
    wanted = len(statement.param_types)
    if len(params) != wanted:
        raise ProtocolViolation(
            f'bind message supplies {len(params)} parameters, but prepared statement "{name}" requires {wanted}'
        )
    transaction = session.transaction
    plan: Plan | None = None
    if transaction is not None and transaction.state is State.FAILED:
        if statement.parsed is not None and (
            statement.parsed.kind != "transaction_stmt" or statement.columns is not None
        ):
            raise in_failed_transaction()
    else:
        plan = _revalidated(session, statement)
    if plan is not None:
        for param in params:
            if param.type.oid in t.REG_TYPES and isinstance(param.value, str):
                params = _with_objects(session, plan, params)
                break
    columns = statement.columns
    if plan is not None and any(isinstance(param.value, ArrayValue) for param in params):
        # What a value holds besides its elements is in the types of the plan for it.
        params = tuple(replace(param, type=held_type(param.value, param.type)) for param in params)
        plan = _plan(session, plan.parsed, tuple(declared_as(param.type) for param in params), statement.past)
        columns = plan.columns
    if portal and session.portals.by_name.get(portal) is not None:
        raise DuplicateCursor(f'cursor "{portal}" already exists')
    count = len(columns or ())
    if len(result_formats) > 1 and len(result_formats) != count:
        raise ProtocolViolation(f"bind message has {len(result_formats)} result formats but query has {count} columns")
    return Portal(
        name=portal,
        text=statement.text,
        parsed=statement.parsed,
        plan=plan,
        params=params,
        columns=columns,
        result_formats=result_formats,
        created_at=utc_now(),
        depth=0 if transaction is None else transaction.savepoint_depth,
    )
