"""WITH CHECK OPTION: rows that are written through a view have to be rows that it shows. Row-level security: what
policies demand of rows that are written, and of those that are there."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from adapter.changes.constraints.row_checks import failing_row
from adapter.changes.constraints.target import Target
from adapter.execution.statement import Running
from adapter.plans.predicates import scan_templates
from adapter.queries.prepared_read import with_token
from adapter.queries.read import prepare_read
from adapter.results import RecordBatch
from planner.errors import InsufficientPrivilege, WithCheckOptionViolation
from planner.ir.bound import BoundQuery, PolicyChecks, ViewChecks
from planner.ir.nodes import RETURNING_ROWS


class _Numbering:
    """A query that gives each of the rows at hand the number of what is wrong with it, or 0."""

    def __init__(self, running: Running, query: BoundQuery, purpose: str) -> None:
        self._running = running
        self._query = query
        self._purpose = purpose
        self._templates = scan_templates(query.rel)
        self._batches = 0

    @property
    def reads_tables(self) -> bool:
        """Whether a condition has subqueries, which do not see what the statement changes."""
        return bool(self._templates)

    async def first(self, rows: RecordBatch) -> tuple[int, int] | None:
        """The first of `rows` that something is wrong with, and its number; None when nothing is."""
        running, query = self._running, self._query
        names = [f"c{number}" for number in range(1, rows.num_columns + 1)]
        at_hand = {RETURNING_ROWS: pa.table(rows.columns, names=names)}
        catalog = running.transaction.catalog
        read = await prepare_read(running, catalog, query, self._templates, constants=False, at_hand=at_hand)
        self._batches += 1
        context = with_token(read.context, f"{self._purpose}{self._batches}")
        stream: Any = running.engines.local.execute(
            read.query, read.resolved.inputs, running.params, context, extra=read.at_hand
        )
        before = 0
        async with aclosing(stream) as batches:
            async for batch in batches:
                failing = pc.index(pc.not_equal(batch.column(0), 0), True).as_py()
                if failing >= 0:
                    return before + failing, batch.column(0)[failing].as_py()
                before += batch.num_rows
        return None


class CheckedViews:
    """What the views of one statement require of the rows that it writes."""

    def __init__(self, running: Running, target: Target, checks: ViewChecks) -> None:
        self._running = running
        self._target = target
        self._views = checks.views
        self._numbering = _Numbering(running, checks.query, "views")

    @property
    def reads_tables(self) -> bool:
        """Whether a condition has subqueries, which do not see what the statement changes."""
        return self._numbering.reads_tables

    async def broken(self, rows: RecordBatch) -> tuple[int, WithCheckOptionViolation] | None:
        """The number of the first of `rows` that a view would not show, and its error (44000); None when all show."""
        found = await self._numbering.first(rows)
        if found is None:
            return None
        view = self._views[found[1] - 1]
        text = failing_row(self._running, self._target, rows, found[0])
        return found[0], WithCheckOptionViolation(f'new row violates check option for view "{view}"', detail=text)


class CheckedPolicies:
    """What row-level security requires of rows. `purpose` tells the checks of one statement apart."""

    def __init__(self, running: Running, checks: PolicyChecks, purpose: str) -> None:
        self._messages = checks.messages
        self._numbering = _Numbering(running, checks.query, f"policies_{purpose}")

    @property
    def reads_tables(self) -> bool:
        """Whether a policy has subqueries, which do not see what the statement changes."""
        return self._numbering.reads_tables

    async def check(self, rows: RecordBatch) -> None:
        """Raise 42501 for the first of `rows` that breaks a policy."""
        found = await self._numbering.first(rows) if rows.num_rows else None
        if found is not None:
            raise InsufficientPrivilege(self._messages[found[1] - 1])
