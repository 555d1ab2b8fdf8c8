"""Text input of interval, by the rules of PostgreSQL 15 (DecodeInterval, DecodeISO8601Interval) and IntervalStyle."""

from __future__ import annotations

import re
from collections.abc import Mapping

from planner.common_errors import interval_out_of_range
from planner.errors import IntervalFieldOverflow, InvalidDatetimeFormat
from planner.ir.nodes import Interval
from planner.values.datetimes.fields import Malformed, cut
from planner.values.datetimes.interval_fields import fields_kept

_UNITS: dict[str, str] = {}
for _names in (
    "microsecond microseconds us usec usecs usecond useconds",
    "millisecond milliseconds ms msec msecs msecond mseconds",
    "second seconds s sec secs",
    "minute minutes m min mins",
    "hour hours h hr hrs",
    "day days d",
    "week weeks w",
    "month months mon mons",
    "year years y yr yrs",
    "decade decades dec decs",
    "century centuries cent c",
    "millennium millennia mil mils",
):
    for _name in _names.split():
        # PostgreSQL looks at ten letters of a word.
        _UNITS[_name[:10]] = _names.split()[0]

_MICROS = {"microsecond": 1, "millisecond": 1000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000}
_YEARS = {"year": 1, "decade": 10, "century": 100, "millennium": 1000}
_MICROS_PER_DAY = 86_400_000_000
_PARTS_OF_SECONDS = frozenset({"second", "millisecond", "microsecond"})
_CLOCK = _PARTS_OF_SECONDS | {"hour", "minute"}
"""What a time with colons gives."""
_FIELD_UNITS = {
    4: "year", 2: "month", 8: "day", 1024: "hour", 2048: "minute", 4096: "second", 6: "month", 1032: "hour",
    3080: "minute", 7176: "second", 3072: "minute", 7168: "second", 6144: "second",
}  # fmt: skip
_MINUTE_TO_SECOND = 6144
_MOST_DIGITS = 255


class _OutOfRange(Exception):
    """A field is beyond its range."""


def _whole(digits: str | None) -> int:
    """The number that is written, 0 for nothing. PostgreSQL has no room for longer ones (MAXDATELEN)."""
    if digits is not None and len(digits) > _MOST_DIGITS:
        raise Malformed
    return int(digits or 0)


