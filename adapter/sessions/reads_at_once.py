"""Queries that are answered at once: between two awaits, without a transaction, a portal or a stream.

``SELECT ... WHERE id = $1`` outside a block, whose rows an index finds in memory, needs little of what a statement is
given that may wait, write, be cancelled or fail. `reading` tells whether a statement is such a query, and
`ReadAtOnce.rows` reads at the newest snapshot, as the implicit transaction of the statement would, after a look at the
locks that this one would have to wait for.

Both decline (None) wherever anything is not as usual or would have to be waited for, errors included. Nothing has
happened then, and the statement takes the way of all others (`adapter.sessions.session`), which says what is wrong.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from adapter.execution.session_state import SessionState
from adapter.plans.computed.constant_rows import NeedsEngine
from adapter.plans.computed.row_values import Given
from adapter.plans.key_reads import KeyRead
from adapter.plans.plan_cache import Plan
from adapter.queries.one_key import found_at_once
from adapter.results import ColumnDescription, RecordBatch
from adapter.wall_clock import utc_now
from planner.errors import SqlError
from planner.ir.array_value import ArrayValue
from planner.ir.nodes import Literal
from planner.resolution.statement import TakesLong
from planner.syntax.parse import Parsed
from planner.types.types import SqlType
from storage.errors import StorageError
from storage.unawaited import unawaited


class ReadAtOnce(Struct, frozen=True, kw_only=True, eq=False):
    """A query that may be answered at once, with the session that asks."""

    state: SessionState
    plan: Plan
    key_read: KeyRead
    text: str
    columns: tuple[ColumnDescription, ...]
    param_types: tuple[SqlType, ...]

    def rows(self, params: tuple[Literal, ...]) -> RecordBatch | None:
        """The result with these parameters; None when it declines."""
        state, plan, relation = self.state, self.plan, self.key_read.relation
        env = state.services.env
        if len(params) != len(self.param_types) or any(type(param.value) is ArrayValue for param in params):
            return None
        if relation.shard is None or state.locks.table.would_wait(state.locks.owner, plan.locks):
            return None
        now = utc_now()
        try:
            as_of = unawaited(env.oracle.read_ts("user"))
            if as_of is None or state.newest_catalog() is not plan.catalog:
                return None
            parts = env.reader.snapshot_now(relation.shard, max(as_of, plan.catalog.csn))
            given = Given(params, now, now, state.values.flat["TimeZone"])
            if plan.operands is not None:
                all_params = plan.operands.at_once(given)
                if all_params is None:
                    return None
                given = replace(given, params=all_params)
            found = None if parts is None else found_at_once(env.keys, parts, self.key_read, given)
            rows = None if found is None else self.key_read.program.answer(found, given)
        except (NeedsEngine, SqlError, StorageError):
            return None
        if found is not None and rows is not None:
            index = self.key_read.access.record.oid
            state.services.activity.found(state.database_oid, relation.oid, index, len(found.row_ids))
            state.counts.xact_commit += 1
            state.query_text = self.text
            state.ran, state.goes_on = plan.parsed, False
        return rows


def reading(state: SessionState, text: str, parsed: Parsed, declared: tuple[int, ...]) -> ReadAtOnce | None:
    """The statement `parsed` of `text`, whose parameters are of the types `declared` (oids), as a query that may be
    answered at once; None when it is not one, or not now."""
    values = state.values.flat
    if (
        parsed.kind != "select_stmt"
        or parsed.extension is not None
        or not parsed.is_brief
        or state.transaction is not None
        or not state.is_settled
        or state.temporary is not None
        or state.portals.by_name
        or values["tidegate.as_of"]
        or values["engine"] == "spark"
        or values["enable_indexscan"] != "on"
        or values["default_transaction_isolation"] == "read uncommitted"
        or state.services.env.oracle.asks_store
    ):
        return None
    try:
        plan = state.plan(parsed, state.newest_catalog(), declared, at_once=True)
    except (SqlError, TakesLong):
        return None
    if plan.denied is not None or plan.key_read is None or plan.columns is None or plan.reg_columns or plan.steps:
        return None
    if plan.reads_kept or plan.unpopulated is not None:
        return None
    return ReadAtOnce(
        state=state, plan=plan, key_read=plan.key_read, text=text, columns=plan.columns, param_types=plan.param_types
    )
