"""Collations that conflict where a statement needs one (parse_collate.c, and check_collation_set of its functions), and
pg_collation_for.

NOTE: PostgreSQL says 42P22 when it comes to compare, here a statement is refused when it is planned. Only statements
that name a collation, read a column that has one of its own or are recursive can have a conflict; others are not looked
at.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TypeVar

from planner.collations.derivation import Collations, Derived, Strength
from planner.collations.errors import CollationMismatch, IndeterminateCollation
from planner.errors import DatatypeMismatch
from planner.ir import nodes as ir
from planner.ir.bound import BoundDelete, BoundInsert, BoundQuery, BoundStatement, BoundUpdate
from planner.ir.rewrite import transform, walk
from planner.syntax.identifiers import quote_identifier
from planner.types import types as t
from planner.types.operator_classes import DEFAULT_COLLATION, collation_name, key_collation
from planner.types.type_names import format_type
from storage.catalog.model import CatalogSnapshot, Relation

_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_USES = {
    **dict.fromkeys(_COMPARISONS, "string comparison"),
    **dict.fromkeys(("~~*", "!~~*"), "ILIKE"),
    **dict.fromkeys(("~", "!~", "~*", "!~*"), "regular expression"),
    **dict.fromkeys(("replace", "position", "strpos", "split_part"), "string comparison"),
    **{name: f"{name}() function" for name in ("lower", "upper", "initcap")},
}
"""What a function or operator uses a collation for, as PostgreSQL says it."""

_OF = "pg_collation_for"

_StatementT = TypeVar("_StatementT", bound=BoundStatement)


def with_collations(bound: _StatementT, text: str, catalog: CatalogSnapshot) -> _StatementT:
    """The statement with what pg_collation_for says. Raises 42P21 and 42P22 for conflicts, 42804."""
    query = _query_of(bound)
    if query is None or not _may_conflict(text, query.relations, catalog):
        return bound
    collations = Collations(query.rel, catalog.get)
    for node in _in_order(query.rel):
        _check(collations, node)
    if "collat" not in text.lower():
        return bound

    def told(node: object) -> ir.Literal | None:
        if not isinstance(node, ir.Call) or node.signature.name != _OF:
            return None
        (arg,) = node.args
        if arg.type.oid != t.UNKNOWN and not key_collation(arg.type.declared_oid):
            raise DatatypeMismatch(f"collations are not supported by type {format_type(arg.type.declared_oid)}")
        oid = 0 if arg.type.oid == t.UNKNOWN else collations.of_value(arg)
        return ir.Literal(value=_shown(oid) if oid else None, type=node.type)

    return transform(bound, told)


def check_stored(rel: ir.Rel, text: str, relations: Iterable[int], catalog: CatalogSnapshot) -> None:
    """Raises 42P21 for conflicts in a query of `relations` that is defined and not run yet, which comes to what needs a
    collation (42P22) once it is run."""
    if _may_conflict(text, relations, catalog):
        collations = Collations(rel, catalog.get)
        for node in _in_order(rel):
            with suppress(IndeterminateCollation):
                _check(collations, node)


def _may_conflict(text: str, relations: Iterable[int], catalog: CatalogSnapshot) -> bool:
    lowered = text.lower()
    return "collat" in lowered or "recursive" in lowered or any(_has_own(catalog.get(oid)) for oid in relations)


def _in_order(rel: ir.Rel) -> list[object]:
    """The nodes as they are checked: what the sides of a set operation have together comes before what their rows are
    ordered by."""
    return sorted(walk(rel), key=lambda each: not isinstance(each, ir.SetOperation))


def _query_of(bound: BoundStatement) -> BoundQuery | None:
    match bound:
        case BoundQuery():
            return bound
        case BoundInsert():
            return bound.source
        case BoundUpdate() | BoundDelete():
            return bound.read
        case _:
            return None


def _has_own(record: object) -> bool:
    return isinstance(record, Relation) and any(column.collation for column in record.columns)


def _shown(oid: int) -> str:
    return '"default"' if oid == DEFAULT_COLLATION else quote_identifier(collation_name(oid))


def _check(collations: Collations, node: object) -> None:
    """Raise for a node that needs a collation and has none."""
    match node:
        case ir.Sort():
            _check_keys(collations, (key.expr for key in node.keys))
        case ir.Aggregate():
            _check_keys(collations, node.keys)
        case ir.AggregateCall():
            _check_keys(collations, (key.expr for key in node.order_by))
            collations.derived(node)
        case ir.WindowCall():
            _check_keys(collations, (*node.partition_by, *(key.expr for key in node.order_by)))
            collations.derived(node)
        case ir.SetOperation() if not (node.op == "union" and node.all):
            for a, b in zip(node.left.fields, node.right.fields, strict=True):
                _refuse_conflict(collations.merged(a.id, b.id))
        case ir.CommonTable(step=ir.Project() | ir.SetOperation() | ir.With() as step):
            _check_terms(collations, node, step)
        case ir.Deduplicate():
            keys = node.on or [ir.ColumnRef(id=field.id, type=field.type) for field in node.input.fields]
            _check_keys(collations, keys)
        case ir.Call() if node.signature.name in _USES:
            derived = collations.together(node.args)
            if not derived.oid and any(key_collation(arg.type.declared_oid) for arg in node.args):
                raise _undetermined(_USES[node.signature.name])
        case ir.InList():
            _check_compared(collations, (node.arg, *node.items))
        case ir.MinMax():
            _check_compared(collations, node.args)
        case ir.Distinct():
            _check_compared(collations, (node.left, node.right))
        case ir.QuantifiedSubquery():
            for arg, field in zip(node.args, node.rel.fields, strict=False):
                _check_compared(collations, (arg, ir.ColumnRef(id=field.id, type=field.type)), "string hashing")
        case ir.Call() | ir.Case():
            collations.derived(node)
        case _:
            pass


def _check_terms(collations: Collations, table: ir.CommonTable, step: ir.Rel) -> None:
    """The terms of a recursive query have together the collation of the first one (analyzeCTE)."""
    for number, (own, other) in enumerate(zip(table.rel.fields, step.fields, strict=True), 1):
        if not key_collation(own.type.declared_oid):
            continue
        together, alone = collations.merged(own.id, other.id).oid, collations.merged(own.id).oid
        if together and together != alone:
            raise CollationMismatch(
                f'recursive query "{table.name}" column {number} has collation "{collation_name(alone)}" in '
                f'non-recursive term but collation "{collation_name(together)}" overall',
                hint="Use the COLLATE clause to set the collation of the non-recursive term.",
            )


def _check_compared(collations: Collations, values: tuple[ir.Scalar, ...], use: str = "string comparison") -> None:
    derived = collations.together(values)
    if not derived.oid and any(key_collation(value.type.declared_oid) for value in values):
        raise _undetermined(use)


def _check_keys(collations: Collations, keys: Iterable[ir.Scalar]) -> None:
    """What rows are ordered or told apart by."""
    for key in keys:
        if key_collation(key.type.declared_oid):
            derived = collations.of_key(key)
            _refuse_conflict(derived)
            if not derived.oid:
                raise _undetermined(_USES["="])


def _refuse_conflict(derived: Derived) -> None:
    if derived.strength is Strength.CONFLICT:
        one, other = (collation_name(oid) for oid in derived.between)
        raise CollationMismatch(
            f'collation mismatch between implicit collations "{one}" and "{other}"',
            hint="You can choose the collation by applying the COLLATE clause to one or both expressions.",
        )


def _undetermined(use: str) -> IndeterminateCollation:
    return IndeterminateCollation(
        f"could not determine which collation to use for {use}",
        hint="Use the COLLATE clause to set the collation explicitly.",
    )
