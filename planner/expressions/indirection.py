"""What follows an expression: subscripts of arrays and jsonb, and field selections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.errors import DatatypeMismatch, FeatureNotSupported
from planner.expressions.arrays import element_type
from planner.expressions.bind import bind
from planner.expressions.rows import field_or_call
from planner.ir.array_value import MAX_DIMENSIONS, too_many_dimensions
from planner.ir.nodes import ArrayConstructor, Literal, Scalar, Subscript
from planner.resolution.casting import coerce, coerce_to_target, explicit_cast, resolve_unknown
from planner.resolution.coercion import Context, can_coerce
from planner.resolution.operators import make_operator
from planner.resolution.scope import renamed_column
from planner.resolution.statement import Handler, Level
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.base_types import HSTORE, base_type, kind_of
from planner.types.type_names import array_of, format_type, subscript_element, type_row
from planner.types.types import INT2VECTOR, INT4, JSONB, NAME, OIDVECTOR, RECORD_ARRAY, TEXT, SqlType
from planner.types.user_types import attributes, kept_field, kept_schema
from planner.values.geometry.shapes import SUBSCRIPTABLE


def _indirection(level: Level, tree: Tree) -> Scalar:
    steps = list(tree.indirection)
    if tree.arg.HasField("column_ref") and steps[0].HasField("string"):
        parts = strings(tree.arg.column_ref.fields) if _is_plain(tree.arg.column_ref.fields) else ()
        if len(parts) == 1:
            location = tree.arg.column_ref.location
            column = renamed_column(level, parts[0], steps[0].string.sval, location)
            if column is not None:
                return apply_indirection(level, column, tree, slice(1, None), location)
    scalar = bind(level, tree.arg)
    location = level.statement.location(scalar)
    return apply_indirection(level, scalar, tree, slice(None), location)


def _is_plain(fields: Sequence[Any]) -> bool:
    return all(field.HasField("string") for field in fields)


def apply_indirection(level: Level, scalar: Scalar, tree: Tree, chosen: slice, location: int) -> Scalar:
    """The `chosen` subscripts and field selections of an A_Indirection, in order, after `scalar`."""
    steps = list(tree.indirection)[chosen]
    first = chosen.start or 0
    index = 0
    while index < len(steps):
        step = steps[index]
        if step.HasField("a_indices"):
            end = index
            while end < len(steps) and steps[end].HasField("a_indices"):
                end += 1
            scalar = _subscripts(level, scalar, [item.a_indices for item in steps[index:end]], location)
            index = end
            continue
        if step.HasField("a_star"):
            raise FeatureNotSupported(
                'row expansion via "*" is not supported here', position=level.statement.position(location)
            )
        row, scalar = scalar, field_or_call(level, scalar, step.string.sval, tree, first + index, location)
        _note_field(level, row, step)
        index += 1
    return scalar


def _note_field(level: Level, row: Scalar, step: Any) -> None:
    """Lets a view's definition have the field of a composite type by the name that lasts."""
    statement = level.statement
    if statement.definition is not None and not statement.view_depth:
        kept = [
            kept_field(row.type.oid, each) for each in attributes(row.type.oid) or () if each.name == step.string.sval
        ]
        statement.definition.fields.extend((step, name) for name in kept)


def _subscripts(level: Level, scalar: Scalar, indices: list[Any], location: int) -> Scalar:
    statement = level.statement
    oid = scalar.type.oid
    if oid == JSONB:
        return _json_subscripts(level, scalar, indices, location)
    if kind_of(oid) == HSTORE:
        return _hstore_subscript(level, scalar, indices, location)
    if oid in SUBSCRIPTABLE and any(item.is_slice for item in indices):
        raise FeatureNotSupported("slices of fixed-length arrays not implemented")
    element = subscript_element(oid)
    row = type_row(oid)
    if not element or row is None or (row.category != "A" and oid not in (NAME, RECORD_ARRAY, *SUBSCRIPTABLE)):
        raise DatatypeMismatch(
            f"cannot subscript type {format_type(oid)} because it does not support subscripting",
            position=statement.position_of(scalar),
        )
    sliced = any(item.is_slice for item in indices)
    whole = scalar.type
    if sliced and oid in (INT2VECTOR, OIDVECTOR):
        whole = SqlType(array_of(element))
    lower, upper = subscript_bounds(level, indices, sliced=sliced)
    type = whole if sliced else element_type(scalar.type)
    return statement.at(Subscript(arg=scalar, lower=lower, upper=upper, slice=sliced, type=type), location)


