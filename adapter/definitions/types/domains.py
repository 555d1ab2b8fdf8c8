"""CREATE DOMAIN and ALTER DOMAIN.

A domain's checks are kept in its record, as text over the column ``value``. Whoever writes a table relies on the
records of the domains of its columns, so that no row gets in that a rule of now does not know; rows that are there
already are looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change, new_oid, owner_oid
from adapter.definitions.constraints.existing_rows import breaks
from adapter.definitions.types.names import check_free_type, require_domain
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import creation_schema
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.catalog_data.content import columns
from planner.definitions.defaults import bind_default, stored_default
from planner.definitions.object_names import free_name
from planner.definitions.row_expressions import check_expression, value_of
from planner.errors import (
    CheckViolation,
    DuplicateObject,
    FeatureNotSupported,
    NotNullViolation,
    UndefinedObject,
)
from planner.resolution.domains import default_of
from planner.statements import records as st
from planner.syntax.parse import Parsed
from planner.types import derived_oids
from planner.types.type_names import element_of, type_row
from planner.types.types import SqlType, column_type
from planner.types.user_types import attributes
from storage.catalog.model import COMPOSITE, Column, Comment, DomainConstraint, DomainType, Relation, Schema


async def create_domain(running: Running, statement: st.CreateDomain) -> None:
    """CREATE DOMAIN."""
    catalog = own_catalog(running)
    schema = creation_schema(running, catalog, statement.name)
    check_free_type(catalog, schema.oid, statement.name.name)
    running.transaction.rely_on([schema])
    row = type_row(statement.type.declared_oid)
    domain = DomainType(
        oid=new_oid(running, schema.oid),
        name=statement.name.name,
        schema=schema.oid,
        owner=owner_oid(running),
        base_oid=statement.type.declared_oid,
        typmod=statement.type.declared_typmod,
        collation=_collation(statement.collation, 0 if row is None else row.collation),
        not_null=statement.not_null,
        default=default_of(statement.type.declared_oid),
    )
    if statement.default is not None:
        default = _default(running, domain, statement.default, statement.written_default)
        domain = replace(domain, default=default)
    for check in statement.checks:
        domain = replace(domain, checks=(*domain.checks, _check(running, domain, check)))
    change(running, added=[domain])


def _collation(name: str | None, of_type: int) -> int:
    if name is None:
        return of_type
    data = columns("pg_collation")
    return int(data["oid"][data["collname"].index(name)])


def _base(domain: DomainType) -> SqlType:
    return column_type(domain.base_oid, domain.typmod)


def _default(running: Running, domain: DomainType, text: str, written: Parsed | None) -> str | None:
    context = running.session.bind_context(own_catalog(running))
    bind_default(text, domain.name, _base(domain), context, written)
    return stored_default(text, domain.name, _base(domain), context)


def _check(running: Running, domain: DomainType, definition: st.ConstraintDefinition) -> DomainConstraint:
    """What is kept of a new check of `domain`. Raises what binding it raises; 42710 when its name is taken."""
    assert definition.expression is not None
    context = running.session.bind_context(own_catalog(running))
    kept = check_expression(value_of(domain), definition.expression, context, definition.written)
    name = definition.name
    if name is None:
        name = free_name(domain.name, None, "check", _taken(running, domain))
    elif any(check.name == name for check in domain.checks):
        raise DuplicateObject(f'constraint "{name}" for domain {domain.name} already exists')
    return DomainConstraint(
        oid=new_oid(running, domain.oid), name=name, expression=kept.text, validated=not definition.not_valid
    )


def _taken(running: Running, domain: DomainType) -> Callable[[str], bool]:
    """Which names constraints of the domain's schema have."""
    catalog = own_catalog(running)
    names = {check.name for check in domain.checks}
    for record in catalog.all():
        if isinstance(record, DomainType) and record.schema == domain.schema:
            names.update(check.name for check in record.checks)
        elif isinstance(record, Relation) and record.schema == domain.schema:
            names.update(constraint.name for constraint in catalog.constraints(record.oid))
    return names.__contains__


async def set_default(running: Running, statement: st.SetDomainDefault) -> None:
    """ALTER DOMAIN ... SET DEFAULT and DROP DEFAULT."""
    domain = require_domain(running, statement.name)
    default = None
    if statement.default is not None:
        default = _default(running, domain, statement.default, statement.written)
    change(running, removed=[domain], added=[replace(domain, default=default)])


async def set_not_null(running: Running, statement: st.SetDomainNotNull) -> None:
    """ALTER DOMAIN ... SET NOT NULL and DROP NOT NULL. 23502."""
    domain = require_domain(running, statement.name)
    if domain.not_null == statement.not_null:
        return
    changed = replace(domain, not_null=statement.not_null)
    change(running, removed=[domain], added=[changed])
    if statement.not_null:
        await _hold_rows(running, changed, replace(changed, checks=()))


