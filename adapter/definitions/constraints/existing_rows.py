"""Rows that are there when a table gets a rule: ALTER TABLE holds them against it once its actions are carried out.

SUBTLE: a row that another transaction adds in the meantime was written by the old rules. What is read here is therefore
validated at the commit at every isolation level (as for FOR UPDATE): had a row come that breaks the rule, the statement
would fail or run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from adapter.changes.constraints.key_checks import key_text_of
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.plans.predicates import scan_templates
from adapter.queries.read import prepare_read
from adapter.results import RecordBatch
from planner.definitions.row_expressions import bind_conditions, bind_null_rows
from planner.errors import CheckViolation, ForeignKeyViolation, NotNullViolation, UniqueViolation
from planner.ir.bound import BoundQuery
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import split_and_parse
from storage.catalog.model import CatalogSnapshot, Column, Constraint, Relation, Schema


class NewRules(Struct, kw_only=True):
    """What an ALTER TABLE makes rules: columns (attnums) that have to have a value, checks, keys (oids)."""

    not_null: set[int] = field(default_factory=set)
    checks: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)


async def check_existing_rows(running: Running, oid: int, rules: NewRules) -> None:
    """Raise 23502, 23514, 23505 or 23503 when a row of the table breaks one of `rules` that are still in force."""
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
    for key in rules.keys:
        constraint = catalog.get(key)
        if isinstance(constraint, Constraint):
            await _check_key(running, catalog, relation, constraint)


async def _first_row(running: Running, catalog: CatalogSnapshot, query: BoundQuery) -> list[Any] | None:
    """A row of `query`, None when it has none."""
    batch = await _first_batch(running, catalog, query)
    return None if batch is None else [column[0].as_py() for column in batch.columns]


async def _first_batch(running: Running, catalog: CatalogSnapshot, query: BoundQuery) -> RecordBatch | None:
    """Rows of `query`, None when it has none."""
    query = replace(query, for_update=True)
    read = await prepare_read(running, catalog, query, scan_templates(query.rel))
    stream: Any = read.stream()
    async with aclosing(stream) as batches:
        async for batch in batches:
            if batch.num_rows:
                return batch
    return None


# ---------------------------------------------------------------- keys


async def _check_key(running: Running, catalog: CatalogSnapshot, relation: Relation, constraint: Constraint) -> None:
    names = {column.attnum: quote_identifier(column.name) for column in relation.columns}
    columns = [names[attnum] for attnum in constraint.columns]
    if constraint.kind in "pu":
        given = "" if constraint.nulls_not_distinct else f" WHERE {' AND '.join(f'{c} IS NOT NULL' for c in columns)}"
        listed = ", ".join(columns)
        text = f"SELECT {listed} FROM {_name(catalog, relation)}{given} GROUP BY {listed} HAVING count(*) > 1 LIMIT 1"
    else:
        text = _unmatched_text(catalog, relation, constraint, columns)
    plan = running.session.plan(split_and_parse(text)[0], catalog)
    assert plan.query is not None
    keys = await _first_batch(running, catalog, plan.query)
    if keys is None:
        return
    shown = key_text_of(relation, constraint.columns, tuple(keys.columns), 0, running.session.values)
    facts: dict[str, Any] = {
        "schema": _schema_name(catalog, relation),
        "table": relation.name,
        "constraint": constraint.name,
    }
    if constraint.kind in "pu":
        raise UniqueViolation(
            f'could not create unique index "{constraint.name}"', detail=f"Key {shown} is duplicated.", **facts
        )
    parent = catalog.get(constraint.foreign_relation or 0)
    assert isinstance(parent, Relation)
    message = f'insert or update on table "{relation.name}" violates foreign key constraint "{constraint.name}"'
    if any(column[0].as_py() is None for column in keys.columns):
        detail = "MATCH FULL does not allow mixing of null and nonnull key values."
    else:
        detail = f'Key {shown} is not present in table "{parent.name}".'
    raise ForeignKeyViolation(message, detail=detail, **facts)


def _unmatched_text(
    catalog: CatalogSnapshot, relation: Relation, constraint: Constraint, columns: Sequence[str]
) -> str:
    """The query for a key that refers to no row, as PostgreSQL's RI_Initial_Check asks it."""
    parent = catalog.get(constraint.foreign_relation or 0)
    assert isinstance(parent, Relation)
    names = {column.attnum: quote_identifier(column.name) for column in parent.columns}
    others = [names[attnum] for attnum in constraint.foreign_columns]
    pairs = " AND ".join(f"fk.{own} = pk.{other}" for own, other in zip(columns, others, strict=True))
    word = " OR " if constraint.match == "f" else " AND "
    given = word.join(f"fk.{column} IS NOT NULL" for column in columns)
    listed = ", ".join(f"fk.{column}" for column in columns)
    return (
        f"SELECT {listed} FROM {_name(catalog, relation)} fk LEFT JOIN {_name(catalog, parent)} pk ON {pairs} "
        f"WHERE pk.{others[0]} IS NULL AND ({given}) LIMIT 1"
    )


def _name(catalog: CatalogSnapshot, relation: Relation) -> str:
    return f"{quote_identifier(_schema_name(catalog, relation) or '')}.{quote_identifier(relation.name)}"


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
