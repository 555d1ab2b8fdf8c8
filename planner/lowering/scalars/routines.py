"""Calls of functions and operators: the engine's template of each (planner.functions), filled with the arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from planner.dialects.quoting import quoted
from planner.functions import of_extensions
from planner.functions.defaults import DEFAULTS, VARIADIC_ARRAYS
from planner.functions.engines.spark import portable
from planner.functions.families.array_dimensions import OF_DIMENSIONS
from planner.functions.forms.form import NOT_CONSTANT, CallSite, Form, SessionSettings
from planner.functions.registry import form, output_columns
from planner.ir import nodes as ir
from planner.ir.array_value import ArrayValue
from planner.ir.physical import element_type, listed
from planner.lowering.fragments.context import Context
from planner.lowering.fragments.fragment import Fragment, made, simple
from planner.lowering.fragments.templates import fill
from planner.lowering.scalars.rows import json_text
from planner.lowering.scalars.scalars import Handler, Scalars
from planner.lowering.scalars.scan_constants import compared_with_held
from planner.lowering.scalars.texts import (
    iso_template,
    json_key_template,
    json_template,
    output_template,
    text_template,
)
from planner.types import types
from planner.types.derived_oids import FIRST_USER_TYPE
from planner.types.ranges import range_or_multirange
from planner.types.signature import COMPARISONS, Kind, Signature, Volatility
from planner.types.type_names import array_of
from planner.types.types import SqlType

_CONVERSION = re.compile(r"\{(text|stored|cast|iso|key|json|pretty|element_text):(\d+)\}")


def _stored_template(ctx: Context, source: SqlType) -> str:
    """A template for the text of a value whatever the session's settings."""
    given = ctx.settings
    ctx.settings = SessionSettings(token=given.token)
    try:
        return output_template(ctx, source)
    finally:
        ctx.settings = given


_TEXT_TEMPLATES = {
    "text": output_template, "stored": _stored_template, "cast": text_template, "iso": iso_template,
    "key": json_key_template,
}  # fmt: skip


def _call(scalars: Scalars, expr: ir.Call) -> Fragment:
    ctx = scalars.ctx
    constants: tuple[object, ...] = (NOT_CONSTANT, NOT_CONSTANT)
    if expr.type.oid == types.RECORD and output_columns(expr.signature) is not None:
        raise ctx.unsupported(f"function {expr.signature.name} outside of FROM")
    compares = expr.signature.kind is Kind.OPERATOR and expr.signature.name in COMPARISONS
    args = compared_with_held(scalars, *expr.args) if compares else None
    if args is None:
        constants = tuple([scalars.constant(arg) for arg in expr.args])
        args = [scalars.lower(arg) for arg in expr.args]
    site = CallSite(
        engine=ctx.engine, arg_types=tuple([arg.type for arg in expr.args]), type=expr.type, constants=constants,
        settings=ctx.settings, subquery=any(arg.subquery for arg in args), spread=expr.signature.spread,
    )  # fmt: skip
    return apply(scalars, expr.signature, args, site, expr.args)


def call(
    scalars: Scalars, signature: Signature, args: Sequence[Fragment], arg_types: Sequence[SqlType], type: SqlType
) -> Fragment:
    """A call with arguments that are SQL already."""
    constants = (NOT_CONSTANT,) * len(args)
    site = CallSite(
        engine=scalars.ctx.engine, arg_types=tuple(arg_types), type=type, constants=constants,
        settings=scalars.ctx.settings,
    )  # fmt: skip
    return apply(scalars, signature, args, site)


def apply(
    scalars: Scalars, signature: Signature, args: Sequence[Fragment], site: CallSite, exprs: Sequence[ir.Scalar] = ()
) -> Fragment:
    """A call by its template for `site`. `exprs` are the arguments where they are known: see `expand`."""
    ctx = scalars.ctx
    args, site = _complete(scalars, signature, args, site)
    if any(type.dimensioned for type in site.arg_types) and (site.spread or not _of_dimensions(signature)):
        args, site = _as_lists(scalars, args, site)
    template = template_of(scalars, signature, site)
    if "{t}" in template:
        template = template.replace("{t}", ctx.dialect.type_name(site.type))
    if "{token}" in template:
        template = template.replace("{token}", quoted(ctx.dialect.string(site.settings.token)))
    template, args = expand(scalars, template, args, site.arg_types, exprs)
    filled = fill(ctx, template, args)
    return replace(filled, volatile=True) if signature.volatility is Volatility.VOLATILE else filled


_OF_DIMENSIONS = OF_DIMENSIONS | frozenset(COMPARISONS) | frozenset({
    "to_json", "to_jsonb", "array_to_json", "row_to_json", "json_build_array", "json_build_object", "jsonb_build_array",
    "jsonb_build_object", "json_object", "jsonb_object", "concat", "concat_ws", "format", "quote_literal",
    "quote_nullable", "pg_typeof", "num_nulls", "num_nonnulls", "pg_column_size", "pg_collation_for",
})  # fmt: skip
"""Routines that look at the dimensions of arrays, or take values of any type. The others see elements alone."""


