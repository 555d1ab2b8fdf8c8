"""GROUP BY: its items, grouping sets, and the rewriting of expressions over the groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from msgspec.structs import replace

from planner.errors import GroupingError, StatementTooComplex, TooManyColumns
from planner.expressions.alike import has_own, is_alike
from planner.ir.nodes import (
    ArraySubquery,
    ColumnRef,
    Exists,
    Field,
    Literal,
    QuantifiedSubquery,
    RowConstructor,
    Scalar,
    ScalarSubquery,
)
from planner.ir.rewrite import transform
from planner.resolution.statement import Level
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree
from planner.types.types import BOOL, SqlType
from storage.catalog.model import Constraint

MAX_GROUPING_SETS = 4096


class Grouping:
    """The keys of a grouped query and how its expressions refer to them.

    `sets` is None for a plain GROUP BY; otherwise each set lists indexes into `keys`.
    """

    def __init__(self, level: Level) -> None:
        self.level = level
        self.keys: list[Scalar] = []
        self.own: list[bool] = []
        """Of each key, whether it defines something inside itself: `planner.expressions.alike`."""
        self.fields: list[Field] = []
        self.sets: tuple[tuple[int, ...], ...] | None = None
        self.by_type: dict[type, list[int]] = {}
        self.by_target: dict[int, int] = {}
        self.records: list[tuple[Scalar, tuple[int, ...], tuple[str, ...]]] = []
        """Records that are grouped by their fields: the keys that these are, and their names."""
        self.rows: list[tuple[RowConstructor, tuple[int, ...]]] = []
        """Rows among the items of grouping sets: the keys that their columns are, each its own."""
        self.parts: list[int] = []
        """The keys of `rows`, each its own."""
        self.of_rows: set[int] = set()
        """The keys that only rows have brought: columns by themselves are not grouped by these."""
        self.outer_depth = 0

    def add_row(self, row: RowConstructor, parts: Sequence[Scalar]) -> list[int]:
        """The indexes of the keys that the columns of a row are, and what tells it from a lack of one."""
        known = next((indexes for each, indexes in self.rows if each == row), None)
        if known is not None:
            return list(known)
        there = () if row.value is not None else (Literal(value=True, type=SqlType(BOOL)),)
        indexes = [self._add(part, of_row=True) for part in (*parts, *there)]
        self.rows.append((row, tuple(indexes)))
        return indexes

    def add_parts(self, parts: Sequence[Scalar]) -> list[int]:
        """The indexes of the keys that the columns of a row are, and what tells it from a lack of one, in a plain GROUP
        BY. Those of ROW(...), which are written out, may stand by themselves."""
        before = len(self.keys)
        indexes = [self._key(part) for part in parts]
        if all(id(part) in self.level.statement.row_parts for part in parts if isinstance(part, ColumnRef)):
            self.of_rows.update(range(before, len(self.keys)))
        return indexes

    def key_of(self, arg: Scalar, *, in_subquery: bool) -> int | None:
        """The index of a key that is there where the argument of GROUPING is; None where that is no grouping item."""
        if in_subquery and not self._is_variable(arg):
            return None
        hidden = {*self.parts, *self.of_rows}
        found = next((index for index, key in enumerate(self.keys) if key == arg and index not in hidden), None)
        if found is not None:
            return found
        if not isinstance(arg, RowConstructor):
            return None
        of_row = next((indexes for row, indexes in self.rows if row == arg), None)
        if of_row is not None:
            return of_row[0]
        parts = parts_of(arg)
        return self.keys.index(parts[-1]) if parts and all(part in self.keys for part in parts) else None

    def add_target(self, target: int, expr: Scalar) -> int:
        """The index of the key that the expression of a target is. For grouping sets each target is a key of its own,
        which a set may lack whatever other targets are equal to it."""
        if target not in self.by_target:
            self.by_target[target] = self._add(expr)
        return self.by_target[target]

    def add_record(self, expr: Scalar, fields: Sequence[Scalar], names: Sequence[str]) -> list[int]:
        """The indexes of the keys that the fields of a record are, which it is put together from again."""
        indexes = [self.add_key(field) for field in fields]
        self.records.append((expr, tuple(indexes), tuple(names)))
        return indexes

    def add_key(self, expr: Scalar) -> int:
        """The index of a key, which is added unless an equal one is there."""
        index = self._key(expr)
        self.of_rows.discard(index)
        return index

    def _key(self, expr: Scalar) -> int:
        for index, key in enumerate(self.keys):
            if key == expr or (self.own[index] and is_alike(key, expr)):
                return index
        return self._add(expr)

    def _add(self, expr: Scalar, *, of_row: bool = False) -> int:
        statement = self.level.statement
        origin = statement.origins.get(expr.id) if isinstance(expr, ColumnRef) else None
        name = self.level.from_ids[expr.id][1] if isinstance(expr, ColumnRef) and expr.id in self.level.from_ids else ""
        field = statement.new_field(name or "key", expr.type, origin)
        if isinstance(expr, ColumnRef) and expr.id in statement.record_columns:
            statement.record_columns[field.id] = statement.record_columns[expr.id]
        self.keys.append(expr)
        self.own.append(has_own(expr))
        self.fields.append(field)
        (self.parts if of_row else self.by_type.setdefault(type(expr), [])).append(len(self.keys) - 1)
        return len(self.keys) - 1

    def rewrite_target(self, target: int, expr: Scalar) -> Scalar:
        """`rewrite` for the expression of a target."""
        index = self.by_target.get(target)
        return self.rewrite(expr) if index is None else self._reference(index, expr)

    def rewrite(self, expr: Any) -> Any:
        """`expr` in terms of the keys' and aggregates' columns. Raises 42803 for a column that is neither."""
        return transform(expr, self._replace)

    def check_direct_arguments(self) -> None:
        """Raises 42803 for a direct argument of an ordered-set aggregate that is not the same for a whole group."""
        for call, _ in self.level.aggregates:
            if call.signature.ordered_set:
                try:
                    self.rewrite(call.args)
                except GroupingError as error:
                    if not self.outer_depth:
                        error.detail = "Direct arguments of an ordered-set aggregate must use only grouped columns."
                    raise

    def _replace(self, node: Any) -> Any | None:
        for index in self.by_type.get(type(node), ()):
            key = self.keys[index]
            if index in self.of_rows and not self._is_of_row(node):
                continue
            if self.outer_depth and not self._is_variable(key):
                continue
            if key == node or (self.own[index] and is_alike(key, node)):
                return self._reference(index, node)
        for record, indexes, names in self.records:
            if record == node and not (self.outer_depth and not self._is_variable(record)):
                items = tuple(ColumnRef(id=self.fields[i].id, type=self.fields[i].type) for i in indexes)
                return RowConstructor(items=items, names=names, type=node.type, nullable=True)
        for row, indexes in self.rows:
            if row == node and not (self.outer_depth and not self._is_variable(row)):
                refs = tuple(self._reference(index, node) for index in indexes)
                count = len(row.items)
                return replace(row, items=refs[:count], value=refs[count], nullable=True)
        if self._is_of_row(node):
            for index in self.parts:
                if self.keys[index] == node:
                    return self._reference(index, node)
        if isinstance(node, ColumnRef):
            if node.id in self.level.from_ids:
                return self._ungrouped(node)
            return node
        if isinstance(node, (ScalarSubquery, Exists, ArraySubquery, QuantifiedSubquery)):
            changes: dict[str, Any] = {}
            if isinstance(node, QuantifiedSubquery):
                changes["args"] = transform(node.args, self._replace)
            self.outer_depth += 1
            changes["rel"] = transform(node.rel, self._replace)
            self.outer_depth -= 1
            return replace(node, **changes)
        return None

    def _is_variable(self, key: Scalar) -> bool:
        """Whether it is a column or a whole row: of other keys PostgreSQL knows nothing in subqueries, where their
        columns are ungrouped (check_ungrouped_columns_walker)."""
        if isinstance(key, ColumnRef):
            return True
        if isinstance(key, RowConstructor):
            return all(id(item) in self.level.statement.row_parts for item in key.items)
        return any(key == column for item in self.level.rtes for column in item.system_columns.values())

    def _is_of_row(self, node: Any) -> bool:
        """Whether it stands for a part of a row, and not by itself in the statement."""
        statement = self.level.statement
        return id(node) in statement.row_parts or statement.location(node) < 0

    def _reference(self, key: int, node: Scalar) -> Scalar:
        field, statement = self.fields[key], self.level.statement
        result: Scalar = statement.at(ColumnRef(id=field.id, type=field.type), statement.location(node))
        return result

    def _ungrouped(self, node: ColumnRef) -> Scalar:
        """A column that is no key: fine when a primary key among the keys determines it, else 42803."""
        if self._determined(node) or (self.sets is None and self._tells_presence(node)):
            index = self.add_key(ColumnRef(id=node.id, type=node.type))
            if self.sets is not None:
                self.sets = tuple(each if index in each else (*each, index) for each in self.sets)
            field = self.fields[index]
            return ColumnRef(id=field.id, type=field.type)
        alias, name = self.level.from_ids[node.id]
        shown = f"{alias}.{name}" if alias else name
        position = self.level.statement.position_of(node)
        if self.outer_depth:
            raise GroupingError(f'subquery uses ungrouped column "{shown}" from outer query', position=position)
        raise GroupingError(
            f'column "{shown}" must appear in the GROUP BY clause or be used in an aggregate function',
            position=position,
        )

    def _tells_presence(self, node: ColumnRef) -> bool:
        """Whether it is what tells a row from a lack of one: the row's columns, which are looked at first, are keys or
        determined by keys."""
        return any(field.id == node.id for _, field in self.level.presences or ())

    def _determined(self, node: ColumnRef) -> bool:
        statement = self.level.statement
        origin = statement.origins.get(node.id)
        if origin is None:
            return False
        # A column of a subquery or common table expression has an origin too, but may be there several times for a row.
        beside = next((ids for ids in self._tables(origin.relation_oid) if node.id in ids), frozenset[int]())
        # Of grouping sets those keys tell that all of them have.
        keys = [
            key
            for place, key in enumerate(self.keys)
            if place not in self.of_rows and all(place in each for each in self.sets or ())
        ]
        grouped = {
            found.attnum
            for key in keys
            if isinstance(key, ColumnRef) and key.id in beside and (found := statement.origins.get(key.id)) is not None
        }
        if not grouped:
            return False
        for record in statement.context.catalog.all():
            if (
                isinstance(record, Constraint)
                and record.kind == "p"
                and not record.deferrable
                and record.relation == origin.relation_oid
                and set(record.columns) <= grouped
            ):
                statement.needs_keys.add(record.oid)
                return True
        return False

    def _tables(self, oid: int) -> Iterator[frozenset[int]]:
        """The ids of the columns of each place in FROM where the relation itself stands."""
        for item in self.level.rtes:
            if item.relation_oid == oid:
                yield frozenset(column.field.id for column in item.columns if column.field is not None)


def parts_of(row: RowConstructor) -> tuple[Scalar, ...]:
    """What a row is grouped by: its columns, and what tells it from a lack of one."""
    return (*row.items, *(() if row.value is None else (row.value,)))


def expand_sets(
    nodes: Sequence[Tree], key_index: Any, position: Callable[[int], int | None]
) -> tuple[tuple[int, ...], ...] | None:
    """The grouping sets of a GROUP BY list; None when it has only plain items (whose keys are added all the same).

    `key_index(node)` gives the indexes of the keys of a plain item: one, or several for a parenthesised list;
    `position` where a place of the tree is in the text.
    """
    parts: list[list[tuple[int, ...]]] = []
    plain = True
    for node in nodes:
        if node.HasField("grouping_set"):
            plain = False
            parts.append(_sets(node.grouping_set, key_index, position))
        else:
            parts.append([tuple(key_index(node))])
    if plain:
        return None
    size = 1
    for part in parts:
        size *= len(part)
        if size > MAX_GROUPING_SETS:
            raise StatementTooComplex(f"too many grouping sets present (maximum {MAX_GROUPING_SETS})")
    return tuple(tuple(dict.fromkeys(index for part in choice for index in part)) for choice in product(*parts))


def _sets(tree: Tree, key_index: Any, position: Callable[[int], int | None]) -> list[tuple[int, ...]]:
    if tree.kind == pb.GROUPING_SET_EMPTY:
        return [()]
    if tree.kind == pb.GROUPING_SET_SETS:
        found: list[tuple[int, ...]] = []
        for node in tree.content:
            found.extend(
                _sets(node.grouping_set, key_index, position)
                if node.HasField("grouping_set")
                else [tuple(key_index(node))]
            )
        return found
    elements = [tuple(key_index(node)) for node in tree.content]
    if tree.kind == pb.GROUPING_SET_ROLLUP:
        return [
            tuple(index for element in elements[:length] for index in element)
            for length in range(len(elements), -1, -1)
        ]
    if tree.kind == pb.GROUPING_SET_CUBE:
        if len(elements) > 12:
            raise TooManyColumns("CUBE is limited to 12 elements", position=position(tree.location))
        return [
            tuple(index for place, element in enumerate(elements) if mask >> place & 1 for index in element)
            for mask in range((1 << len(elements)) - 1, -1, -1)
        ]
    return [tuple(index for element in elements for index in element)]
