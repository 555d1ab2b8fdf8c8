"""Whether an expression gives the same value for the same row for ever (contain_mutable_functions): what generated
columns and the like demand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from planner.catalog_data.content import columns
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.rewrite import children, walk
from planner.ir.written import FunctionCall
from planner.resolution.coercion import Context, pathway
from planner.resolution.statement import Statement
from planner.types.signature import Kind, Volatility
from planner.types.type_names import element_of
from planner.types.user_types import enum_of
from storage.catalog.routines import Function

_APPENDED = frozenset({("||", (25, 2776)), ("||", (2776, 25))})
"""text || anynonarray and its commutator: SQL functions, as good as the output function of what is appended."""


def is_immutable(expr: ir.Scalar) -> bool:
    """Whether no part of `expr` depends on settings, the time or anything else but its columns."""
    return all(map(computes_immutably, walk(expr)))


def is_written_immutably(expr: ir.Scalar, statement: Statement) -> bool:
    """`is_immutable` of what `statement` has bound, where a call of a function of a user that is declared IMMUTABLE is
    so, whatever is in it. Another one is what its body is, if that is an expression, which PostgreSQL puts in place of
    the call before it looks (contain_mutable_functions_after_planning)."""
    written = statement.written or {}
    pending: list[object] = [expr]
    while pending:
        node = pending.pop()
        form = written[id(node)][1] if id(node) in written else None
        if isinstance(form, FunctionCall) and form.oid:
            record = statement.context.catalog.get(form.oid)
            if isinstance(record, Function):
                if record.volatility == Volatility.IMMUTABLE.value:
                    pending.extend(form.args)
                    continue
                if record.security_definer or record.settings or isinstance(node, ir.ScalarSubquery):
                    return False
        if not computes_immutably(node):
            return False
        pending.extend(children(node))
    return True


def is_reproducible(query: BoundQuery) -> bool:
    """Whether the query always gives the same rows for the same rows of the tables that it reads."""
    return not query.system and not query.volatile and all(map(_is_reproducible, walk(query.rel)))


def _is_reproducible(node: object) -> bool:
    signature = getattr(node, "signature", None)
    if signature is not None and signature.volatility is not Volatility.IMMUTABLE:
        return False
    return computes_immutably(node)


def computes_immutably(node: object) -> bool:
    """Whether one part of an expression always makes the same of the same parts."""
    if isinstance(node, ir.SessionValue):
        return False
    if isinstance(node, ir.Cast):
        return _converts_immutably(node.arg.type.oid, node.type.oid)
    if isinstance(node, ir.Call):
        if node.signature.kind is Kind.OPERATOR and node.signature.oid in _appending_operators():
            return all(_io("typoutput", arg.type.oid) for arg in node.args)
        return node.signature.volatility is Volatility.IMMUTABLE
    return True


def computes_stably(node: object) -> bool:
    """Whether one part of an expression makes the same of the same parts as long as a statement runs."""
    if isinstance(node, ir.Call):
        return node.signature.volatility is not Volatility.VOLATILE
    return not isinstance(node, ir.SessionValue)


def _converts_immutably(source: int, target: int) -> bool:
    match pathway(source, target, Context.EXPLICIT):
        case "function":
            return _volatilities().get(_cast_functions().get((source, target), 0), "i") == "i"
        case "io":
            return _io("typoutput", source) and _io("typinput", target)
        case "array":
            return _converts_immutably(element_of(source), element_of(target))
        case _:
            return True


def _io(which: str, type_oid: int) -> bool:
    """Whether a type's input or output function is immutable. An enum's values may be renamed."""
    if enum_of(type_oid) is not None:
        return False
    return _volatilities().get(_functions_of_types(which).get(type_oid, 0), "i") == "i"


@cache
def _volatilities() -> Mapping[int, str]:
    data = columns("pg_proc")
    return dict(zip(data["oid"], data["provolatile"], strict=True))


@cache
def _functions_of_types(which: str) -> Mapping[int, int]:
    data = columns("pg_type")
    return dict(zip(data["oid"], data[which], strict=True))


@cache
def _cast_functions() -> Mapping[tuple[int, int], int]:
    data = columns("pg_cast")
    return {
        (source, target): function
        for source, target, function in zip(data["castsource"], data["casttarget"], data["castfunc"], strict=True)
    }


@cache
def _appending_operators() -> frozenset[int]:
    data = columns("pg_operator")
    return frozenset(
        oid
        for oid, name, left, right in zip(data["oid"], data["oprname"], data["oprleft"], data["oprright"], strict=True)
        if (name, (left, right)) in _APPENDED
    )
