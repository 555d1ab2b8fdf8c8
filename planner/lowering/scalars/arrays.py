"""Arrays: constructors, subscripts, slices, and comparisons with their elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.ir import nodes as ir
from planner.ir.physical import element_type
from planner.lowering.fragments.fragment import Fragment, listed, made, simple
from planner.lowering.fragments.templates import fill, let
from planner.lowering.scalars.logic import BOOLEAN
from planner.lowering.scalars.routines import call
from planner.lowering.scalars.scalars import Handler, Scalars
from planner.types import types
from planner.types.types import SqlType


def _array(scalars: Scalars, expr: ir.ArrayConstructor) -> Fragment:
    element = element_type(expr.type)
    assert element is not None
    if any(element_type(item.type) is not None and item.type.oid == expr.type.oid for item in expr.items):
        raise scalars.ctx.unsupported("a multidimensional array")
    items = [scalars.typed(item, element) for item in expr.items]
    dialect = scalars.ctx.dialect
    return made(dialect.cast(dialect.array([item.sql for item in items]), expr.type), *items)


def _subscript(scalars: Scalars, expr: ir.Subscript) -> Fragment:
    zero_based = expr.arg.type.oid in (types.INT2VECTOR, types.OIDVECTOR, types.NAME)
    array = scalars.lower(expr.arg)
    if expr.slice:
        return _slice(scalars, array, expr)
    assert expr.index is not None
    index = scalars.lower(expr.index)
    constant = scalars.constant(expr.index)
    in_range = isinstance(constant, int) and constant + zero_based >= 1
    return fill(scalars.ctx, scalars.ctx.dialect.element(zero_based=zero_based, in_range=in_range), [array, index])


def _slice(scalars: Scalars, array: Fragment, expr: ir.Subscript) -> Fragment:
    dialect = scalars.ctx.dialect
    template = dialect.slice(expr.type)
    lower, upper = simple("1"), simple("1")
    if expr.index is None:
        template = template.replace("{1}", "1")
    else:
        index = scalars.lower(expr.index)
        lower = made(f"greatest({index}, 1)", index)
    if expr.upper is None:
        template = template.replace("{2}", dialect.length("{0}"))
    else:
        upper = scalars.lower(expr.upper)
    return fill(scalars.ctx, template, [array, lower, upper])


# ---------------------------------------------------------------- = ANY (array), < ALL (array)


def _quantified(scalars: Scalars, expr: ir.QuantifiedArray) -> Fragment:
    element = element_type(expr.array.type)
    assert element is not None
    ctx = scalars.ctx
    items = _items(scalars, expr.array)
    arg = scalars.lower(expr.arg)
    if items and arg.simple:
        tests = [
            call(scalars, expr.operator, [arg, scalars.lower(item)], [expr.arg.type, item.type], BOOLEAN)
            for item in items
        ]
        return made(f"({listed(tests, ' OR ' if expr.quantifier == 'any' else ' AND ')})", *tests)
    array = scalars.lower(expr.array)
    if arg.volatile or (arg.subquery and ctx.dialect.let_of_subqueries):
        # The test of one element, a lambda, cannot hold a subquery, and is evaluated for each.
        name = ctx.variable()
        body = _over_list(scalars, expr, simple(f"{name}.a0"), simple(f"{name}.a1"), element)
        value = made(ctx.dialect.struct([("a0", arg.sql), ("a1", array.sql)]), arg, array)
        return let(ctx, value, name, body)
    return _over_list(scalars, expr, arg, array, element)


def _over_list(
    scalars: Scalars, expr: ir.QuantifiedArray, arg: Fragment, array: Fragment, element: SqlType
) -> Fragment:
    dialect = scalars.ctx.dialect
    name = scalars.ctx.variable()
    test = call(scalars, expr.operator, [arg, simple(name)], [expr.arg.type, element], BOOLEAN)
    if dialect.list_quantifiers:
        return made(
            f"{'exists' if expr.quantifier == 'any' else 'forall'}({array}, {name} -> {test})", array, test
        )  # fmt: skip
    decisive, other = ("TRUE", "FALSE") if expr.quantifier == "any" else ("FALSE", "TRUE")
    tests = made(dialect.transform(array.sql, name, test.sql), array, test)
    known = dialect.length(dialect.filter("{0}", name, f"{name} IS NOT NULL"))
    return fill(
        scalars.ctx,
        f"CASE WHEN {{0}} IS NULL THEN NULL WHEN list_contains({{0}}, {decisive}) THEN {decisive} "
        f"WHEN {dialect.length('{0}')} > {known} THEN NULL ELSE {other} END",
        [tests],
    )


def _items(scalars: Scalars, expr: ir.Scalar) -> Sequence[ir.Scalar] | None:
    """The elements of an array that is written out; None where they are not known one by one."""
    if isinstance(expr, ir.ArrayConstructor):
        return expr.items
    if isinstance(expr, ir.Cast) and isinstance(expr.arg, ir.ArrayConstructor):
        element = element_type(expr.type)
        if element is None or any(element_type(item.type) is not None for item in expr.arg.items):
            return None
        return [ir.Cast(arg=item, type=element, explicit=expr.explicit) for item in expr.arg.items]
    if isinstance(expr, (ir.Literal, ir.Param)):
        value = scalars.constant(expr)
        element = element_type(expr.type)
        if isinstance(value, (tuple, list)) and element is not None:
            if any(isinstance(item, (tuple, list)) for item in value):
                return None
            return [ir.Literal(value=item, type=element) for item in value]
    return None


HANDLERS: Mapping[type, Handler] = {
    ir.ArrayConstructor: _array,
    ir.Subscript: _subscript,
    ir.QuantifiedArray: _quantified,
}
