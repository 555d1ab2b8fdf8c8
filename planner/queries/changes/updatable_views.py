"""Which views rows can be changed through, and which of their columns.

Source of the rules: PostgreSQL's view_query_is_auto_updatable and view_col_is_auto_updatable.
"""

from __future__ import annotations

from msgspec import Struct

from planner.ir.nodes import ColumnRef, RowConstructor
from planner.queries.relations import apply_column_aliases, bind_in_view, find_relation, parse_view
from planner.queries.target_list import bind_targets
from planner.resolution.query import analyze_query
from planner.resolution.statement import Level, NsColumn, NsItem, Statement
from planner.statements.records import QualifiedName
from planner.syntax.parse import Parsed, Tree
from planner.types.system_relations import SYSTEM_COLUMN_NAMES
from planner.types.types import type_of_column
from storage.catalog.model import Relation

NO_COLUMNS = "Views that have no updatable columns are not automatically updatable."

_NO_SINGLE_RELATION = "Views that do not select from a single table or view are not automatically updatable."
_NO_COLUMN = "View columns that are not columns of their base relation are not updatable."
_SYSTEM_COLUMN = "View columns that refer to system columns are not updatable."
_WHOLE_ROW = "View columns that return whole-row references are not updatable."


class ViewColumn(Struct, frozen=True, kw_only=True):
    """A column of a view: the place (among the live ones) of the column of its base relation that it is, or why it
    cannot be changed."""

    name: str
    below: int | None
    reason: str = ""


class UpdatableView(Struct, frozen=True, kw_only=True):
    """A view through which rows of `base`, a table or another view, can be changed."""

    view: Relation
    base: Relation
    parsed: Parsed
    columns: tuple[ViewColumn, ...]

    @property
    def has_updatable_columns(self) -> bool:
        """Whether rows can be inserted and updated, not only deleted."""
        return any(column.below is not None for column in self.columns)


def base_item(level: Level, tree: Tree, base: Relation, columns: list[NsColumn], schema: str) -> NsItem:
    """`base`, whose columns are given, under the name that the FROM clause `tree` of a view gives it."""
    alias = tree.alias if tree.HasField("alias") else None
    name = alias.aliasname if alias is not None else base.name
    names = apply_column_aliases(alias, name, [column.name for column in columns])
    offered = [NsColumn(new, expr=column.expr) for new, column in zip(names, columns, strict=True)]
    return NsItem(
        alias=name,
        columns=offered,
        schema=schema,
        relation_name=base.name,
        relation_oid=base.oid,
        aliased=alias is not None,
    )


def updatable_view(statement: Statement, view: Relation) -> UpdatableView | str:
    """`view` as rows can be changed through it, or why none can."""
    parsed = parse_view(view.definition or "")
    reason = _form(parsed.tree)
    if reason is not None:
        return reason

    def bind(level: Level) -> UpdatableView | str:
        return _analyzed(level, view, parsed)

    found: UpdatableView | str = bind_in_view(statement, bind, parsed)
    return found


def _form(tree: Tree) -> str | None:
    """Why a query of this form is not updatable."""
    parts = {
        "DISTINCT": bool(tree.distinct_clause),
        "GROUP BY": bool(tree.group_clause),
        "HAVING": tree.HasField("having_clause"),
        "UNION, INTERSECT, or EXCEPT": tree.HasField("larg"),
        "WITH": tree.HasField("with_clause"),
        "LIMIT or OFFSET": tree.HasField("limit_count") or tree.HasField("limit_offset"),
    }
    part = next((name for name, there in parts.items() if there), None)
    return None if part is None else f"Views containing {part} are not automatically updatable."


def _analyzed(level: Level, view: Relation, parsed: Parsed) -> UpdatableView | str:
    statement, tree = level.statement, parsed.tree
    whole = Level(statement, None)
    relations, is_system = set(statement.relations), statement.system
    analyze_query(whole, tree)
    statement.relations, statement.system = relations, is_system
    for found, what in (
        (whole.aggregates, "aggregate"),
        (whole.windows, "window"),
        (whole.srfs, "set-returning"),
    ):
        if found:
            return f"Views that return {what} functions are not automatically updatable."
    if len(tree.from_clause) != 1 or not tree.from_clause[0].HasField("range_var"):
        return _NO_SINGLE_RELATION
    reference = tree.from_clause[0].range_var
    name = QualifiedName(name=reference.relname, schema=reference.schemaname or None, database=None, position=None)
    base = find_relation(statement.context, name)
    if not isinstance(base, Relation) or base.kind not in ("r", "v"):
        return _NO_SINGLE_RELATION
    fields = [statement.new_field(column.name, type_of_column(column)) for column in base.live_columns()]
    item = base_item(level, reference, base, [NsColumn(field.name, field=field) for field in fields], name.schema or "")
    marker = RowConstructor(items=(), names=(), type=fields[0].type) if fields else None
    item.system_columns = {} if marker is None else dict.fromkeys(SYSTEM_COLUMN_NAMES, marker)
    level.namespace.append(item)
    level.rtes.append(item)
    places = {field.id: place for place, field in enumerate(fields)}
    columns = []
    for column, target in zip(view.live_columns(), bind_targets(level, tree.target_list, "SELECT"), strict=True):
        expr = target.expr
        below = places.get(expr.id) if isinstance(expr, ColumnRef) else None
        reason = "" if below is not None else _NO_COLUMN
        if isinstance(expr, RowConstructor) and not expr.items:
            reason = _SYSTEM_COLUMN
        elif isinstance(expr, RowConstructor) and expr.names == tuple(each.name for each in item.columns):
            reason = _WHOLE_ROW
        columns.append(ViewColumn(name=column.name, below=below, reason=reason))
    return UpdatableView(view=view, base=base, parsed=parsed, columns=tuple(columns))
