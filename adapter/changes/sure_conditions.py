"""Conditions of which the statistics of a part can say that all of its rows meet them.

`sure_condition` makes one of what a query asks of the rows of a table: comparisons of columns with constants, lists of
such, IS NULL and LIKE of a beginning, joined by AND, OR and NOT. It has to be all that is asked, where conditions for
pruning (`adapter.plans.predicates`) may be less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from adapter.plans.conditions import STRINGS, column_of
from adapter.plans.predicates import bind_pattern, exact_conjunction, exact_step
from planner.ir import nodes as ir
from storage.shards.parts import Part
from storage.shards.whole_deletions import surely_matches


class AllOf(Struct, frozen=True):
    """All of `parts` are true."""

    parts: tuple[SureCondition, ...]


class AnyOf(Struct, frozen=True):
    """One of `parts` is true."""

    parts: tuple[SureCondition, ...]


SureCondition: TypeAlias = "AllOf | AnyOf | tuple[str, str, Any]"
"""The tuple: physical column, operator, value, as `storage.shards.whole_deletions.surely_matches` takes them."""


def surely_holds(condition: SureCondition, part: Part) -> bool:
    """True only when every row of `part` meets `condition`."""
    if isinstance(condition, AllOf):
        return all(surely_holds(each, part) for each in condition.parts)
    if isinstance(condition, AnyOf):
        return any(surely_holds(each, part) for each in condition.parts)
    return surely_matches(part, (condition,))


def sure_condition(
    scalars: Sequence[ir.Scalar], columns: Mapping[int, str], params: Sequence[ir.Literal]
) -> SureCondition | None:
    """What all of `scalars` say, whose fields are the physical `columns`; None where they say something else too."""
    return _all([_of(scalar, columns, params, negated=False) for scalar in scalars], AllOf)


def _of(
    scalar: ir.Scalar, columns: Mapping[int, str], params: Sequence[ir.Literal], *, negated: bool
) -> SureCondition | None:
    """When `scalar` is true; `negated`: when it is false, which NULL is not either."""
    match scalar:
        case ir.Literal(value=bool()):
            return AllOf(()) if scalar.value is not negated else AnyOf(())
        case ir.BoolOp(op="not", args=(inner,)):
            return _of(inner, columns, params, negated=not negated)
        case ir.BoolOp():
            parts = [_of(arg, columns, params, negated=negated) for arg in scalar.args]
            return _all(parts, AllOf if (scalar.op == "and") is not negated else AnyOf)
        case ir.InList() if scalar.negated is not negated:
            equal = (ir.Call(args=(scalar.arg, x), signature=scalar.equals, type=scalar.type) for x in scalar.items)
            return _all([_of(each, columns, params, negated=True) for each in equal], AllOf)
        case ir.InList() if negated:
            return _of(replace(scalar, negated=False), columns, params, negated=False)
        case ir.Call(args=(left, ir.Literal() | ir.Param() as pattern)) if scalar.signature.name == "~~":
            return None if negated else _beginning(left, pattern, columns, params)
    step = exact_step(scalar, columns, params, negated=negated)
    if step is not None:
        return AllOf(tuple([(each.column, each.op, each.value) for each in step]))
    wanted = ir.BoolOp(op="not", args=(scalar,), type=scalar.type) if negated else scalar
    conjunction = exact_conjunction(wanted, columns, params)
    if conjunction is None or any(comparison.then is not None for comparison in conjunction):
        return None
    return AllOf(tuple([(each.column, each.op, each.value) for each in conjunction]))


def _all(parts: Sequence[SureCondition | None], kind: type[AllOf | AnyOf]) -> SureCondition | None:
    known = tuple([part for part in parts if part is not None])
    return kind(known) if len(known) == len(parts) else None


def _beginning(
    left: ir.Scalar, pattern: ir.Literal | ir.Param, columns: Mapping[int, str], params: Sequence[ir.Literal]
) -> SureCondition | None:
    """``left LIKE 'abc%'``; None for a pattern that asks for more than a beginning."""
    column = column_of(left)
    value = params[pattern.index - 1].value if isinstance(pattern, ir.Param) else pattern.value
    if column is None or column.type.oid not in STRINGS or pattern.type.oid not in STRINGS:
        return None
    if not isinstance(value, str) or "_" in value or "\\" in value or "%" in value.rstrip("%"):
        return None
    return AllOf(tuple([(each.column, each.op, each.value) for each in bind_pattern(columns[column.id], value)]))
