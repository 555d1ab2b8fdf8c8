"""DEFAULT expressions of columns: checked when they are given, and the text that the catalog keeps of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from planner.definitions.expression_text import NotPrintable, expression_text
from planner.errors import DatatypeMismatch
from planner.expressions.bind import DEFAULT_CLAUSE, bind_clause
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Scalar
from planner.queries.changes.column_values import assign, bound_query
from planner.queries.grammar import new_statement
from planner.queries.relations import bind_in_view
from planner.queries.stored_expressions import parse_expression
from planner.resolution.domains import default_of
from planner.resolution.query import one_row_query
from planner.resolution.statement import BindContext, Level, Statement
from planner.syntax.parse import Parsed, Tree
from planner.types.type_names import format_type
from planner.types.type_scope import names_to_keep
from planner.types.types import SqlType
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

    def bind(statement: Statement, level: Level, tree: Tree) -> BoundQuery:
        assigned = _assigned(statement, level, tree, column, type)
        return bound_query(statement, one_row_query(statement, [assigned], [column]))

    if written is not None:
        statement = new_statement(written, context)
        return bind(statement, Level(statement, None), written.tree)
    return _bound(text, context, bind)


def stored_default(text: str, column: str, type: SqlType, context: BindContext) -> str | None:
    """What the catalog keeps of a DEFAULT that `bind_default` accepts: the text as PostgreSQL prints it, constants with
    their types and read by the session's settings of now; nothing of a NULL."""

    def bind(statement: Statement, level: Level, tree: Tree) -> str | None:
        if tree.HasField("a_const") and tree.a_const.isnull and default_of(type.domain) is None:
            return None
        statement.written = {}
        try:
            assigned = _assigned(statement, level, tree, column, type)
            with names_to_keep():
                return expression_text(assigned, {}, statement.written)
        except NotPrintable:
            return text

    return _bound(text, context, bind)


def _assigned(statement: Statement, level: Level, tree: Tree, column: str, type: SqlType) -> Scalar:
    target = Column(attnum=1, name=column, type_oid=type.declared_oid, typmod=type.declared_typmod)
    expr = bind_clause(level, tree, DEFAULT_CLAUSE)
    try:
        return assign(statement, expr, target, type)
    except DatatypeMismatch:
        raise DatatypeMismatch(
            f'column "{column}" is of type {format_type(type.oid)} but default expression is of type '
            f"{format_type(expr.type.oid)}",
            hint="You will need to rewrite or cast the expression.",
        ) from None


def _bound(text: str, context: BindContext, bind: Callable[[Statement, Level, Tree], _T]) -> _T:
    parsed, tree = parse_expression(text)
    statement = new_statement(parsed, context)
    result: _T = bind_in_view(statement, lambda level: bind(statement, level, tree), parsed)
    return result
