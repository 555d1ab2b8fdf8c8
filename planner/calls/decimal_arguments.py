"""Arguments of aggregates that are wide only because their parts show unlike scales, as decimals.

``sum(CASE WHEN paid THEN price ELSE 0 END)`` adds numbers that all fit the decimals of `price`: only the display scale
of the zeros is another one. They are added as decimals, with the scale of the widest part.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from planner.functions.registry import result_type
from planner.ir.nodes import Call, Case, Cast, Coalesce, Literal, MinMax, Scalar
from planner.resolution.casting import numeric_literal_type
from planner.types.numeric_shapes import ADDING, INTEGER_DIGITS, common_decimal, shape_of
from planner.types.types import NUMERIC, SqlType, is_wide

_OPERATIONS = frozenset({"+", "-", "*", "abs", "@"})


def with_decimals(name: str, args: list[Scalar]) -> list[Scalar]:
    """The arguments of the aggregate `name`, as decimals where they can be."""
    if name not in ADDING or not any(is_wide(arg.type) for arg in args):
        return args
    return [_decimal(arg) or arg for arg in args]


def _decimal(expr: Scalar) -> Scalar | None:
    """`expr` as a decimal of the same value; None when it is none."""
    if expr.type.oid in INTEGER_DIGITS:
        return expr
    if expr.type.oid != NUMERIC:
        return None
    if not is_wide(expr.type):
        return expr
    match expr:
        case Literal(value=Decimal() as value):
            type_ = numeric_literal_type(value)
            return None if is_wide(type_) else replace(expr, type=type_)
        case Cast() if expr.type.typmod == -1:
            return _decimal(expr.arg) if expr.arg.type.oid == NUMERIC else None
        case Case():
            values = [value for _, value in expr.whens]
            found = _alike([*values, *([] if expr.otherwise is None else [expr.otherwise])])
            if found is None:
                return None
            whens = tuple((test, value) for (test, _), value in zip(expr.whens, found, strict=False))
            otherwise = None if expr.otherwise is None else found[-1]
            return replace(expr, whens=whens, otherwise=otherwise, type=found[0].type)
        case Coalesce() | MinMax():
            found = _alike(list(expr.args))
            return None if found is None else replace(expr, args=tuple(found), type=found[0].type)
        case Call() if expr.signature.name in _OPERATIONS:
            decimals = [_decimal(arg) for arg in expr.args]
            args = tuple(arg for arg in decimals if arg is not None)
            if len(args) < len(decimals):
                return None
            type_ = result_type(expr.signature, [arg.type for arg in args])
            return None if is_wide(type_) else replace(expr, args=args, type=type_)
        case _:
            return None


def _alike(values: list[Scalar]) -> list[Scalar] | None:
    """`values` as decimals of one shape."""
    nothing = [isinstance(value, Literal) and value.value is None for value in values]
    decimals = [None if null else _decimal(value) for value, null in zip(values, nothing, strict=True)]
    known = [value for value in decimals if value is not None]
    if len(known) + sum(nothing) < len(values) or not known:
        return None
    shape = common_decimal([shape_of(value.type) for value in known])
    if shape is None:
        return None
    type_ = SqlType(NUMERIC, -1, shape)
    return [
        Literal(value=None, type=type_)
        if value is None
        else replace(value, type=type_)
        if isinstance(value, Literal)
        else value
        if value.type == type_
        else Cast(arg=value, type=type_)
        for value in decimals
    ]
