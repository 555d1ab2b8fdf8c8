"""CHECK constraints: declared with a table, added to one, renamed and dropped with what they concern.

A check is kept as SQL text. The table's record names it, so that a change of rows by whoever did not know of it cannot
commit; rows that are there already are looked at by `adapter.definitions.constraints.existing_rows`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from adapter.changes.rows.over_rows import engine_over_rows
from adapter.definitions.common.catalog_changes import change, names_constraint, new_oid
from adapter.definitions.constraints.keys import (
    duplicate_constraint,
    find_constraint,
    forget_names,
    refuse_duplicate,
)
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from planner.definitions.object_names import free_name
from planner.definitions.renaming import with_column_renamed
from planner.definitions.row_expressions import StoredExpression, bind_conditions, check_expression
from planner.errors import DuplicateObject, UndefinedObject, WrongObjectType
from planner.statements import records as st
from storage.catalog.model import CatalogRecord, CatalogSnapshot, Comment, Constraint, Relation


async def declared_checks(
    running: Running, relation: Relation, definitions: Iterable[st.ConstraintDefinition]
) -> list[Constraint]:
    """The records of the checks in `definitions`, for `relation`, whose record need not be in the catalog yet. Raises
    what binding an expression raises; 42710 for two of one name, 0A000 for what no engine can compute."""
    catalog = own_catalog(running)
    context = running.session.bind_context(catalog)
    bound: list[tuple[st.ConstraintDefinition, StoredExpression]] = []
    for definition in definitions:
        if definition.kind != "c":
            continue
        if bound:
            # There may be hundreds: the others are to have their turns.
            await asyncio.sleep(0)
        assert definition.expression is not None
        expression = check_expression(relation, definition.expression, context, definition.written)
        engine_over_rows(running, bind_conditions(relation, (expression.text,), context).failing)
        bound.append((definition, expression))
    checks: list[Constraint] = []
    names: set[str] = set()
    for definition, expression in bound:
        name = definition.name
        if name is None:
            name = _chosen_name(catalog, relation, expression.columns, names)
        elif name in names:
            raise DuplicateObject(f'check constraint "{name}" already exists')
        names.add(name)
        checks.append(
            Constraint(
                oid=new_oid(running, relation.oid),
                name=name,
                relation=relation.oid,
                kind="c",
                columns=expression.columns,
                expression=expression.text,
                enforced=True,
                no_inherit=definition.no_inherit,
                validated=not definition.not_valid,
            )
        )
    return checks


def _chosen_name(catalog: CatalogSnapshot, relation: Relation, attnums: Sequence[int], names: Collection[str]) -> str:
    """A name that no constraint of the schema has: after the table, and the column when there is just one (and not the
    row as a whole)."""
    column = None
    if len(attnums) == 1:
        column = next((column.name for column in relation.columns if column.attnum == attnums[0]), None)
    return free_name(
        relation.name,
        column,
        "check",
        lambda name: name in names or names_constraint(catalog, relation.schema, name),
    )


def with_constraints(relation: Relation, added: Iterable[Constraint]) -> Relation:
    """The table's record with the enforced ones of `added`."""
    oids = tuple(constraint.oid for constraint in added if constraint.enforced)
    return replace(relation, constraints=(*relation.constraints, *oids)) if oids else relation


def without_constraints(relation: Relation, gone: Iterable[CatalogRecord]) -> Relation:
    """The table's record without `gone`."""
    oids = {record.oid for record in gone}
    if oids.isdisjoint(relation.constraints):
        return relation
    return replace(relation, constraints=tuple(oid for oid in relation.constraints if oid not in oids))


async def add_checks(
    running: Running, relation: Relation, definitions: Sequence[st.ConstraintDefinition]
) -> list[Constraint]:
    """ALTER TABLE ADD ... CHECK; the records, of which those that are `validated` are yet to be held against the rows
    that are there. 42710 when the table has a constraint of that name."""
    checks = await declared_checks(running, relation, definitions)
    for check in checks:
        refuse_duplicate(own_catalog(running), relation, check.name)
    if checks:
        change(running, removed=[relation], added=[with_constraints(relation, checks), *checks])
    return checks


def checks_of(catalog: CatalogSnapshot, relation: Relation) -> list[Constraint]:
    """The table's checks."""
    return [constraint for constraint in catalog.constraints(relation.oid) if constraint.kind == "c"]


def copied_checks(
    running: Running, relation: Relation, source: Relation, known: Iterable[Constraint]
) -> list[Constraint]:
    """The checks of `source` for a new `relation` that is LIKE it and has the constraints `known`. 42710."""
    names = {constraint.name for constraint in known}
    context = running.session.bind_context(own_catalog(running))
    found = []
    for check in sorted(checks_of(own_catalog(running), source), key=lambda check: check.name):
        if check.name in names:
            raise duplicate_constraint(relation, check.name)
        columns = check_expression(relation, check.expression or "", context, stored=True).columns
        found.append(
            replace(check, oid=new_oid(running, relation.oid), relation=relation.oid, columns=columns, validated=True)
        )
    return found


def rename_in_checks(running: Running, changed: Relation, old: str, new: str) -> list[tuple[Constraint, Constraint]]:
    """The checks (before, after) of the table that will be `changed`, where its column `old` is called `new`."""
    catalog = own_catalog(running)
    context = running.session.bind_context(catalog)
    found = []
    for check in checks_of(catalog, changed):
        text = with_column_renamed(check.expression or "", old, new)
        if text != check.expression:
            found.append((check, replace(check, expression=check_expression(changed, text, context, stored=True).text)))
    return found


def retyped_checks(
    running: Running, changed: Relation, attnums: Collection[int]
) -> list[tuple[Constraint, Constraint]]:
    """The checks (before, after) that read one of the columns `attnums`, which have other types in `changed`. Raises
    what binding an expression raises when one means nothing with the new types."""
    catalog = own_catalog(running)
    context = running.session.bind_context(catalog)
    found = []
    for check in checks_of(catalog, changed):
        if not set(attnums).isdisjoint(check.columns):
            text = check_expression(changed, check.expression or "", context, stored=True).text
            found.append((check, replace(check, expression=text)))
    return found


def alter_constraint(running: Running, relation: Relation, action: st.AlterConstraint) -> None:
    """ALTER TABLE ALTER CONSTRAINT: when a foreign key is checked from now on. 42704, 42809."""
    record = find_constraint(own_catalog(running), relation, action.name)
    if record is None:
        raise UndefinedObject(f'constraint "{action.name}" of relation "{relation.name}" does not exist')
    if record.kind != "f":
        raise WrongObjectType(
            f'constraint "{action.name}" of relation "{relation.name}" is not a foreign key constraint'
        )
    changed = replace(record, deferrable=action.deferrable, deferred=action.deferred)
    if changed != record:
        change(running, removed=[record], added=[changed])


def remove_constraints(running: Running, relation: Relation, constraints: Sequence[Constraint]) -> None:
    """Take constraints of `relation` out of the catalog, with their comments."""
    oids = {constraint.oid for constraint in constraints}
    comments = [r for r in own_catalog(running).all() if isinstance(r, Comment) and r.object_oid in oids]
    changed = without_constraints(relation, constraints)
    moved = [relation] if changed is not relation else []
    change(running, removed=[*moved, *constraints, *comments], added=[changed] if moved else [])
    forget_names(running, constraints)
