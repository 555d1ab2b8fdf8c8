"""Literals, parameters, columns and casts."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import InternalError
from planner.ir import nodes as ir
from planner.lowering.fragments.fragment import Fragment
from planner.lowering.scalars.casts import cast
from planner.lowering.scalars.scalars import Handler, Scalars
from planner.types.types import REG_TYPES, SqlType


def _literal(scalars: Scalars, expr: ir.Literal) -> Fragment:
    return _constant(scalars, expr.value, expr.type)


def _param(scalars: Scalars, expr: ir.Param) -> Fragment:
    if scalars.ctx.params is None:
        return scalars.null(expr.type)
    return _constant(scalars, scalars.ctx.value(expr), expr.type)


def _constant(scalars: Scalars, value: object, type: SqlType) -> Fragment:
    """A literal. The name of a catalog object, as a parameter of a reg* type has it, is looked up by the engine."""
    if isinstance(value, str) and type.oid in REG_TYPES:
        string = scalars.ctx.dialect.string
        token = string(scalars.ctx.settings.token)
        return Fragment(f"tg_{REG_TYPES[type.oid]}_in({token}, {string(value)})", python=True)
    return scalars.literal(value, type)


def _column(scalars: Scalars, expr: ir.ColumnRef) -> Fragment:
    try:
        return scalars.ctx.columns[expr.id]
    except KeyError:
        raise InternalError(f"column {expr.id} is not in scope") from None


def _session_value(scalars: Scalars, expr: ir.SessionValue) -> Fragment:
    if scalars.ctx.params is None:
        return scalars.null(expr.type)
    raise InternalError(f"session value {expr.name} was not substituted")


def _cast(scalars: Scalars, expr: ir.Cast) -> Fragment:
    arg = expr.arg
    if isinstance(arg, ir.Literal) and arg.value is None:
        return scalars.null(expr.type)
    return cast(scalars.ctx, scalars.lower(arg), arg.type, expr.type, explicit=expr.explicit)


def _collate(scalars: Scalars, expr: ir.Collate) -> Fragment:
    return scalars.lower(expr.arg)


HANDLERS: Mapping[type, Handler] = {
    ir.Literal: _literal,
    ir.Param: _param,
    ir.ColumnRef: _column,
    ir.SessionValue: _session_value,
    ir.Cast: _cast,
    ir.Collate: _collate,
}
