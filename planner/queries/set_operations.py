"""UNION, INTERSECT and EXCEPT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from planner.errors import DatatypeMismatch, FeatureNotSupported, SqlError, SqlSyntaxError
from planner.ir.nodes import ColumnRef, Origin, Project, Rel, Scalar, SetOperation
from planner.queries.query_tail import QueryTail
from planner.queries.row_locking import clause_name
from planner.resolution.casting import to_common, unified_type
from planner.resolution.coercion import common_type
from planner.resolution.operators import check_groupable
from planner.resolution.query import analyze_query, cast_columns, coerce_column, column_position, first_position
from planner.resolution.records import compared_by, is_record, may_look_different, record_fields
from planner.resolution.statement import Analyzed, Level, NsColumn, NsItem
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree
from planner.types.type_names import format_type
from planner.types.types import UNKNOWN, SqlType

_SET_OPERATIONS = {pb.SETOP_UNION: "UNION", pb.SETOP_INTERSECT: "INTERSECT", pb.SETOP_EXCEPT: "EXCEPT"}


RecordFields: TypeAlias = tuple[tuple[str, SqlType], ...]


class SetQuery:
    """UNION, INTERSECT or EXCEPT with its ORDER BY and LIMIT."""

    def __init__(self, level: Level, tree: Tree) -> None:
        self.level = level
        _refuse_locking(tree)
        self.root = _SetNode(level, tree)
        if tree.sort_clause:
            level.rtes += self._sides()
        self.tail = QueryTail(level, tree, self.names, self.types, _unordered)

    def _sides(self) -> list[NsItem]:
        """The sides as PostgreSQL calls them, which hints of errors in ORDER BY name."""
        return [
            NsItem(alias=f"*SELECT* {number}", columns=[NsColumn(name) for name in side.names])
            for number, side in enumerate(self.root.sides(), 1)
        ]

    @property
    def names(self) -> list[str]:
        return self.root.names

    @property
    def types(self) -> list[SqlType]:
        return self.root.types

    def origins(self) -> list[Origin | None]:
        return [None] * len(self.root.types)

    def column_expr(self, index: int) -> Scalar | None:
        return self.root.column_expr(index)

    def set_column(self, index: int, expr: Scalar) -> None:
        raise AssertionError("a set operation's columns have types")

    def build(self) -> Rel:
        return self.tail.put_on(self.root.build())


def _unordered(position: int | None) -> SqlError:
    return FeatureNotSupported(
        "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
        detail="Only result column names can be used, not expressions or functions.",
        hint="Add the expression/function to every SELECT, or move the UNION into a FROM clause.",
        position=position,
    )


class _SetNode:
    """One set operation of a tree of them; its sides are set operations or queries."""

    def __init__(self, level: Level, tree: Tree) -> None:
        statement = level.statement
        self.level = level
        self.operation = _SET_OPERATIONS[tree.op]
        self.all = tree.all
        self.left = _set_side(level, tree.larg)
        self.right = _set_side(level, tree.rarg)
        left, right = self.left.types, self.right.types
        if len(left) != len(right):
            raise SqlSyntaxError(
                f"each {self.operation} query must have the same number of columns",
                position=first_position(self.right),
            )
        self.names = self.left.names
        self.types: list[SqlType] = []
        self.made: Rel | None = None
        """What has been built, where it has the fields of records beside them."""
        self.parts: dict[int, tuple[int, int]] = {}
        """Of a column of records, where those are among the columns of the input of `made`: the first, and how many."""
        for index in range(len(left)):
            a, b = left[index], right[index]
            chosen = common_type([a.oid, b.oid])
            if chosen is None:
                raise DatatypeMismatch(
                    f"{self.operation} types {format_type(a.oid)} and {format_type(b.oid)} cannot be matched",
                    position=column_position(self.right, index),
                )
            sides = []
            for query, type in ((self.left, a), (self.right, b)):
                expr = query.column_expr(index)
                if type.oid == UNKNOWN and expr is not None:
                    coerce_column(query, index, chosen, self.operation)
                    sides.append(query.types[index])
                elif type.oid != chosen:
                    sample: Scalar = expr if expr is not None else ColumnRef(id=0, type=type)
                    sides.append(to_common(statement, sample, chosen, self.operation).type)
                else:
                    sides.append(type)
            self.types.append(unified_type(sides, chosen))
            if not tree.all or self.operation != "UNION":
                sample = self.left.column_expr(index) or ColumnRef(id=0, type=self.types[-1])
                check_groupable(level, sample if sample.type.oid == chosen else ColumnRef(id=0, type=self.types[-1]))

    def sides(self) -> Iterator[Analyzed]:
        """The queries that are no set operations, from left to right."""
        for side in (self.left, self.right):
            if isinstance(side, _SetNode):
                yield from side.sides()
            else:
                yield side

    def origins(self) -> list[Origin | None]:
        return [None] * len(self.types)

    def column_expr(self, index: int) -> Scalar | None:
        return self.left.column_expr(index)

    def set_column(self, index: int, expr: Scalar) -> None:
        raise AssertionError("a set operation's columns have types")

    def build(self) -> Rel:
        statement = self.level.statement
        left = cast_columns(statement, self.left.build(), self.types)
        right = cast_columns(statement, self.right.build(), self.types)
        fields = tuple(statement.new_field(name, type) for name, type in zip(self.names, self.types, strict=True))
        op: Any = self.operation.lower()
        for place, field in enumerate(fields):
            known = _fields_of_both(*[record_fields(self.level, _column(side, place)) for side in (left, right)])
            if known is not None:
                statement.record_columns[field.id] = known
        if not self.all or self.operation != "UNION":
            extended = self._with_fields_of_records(left, right)
            if extended is not None:
                left, right, by = extended
                added = tuple(statement.new_field("field", field.type) for field in left.fields[len(fields) :])
                whole = (*fields, *added)
                rel = SetOperation(op=op, all=self.all, left=left, right=right, fields=whole, by=by)
                outputs = tuple(statement.new_field(field.name, field.type) for field in fields)
                for field, output in zip(fields, outputs, strict=True):
                    if field.id in statement.record_columns:
                        statement.record_columns[output.id] = statement.record_columns[field.id]
                exprs = tuple(ColumnRef(id=field.id, type=field.type) for field in fields)
                self.made = Project(input=rel, exprs=exprs, fields=outputs)
                return self.made
        return SetOperation(op=op, all=self.all, left=left, right=right, fields=fields)

    def _with_fields_of_records(self, left: Rel, right: Rel) -> tuple[Rel, Rel, tuple[int, ...]] | None:
        """Both sides with the fields of their records as further columns, at the end, and the places of the columns
        that rows are told apart by; None where records that are equal look alike. Raises 42804 for records that cannot
        be compared."""
        by = list(range(len(self.types)))
        sides: list[list[Scalar]] = [[], []]
        count = len(self.types)
        for place, type in enumerate(self.types):
            if not is_record(type.oid):
                continue
            one, other = parts = self._parts(left, place), self._parts(right, place)
            if one is None or other is None:
                continue
            _check_comparable(one, other)
            if not may_look_different(one):
                continue
            by.remove(place)
            by.extend(range(count, count + len(one)))
            self.parts[place] = (count, len(one))
            count += len(one)
            for side, fields in zip(sides, parts, strict=True):
                side.extend(fields or ())
        if count == len(self.types):
            return None
        return self._extended(left, sides[0]), self._extended(right, sides[1]), tuple(by)

    def _parts(self, rel: Rel, place: int) -> tuple[Scalar, ...] | None:
        """What the records of a side's column are compared by, None where that is not known. A set operation has the
        fields beside it already."""
        for query in (self.left, self.right):
            if isinstance(query, _SetNode) and query.made is rel and isinstance(rel, Project) and place in query.parts:
                first, count = query.parts[place]
                found = rel.input.fields[first : first + count]
                return tuple(ColumnRef(id=field.id, type=field.type) for field in found)
        return compared_by(self.level, _column(rel, place))

    def _extended(self, rel: Rel, parts: Sequence[Scalar]) -> Rel:
        added = tuple(self.level.statement.new_field("field", part.type) for part in parts)
        if isinstance(rel, Project):
            return Project(input=rel.input, exprs=(*rel.exprs, *parts), fields=(*rel.fields, *added))
        exprs = tuple(ColumnRef(id=field.id, type=field.type) for field in rel.fields)
        return Project(input=rel, exprs=(*exprs, *parts), fields=(*rel.fields, *added))


def _column(rel: Rel, place: int) -> Scalar:
    """What a column is: where a projection computes it, its expression, of which more is known."""
    if isinstance(rel, Project):
        return rel.exprs[place]
    return ColumnRef(id=rel.fields[place].id, type=rel.fields[place].type)


def _fields_of_both(left: RecordFields | None, right: RecordFields | None) -> RecordFields | None:
    """The fields of the records of both sides, with types that hold the values of both; None where those differ."""
    if left is None or right is None or left == right:
        return left if right is not None else None
    if [(name, type.oid) for name, type in left] != [(name, type.oid) for name, type in right]:
        return None
    pairs = zip(left, right, strict=True)
    return tuple((name, unified_type([one, other], one.oid)) for (name, one), (_, other) in pairs)


def _check_comparable(left: Sequence[Scalar], right: Sequence[Scalar]) -> None:
    """record_eq's rules (rowtypes.c)."""
    if len(left) != len(right):
        raise DatatypeMismatch("cannot compare record types with different numbers of columns")
    for number, (one, other) in enumerate(zip(left, right, strict=True), 1):
        if one.type.oid != other.type.oid:
            raise DatatypeMismatch(
                f"cannot compare dissimilar column types {format_type(one.type.oid)} and {format_type(other.type.oid)} "
                f"at record column {number}"
            )


def _refuse_locking(tree: Tree) -> None:
    """0A000 for FOR UPDATE and its like over a set operation, or a side of one."""
    if tree.locking_clause:
        clause = clause_name(tree.locking_clause[0].locking_clause)
        raise FeatureNotSupported(f"{clause} is not allowed with UNION/INTERSECT/EXCEPT")


def _set_side(level: Level, tree: Tree) -> Analyzed:
    plain = not (
        tree.sort_clause
        or tree.HasField("limit_count")
        or tree.HasField("limit_offset")
        or tree.HasField("with_clause")
    )
    if tree.HasField("into_clause"):
        raise SqlSyntaxError(
            "INTO is only allowed on first SELECT of UNION/INTERSECT/EXCEPT",
            position=level.statement.position(tree.into_clause.rel.location),
        )
    _refuse_locking(tree)
    if tree.op != pb.SETOP_NONE and plain:
        return _SetNode(level, tree)
    return analyze_query(Level(level.statement, level), tree)