def subscript_bounds(
    level: Level, indices: Sequence[Any], *, sliced: bool
) -> tuple[tuple[Scalar | None, ...], tuple[Scalar | None, ...]]:
    """The `lower` and `upper` of a subscript. In a slice a single number means all up to it. Raises 42804, 54000."""
    if len(indices) > MAX_DIMENSIONS:
        raise too_many_dimensions(len(indices))
    first = [subscript_index(level, item.lidx) if item.HasField("lidx") else None for item in indices]
    last = [subscript_index(level, item.uidx) if item.HasField("uidx") else None for item in indices]
    if not sliced:
        return tuple(last), ()
    one = Literal(value=1, type=SqlType(INT4))
    return tuple(low if item.is_slice else one for low, item in zip(first, indices, strict=True)), tuple(last)


def subscript_index(level: Level, node: Tree) -> Scalar:
    """A subscript of an array. Raises 42804."""
    statement = level.statement
    expr = bind(level, node)
    converted = coerce_to_target(statement, expr, SqlType(INT4), Context.ASSIGNMENT)
    if converted is None:
        raise DatatypeMismatch("array subscript must have type integer", position=statement.position_of(expr))
    return converted


def _json_subscripts(level: Level, scalar: Scalar, indices: list[Any], location: int) -> Scalar:
    """What stands at a path: subscripts are its steps as texts, whatever their types (jsonb_subscript_fetch)."""
    keys = tuple([json_subscript(level, item) for item in indices])
    steps = tuple([explicit_cast(level.statement, key, SqlType(TEXT), location) for key in keys])
    path = ArrayConstructor(items=steps, type=SqlType(array_of(TEXT)))
    form = Subscript(arg=scalar, lower=keys, upper=(), slice=False, type=scalar.type)
    return level.statement.written_as(make_operator(level, ("pg_catalog", "#>"), scalar, path, location), form)


def json_subscript(level: Level, item: Tree) -> Scalar:
    """A subscript of jsonb, an integer or a text (PostgreSQL's jsonb_subscript_transform). Raises 42804."""
    statement = level.statement
    key = resolve_unknown(statement, bind(level, item.uidx if item.HasField("uidx") else item.lidx))
    if item.is_slice:
        raise DatatypeMismatch("jsonb subscript does not support slices", position=statement.position_of(key))
    found = [oid for oid in (INT4, TEXT) if can_coerce(key.type.oid, oid, Context.IMPLICIT)]
    if len(found) != 1:
        which = "only one type, integer or text" if found else "either integer or text"
        raise DatatypeMismatch(
            f"subscript type {format_type(key.type.oid)} is not supported",
            hint=f"jsonb subscript must be coercible to {which}.",
            position=statement.position_of(key),
        )
    return coerce(statement, key, SqlType(found[0]), Context.IMPLICIT)


def _hstore_subscript(level: Level, scalar: Scalar, indices: list[Any], location: int) -> Scalar:
    """The value of one key, whatever the search path is."""
    key = hstore_key(level, indices)
    made = base_type(scalar.type.oid)
    assert made is not None
    form = Subscript(arg=scalar, lower=(key,), upper=(), slice=False, type=key.type)
    value = make_operator(level, (kept_schema(made.oid), "->"), scalar, key, location)
    return level.statement.written_as(value, form)


def hstore_key(level: Level, indices: Sequence[Any]) -> Scalar:
    """The only subscript of an hstore, a text (PostgreSQL's hstore_subscript_transform). Raises 0A000, 42804."""
    if len(indices) != 1 or indices[0].is_slice:
        raise FeatureNotSupported("hstore allows only one subscript")
    expr = bind(level, indices[0].uidx)
    key = coerce_to_target(level.statement, expr, SqlType(TEXT), Context.ASSIGNMENT)
    if key is None:
        raise DatatypeMismatch("hstore subscript must have type text", position=level.statement.position_of(expr))
    return key


HANDLERS: Mapping[str, Handler] = {"a_indirection": _indirection}
