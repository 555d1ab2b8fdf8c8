"""What ends a query: ORDER BY over output columns, LIMIT and OFFSET."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from planner.errors import AmbiguousColumn, InvalidColumnReference, SqlError, SqlSyntaxError
from planner.expressions.bind import bind_clause
from planner.ir.nodes import ColumnRef, Limit, Rel, Scalar, Sort, SortKey
from planner.ir.rewrite import walk
from planner.resolution.casting import to_specific
from planner.resolution.records import lack_of, ordered_by
from planner.resolution.sorting import sort_direction
from planner.resolution.statement import Level, NsColumn, NsItem
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree, tree_location
from planner.types.types import INT8, SqlType


class QueryTail:
    """ORDER BY over output columns, LIMIT and OFFSET, as set operations and VALUES have them. `refusal` makes the error
    about an ORDER BY item that is no output column, from its position."""

    def __init__(
        self,
        level: Level,
        tree: Tree,
        names: Sequence[str],
        types: Sequence[SqlType],
        refusal: Callable[[int | None], SqlError],
    ) -> None:
        self.level = level
        self.order: list[tuple[int, bool, bool]] = []
        for node in tree.sort_clause:
            item = node.sort_by
            index = _output_column(level, item.node, names)
            if index is None:
                _bind_over_columns(level, item.node, names, types)
                raise refusal(level.statement.position(tree_location(item.node)))
            descending, nulls_first = sort_direction(level, item, ColumnRef(id=0, type=types[index]))
            self.order.append((index, descending, nulls_first))
        self.count, self.offset = bind_limit(level, tree)
        self.ties = tree.limit_option == pb.LIMIT_OPTION_WITH_TIES

    def put_on(self, rel: Rel) -> Rel:
        """`rel`, sorted and limited. Raises 0A000 for an ORDER BY of records whose fields are not known."""
        if self.order:
            rel = Sort(input=rel, keys=tuple(self._keys(rel)), fields=rel.fields)
        return limited(rel, self.count, self.offset, self.ties)

    def _keys(self, rel: Rel) -> Iterator[SortKey]:
        """A key for each item, and for a record one for each field of it, where NULL is larger than anything else."""
        for index, descending, nulls_first in self.order:
            column = ColumnRef(id=rel.fields[index].id, type=rel.fields[index].type)
            lack = lack_of(column)
            if lack is not None:
                yield SortKey(expr=lack, descending=nulls_first, nulls_first=nulls_first)
            for key in ordered_by(self.level, column):
                first = nulls_first if key is column else descending
                yield SortKey(expr=key, descending=descending, nulls_first=first)


def _output_column(level: Level, node: Tree, names: Sequence[str]) -> int | None:
    """The output column that an ORDER BY item means: by name or by number."""
    statement = level.statement
    if node.HasField("column_ref") and len(node.column_ref.fields) == 1:
        name = strings(node.column_ref.fields)[0]
        found = [index for index, candidate in enumerate(names) if candidate == name]
        if len(found) > 1:
            raise AmbiguousColumn(
                f'ORDER BY "{name}" is ambiguous', position=statement.position(node.column_ref.location)
            )
        if found:
            return found[0]
    if node.HasField("a_const"):
        constant = node.a_const
        if not constant.HasField("ival"):
            raise SqlSyntaxError("non-integer constant in ORDER BY", position=statement.position(constant.location))
        number = constant.ival.ival
        if not 1 <= number <= len(names):
            raise InvalidColumnReference(
                f"ORDER BY position {number} is not in select list", position=statement.position(constant.location)
            )
        return int(number) - 1
    return None


def _bind_over_columns(level: Level, node: Tree, names: Sequence[str], types: Sequence[SqlType]) -> None:
    """Binds an ORDER BY item over the output columns, for the errors that are in it: they come first."""
    fields = [level.statement.new_field(name, type) for name, type in zip(names, types, strict=True)]
    columns = [NsColumn(field.name, field=field) for field in fields]
    outer = level.namespace
    level.namespace = [*outer, NsItem(alias=None, columns=columns, rel_visible=False)]
    try:
        bind_clause(level, node, "ORDER BY")
    finally:
        level.namespace = outer


def bind_limit(level: Level, tree: Tree) -> tuple[Scalar | None, Scalar | None]:
    """LIMIT and OFFSET as int8 expressions; LIMIT ALL and LIMIT NULL are no limit."""
    count = _limit_value(level, tree.limit_count, "LIMIT") if tree.HasField("limit_count") else None
    offset = _limit_value(level, tree.limit_offset, "OFFSET") if tree.HasField("limit_offset") else None
    if tree.limit_option == pb.LIMIT_OPTION_WITH_TIES and not tree.sort_clause:
        raise SqlSyntaxError("WITH TIES cannot be specified without ORDER BY clause")
    return count, offset


def _limit_value(level: Level, node: Tree, clause: str) -> Scalar | None:
    statement = level.statement
    if node.HasField("a_const") and node.a_const.isnull:
        return None
    expr = to_specific(statement, bind_clause(level, node, clause), SqlType(INT8), clause)
    for part in walk(expr):
        if isinstance(part, ColumnRef) and statement.owner.get(part.id) is level:
            raise InvalidColumnReference(
                f"argument of {clause} must not contain variables", position=statement.position_of(part)
            )
    return expr


def limited(rel: Rel, count: Scalar | None, offset: Scalar | None, ties: bool) -> Rel:
    """`rel` with LIMIT and OFFSET, when there are any."""
    if count is None and offset is None:
        return rel
    return Limit(input=rel, count=count, offset=offset, ties=ties, fields=rel.fields)
