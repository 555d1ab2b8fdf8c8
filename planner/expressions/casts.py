"""Explicit casts (`x::type`, CAST), and COLLATE."""

from __future__ import annotations

from collections.abc import Mapping

from planner.expressions.arrays import array_constructor
from planner.expressions.bind import bind
from planner.ir.nodes import Collate, Literal, Scalar
from planner.resolution.casting import explicit_cast, finish_row
from planner.resolution.statement import Handler, Level
from planner.syntax.names import qualifier, strings
from planner.syntax.parse import Tree
from planner.types.type_names import UnknownName, check_collatable, check_collation, element_of
from planner.types.types import UNKNOWN, SqlType
from planner.types.user_types import STORED_SCHEMA, enum_of


def _type_cast(level: Level, tree: Tree) -> Scalar:
    target = level.statement.type_named(tree.type_name)
    kept = _kept_value(tree, target)
    if kept is not None:
        return kept
    location = tree.location if tree.location >= 0 else tree.type_name.location
    array = tree.arg.a_array_expr if tree.arg.HasField("a_array_expr") else None
    if array is not None and element_of(target.oid) and not (array.elements and level.statement.reads_stored):
        inner = array_constructor(level, array, target.without_domain())
        return explicit_cast(level.statement, inner, target, location)
    arg = bind(level, tree.arg)
    return explicit_cast(level.statement, finish_row(level.statement, arg, target), target, location)


def _kept_value(tree: Tree, target: SqlType) -> Literal | None:
    """A constant of an enum in an expression that the catalog keeps (`user_types.value_to_keep`)."""
    enum = enum_of(target.oid)
    if enum is None or not tree.arg.HasField("a_const") or strings(tree.type_name.names)[0] != STORED_SCHEMA:
        return None
    constant = tree.arg.a_const
    if constant.HasField("ival"):
        position = constant.ival.ival
    elif constant.HasField("fval") and constant.fval.fval.lstrip("-").isdigit():
        position = int(constant.fval.fval)
    else:
        return None
    if all(label.position != position for label in enum.labels):
        return None
    return Literal(value=position, type=target)


def _collate(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    arg = bind(level, tree.arg)
    names = strings(tree.collname)
    position = statement.position(tree.location)
    if arg.type.oid != UNKNOWN:
        check_collatable(arg.type, position)
    try:
        check_collation(names, position)
    except UnknownName as error:
        qualifier(names, statement.context.database, position)
        raise error.judged(statement.context.catalog, statement.context.database) from None
    result = Collate(arg=arg, collation=names[-1], type=arg.type)
    return statement.at(result, statement.location(arg))


HANDLERS: Mapping[str, Handler] = {
    "type_cast": _type_cast,
    "collate_clause": _collate,
}
