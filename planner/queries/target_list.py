"""The target list of a SELECT or of RETURNING, with its stars expanded."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from planner.errors import SqlSyntaxError, WrongObjectType
from planner.expressions.bind import bind, bind_clause
from planner.expressions.indirection import apply_indirection
from planner.expressions.rows import select_field
from planner.ir.nodes import ColumnRef, FieldSelect, Origin, Scalar
from planner.queries.column_names import column_name
from planner.resolution.records import record_fields
from planner.resolution.scope import expand_item, expand_star, qualifier_of, star_items
from planner.resolution.statement import Level
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.type_names import format_type
from planner.types.types import RECORD
from planner.types.user_types import attributes, kept_field


class Target(Struct):
    """An entry of the target list; `junk` entries serve ORDER BY, GROUP BY or DISTINCT ON only."""

    expr: Scalar
    name: str
    junk: bool = False
    origin: Origin | None = None


def bind_targets(level: Level, nodes: Sequence[Tree], clause: str, select: Tree | None = None) -> list[Target]:
    """A target list (of SELECT or RETURNING), stars expanded. For a view's definition the statement keeps what the
    stars of each `select` stand for."""
    targets: list[Target] = []
    expansions: dict[int, list[tuple[str | None, str]]] = {}
    fields: dict[int, list[tuple[str, str]]] = {}
    for index, node in enumerate(nodes):
        tree = node.res_target
        star = _star(level, tree.val, clause)
        if star is not None:
            if level.statement.definition is not None and tree.val.HasField("column_ref"):
                expansions[index] = _written_out(level, tree.val.column_ref)
            elif level.statement.definition is not None:
                fields[index] = [(name, _lasting_name(name, expr)) for name, expr in star]
            targets.extend(Target(expr, name, origin=_origin(level, expr)) for name, expr in star)
            continue
        expr = bind_clause(level, tree.val, clause)
        name = tree.name or column_name(tree.val, expr)
        targets.append(Target(expr, name, origin=_origin(level, expr)))
    if level.statement.definition is not None and level.statement.view_depth == 0:
        if expansions:
            level.statement.definition.stars.append((select, expansions))
        if fields:
            level.statement.definition.rows.append((select, fields))
    return targets


def _lasting_name(name: str, expr: Scalar) -> str:
    """What a definition calls the field `expr` of a row."""
    declared = attributes(expr.arg.type.oid) if isinstance(expr, FieldSelect) else None
    if declared is None or not isinstance(expr, FieldSelect):
        return name
    return kept_field(expr.arg.type.oid, declared[expr.index])


def _written_out(level: Level, tree: Tree) -> list[tuple[str | None, str]]:
    """The columns of a star as (qualifier, name)."""
    if len(tree.fields) > 1:
        item = star_items(level, strings(list(tree.fields)[:-1]), tree.location)
        return [(item.alias, column.name) for column in item.columns]
    found: list[tuple[str | None, str]] = []
    for item in level.namespace:
        if not item.cols_visible:
            continue
        found.extend((qualifier_of(level, item, column), column.name) for column in item.columns)
    return found


def _origin(level: Level, expr: Scalar) -> Origin | None:
    return level.statement.origins.get(expr.id) if isinstance(expr, ColumnRef) else None


def _star(level: Level, node: Tree, clause: str) -> list[tuple[str, Scalar]] | None:
    """The columns that `*`, `t.*` or `(row).*` stands for; None for any other expression."""
    statement = level.statement
    if node.HasField("column_ref"):
        fields = node.column_ref.fields
        if not fields[len(fields) - 1].HasField("a_star"):
            return None
        location = node.column_ref.location
        if len(fields) > 1:
            return expand_star(level, fields, location)
        visible = [item for item in level.namespace if item.cols_visible]
        if not visible:
            raise SqlSyntaxError(
                "SELECT * with no tables specified is not valid", position=statement.position(location)
            )
        return [pair for item in visible for pair in expand_item(level, item, location)]
    if node.HasField("a_indirection"):
        steps = node.a_indirection.indirection
        if not steps[len(steps) - 1].HasField("a_star"):
            return None
        return _expand_record(level, node.a_indirection, clause)
    return None


def _expand_record(level: Level, tree: Tree, clause: str) -> list[tuple[str, Scalar]]:
    outer = level.clause
    level.clause = clause
    try:
        scalar = bind(level, tree.arg)
        scalar = apply_indirection(level, scalar, list(tree.indirection)[:-1], level.statement.location(scalar))
    finally:
        level.clause = outer
    fields = record_fields(level, scalar)
    if fields is None:
        if scalar.type.oid == RECORD:
            raise WrongObjectType("record type has not been registered")
        raise WrongObjectType(
            f"type {format_type(scalar.type.oid)} is not composite", position=level.statement.position_of(scalar)
        )
    location = level.statement.location(scalar)
    return [(name, select_field(level, scalar, name, location)) for name, _ in fields]
