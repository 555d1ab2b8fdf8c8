"""Values of domains: what a domain's rules are, and the expressions that hold values against them.

A value of a domain is one of the type under it. Wherever one is made (a cast, a field of a row, an element of an array)
it is held against NOT NULL and the checks of its domain and of those that the domain is over, inner ones first.
Columns are no such place: what is written to them is held against the same rules with the table's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec.structs import replace

from planner.ir.domain_faults import DomainFault
from planner.ir.nodes import (
    Case,
    Cast,
    DomainValue,
    FieldSelect,
    ForEach,
    IsNull,
    LetValue,
    Literal,
    RowConstructor,
    Scalar,
)
from planner.resolution.statement import Statement
from planner.types.type_names import element_of, format_type
from planner.types.type_scope import TYPE_SCOPE, domain_of
from planner.types.types import BOOL, SqlType, column_type, computed_type
from planner.types.user_types import attributes, is_user_type
from storage.catalog.model import DomainType, Schema

DomainRule: TypeAlias = tuple[Scalar | None, DomainFault]
"""One of `DomainValue.rules`."""


def domains_over(oid: int) -> list[DomainType]:
    """The domain `oid` and those that it is over, inner ones first; none when it is no domain."""
    found: list[DomainType] = []
    domain = domain_of(oid)
    while domain is not None:
        found.insert(0, domain)
        domain = domain_of(domain.base_oid)
    return found


def default_of(oid: int) -> str | None:
    """The DEFAULT that columns of the type have which have none of their own."""
    domain = domain_of(oid)
    return None if domain is None else domain.default


def has_rules(oid: int) -> bool:
    """Whether not everything that fits the type under it may be a value of `oid`: a domain, or a type made of one."""
    return is_user_type(oid) and _has_rules(oid, frozenset())


def _has_rules(oid: int, above: frozenset[int]) -> bool:
    if not is_user_type(oid) or oid in above:
        return False
    chain = domains_over(oid)
    if any(domain.not_null or domain.checks for domain in chain):
        return True
    return any(_has_rules(part, above | {oid}) for part in _parts(chain[0].base_oid if chain else oid))


def _parts(oid: int) -> Iterator[int]:
    """The types that values of a type which is no domain are made of."""
    element = element_of(oid)
    if element:
        yield element
    for field in attributes(oid) or ():
        yield field.type.declared_oid


def domain_rules(statement: Statement, oid: int, value: Scalar) -> tuple[DomainRule, ...]:
    """What the domain `oid` demands of `value`, in the order in which PostgreSQL looks at it."""
    rules: list[DomainRule] = []
    chain = domains_over(oid)
    schema = TYPE_SCOPE.get().catalog.get(chain[-1].schema)
    name = format_type(oid)

    def add(message: str, condition: Scalar | None, constraint: str | None = None) -> None:
        namespace = schema.name if isinstance(schema, Schema) else None
        fault = DomainFault(message=message, schema=namespace, datatype=chain[-1].name, constraint=constraint)
        rules.append((condition, fault))

    if any(domain.not_null for domain in chain):
        add(f"domain {name} does not allow null values", None)
    for domain in chain:
        for check in sorted(domain.checks, key=lambda check: check.name):
            condition = statement.grammar.domain_check(statement, domain, check.expression, value)
            add(f'value for domain {name} violates check constraint "{check.name}"', condition, check.name)
    return tuple(rules)


def own_conditions(statement: Statement, domain: DomainType, value: Scalar) -> tuple[Scalar | None, ...]:
    """What `domain` demands of `value` by itself, without those that it is over; None: that it is not NULL."""
    checks = [statement.grammar.domain_check(statement, domain, check.expression, value) for check in domain.checks]
    return (None, *checks) if domain.not_null else tuple(checks)


def held_against_rules(statement: Statement, expr: Scalar, oid: int, *, explicit: bool = False) -> Scalar:
    """`expr`, of the type under `oid`, as a value of `oid`. What is no domain and is made of none stays as it is."""
    if not is_user_type(oid):
        return expr
    target = computed_type(column_type(oid))
    chain = domains_over(oid)
    inner = chain[0].base_oid if chain else oid
    divided = any(_has_rules(part, frozenset({oid})) for part in _parts(inner))
    made = _with_parts(statement, expr, inner) if divided else expr
    if not chain:
        return made if not target.domain else _relabeled(made, target, explicit=explicit)
    type = replace(made.type, domain=oid)
    if isinstance(made, Literal) and made.value is None and type.dimensioned:
        # NOTE: DuckDB does not know the types of the fields of a NULL that is written out, so it is a plain list first.
        made = Literal(value=None, type=replace(made.type, dimensioned=False))
    value = LetValue(id=statement.new_id(), type=made.type.without_domain())
    rules = domain_rules(statement, oid, value)
    held = DomainValue(arg=made, id=value.id, rules=rules, type=replace(made.type, domain=oid), explicit=explicit)
    return held if held.type == type else Cast(arg=held, type=type)


def _relabeled(expr: Scalar, target: SqlType, *, explicit: bool) -> Scalar:
    type = replace(expr.type, domain=target.domain)
    return DomainValue(arg=expr, id=0, rules=(), type=type, explicit=explicit)


def _with_parts(statement: Statement, expr: Scalar, oid: int) -> Scalar:
    """`expr` with its elements or fields held against the rules of their types; NULL has none."""
    if isinstance(expr, Literal) and expr.value is None:
        return expr
    element = element_of(oid)
    if element:
        type = computed_type(column_type(element))
        item = LetValue(id=statement.new_id(), type=type.without_domain())
        body = held_against_rules(statement, item, element)
        return ForEach(arg=expr, id=item.id, body=body, type=expr.type)
    if isinstance(expr, RowConstructor):
        return expr  # Its fields have been held against them as they were converted.
    fields = attributes(oid) or ()
    value, around = statement.once(expr)
    items = tuple(
        held_against_rules(
            statement,
            FieldSelect(arg=value, name=field.name, type=field.type.without_domain(), index=index),
            field.type.declared_oid,
        )
        for index, field in enumerate(fields)
    )
    row = RowConstructor(items=items, names=tuple(field.name for field in fields), type=expr.type)
    null = IsNull(arg=value, negated=False, type=SqlType(BOOL))
    return around(Case(whens=((null, Literal(value=None, type=expr.type)),), otherwise=row, type=expr.type))
