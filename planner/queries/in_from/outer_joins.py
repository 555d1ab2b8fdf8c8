"""Which outer joins conditions above them make inner ones (PostgreSQL's prepjointree.c, reduce_outer_joins)."""

from __future__ import annotations

from collections.abc import Iterable, Set

from planner.ir.nodes import (
    ArrayConstructor,
    BooleanTest,
    BoolOp,
    Call,
    Cast,
    Collate,
    ColumnRef,
    Exists,
    Filter,
    InList,
    IsNull,
    Join,
    Project,
    QuantifiedArray,
    QuantifiedSubquery,
    Scalar,
    Sort,
)
from planner.ir.rewrite import transform


def nullable_sides(join: Join, above: Iterable[Scalar]) -> tuple[bool, bool]:
    """Whether `join` may lack a row of its left side, and of its right side, in a row for which all conditions `above`
    are true."""
    left, right = join.kind in ("right", "full"), join.kind in ("left", "full")
    given = list(above)
    if left and _needs(given, {field.id for field in join.left.fields}):
        left = False
    if right and _needs(given, {field.id for field in join.right.fields}):
        right = False
    return left, right


def _needs(conditions: Iterable[Scalar], ids: Set[int]) -> bool:
    return any(is_not_true_of_nulls(condition, ids) for condition in conditions)


def is_not_true_of_nulls(condition: Scalar, ids: Set[int], *, is_null: bool = False) -> bool:
    """Whether `condition` is known to be false or NULL (`is_null`: to be NULL) where all columns of `ids` are NULL."""

    def null(arg: Scalar) -> bool:
        return is_not_true_of_nulls(arg, ids, is_null=True)

    match condition:
        case ColumnRef():
            return condition.id in ids
        case BoolOp(op="not", args=(arg,)):
            return null(arg)
        case BoolOp():
            arms = (is_not_true_of_nulls(arm, ids, is_null=is_null) for arm in condition.args)
            return any(arms) if condition.op == "and" and not is_null else all(arms)
        case IsNull(negated=True) if not is_null:
            return null(condition.arg)
        case BooleanTest(test="unknown", negated=True) if not is_null:
            return null(condition.arg)
        case BooleanTest(test="true" | "false", negated=False) if not is_null:
            return null(condition.arg)
        case Call() if condition.signature.strict:
            return any(null(arg) for arg in condition.args)
        case Cast() | Collate() | InList():
            return null(condition.arg)
        case QuantifiedArray() if condition.operator.strict:
            # Of an array without elements ANY is false and ALL is true, whatever is on the left.
            items = condition.array.items if isinstance(condition.array, ArrayConstructor) else ()
            return (bool(items) or (condition.quantifier == "any" and not is_null)) and null(condition.arg)
        case QuantifiedSubquery(quantifier="any") if not is_null:
            strict = all(operator.strict for operator in condition.operators)
            return strict and any(null(arg) for arg in condition.args)
        case Exists(negated=False) if not is_null:
            below = condition.rel
            while isinstance(below, (Project, Sort)):
                below = below.input
            return isinstance(below, Filter) and is_not_true_of_nulls(below.condition, ids)
    return False


def below_projection(conditions: Iterable[Scalar], rel: Project) -> tuple[Scalar, ...]:
    """`conditions` on the columns of `rel`, as conditions on those of its input."""
    given = {field.id: expr for field, expr in zip(rel.fields, rel.exprs, strict=True)}

    def replaced(node: object) -> Scalar | None:
        return given.get(node.id) if isinstance(node, ColumnRef) else None

    return tuple([transform(condition, replaced) for condition in conditions])
