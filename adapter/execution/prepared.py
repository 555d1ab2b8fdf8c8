"""A session's prepared statements: Parse, Describe and Bind of the protocol, PREPARE, EXECUTE and DEALLOCATE of SQL.

Both ways share one namespace. Statements are not transactional. A statement is bound again whenever it is used, so it
follows the catalog; when its result columns change behind the client's back, using it is an error (0A000 from
RevalidateCachedQuery, which drivers react to by preparing again).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapter.execution.portals import Portal, PreparedStatement
from adapter.execution.session_settings import describe_show
from adapter.plans.plan_cache import WITHOUT_CATALOG, Plan
from adapter.results import ColumnDescription, StatementDescription
from adapter.statements.prepare import _declared_only
from adapter.wall_clock import utc_now
from planner.errors import (
    DuplicateCursor,
    DuplicatePreparedStatement,
    FeatureNotSupported,
    InFailedSqlTransaction,
    InvalidCursorName,
    InvalidSqlStatementName,
    ProtocolViolation,
    SqlError,
    SqlSyntaxError,
)
from planner.ir.nodes import Literal
from planner.statements import records as st
from planner.syntax.parse import Parsed
from planner.types import types as t
from planner.types.types import SqlType

if TYPE_CHECKING:
    from adapter.execution.session_state import SessionCore as Session

MAX_PARAMETERS = 65_535
"""The protocol counts parameters in 16 bits."""

_ABORTED = "current transaction is aborted, commands ignored until end of transaction block"


class Statements:
    """See the module's contract."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._statements: dict[str, PreparedStatement] = {}

    def all(self) -> list[PreparedStatement]:
        """Every named statement, for pg_prepared_statements."""
        return [statement for name, statement in self._statements.items() if name]

    def require(self, name: str) -> PreparedStatement:
        """The statement called `name`. Raises 26000."""
        statement = self._statements.get(name)
        if statement is None:
            if not name:
                raise InvalidSqlStatementName("unnamed prepared statement does not exist")
            raise InvalidSqlStatementName(f'prepared statement "{name}" does not exist')
        return statement

    def forget(self, name: str) -> None:
        """Drop a statement, if it is there."""
        self._statements.pop(name, None)

    def forget_unnamed(self) -> None:
        """Drop the unnamed statement."""
        self._statements.pop("", None)

    def forget_all(self) -> None:
        """DEALLOCATE ALL."""
        self._statements.clear()

    async def prepare(self, name: str, text: str, declared: tuple[int, ...]) -> None:
        """Parse. Raises 42601, 42P05, 25P02 and the binder's errors."""
        if not name:
            self.forget_unnamed()
        parsed = self._session.state.plans.parse(text)
        if len(parsed) > 1:
            raise SqlSyntaxError("cannot insert multiple commands into a prepared statement")
        if name and name in self._statements:
            raise DuplicatePreparedStatement(f'prepared statement "{name}" already exists')
        if not parsed or not self._is_known(parsed[0], declared):
            await self._session.refresh_catalog()
        self.add(name, text, parsed[0] if parsed else None, declared, from_sql=False)

    def _is_known(self, parsed: Parsed, declared: tuple[int, ...]) -> bool:
        """Whether the catalog known here will do to prepare `parsed`: the client learns nothing of it."""
        if parsed.kind in WITHOUT_CATALOG:
            return True
        transaction = self._session.transaction
        if 0 in declared or (transaction is not None and transaction.failed):
            return False
        try:
            plan = self._plan(parsed, declared)
        except SqlError:
            return False
        return plan.columns is None and len(plan.param_types) <= len(declared)

    def add(self, name: str, text: str, parsed: Parsed | None, declared: tuple[int, ...], *, from_sql: bool) -> None:
        """Bind `parsed` and keep it as `name`. Raises 42P05 and the binder's errors."""
        if name and name in self._statements:
            raise DuplicatePreparedStatement(f'prepared statement "{name}" already exists')
        param_types: tuple[SqlType, ...] = ()
        columns: tuple[ColumnDescription, ...] | None = None
        if parsed is not None:
            self._check_not_failed(parsed)
            if parsed.kind != "transaction_stmt":
                plan = self._plan(parsed, declared)
                param_types, columns = plan.param_types, self.columns_of(plan)
        if not from_sql:
            param_types += _declared_only(declared, len(param_types))
        self._statements[name] = PreparedStatement(
            name=name,
            text=text,
            parsed=parsed,
            declared=declared,
            param_types=param_types,
            columns=columns,
            from_sql=from_sql,
            prepared_at=utc_now(),
        )

    def _check_not_failed(self, parsed: Parsed) -> None:
        transaction = self._session.transaction
        if transaction is not None and transaction.failed and parsed.kind != "transaction_stmt":
            raise InFailedSqlTransaction(_ABORTED)

    def _plan(self, parsed: Parsed, declared: tuple[int, ...]) -> Plan:
        session = self._session
        env = session.state.env
        catalog = env.catalog.current() if session.transaction is None else session.transaction.planning_catalog(env)
        return session.plan(parsed, catalog, declared)

    def columns_of(self, plan: Plan) -> tuple[ColumnDescription, ...] | None:
        """The columns of a statement's result, None when it returns no rows."""
        match plan.statement:
            case st.Show():
                return describe_show(self._session, plan.statement)
            case st.Explain():
                type_ = t.JSON if plan.statement.format == "json" else t.TEXT
                return (ColumnDescription(name="QUERY PLAN", type=SqlType(type_)),)
            case st.Execute():
                return self.require(plan.statement.name).columns
            case st.Fetch() if not plan.statement.move:
                portal = self._session.portals.get(plan.statement.name)
                if portal is None:
                    raise InvalidCursorName(f'cursor "{plan.statement.name}" does not exist')
                return portal.columns
            case _:
                return plan.columns

    def _revalidated(self, statement: PreparedStatement) -> Plan | None:
        if statement.parsed is None or statement.parsed.kind == "transaction_stmt":
            return None
        plan = self._plan(statement.parsed, tuple(type_.oid for type_ in statement.param_types))
        check_unchanged(statement.columns, self.columns_of(plan))
        return plan

    async def describe(self, name: str) -> StatementDescription:
        """Describe. Raises 26000, 0A000, and 25P02 for a statement with rows in a failed transaction."""
        statement = self.require(name)
        transaction = self._session.transaction
        if transaction is not None and transaction.failed:
            if statement.columns is not None:
                raise InFailedSqlTransaction(_ABORTED)
        else:
            if statement.columns is not None or statement.param_types:
                await self._session.refresh_catalog()
            self._revalidated(statement)
        return StatementDescription(param_types=statement.param_types, columns=statement.columns)

    def bind(self, portal: str, name: str, params: tuple[Literal, ...], result_formats: tuple[int, ...]) -> Portal:
        """Bind. Raises 26000, 42P03, 08P01, 25P02, 0A000."""
        session = self._session
        statement = self.require(name)
        wanted = len(statement.param_types)
        if len(params) != wanted:
            raise ProtocolViolation(
                f'bind message supplies {len(params)} parameters, but prepared statement "{name}" requires {wanted}'
            )
        transaction = session.transaction
        plan: Plan | None = None
        if transaction is not None and transaction.failed:
            if statement.parsed is not None and (
                statement.parsed.kind != "transaction_stmt" or statement.columns is not None
            ):
                raise InFailedSqlTransaction(_ABORTED)
        else:
            plan = self._revalidated(statement)
        if portal and session.portals.get(portal) is not None:
            raise DuplicateCursor(f'cursor "{portal}" already exists')
        count = len(statement.columns or ())
        if len(result_formats) > 1 and len(result_formats) != count:
            raise ProtocolViolation(
                f"bind message has {len(result_formats)} result formats but query has {count} columns"
            )
        return Portal(
            name=portal,
            text=statement.text,
            parsed=statement.parsed,
            plan=plan,
            params=params,
            columns=statement.columns,
            result_formats=result_formats,
            created_at=utc_now(),
            depth=0 if transaction is None else transaction.savepoint_depth,
        )


def check_unchanged(
    promised: tuple[ColumnDescription, ...] | None, columns: tuple[ColumnDescription, ...] | None
) -> None:
    """0A000 when a statement's result is not what its client was told."""
    if columns is not promised and _shape(columns) != _shape(promised):
        raise FeatureNotSupported("cached plan must not change result type", routine="RevalidateCachedQuery")


def _shape(columns: tuple[ColumnDescription, ...] | None) -> object:
    if columns is None:
        return None
    return [(column.name, column.type.oid, column.type.typmod) for column in columns]