async def add_check(running: Running, statement: st.AddDomainCheck) -> None:
    """ALTER DOMAIN ... ADD CHECK. 23514."""
    domain = require_domain(running, statement.name)
    check = _check(running, domain, statement.check)
    changed = replace(domain, checks=(*domain.checks, check))
    change(running, removed=[domain], added=[changed])
    if check.validated:
        await _hold_rows(running, changed, replace(changed, not_null=False, checks=(check,)))


async def validate_check(running: Running, statement: st.ValidateDomainCheck) -> None:
    """ALTER DOMAIN ... VALIDATE CONSTRAINT. 23514."""
    domain = require_domain(running, statement.name)
    check = _find(domain, statement.constraint)
    if check is None:
        raise _missing(domain, statement.constraint)
    if check.validated:
        return
    valid = replace(check, validated=True)
    changed = replace(domain, checks=tuple(valid if other is check else other for other in domain.checks))
    change(running, removed=[domain], added=[changed])
    await _hold_rows(running, changed, replace(changed, not_null=False, checks=(valid,)))


async def drop_check(running: Running, statement: st.DropDomainCheck) -> None:
    """ALTER DOMAIN ... DROP CONSTRAINT."""
    domain = require_domain(running, statement.name)
    check = _find(domain, statement.constraint)
    if check is None:
        if not statement.if_exists:
            raise _missing(domain, statement.constraint)
        message = f'constraint "{statement.constraint}" of domain "{domain.name}" does not exist, skipping'
        running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
        return
    comments = [r for r in own_catalog(running).all() if isinstance(r, Comment) and r.object_oid == check.oid]
    left = tuple(other for other in domain.checks if other is not check)
    change(running, removed=[domain, *comments], added=[replace(domain, checks=left)])


def rename_check(running: Running, name: st.QualifiedName, old: str, new: str) -> None:
    """ALTER DOMAIN ... RENAME CONSTRAINT."""
    domain = require_domain(running, name)
    check = domain_check(domain, old)
    if _find(domain, new) is not None:
        raise DuplicateObject(f'constraint "{new}" for domain {domain.name} already exists')
    renamed = replace(check, name=new)
    checks = tuple(renamed if other is check else other for other in domain.checks)
    change(running, removed=[domain], added=[replace(domain, checks=checks)])


def domain_check(domain: DomainType, name: str) -> DomainConstraint:
    """The check of the domain that is called so. 42704."""
    check = _find(domain, name)
    if check is None:
        raise UndefinedObject(f'constraint "{name}" for domain {domain.name} does not exist')
    return check


def _find(domain: DomainType, name: str) -> DomainConstraint | None:
    return next((check for check in domain.checks if check.name == name), None)


def _missing(domain: DomainType, name: str) -> UndefinedObject:
    return UndefinedObject(f'constraint "{name}" of domain "{domain.name}" does not exist')


async def _hold_rows(running: Running, domain: DomainType, rules: DomainType) -> None:
    """Hold the rows that are there against `rules`, which is `domain` with nothing but what is new. 23502, 23514; 0A000
    where values of the domain are inside others."""
    catalog = own_catalog(running)
    for relation, column in _columns(running, domain):
        if not await breaks(running, relation, column, rules):
            continue
        schema = catalog.get(relation.schema)
        kind = NotNullViolation if rules.not_null else CheckViolation
        what = "null values" if rules.not_null else "values that violate the new constraint"
        raise kind(
            f'column "{column.name}" of table "{relation.name}" contains {what}',
            schema=schema.name if isinstance(schema, Schema) else None,
            table=relation.name,
            column=column.name,
        )


def _columns(running: Running, domain: DomainType) -> Iterator[tuple[Relation, Column]]:
    """The columns of tables that are of the domain, or of one over it. 0A000 for those that are made of it."""
    catalog = own_catalog(running)
    wanted = derived_oids.row_type_oid(domain.oid)
    for relation in sorted((r for r in catalog.all() if isinstance(r, Relation)), key=lambda relation: relation.oid):
        if relation.kind == COMPOSITE or relation.shard is None:
            continue
        for column in relation.live_columns():
            if _is_over(column.type_oid, wanted):
                yield relation, column
            elif _contains(column.type_oid, wanted):
                used = f"{relation.name}.{column.name}"
                raise FeatureNotSupported(f'cannot alter type "{domain.name}" because column "{used}" uses it')


def _is_over(oid: int, wanted: int) -> bool:
    while oid != wanted:
        row = type_row(oid)
        if row is None or row.type != "d":
            return False
        oid = row.basetype
    return True


def _contains(oid: int, wanted: int) -> bool:
    """Whether values of the type are, or are made of, values of `wanted`."""
    if _is_over(oid, wanted):
        return True
    row = type_row(oid)
    if row is not None and row.type == "d":
        return _contains(row.basetype, wanted)
    element = element_of(oid)
    if element:
        return _contains(element, wanted)
    return any(_contains(field.type.declared_oid, wanted) for field in attributes(oid) or ())
