"""AND, OR and NOT; IS NULL and IS TRUE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import DatatypeMismatch
from planner.expressions.bind import bind
from planner.expressions.rows import field_of
from planner.ir.nodes import BooleanTest, BoolOp, IsNull, Literal, RowConstructor, Scalar
from planner.resolution.casting import resolve_unknown, to_boolean
from planner.resolution.operators import BOOLEAN
from planner.resolution.statement import Handler, Level
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree
from planner.types.user_types import attributes


def bind_condition(level: Level, node: Tree, construct: str) -> Scalar:
    """The condition that `construct` takes. 42804 for another type, and for one with a set-returning function."""
    before = len(level.srfs)
    return as_condition(level, bind(level, node), construct, before)


def as_condition(level: Level, expr: Scalar, construct: str, before: int) -> Scalar:
    """`expr` as `bind_condition` has it; there were `before` set-returning functions before it."""
    condition = to_boolean(level.statement, expr, construct)
    if len(level.srfs) > before:
        raise DatatypeMismatch(
            f"argument of {construct} must not return a set", position=level.statement.position_of(condition)
        )
    return condition


def _bool_expr(level: Level, tree: Tree) -> Scalar:
    names = {pb.AND_EXPR: "AND", pb.OR_EXPR: "OR", pb.NOT_EXPR: "NOT"}
    name = names[tree.boolop]
    args = tuple(bind_condition(level, node, name) for node in tree.args)
    op: Any = name.lower()
    first = level.statement.location(args[0])
    where = min(first, tree.location) if first >= 0 and op != "not" else tree.location
    return level.statement.at(BoolOp(op=op, args=args, type=BOOLEAN), where)


def _null_test(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    negated = tree.nulltesttype == pb.IS_NOT_NULL
    arg = bind(level, tree.arg)
    where = statement.location(arg)
    if isinstance(arg, RowConstructor):
        if not arg.items:
            return Literal(value=True, type=BOOLEAN)
        items = (resolve_unknown(statement, item) if isinstance(item, Literal) else item for item in arg.items)
        parts = tuple(IsNull(arg=item, negated=negated, type=BOOLEAN) for item in items)
        result: Scalar = parts[0] if len(parts) == 1 else BoolOp(op="and", args=parts, type=BOOLEAN)
        statement.written_as(result, IsNull(arg=arg, negated=negated, type=BOOLEAN))
        return statement.at(result, where)
    fields = attributes(arg.type.oid)
    if fields:
        parts = tuple(IsNull(arg=field_of(arg, index), negated=negated, type=BOOLEAN) for index in range(len(fields)))
        result = parts[0] if len(parts) == 1 else BoolOp(op="and", args=parts, type=BOOLEAN)
        statement.written_as(result, IsNull(arg=arg, negated=negated, type=BOOLEAN))
        return statement.at(result, where)
    if isinstance(arg, Literal):
        arg = resolve_unknown(statement, arg)
    return statement.at(IsNull(arg=arg, negated=negated, type=BOOLEAN), where)


_TESTS: dict[int, tuple[str, bool, str]] = {
    pb.IS_TRUE: ("true", False, "IS TRUE"),
    pb.IS_NOT_TRUE: ("true", True, "IS NOT TRUE"),
    pb.IS_FALSE: ("false", False, "IS FALSE"),
    pb.IS_NOT_FALSE: ("false", True, "IS NOT FALSE"),
    pb.IS_UNKNOWN: ("unknown", False, "IS UNKNOWN"),
    pb.IS_NOT_UNKNOWN: ("unknown", True, "IS NOT UNKNOWN"),
}


def _boolean_test(level: Level, tree: Tree) -> Scalar:
    test, negated, name = _TESTS[tree.booltesttype]
    arg = bind_condition(level, tree.arg, name)
    kind: Any = test
    result = BooleanTest(arg=arg, test=kind, negated=negated, type=BOOLEAN)
    return level.statement.at(result, level.statement.location(arg))


HANDLERS: Mapping[str, Handler] = {
    "bool_expr": _bool_expr,
    "null_test": _null_test,
    "boolean_test": _boolean_test,
}
