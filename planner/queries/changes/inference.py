"""Which keys a conflict target means: by columns, expressions and the condition of partial indexes.

Source of the rules: PostgreSQL's infer_arbiter_indexes and predicate_implied_by. Expressions are compared as they are
bound, over the same row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence

from planner.common_errors import unknown_column
from planner.errors import InvalidColumnReference
from planner.expressions.bind import INDEX_CLAUSE, PREDICATE_CLAUSE, bind_clause
from planner.ir.nodes import BoolOp, Call, Cast, Collate, ColumnRef, InList, IsNull, Literal, Scalar
from planner.queries.changes.column_values import row_scope
from planner.queries.changes.targets import ChangeTarget, through_views
from planner.queries.stored_expressions import bind_stored
from planner.resolution.casting import to_boolean
from planner.resolution.statement import Level, Statement
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree
from storage.catalog.model import Constraint, Index

_DEFAULT_ORDERS = (pb.SORTBY_DEFAULT, pb.SORTBY_NULLS_DEFAULT)


def inferred(
    statement: Statement, target: ChangeTarget, infer: Tree, unique: Sequence[Constraint | Index], alias: str | None
) -> list[Constraint | Index]:
    """Those of the `unique` keys that the conflict target `infer` means, in a statement that gives the table the name
    `alias`. Raises 42703, 42P10 and what binding raises."""
    level, scan = row_scope(statement, target.relation)
    named = Level(statement, None)
    """Where the names of the statement are found, which through a view are not those of the table."""
    item, _ = through_views(level, target.views, level.namespace[0])
    item.alias = alias or target.named.name
    named.namespace.append(item)
    named.rtes.append(item)
    attnums: set[int] = set()
    expressions: list[Scalar] = []
    by_field = {field.id: field.origin.attnum for field in scan.fields if field.origin is not None}
    for node in infer.index_elems:
        element = node.index_elem
        for what, order in (("ASC/DESC", element.ordering), ("NULLS FIRST/LAST", element.nulls_ordering)):
            if order not in _DEFAULT_ORDERS:
                raise InvalidColumnReference(
                    f"{what} is not allowed in ON CONFLICT clause", position=statement.position(infer.location)
                )
        if element.name:
            columns = item.by_name.get(element.name)
            if not columns:
                raise unknown_column(element.name, statement.position(infer.location))
            scalar = _plain(columns[0].expr)
        else:
            scalar = _plain(bind_clause(named, element.expr, INDEX_CLAUSE))
        if isinstance(scalar, ColumnRef) and scalar.id in by_field:
            attnums.add(by_field[scalar.id])
        else:
            expressions.append(scalar)
    condition: list[Scalar] = []
    if infer.HasField("where_clause"):
        condition = [_condition(named, infer.where_clause)]
    return [key for key in unique if _matches(statement, level, key, attnums, expressions, condition)]


def _matches(
    statement: Statement,
    level: Level,
    key: Constraint | Index,
    attnums: set[int],
    expressions: Sequence[Scalar],
    condition: Sequence[Scalar],
) -> bool:
    if {attnum for attnum in key.columns if attnum} != attnums:
        return False
    if isinstance(key, Constraint):
        return not expressions
    own = [
        _plain(bind_stored(statement, text, lambda tree: bind_clause(level, tree, INDEX_CLAUSE)))
        for text in key.expressions
    ]
    if any(expression not in own for expression in expressions) or any(kept not in expressions for kept in own):
        return False
    if key.predicate is None:
        return True
    predicate = bind_stored(statement, key.predicate, lambda tree: _condition(level, tree))
    return implied(predicate, condition)


def _condition(level: Level, tree: Tree) -> Scalar:
    return to_boolean(level.statement, bind_clause(level, tree, PREDICATE_CLAUSE), "WHERE")


def _plain(scalar: Scalar) -> Scalar:
    """`scalar` without what says how its values are sorted."""
    while isinstance(scalar, Collate):
        scalar = scalar.arg
    return scalar


# ---------------------------------------------------------------- implication


def implied(predicate: Scalar, known: Sequence[Scalar]) -> bool:
    """Whether `predicate` is true of every row for which all of `known` are. False where that is not seen."""
    given = [clause for condition in known for clause in _clauses(condition)]
    return all(any(_follows(clause, each) for each in given) for clause in _clauses(predicate))


def _clauses(condition: Scalar) -> Iterator[Scalar]:
    """The conditions that `condition` is the conjunction of."""
    if isinstance(condition, BoolOp) and condition.op == "and":
        for arg in condition.args:
            yield from _clauses(arg)
    else:
        yield condition


def _follows(clause: Scalar, given: Scalar) -> bool:
    """Whether `clause` holds where `given` does."""
    if clause == given:
        return True
    if isinstance(given, BoolOp) and given.op == "or":
        return all(implied(clause, [arm]) for arm in given.args)
    if isinstance(clause, BoolOp) and clause.op == "or":
        return any(implied(arm, [given]) for arm in clause.args)
    if isinstance(clause, IsNull) and clause.negated:
        return _is_strict_in(given, clause.arg)
    if isinstance(clause, Call) and isinstance(given, Call):
        return _follows_in_order(clause, given)
    return False


def _is_strict_in(given: Scalar, arg: Scalar) -> bool:
    """Whether `given` is not true when `arg` is NULL."""
    if given == arg:
        return True
    if isinstance(given, Call) and given.signature.name in _COMPARISONS:
        return any(_is_strict_in(operand, arg) for operand in given.args)
    if isinstance(given, (Cast, Collate)):
        return _is_strict_in(given.arg, arg)
    return isinstance(given, InList) and not given.negated and _is_strict_in(given.arg, arg)


_COMPARISONS = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<>": "<>"}
"""Operators of comparison with those that say the same with the operands the other way round."""


def _compared(call: Call) -> tuple[Scalar, str, Literal] | None:
    """A comparison with a constant: what, how, with which one."""
    if call.signature.name not in _COMPARISONS or len(call.args) != 2:
        return None
    left, right = call.args
    if isinstance(right, Literal) and not isinstance(left, Literal):
        return left, call.signature.name, right
    if isinstance(left, Literal) and not isinstance(right, Literal):
        return right, _COMPARISONS[call.signature.name], left
    return None


def _follows_in_order(clause: Call, given: Call) -> bool:
    """Whether a comparison follows from another one of the same value: ``a > 3`` from ``a > 5``."""
    wanted, known = _compared(clause), _compared(given)
    if wanted is None or known is None or wanted[0] != known[0] or wanted[2].type != known[2].type:
        return False
    (_, how, bound), (_, given_how, value) = wanted, known
    limit, at = bound.value, value.value
    if isinstance(limit, int) and isinstance(at, int):
        return _is_within(given_how, at, how, limit)
    # Of texts and the like only equality is known here; what comes first is for their type to say.
    if isinstance(limit, str) and isinstance(at, str):
        return how == given_how if limit == at else (how, given_how) == ("<>", "=")
    return False


def _is_within(given_how: str, at: int, how: str, limit: int) -> bool:
    """Whether every number for which ``x given_how at`` holds is one for which ``x how limit`` does."""
    if given_how in ("=", "<>"):
        return _HOLDS[how](at, limit) if given_how == "=" else (how, limit) == ("<>", at)
    upwards = given_how in (">", ">=")
    if how == "<>":
        beyond = at > limit if upwards else at < limit
        return beyond or (at == limit and given_how in ("<", ">"))
    if how == "=" or (how in (">", ">=")) != upwards:
        return False
    inside = at > limit if upwards else at < limit
    return inside or (at == limit and (how.endswith("=") or not given_how.endswith("=")))


_HOLDS: Mapping[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
