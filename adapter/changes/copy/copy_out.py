"""COPY ... TO STDOUT: a query whose rows the frontend formats and streams."""

from __future__ import annotations

from adapter.changes.copy.copy_options import begin_progress, copied_from, copy_columns, copy_format
from adapter.changes.with_changes import run_rows
from adapter.execution.relation_names import find_relation, kind_of
from adapter.execution.statement import Running
from adapter.plans.plan_cache import Plan
from adapter.results import ColumnDescription, CopyOut
from planner.errors import FeatureNotSupported, WrongObjectType
from planner.statements import records as st
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import split_and_parse
from storage.catalog.model import CatalogSnapshot, Schema


async def run_copy_out(running: Running, statement: st.Copy) -> CopyOut:
    """COPY table TO STDOUT and COPY (query) TO STDOUT."""
    plan = await plan_copied(running, statement)
    assert plan.columns is not None
    names = [column.name for column in plan.columns]
    relation = copied_from(running, statement)
    format_ = copy_format(statement.options, names, relation)
    outcome = await run_rows(running, plan)
    columns: tuple[ColumnDescription, ...] = plan.columns
    batches = getattr(outcome, "batches", None)
    assert batches is not None
    progress = begin_progress(running, statement, relation)
    return CopyOut(columns=columns, format=format_, batches=batches, progress=progress)


async def plan_copied(running: Running, statement: st.Copy) -> Plan:
    """The query whose rows a COPY TO takes; it has columns. 42809, 0A000."""
    catalog = running.transaction.catalog
    plan = await _plan(running, catalog, statement)
    if plan.columns is None:
        if statement.query is not None and statement.query.kind == "select_stmt":
            raise FeatureNotSupported("COPY (SELECT INTO) is not supported")
        raise FeatureNotSupported("COPY query must have a RETURNING clause")
    return plan


async def _plan(running: Running, catalog: CatalogSnapshot, statement: st.Copy) -> Plan:
    if statement.query is not None:
        return await running.session.planned(statement.query, catalog)
    assert statement.table is not None
    relation = find_relation(running, catalog, statement.table)
    if relation.kind != "r":
        raise WrongObjectType(
            f'cannot copy from {kind_of(relation)} "{relation.name}"', hint="Try the COPY (SELECT ...) TO variant."
        )
    columns = copy_columns(relation, statement.columns)
    schema = catalog.get(relation.schema)
    assert isinstance(schema, Schema)
    names = ", ".join(quote_identifier(column.name) for column in columns)
    text = f"SELECT {names} FROM {quote_identifier(schema.name)}.{quote_identifier(relation.name)}"
    return await running.session.planned(split_and_parse(text)[0], catalog)
