"""Statements whose WITH changes rows.

All parts of such a statement read its snapshot, so none sees what another changes but through RETURNING. They run one
after another: what is read by others first, then the statement itself, then what nobody reads, in its order. Keys are
checked when everything is written. A row that several parts would change is changed by the first of them.

Rows that a part leaves for others are held in memory; those that the client gets are kept aside until all has ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pyarrow as pa

from adapter.changes.constraints.deferred_checks import end_statement
from adapter.changes.modify_table import Change, changes_temporary_table, run_change
from adapter.changes.rows.changed_rows import ChangedRows
from adapter.execution.statement import Outcome, RowsOutcome, Running, select_tag
from adapter.plans.plan_cache import Plan, PlanStep, steps_read
from adapter.queries.read import prepare_plan, run_query
from adapter.results import RecordBatch
from adapter.spilling.row_spool import RowSpool
from adapter.transactions.snapshots import reading_as_before
from adapter.transactions.transaction import BeginAgain
from planner.errors import FeatureNotSupported
from planner.ir.bound import BoundChange, BoundInsert, BoundQuery
from planner.ir.nodes import Rel
from planner.ir.physical import arrow_type
from storage.catalog.model import Relation
from storage.ids import ShardId


async def run_rows(running: Running, plan: Plan) -> Outcome:
    """Run a query or a change of rows, whatever its WITH does. Raises BeginAgain."""
    if plan.steps:
        return await _run_with_changes(running, plan)
    return await (run_query(running, plan) if isinstance(plan.statement, BoundQuery) else run_change(running, plan))


async def _run_with_changes(running: Running, plan: Plan) -> Outcome:
    plan.check_access()
    if any(isinstance(e.statement, BoundInsert) and e.statement.foreign for e in (plan, *(s.plan for s in plan.steps))):
        raise FeatureNotSupported("INSERT into a foreign table cannot go with data-modifying statements in WITH")
    running.given = plan.given
    transaction = running.transaction
    plans = (plan, *(step.plan for step in plan.steps))
    if not all(changes_temporary_table(each) for each in plans if isinstance(each.statement, BoundChange)):
        transaction.check_writable(plan.tag.split()[0])
    await transaction.lock(plan.locks)
    transaction.rely_on(plan.relied_on)
    transaction.writable(running.services.env)
    parts = _Parts(running, plan)
    mark = transaction.mark(running.session.values)
    if running.in_block and running.before is None:
        running.before = mark
    try:
        async with reading_as_before(transaction, parts.shards):
            outcome = await parts.run()
        for change in parts.changes:
            await change.finish()
        await end_statement(running)
    except BeginAgain:
        # A part had to wait for rows that another transaction has changed, when others had written theirs.
        transaction.undo(mark)
        raise
    return outcome


class _Parts:
    """The parts of one statement, at work."""

    def __init__(self, running: Running, plan: Plan) -> None:
        self._running = running
        self._plan = plan
        self._left = {step.id: step for step in plan.steps}
        self._rows: dict[int, pa.Table] = {}
        self._changed = ChangedRows(running.session.changes_by_calls)
        self.changes: list[Change] = []
        """Those that have run."""

    @property
    def shards(self) -> list[ShardId]:
        """The tables that are changed."""
        found = []
        for plan in (self._plan, *(step.plan for step in self._plan.steps)):
            relation = self._plan.catalog.get(getattr(plan.statement, "relation_oid", 0))
            if isinstance(relation, Relation) and relation.shard is not None:
                found.append(relation.shard)
        return found

    async def run(self) -> Outcome:
        """Run all of them. Returns what the statement itself gives."""
        for id in sorted(steps_read(self._plan.statement), reverse=True):
            await self._step(id)
        outcome = await self._body()
        for step in self._plan.steps:
            if not isinstance(step.plan.statement, BoundQuery):
                await self._step(step.id)
        return outcome

    async def _body(self) -> Outcome:
        plan = self._plan
        if not isinstance(plan.statement, BoundQuery):
            return (await self._change(plan)).outcome()
        outcome = await run_query(self._running, plan, self._rows)
        spool = RowSpool(self._running.session.temporary_files)
        stream: Any = outcome.batches
        async with aclosing(stream) as batches:
            async for batch in batches:
                await spool.append(batch)
        return RowsOutcome(columns=outcome.columns, batches=_spooled(spool), tag=select_tag)

    async def _step(self, id: int) -> None:
        step = self._left.pop(id, None)
        if step is None:
            return
        for other in sorted(step.needs, reverse=True):
            await self._step(other)
        self._rows[id] = await self._rows_of(step)

    async def _rows_of(self, step: PlanStep) -> pa.Table:
        statement = step.plan.statement
        if isinstance(statement, BoundQuery):
            read = await prepare_plan(self._running, step.plan, at_hand=self._rows)
            return await _table(statement.rel, read.stream())
        change = await self._change(step.plan)
        if change.returned is None:
            return pa.table({})
        return await _table(change.returned.query.rel, change.returned.batches())

    async def _change(self, plan: Plan) -> Change:
        change = Change(self._running, plan, self._rows, self._changed)
        await change.run()
        self.changes.append(change)
        return change


async def _table(rel: Rel, stream: AsyncIterator[RecordBatch]) -> pa.Table:
    """The rows of a query as an engine reads rows at hand."""
    closable: Any = stream
    async with aclosing(closable) as batches:
        found = [batch async for batch in batches if batch.num_rows]
    names = [f"c{number}" for number in range(1, len(rel.fields) + 1)]
    if not found:
        return pa.table([pa.array([], arrow_type(field.type)) for field in rel.fields], names=names)
    return pa.Table.from_batches(found).rename_columns(names)


async def _spooled(spool: RowSpool) -> AsyncIterator[RecordBatch]:
    try:
        async for batch in spool.read(0, spool.rows):
            yield batch
    finally:
        spool.close()
