"""Arrays: ARRAY[...] and the types of arrays and elements."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from planner.errors import CannotCoerce, IndeterminateDatatype, UndefinedObject
from planner.expressions.bind import bind
from planner.ir.nodes import ArrayConstructor, Scalar
from planner.resolution.casting import coerce_to_target, unify, with_shape
from planner.resolution.coercion import Context
from planner.resolution.statement import Handler, Level
from planner.syntax.parse import Tree
from planner.types.type_names import array_of, element_of, format_type, nests, subscript_element
from planner.types.types import NUMERIC, SqlType, column_type


def _array(level: Level, tree: Tree) -> Scalar:
    return array_constructor(level, tree, None)


def array_constructor(level: Level, tree: Tree, target: SqlType | None) -> Scalar:
    """ARRAY[...], under a cast to `target` when it is not None."""
    statement = level.statement
    position = statement.position(tree.location)
    element = element_of(target.oid) if target is not None else 0
    items: list[Scalar] = []
    nested = False
    for node in tree.elements:
        if node.HasField("a_array_expr"):
            item = array_constructor(level, node.a_array_expr, target)
            nested = True
        else:
            item = bind(level, node)
            nested = nested or nests(item.type.oid)
        items.append(item)
    if target is not None and element:
        inner = target if nested else element_type(target)
        converted = []
        for item in items:
            cast = coerce_to_target(statement, item, inner, Context.EXPLICIT)
            if cast is None:
                raise CannotCoerce(
                    f"cannot cast type {format_type(item.type.oid)} to {format_type(inner.oid)}",
                    position=statement.position_of(item),
                )
            converted.append(cast)
        type = replace(target, dimensioned=nested)
        items = [
            with_shape(statement, item, replace(item.type, dimensioned=True)) if nested else item for item in converted
        ]
        result = ArrayConstructor(items=tuple(items), type=type)
        return statement.at(result, tree.location)
    if not items:
        raise IndeterminateDatatype(
            "cannot determine type of empty array",
            hint="Explicitly cast to the desired type, for example ARRAY[]::integer[].",
            position=position,
        )
    values, type = unify(statement, items, "ARRAY")
    if nests(type.oid):
        result_type = replace(type, dimensioned=True)
        values = [with_shape(statement, value, result_type) for value in values]
    else:
        result_type = array_type(type, position)
    return statement.at(ArrayConstructor(items=tuple(values), type=result_type), tree.location)


def array_type(element: SqlType, position: int | None) -> SqlType:
    """The type of arrays of `element`. Raises 42704, at `position`, when there is none."""
    oid = array_of(element.declared_oid)
    if oid and element.domain:
        return column_type(oid)
    if not oid:
        raise UndefinedObject(f"could not find array type for data type {format_type(element.oid)}", position=position)
    return SqlType(oid, element.typmod, element.shape)


def element_type(array: SqlType) -> SqlType:
    """The type of an array type's elements."""
    element = subscript_element(array.oid)
    if array.domain and element_of(array.domain):
        return column_type(element_of(array.domain))
    return SqlType(element, array.typmod, array.shape if element == NUMERIC else None)


HANDLERS: Mapping[str, Handler] = {"a_array_expr": _array}
