"""The binder's entry: a parsed statement becomes a bound query or change of rows, or a utility statement.

    parsed, = split_and_parse("SELECT a FROM t WHERE b = $1")
    bound = analyze(parsed, context, declared_param_types=())      # BoundQuery(rel=..., param_types=(int4,), ...)

Pure: no I/O, no clock; the same text, context and parameter types always give the same result. Every error is one that
PostgreSQL's analysis raises, with its SQLSTATE, text, hint and position.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from planner.collations.conflicts import with_collations
from planner.command_tags import command_tag
from planner.common_errors import too_deep
from planner.definitions.views import ViewDefinition, define_query, define_view
from planner.errors import DatatypeMismatch, SqlError, SqlSyntaxError
from planner.expressions.bind import EXECUTE_CLAUSE, bind_clause
from planner.files.past_queries import as_it_was, at_moment, moment_of
from planner.ir.barriers import settled
from planner.ir.bound import BoundDelete, BoundInsert, BoundQuery, BoundStatement, BoundUpdate
from planner.ir.nodes import Scalar
from planner.queries.changes.changes import CHANGES, bind_change
from planner.queries.changes.column_values import bound_query
from planner.queries.changes.modifying_with import with_steps
from planner.queries.grammar import new_statement
from planner.queries.in_from.unnamed import first_unnamed
from planner.resolution.casting import coerce_to_target
from planner.resolution.coercion import Context
from planner.resolution.query import bind_query, one_row_query
from planner.resolution.reg_types import find_relation_oid
from planner.resolution.statement import BindContext, Level, WithChanges
from planner.statements import records as st
from planner.syntax.parse import Parsed
from planner.types.type_names import UnknownName, format_type
from planner.types.types import SqlType

AnyStatement: TypeAlias = BoundStatement | st.UtilityStatement

_RECURSION_LIMIT = 25_000
"""Python frames that binding may use: what nests a thousand times takes up to twenty for each. Deep statements are
bound on threads whose stacks have room for it."""


def analyze(
    parsed: Parsed, context: BindContext, declared_param_types: Sequence[int] = (), most_weight: int | None = None
) -> AnyStatement:
    """Binds a statement. `declared_param_types` are the type oids that the client gave for $1, $2, ... (0: not said).
    With `most_weight`, TakesLong is raised for a statement that is about more columns (see `Statement.most_weight`).

    Raises a `SqlError`: 42P01, 42703, 42883, 42804, 22P02, 0A000, ...
    """
    if sys.getrecursionlimit() < _RECURSION_LIMIT:
        sys.setrecursionlimit(_RECURSION_LIMIT)
    try:
        return _analyze(parsed, context, declared_param_types, most_weight)
    except RecursionError:
        raise too_deep() from None
    except SqlError:
        refused = first_unnamed(parsed, parsed.tree)
        if refused is None:
            raise
        raise refused from None


def _analyze(parsed: Parsed, context: BindContext, declared: Sequence[int], most_weight: int | None) -> AnyStatement:
    kind = parsed.kind
    if kind == "select_stmt":
        leftmost = parsed.tree
        while leftmost.HasField("larg"):
            leftmost = leftmost.larg
        if leftmost.HasField("into_clause"):
            return _utility(parsed, context)
    if kind == "select_stmt" or kind in CHANGES:
        statement = new_statement(parsed, context, declared)
        statement.most_weight = most_weight
        statement.with_changes = WithChanges(bind=bind_change)
        level = Level(statement, None)
        if kind in CHANGES:
            bound = with_steps(statement, CHANGES[kind](level, parsed.tree))
        else:
            moment = moment_of(statement)
            with at_moment(statement, moment):
                rel = bind_query(level, parsed.tree)
            bound = with_steps(statement, bound_query(statement, as_it_was(statement, moment, rel)))
        bound = with_collations(replace(bound, required=statement.required.all()), parsed.text, context.catalog)
        return settled(bound, statement.is_leakproof) if statement.has_barriers else bound
    return _utility(parsed, context)


def _utility(parsed: Parsed, context: BindContext) -> st.UtilityStatement:
    # NOTE: imported here, so that a server loads this half of the grammar when the first such statement comes.
    from planner.utility.alterations import without_actions
    from planner.utility.queries import select_into
    from planner.utility.statements import utility_statement

    try:
        return select_into(parsed) if parsed.kind == "select_stmt" else utility_statement(parsed)
    except (UnknownName, DatatypeMismatch) as error:
        if parsed.kind == "alter_table_stmt":
            bare = without_actions(parsed)
            if find_relation_oid(context, bare.name.schema, bare.name.name) is None:
                # That there is no table is said first, or noticed.
                return bare
        raise error.judged(context.catalog, context.database) if isinstance(error, UnknownName) else error from None


def bind_execute(execute: st.Execute, param_types: Sequence[SqlType], context: BindContext) -> BoundQuery:
    """The parameters of EXECUTE as a query of one row, cast to the prepared statement's types.

    Raises 42601 for a wrong number of parameters, 42804 for one that cannot be cast.
    """
    if execute.count != len(param_types):
        raise SqlSyntaxError(
            f'wrong number of parameters for prepared statement "{execute.name}"',
            detail=f"Expected {len(param_types)} parameters but got {execute.count}.",
        )
    statement = new_statement(execute.statement, context)
    level = Level(statement, None)
    exprs: list[Scalar] = []
    for number, (node, type) in enumerate(zip(execute.statement.tree.params, param_types, strict=True), 1):
        expr = bind_clause(level, node, EXECUTE_CLAUSE)
        converted = coerce_to_target(statement, expr, type, Context.ASSIGNMENT)
        if converted is None:
            raise DatatypeMismatch(
                f"parameter ${number} of type {format_type(expr.type.oid)} cannot be coerced to the expected type "
                f"{format_type(type.oid)}",
                hint="You will need to rewrite or cast the expression.",
                position=statement.position_of(expr),
            )
        exprs.append(converted)
    names = [f"p{number}" for number in range(1, len(exprs) + 1)]
    return bound_query(statement, one_row_query(statement, exprs, names))


__all__ = [
    "AnyStatement", "BindContext", "BoundDelete", "BoundInsert", "BoundQuery", "BoundUpdate", "ViewDefinition",
    "analyze", "bind_execute", "command_tag", "define_query", "define_view",
]  # fmt: skip
