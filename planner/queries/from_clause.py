"""FROM: items, joins, subqueries and functions, and what they put in scope (PostgreSQL's parse_clause.c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.calls.calls import written_call
from planner.calls.json_records import json_records
from planner.calls.overloads import Resolved, resolve_call, written_arguments
from planner.calls.samples import check_method, sample_condition
from planner.calls.set_returning import output_fields
from planner.calls.user_calls import UserRows, rows_in_from
from planner.calls.user_functions import is_user_function
from planner.errors import (
    AmbiguousColumn,
    DatatypeMismatch,
    DuplicateAlias,
    DuplicateColumn,
    FeatureNotSupported,
    GroupingError,
    SqlSyntaxError,
    UndefinedColumn,
    WindowingError,
)
from planner.expressions.bind import bind, bind_clause
from planner.files.past_calls import bind_past_call, is_past_call
from planner.files.read_calls import bind_read_call, is_read_call
from planner.functions.registry import output_columns
from planner.ir.nodes import (
    BoolOp,
    Call,
    Coalesce,
    Field,
    Filter,
    FunctionCall,
    FunctionScan,
    Join,
    OneRow,
    Rel,
    Scalar,
    Scan,
)
from planner.ir.rewrite import column_ids, transform
from planner.queries.column_names import column_name
from planner.queries.in_from.merged import merged_alias
from planner.queries.in_from.rows_from import side_by_side, with_attributes
from planner.queries.in_from.unnamed import unnamed
from planner.queries.in_from.values_in_from import value_in_from
from planner.queries.relations import apply_column_aliases, bind_range_var
from planner.resolution.casting import to_boolean, to_common, unify
from planner.resolution.coercion import common_type
from planner.resolution.operators import BOOLEAN, make_operator
from planner.resolution.query import bind_query
from planner.resolution.records import is_record
from planner.resolution.session_values import session_value
from planner.resolution.statement import Level, NsColumn, NsItem
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.signature import Kind
from planner.types.type_names import format_type
from planner.types.types import INT8, RECORD, SqlType
from planner.types.user_types import attributes


def bind_from(level: Level, nodes: Sequence[Tree], *, into: Rel | None = None) -> Rel:
    """The relation of a FROM list, its items put in `level`'s scope. `into` is what is there already (the target of
    an UPDATE or DELETE, whose item is in scope)."""
    rel = into
    if rel is not None:
        _set_lateral(level.namespace, lateral_only=True, lateral_ok=False)
        for item in level.namespace:
            item.changed = True
    for node in nodes:
        before = len(level.references)
        left_ids = set(level.from_ids)
        right, items = _bind_item(level, node)
        _check_conflicts(level, level.namespace, items)
        _set_lateral(items, lateral_only=True)
        level.namespace = level.namespace + items
        if rel is None:
            rel = right
        else:
            lateral = any(id in left_ids for id in level.references[before:])
            rel = Join(kind="cross", left=rel, right=right, condition=None, lateral=lateral,
                       fields=rel.fields + right.fields)  # fmt: skip
    _set_lateral(level.namespace, lateral_only=False)
    return rel if rel is not None else OneRow()


def _set_lateral(items: Sequence[NsItem], *, lateral_only: bool, lateral_ok: bool = True) -> None:
    for item in items:
        item.lateral_only = lateral_only
        item.lateral_ok = lateral_ok


def _check_conflicts(level: Level, left: Sequence[NsItem], right: Sequence[NsItem]) -> None:
    for first in left:
        if not first.rel_visible or first.alias is None:
            continue
        for second in right:
            if not second.rel_visible or first.alias != second.alias:
                continue
            if (
                first.relation_oid and second.relation_oid and first.relation_oid != second.relation_oid
                and not first.aliased and not second.aliased
            ):  # fmt: skip
                continue
            raise DuplicateAlias(f'table name "{first.alias}" specified more than once')


def _bind_item(level: Level, node: Tree) -> tuple[Rel, list[NsItem]]:
    kind = node.WhichOneof("node")
    tree = getattr(node, kind)
    rel, items = _item(level, kind, tree)
    if kind != "join_expr" or items[0].joined:
        items[0].source = rel
        if level.statement.notes is not None:
            level.statement.notes.items[id(tree)] = (tree, items[0])
    return rel, items


def _item(level: Level, kind: str, tree: Tree) -> tuple[Rel, list[NsItem]]:
    if kind == "range_var":
        rel, item = bind_range_var(level, tree)
        item.rel = rel
        level.rtes.append(item)
        return rel, [item]
    if kind == "join_expr":
        return _join(level, tree)
    if kind == "range_subselect":
        return _subselect(level, tree)
    if kind == "range_function":
        return _function(level, tree)
    if kind == "range_table_sample":
        return _sample(level, tree)
    names = {"range_table_func": "XMLTABLE", "json_table": "JSON_TABLE"}
    raise FeatureNotSupported(f"{names.get(kind, 'this FROM item')} is not supported")


# ---------------------------------------------------------------- samples


def _sample(level: Level, tree: Tree) -> tuple[Rel, list[NsItem]]:
    """A table with TABLESAMPLE."""
    check_method(level, tree)
    rel, item = bind_range_var(level, tree.relation.range_var, sampled=True)
    chosen = sample_condition(level, tree)

    def sampled(node: Rel) -> Rel | None:
        if not isinstance(node, Scan) or node.row_id is None or node.relation_oid != item.relation_oid:
            return None
        return Filter(input=node, condition=chosen(node.row_id), fields=node.fields)

    item.rel = transform(rel, sampled)
    level.rtes.append(item)
    return item.rel, [item]


# ---------------------------------------------------------------- subqueries


def _subselect(level: Level, tree: Tree) -> tuple[Rel, list[NsItem]]:
    statement = level.statement
    select = tree.subquery.select_stmt
    if not tree.HasField("alias"):
        raise unnamed(statement.parsed, tree)
    inner = Level(statement, level)
    outer_active, outer_clause = level.lateral_active, level.clause
    # An aggregate of this level can only stand there when it reads a column of another item.
    level.lateral_active, level.clause = tree.lateral, "FROM clause of their own query level"
    try:
        rel = bind_query(inner, select)
    finally:
        level.lateral_active, level.clause = outer_active, outer_clause
    alias = tree.alias.aliasname
    names = apply_column_aliases(tree.alias, alias, [field.name for field in rel.fields])
    item = _item_of(level, rel, alias, names)
    item.rel = rel
    return rel, [item]


def _item_of(level: Level, rel: Rel, alias: str, names: Sequence[str]) -> NsItem:
    columns = []
    for field, name in zip(rel.fields, names, strict=True):
        columns.append(NsColumn(name, field=field))
        level.own(field.id, alias, name)
    item = NsItem(alias=alias, columns=columns)
    level.rtes.append(item)
    return item


# ---------------------------------------------------------------- functions


def _function(level: Level, tree: Tree) -> tuple[Rel, list[NsItem]]:
    statement = level.statement
    alias = tree.alias if tree.HasField("alias") else None
    outer_active, outer_clause = level.lateral_active, level.clause
    level.lateral_active, level.clause = True, "functions in FROM"
    found: list[FunctionCall | UserRows | tuple[str, Scalar]] = []
    listed = bool(tree.coldeflist)
    try:
        for node in tree.functions:
            entry = node.list.items
            definitions = entry[1].list.items if len(entry) > 1 and entry[1].HasField("list") else []
            if not definitions:
                definitions = tree.coldeflist
            functions = _expand_unnest(entry[0])
            alone = len(tree.functions) == len(functions) == 1
            found += [_one_function(level, function, definitions, alias, alone) for function in functions]
    finally:
        level.lateral_active, level.clause = outer_active, outer_clause
    if tree.ordinality and listed:
        raise SqlSyntaxError(
            "WITH ORDINALITY cannot be used with a column definition list",
            hint="Put the column definition list inside ROWS FROM().",
            position=statement.position(tree.coldeflist[0].column_def.location),
        )
    if statement.notes is not None:
        statement.notes.functions[id(tree)] = (tree, found)
    if any(isinstance(each, UserRows) for each in found):
        return _user_rows(level, tree, found, alias)
    calls = [each for each in found if isinstance(each, FunctionCall)]
    scalars = [each for each in found if isinstance(each, tuple)]
    if scalars:
        return _scalar_item(level, tree, scalars, calls, alias, definitions)
    fields = tuple(field for call in calls for field in call.fields)
    ordinality: Field | None = None
    if tree.ordinality:
        ordinality = statement.new_field("ordinality", SqlType(INT8))
        fields = (*fields, ordinality)
    scan = FunctionScan(
        functions=tuple(calls), ordinality=ordinality.id if ordinality is not None else None, fields=fields
    )
    rel = with_attributes(statement, scan)
    name = alias.aliasname if alias is not None else calls[0].signature.name
    names = [field.name for field in rel.fields]
    if alias is not None and not tree.coldeflist:
        names = apply_column_aliases(alias, name, names)
    item = _item_of(level, rel, name, names)
    if rel is scan:
        item.scalar_function = len(fields) == 1 and calls[0].signature.result != RECORD
    elif len(fields) == 1:
        item.row_type = fields[0].type.oid
    return rel, [item]


def _user_rows(
    level: Level, tree: Tree, found: list[FunctionCall | UserRows | tuple[str, Scalar]], alias: Tree | None
) -> tuple[Rel, list[NsItem]]:
    """Functions of users, and others beside them."""
    first = found[0]
    alone = isinstance(first, UserRows) and len(found) == 1 and not tree.ordinality
    if isinstance(first, UserRows):
        name = first.name
    else:
        name = first.signature.name if isinstance(first, FunctionCall) else first[0]
    rel = first.rel if alone and isinstance(first, UserRows) else side_by_side(level, found, ordinality=tree.ordinality)
    label = alias.aliasname if alias is not None else name
    names = [field.name for field in rel.fields]
    if alias is not None and not tree.coldeflist:
        names = apply_column_aliases(alias, label, names)
    item = _item_of(level, rel, label, names)
    item.scalar_function = alone and isinstance(first, UserRows) and first.is_value
    item.row_type = first.row_type if alone and isinstance(first, UserRows) else 0
    return rel, [item]


def _expand_unnest(node: Tree) -> list[Tree]:
    """`unnest(a, b)` in FROM stands for one unnest for each argument."""
    if not node.HasField("func_call"):
        return [node]
    call = node.func_call
    if len(call.args) < 2 or strings(call.funcname)[-1] != "unnest":
        return [node]
    nodes = []
    for arg in call.args:
        single = pb.Node()
        single.CopyFrom(node)
        del single.func_call.args[:]
        single.func_call.args.add().CopyFrom(arg)
        nodes.append(single)
    return nodes


def _one_function(
    level: Level, node: Tree, definitions: Sequence[Any], alias: Tree | None, alone: bool
) -> FunctionCall | UserRows | tuple[str, Scalar]:
    statement = level.statement
    if not node.HasField("func_call"):
        return column_name(node), bind(level, node)
    call = node.func_call
    location = call.location
    if is_read_call(call):
        return bind_read_call(level, call, definitions)
    if is_past_call(call):
        return bind_past_call(level, call)
    records = json_records(level, call, definitions)
    if records is not None:
        return records
    if call.agg_star or call.agg_distinct or call.agg_order or call.HasField("agg_filter") or call.HasField("over"):
        scalar = bind(level, node)
        return strings(call.funcname)[-1], scalar
    args: list[Scalar] = []
    arg_names: list[str | None] = []
    for name, arg in written_arguments(statement, call.args):
        arg_names.append(name)
        args.append(_argument(level, arg))
    names = strings(call.funcname)
    resolved = resolve_call(
        level, names, args, location, arg_names=arg_names if any(arg_names) else (), variadic=call.func_variadic
    )
    if not isinstance(resolved, Resolved):
        return names[-1], resolved
    signature = resolved.signature
    if is_user_function(signature):
        label = alias.aliasname if alias is not None and alone else None
        return rows_in_from(level, resolved, call, definitions, label)
    if signature.kind is Kind.AGGREGATE:
        raise GroupingError(
            "aggregate functions are not allowed in functions in FROM", position=statement.position(location)
        )
    if signature.kind is Kind.WINDOW:
        raise WindowingError(
            "window functions are not allowed in functions in FROM", position=statement.position(location)
        )
    value = session_value(signature, tuple(resolved.args), resolved.type)
    form = written_call(resolved, call)
    if value is not None:
        return names[-1], statement.written_as(value, form)
    fields = _function_fields(level, resolved, names[-1], definitions, alias, alone, location)
    return statement.written_as(FunctionCall(signature=signature, args=tuple(resolved.args), fields=fields), form)


def _argument(level: Level, node: Tree) -> Scalar:
    if node.HasField("func_call"):
        before = level.clause
        level.clause = "functions in FROM"
        try:
            return bind(level, node)
        except FeatureNotSupported as error:
            if error.message == "set-returning functions are not allowed in functions in FROM":
                raise FeatureNotSupported(
                    "set-returning functions must appear at top level of FROM", position=error.position
                ) from None
            raise
        finally:
            level.clause = before
    return bind(level, node)


def _function_fields(
    level: Level, resolved: Resolved, name: str, definitions: Sequence[Any], alias: Tree | None, alone: bool,
    location: int,
) -> tuple[Field, ...]:  # fmt: skip
    statement = level.statement
    out = output_columns(resolved.signature)
    position = statement.position(location)
    if definitions:
        position = statement.position(definitions[0].column_def.location)
        if attributes(resolved.type.oid):
            raise SqlSyntaxError(
                "a column definition list is redundant for a function returning a named composite type",
                position=position,
            )
        if resolved.type.oid != RECORD:
            raise SqlSyntaxError(
                'a column definition list is only allowed for functions returning "record"', position=position
            )
        if out is not None:
            raise SqlSyntaxError(
                "a column definition list is redundant for a function with OUT parameters", position=position
            )
        raise FeatureNotSupported(f"function {name} with a column definition list is not supported", position=position)
    if resolved.type.oid == RECORD and out is None:
        raise SqlSyntaxError('a column definition list is required for functions returning "record"', position=position)
    fields = output_fields(level, resolved, name)
    if len(fields) == 1 and out is None and alias is not None and alone:
        return (statement.new_field(alias.aliasname, fields[0].type),)
    return fields


def _scalar_item(
    level: Level,
    tree: Tree,
    scalars: list[tuple[str, Scalar]],
    calls: list[FunctionCall],
    alias: Tree | None,
    definitions: Sequence[Tree],
) -> tuple[Rel, list[NsItem]]:
    """Functions that are expressions here (current_schema(), CURRENT_DATE, casts): one row."""
    if calls or len(scalars) > 1:
        raise FeatureNotSupported("ROWS FROM with this function is not supported")
    name, scalar = scalars[0]
    label = alias.aliasname if alias is not None else name
    rel = value_in_from(level, label, scalar, definitions, ordinality=tree.ordinality)
    names = [field.name for field in rel.fields]
    if not tree.coldeflist:
        names = apply_column_aliases(alias, label, names)
    item = _item_of(level, rel, label, names)
    is_row = is_record(scalar.type.oid)
    item.scalar_function = not is_row and len(rel.fields) == 1
    item.row_type = scalar.type.oid if is_row and not tree.ordinality and scalar.type.oid != RECORD else 0
    return rel, [item]


# ---------------------------------------------------------------- joins

_KINDS = {pb.JOIN_INNER: "inner", pb.JOIN_LEFT: "left", pb.JOIN_RIGHT: "right", pb.JOIN_FULL: "full"}


def _join(level: Level, tree: Tree) -> tuple[Rel, list[NsItem]]:
    statement = level.statement
    kind: Any = _KINDS[tree.jointype]
    left, left_items = _bind_item(level, tree.larg)
    outer = level.namespace
    _set_lateral(left_items, lateral_only=True, lateral_ok=kind in ("inner", "left"))
    level.namespace = outer + left_items
    before = len(level.references)
    left_ids = {field.id for field in left.fields}
    try:
        right, right_items = _bind_item(level, tree.rarg)
    finally:
        level.namespace = outer
    lateral = any(id in left_ids for id in level.references[before:])
    _check_conflicts(level, left_items, right_items)
    left_columns, right_columns = _visible(left_items), _visible(right_items)
    using = _using_names(tree, left_columns, right_columns)
    if tree.is_natural and using is not None and statement.definition is not None and statement.view_depth == 0:
        statement.definition.natural.append((tree, using))
    items = left_items + right_items
    condition: Scalar | None = None
    merged: list[NsColumn] = []
    if using is not None:
        condition, merged = _merge(level, kind, using, left_columns, right_columns, tree)
        names = set(using)
        columns = (
            merged
            + [column for column in left_columns if column.name not in names]
            + [column for column in right_columns if column.name not in names]
        )
    else:
        columns = left_columns + right_columns
        if tree.HasField("quals"):
            _set_lateral(items, lateral_only=False)
            level.namespace = items
            try:
                condition = to_boolean(statement, bind_clause(level, tree.quals, "JOIN conditions"), "JOIN/ON")
            finally:
                level.namespace = outer
    if statement.notes is not None:
        statement.notes.joins[id(tree)] = (tree, condition, using or ())
    if condition is None and kind == "inner":
        kind = "cross"
    rel = Join(kind=kind, left=left, right=right, condition=condition, lateral=lateral,
               fields=left.fields + right.fields)  # fmt: skip
    lacking = {"full": items, "left": right_items, "right": left_items}.get(kind, [])
    for item in lacking:
        item.nullable, item.of = True, level
    return rel, _join_items(level, tree, items, columns, merged)


def _join_items(
    level: Level, tree: Tree, items: list[NsItem], columns: list[NsColumn], merged: list[NsColumn]
) -> list[NsItem]:
    using_alias = None
    alias_of_merged = merged_alias(level, tree, merged)
    if alias_of_merged is not None:
        using_alias = NsItem(alias=alias_of_merged, columns=merged, cols_visible=False)
        if level.statement.notes is not None:
            level.statement.notes.merged[id(tree)] = (tree, using_alias)
    if tree.HasField("alias"):
        alias = tree.alias
        names = [column.name for column in columns]
        names = apply_column_aliases(alias, alias.aliasname, names, what="join expression")
        renamed = [NsColumn(name, column.expr) for column, name in zip(columns, names, strict=True)]
        return [NsItem(alias=alias.aliasname, columns=renamed, joined=True)]
    for item in items:
        item.cols_visible = False
    joined = NsItem(alias=None, columns=columns, rel_visible=False)
    result = [item for item in items if item.rel_visible] + [joined]
    if using_alias is None:
        return result
    _check_conflicts(level, result, [using_alias])
    return [*result, using_alias]


def _visible(items: Sequence[NsItem]) -> list[NsColumn]:
    return [column for item in items if item.cols_visible for column in item.columns]


def _using_names(tree: Tree, left: list[NsColumn], right: list[NsColumn]) -> list[str] | None:
    if tree.is_natural:
        right_names = {column.name for column in right}
        return [column.name for column in left if column.name in right_names]
    if tree.using_clause:
        return list(strings(tree.using_clause))
    return None


def _merge(
    level: Level, kind: str, using: list[str], left: list[NsColumn], right: list[NsColumn], tree: Tree
) -> tuple[Scalar | None, list[NsColumn]]:
    """The condition and the merged columns of JOIN USING."""
    statement = level.statement
    tests: list[Scalar] = []
    merged: list[NsColumn] = []
    seen: set[str] = set()
    for name in using:
        if name in seen and not tree.is_natural:
            raise DuplicateColumn(f'column name "{name}" appears more than once in USING clause')
        seen.add(name)
        a, b = _using_column(left, name, "left"), _using_column(right, name, "right")
        for column in (a, b):
            for id in column_ids(column):
                owner = statement.owner.get(id)
                if owner is not None:
                    owner.references.append(id)
        chosen = common_type([a.type.oid, b.type.oid])
        if chosen is None:
            raise DatatypeMismatch(
                f"JOIN/USING types {format_type(a.type.oid)} and {format_type(b.type.oid)} cannot be matched"
            )
        merged.append(NsColumn(name, _merged(level, kind, a, b, chosen)))
        tests.append(make_operator(level, ("=",), a, b, -1))
    if not tests:
        return None, merged
    condition = tests[0] if len(tests) == 1 else BoolOp(op="and", args=tuple(tests), type=BOOLEAN)
    return condition, merged


def _merged(level: Level, kind: str, a: Scalar, b: Scalar, oid: int) -> Scalar:
    statement = level.statement
    if kind == "full":
        values, type = unify(statement, [a, b], "JOIN/USING")
        return Coalesce(args=tuple(values), type=type)
    left, right = to_common(statement, a, oid, "JOIN/USING"), to_common(statement, b, oid, "JOIN/USING")
    if kind == "right":
        return right
    # PostgreSQL takes the side that needs no cast for an inner join.
    if kind == "inner" and left is not a and right is b:
        return right
    return left


def _using_column(columns: list[NsColumn], name: str, side: str) -> Scalar:
    found = [column for column in columns if column.name == name]
    if not found:
        raise UndefinedColumn(f'column "{name}" specified in USING clause does not exist in {side} table')
    if len(found) > 1:
        raise AmbiguousColumn(f'common column name "{name}" appears more than once in {side} table')
    return found[0].expr


__all__ = ["Call", "bind_from"]
