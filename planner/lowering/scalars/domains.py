"""Values of domains: what they have to keep is looked at where they are made."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from planner.dialects.error_text import error_text
from planner.ir import nodes as ir
from planner.lowering.fragments.context import Context
from planner.lowering.fragments.fragment import Fragment, made, simple
from planner.lowering.fragments.templates import MAX_REPEATED, let
from planner.lowering.scalars.scalars import Handler, Scalars


def _domain_value(scalars: Scalars, expr: ir.DomainValue) -> Fragment:
    value = scalars.typed(expr.arg, expr.type)
    if not expr.rules:
        return value
    ctx = scalars.ctx
    if value.simple or not (value.volatile or value.subquery or len(value.sql) > MAX_REPEATED):
        return _held_against(scalars, expr, value)
    name = ctx.variable()
    body = _held_against(scalars, expr, simple(name))
    if body.python and not ctx.dialect.python_in_lambdas and not value.volatile and not value.subquery:
        return _held_against(scalars, expr, value)
    return let(ctx, value, name, body)


def _held_against(scalars: Scalars, expr: ir.DomainValue, value: Fragment) -> Fragment:
    """`value`, or the error of the first rule that it breaks."""
    scalars.ctx.held[expr.id] = value
    whens = []
    parts = [value]
    for rule in expr.rules:
        if rule.condition is None:
            whens.append(f"WHEN {value} IS NULL THEN {_error(scalars.ctx, '23502', rule)}")
        else:
            condition = scalars.lower(rule.condition)
            parts.append(condition)
            whens.append(f"WHEN NOT {condition} THEN {_error(scalars.ctx, '23514', rule)}")
    return replace(made(f"CASE {' '.join(whens)} ELSE {value} END", *parts), may_raise=True)


def _error(ctx: Context, sqlstate: str, rule: ir.DomainRule) -> str:
    text = error_text(sqlstate, rule.message, schema=rule.schema, datatype=rule.datatype, constraint=rule.constraint)
    return ctx.dialect.error(ctx.dialect.string(text))


def _for_each(scalars: Scalars, expr: ir.ForEach) -> Fragment:
    ctx = scalars.ctx
    array = scalars.lower(expr.arg)
    name = ctx.variable()
    ctx.held[expr.id] = simple(name)
    body = scalars.lower(expr.body)
    if body.python and not ctx.dialect.python_in_lambdas:
        raise ctx.unsupported("this check of the elements of an array")
    return made(ctx.dialect.transform(array.sql, name, body.sql), array, body)


HANDLERS: Mapping[type, Handler] = {
    ir.DomainValue: _domain_value,
    ir.ForEach: _for_each,
}
