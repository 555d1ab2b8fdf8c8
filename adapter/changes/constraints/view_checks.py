"""WITH CHECK OPTION: rows that are written through a view have to be rows that it shows."""

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
from planner.errors import WithCheckOptionViolation
from planner.ir.bound import ViewChecks
from planner.ir.nodes import RETURNING_ROWS


class CheckedViews:
    """What the views of one statement require of the rows that it writes."""

    def __init__(self, running: Running, target: Target, checks: ViewChecks) -> None:
        self._running = running
        self._target = target
        self._checks = checks
        self._templates = scan_templates(checks.query.rel)
        self._batches = 0

    @property
    def reads_tables(self) -> bool:
        """Whether a condition has subqueries, which do not see what the statement changes."""
        return bool(self._templates)

    async def check(self, rows: RecordBatch) -> None:
        """Raise 44000 for the first of `rows` that a view would not show."""
        running, query = self._running, self._checks.query
        names = [f"c{number}" for number in range(1, rows.num_columns + 1)]
        at_hand = {RETURNING_ROWS: pa.table(rows.columns, names=names)}
        catalog = running.transaction.catalog
        read = await prepare_read(running, catalog, query, self._templates, constants=False, at_hand=at_hand)
        self._batches += 1
        context = with_token(read.context, f"views{self._batches}")
        stream: Any = running.engines.local.execute(
            read.query, read.resolved.inputs, running.params, context, extra=at_hand
        )
        before = 0
        async with aclosing(stream) as batches:
            async for batch in batches:
                failing = pc.index(pc.not_equal(batch.column(0), 0), True).as_py()
                if failing >= 0:
                    view = self._checks.views[batch.column(0)[failing].as_py() - 1]
                    text = failing_row(running, self._target, rows, before + failing)
                    raise WithCheckOptionViolation(f'new row violates check option for view "{view}"', detail=text)
                before += batch.num_rows
