"""Rows that are there when a table gets a rule: ALTER TABLE holds them against it once its actions are carried out.

SUBTLE: a row that another transaction adds in the meantime was written by the old rules. What is read here is therefore
validated at the commit at every isolation level (as for FOR UPDATE): had a row come that breaks the rule, the statement
would fail or run again.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.plans.predicates import scan_templates
from adapter.queries.read import prepare_read
from planner.definitions.row_expressions import bind_conditions, bind_null_rows
from planner.errors import CheckViolation, NotNullViolation
from planner.ir.bound import BoundQuery
from storage.catalog.model import CatalogSnapshot, Column, Constraint, Relation, Schema


class NewRules(Struct, kw_only=True):
    """What an ALTER TABLE makes rules: columns (attnums) that have to have a value, checks (oids)."""

    not_null: set[int] = field(default_factory=set)
    checks: list[int] = field(default_factory=list)


async def check_existing_rows(running: Running, oid: int, rules: NewRules) -> None:
    """Raise 23502 or 23514 when a row of the table breaks one of `rules` that are still in force."""
    catalog = own_catalog(running)
    relation = catalog.get(oid)
    assert isinstance(relation, Relation)
    context = running.session.bind_context(catalog)
    for column in relation.live_columns():
        if column.attnum in rules.not_null and column.not_null:
            found = await _first_row(running, catalog, bind_null_rows(relation, column, context))
            if found is not None:
                raise _contains_nulls(catalog, relation, column)
    checks = [record for check in rules.checks if isinstance(record := catalog.get(check), Constraint)]
    if checks:
        texts = [check.expression or "" for check in checks]
        found = await _first_row(running, catalog, bind_conditions(relation, texts, context).violated)
        if found is not None:
            raise _violated(catalog, relation, checks[found[-1] - 1])


async def _first_row(running: Running, catalog: CatalogSnapshot, query: BoundQuery) -> list[Any] | None:
    """A row of `query`, None when it has none."""
    query = replace(query, for_update=True)
    read = await prepare_read(running, catalog, query, scan_templates(query.rel))
    stream: Any = read.stream()
    async with aclosing(stream) as batches:
        async for batch in batches:
            if batch.num_rows:
                return [column[0].as_py() for column in batch.columns]
    return None


def _schema_name(catalog: CatalogSnapshot, relation: Relation) -> str | None:
    schema = catalog.get(relation.schema)
    return schema.name if isinstance(schema, Schema) else None


def _contains_nulls(catalog: CatalogSnapshot, relation: Relation, column: Column) -> NotNullViolation:
    return NotNullViolation(
        f'column "{column.name}" of relation "{relation.name}" contains null values',
        schema=_schema_name(catalog, relation),
        table=relation.name,
        column=column.name,
    )


def _violated(catalog: CatalogSnapshot, relation: Relation, check: Constraint) -> CheckViolation:
    return CheckViolation(
        f'check constraint "{check.name}" of relation "{relation.name}" is violated by some row',
        schema=_schema_name(catalog, relation),
        table=relation.name,
        constraint=check.name,
    )
