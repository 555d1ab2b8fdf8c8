"""UNION, INTERSECT and EXCEPT."""

from __future__ import annotations

from typing import Any

from planner.errors import DatatypeMismatch, FeatureNotSupported, SqlError, SqlSyntaxError
from planner.ir.nodes import ColumnRef, Origin, Rel, Scalar, SetOperation
from planner.queries.query_tail import QueryTail
from planner.queries.row_locking import clause_name
from planner.resolution.casting import to_common, unified_type
from planner.resolution.coercion import common_type
from planner.resolution.operators import check_groupable
from planner.resolution.query import analyze_query, cast_columns, coerce_column, column_position, first_position
from planner.resolution.statement import Analyzed, Level
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree
from planner.types.type_names import format_type
from planner.types.types import UNKNOWN, SqlType

_SET_OPERATIONS = {pb.SETOP_UNION: "UNION", pb.SETOP_INTERSECT: "INTERSECT", pb.SETOP_EXCEPT: "EXCEPT"}


class SetQuery:
    """UNION, INTERSECT or EXCEPT with its ORDER BY and LIMIT."""

    def __init__(self, level: Level, tree: Tree) -> None:
        self.level = level
        _refuse_locking(tree)
        self.root = _SetNode(level, tree)
        self.tail = QueryTail(level, tree, self.names, self.types, _unordered)

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
        return SetOperation(op=op, all=self.all, left=left, right=right, fields=fields)


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
