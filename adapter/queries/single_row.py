"""Evaluating a query that returns one row to Python values: defaults, parameters of EXECUTE."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from adapter.execution.statement import Running
from adapter.plans.predicates import scan_templates
from adapter.plans.row_text import literal_value
from adapter.queries.read import prepare_read
from planner.analyze import bind_execute
from planner.ir import nodes as ir
from planner.ir.array_value import held_type
from planner.ir.bound import BoundQuery
from planner.statements import records as st
from planner.types.types import declared_as
from storage.catalog.model import CatalogSnapshot


async def evaluate(running: Running, catalog: CatalogSnapshot, query: BoundQuery) -> tuple[Any, ...]:
    """The values of the single row of `query`, as `ir.Literal` has them."""
    read = await prepare_read(running, catalog, query, scan_templates(query.rel))
    stream: Any = read.stream()
    async with aclosing(stream) as batches:
        async for batch in batches:
            if batch.num_rows:
                fields = query.rel.fields
                return tuple(literal_value(batch.column(i), 0, field.type) for i, field in enumerate(fields))
    return tuple(None for _ in query.rel.fields)


async def bind_execute_params(running: Running, statement: st.Execute) -> None:
    """Evaluate EXECUTE's parameters; the rest of the statement runs with them."""
    session = running.session
    prepared = session.statements.require(statement.name)
    catalog = running.transaction.planning_catalog(running.services.env)
    query = bind_execute(statement, prepared.param_types, session.bind_context(catalog))
    values = await evaluate(running, catalog, query)
    running.params = tuple(
        ir.Literal(value=value, type=held_type(value, type_))
        for value, type_ in zip(values, prepared.param_types, strict=True)
    )
    running.declared = tuple(declared_as(param.type, is_checked=True) for param in running.params)
