"""Simple conditions on single columns that a condition of a query is, or that follow from it: ``column op operand``.

The operand is a constant, a parameter, or computed from such. What has to be worked out before (`adapter.plans.
operands`) is a parameter by the time that conditions are looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from adapter.plans.computed.row_values import constant_of
from adapter.plans.computed.steps import Step, step_of
from planner.ir import nodes as ir
from planner.ir.physical import element_type
from planner.types import types as t
from planner.types.base_types import CITEXT, kind_of
from planner.types.ranges import ordered_as_bytes
from planner.types.types import SqlType
from planner.types.user_types import enum_of
from storage.shards.parts import ANY_OF

INTEGERS = frozenset({t.INT2, t.INT4, t.INT8, t.OID})
STRINGS = frozenset({t.TEXT, t.VARCHAR, t.NAME})
COMPARABLE = INTEGERS | STRINGS | {
    t.BOOL, t.FLOAT4, t.FLOAT8, t.NUMERIC, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.UUID, t.BYTEA,
    *ordered_as_bytes(),
}  # fmt: skip
_COMPUTED = INTEGERS | STRINGS | {t.NUMERIC}
FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {
    "=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<",
    "is null": "is not null", "is not null": "is null",
}  # fmt: skip

MAX_ROW_COLUMNS = 32
"""A row comparison is understood up to so many columns: PostgreSQL's limit for the columns of an index."""

MAX_BRANCHES = 256
"""Operands of an OR that are looked at."""


class Computed(Struct, frozen=True):
    """What is computed from literals and parameters, as in ``a < $1 + 99``."""

    scalar: ir.Scalar
    compute: Callable[[Sequence[ir.Literal]], Any]

    @property
    def type(self) -> SqlType:
        """Its type."""
        return self.scalar.type


class Condition(Struct, frozen=True):
    """`column op operand`: `operand` is a Literal, a Param, computed from such, a tuple of them (op ``in``) or None
    (``is null``).

    ``in`` may also have one operand: an array. ``like``: the column begins with what its pattern, the operand, begins
    with. With `then`, where the column equals the operand, that has to hold too: ``(a, b) > (1, 2)`` is ``a >= 1``
    and then ``b > 2``.
    """

    field: int
    op: str
    operand: ir.Literal | ir.Param | Computed | tuple[ir.Literal | ir.Param, ...] | None
    then: Condition | None = None
    by_key: bool = False
    """Whether indexes alone know how values of the column compare: its statistics do not, nor does Arrow."""
    step: Step | None = None
    """With it, what is compared is that function of the column."""
    any_of: tuple[tuple[Condition, ...], ...] = ()
    """With them, one of these conjunctions holds, `op` is `ANY_OF`, and there is neither field nor operand."""


def condition_of(scalar: ir.Scalar) -> Condition | None:
    """The condition that `scalar` is, or else one that follows from it."""
    return _condition(scalar) or _implied(scalar) or _by_key(scalar)


def has_order_of_keys(type_: SqlType) -> bool:
    """Whether an index by a column of this type has its rows in PostgreSQL's order. Of other types (inet, jsonb, money,
    ...) its keys are equal where the values are, and no more."""
    oid = t.under_domain(type_.oid)
    return oid in COMPARABLE or oid in (t.INTERVAL, t.BPCHAR) or enum_of(oid) is not None or kind_of(oid) == CITEXT


def conditions_of(scalar: ir.Scalar, *, negated: bool = False) -> tuple[Condition, ...]:
    """The conditions that follow from `scalar`, or, `negated`, from that it is false."""
    match scalar:
        case ir.BoolOp(op="not", args=(inner,)):
            return conditions_of(inner, negated=not negated)
        case ir.BoolOp() if (scalar.op == "and") is not negated:
            return tuple([condition for arg in scalar.args for condition in conditions_of(arg, negated=negated)])
        case ir.InList() if scalar.negated is not negated and len(scalar.items) <= MAX_ROW_COLUMNS:
            equal = [ir.Call(args=(scalar.arg, x), signature=scalar.equals, type=scalar.type) for x in scalar.items]
            return tuple([condition for each in equal for condition in conditions_of(each, negated=True)])
        case ir.InList() if negated:
            return conditions_of(replace(scalar, negated=False))
    wanted = ir.BoolOp(op="not", args=(scalar,), type=scalar.type) if negated else scalar
    found = condition_of(wanted) or step_condition(scalar, negated=negated)
    if found is None and isinstance(scalar, ir.BoolOp):
        found = _one_of(scalar.args, negated)
    return () if found is None else (found,)


def _one_of(args: Sequence[ir.Scalar], negated: bool) -> Condition | None:
    """That one of `args` holds; None where nothing is known of one, or they are many."""
    if len(args) > MAX_BRANCHES:
        return None
    branches: list[tuple[Condition, ...]] = []
    for arg in args:
        found = tuple([condition for condition in conditions_of(arg, negated=negated) if not condition.by_key])
        if not found:
            return None
        branches.append(found)
    return Condition(-1, ANY_OF, None, any_of=tuple(branches))


