"""Rows that are there when a table gets a rule: ALTER TABLE holds them against it once its actions are carried out.

SUBTLE: a row that another transaction adds in the meantime was written by the old rules. What is read here is therefore
validated at the commit at every isolation level: had a row come that breaks the rule, the statement would fail or run
again. VALIDATE CONSTRAINT and REINDEX alone have no need of that: who writes after their snapshot has known of the
constraint for long, or could not commit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import aclosing
from typing import Any, TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

from adapter.changes.constraints.key_checks import key_text_of, unique_key_text
from adapter.changes.constraints.row_checks import broken
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.plans.predicates import scan_templates
from adapter.queries.read import prepare_read
from adapter.results import RecordBatch
from planner.definitions.row_expressions import bind_breaches, bind_conditions, bind_domains, bind_null_rows
from planner.errors import CheckViolation, ExclusionViolation, ForeignKeyViolation, NotNullViolation, UniqueViolation
from planner.ir.bound import BoundQuery
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import split_and_parse
from planner.types.operator_classes import collation_name, column_collation
from planner.types.ranges import range_of
from planner.types.types import under_domain
from storage.catalog.model import CatalogSnapshot, Column, Constraint, DomainType, Index, Relation, Schema


class NewRules(Struct, kw_only=True):
    """What an ALTER TABLE makes rules: columns (attnums) that have to have a value, checks, keys (oids), foreign keys
    that refer to the table among them."""

    not_null: set[int] = field(default_factory=set)
    checks: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    domains: set[int] = field(default_factory=set)
    """Columns (attnums) whose values are yet to be held against the rules of their domains."""
    known: set[int] = field(default_factory=set)
    """Those of `checks` and `keys` that every writer keeps to already, so that rows which come meanwhile do too."""


async def check_existing_rows(running: Running, oid: int, rules: NewRules) -> None:
    """Raise 23505, 23502, 23514 or 23503 when a row of the table breaks one of `rules` that are still in force: in this
    order, since PostgreSQL makes indexes before it goes through the rows."""
    catalog = own_catalog(running)
    relation = catalog.get(oid)
    assert isinstance(relation, Relation)
    context = running.session.bind_context(catalog)
    if rules.domains:
        await _check_domains(running, catalog, relation, rules.domains)
    keys = [(key, record) for key in rules.keys if (record := catalog.get(key)) is not None]
    unique = [(key, record) for key, record in keys if isinstance(record, Index) or _is_unique(record)]
    for key, record in unique:
        await _check_unique(running, catalog, relation, record, held=key not in rules.known)
    for column in relation.live_columns():
        if column.attnum in rules.not_null and column.not_null:
            found = await _first_row(running, catalog, bind_null_rows(relation, column, context))
            if found is not None:
                raise _contains_nulls(catalog, relation, column)
    checks = [record for check in rules.checks if isinstance(record := catalog.get(check), Constraint)]
    if checks:
        texts = [check.expression or "" for check in checks]
        held = not rules.known.issuperset(rules.checks)
        found = await _first_row(running, catalog, bind_conditions(relation, texts, context).violated, held=held)
        if found is not None:
            raise _violated(catalog, relation, checks[found[-1] - 1])
    for key, record in keys:
        if isinstance(record, Constraint) and not _is_unique(record):
            referring = catalog.get(record.relation)
            assert isinstance(referring, Relation)
            await _check_foreign(running, catalog, referring, record, held=key not in rules.known)


def _is_unique(record: object) -> TypeGuard[Constraint]:
    return isinstance(record, Constraint) and record.kind in "pu"


async def breaks(running: Running, relation: Relation, column: Column, rules: DomainType) -> bool:
    """Whether a value in the column breaks one of the rules of `rules` itself."""
    catalog = own_catalog(running)
    query = bind_breaches(relation, column, rules, running.session.bind_context(catalog))
    return await _first_row(running, catalog, query) is not None


async def _check_domains(
    running: Running, catalog: CatalogSnapshot, relation: Relation, attnums: Collection[int]
) -> None:
    """Raise 23502 or 23514 when a row breaks a rule of the domain that one of the columns `attnums` is of or made
    of."""
    domains = bind_domains(relation, running.session.bind_context(catalog), attnums)
    if domains is not None:
        found = await _first_row(running, catalog, domains.conditions.violated)
        fault = None if found is None else domains.faults[found[-1] - 1]
        if fault is not None:
            raise broken(fault)


async def _first_row(
    running: Running, catalog: CatalogSnapshot, query: BoundQuery, *, held: bool = True
) -> list[Any] | None:
    """A row of `query`, None when it has none, which `held` says has still to be so at the commit."""
    batch = await _first_batch(running, catalog, query, held=held)
    return None if batch is None else [column[0].as_py() for column in batch.columns]


async def _first_batch(
    running: Running, catalog: CatalogSnapshot, query: BoundQuery, *, held: bool = True
) -> RecordBatch | None:
    """Rows of `query`, None when it has none. `held` as of `_first_row`."""
    query = replace(query, validated=held)
    read = await prepare_read(running, catalog, query, scan_templates(query.rel))
    stream: Any = read.stream()
    async with aclosing(stream) as batches:
        async for batch in batches:
            if batch.num_rows:
                return batch
    return None


# ---------------------------------------------------------------- keys


async def _check_unique(
    running: Running, catalog: CatalogSnapshot, relation: Relation, key: Constraint | Index, *, held: bool
) -> None:
    names = {column.attnum: quote_identifier(column.name) for column in relation.columns}
    expressions = iter(key.expressions if isinstance(key, Index) else ())
    columns = [names[attnum] if attnum else f"({next(expressions)})" for attnum in key.columns]
    given = [] if key.nulls_not_distinct else [f"{column} IS NOT NULL" for column in columns]
    if isinstance(key, Index) and key.predicate is not None:
        given.append(f"({key.predicate})")
    if isinstance(key, Index) and key.overlapping:
        await _check_disjoint(running, catalog, relation, key, columns, given, held=held)
        return
    where = f" WHERE {' AND '.join(given)}" if given else ""
    listed, places = ", ".join(columns), ", ".join(str(n) for n in range(1, len(columns) + 1))
    text = f"SELECT {listed} FROM {_name(catalog, relation)}{where} GROUP BY {places} HAVING count(*) > 1 LIMIT 1"
    found = await _first_of(running, catalog, text, held=held)
    if found is None:
        return
    shown = unique_key_text(running, relation, key, tuple(found.columns), 0)
    facts: dict[str, Any] = {
        "schema": _schema_name(catalog, relation),
        "table": relation.name,
        "constraint": key.name,
    }
    if isinstance(key, Index) and not key.unique:
        raise _excluded(catalog, relation, key, shown, shown)
    raise UniqueViolation(f'could not create unique index "{key.name}"', detail=f"Key {shown} is duplicated.", **facts)


async def _check_disjoint(
    running: Running, catalog: CatalogSnapshot, relation: Relation, key: Index, columns: Sequence[str],
    given: Sequence[str], *, held: bool,
) -> None:  # fmt: skip
    """23P01 when rows overlap. Of ranges in their order of which some overlap neighbours do
    (`adapter.transactions.overlaps`); multiranges and several ranges are held each against each."""
    by_attnum = {column.attnum: under_domain(column.type_oid) for column in relation.columns}
    expression_types = iter(key.expression_types)
    types = [by_attnum[attnum] if attnum else next(expression_types)[0] for attnum in key.columns]
    equal = [n for n in range(len(columns)) if n not in key.overlapping]
    where = " AND ".join([*given, *[f"NOT isempty({columns[n]})" for n in key.overlapping]])
    listed = ", ".join(f"{column} AS k{n}" for n, column in enumerate(columns))
    rows = f"SELECT {listed} FROM {_name(catalog, relation)} WHERE {where}"
    ordered = ", ".join(f"k{n}" for n in (*equal, *key.overlapping))
    ones, others = (", ".join(f"{row}.k{n}" for n in range(len(columns))) for row in ("x", "y"))
    if len(key.overlapping) == 1 and range_of(types[key.overlapping[0]]) is not None:
        partition = f"PARTITION BY {', '.join(f'k{n}' for n in equal)} " if equal else ""
        before = ", ".join(
            f"lag(k{n}) OVER ({partition}ORDER BY k{key.overlapping[0]}) AS p{n}" for n in range(len(columns))
        )
        keys = ", ".join([*[f"k{n}" for n in range(len(columns))], *[f"p{n}" for n in range(len(columns))]])
        place = key.overlapping[0]
        text = f"SELECT {keys} FROM (SELECT *, {before} FROM ({rows}) r) s WHERE k{place} && p{place} LIMIT 1"
    else:
        numbered = f"SELECT *, row_number() OVER (ORDER BY {ordered}) AS n FROM ({rows}) r"
        met = [f"x.k{n} {'&&' if n in key.overlapping else '='} y.k{n}" for n in range(len(columns))]
        joined = f"({numbered}) x JOIN ({numbered}) y ON {' AND '.join(met)} AND x.n > y.n"
        text = f"SELECT {ones}, {others} FROM {joined} LIMIT 1"
    found = await _first_of(running, catalog, text, held=held)
    if found is not None:
        count = len(columns)
        shown = unique_key_text(running, relation, key, tuple(found.columns[:count]), 0)
        other = unique_key_text(running, relation, key, tuple(found.columns[count:]), 0)
        raise _excluded(catalog, relation, key, other, shown)


def _excluded(catalog: CatalogSnapshot, relation: Relation, key: Index, one: str, other: str) -> ExclusionViolation:
    return ExclusionViolation(
        f'could not create exclusion constraint "{key.name}"',
        detail=f"Key {one} conflicts with key {other}.",
        schema=_schema_name(catalog, relation),
        table=relation.name,
        constraint=key.name,
    )


async def _first_of(running: Running, catalog: CatalogSnapshot, text: str, *, held: bool = True) -> RecordBatch | None:
    """Rows of the query `text`, None when it has none. `held` as of `_first_row`."""
    plan = running.session.plan(split_and_parse(text)[0], catalog)
    assert plan.query is not None
    return await _first_batch(running, catalog, plan.query, held=held)


async def _check_foreign(
    running: Running, catalog: CatalogSnapshot, relation: Relation, constraint: Constraint, *, held: bool
) -> None:
    names = {column.attnum: quote_identifier(column.name) for column in relation.columns}
    columns = [names[attnum] for attnum in constraint.columns]
    keys = await _first_of(running, catalog, _unmatched_text(catalog, relation, constraint, columns), held=held)
    if keys is None:
        return
    shown = key_text_of(relation, constraint.columns, tuple(keys.columns), 0, running.session.values)
    facts: dict[str, Any] = {
        "schema": _schema_name(catalog, relation),
        "table": relation.name,
        "constraint": constraint.name,
    }
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
    # Values are compared by the collation of the key that is referenced.
    own_collations, collations = (
        {column.attnum: column_collation(column) for column in table.columns} for table in (relation, parent)
    )
    compared = [
        f" COLLATE {quote_identifier(collation_name(collations[key]))}"
        if collations[key] and collations[key] != own_collations[attnum]
        else ""
        for attnum, key in zip(constraint.columns, constraint.foreign_columns, strict=True)
    ]
    pairs = " AND ".join(
        f"fk.{own}{collate} = pk.{other}" for own, collate, other in zip(columns, compared, others, strict=True)
    )
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
