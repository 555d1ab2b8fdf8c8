"""Whether a condition is true of every row for which others are, as far as that is seen.

Source of the rules: PostgreSQL's predicate_implied_by.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence

from planner.ir.nodes import BoolOp, Call, Cast, Collate, InList, IsNull, Literal, Scalar
from planner.ir.rewrite import transform
from planner.resolution.casting import folded_constant
from planner.types.types import INT2, INT4, INT8, TEXT, VARCHAR


def implied(predicate: Scalar, known: Sequence[Scalar]) -> bool:
    """Whether `predicate` is true of every row for which all of `known` are. False where that is not seen."""
    given = [clause for condition in known for clause in _clauses(transform(condition, plain_cast))]
    return all(any(_follows(clause, each) for each in given) for clause in _clauses(transform(predicate, plain_cast)))


def plain_cast(node: object) -> Scalar | None:
    """What a cast says that changes no value: the constant itself (``1::bigint``, ``'a'::varchar::text``), which may
    have been a parameter when the statement was bound, or the cast, whoever has written it."""
    if not isinstance(node, Cast) or node.type.typmod >= 0:
        return None
    arg: Scalar = transform(node.arg, plain_cast)
    if isinstance(arg, Literal):
        if node.type.oid in _TEXTS and arg.type.oid in _TEXTS:
            return Literal(value=arg.value, type=node.type)
        constant = folded_constant(arg, node.type.oid)
        if constant is not None:
            return constant
    return Cast(arg=arg, type=node.type)


_TEXTS = frozenset({TEXT, VARCHAR})
_INTEGERS = frozenset({INT2, INT4, INT8})


def _clauses(condition: Scalar) -> Iterator[Scalar]:
    """The conditions that `condition` is the conjunction of."""
    condition = _spelled_out(condition)
    if isinstance(condition, BoolOp) and condition.op == "and":
        for arg in condition.args:
            yield from _clauses(arg)
    else:
        yield condition


def _spelled_out(condition: Scalar) -> Scalar:
    """`condition` without what only says it in other words: a comparison of a boolean with a constant, IN of a list."""
    if isinstance(condition, InList) and not condition.negated:
        type = condition.type
        equal = [Call(signature=condition.equals, args=(condition.arg, item), type=type) for item in condition.items]
        return BoolOp(op="or", args=tuple(equal), type=type) if len(equal) > 1 else equal[0]
    compared = _compared(condition) if isinstance(condition, Call) else None
    if compared is None or compared[1] not in ("=", "<>") or not isinstance(compared[2].value, bool):
        return condition
    what, how, constant = compared
    if (how == "=") == constant.value:
        return what
    return BoolOp(op="not", args=(what,), type=condition.type)


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
    if wanted is None or known is None or wanted[0] != known[0]:
        return False
    types = {wanted[2].type, known[2].type}
    if len(types) > 1 and not {type.oid for type in types} <= _INTEGERS:
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
