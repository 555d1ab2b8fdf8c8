"""The target list of a SELECT or of RETURNING, with its stars expanded."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from planner.errors import AmbiguousColumn, InvalidColumnReference, SqlSyntaxError, UndefinedColumn
from planner.expressions.bind import bind, bind_clause
from planner.expressions.indirection import apply_indirection
from planner.expressions.rows import argument, columns_of_star, expand_record
from planner.ir.nodes import ColumnRef, FieldSelect, Origin, Scalar
from planner.queries.column_names import column_name
from planner.resolution.records import record_fields
from planner.resolution.scope import expand_item, find_item, qualifier_of, star_items
from planner.resolution.statement import Level
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.user_types import attributes, kept_field

CHOSEN_COLUMNS = ("tidegate", "chosen_columns")
"""What a star with words of another dialect behind it (EXCEPT, REPLACE, RENAME) is written as: a call whose arguments
are `t.*` or NULL, whether a name that is left out may be that of several, an array of the columns that are left out, an
array of pairs of old and new names, and by its name each expression that stands for a column."""


class Target(Struct):
    """An entry of the target list; `junk` entries serve ORDER BY, GROUP BY or DISTINCT ON only."""

    expr: Scalar
    name: str
    junk: bool = False
    origin: Origin | None = None


def bind_targets(level: Level, nodes: Sequence[Tree], clause: str, select: Tree | None = None) -> list[Target]:
    """A target list (of SELECT or RETURNING), stars expanded. For a definition the statement keeps what the stars of
    each `select`, which may be a RETURNING, stand for."""
    targets: list[Target] = []
    expansions: dict[int, list[Tree]] = {}
    fields: dict[int, list[tuple[str, str]]] = {}
    for index, node in enumerate(nodes):
        tree = node.res_target
        if _is_choice(tree.val):
            chosen = _chosen(level, tree.val.func_call, clause)
            if level.statement.definition is not None:
                expansions[index] = [written for _, written in chosen]
            targets.extend(target for target, _ in chosen)
            continue
        star = _star(level, tree.val, clause)
        if star is not None:
            if level.statement.definition is not None and tree.val.HasField("column_ref"):
                expansions[index] = [_column(*column) for column in _written_out(level, tree.val.column_ref)]
            elif level.statement.definition is not None:
                fields[index] = [(name, _lasting_name(name, expr)) for name, expr in star]
            targets.extend(Target(expr, name, origin=_origin(level, expr)) for name, expr in star)
            continue
        expr = bind_clause(level, tree.val, clause)
        name = tree.name or column_name(tree.val, expr)
        targets.append(Target(expr, name, origin=_origin(level, expr)))
    if level.statement.definition is not None and level.statement.view_depth == 0 and select is not None:
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
        qualifier = strings(list(tree.fields)[:-1])
        row = argument(level, qualifier, tree.location)
        if row is not None and find_item(level, None, qualifier[-1], tree.location) is None:
            return [(qualifier[-1], name) for name, _ in record_fields(level, row) or ()]
        item = star_items(level, qualifier, tree.location)
        return [(item.alias, column.name) for column in item.columns]
    found: list[tuple[str | None, str]] = []
    for item in level.namespace:
        if not item.cols_visible:
            continue
        found.extend((qualifier_of(level, item, column), column.name) for column in item.columns)
    return found


def _column(alias: str | None, name: str) -> Tree:
    node = pb.Node()
    for part in (alias, name):
        if part is not None:
            node.res_target.val.column_ref.fields.add().string.sval = part
    return node


def _is_choice(node: Tree) -> bool:
    if not node.HasField("func_call") or len(node.func_call.funcname) != 2:
        return False
    args = node.func_call.args
    return (
        tuple(strings(node.func_call.funcname)) == CHOSEN_COLUMNS
        and len(args) > 3
        and args[1].HasField("a_const")
        and all(each.HasField("a_array_expr") for each in list(args)[2:4])
        and all(each.HasField("named_arg_expr") for each in list(args)[4:])
    )


def _chosen(level: Level, call: Tree, clause: str) -> list[tuple[Target, Tree]]:
    """The columns that a call of `CHOSEN_COLUMNS` stands for, each with what it is written out as. 42703 for a column
    that there is not, 42702 where a new name or expression is for several."""
    of, several, left_out, renamed = call.args[0], call.args[1], _words(call.args[2]), _words(call.args[3])
    names = dict(zip(renamed[::2], renamed[1::2], strict=True))
    values = {node.named_arg_expr.name: node.named_arg_expr.arg for node in list(call.args)[4:]}
    star = pb.Node()
    if of.HasField("column_ref"):
        star.CopyFrom(of)
    else:
        star.column_ref.fields.add().a_star.SetInParent()
        star.column_ref.location = call.location
    columns = _star(level, star, clause) or []
    written = _written_out(level, star.column_ref)
    there = [name for name, _ in columns]
    for name in (*left_out, *names, *values):
        if name not in there:
            raise UndefinedColumn(f'column "{name}" does not exist', position=level.statement.position(call.location))
        if there.count(name) > 1 and not (name in left_out and several.a_const.boolval.boolval):
            raise AmbiguousColumn(
                f'column reference "{name}" is ambiguous', position=level.statement.position(call.location)
            )
    found: list[tuple[Target, Tree]] = []
    for (name, expr), place in zip(columns, written, strict=True):
        if name in left_out:
            continue
        shown, value = names.get(name, name), values.get(name)
        node = _column(*place)
        if value is not None:
            node.res_target.val.CopyFrom(value)
            expr = bind_clause(level, value, clause)
        if value is not None or shown != name:
            node.res_target.name = shown
        found.append((Target(expr, shown, origin=_origin(level, expr)), node))
    if not found:
        raise InvalidColumnReference(
            "no columns are left of those that the star stands for", position=level.statement.position(call.location)
        )
    return found


def _words(array: Tree) -> list[str]:
    return [each.a_const.sval.sval for each in array.a_array_expr.elements]


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
            return columns_of_star(level, fields, location)
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
        scalar = apply_indirection(level, scalar, tree, slice(-1), level.statement.location(scalar))
    finally:
        level.clause = outer
    return expand_record(level, scalar)
