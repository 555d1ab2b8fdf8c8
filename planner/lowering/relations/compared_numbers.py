"""Averages that are only compared, as decimals.

    SELECT ... WHERE a < (SELECT 0.2 * avg(b) FROM u WHERE u.k = t.k)

An average shows as many digits as it takes, which the engines hold as text: what is computed of it passes a process of
Python, and a comparison names it several times. Where its value alone matters, and a decimal holds that, Spark computes
with the decimal, as with every other.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from planner.functions.families.aggregates import average_number
from planner.functions.registry import result_type
from planner.ir import nodes as ir
from planner.ir.rewrite import transform
from planner.types.numeric_shapes import common_decimal, shape_of
from planner.types.signature import COMPARISONS
from planner.types.types import MAX_DECIMAL_PRECISION, NUMERIC, SqlType, is_wide

_COMPUTED = frozenset({"+", "-", "*"})


def with_numbers(condition: ir.Scalar) -> ir.Scalar:
    """`condition`, in which averages that subqueries give are decimals where they are compared with such."""
    return transform(condition, _compared)


def _compared(node: object) -> ir.Call | None:
    if not isinstance(node, ir.Call) or node.signature.name not in COMPARISONS or len(node.args) != 2:
        return None
    if node.signature.args != (NUMERIC, NUMERIC):
        return None
    args = tuple(_number(arg) if isinstance(arg, ir.ScalarSubquery) and is_wide(arg.type) else arg for arg in node.args)
    known = tuple(arg for arg in args if arg is not None)
    if args == node.args or len(known) < len(args) or common_decimal([shape_of(arg.type) for arg in known]) is None:
        return None
    return replace(node, args=known)


def _number(node: ir.ScalarSubquery) -> ir.ScalarSubquery | None:
    """The subquery, giving its number as a decimal."""
    project = node.rel
    if not isinstance(project, ir.Project) or len(project.exprs) != 1:
        return None
    grouped = project.input
    if not isinstance(grouped, ir.Aggregate) or grouped.grouping_sets is not None or grouped.groupings:
        return None
    calls = tuple(map(_average, grouped.calls))
    keys = grouped.fields[: len(grouped.keys)]
    fields = tuple(
        replace(field, type=call.type) for field, call in zip(grouped.fields[len(keys) :], calls, strict=True)
    )
    value = _retyped(project.exprs[0], {field.id: field.type for field in (*keys, *fields)})
    if value is None:
        return None
    rel = ir.Project(
        input=replace(grouped, calls=calls, fields=(*keys, *fields)),
        exprs=(value,),
        fields=(replace(project.fields[0], type=value.type),),
    )
    return replace(node, rel=rel, type=value.type)


def _average(call: ir.AggregateCall) -> ir.AggregateCall:
    """An average of decimals as a decimal, any other call as it is."""
    if call.signature.name != "avg" or call.signature.args != (NUMERIC,) or is_wide(call.args[0].type):
        return call
    shape = average_number(call.args[0].type)
    return call if shape is None else replace(call, type=SqlType(NUMERIC, -1, shape))


def _retyped(expr: ir.Scalar, types: dict[int, SqlType]) -> ir.Scalar | None:
    """`expr` with columns of these types, as a decimal of the same value; None where it is none."""
    match expr:
        case ir.ColumnRef() if expr.id in types:
            found = replace(expr, type=types[expr.id])
            return None if is_wide(found.type) else found
        case ir.Call() if expr.signature.name in _COMPUTED and expr.type.oid == NUMERIC:
            args = [_retyped(arg, types) for arg in expr.args]
            known = tuple(arg for arg in args if arg is not None)
            if len(known) < len(args):
                return None
            type = result_type(expr.signature, [arg.type for arg in known])
            fitting = not is_wide(type) and _holds(expr.signature.name, known, type)
            return replace(expr, args=known, type=type) if fitting else None
    return None if expr.type.oid != NUMERIC or is_wide(expr.type) else expr


def _holds(symbol: str, args: tuple[ir.Scalar, ...], type: SqlType) -> bool:
    """Whether what is computed of `args` fits `type` whatever they are."""
    digits = list(map(_whole_digits, args))
    whole = sum(digits) if symbol == "*" else max(digits) + 1
    return whole + shape_of(type).scale <= MAX_DECIMAL_PRECISION


def _whole_digits(expr: ir.Scalar) -> int:
    if isinstance(expr, ir.Literal) and isinstance(expr.value, Decimal):
        return max(0, expr.value.adjusted() + 1)
    return shape_of(expr.type).precision - shape_of(expr.type).scale
