"""Expressions that a table has for each of its rows, computed by an engine over rows at hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pyarrow as pa

from adapter.engines.common.engine import Engine
from adapter.engines.router import Route
from adapter.execution.cursors import of_route
from adapter.execution.statement import Running, given_to
from adapter.plans.row_programs import computed_columns
from adapter.queries.acting.session_functions import with_session_values
from adapter.queries.prepared_read import with_token
from adapter.queries.read import execution_context
from adapter.results import RecordBatch
from planner.errors import FeatureNotSupported
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.resolution.session_values import session_values


async def over_rows(running: Running, query: BoundQuery, rows: RecordBatch, purpose: str) -> AsyncIterator[RecordBatch]:
    """The batches of `query`, which reads `rows` as `RETURNING_ROWS` and no table. `purpose` tells executions for one
    statement apart."""
    query = await with_session_values(running, query, session_values(query))
    context = with_token(execution_context(running, running.transaction.catalog), purpose)
    table = pa.Table.from_batches([rows]).rename_columns([f"c{n}" for n in range(1, rows.num_columns + 1)])
    route = _route(running, query)
    stream: Any = of_route(route, query, {}, (), context, {ir.RETURNING_ROWS: table})()
    async with aclosing(stream) as batches:
        async for batch in batches:
            yield batch


def engine_over_rows(running: Running, query: BoundQuery) -> Engine:
    """The engine that computes `query` over rows at hand: the local one, to which they are near, unless only Spark can.
    0A000 when none can."""
    return _route(running, query).engine


def _route(running: Running, query: BoundQuery) -> Route:
    local, spark = running.engines.local, running.engines.spark()
    reason = local.unsupported(query)
    if reason is None:
        return Route(engine=local, reason="the rows are at hand", other=spark)
    if spark is None or spark.unsupported(query) is not None:
        raise FeatureNotSupported(reason)
    return Route(engine=spark, reason=reason)


async def computed_rows(running: Running, query: BoundQuery, rows: RecordBatch, purpose: str) -> RecordBatch:
    """The rows that `query` makes of `rows`, one of each, under their names."""
    columns = computed_columns(query, rows.columns, given_to(running))
    if columns is not None:
        return pa.record_batch(columns, names=rows.schema.names)
    stream: Any = over_rows(running, query, rows, purpose)
    async with aclosing(stream) as batches:
        found = [batch async for batch in batches]
    return pa.Table.from_batches(found).rename_columns(rows.schema.names).combine_chunks().to_batches()[0]
