"""Expressions over one row, worked out once and computed with Python's values: for statements that touch a few rows.

``amount + $1`` for the row that a key has found takes a microsecond; an engine would spend a thousand times that on
getting to the row. Only what gives exactly PostgreSQL's value here is taken, and what goes wrong is an engine's to
compute and to complain of (`NeedsEngine`); only values that do not fit their types are refused here.

Dates and timestamps of a row, and what is compared with them, are *plain*: numbers of days and microseconds, with
infinity at either end.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, TypeAlias

from msgspec import Struct

from adapter.plans.computed.constant_rows import NeedsEngine, cast_value, plain_time
from planner.ir import nodes as ir
from planner.ir.rewrite import walk
from planner.types import types as t
from planner.types.types import SqlType
from planner.values.datetimes.calendar_days import (
    DATE_INFINITY,
    TIMESTAMP_INFINITY,
    date_of,
    months_later,
    timestamp_of,
    timestamptz_of,
)
from planner.values.datetimes.time_zones import setting_zone

INTEGERS = frozenset({t.INT2, t.INT4, t.INT8})
TEXTS = frozenset({t.TEXT, t.VARCHAR})
TIMES = frozenset({t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ})
"""Types whose values are numbers here."""

ORDERED = INTEGERS | TEXTS | TIMES | {t.NUMERIC}
"""Types whose values compare in Python as in PostgreSQL: texts in C collation by their code points."""

_READ = ORDERED | {t.BOOL, t.FLOAT8, t.UUID}
"""Types of columns whose values are the same to Python and to PostgreSQL."""

_BOUNDS = {t.INT2: 2**15, t.INT4: 2**31, t.INT8: 2**63}
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_EXACT = Context(prec=100)
_NUMERIC: Mapping[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _EXACT.multiply,
}

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_MOVED = frozenset({
    *((op, t.DATE, t.INT4) for op in "+-"), ("+", t.INT4, t.DATE),
    *((op, time, t.INTERVAL) for op in "+-" for time in (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ)),
    *(("+", t.INTERVAL, time) for time in (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ)),
})  # fmt: skip
"""Operators that move a date or a moment: the name and the types of both sides."""

GIVEN = frozenset({"now", "statement_timestamp"})
"""The session values that `Given` has."""


_DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_MICROSECOND = timedelta(microseconds=1)


def _wall(value: int, zone: str) -> int:
    """What the clocks of a zone show at a moment; both in microseconds since 1970."""
    moment = (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=UTC)
    return (setting_zone(zone).wall(moment) - _EPOCH) // _MICROSECOND


def _moment(value: int, zone: str) -> int:
    """The moment at which they show it."""
    wall = _EPOCH + timedelta(microseconds=value)
    return (setting_zone(zone).moment(wall).replace(tzinfo=None) - _EPOCH) // _MICROSECOND


_MOVES: Mapping[tuple[int, int], Callable[[int, str], int]] = {
    (t.TIMESTAMPTZ, t.TIMESTAMP): _wall,
    (t.TIMESTAMPTZ, t.DATE): lambda value, zone: _wall(value, zone) // _DAY,
    (t.TIMESTAMP, t.TIMESTAMPTZ): _moment,
    (t.TIMESTAMP, t.DATE): lambda value, zone: value // _DAY,
    (t.DATE, t.TIMESTAMP): lambda value, zone: value * _DAY,
    (t.DATE, t.TIMESTAMPTZ): lambda value, zone: _moment(value * _DAY, zone),
}
"""Casts between times, by the session's time zone where one of them has none."""

