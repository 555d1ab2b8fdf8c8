"""Statements of a block, and those that begin and end one, that are run without a portal.

Prepared ones go the way of all statements (`StatementLife.run`): snapshots, locks, errors and cancelling are the same.
What they are spared is what the protocol keeps between Bind, Describe and Execute, since all three have come.
"""

from __future__ import annotations

from msgspec import Struct

from adapter.execution.prepared import PreparedStatement
from adapter.results import ColumnDescription, Command, Rows
from adapter.sessions.statement_life import StatementLife
from adapter.transactions.pending import State
from planner.errors import InternalError, SqlError
from planner.ir.array_value import ArrayValue
from planner.ir.nodes import Literal
from planner.resolution.statement import TakesLong
from planner.syntax.parse import Parsed
from planner.types import types as t
from planner.types.types import SqlType

_CONTROL = "transaction_stmt"
_KINDS = frozenset({"select_stmt", "insert_stmt", "update_stmt", "delete_stmt", _CONTROL})


class RunAtOnce(Struct, frozen=True, kw_only=True, eq=False):
    """A statement with the session that asks for it, to be run in its block, or to begin one."""

    life: StatementLife
    parsed: Parsed
    text: str
    declared: tuple[int, ...]
    param_types: tuple[SqlType, ...]
    columns: tuple[ColumnDescription, ...] | None

    def takes(self, params: tuple[Literal, ...]) -> bool:
        """Whether it can be run with these parameters as they are."""
        if len(params) != len(self.param_types):
            return False
        return not [1 for param in params if type(param.value) is ArrayValue or param.type.oid in t.REG_TYPES]

    async def result(self, params: tuple[Literal, ...]) -> Command | Rows:
        """Run it; what the client is told. Raises what the statement raises."""
        life, state = self.life, self.life.state
        life.disarm()
        if state.portals.by_name:
            await state.portals.drop("")
        state.query_text = self.text
        begins = state.transaction is None
        outcome = await life.run(self.parsed, params, self.declared, retry=begins, commit=begins, promised=self.columns)
        result = life.result_of(outcome, commit=begins)
        if not isinstance(result, Command | Rows):
            raise InternalError("a statement of a block copies")
        return result


def running(life: StatementLife, statement: PreparedStatement) -> RunAtOnce | None:
    """The statement as one that can be run at once; None when it cannot, or not now."""
    parsed, state = statement.parsed, life.state
    transaction = state.transaction
    if parsed is None or parsed.kind not in _KINDS or parsed.extension is not None or not parsed.is_brief:
        return None
    if transaction is None:
        if parsed.kind != _CONTROL:
            return None
    elif transaction.implicit or transaction.state is State.FAILED:
        return None
    if statement.past is not None or (state.portals.by_name and list(state.portals.by_name) != [""]):
        return None
    if parsed.kind != _CONTROL:
        try:
            plan = state.plan(parsed, state.newest_catalog(), statement.param_oids, at_once=True)
        except (SqlError, TakesLong):
            return None
        if plan.columns is not statement.columns and plan.columns != statement.columns:
            return None
    return RunAtOnce(
        life=life,
        parsed=parsed,
        text=statement.text,
        declared=statement.param_oids,
        param_types=statement.param_types,
        columns=statement.columns,
    )
