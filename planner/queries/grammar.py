"""The grammar put together: what binds each kind of expression, and each form of query."""

from __future__ import annotations

from collections.abc import Iterable

from planner.calls import aggregate_calls, calls
from planner.errors import SqlSyntaxError
from planner.expressions import arrays, casts, conditionals, indirection, leaves, logic, operations, rows, subqueries
from planner.ir.nodes import CommonTable
from planner.queries.common_tables import WithQuery, bind_with
from planner.queries.select import SelectQuery
from planner.queries.set_operations import SetQuery
from planner.queries.stored_expressions import bind_domain_check, bind_policy
from planner.queries.values import ValuesQuery
from planner.resolution.statement import Analyzed, BindContext, Grammar, Level, Statement
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Parsed, Tree


def new_statement(parsed: Parsed, context: BindContext, declared: Iterable[int] = ()) -> Statement:
    """The state for binding `parsed`. `declared` are the type oids given for $1, $2, ... (0: not said)."""
    return Statement(parsed, context, _GRAMMAR, declared)


def _analyze_query(level: Level, tree: Tree) -> Analyzed:
    """Analysis of a SelectStmt of any form in its own `level`."""
    tables: list[CommonTable] = []
    if tree.HasField("with_clause"):
        tables = bind_with(level, tree.with_clause)
    if tree.HasField("into_clause"):
        raise SqlSyntaxError("SELECT ... INTO is not allowed here",
                             position=level.statement.position(tree.into_clause.rel.location))  # fmt: skip
    analyzed: Analyzed
    if tree.op != pb.SETOP_NONE:
        analyzed = SetQuery(level, tree)
    elif tree.values_lists:
        analyzed = ValuesQuery(level, tree)
    else:
        analyzed = SelectQuery(level, tree)
    return WithQuery(analyzed, tables) if tables else analyzed


_GRAMMAR = Grammar(
    expressions={
        **leaves.HANDLERS,
        **operations.HANDLERS,
        **logic.HANDLERS,
        **conditionals.HANDLERS,
        **arrays.HANDLERS,
        **rows.HANDLERS,
        **indirection.HANDLERS,
        **casts.HANDLERS,
        **subqueries.HANDLERS,
        **calls.HANDLERS,
        **aggregate_calls.HANDLERS,
    },
    query=_analyze_query,
    domain_check=bind_domain_check,
    policy=bind_policy,
    field_function=calls.field_function,
)
