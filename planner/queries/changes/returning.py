"""RETURNING of INSERT, UPDATE, DELETE and MERGE, bound over the rows that they change."""

from __future__ import annotations

from collections.abc import Sequence

from planner.common_errors import MAX_TARGETS
from planner.errors import TooManyColumns
from planner.ir.bound import Returning
from planner.ir.nodes import RETURNING_ROWS, ColumnRef, CommonTable, CteScan, Field, Project, Rel, Scan
from planner.ir.rewrite import transform, walk
from planner.queries.changes.column_values import bound_query
from planner.queries.changes.targets import ChangeTarget, note_item, scan_target
from planner.queries.common_tables import with_tables
from planner.queries.in_from.presences import with_presences
from planner.queries.in_from.system_columns import of_new_rows, xmax_of_conflicts
from planner.queries.target_list import bind_targets
from planner.resolution.casting import finish_row, resolve_unknown
from planner.resolution.operators import BOOLEAN
from planner.resolution.statement import Level, NsItem
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree


def inserted_returning(
    level: Level, target: ChangeTarget, tree: Tree, tables: Sequence[CommonTable]
) -> Returning | None:
    """What RETURNING of an INSERT makes of the rows; None without one."""
    if not tree.HasField("returning_clause"):
        return None
    alias = tree.relation.alias if tree.relation.HasField("alias") else None
    inner = Level(level.statement, level.parent)
    inner.ctes = level.ctes
    _, scan, item = scan_target(inner, target, alias, -1)
    inner.namespace.append(item)
    inner.rtes.append(item)
    note_item(inner, tree.returning_clause, item)
    fields = scan.fields
    marked = tree.HasField("on_conflict_clause") and "xmax" in item.system_columns
    if tree.on_conflict_clause.action == pb.ONCONFLICT_UPDATE:
        inner.rtes.append(NsItem(alias="excluded", columns=[], relation_name=item.relation_name))
    if marked:
        replaced = level.statement.new_field("_replaced", BOOLEAN)
        inner.own(replaced.id, item.alias, "_replaced")
        item.system_columns = {**item.system_columns, "xmax": xmax_of_conflicts(replaced)}
        fields = (*fields, replaced)
    returned = of_new_rows(_returning(inner, tree, fields, tables))
    return Returning(query=bound_query(level.statement, returned), marked=marked)


def joined_returning(
    level: Level, tree: Tree, scan: Scan, rel: Rel, tables: Sequence[CommonTable], *, deleted: bool = False
) -> tuple[Returning | None, tuple[Field, ...], Rel]:
    """RETURNING of an UPDATE or DELETE, whose target is read as `scan` and joined to others in `rel`; the columns of
    the others that it needs; and `rel` with all columns that the statement needs. `deleted`: its rows are those that
    have been read."""
    if not tree.HasField("returning_clause"):
        return None, (), with_presences(level, rel)
    target = scan.fields[:-1]
    returned = _returning(level, tree, target, tables)
    if not deleted:
        returned = of_new_rows(returned, scan.fields[-1].id)
    rel = with_presences(level, rel)
    ids = {node.id for node in walk(returned) if isinstance(node, ColumnRef)} - {field.id for field in target}
    joined = tuple(field for field in rel.fields if field.id in ids)
    rows = CteScan(cte=RETURNING_ROWS, fields=(*target, *joined))

    def with_joined(node: object) -> CteScan | None:
        return rows if isinstance(node, CteScan) and node.cte == RETURNING_ROWS else None

    return Returning(query=bound_query(level.statement, transform(returned, with_joined))), joined, rel


def _returning(level: Level, tree: Tree, target: tuple[Field, ...], tables: Sequence[CommonTable]) -> Rel:
    """The projection of a RETURNING list, whose names `level` offers, over the affected rows."""
    statement = level.statement
    targets = bind_targets(level, tree.returning_clause.exprs, "RETURNING", tree.returning_clause)
    if len(targets) > MAX_TARGETS:
        raise TooManyColumns(f"number of columns ({len(targets)}) exceeds limit ({MAX_TARGETS})")
    exprs = tuple(finish_row(statement, resolve_unknown(statement, target.expr)) for target in targets)
    if statement.notes is not None:
        named = [(target.name, expr) for target, expr in zip(targets, exprs, strict=True)]
        statement.notes.change(tree).returning = (level, named)
    fields = tuple(
        statement.new_field(target.name, expr.type, target.origin) for target, expr in zip(targets, exprs, strict=True)
    )
    rows = CteScan(cte=RETURNING_ROWS, fields=target)
    return with_tables(tables, Project(input=rows, exprs=exprs, fields=fields))
