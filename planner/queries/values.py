"""VALUES, as a query and as the rows of an INSERT."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from planner.common_errors import MAX_TARGETS, too_many_targets
from planner.errors import FeatureNotSupported, SqlError, SqlSyntaxError
from planner.expressions.bind import bind
from planner.expressions.rows import without_stars
from planner.ir.nodes import Cast, Literal, Origin, Project, Rel, RowConstructor, Scalar, Values
from planner.queries.query_tail import QueryTail
from planner.queries.row_locking import clause_name
from planner.resolution.casting import unify
from planner.resolution.statement import Level, Statement
from planner.syntax.parse import Tree, tree_location
from planner.types.types import INT4, RECORD, UNKNOWN, SqlType


class ValuesQuery:
    """VALUES as a query."""

    def __init__(self, level: Level, tree: Tree) -> None:
        statement = level.statement
        self.level = level
        if tree.locking_clause:
            clause = clause_name(tree.locking_clause[0].locking_clause)
            raise FeatureNotSupported(f"{clause} cannot be applied to VALUES")
        tree = without_stars(level, tree)
        rows = bind_rows(level, tree)
        width = len(rows[0])
        if width > MAX_TARGETS:
            raise too_many_targets()
        columns: list[list[Scalar]] = []
        self.types: list[SqlType] = []
        self.records: dict[int, tuple[tuple[str, SqlType], ...]] = {}
        """The fields of the records in a column, where all of its rows are written with the same ones."""
        for index in range(width):
            values, type = unify(statement, [row[index] for row in rows], "VALUES")
            alike = _rows_alike(statement, values) if type.oid == RECORD else None
            if alike is not None:
                values, first = alike
                self.records[index] = tuple(
                    (name, item.type) for name, item in zip(first.names, first.items, strict=True)
                )
            columns.append(values)
            self.types.append(type)
        self.columns = columns
        self._count = len(rows)
        self.names = [f"column{index}" for index in range(1, width + 1)]
        self.tail = QueryTail(level, tree, self.names, self.types, _unordered)

    def origins(self) -> list[Origin | None]:
        return [None] * len(self.types)

    def column_expr(self, index: int) -> Scalar | None:
        return self.columns[index][0]

    def set_column(self, index: int, expr: Scalar) -> None:
        raise AssertionError("the columns of VALUES have types")

    def build(self) -> Rel:
        statement = self.level.statement
        if not self.columns:
            # Rows of nothing, which only a star of a table without columns gives: a VALUES that counts them.
            one = Literal(value=1, type=SqlType(INT4))
            counted = Values(rows=((one,),) * self._count, fields=(statement.new_field("column1", SqlType(INT4)),))
            return self.tail.put_on(Project(input=counted, exprs=(), fields=()))
        fields = tuple(statement.new_field(name, type) for name, type in zip(self.names, self.types, strict=True))
        rows = tuple(zip(*self.columns, strict=True))
        for index, known in self.records.items():
            statement.record_columns[fields[index].id] = known
        return self.tail.put_on(Values(rows=rows, fields=fields))


def _rows_alike(statement: Statement, values: Sequence[Scalar]) -> tuple[list[Scalar], RowConstructor] | None:
    """The rows in a column of VALUES, each field of the same type in all of them, and the first of them; None where
    they are not all NULL or written as rows with the same types of fields."""
    rows = [value for value in values if isinstance(value, RowConstructor)]
    shapes = {tuple(item.type.oid for item in row.items) for row in rows}
    others = [value for value in values if not isinstance(value, RowConstructor)]
    if len(shapes) != 1 or any(oid == UNKNOWN for oid in next(iter(shapes))) or not all(map(_is_null, others)):
        return None
    if not rows[0].items:
        return None
    columns = [unify(statement, list(items), "VALUES")[0] for items in zip(*[row.items for row in rows], strict=True)]
    made = iter([replace(row, items=items) for row, items in zip(rows, zip(*columns, strict=True), strict=True)])
    first = replace(rows[0], items=tuple(column[0] for column in columns))
    return [next(made) if isinstance(value, RowConstructor) else value for value in values], first


def _is_null(value: Scalar) -> bool:
    while isinstance(value, Cast):
        value = value.arg
    return isinstance(value, Literal) and value.value is None


def _unordered(position: int | None) -> SqlError:
    return FeatureNotSupported("ORDER BY of an expression over VALUES is not supported")


def bind_rows(level: Level, tree: Tree, bind_item: Callable[[int, Tree], Scalar] | None = None) -> list[list[Scalar]]:
    """The rows of VALUES, each expression bound (by `bind_item(column, node)` when given). Raises 42601 for rows of
    unlike lengths."""
    rows: list[list[Scalar]] = []
    width = -1
    for node in tree.values_lists:
        items = node.list.items
        if width == -1:
            width = len(items)
        elif len(items) != width:
            raise SqlSyntaxError(
                "VALUES lists must all be the same length",
                position=level.statement.position(tree_location(items[0])) if items else None,
            )
        outer = level.clause
        level.clause = "VALUES"
        try:
            if bind_item is None:
                rows.append([bind(level, item) for item in items])
            else:
                rows.append([bind_item(index, item) for index, item in enumerate(items)])
        finally:
            level.clause = outer
    return rows
