"""Conditions that call a function in Python with columns of two queries, which Spark evaluates in no join but an inner
one: not in an outer join, nor in EXISTS and IN, which it makes joins of. What it does evaluate is an aggregate of the
rows that match, so these are said as aggregates."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TypeAlias

from planner.ir import nodes as ir
from planner.ir.rewrite import RELATIONS, column_ids, conjuncts, transform, walk

CallsPython: TypeAlias = Callable[[ir.Scalar], bool]
"""Whether an expression without subqueries calls such a function."""

_SUBQUERIES = (ir.ScalarSubquery, ir.Exists, ir.QuantifiedSubquery, ir.ArraySubquery)


def is_of_both(calls_python: CallsPython, condition: ir.Scalar, own: Set[int]) -> bool:
    """Whether `condition` calls such a function with columns among `own` and others."""
    return any(_mixes(calls_python, part, own) for part in conjuncts(condition))


def depends_in_python(calls_python: CallsPython, rel: ir.Rel) -> bool:
    """Whether a condition inside of `rel` calls such a function with columns of `rel` and of a query around it."""
    own = {field.id for part in walk(rel) if type(part) in RELATIONS for field in part.fields}
    if own.issuperset(column_ids(rel)):
        return False
    conditions = (
        part.condition for part in walk(rel) if isinstance(part, ir.Filter | ir.Join) and part.condition is not None
    )
    return any(is_of_both(calls_python, condition, own) for condition in conditions)


def _mixes(calls_python: CallsPython, condition: ir.Scalar, own: Set[int]) -> bool:
    ids = set(column_ids(condition))
    if ids <= own or ids.isdisjoint(own) or any(isinstance(part, _SUBQUERIES) for part in walk(condition)):
        return False

    def one_sided(node: object) -> ir.ColumnRef | None:
        """What depends on one of the two is a column there."""
        used = set(column_ids(node))
        type_ = getattr(node, "type", None)
        if type_ is None or not used or not (used <= own or used.isdisjoint(own)):
            return None
        return ir.ColumnRef(id=min(used), type=type_)

    return calls_python(transform(condition, one_sided))