def _of_dimensions(signature: Signature) -> bool:
    return signature.name in _OF_DIMENSIONS or signature.oid in of_extensions.dimensioned()


def _as_lists(scalars: Scalars, args: Sequence[Fragment], site: CallSite) -> tuple[list[Fragment], CallSite]:
    """Arguments with arrays of any dimensions as lists of all their elements."""
    given = [
        fill(scalars.ctx, "({0}).items", [arg]) if type.dimensioned else arg
        for arg, type in zip(args, site.arg_types, strict=True)
    ]
    constants = tuple(value.items if isinstance(value, ArrayValue) else value for value in site.constants)
    return given, replace(site, arg_types=tuple(map(listed, site.arg_types)), constants=constants)


def template_of(scalars: Scalars, signature: Signature, site: CallSite) -> str:
    """The template by which this engine says a routine; FeatureNotSupported when it cannot."""
    given: Form | None = form(signature)
    chosen = None if given is None else given.on(site.engine)
    template = chosen(site) if callable(chosen) else chosen
    if template is None and given is not None and scalars.ctx.dialect.borrows_functions:
        template = _in_python(signature, given, site)
    if template is None:
        raise scalars.ctx.unsupported(f"{signature.kind.value.replace('_', '-')} {signature.name}")
    return template


def _in_python(signature: Signature, given: Form, site: CallSite) -> str | None:
    """The template that calls the local engine's functions in Python, where there is one."""
    if signature.kind not in (Kind.FUNCTION, Kind.OPERATOR, Kind.SET_RETURNING):
        return None
    chosen = given.local
    local = chosen(replace(site, engine="local")) if callable(chosen) else chosen
    return None if local is None else portable(local)


def _complete(
    scalars: Scalars, signature: Signature, args: Sequence[Fragment], site: CallSite
) -> tuple[Sequence[Fragment], CallSite]:
    """Arguments with those left out filled in by their defaults, and those of a VARIADIC array put into one."""
    dialect = scalars.ctx.dialect
    if signature.variadic and signature.oid in VARIADIC_ARRAYS:
        first, array_oid = VARIADIC_ARRAYS[signature.oid]
        if site.type.oid > FIRST_USER_TYPE:
            ranges = range_or_multirange(site.type.oid)
            array_oid = array_oid if ranges is None else array_of(ranges.oid)
        if len(args) > first and site.arg_types[first].oid != array_oid:
            array = SqlType(array_oid)
            items = list(args[first:])
            sql = dialect.cast(dialect.array([item.sql for item in items]), array)
            values = site.constants[first:]
            constant = NOT_CONSTANT if NOT_CONSTANT in values else values
            return [*args[:first], made(sql, *items)], replace(
                site, arg_types=(*site.arg_types[:first], array), constants=(*site.constants[:first], constant)
            )
    given = DEFAULTS.get(signature.oid)
    if given is None or len(args) >= given[0]:
        return args, site
    missing = given[1][len(args) - given[0] :]
    return [*args, *[scalars.literal(value, type) for value, type in missing]], replace(
        site,
        arg_types=(*site.arg_types, *[type for _, type in missing]),
        constants=(*site.constants, *[value for value, _ in missing]),
    )


def expand(
    scalars: Scalars, template: str, args: Sequence[Fragment], arg_types: Sequence[SqlType],
    exprs: Sequence[ir.Scalar] = (),
) -> tuple[str, list[Fragment]]:  # fmt: skip
    """Resolves the marks that convert an argument: ``{text:i}`` by its output function, ``{stored:i}`` by it under no
    settings, ``{iso:i}`` by it in DateStyle ISO, ``{cast:i}`` by a cast to text, ``{key:i}`` to the text of a JSON key,
    ``{json:i}`` to JSON, ``{pretty:i}`` to JSON with line breaks, ``{element_text:i}`` (the element ``e`` of array i as
    text). `exprs` are the arguments, where they are known: the members of a row have their names from there."""
    ctx = scalars.ctx
    extended = list(args)

    def converted(match: re.Match[str]) -> str:
        mark, index = match[1], int(match[2])
        if mark == "element_text":
            element = element_type(arg_types[index])
            assert element is not None
            return fill(ctx, output_template(ctx, element), [simple("e")]).sql
        if mark in ("json", "pretty"):
            pretty = mark == "pretty"
            if index < len(exprs) and isinstance(exprs[index], ir.RowConstructor):
                extended.append(json_text(scalars, exprs[index], pretty=pretty))
            else:
                extended.append(fill(ctx, json_template(ctx, arg_types[index], pretty=pretty), [args[index]]))
        else:
            extended.append(fill(ctx, _TEXT_TEMPLATES[mark](ctx, arg_types[index]), [args[index]]))
        return f"{{{len(extended) - 1}}}"

    return _CONVERSION.sub(converted, template), extended


HANDLERS: Mapping[type, Handler] = {ir.Call: _call}