def step_condition(scalar: ir.Scalar, *, negated: bool = False) -> Condition | None:
    """The condition on a step of a column (`adapter.plans.computed.steps`) that `scalar` is, or, `negated`, that it is
    the opposite of."""
    match scalar:
        case ir.Call(args=(left, right)) if scalar.signature.name in FLIPPED:
            found, given, op = step_of(left), right, scalar.signature.name
            if found is None:
                found, given, op = step_of(right), left, FLIPPED[op]
            operand, op = _operand(given), _NEGATED[op] if negated else op
            if found is None or operand is None or op == "<>":
                return None
            return Condition(found[0].id, op, operand, step=found[1])
        case ir.InList() if not scalar.negated and not negated:
            found = step_of(scalar.arg)
            if found is None or not all(isinstance(item, (ir.Literal, ir.Param)) for item in scalar.items):
                return None
            return Condition(found[0].id, "in", scalar.items, step=found[1])  # type: ignore[arg-type]
    return None


def _implied(scalar: ir.Scalar, depth: int = 0) -> Condition | None:
    """A condition that follows from `scalar`, which says more or says it in another way."""
    match scalar:
        case ir.Call(args=(left, ir.Literal() | ir.Param() as pattern)) if scalar.signature.name == "~~":
            column = column_of(left)
            if column is not None and column.type.oid in STRINGS and pattern.type.oid in STRINGS:
                return Condition(column.id, "like", pattern)
        case ir.BoolOp(op="or") if depth < MAX_ROW_COLUMNS:
            return _lexicographic(scalar, depth)
        case _:
            pass
    return None


def _any_of(scalar: ir.BoolOp) -> Condition | None:
    """``a = 1 or a in (2, 3)`` as ``a in (1, 2, 3)``."""
    operands: list[ir.Literal | ir.Param] = []
    fields = set()
    for arg in scalar.args:
        found = None if isinstance(arg, ir.BoolOp) else _condition(arg)
        if found is None or found.op not in ("=", "in"):
            return None
        if isinstance(found.operand, tuple):
            operands += found.operand
        elif found.op == "=" and isinstance(found.operand, (ir.Literal, ir.Param)):
            operands.append(found.operand)
        else:
            return None
        fields.add(found.field)
    return Condition(fields.pop(), "in", tuple(operands)) if len(fields) == 1 else None


def _lexicographic(scalar: ir.BoolOp, depth: int) -> Condition | None:
    """``a > 1 or a = 1 and b > 2``, which is what ``(a, b) > (1, 2)`` means."""
    if len(scalar.args) != 2:
        return None
    first, rest = scalar.args
    if not (isinstance(rest, ir.BoolOp) and rest.op == "and"):
        first, rest = rest, first
    if not (isinstance(rest, ir.BoolOp) and rest.op == "and" and len(rest.args) == 2):
        return None
    beyond, same = _condition(first), _condition(rest.args[0])
    then = _condition(rest.args[1]) or _implied(rest.args[1], depth + 1)
    if beyond is None or same is None or then is None:
        return None
    if beyond.op not in ("<", ">") or same.op != "=" or same.field != beyond.field or same.operand != beyond.operand:
        return None
    if then.op not in (beyond.op, beyond.op + "="):
        then = None
    return replace(beyond, op=beyond.op + "=", then=then)


def exact_conditions(scalar: ir.Scalar) -> tuple[Condition, ...] | None:
    """The conditions that `scalar` is the conjunction of; None when it says more than simple conditions can."""
    if isinstance(scalar, ir.BoolOp) and scalar.op == "and":
        parts = [exact_conditions(arg) for arg in scalar.args]
        return None if None in parts else tuple([condition for part in parts if part for condition in part])
    found = _condition(scalar)
    return None if found is None else (found,)


def _condition(scalar: ir.Scalar) -> Condition | None:
    match scalar:
        case ir.ColumnRef() if scalar.type.oid == t.BOOL:
            return Condition(scalar.id, "=", ir.Literal(value=True, type=scalar.type))
        case ir.IsNull():
            arg = scalar.arg
            column = arg if isinstance(arg, ir.ColumnRef) and t.is_wide(arg.type) else column_of(arg)
            return (
                None if column is None else Condition(column.id, "is not null" if scalar.negated else "is null", None)
            )
        case ir.Call(args=(left, right)) if scalar.signature.name in FLIPPED:
            column, given, op = column_of(left), right, scalar.signature.name
            if column is None:
                column, given, op = column_of(right), left, FLIPPED[op]
            operand = _operand(given)
            if column is None or operand is None or not comparable(column.type, operand.type):
                return None
            return Condition(column.id, op, operand)
        case ir.BoolOp(op="not", args=(inner,)):
            # Both are true of no NULL.
            found = _condition(inner)
            return None if found is None or found.op not in _NEGATED else replace(found, op=_NEGATED[found.op])
        case ir.InList() if not scalar.negated:
            column = column_of(scalar.arg)
            if column is None or not all(_fits(column, item) for item in scalar.items):
                return None
            return Condition(column.id, "in", scalar.items)  # type: ignore[arg-type]
        case ir.BoolOp(op="or"):
            return _any_of(scalar)
        case ir.QuantifiedArray(quantifier="any") if scalar.operator.name == "=":
            return _any_element(scalar)
        case _:
            return None


