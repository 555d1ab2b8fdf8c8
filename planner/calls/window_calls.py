"""Calls of window functions, and of aggregates as such. Their windows are `planner.queries.windows`'s."""

from __future__ import annotations

from msgspec import Struct

from planner.calls.overloads import Resolved
from planner.errors import FeatureNotSupported, WindowingError, WrongObjectType
from planner.expressions.bind import bind_clause
from planner.ir.nodes import ColumnRef, Scalar
from planner.ir.rewrite import walk
from planner.resolution.casting import to_boolean
from planner.resolution.statement import Level
from planner.syntax.parse import Tree
from planner.types.signature import Kind, Signature
from planner.types.types import SqlType

_ALLOWED_CLAUSES = frozenset({"SELECT", "ORDER BY", "DISTINCT ON"})


class PendingWindow(Struct):
    """A window function whose window is bound when the query's FROM and WINDOW clauses are."""

    signature: Signature
    args: tuple[Scalar, ...]
    type: SqlType
    definition: Tree
    filter: Scalar | None


def window_call(level: Level, resolved: Resolved, tree: Tree, name: str, start_srfs: int) -> Scalar:
    """A call with OVER: a reference to the column that the query's `Window` will compute. Set-returning functions from
    `start_srfs` on stand in the arguments."""
    statement = level.statement
    position = statement.position(tree.location)
    if level.clause not in _ALLOWED_CLAUSES:
        if level.clause == "window":
            raise WindowingError("window functions are not allowed in window definitions", position=position)
        raise WindowingError(f"window functions are not allowed in {level.clause}", position=position)
    if len(level.srfs) > start_srfs:
        raise FeatureNotSupported(
            "window function calls cannot contain set-returning function calls",
            hint="You might be able to move the set-returning function into a LATERAL FROM item.",
            position=statement.position(level.srf_locations[start_srfs]),
        )
    if tree.agg_distinct:
        raise FeatureNotSupported("DISTINCT is not implemented for window functions", position=position)
    if tree.agg_order:
        raise FeatureNotSupported("aggregate ORDER BY is not implemented for window functions", position=position)
    if resolved.signature.kind is Kind.WINDOW and tree.HasField("agg_filter"):
        raise FeatureNotSupported("FILTER is not implemented for non-aggregate window functions", position=position)
    if resolved.signature.kind is Kind.AGGREGATE and not tree.args and not tree.agg_star:
        raise WrongObjectType(f"{name}(*) must be used to call a parameterless aggregate function", position=position)
    for part in walk(tuple(resolved.args)):
        if isinstance(part, ColumnRef) and statement.window_owner.get(part.id) is level:
            raise WindowingError("window function calls cannot be nested", position=statement.position_of(part))
    condition: Scalar | None = None
    if tree.HasField("agg_filter"):
        condition = to_boolean(statement, bind_clause(level, tree.agg_filter, "FILTER"), "FILTER")
    field = statement.new_field(resolved.signature.name, resolved.type)
    statement.window_owner[field.id] = level
    pending = PendingWindow(resolved.signature, tuple(resolved.args), resolved.type, tree.over, condition)
    level.windows.append((pending, field))
    result: Scalar = statement.at(ColumnRef(id=field.id, type=field.type), tree.location)
    return result
