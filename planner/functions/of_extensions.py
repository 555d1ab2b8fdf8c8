"""Operators and aggregates over the types that extensions make (`planner.types.base_types`), and the functions that
their scripts call.

Which there are does not depend on a catalog, but the oids of their types do: `operators`, `aggregates` and `functions`
give them for the type of one. Their own oids are ones that PostgreSQL never gives out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from types import ModuleType

from msgspec import Struct

from planner.catalog_data.content import type_by_name
from planner.functions.forms.form import Form
from planner.types import base_types
from planner.types.derived_oids import array_type_oid, row_type_oid
from planner.types.signature import Kind, Signature
from storage.catalog.model import PG_CATALOG_OID
from storage.catalog.types import BaseType

_FIRST_OIDS: Mapping[str, int] = {base_types.CITEXT: 15610, base_types.HSTORE: 15710}
"""By kind of type: the oid of its first operator. The operators have the oids from there, then the aggregates, then the
functions."""


OVER_ROWS = frozenset({"#="})
"""Operators that have a row on one side: a constant on the other is of the extension's type."""


def _family(kind: str) -> ModuleType:
    from planner.functions.families.extensions import citext, hstore

    return {base_types.CITEXT: citext, base_types.HSTORE: hstore}[kind]


class _Made(Struct, frozen=True, kw_only=True):
    """A routine over a type of an extension; the types of `args` and `result` are by name."""

    oid: int
    name: str
    kind: Kind
    args: tuple[str, ...]
    result: str
    form: Form


@cache
def _made(kind: str) -> tuple[_Made, ...]:
    family, oid = _family(kind), _FIRST_OIDS[kind]
    found: list[_Made] = []
    groups = (
        (Kind.OPERATOR, family.operators()),
        (Kind.AGGREGATE, family.aggregates()),
        (Kind.FUNCTION, family.functions()),
    )
    for group, given in groups:
        for key, (result, form) in given.items():
            name, _, args = key.rstrip(")").partition("(")
            found.append(
                _Made(
                    oid=oid + len(found), name=name, kind=group, args=tuple(args.split(",")), result=result, form=form
                )
            )
    return tuple(found)


@lru_cache(maxsize=1024)
def _signatures(record: BaseType) -> Mapping[tuple[Kind, str], tuple[Signature, ...]]:
    found: dict[tuple[Kind, str], tuple[Signature, ...]] = {}
    for made in _made(record.kind):
        signature = Signature(
            name=made.name,
            kind=made.kind,
            args=tuple(_type(record, name) for name in made.args),
            result=_type(record, made.result),
            oid=made.oid,
            strict=made.kind is Kind.OPERATOR,
        )
        key = made.kind, made.name
        found[key] = (*found.get(key, ()), signature)
    return found


def _type(record: BaseType, name: str) -> int:
    if name == record.kind:
        return row_type_oid(record.oid)
    if name == f"{record.kind}[]":
        return array_type_oid(record.oid)
    found = type_by_name()
    if name.endswith("[]"):
        return found[PG_CATALOG_OID, name[:-2]].array
    return found[PG_CATALOG_OID, name].oid


def operators(record: BaseType, symbol: str) -> tuple[Signature, ...]:
    """The overloads of an operator over the type."""
    return _signatures(record).get((Kind.OPERATOR, symbol), ())


def aggregates(record: BaseType, name: str) -> tuple[Signature, ...]:
    """The overloads of an aggregate over the type."""
    return _signatures(record).get((Kind.AGGREGATE, name), ())


def functions(record: BaseType, name: str) -> tuple[Signature, ...]:
    """The overloads of a function over the type, of those that the extension's script calls."""
    return _signatures(record).get((Kind.FUNCTION, name), ())


def type_of(operator: Signature) -> BaseType | None:
    """The type that the operator is over; None for one of no extension."""
    if operator.oid not in _oids():
        return None
    return next((record for oid in operator.args if (record := base_types.base_type(oid)) is not None), None)


@cache
def _oids() -> frozenset[int]:
    return frozenset(made.oid for kind in _FIRST_OIDS for made in _made(kind))


def all_operators(record: BaseType) -> tuple[Signature, ...]:
    """Every operator over the type."""
    return tuple(
        signature
        for (kind, _), signatures in _signatures(record).items()
        if kind is Kind.OPERATOR
        for signature in signatures
    )


@cache
def dimensioned() -> Mapping[int, bool]:
    """The oids of the routines that look at the dimensions of arrays, and whether each makes some whatever it gets."""
    found: dict[int, bool] = {}
    for kind in _FIRST_OIDS:
        names = _family(kind).OF_DIMENSIONS
        found |= {made.oid: names[made.name] for made in _made(kind) if made.name in names}
    return found


def functions_behind(kind: str) -> Mapping[str, str]:
    """By the symbols of the operators over a kind of type: the function of the extension that does the same."""
    behind: Mapping[str, str] = _family(kind).FUNCTIONS_BEHIND
    return behind


def forms() -> Mapping[tuple[bool, int], Form]:
    """As the registry has them."""
    return {(made.kind is Kind.OPERATOR, made.oid): made.form for kind in _FIRST_OIDS for made in _made(kind)}