def _any_element(scalar: ir.QuantifiedArray) -> Condition | None:
    column, array = column_of(scalar.arg), scalar.array
    if column is None:
        return None
    if isinstance(array, ir.ArrayConstructor):
        if not all(_fits(column, item) for item in array.items):
            return None
        return Condition(column.id, "in", array.items)  # type: ignore[arg-type]
    element = element_type(array.type)
    if not isinstance(array, (ir.Literal, ir.Param)) or element is None or not comparable(column.type, element):
        return None
    return Condition(column.id, "in", array)


def column_of(scalar: ir.Scalar) -> ir.ColumnRef | None:
    """The column that `scalar` is, seen through casts that change no value."""
    if isinstance(scalar, ir.ColumnRef):
        if scalar.type.oid == t.NUMERIC and t.is_wide(scalar.type):
            return None
        return scalar if scalar.type.oid in COMPARABLE else None
    if isinstance(scalar, ir.Collate):
        return column_of(scalar.arg)
    if isinstance(scalar, ir.Cast):
        inner = column_of(scalar.arg)
        if inner is None or scalar.type.typmod != -1:
            return None
        if inner.type.oid in STRINGS and scalar.type.oid in STRINGS:
            return inner
        if inner.type.oid in (t.INT2, t.INT4) and scalar.type.oid in (t.INT4, t.INT8):
            return inner
    return None


def _by_key(scalar: ir.Scalar) -> Condition | None:
    """A condition on a column whose values only indexes compare: of type interval, inet, citext, character(n), an enum,
    or numeric without a scale."""
    match scalar:
        case ir.Call(args=(left, right)) if scalar.signature.name in FLIPPED:
            column, given, op = _column_of_keys(left), right, scalar.signature.name
            if column is None:
                column, given, op = _column_of_keys(right), left, FLIPPED[op]
            if column is None or op == "<>" or not _is_key_of(column, given):
                return None
            if op != "=" and not has_order_of_keys(column.type):
                return None
            return Condition(column.id, op, given, by_key=True)  # type: ignore[arg-type]
        case ir.InList() if not scalar.negated:
            column, items = _column_of_keys(scalar.arg), scalar.items
        case ir.QuantifiedArray(quantifier="any", array=ir.ArrayConstructor() as array) if scalar.operator.name == "=":
            column, items = _column_of_keys(scalar.arg), array.items
        case _:
            return None
    if column is None or not all(_is_key_of(column, item) for item in items):
        return None
    return Condition(column.id, "in", items, by_key=True)  # type: ignore[arg-type]


def _column_of_keys(scalar: ir.Scalar) -> ir.ColumnRef | None:
    while isinstance(scalar, ir.Collate):
        scalar = scalar.arg
    if not isinstance(scalar, ir.ColumnRef):
        return None
    type_ = scalar.type
    is_one = t.is_wide(type_) or is_compared_by_key(type_)
    return scalar if is_one else None


def is_compared_by_key(type_: SqlType) -> bool:
    """Whether it is a type of which only indexes compare values."""
    return type_.oid in (t.INTERVAL, t.INET, t.BPCHAR) or enum_of(type_.oid) is not None or kind_of(type_.oid) == CITEXT


def _is_key_of(column: ir.ColumnRef, given: ir.Scalar) -> bool:
    return isinstance(given, (ir.Literal, ir.Param)) and given.type.oid == column.type.oid


def _operand(scalar: ir.Scalar) -> ir.Literal | ir.Param | Computed | None:
    """What a column is compared with; None when that is no constant, or takes an engine to compute."""
    if isinstance(scalar, (ir.Literal, ir.Param)):
        return scalar
    # Only numbers and texts: of dates there are other values here.
    if not isinstance(scalar, (ir.Call, ir.Cast)) or scalar.type.oid not in _COMPUTED:
        return None
    compute = constant_of(scalar)
    return None if compute is None else Computed(scalar, compute)


def _fits(column: ir.ColumnRef, operand: ir.Scalar) -> bool:
    return isinstance(operand, (ir.Literal, ir.Param)) and comparable(column.type, operand.type)


def comparable(one: SqlType, other: SqlType) -> bool:
    left, right = one.oid, other.oid
    return left == right or (left in INTEGERS and right in INTEGERS) or (left in STRINGS and right in STRINGS)
