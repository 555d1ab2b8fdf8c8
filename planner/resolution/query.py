"""Queries, whatever their form: analysis, then relational nodes.

Binding a query has two steps. First it is analyzed: names, types, target lists. Unknown literals among its output
columns stay unknown, because what surrounds the query (a set operation, an INSERT) may give them a type. Then it is
built into relational nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.errors import FeatureNotSupported
from planner.ir.nodes import ColumnRef, Field, OneRow, Project, Rel, Scalar
from planner.resolution.casting import coerce, resolve_unknown, to_common, with_shape
from planner.resolution.coercion import Context
from planner.resolution.statement import Analyzed, Level, Statement
from planner.syntax.parse import Tree
from planner.types.types import UNKNOWN, SqlType


def bind_query(level: Level, tree: Tree) -> Rel:
    """The relation of a SelectStmt bound in `level` (a level of its own), unknown columns as text."""
    return built(level, analyze_query(level, tree), tree)


def built(level: Level, analyzed: Analyzed, tree: Tree) -> Rel:
    """The relation of an analyzed SelectStmt, unknown columns as text."""
    resolve_unknown_columns(analyzed)
    rel = analyzed.build()
    notes = level.statement.notes
    if notes is not None:
        notes.queries[id(rel)] = (rel, analyzed, tree)
    return rel


def bind_subquery(level: Level, node: Tree) -> Rel:
    """The relation of a subquery inside an expression of `level`."""
    if not node.HasField("select_stmt"):
        raise FeatureNotSupported("this kind of subquery is not supported")
    return bind_query(Level(level.statement, level), node.select_stmt)


def analyze_query(level: Level, tree: Tree) -> Analyzed:
    """Analysis of a SelectStmt of any form in its own `level`."""
    return level.statement.grammar.query(level, tree)


def resolve_unknown_columns(analyzed: Analyzed) -> None:
    """Gives columns of unknown type the type text."""
    statement = analyzed.level.statement
    for index, type in enumerate(analyzed.types):
        if type.oid == UNKNOWN:
            expr = analyzed.column_expr(index)
            if expr is not None:
                analyzed.set_column(index, resolve_unknown(statement, expr))


def coerce_column(query: Analyzed, index: int, oid: int, construct: str) -> None:
    """Gives a column of unknown type the type that `construct` (UNION, ...) has chosen."""
    expr = query.column_expr(index)
    if expr is not None:
        query.set_column(index, to_common(query.level.statement, expr, oid, construct))


def column_position(query: Analyzed, index: int) -> int | None:
    """The error position of a column's expression."""
    expr = query.column_expr(index)
    return query.level.statement.position_of(expr) if expr is not None else None


def first_position(query: Analyzed) -> int | None:
    """The error position of the first column's expression."""
    return column_position(query, 0) if query.types else None


def cast_columns(statement: Statement, rel: Rel, types: Sequence[SqlType]) -> Rel:
    """`rel` with its columns cast implicitly to `types`; `rel` itself when they have them."""
    if all(field.type == type for field, type in zip(rel.fields, types, strict=True)):
        return rel
    exprs: list[Scalar] = []
    fields: list[Field] = []
    for field, type in zip(rel.fields, types, strict=True):
        expr: Scalar = ColumnRef(id=field.id, type=field.type)
        if field.type.oid != type.oid:
            expr = coerce(statement, expr, type, Context.IMPLICIT)
        expr = with_shape(statement, expr, type)
        exprs.append(expr)
        origin = field.origin if isinstance(expr, ColumnRef) else None
        cast_type = SqlType(type.oid, type.typmod, expr.type.shape, dimensioned=expr.type.dimensioned)
        fields.append(statement.new_field(field.name, cast_type, origin))
    return Project(input=rel, exprs=tuple(exprs), fields=tuple(fields))


def single_column(statement: Statement, rel: Rel, index: int) -> Rel:
    """`rel` reduced to one of its columns."""
    field = rel.fields[index]
    if len(rel.fields) == 1:
        return rel
    target = statement.new_field(field.name, field.type, field.origin)
    return Project(input=rel, exprs=(ColumnRef(id=field.id, type=field.type),), fields=(target,))


def one_row_query(statement: Statement, exprs: Sequence[Scalar], names: Sequence[str]) -> Rel:
    """A query of one row with these expressions."""
    fields = tuple(statement.new_field(name, expr.type) for name, expr in zip(names, exprs, strict=True))
    return Project(input=OneRow(), exprs=tuple(exprs), fields=fields)
