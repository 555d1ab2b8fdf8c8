"""Aggregate calls, in a group or over a window's frame."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from planner.functions.forms.form import CallSite
from planner.ir import nodes as ir
from planner.ir.physical import element_type
from planner.ir.rewrite import is_volatile, outermost_relations, walk
from planner.lowering.fragments.fragment import Fragment, made
from planner.lowering.scalars.collected import COLLECTED, Collected
from planner.lowering.scalars.routines import expand, template_of
from planner.lowering.scalars.rows import unless_absent
from planner.lowering.scalars.scalars import Scalars

_ORDER_INSENSITIVE = frozenset(
    {"count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every", "bit_and", "bit_or", "bit_xor", "stddev",
     "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "corr"}
)  # fmt: skip


def aggregate(scalars: Scalars, call: ir.AggregateCall) -> Fragment:
    """An aggregate call of a group."""
    if call.filter is None:
        return apply_aggregate(scalars, call, Fragment(""))
    condition = scalars.lower(call.filter)
    return apply_aggregate(scalars, call, made(f" FILTER (WHERE {condition})", condition))


def apply_aggregate(scalars: Scalars, call: ir.AggregateCall, suffix: Fragment) -> Fragment:
    """The call with `suffix` (FILTER, OVER) after each aggregate function of its template.

    An aggregate's template may use, besides its arguments, ``{d}`` (DISTINCT or nothing), ``{o}`` (the ORDER BY of the
    call, inside the parentheses), ``{f}`` (FILTER (...) or the OVER clause, after each aggregate call), ``{w}`` (the
    WITHIN GROUP ordering) and ``{dir}`` (the direction of its first key).
    """
    if call.signature.name in COLLECTED:
        return Collected(scalars, call, suffix).lower()
    ctx = scalars.ctx
    keys = call.order_by
    key_types = tuple([key.expr.type for key in keys]) if call.signature.ordered_set else ()
    args = [scalars.lower(arg) for arg in call.args]
    site = CallSite(
        engine=ctx.engine,
        arg_types=(*(arg.type for arg in call.args), *key_types),
        type=call.type,
        constants=tuple([scalars.constant(arg) for arg in call.args]),
        settings=ctx.settings,
        distinct=call.distinct,
    )
    template = template_of(scalars, call.signature, site)
    ordering, ordered = "", list[Fragment]()
    if keys and not (call.signature.name in _ORDER_INSENSITIVE and not call.signature.ordered_set):
        ordering, ordered = scalars.ordering(keys)
    if call.distinct and call.signature.name == "count":
        args = [_told_apart(scalars, value, arg) for value, arg in zip(args, call.args, strict=True)]
    template, args = expand(scalars, template, args, site.arg_types)
    if call.signature.ordered_set:
        args[len(call.args) : len(call.args)] = [scalars.lower(key.expr) for key in keys]
    marks = {
        "dir": "DESC" if keys and keys[0].descending else "",
        "t": ctx.dialect.type_name(call.type),
        "d": "DISTINCT " if call.distinct else "",
        "o": f" ORDER BY {ordering}" if ordering else "",
        "w": ordering,
        "f": suffix.sql,
    }
    return made(_filled(template, args, marks), *args, *ordered, suffix)


def _told_apart(scalars: Scalars, value: Fragment, arg: ir.Scalar) -> Fragment:
    """What equal values of `arg` have in common; rows that are written out are compared field by field."""
    if not isinstance(arg, ir.RowConstructor) or not arg.items:
        return scalars.same(value, arg.type)
    items = [_told_apart(scalars, scalars.lower(item), item) for item in arg.items]
    members = [(f"f{number}", item.sql) for number, item in enumerate(items)]
    return unless_absent(scalars, arg, made(scalars.ctx.dialect.struct(members), *items))


_PLACE = re.compile(r"\{(\d+|[tdowf]|dir)\}")


def _filled(template: str, args: Sequence[Fragment], marks: Mapping[str, str]) -> str:
    """Fills an aggregate's template. Arguments are repeated as they are: a binding outside the call would need the
    row. WITHIN GROUP keys follow the direct arguments."""
    return _PLACE.sub(lambda match: marks[match[1]] if match[1] in marks else args[int(match[1])].sql, template)


def where_counted(condition: ir.Scalar | None, expr: ir.Scalar) -> ir.Scalar:
    """`expr`, which an aggregate takes, computed of no rows but those that its FILTER, `condition`, counts: engines
    compute it of all, which might fail. A condition that is volatile or has a query in it is asked once only."""
    if condition is None or isinstance(expr, (ir.ColumnRef, ir.Literal, ir.Param)):
        return expr
    if is_volatile(condition) or next(outermost_relations(condition), None) is not None:
        return expr
    if isinstance(expr, ir.RowConstructor):
        # What is made of a row needs it written out.
        return replace(expr, items=tuple([where_counted(condition, item) for item in expr.items]))
    return ir.Case(whens=((condition, expr),), otherwise=None, type=expr.type)


def computes_arrays(key: ir.Scalar) -> bool:
    """Whether a key of an order is computed, of arrays or as one. What collects arrays is given to a lambda of ours as
    a whole, and DuckDB knows no lambda inside of that aggregate's or window's order."""
    if isinstance(key, (ir.ColumnRef, ir.Literal)):
        return False
    return any(isinstance(node, ir.Scalar) and element_type(node.type) is not None for node in walk(key))
