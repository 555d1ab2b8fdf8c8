"""Functions of dates and times that keep their order, as conditions on the column: ``at::date = '2024-05-01'`` is of
moments from one midnight to the next.

Such a function (`Step`) takes each moment to the beginning of its period, or to the number of its year; what is
compared with it limits the column from below and from above (`limits`). Infinite values stay on their side.

SUBTLE: whose clock it is that tells the periods of a `timestamptz` is not known here. The limits are so much wider as
clocks can differ (`_CLOCKS`); where only beginnings are compared, which are moments themselves, as clocks are ever put
back (`_put_back`). Such limits are necessary, and not sufficient (`Step.exact`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from msgspec import Struct

from planner.ir import nodes as ir
from planner.types import types as t

_CLOCKS = timedelta(days=1)
"""No zone is a day from UTC (`planner.values.datetimes.time_zones`)."""

_MIDNIGHT = datetime.min.time()
_MICROSECOND = timedelta(microseconds=1)
_PERIODS: Mapping[str, timedelta] = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=31),
    "quarter": timedelta(days=92),
    "year": timedelta(days=366),
}
"""How long a period is at most, by the field of date_trunc."""

_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_MOMENTS = (t.TIMESTAMP, t.TIMESTAMPTZ)


class Step(Struct, frozen=True):
    """A function of a column: `unit` is a field of date_trunc, ``microsecond`` for the moment itself, or ``number`` for
    that of the year. `by_clocks`: it depends on a zone which clocks are meant; `of_beginnings`: it gives the moments at
    which periods begin by these."""

    unit: str
    is_date: bool
    """Whether the column is a date; else it is a timestamp, or, `is_moment`, a timestamptz."""
    is_moment: bool
    by_clocks: bool
    of_beginnings: bool = False

    @property
    def exact(self) -> bool:
        """Whether what meets the limits of `=`, `<`, `<=`, `>` or `>=` meets the condition."""
        return not self.by_clocks and not self.of_beginnings


def step_of(scalar: ir.Scalar) -> tuple[ir.ColumnRef, Step] | None:
    """The column that `scalar` is a step of; None where it is none, or the column itself."""
    unit, inner, beginnings = "microsecond", scalar, False
    match scalar:
        case ir.Cast() if scalar.type.oid == t.DATE:
            unit, inner = "day", scalar.arg
        case ir.Call(args=(ir.Literal(value=str() as field), arg, *_)) if _is_trunc(scalar, field):
            unit, inner = field.lower(), arg
            beginnings = arg.type.oid == t.TIMESTAMPTZ
        case ir.Call(args=(ir.Literal(value=str() as field), arg)) if _is_year(scalar, field):
            unit, inner = "number", arg
        case _:
            pass
    by_clocks = not beginnings and unit != "microsecond" and inner.type.oid == t.TIMESTAMPTZ
    while not isinstance(inner, ir.ColumnRef):
        # From one kind of moment to another, of which the order is the same but for clocks that are put back.
        match inner:
            case ir.Cast(arg=arg) if inner.type.oid in _MOMENTS and inner.type.typmod == -1:
                pass
            case ir.Call(args=(ir.Literal() | ir.Param(), arg)) if inner.signature.name == "timezone":
                pass
            case _:
                return None
        if arg.type.oid not in (t.DATE, *_MOMENTS):
            return None
        by_clocks = by_clocks or (arg.type.oid, inner.type.oid) != (t.DATE, t.TIMESTAMP)
        inner = arg
    if inner is scalar or inner.type.oid not in (t.DATE, *_MOMENTS):
        return None
    oid = inner.type.oid
    return inner, Step(unit, oid == t.DATE, oid == t.TIMESTAMPTZ, by_clocks, beginnings)


def _is_trunc(call: ir.Call, field: str) -> bool:
    return call.signature.name == "date_trunc" and field.lower() in _PERIODS and call.type.oid in _MOMENTS


def _is_year(call: ir.Call, field: str) -> bool:
    return call.signature.name in ("extract", "date_part") and field.lower() in ("year", "years")


def limits(step: Step, op: str, value: Any) -> list[tuple[str, Any]] | None:
    """The comparisons of the column that follow from ``step op value``, where `op` is =, <, <=, > or >=; None when
    there are none, or the limits have no value in Python."""
    try:
        found = _number_limits(value) if step.unit == "number" else _moment_limits(step, value)
        if found is None:
            return None
        low, high = found
        aside = _CLOCKS if step.by_clocks else timedelta(0)
        back = _put_back(low) if step.of_beginnings else timedelta(0)
        wanted: list[tuple[str, datetime]] = []
        if op in ("=", ">=", ">"):
            wanted.append((">=", (high if op == ">" and step.exact else low) - aside - back))
        if op in ("=", "<=", "<"):
            wanted.append(("<", (low if op == "<" and step.exact else high) + aside + back))
        return [_of_column(step, side, limit) for side, limit in wanted]
    except OverflowError:
        return None


def _moment_limits(step: Step, value: Any) -> tuple[datetime, datetime] | None:
    """The first beginning of a period that is not before `value`, and the first that is after it."""
    if not isinstance(value, date):
        return None
    moment = value if isinstance(value, datetime) else datetime.combine(value, _MIDNIGHT)
    moment = moment.replace(tzinfo=None) if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    if step.of_beginnings:
        # By which clocks it may be one is not known.
        return moment, moment + _PERIODS[step.unit]
    first = _beginning(step.unit, moment)
    after = _next(step.unit, first)
    return (first if first == moment else after), after


def _number_limits(value: Any) -> tuple[datetime, datetime] | None:
    """The same of the number of a year."""
    if not isinstance(value, (int, float, Decimal)) or not 2 < value < 9998:
        return None
    year = int(value)
    after = datetime(year + 1, 1, 1)  # noqa: DTZ001 - timestamps without a zone are naive
    return (datetime(year, 1, 1) if year == value else after), after  # noqa: DTZ001


def _beginning(unit: str, moment: datetime) -> datetime:
    """The beginning of the period that `moment` is in."""
    if unit == "microsecond":
        return moment
    if unit in ("second", "minute", "hour"):
        parts = {"second": 0, "minute": 0, "microsecond": 0}
        for kept in {"second": ("second", "minute"), "minute": ("minute",), "hour": ()}[unit]:
            del parts[kept]
        return moment.replace(**parts)  # type: ignore[arg-type]
    day = datetime.combine(moment.date(), _MIDNIGHT)
    if unit == "week":
        return day - timedelta(days=day.weekday())
    if unit in _MONTHS:
        return day.replace(day=1, month=(day.month - 1) // _MONTHS[unit] * _MONTHS[unit] + 1)
    return day


def _next(unit: str, beginning: datetime) -> datetime:
    """The beginning of the next period."""
    if unit not in _MONTHS:
        return beginning + (_MICROSECOND if unit == "microsecond" else _PERIODS[unit])
    return _beginning(unit, beginning + _PERIODS[unit])


def _put_back(moment: datetime) -> timedelta:
    """How far clocks were ever put back, after about this moment: those of whole islands by a day, until 1969."""
    return timedelta(hours=4 if moment.year >= 1971 else 25)


def _of_column(step: Step, op: str, limit: datetime) -> tuple[str, Any]:
    """``column op limit``, where that is >= or <, of a column that is compared as a timestamp."""
    if not step.is_date:
        return op, limit.replace(tzinfo=UTC) if step.is_moment else limit
    is_midnight = limit.time() == _MIDNIGHT
    if op == ">=":
        return (">=" if is_midnight else ">"), limit.date()
    return ("<" if is_midnight else "<="), limit.date()
