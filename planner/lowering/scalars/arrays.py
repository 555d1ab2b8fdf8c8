"""Arrays: constructors, subscripts, slices, and comparisons with their elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.dialects.error_text import error_text
from planner.ir import nodes as ir
from planner.ir.physical import element_type
from planner.lowering.fragments.fragment import Fragment, listed, made, simple
from planner.lowering.fragments.templates import fill, let
from planner.lowering.scalars.comparison_runs import compares_keys
from planner.lowering.scalars.logic import BOOLEAN, among
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


MAX_ELEMENTS = 134_217_727
"""Elements of an array at most (PostgreSQL's MaxArraySize)."""


_NO_BOUNDS = error_text(
    "2202E",
    "array slice subscript must provide both boundaries",
    "When assigning to a slice of an empty array value, slice boundaries must be fully specified.",
)


def _assigned(scalars: Scalars, expr: ir.SubscriptAssignment) -> Fragment:
    """The elements before, the new ones and those behind; between the former two NULLs for elements that are not there
    yet."""
    dialect = scalars.ctx.dialect
    array, items = scalars.lower(expr.arg), scalars.lower(expr.items)
    element = element_type(expr.type)
    assert element is not None
    empty = dialect.cast(dialect.array([]), expr.type)
    length = f"coalesce({dialect.length('{0}')}, 0)"
    lower = "1" if expr.lower is None else "{1}"
    upper = "{2}" if expr.upper is not None else length if expr.slice else lower

    def refused(condition: str, sqlstate: str, message: str) -> str:
        return f"WHEN {condition} THEN {dialect.raise_sql(sqlstate, message)} "

    whens = ""
    for bound, place in ((expr.lower, "{1}"), (expr.upper, "{2}")):
        if bound is not None:
            whens += refused(f"{place} IS NULL", "22004", "array subscript in assignment must not be null")
    if expr.slice:
        whens += f"WHEN {{3}} IS NULL THEN coalesce({{0}}, {empty}) "
        if expr.lower is None or expr.upper is None:
            whens += f"WHEN {length} = 0 THEN {dialect.error(dialect.string(_NO_BOUNDS))} "
        whens += refused(f"{upper} < {lower}", "2202E", "upper bound cannot be less than lower bound")
        given = dialect.length("{3}")
        whens += refused(f"{given} < {upper} - {lower} + 1", "2202E", "source array too small")
    below = f"{lower} < 1 OR ({length} = 0 AND {lower} > 1)"
    whens += refused(below, "0A000", "arrays whose lower bound is not 1 are not supported")
    most = f"array size exceeds the maximum allowed ({MAX_ELEMENTS})"
    whens += refused(f"{upper} > {MAX_ELEMENTS}", "54000", most)
    made_of = dialect.with_elements(f"coalesce({{0}}, {empty})", lower=lower, upper=upper, items="{3}", element=element)
    one = simple("1")
    bounds = [one if bound is None else scalars.lower(bound) for bound in (expr.lower, expr.upper)]
    return fill(scalars.ctx, f"CASE {whens}ELSE {made_of} END", [array, *bounds, items])


# ---------------------------------------------------------------- = ANY (array), < ALL (array)


def _quantified(scalars: Scalars, expr: ir.QuantifiedArray) -> Fragment:
    element = element_type(expr.array.type)
    assert element is not None
    ctx = scalars.ctx
    items = _items(scalars, expr.array)
    if items and expr.operator.name == {"any": "=", "all": "<>"}[expr.quantifier] and compares_keys(expr.operator):
        return among(scalars, expr.arg, items, negated=expr.quantifier == "all")
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
    ir.SubscriptAssignment: _assigned,
    ir.QuantifiedArray: _quantified,
}