def _bounded(value: int, bits: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise _OutOfRange
    return value


class _Sum:
    """Adds up fields, cascading fractions as PostgreSQL does: of a month into days (30), of a day into time. What is
    lost below a microsecond, and where, is as there: it computes with floats."""

    def __init__(self) -> None:
        self.years = 0
        self.months = 0
        """Beside the years."""
        self.days = 0
        self.micros = 0

    def add(self, whole: int, fraction: float, unit: str) -> None:
        if unit in _MICROS:
            self.micros = _bounded(self.micros + _bounded(whole * _MICROS[unit], 64), 64)
            self._add_micros(fraction, _MICROS[unit])
        elif unit in _YEARS:
            scale = _YEARS[unit]
            self.years = _bounded(self.years + _bounded(_bounded(whole, 32) * scale, 32), 32)
            self.months = _bounded(self.months + round(fraction * scale * 12), 32)
        elif unit == "month":
            self.months = _bounded(self.months + _bounded(whole, 32), 32)
            self._add_days(fraction, 30)
        else:
            scale = 7 if unit == "week" else 1
            self.days = _bounded(self.days + _bounded(_bounded(whole, 32) * scale, 32), 32)
            self._add_days(fraction, scale)

    def _add_days(self, fraction: float, scale: int) -> None:
        scaled = fraction * scale
        self.days = _bounded(self.days + int(scaled), 32)
        self._add_micros(scaled - int(scaled), _MICROS_PER_DAY)

    def _add_micros(self, fraction: float, scale: int) -> None:
        scaled = fraction * scale
        whole = int(scaled)
        if abs(scaled - whole) > 0.5:
            whole += 1 if scaled > 0 else -1
        self.micros = _bounded(self.micros + whole, 64)

    def result(self, sign: int = 1) -> Interval:
        for value in (self.years, self.months, self.days):
            _bounded(sign * value, 32)
        months = sign * (self.years * 12 + self.months)
        if not -(2**31) <= months < 2**31:
            raise interval_out_of_range()
        return Interval(months, sign * self.days, _bounded(sign * self.micros, 64))


def parse_interval(text: str, fields: int = 0x7FFF, style: str = "postgres") -> Interval:
    """An interval; `fields` is the mask of the typmod (INTERVAL '1' YEAR), `style` the IntervalStyle: by sql_standard
    a sign before the first field is that of all fields, if no other has one. Raises 22007, 22008, 22015."""
    try:
        try:
            return fields_kept(_of_parts(cut(text), fields, style), fields)
        except Malformed:
            return fields_kept(_iso(text), fields)
    except Malformed:
        raise InvalidDatetimeFormat(f'invalid input syntax for type interval: "{text}"') from None
    except _OutOfRange:
        raise IntervalFieldOverflow(f'interval field value out of range: "{text}"') from None


def _of_parts(parts: list[tuple[str, str]], fields: int, style: str) -> Interval:
    total = _Sum()
    all_negative = (
        style.lower() == "sql_standard"
        and bool(parts)
        and parts[0][1][0] == "-"
        and not any(value[0] in "+-" for _, value in parts[1:])
    )
    seen: set[str] = set()
    unit, sign = "", 1
    # From the end on: a unit comes before its value.
    for kind, value in reversed(parts):
        if kind == "word":
            sign, unit = _unit_of(value, sign)
            continue
        clock = None if kind not in ("time", "zone") or ":" not in value else _signed_clock(kind, value, fields)
        if clock is not None:
            total.micros = -abs(clock) if all_negative else clock
            unit, given = "day", _CLOCK
        else:
            unit, given = _add_number(total, value, unit or _FIELD_UNITS.get(fields, "second"), negative=all_negative)
        if given & seen:
            raise Malformed
        seen |= given
    if not seen:
        raise Malformed
    return total.result(sign)


def _unit_of(word: str, sign: int) -> tuple[int, str]:
    """The sign of the whole, and the unit of the number before a word."""
    lowered = word.lower()[:10]
    if lowered == "ago":
        return -1, "ago"
    unit = _UNITS.get(lowered)
    if unit is None:
        raise Malformed
    return sign, unit


_DIGITS = re.compile(r"[+-]?[0-9]+|", re.ASCII)


def _add_number(total: _Sum, value: str, unit: str, *, negative: bool) -> tuple[str, frozenset[str]]:
    """Adds a number, or years and months; gives the unit of what may come before it, and the units that it gave."""
    digits = _DIGITS.match(value)
    assert digits is not None
    whole, rest = _bounded(_whole(digits[0]), 64), value[digits.end() :]
    fraction = 0.0
    if rest[:1] == "-":
        months = _DIGITS.match(rest, 1)
        assert months is not None
        number = _whole(months[0])
        if not 0 <= number < 12:
            raise _OutOfRange
        if months.end() < len(rest):
            raise Malformed
        unit, whole = "month", _bounded(whole * 12 + (-number if value[0] == "-" else number), 64)
    elif rest[:1] == ".":
        fraction = _fraction(rest) * (-1 if value[0] == "-" else 1)
    elif rest:
        raise Malformed
    if negative:
        whole, fraction = -abs(whole), -abs(fraction)
    if unit == "ago":
        raise Malformed
    total.add(whole, fraction, unit)
    if unit == "second" and fraction:
        return unit, _PARTS_OF_SECONDS
    return "day" if unit == "hour" else unit, frozenset({unit})


def _fraction(text: str) -> float:
    """What ParseFraction reads behind a point."""
    if not re.fullmatch(r"\.[0-9]*", text, re.ASCII):
        raise Malformed
    return float(f"0{text}")


def _signed_clock(kind: str, value: str, fields: int) -> int | None:
    """The microseconds of a time with colons; None where a sign stands before what is none."""
    if kind == "time":
        return _clock(value, fields)
    try:
        clock = _clock(value[1:], fields)
    except (Malformed, _OutOfRange):
        return None
    return -clock if value[0] == "-" else clock


_COLONS = re.compile(r"([0-9]+):([+-]?[0-9]*)(?::([+-]?[0-9]*))?(\.[^:]*)?", re.ASCII)


def _clock(text: str, fields: int) -> int:
    match = _COLONS.fullmatch(text)
    if match is None:
        raise Malformed
    hours, minutes = _bounded(_whole(match[1]), 64), _bounded(_whole(match[2]), 32)
    seconds = _bounded(_whole(match[3]), 32)
    micros = round(_fraction(match[4]) * 1_000_000) if match[4] else 0
    if match[3] is None and (match[4] or fields == _MINUTE_TO_SECOND):
        hours, minutes, seconds = 0, _bounded(hours, 32), minutes
    if not 0 <= minutes <= 59 or not 0 <= seconds <= 60:
        raise _OutOfRange
    return _bounded(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros, 64)


_ISO_NUMBER = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_ISO_DATE = {"Y": "year", "M": "month", "W": "week", "D": "day"}
_ISO_TIME = {"H": "hour", "M": "minute", "S": "second"}


def _iso(text: str) -> Interval:
    """An interval in ISO 8601's forms: with designators, and the alternative ones (DecodeISO8601Interval)."""
    if len(text) < 2 or text[0] != "P":
        raise Malformed
    date_part, _, time_part = text[1:].partition("T")
    total = _Sum()
    _add_iso(total, date_part, _ISO_DATE, ("year", "month", "day"), ("-", 8, 4))
    _add_iso(total, time_part, _ISO_TIME, ("hour", "minute", "second"), (":", 6, 2))
    return total.result()


def _add_iso(
    total: _Sum, part: str, designated: Mapping[str, str], units: tuple[str, str, str], form: tuple[str, int, int]
) -> None:
    """Adds the date or the time. Without designators it is of numbers between marks, or of digits alone: `form` has
    the mark, how many digits there are, and how many of them are the first field's."""
    mark, digits, first = form
    position, fields = 0, 0
    while position < len(part):
        number: re.Match[str] | None = _ISO_NUMBER.match(part, position)
        if number is None:
            raise Malformed
        position = number.end()
        whole, fraction = _iso_value(number[0])
        if part[position : position + 1] in designated and position < len(part):
            total.add(whole, fraction, designated[part[position]])
            position += 1
            fields += 1
            continue
        if fields:
            raise Malformed
        written = number[0].partition(".")[0]
        if position == len(part) and len(written) == digits and written.isdigit():
            places = (0, first, first + 2, digits)
            for unit, start, end in zip(units, places[:-1], places[1:], strict=True):
                total.add(_whole(written[start:end]), fraction if end == digits else 0.0, unit)
            return
        values = [(whole, fraction)]
        while part[position : position + 1] == mark and len(values) < len(units):
            number = _ISO_NUMBER.match(part, position + 1)
            if number is None:
                raise Malformed
            values.append(_iso_value(number[0]))
            position = number.end()
        if position < len(part):
            raise Malformed
        for (whole, fraction), unit in zip(values, units, strict=False):
            total.add(whole, fraction, unit)


def _iso_value(number: str) -> tuple[int, float]:
    value = float(number)
    if not -1.0e15 <= value <= 1.0e15:
        raise _OutOfRange
    return int(value), value - int(value)
