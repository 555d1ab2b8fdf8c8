"""RETURNING: computed batch by batch over the affected rows, and kept aside until the statement has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import pyarrow as pa

from adapter.execution.statement import Running, given_to
from adapter.plans.predicates import templates_of
from adapter.plans.row_programs import computed_columns
from adapter.queries.prepared_read import with_token
from adapter.queries.read import execution_context, prepare_read
from adapter.results import ColumnDescription, RecordBatch
from adapter.spilling.row_spool import RowSpool
from adapter.system_catalogs.functions.reg_columns import has_reg_columns, with_names
from planner.ir import nodes as ir
from planner.ir.bound import Returning


class ReturnedRows:
    """The rows that one statement returns. `at_hand` are rows of earlier steps of WITH, which its list may read."""

    def __init__(self, running: Running, returning: Returning, at_hand: Mapping[int, Any]) -> None:
        self._running = running
        self._at_hand = at_hand
        self.query = returning.query
        self._templates = templates_of(returning.query)
        self._names = [f"c{number}" for number in range(1, len(returning.query.rel.fields) + 1)]
        self._spool = RowSpool(running.session.temporary_files)

    @property
    def reads_tables(self) -> bool:
        """Whether the list has subqueries, which do not see what the statement changes."""
        return bool(self._templates)

    async def add(self, columns: Sequence[Any]) -> None:
        """Rows have been changed: one array for each live column of the table, and each column joined to them."""
        running = self._running
        if not self._templates:
            computed = computed_columns(self.query, columns, given_to(running))
            if computed is not None:
                await self._spool.append(pa.record_batch(computed, names=self._names))
                return
        catalog = running.transaction.catalog
        names = [f"c{number}" for number in range(1, len(columns) + 1)]
        rows = {**self._at_hand, ir.RETURNING_ROWS: pa.table(list(columns), names=names)}
        read = await prepare_read(running, catalog, self.query, self._templates, constants=False, at_hand=rows)
        context = with_token(read.context, f"returning{self._spool.rows}")
        stream: Any = running.engines.local.execute(
            read.query, read.resolved.inputs, running.params, context, extra=read.at_hand
        )
        async with aclosing(stream) as batches:
            async for batch in batches:
                await self._spool.append(batch)

    def batches(self, columns: Sequence[ColumnDescription] = ()) -> AsyncIterator[RecordBatch]:
        """All of them, once; with `columns` as clients get these."""
        types = [column.type for column in columns]
        if not has_reg_columns(types):
            return self._once()
        running = self._running
        context = execution_context(running, running.transaction.catalog)
        return with_names(self._once(), types, context, running.engines.catalogs)

    async def _once(self) -> AsyncIterator[RecordBatch]:
        try:
            async for batch in self._spool.read(0, self._spool.rows):
                yield batch
        finally:
            self._spool.close()
