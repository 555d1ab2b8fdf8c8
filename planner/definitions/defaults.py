"""DEFAULT expressions of columns: checked when they are given, and the text that the catalog keeps of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from planner.definitions.deparse import literal_text
from planner.errors import DatatypeMismatch
from planner.expressions.bind import DEFAULT_CLAUSE, bind_clause
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Literal, Scalar
from planner.queries.dml import assign, bound_query, parse_expression
from planner.queries.grammar import new_statement
from planner.queries.relations import bind_in_view
from planner.resolution.casting import coerce_to_target
from planner.resolution.coercion import Context
from planner.resolution.query import one_row_query
from planner.resolution.statement import BindContext, Level, Statement
from planner.syntax.parse import Parsed, Tree
from planner.types.type_names import format_type
from planner.types.types import REG_TYPES, UNKNOWN, SqlType
from storage.catalog.model import Column

_T = TypeVar("_T")


def bind_default(
    text: str, column: str, type: SqlType, context: BindContext, written: Parsed | None = None
) -> BoundQuery:
    """A DEFAULT expression for a column of `type`, as a query of one row and column. Errors have positions where
    `written`, the expression as it stands in its statement, is given.

    Raises 42804 when it cannot be assigned to the column, 0A000 for column references and subqueries, 42803 and the
    like.
    """
    target = Column(attnum=1, name=column, type_oid=type.oid, typmod=type.typmod)

    def bind(statement: Statement, level: Level, tree: Tree) -> BoundQuery:
        expr = bind_clause(level, tree, DEFAULT_CLAUSE)
        try:
            assigned = assign(statement, expr, target, type)
        except DatatypeMismatch:
            raise DatatypeMismatch(
                f'column "{column}" is of type {format_type(type.oid)} but default expression is of type '
                f"{format_type(expr.type.oid)}",
                hint="You will need to rewrite or cast the expression.",
            ) from None
        return bound_query(statement, one_row_query(statement, [assigned], [column]))

    if written is not None:
        statement = new_statement(written, context)
        return bind(statement, Level(statement, None), written.tree)
    return _bound(text, context, bind)


def stored_default(text: str, type: SqlType, context: BindContext) -> str | None:
    """What the catalog keeps of a DEFAULT that `bind_default` accepts: a constant as PostgreSQL prints it, with its
    type and read by the session's settings of now; any other expression as it is; nothing of a NULL."""

    def bind(statement: Statement, level: Level, tree: Tree) -> str | None:
        constant = tree.a_const if tree.HasField("a_const") else None
        if constant is not None and constant.isnull:
            return None
        if tree.HasField("sqlvalue_function"):
            return text.upper()
        cast = tree.HasField("type_cast") and tree.type_cast.arg.HasField("a_const")
        if constant is None and not cast:
            return text
        expr: Scalar | None = bind_clause(level, tree, DEFAULT_CLAUSE)
        if expr is not None and expr.type.oid == UNKNOWN:
            expr = coerce_to_target(statement, expr, type.without_typmod(), Context.ASSIGNMENT)
        if not isinstance(expr, Literal) or expr.value is None or expr.type.oid in REG_TYPES:
            return text
        return literal_text(expr)

    return _bound(text, context, bind)


def _bound(text: str, context: BindContext, bind: Callable[[Statement, Level, Tree], _T]) -> _T:
    parsed, tree = parse_expression(text)
    statement = new_statement(parsed, context)
    result: _T = bind_in_view(statement, lambda level: bind(statement, level, tree), parsed)
    return result
