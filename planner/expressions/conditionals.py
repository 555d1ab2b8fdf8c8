"""CASE, COALESCE, GREATEST and LEAST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.expressions.bind import bind
from planner.expressions.logic import as_condition
from planner.ir.nodes import Case, Coalesce, Literal, MinMax, Scalar
from planner.ir.written import SimpleCase
from planner.resolution.casting import finish_row, resolve_unknown, unify
from planner.resolution.operators import make_operator
from planner.resolution.statement import Handler, Level
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree
from planner.types.types import UNKNOWN, SqlType


class _Barrier:
    """Inside it set-returning functions are refused, naming the construct; with None whoever binds sees to them."""

    def __init__(self, level: Level, construct: str | None) -> None:
        self.level, self.construct = level, construct

    def __enter__(self) -> None:
        self.outer = self.level.srf_barrier
        self.level.srf_barrier = self.construct

    def __exit__(self, *args: object) -> None:
        self.level.srf_barrier = self.outer


def _case(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    with _Barrier(level, "CASE"):
        written = resolve_unknown(statement, bind(level, tree.arg)) if tree.HasField("arg") else None
        subject, whole = (None, None) if written is None else statement.once(written)
        conditions: list[Scalar] = []
        results: list[Scalar] = []
        for node in tree.args:
            when = node.case_when
            before = len(level.srfs)
            with _Barrier(level, None):
                condition = bind(level, when.expr)
            if subject is not None:
                condition = make_operator(level, ("=",), subject, condition, when.location)
            conditions.append(as_condition(level, condition, "CASE/WHEN", before))
            results.append(finish_row(level.statement, bind(level, when.result)))
        if tree.HasField("defresult"):
            otherwise: Scalar = finish_row(level.statement, bind(level, tree.defresult))
        else:
            otherwise = Literal(value=None, type=SqlType(UNKNOWN))
    values, type = unify(statement, [otherwise, *results], "CASE")
    whens = tuple(zip(conditions, values[1:], strict=True))
    result = Case(whens=whens, otherwise=values[0] if tree.HasField("defresult") else None, type=type)
    if written is None or whole is None:
        return statement.at(result, tree.location)
    form = SimpleCase(subject=written, case=result)
    return statement.at(statement.written_as(whole(result), form), tree.location)


def _coalesce(level: Level, tree: Tree) -> Scalar:
    with _Barrier(level, "COALESCE"):
        args = [bind(level, node) for node in tree.args]
    values, type = unify(level.statement, args, "COALESCE")
    return level.statement.at(Coalesce(args=tuple(values), type=type), tree.location)


def _min_max(level: Level, tree: Tree) -> Scalar:
    op: Any = "greatest" if tree.op == pb.IS_GREATEST else "least"
    values, type = unify(level.statement, [bind(level, node) for node in tree.args], op.upper())
    return level.statement.at(MinMax(op=op, args=tuple(values), type=type), tree.location)


HANDLERS: Mapping[str, Handler] = {
    "case_expr": _case,
    "coalesce_expr": _coalesce,
    "min_max_expr": _min_max,
}
