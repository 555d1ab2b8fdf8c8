"""Barriers: below one, rows are chosen before anything above it is computed for them.

A condition that may raise an error, or call a function that tells its arguments to somebody, tells of rows that
row-level security or a view with security_barrier hides, when an engine computes it first. A barrier is a `Limit` that
takes all rows, OFFSET 0, through which engines move no condition. Conditions that tell nothing (PostgreSQL calls them
leakproof) are moved below it here, and where nothing in a statement tells, it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeGuard, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from planner.catalog_data.content import columns
from planner.ir import bound as bound_nodes
from planner.ir import nodes as ir
from planner.ir.rewrite import RELATIONS, children, transform
from planner.types.signature import Kind, Signature
from planner.types.types import BOOL, INT8, SqlType

_T = TypeVar("_T")

IsLeakproof = Callable[[int], bool]
"""Whether a function of a user, by oid, is LEAKPROOF."""

_ALL = ir.Literal(value=0, type=SqlType(INT8))


def barrier(rel: ir.Rel) -> ir.Rel:
    """`rel` with a barrier over it."""
    return ir.Limit(input=rel, count=None, offset=_ALL, ties=False, fields=rel.fields)


def is_barrier(rel: object) -> TypeGuard[ir.Limit]:
    """Whether it is a barrier, or OFFSET 0, which is as good as one."""
    return isinstance(rel, ir.Limit) and rel.count is None and rel.offset == _ALL


def settled(bound: _T, is_leakproof: IsLeakproof) -> _T:
    """`bound`, a whole statement, with the barriers that it needs and no others."""
    leaks = _Leaks(is_leakproof)
    if leaks.anywhere(bound, under=False):
        return transform(bound, lambda node: _pushed(node, leaks))
    return transform(bound, _without)


def _without(node: Any) -> Any:
    return transform(node.input, _without) if is_barrier(node) else None


def _pushed(node: Any, leaks: _Leaks) -> Any:
    """A filter over a barrier, with what of its condition tells nothing below that."""
    if not isinstance(node, ir.Filter) or not is_barrier(node.input):
        return None
    condition, limit = node.condition, node.input
    parts = condition.args if isinstance(condition, ir.BoolOp) and condition.op == "and" else (condition,)
    safe = tuple(part for part in parts if not leaks.in_scalar(part) and not _has_relation(part))
    rest = tuple(part for part in parts if part not in safe)
    below = transform(limit.input, lambda inner: _pushed(inner, leaks))
    if safe:
        below = ir.Filter(input=below, condition=_all_of(safe), fields=below.fields)
    rel = replace(limit, input=below)
    return replace(node, input=rel, condition=_all_of(rest)) if rest else rel


def _all_of(parts: tuple[ir.Scalar, ...]) -> ir.Scalar:
    return parts[0] if len(parts) == 1 else ir.BoolOp(op="and", args=parts, type=SqlType(BOOL))


def _has_relation(scalar: ir.Scalar) -> bool:
    return any(type(child) in RELATIONS or _has_relation(child) for child in children(scalar))


class _Leaks(Struct, frozen=True):
    """What in a statement may tell of values that it is computed for."""

    is_leakproof: IsLeakproof

    def anywhere(self, node: Any, *, under: bool) -> bool:
        """Whether a condition in `node`, or what such a condition could be made of, may tell. Under a condition
        (`under`) that is every scalar. Policies themselves, right below barriers, are nobody's attempt."""
        node = _below_policies(node)
        under_this = under or isinstance(node, (ir.Filter, ir.Join))
        for child in children(node):
            if type(child) in RELATIONS:
                if self.anywhere(child, under=under_this):
                    return True
            elif isinstance(child, _HOLDERS):
                if self.anywhere(child, under=under):
                    return True
            elif (under_this and self.in_scalar(child)) or self._in_subqueries(child):
                return True
        return False

    def _in_subqueries(self, scalar: Any) -> bool:
        return any(
            self.anywhere(child, under=True) if type(child) in RELATIONS else self._in_subqueries(child)
            for child in children(scalar)
        )

    def in_scalar(self, scalar: Any) -> bool:
        """Whether computing it may tell, subqueries in it left aside."""
        match scalar:
            case ir.Call():
                tells = not self._is_safe(scalar.signature)
            case ir.InList():
                tells = not self._is_safe(scalar.equals)
            case ir.QuantifiedArray() | ir.QuantifiedSubquery():
                operator = getattr(scalar, "operator", None)
                tells = not isinstance(operator, Signature) or not self._is_safe(operator)
            case ir.Cast():
                tells = (scalar.arg.type.oid, scalar.type.oid) not in _widening() or scalar.type.typmod >= 0
            case _:
                tells = not isinstance(scalar, _SAFE)
        return tells or any(self.in_scalar(child) for child in children(scalar) if type(child) not in RELATIONS)

    def _is_safe(self, signature: Signature) -> bool:
        if signature.kind is Kind.OPERATOR:
            return _functions_of_operators().get(signature.oid, 0) in _leakproof()
        return signature.oid in _leakproof() or self.is_leakproof(signature.oid)


def _below_policies(node: Any) -> Any:
    """The scan below a barrier and policies; other nodes as they are."""
    below = node
    if is_barrier(below):
        below = below.input
        while isinstance(below, ir.Filter):
            below = below.input
    return below if isinstance(below, ir.Scan) else node


_HOLDERS = (
    ir.CommonTable,
    *(
        each
        for each in vars(bound_nodes).values()
        if isinstance(each, type) and each.__module__ == bound_nodes.__name__
    ),
)
"""What is neither a relation nor a scalar and holds some."""

_SAFE = (
    ir.ColumnRef, ir.Literal, ir.Param, ir.SessionValue, ir.BoolOp, ir.IsNull, ir.BooleanTest, ir.Distinct, ir.Case,
    ir.Coalesce, ir.Exists, ir.ScalarSubquery, ir.Collate, ir.SortKey, ir.LetValue,
    ir.AggregateCall, ir.WindowCall, ir.Frame, ir.FrameBound,
)  # fmt: skip


@cache
def _leakproof() -> frozenset[int]:
    data = columns("pg_proc")
    return frozenset(oid for oid, safe in zip(data["oid"], data["proleakproof"], strict=True) if safe)


@cache
def _functions_of_operators() -> Mapping[int, int]:
    data = columns("pg_operator")
    return dict(zip(data["oid"], data["oprcode"], strict=True))


@cache
def _widening() -> frozenset[tuple[int, int]]:
    """The casts that cannot fail: those without a function, and those whose function is leakproof."""
    data = columns("pg_cast")
    return frozenset(
        (source, target)
        for source, target, method, function in zip(
            data["castsource"], data["casttarget"], data["castmethod"], data["castfunc"], strict=True
        )
        if method == "b" or function in _leakproof()
    )