_YEARS = range(-62_135_596_800_000_000 // _DAY + 2, 253_402_300_800_000_000 // _DAY - 2)
"""The days since 1970 that Python has dates for, but for those at the ends."""


def _moved(move: Callable[[int, str], int], value: Any, zone: str | None) -> Any:
    if not isinstance(value, int):
        return value  # NULL, or infinity.
    if zone is None or (value if move in _OF_DAYS else value // _DAY) not in _YEARS:
        raise NeedsEngine
    return move(value, zone)


_OF_DAYS = frozenset({_MOVES[t.DATE, t.TIMESTAMP], _MOVES[t.DATE, t.TIMESTAMPTZ]})

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def literal_of(value: Any, type_: SqlType) -> Any:
    """A value of an expression as `ir.Literal` has it: dates and timestamps are numbers here."""
    if type(value) is not int or type_.oid not in TIMES:
        return value
    if type_.oid == t.DATE:
        return ("infinity" if value > 0 else "-infinity") if abs(value) >= DATE_INFINITY else date_of(value)
    if abs(value) >= TIMESTAMP_INFINITY:
        return "infinity" if value > 0 else "-infinity"
    return timestamp_of(value) if type_.oid == t.TIMESTAMP else timestamptz_of(value)


def _later(value: int, interval: ir.Interval, sign: int, zone: str | None) -> int:
    """A moment so much later (or with -1 as `sign` earlier): months and days by the clocks of the `zone`, if there is
    one, as timestamptz_pl_interval does. Raises NeedsEngine for years that Python does not have."""
    if interval.months:
        value = _by_clocks(value, zone, lambda wall: _months_later_on(wall, sign * interval.months))
    if interval.days:
        value = _by_clocks(value, zone, lambda wall: wall + sign * interval.days * _DAY)
    value += sign * interval.micros
    if value // _DAY not in _YEARS:
        raise NeedsEngine
    return value


def _months_later_on(wall: int, months: int) -> int:
    """The same time of day so many months later, or on the last day of that month."""
    day, time = divmod(wall, _DAY)
    return months_later(day, months) * _DAY + time


def _by_clocks(value: int, zone: str | None, move: Callable[[int], int]) -> int:
    if value // _DAY not in _YEARS:
        raise NeedsEngine
    if zone is None:
        moved = move(value)
    else:
        moved = move(_wall(value, zone))
    if moved // _DAY not in _YEARS:
        raise NeedsEngine
    return moved if zone is None else _moment(moved, zone)


def _date_plus(day: int, days: int) -> int:
    if day not in _YEARS or day + days not in _YEARS:
        raise NeedsEngine
    return day + days


class Given(Struct, frozen=True):
    """What an expression is computed with besides the row: the parameters, when transaction and statement began, and
    the session's time zone, where it is known."""

    params: Sequence[ir.Literal]
    transaction_began: datetime
    statement_began: datetime
    zone: str | None = None


Value: TypeAlias = Callable[[Sequence[Any], Given], Any]
"""Computes an expression from the values of a row (as `ir.Literal` has them). Raises `NeedsEngine`."""


class RowColumns:
    """The columns of a row that expressions ask for: `places` by the ids of their fields, in the order in which they
    were first asked for. `named`: other fields, which are computed from such a row; `same`: those that are another."""

    def __init__(self, types: Mapping[int, SqlType]) -> None:
        self._types = types
        self.places: dict[int, int] = {}
        self.named: dict[int, Value] = {}
        self.same: dict[int, int] = {}

    def value_of(self, expr: ir.Scalar) -> Value | None:
        """What computes `expr`; None when an engine has to."""
        match expr:
            case ir.Literal():
                constant = plain_time(expr.value, expr.type)
                return lambda row, given: constant
            case ir.Param():
                place, type_ = expr.index - 1, expr.type
                if type_.oid in TIMES:
                    return lambda row, given: plain_time(given.params[place].value, type_)
                return lambda row, given: given.params[place].value
            case ir.ColumnRef():
                return self.column(expr.id)
            case ir.Collate():
                return self.value_of(expr.arg)
            case ir.SessionValue(name="now", type=SqlType(oid=t.TIMESTAMPTZ)):
                return lambda row, given: plain_time(given.transaction_began, expr.type)
            case ir.SessionValue(name="statement_timestamp", type=SqlType(oid=t.TIMESTAMPTZ)):
                return lambda row, given: plain_time(given.statement_began, expr.type)
            case ir.Cast():
                return self._cast(expr)
            case ir.BoolOp():
                return self._boolean(expr)
            case ir.IsNull():
                return self._null_test(expr)
            case ir.Coalesce():
                return self._coalesce(expr)
            case ir.Call(args=(left, right)) if expr.signature.name in _COMPARISONS:
                compare = _COMPARISONS[expr.signature.name]
                if t.NUMERIC in (left.type.oid, right.type.oid) and _has_wide(left, right):
                    compare = _of_numbers(compare)
                return self._comparison(compare, left, right)
            case ir.Call(args=(left, right)):
                return self._operation(expr, left, right)
            case _:
                return None

    def column(self, field: int) -> Value | None:
        """The value of the column that is this field."""
        if field in self.named:
            return self.named[field]
        if field in self.same:
            return self.column(self.same[field])
        type_ = self._types.get(field)
        if type_ is None or type_.oid not in _READ:
            return None
        place = self.places.setdefault(field, len(self.places))
        if type_.oid == t.NUMERIC and t.is_wide(type_):
            return lambda row, given: row[place] if row[place] is None else Decimal(row[place])
        return lambda row, given: row[place]

    def place_of(self, expr: ir.Scalar) -> int | None:
        """The place of the value of `expr` in the row, if it is there as it is."""
        field = expr.id if isinstance(expr, ir.ColumnRef) else None
        while field in self.same:
            field = self.same[field]
        return None if field is None or field in self.named or self.column(field) is None else self.places[field]

    def _cast(self, expr: ir.Cast) -> Value | None:
        inner = self.value_of(expr.arg)
        if inner is None:
            return None
        arg = inner
        move = _MOVES.get((expr.arg.type.oid, expr.type.oid))
        if move is not None and expr.type.typmod == -1:
            return lambda row, given: _moved(move, arg(row, given), given.zone)
        return lambda row, given: cast_value(expr, arg(row, given))

    def _all(self, exprs: Sequence[ir.Scalar]) -> list[Value] | None:
        values = [self.value_of(expr) for expr in exprs]
        return None if None in values else [value for value in values if value is not None]

    def _boolean(self, expr: ir.BoolOp) -> Value | None:
        args = self._all(expr.args)
        if args is None:
            return None
        if expr.op == "not":
            (arg,) = args

            def negated(row: Sequence[Any], given: Given) -> bool | None:
                value = arg(row, given)
                return None if value is None else not value

            return negated
        decisive = expr.op == "or"

        def combined(row: Sequence[Any], given: Given) -> bool | None:
            values = [arg(row, given) for arg in args]
            if decisive in values:
                return decisive
            return None if None in values else not decisive

        return combined

    def _null_test(self, expr: ir.IsNull) -> Value | None:
        arg = self.value_of(expr.arg)
        if arg is None:
            return None
        value, negated = arg, expr.negated
        return lambda row, given: (value(row, given) is None) != negated

    def _coalesce(self, expr: ir.Coalesce) -> Value | None:
        args = self._all(expr.args)
        if args is None:
            return None
        return lambda row, given: next((value for arg in args if (value := arg(row, given)) is not None), None)

    def _comparison(self, compare: Callable[[Any, Any], Any], left: ir.Scalar, right: ir.Scalar) -> Value | None:
        one, other = self.value_of(left), self.value_of(right)
        if one is None or other is None or not _compares(left.type.oid, right.type.oid):
            return None
        a, b = one, other

        def compared(row: Sequence[Any], given: Given) -> bool | None:
            x, y = a(row, given), b(row, given)
            if x is None or y is None:
                return None
            try:
                return bool(compare(x, y))
            except ArithmeticError as error:  # A NaN among numbers.
                raise NeedsEngine from error

        return compared

    def _moving(self, expr: ir.Call, left: ir.Scalar, right: ir.Scalar) -> Value | None:
        """A date and a number of days, or a moment and an interval, together."""
        if left.type.oid not in TIMES:
            left, right = right, left
        one, other = self.value_of(left), self.value_of(right)
        if one is None or other is None:
            return None
        a, b, sign = one, other, -1 if expr.signature.name == "-" else 1
        if right.type.oid == t.INT4:

            def day(row: Sequence[Any], given: Given) -> Any:
                x, y = a(row, given), b(row, given)
                return None if x is None or y is None else _date_plus(x, sign * y)

            return day
        has_zone, unit = left.type.oid == t.TIMESTAMPTZ, _DAY if left.type.oid == t.DATE else 1

        def moment(row: Sequence[Any], given: Given) -> Any:
            x, y = a(row, given), b(row, given)
            if x is None or y is None:
                return None
            if not isinstance(y, ir.Interval) or (has_zone and given.zone is None):
                raise NeedsEngine
            return _later(x * unit, y, sign, given.zone if has_zone else None)

        return moment

    def _operation(self, expr: ir.Call, left: ir.Scalar, right: ir.Scalar) -> Value | None:
        if (expr.signature.name, left.type.oid, right.type.oid) in _MOVED:
            return self._moving(expr, left, right)
        compute = _computing(expr, left.type, right.type)
        if compute is None:
            return None
        one, other = self.value_of(left), self.value_of(right)
        if one is None or other is None:
            return None
        a, b, result = one, other, compute

        def value(row: Sequence[Any], given: Given) -> Any:
            x, y = a(row, given), b(row, given)
            return None if x is None or y is None else result(x, y)

        return value


def constant_of(expr: ir.Scalar) -> Callable[[Sequence[ir.Literal]], Any] | None:
    """What computes `expr`, which consists of literals and parameters, from the parameters' values; None when an engine
    has to, or more is needed. It may raise NeedsEngine."""
    if any(isinstance(node, ir.SessionValue) for node in walk(expr)):
        return None
    value = RowColumns({}).value_of(expr)
    return None if value is None else lambda params: value((), Given(params, _NEVER, _NEVER))


def _compares(one: int, other: int) -> bool:
    """Whether values of these types compare here as in PostgreSQL."""
    return (
        (one in INTEGERS and other in INTEGERS)
        or (one in TEXTS and other in TEXTS)
        or (one == other and one in ORDERED | {t.BOOL})
    )


def _has_wide(left: ir.Scalar, right: ir.Scalar) -> bool:
    return t.is_wide(left.type) or t.is_wide(right.type)


def _of_numbers(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`compare` of numbers; PostgreSQL's order of NaN is not Python's."""

    def result(a: Decimal | int, b: Decimal | int) -> Any:
        if a != a or b != b:
            raise NeedsEngine
        return compare(a, b)

    return result


def _computing(expr: ir.Call, left: SqlType, right: SqlType) -> Callable[[Any, Any], Any] | None:
    """What computes an operator of two values that are no NULLs; None when an engine has to."""
    name, oid = expr.signature.name, expr.type.oid
    oids = {left.oid, right.oid}
    if name == "||":
        return operator.add if oid == t.TEXT and oids <= TEXTS else None
    if name not in _ARITHMETIC:
        return None
    if oid in INTEGERS and oids <= INTEGERS:
        return _bounded(_ARITHMETIC[name], _BOUNDS[oid])
    if oid == t.FLOAT8 and oids == {t.FLOAT8}:
        return _finite(_ARITHMETIC[name], is_product=name == "*")
    if oid == t.NUMERIC and oids == {t.NUMERIC}:
        return _exact(_NUMERIC[name], expr.type)
    return None


def _bounded(compute: Callable[[int, int], int], bound: int) -> Callable[[int, int], int]:
    def result(a: int, b: int) -> int:
        value = compute(a, b)
        if -bound <= value < bound:
            return value
        raise NeedsEngine

    return result


def _finite(compute: Callable[[float, float], float], *, is_product: bool) -> Callable[[float, float], float]:
    def result(a: float, b: float) -> float:
        value = compute(a, b)
        if math.isfinite(value) and not (is_product and value == 0 and a != 0 and b != 0):
            return value
        raise NeedsEngine

    return result


def _exact(compute: Callable[[Decimal, Decimal], Decimal], type_: SqlType) -> Callable[[Any, Any], Decimal]:
    shape = type_.shape

    def result(a: Decimal | int, b: Decimal | int) -> Decimal:
        one, other = Decimal(a), Decimal(b)
        if shape is None or not one.is_finite() or not other.is_finite():
            raise NeedsEngine
        value = compute(one, other)
        if t.is_wide(type_):
            if value.adjusted() < _EXACT.prec // 2 and max(one.adjusted(), other.adjusted()) < _EXACT.prec // 4:
                return value
            raise NeedsEngine
        exponent = value.as_tuple().exponent
        if isinstance(exponent, int) and -exponent <= shape.scale and value.adjusted() < shape.precision - shape.scale:
            return value
        raise NeedsEngine

    return result
