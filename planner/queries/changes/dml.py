"""INSERT, UPDATE and DELETE: from parse trees to `BoundInsert`, `BoundUpdate`, `BoundDelete`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.calls.set_returning import SetInValues
from planner.common_errors import repeated_column
from planner.errors import (
    FeatureNotSupported,
    SqlSyntaxError,
)
from planner.expressions.alike_params import AlikeParams
from planner.expressions.bind import bind
from planner.expressions.rows import without_stars
from planner.files.past_queries import as_it_was, at_moment, moment_of
from planner.ir.bound import BoundDelete, BoundInsert, BoundUpdate, OnConflict, PolicyChecks
from planner.ir.nodes import (
    ColumnRef,
    CommonTable,
    Deduplicate,
    Distinct,
    Field,
    Filter,
    Literal,
    Project,
    Rel,
    Scalar,
    Scan,
    SessionValue,
    Values,
)
from planner.ir.written import KeyWord
from planner.queries.changes.assigned_values import (
    assign_part,
    assigned_twice,
    assigned_values,
    earlier_parts,
    given_values,
    part_type,
)
from planner.queries.changes.column_values import (
    assign,
    bound_query,
    computing,
    default_value,
    refuse_updates,
    refuse_values,
    with_computed,
    without_acting_columns,
)
from planner.queries.changes.on_conflict import BoundConflict, bind_on_conflict
from planner.queries.changes.policy_checks import conflicting_checks, found_rows, inserted_checks, updated_checks
from planner.queries.changes.returning import inserted_returning, joined_returning
from planner.queries.changes.targets import (
    ChangeTarget,
    bind_where,
    change_target,
    note_columns,
    note_item,
    scan_target,
    view_checks,
)
from planner.queries.common_tables import bind_with, with_tables
from planner.queries.from_clause import bind_from
from planner.queries.values import bind_rows
from planner.resolution.casting import finish_row
from planner.resolution.operators import BOOLEAN
from planner.resolution.query import analyze_query
from planner.resolution.row_security import DELETE, UPDATE
from planner.resolution.statement import Level, NsItem, Statement
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree
from planner.types.types import INT8, UNKNOWN, SqlType
from storage.catalog.model import Column

# ---------------------------------------------------------------- INSERT


def bind_insert(level: Level, tree: Tree) -> BoundInsert:
    """INSERT, of every source."""
    statement = level.statement
    moment = moment_of(statement)
    tables: list[CommonTable] = []
    if tree.HasField("with_clause"):
        with at_moment(statement, moment):
            tables = [as_it_was(statement, moment, table) for table in bind_with(level, tree.with_clause)]
    target = change_target(statement, tree.relation, "insert")
    relation, live, types = target.relation, target.live, target.types
    if relation.foreign is not None and (tree.HasField("on_conflict_clause") or tree.HasField("returning_clause")):
        what = "ON CONFLICT" if tree.HasField("on_conflict_clause") else "RETURNING"
        raise FeatureNotSupported(f'INSERT ... {what} into foreign table "{relation.name}" is not supported')
    given = insert_columns(statement, target, tree.cols)
    note_columns(level, tree, target, given, tree.cols)
    level.rtes.append(NsItem(alias=target.named.name, columns=[], relation_name=target.named.name))
    select = without_stars(level, tree.select_stmt.select_stmt) if tree.HasField("select_stmt") else None
    rel: Rel
    not_default: set[int] = set()
    if moment is not None and (select is None or (select.values_lists and not _has_clauses(select))):
        raise FeatureNotSupported("AS OF is for an INSERT of the rows of a query")
    if select is None:
        defaults = target.view_defaults([])
        rel, not_default = _values(statement, live, types, [], [[]], defaults), set(defaults)
    elif select.values_lists and not _has_clauses(select):
        try:
            rel, not_default = _insert_values(level, select, tree, target, given)
        except SetInValues:
            if len(select.values_lists) > 1:
                raise
            query, places = _as_query(select), _valued(statement, select, tree.cols)
            cols = [tree.cols[place] for place in places] if tree.cols else []
            rel, not_default = _insert_select(level, query, cols, tree, target, [given[at] for at in places])
    else:
        rel, not_default = _insert_select(level, select, tree.cols, tree, target, given)
    rel = with_tables(tables, rel)
    refuse_values(live, not_default, tree.override)
    computed = computing(statement, relation)
    complete = None
    if computed is not None and not isinstance(rel, Values):
        complete = bound_query(statement, with_computed(rel, computed))
    conflict = None
    if tree.HasField("on_conflict_clause"):
        # PostgreSQL's messages speak of an INSERT there, too.
        conflict = bind_on_conflict(level, target, tree)
    returning = inserted_returning(level, target, tree, tables)
    checks = updated = None
    if conflict is not None and conflict.update is not None and statement.context.policies is not None:
        checks, updated = conflicting_checks(statement, target), updated_checks(statement, target)
    return BoundInsert(
        relation_oid=relation.oid,
        columns=tuple(column.attnum for column in live),
        source=bound_query(statement, rel),
        not_null=tuple(column.attnum for column in live if column.not_null),
        computed=None if computed is None else bound_query(statement, computed),
        complete=complete,
        returning=returning,
        on_conflict=None if conflict is None else _finish_conflict(statement, conflict, tables, checks, updated),
        view_checks=view_checks(statement, target),
        policies=None if statement.context.policies is None else inserted_checks(statement, target),
        foreign=relation.foreign is not None,
    )


def _finish_conflict(
    statement: Statement,
    conflict: BoundConflict,
    tables: Sequence[CommonTable],
    existing: PolicyChecks | None,
    updated: PolicyChecks | None,
) -> OnConflict:
    update = conflict.update
    return OnConflict(
        arbiters=conflict.arbiters,
        conditional=conflict.conditional,
        update=None if update is None else bound_query(statement, with_tables(tables, update)),
        assigned=frozenset() if update is None else _assigned(update),
        existing=existing,
        updated=updated,
    )


def _assigned(update: Rel) -> frozenset[int]:
    """The places of the columns that DO UPDATE gives other expressions than the columns themselves, which come first in
    what it reads; all if it does not say so."""
    fields = update.fields[1:]
    if not isinstance(update, Project):
        return frozenset(range(len(fields)))
    old = update.input.fields[: len(fields)]
    pairs = zip(update.exprs[1:], old, strict=True)
    return frozenset(
        [place for place, (expr, was) in enumerate(pairs) if not (isinstance(expr, ColumnRef) and expr.id == was.id)]
    )


def _items(select: Tree) -> Sequence[Tree]:
    items: Sequence[Tree] = select.values_lists[0].list.items
    return items


def _valued(statement: Statement, select: Tree, cols: Sequence[Tree]) -> list[int]:
    """The places of the values in the single row of VALUES that are not DEFAULT, for an INSERT that names `cols`."""
    items = _items(select)
    if len(items) < len(cols):
        raise _too_few(statement, cols, len(items))
    places = []
    for place, item in enumerate(items):
        if not item.HasField("set_to_default"):
            places.append(place)
        elif cols and cols[place].res_target.indirection:
            position = statement.position(cols[place].res_target.location)
            raise FeatureNotSupported("cannot set an array element to DEFAULT", position=position)
    return places


def _as_query(select: Tree) -> Tree:
    """The single row of VALUES as that of a SELECT, as PostgreSQL has it, without the columns that get their defaults:
    those that are not given a value get them, too."""
    query = pb.SelectStmt()
    query.CopyFrom(select)
    del query.values_lists[:]
    for item in _items(select):
        if not item.HasField("set_to_default"):
            query.target_list.add().res_target.val.CopyFrom(item)
    return query


def _has_clauses(select: Tree) -> bool:
    return bool(
        select.sort_clause
        or select.HasField("limit_count")
        or select.HasField("limit_offset")
        or select.HasField("with_clause")
    )


def insert_columns(statement: Statement, target: ChangeTarget, nodes: Sequence[Tree]) -> list[int]:
    """The columns that an INSERT gives values for, by their places in what it names: all, unless it lists some. One of
    which it lists parts is there for each."""
    if not nodes:
        return list(range(len(target.named.live_columns())))
    found: list[int] = []
    whole: set[int] = set()
    for node in nodes:
        named = node.res_target
        position = statement.position(named.location)
        index = target.index(named.name, position)
        if index in whole or (index in found and not named.indirection):
            raise repeated_column(named.name, position)
        if not named.indirection:
            whole.add(index)
        found.append(index)
    return found


def insert_places(target: ChangeTarget, given: Sequence[int]) -> list[int]:
    """The places in the table of columns that an INSERT gives values for."""
    places = [target.assigned(index, "insert", inserted=True) for index in given]
    by_place = dict(zip(places, given, strict=True))
    for place, index in zip(places, given, strict=True):
        if by_place[place] != index:
            raise assigned_twice(target.live[place])
    return places


def inserted_value(level: Level, node: Tree, column: Column, type: SqlType, override: int) -> Scalar:
    """What an INSERT gives to `column`: DEFAULT, or an expression. `override` is an OverridingKind."""
    statement = level.statement
    if node.HasField("set_to_default"):
        return statement.written_as(default_value(statement, column, type), KeyWord(text="DEFAULT"))
    expr = bind(level, node)
    if _is_overridden(column, override):
        value = default_value(statement, column, type)
        if statement.written is not None:
            statement.written_as(value, assign(statement, finish_row(statement, expr, type), column, type))
        return value
    return assign(statement, finish_row(statement, expr, type), column, type)


def _is_overridden(column: Column, override: int) -> bool:
    """Whether an INSERT takes the next number whatever value it gives (OVERRIDING USER VALUE)."""
    return bool(column.identity) and override == pb.OVERRIDING_USER_VALUE


def _insert_values(
    level: Level, select: Tree, tree: Tree, target: ChangeTarget, given: list[int]
) -> tuple[Values, set[int]]:
    """The rows, and the places of the columns that one of them gives a value."""
    statement, live, types = level.statement, target.live, target.types
    not_default: set[int] = set()
    width = max((len(node.list.items) for node in select.values_lists), default=0)
    places = insert_places(target, given[:width])
    earlier = earlier_parts(places)
    bound: dict[int | None, Scalar] = {}  # the items of the row at hand

    def bind_item(index: int, node: Tree) -> Scalar:
        position = places[index]
        column = live[position]
        if node.HasField("set_to_default"):
            column = target.default_column(given[index])
        if column is not live[position] or not node.HasField("set_to_default"):
            not_default.add(position)
        named = tree.cols[index].res_target if tree.cols else None
        if named is not None and named.indirection:
            value = (
                None if node.HasField("set_to_default") else finish_row(statement, bind(level, node), types[position])
            )
            before = bound.get(earlier[index], Literal(value=None, type=types[position]))
            bound[index] = assign_part(level, named, live[position], types[position], before, value)
            return bound[index]
        return inserted_value(level, node, column, types[position], tree.override)

    for node in select.values_lists:
        if len(node.list.items) > len(given):
            # Before any value is made fit for its column.
            exprs = [bind(level, item) for item in node.list.items if not item.HasField("set_to_default")]
            extra = exprs[len(given)] if len(exprs) == len(node.list.items) else None
            raise SqlSyntaxError(
                "INSERT has more expressions than target columns",
                position=None if extra is None else statement.position_of(extra),
            )
    rows = bind_rows(level, select, AlikeParams(statement, bind_item).bind)
    if statement.notes is not None:
        statement.notes.change(tree).rows = rows
    if width < len(given) and tree.cols:
        raise _too_few(statement, tree.cols, width)
    defaults = target.view_defaults(given[:width])
    return _values(statement, live, types, places, rows, defaults), not_default | defaults.keys()


def _too_few(statement: Statement, columns: Sequence[Tree], width: int) -> SqlSyntaxError:
    position = statement.position(columns[width].res_target.location) if width < len(columns) else None
    return SqlSyntaxError("INSERT has more target columns than expressions", position=position)


def _values(
    statement: Statement,
    live: Sequence[Column],
    types: list[SqlType],
    given: list[int],
    rows: list[list[Scalar]],
    defaults: Mapping[int, Column],
) -> Values:
    fields = tuple(statement.new_field(column.name, type) for column, type in zip(live, types, strict=True))
    slots = {position: index for index, position in enumerate(given)}
    full = tuple(
        tuple(
            row[slots[position]]
            if position in slots
            else default_value(statement, defaults.get(position, column), types[position])
            for position, column in enumerate(live)
        )
        for row in rows
    )
    return Values(rows=full, fields=fields)


def _insert_select(
    level: Level, select: Tree, cols: Sequence[Tree], tree: Tree, target: ChangeTarget, given: list[int]
) -> tuple[Project, set[int]]:
    """The rows, and the places of the columns that they give values."""
    statement, live, types = level.statement, target.live, target.types
    moment = moment_of(statement)
    with at_moment(statement, moment):
        query = analyze_query(Level(statement, level), select)
    width = len(query.types)
    if width > len(given):
        expr = query.column_expr(len(given))
        raise SqlSyntaxError(
            "INSERT has more expressions than target columns",
            position=statement.position_of(expr) if expr is not None else None,
        )
    if width < len(given) and cols:
        raise _too_few(statement, cols, width)
    places = insert_places(target, given[:width])
    named_columns = [node.res_target for node in cols]
    parts = [named if named.indirection else None for named in named_columns] or [None] * width
    locations: list[int] = []
    # PostgreSQL has no conversions in a query, other than in a row of VALUES that was made one here.
    written = select is tree.select_stmt.select_stmt
    for index, given_type in enumerate(query.types[:width]):
        expr = query.column_expr(index)
        locations.append(statement.location(expr) if expr is not None else -1)
        if expr is not None and given_type.oid == UNKNOWN:
            position = places[index]
            type = types[position] if parts[index] is None else part_type(parts[index], types[position])
            value = assign(statement, expr, live[position], type)
            query.set_column(index, statement.written_as(value, expr) if written else value)
    if statement.notes is not None:
        statement.notes.change(tree).query = (query, select)
    with at_moment(statement, moment):
        source = as_it_was(statement, moment, query.build())
    defaults = target.view_defaults(given[:width])
    slots: dict[int, list[int]] = {}
    for index, position in enumerate(places):
        slots.setdefault(position, []).append(index)
    exprs: list[Scalar] = []
    for position, column in enumerate(live):
        if position in slots and not _is_overridden(column, tree.override):
            whole: Scalar = Literal(value=None, type=types[position])
            for index in slots[position]:
                field, named = source.fields[index], parts[index]
                value = statement.at(ColumnRef(id=field.id, type=field.type), locations[index])
                if named is None:
                    whole = assign(statement, value, column, types[position])
                else:
                    whole = assign_part(level, named, column, types[position], whole, value)
            exprs.append(whole)
        else:
            exprs.append(default_value(statement, defaults.get(position, column), types[position]))
    fields = tuple(statement.new_field(column.name, type) for column, type in zip(live, types, strict=True))
    rows = without_acting_columns(Project(input=source, exprs=tuple(exprs), fields=fields))
    return rows, slots.keys() | defaults.keys()


# ---------------------------------------------------------------- UPDATE, DELETE


def bind_update(level: Level, tree: Tree) -> BoundUpdate:
    """UPDATE, with FROM and every form of SET."""
    statement = level.statement
    tables = bind_with(level, tree.with_clause) if tree.HasField("with_clause") else []
    target = change_target(statement, tree.relation, "update")
    relation, live = target.relation, target.live
    alias = tree.relation.alias if tree.relation.HasField("alias") else None
    found, scan, item = scan_target(level, target, alias, tree.relation.location, row_id=True)
    level.namespace.append(item)
    level.rtes.append(item)
    note_item(level, tree, item)
    level.presences = []
    rel = bind_from(level, tree.from_clause, into=found)
    old = [ColumnRef(id=field.id, type=field.type) for field in scan.fields[:-1]]
    if tree.HasField("where_clause"):
        rel = Filter(input=rel, condition=_condition(level, target, scan, tree), fields=rel.fields)
    given = given_values(level, tree)
    changes, not_default = assigned_values(level, target, tree, given, old)
    row_id = ColumnRef(id=scan.fields[-1].id, type=SqlType(INT8))
    if tree.from_clause:
        rel = Deduplicate(input=rel, on=(row_id,), order_by=(), fields=rel.fields)
    refuse_updates(live, not_default)
    new = [changes.get(index, expr) for index, expr in enumerate(old)]
    returning, joined, rel = joined_returning(level, tree, scan, rel, tables)
    if statement.context.policies is not None:
        rel = found_rows(statement, target, scan, [UPDATE], rel)
    rel = _read(statement, rel, [row_id, *old, *new], live, 2, joined, tables)
    computed = computing(statement, relation)
    if computed is not None:
        rel = with_computed(rel, computed, 1 + len(live))
    return BoundUpdate(
        relation_oid=relation.oid,
        columns=tuple(column.attnum for column in live),
        read=bound_query(statement, rel),
        not_null=tuple(
            column.attnum
            for index, column in enumerate(live)
            if column.not_null and (index in changes or column.generated)
        ),
        returning=returning,
        view_checks=view_checks(statement, target),
        policies=None if statement.context.policies is None else updated_checks(statement, target),
    )


def _condition(level: Level, target: ChangeTarget, scan: Scan, tree: Tree) -> Scalar:
    """The WHERE of an UPDATE or DELETE. Raises 0A000 for WHERE CURRENT OF on a view."""
    if not tree.where_clause.HasField("current_of_expr"):
        return bind_where(level, tree)
    if target.views:
        raise FeatureNotSupported("WHERE CURRENT OF on a view is not implemented")
    row_id = ColumnRef(id=scan.fields[-1].id, type=SqlType(INT8))
    name = f"cursor_row:{target.relation.oid}:{tree.where_clause.current_of_expr.cursor_name}"
    current = SessionValue(name=name, type=row_id.type)
    return Distinct(left=row_id, right=current, negated=True, type=BOOLEAN)


def _read(
    statement: Statement,
    rel: Rel,
    exprs: Sequence[Scalar],
    live: Sequence[Column],
    copies: int,
    joined: Sequence[Field],
    tables: list[CommonTable],
) -> Rel:
    names = ["_row_id", *(column.name for _ in range(copies) for column in live), *(field.name for field in joined)]
    exprs = (*exprs, *(ColumnRef(id=field.id, type=field.type) for field in joined))
    fields = tuple(statement.new_field(name, expr.type) for name, expr in zip(names, exprs, strict=True))
    return with_tables(tables, Project(input=rel, exprs=exprs, fields=fields))


def bind_delete(level: Level, tree: Tree) -> BoundDelete:
    """DELETE, with USING."""
    statement = level.statement
    tables = bind_with(level, tree.with_clause) if tree.HasField("with_clause") else []
    target = change_target(statement, tree.relation, "delete")
    relation, live = target.relation, target.live
    alias = tree.relation.alias if tree.relation.HasField("alias") else None
    found, scan, item = scan_target(level, target, alias, tree.relation.location, row_id=True)
    level.namespace.append(item)
    level.rtes.append(item)
    note_item(level, tree, item)
    level.presences = []
    rel = bind_from(level, tree.using_clause, into=found)
    if tree.HasField("where_clause"):
        rel = Filter(input=rel, condition=_condition(level, target, scan, tree), fields=rel.fields)
    row_id = ColumnRef(id=scan.fields[-1].id, type=SqlType(INT8))
    if tree.using_clause:
        rel = Deduplicate(input=rel, on=(row_id,), order_by=(), fields=rel.fields)
    old = [ColumnRef(id=field.id, type=field.type) for field in scan.fields[:-1]]
    returning, joined, rel = joined_returning(level, tree, scan, rel, tables, deleted=True)
    if statement.context.policies is not None:
        rel = found_rows(statement, target, scan, [DELETE], rel)
    rel = _read(statement, rel, [row_id, *old], live, 1, joined, tables)
    return BoundDelete(
        relation_oid=relation.oid,
        columns=tuple(column.attnum for column in live),
        read=bound_query(statement, rel),
        returning=returning,
    )
