"""Expressions: from parse trees to typed scalars.

`bind` takes any expression node in the scope of a `Level`. What depends on where the expression stands (aggregates,
window functions, set-returning functions) is judged by `level.clause`. Each module of the package binds some kinds of
node: those in its `HANDLERS`, which `planner.queries.grammar` gathers.
"""

from __future__ import annotations

from planner.errors import FeatureNotSupported
from planner.ir.nodes import Scalar
from planner.resolution.statement import Level
from planner.syntax.parse import Tree

DEFAULT_CLAUSE = "DEFAULT expressions"
TRANSFORM_CLAUSE = "transform expressions"
CHECK_CLAUSE = "check constraints"
GENERATION_CLAUSE = "column generation expressions"
INDEX_CLAUSE = "index expressions"
PREDICATE_CLAUSE = "index predicates"
STATISTICS_CLAUSE = "statistics expressions"
COPY_CLAUSE = "COPY FROM WHERE conditions"
POLICY_CLAUSE = "policy expressions"
CALL_CLAUSE = "CALL arguments"
MERGE_CLAUSE = "MERGE WHEN conditions"
EXECUTE_CLAUSE = "EXECUTE parameters"
DEFINITION_CLAUSES = frozenset(
    {
        DEFAULT_CLAUSE, TRANSFORM_CLAUSE, CHECK_CLAUSE, GENERATION_CLAUSE, INDEX_CLAUSE, PREDICATE_CLAUSE,
        STATISTICS_CLAUSE, COPY_CLAUSE,
    }
)  # fmt: skip
"""What may hold no subquery and no parameter; a default no column either. (A transform is ALTER COLUMN TYPE's USING.)
"""
WITHOUT_SUBQUERIES = DEFINITION_CLAUSES | {CALL_CLAUSE, EXECUTE_CLAUSE}


def bind(level: Level, node: Tree) -> Scalar:
    """The scalar for an expression `Node`. Raises PostgreSQL's errors of analysis."""
    kind = node.WhichOneof("node")
    handler = level.statement.grammar.expressions.get(kind)
    if handler is None:
        raise FeatureNotSupported(f"{(kind or 'this expression').replace('_', ' ')} is not supported")
    return handler(level, getattr(node, kind))


def bind_clause(level: Level, node: Tree, clause: str) -> Scalar:
    """`bind` with `level.clause` set to the clause that the expression stands in."""
    outer = level.clause
    level.clause = clause
    try:
        return bind(level, node)
    finally:
        level.clause = outer
