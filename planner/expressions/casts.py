"""Explicit casts (`x::type`, CAST), and COLLATE."""

from __future__ import annotations

from collections.abc import Mapping

from planner.binding import Handler, Level
from planner.casting import explicit_cast, finish_row
from planner.catalog_data import columns
from planner.errors import DatatypeMismatch, UndefinedObject
from planner.expressions import bind
from planner.expressions.arrays import array_constructor
from planner.ir import Collate, Scalar
from planner.names import strings
from planner.parse import Tree
from planner.type_names import element_of, format_type, resolve_type_name, type_row
from planner.types import UNKNOWN


def _type_cast(level: Level, tree: Tree) -> Scalar:
    target = resolve_type_name(tree.type_name, level.statement.parsed)
    location = tree.location if tree.location >= 0 else tree.type_name.location
    if tree.arg.HasField("a_array_expr") and element_of(target.oid):
        inner = array_constructor(level, tree.arg.a_array_expr, target)
        return explicit_cast(level.statement, inner, target, location)
    arg = bind(level, tree.arg)
    return explicit_cast(level.statement, finish_row(level.statement, arg), target, location)


def _collate(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    arg = bind(level, tree.arg)
    names = strings(tree.collname)
    known = columns("pg_collation")["collname"]
    if names[-1] not in known or (len(names) > 1 and names[-2] != "pg_catalog"):
        raise UndefinedObject(
            f'collation "{".".join(names)}" for encoding "UTF8" does not exist',
            position=statement.position(tree.location),
        )
    row = type_row(arg.type.oid)
    if arg.type.oid != UNKNOWN and (row is None or not row.collation):
        raise DatatypeMismatch(
            f"collations are not supported by type {format_type(arg.type.oid)}",
            position=statement.position(tree.location),
        )
    result = Collate(arg=arg, collation=names[-1], type=arg.type)
    return statement.at(result, statement.location(arg))


HANDLERS: Mapping[str, Handler] = {
    "type_cast": _type_cast,
    "collate_clause": _collate,
}
