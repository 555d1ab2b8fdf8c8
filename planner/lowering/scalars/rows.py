"""Rows and their fields, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import ProgramLimitExceeded
from planner.ir import nodes as ir
from planner.ir.rewrite import column_ids
from planner.lowering.fragments.fragment import Fragment, made
from planner.lowering.fragments.templates import fill
from planner.lowering.scalars.casts import cast
from planner.lowering.scalars.scalars import Handler, Scalars
from planner.lowering.scalars.texts import json_object, json_template, record_text
from planner.types import types
from planner.types.types import SqlType
from planner.types.user_types import attributes


def json_text(scalars: Scalars, expr: ir.Scalar, *, pretty: bool = False) -> Fragment:
    """The expression as JSON text; SQL NULL stays NULL."""
    if not isinstance(expr, ir.RowConstructor):
        return fill(scalars.ctx, json_template(scalars.ctx, expr.type, pretty=pretty), [scalars.lower(expr)])
    members = [(name, json_text(scalars, item)) for name, item in zip(expr.names, expr.items, strict=True)]
    return unless_absent(scalars, expr, json_object(scalars.ctx, members, pretty=pretty))


def unless_absent(scalars: Scalars, expr: ir.RowConstructor, text: Fragment) -> Fragment:
    """`text`, something of the row, or NULL where the row is what an outer join puts in place of a missing one."""
    if not expr.nullable or (not expr.items and expr.value is None):
        return text
    items = [scalars.lower(item) for item in (expr.items if expr.value is None else (expr.value,))]
    present = " OR ".join([f"{item} IS NOT NULL" for item in items])
    return made(f"CASE WHEN {present} THEN {text} END", text, *items)


MAX_NESTED_ROWS = 24
"""Rows in rows that are printed: each level doubles the quotes of those inside, and PostgreSQL's limit of 1 GB for a
text is reached by the 29th."""


def _nests_too_deep(expr: ir.RowConstructor) -> bool:
    level: list[ir.RowConstructor] = [expr]
    for _ in range(MAX_NESTED_ROWS):
        level = [
            item
            for row in level
            for item in row.items
            if isinstance(item, ir.RowConstructor) and attributes(item.type.oid) is None
        ]
        if not level:
            return False
    return True


def _row(scalars: Scalars, expr: ir.RowConstructor) -> Fragment:
    fields = attributes(expr.type.oid)
    if fields is None and _nests_too_deep(expr):
        raise ProgramLimitExceeded("out of memory", detail=f"Rows nest more than {MAX_NESTED_ROWS} levels deep.")
    if fields is not None:
        items = [scalars.typed(item, field.type) for item, field in zip(expr.items, fields, strict=True)]
        members = [(field.physical, item.sql) for field, item in zip(fields, items, strict=True)]
        return unless_absent(scalars, expr, made(scalars.ctx.dialect.struct(members), *items))
    text = record_text(scalars.ctx, [(scalars.lower(item), item.type) for item in expr.items])
    return unless_absent(scalars, expr, text)


def _field(scalars: Scalars, expr: ir.FieldSelect) -> Fragment:
    if isinstance(expr.arg, ir.RowConstructor) and expr.name in expr.arg.names:
        return scalars.typed(expr.arg.items[expr.arg.names.index(expr.name)], expr.type)
    ctx = scalars.ctx
    fields = attributes(expr.arg.type.oid)
    if fields is not None:
        arg = scalars.lower(expr.arg)
        member = f"({arg}).{fields[expr.index].physical}"
        # DuckDB takes a field of a constant NULL for a NULL of no type.
        return made(member if [*column_ids(expr.arg)] else ctx.dialect.cast(member, expr.type), arg)
    text = fill(ctx, ctx.dialect.record_field("{0}", expr.index), [scalars.lower(expr.arg)])
    return cast(ctx, text, SqlType(types.TEXT), expr.type, explicit=True)


HANDLERS: Mapping[type, Handler] = {ir.RowConstructor: _row, ir.FieldSelect: _field}
