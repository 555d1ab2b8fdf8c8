"""Text input and output of interval, by PostgreSQL's rules and IntervalStyle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from planner.common_errors import interval_out_of_range
from planner.errors import IntervalFieldOverflow, InvalidDatetimeFormat
from planner.ir.nodes import Interval

_UNITS: dict[str, tuple[str, Fraction]] = {}
for _names, _kind, _factor in (
    ("microsecond microseconds us usec usecs usecond useconds", "micros", Fraction(1)),
    ("millisecond milliseconds ms msec msecs msecond mseconds", "micros", Fraction(1000)),
    ("second seconds s sec secs", "micros", Fraction(1_000_000)),
    ("minute minutes m min mins", "micros", Fraction(60_000_000)),
    ("hour hours h hr hrs", "micros", Fraction(3_600_000_000)),
    ("day days d", "days", Fraction(1)),
    ("week weeks w", "days", Fraction(7)),
    ("month months mon mons", "months", Fraction(1)),
    ("year years y yr yrs", "months", Fraction(12)),
    ("decade decades dec decs", "months", Fraction(120)),
    ("century centuries cent c", "months", Fraction(1200)),
    ("millennium millennia mil mils", "months", Fraction(12000)),
):
    for _name in _names.split():
        # PostgreSQL looks at ten letters of a word.
        _UNITS[_name[:10]] = (_kind, _factor)

_TOKEN = re.compile(
    r"\s*(?:(?P<clock>(?:[+-]\s*)?\d+:\d+(?::\d+)?(?:\.\d*)?)|(?P<yearmonth>[+-]?\d+-\d+)"
    r"|(?P<number>(?:[+-]\s*)?(?:\d+(?:\.\d*)?|\.\d+))|(?P<word>[A-Za-z]+)|(?P<at>@))"
)
_MICROS_PER_DAY = 86_400_000_000
_PARTS_OF_SECONDS = {_UNITS["us"], _UNITS["ms"]}
_CLOCK = {_UNITS["hour"], _UNITS["minute"], _UNITS["second"], *_PARTS_OF_SECONDS}
"""What a time with colons gives."""
_FIELD_UNITS = {
    4: "year", 2: "month", 8: "day", 1024: "hour", 2048: "minute", 4096: "second", 6: "month", 1032: "hour",
    3080: "minute", 7176: "second", 3072: "minute", 7168: "second", 6144: "second",
}  # fmt: skip


def _joined(number: str) -> str:
    """A number without the blanks behind its sign."""
    return number if number[0].isdigit() else number[0] + number[1:].lstrip()


class _Sum:
    """Adds up fields, cascading fractions as PostgreSQL does: of a month into days (30), of a day into time."""

    def __init__(self) -> None:
        self.years = 0
        self.months = 0
        """Beside the years."""
        self.days = 0
        self.micros = Fraction(0)

    def add(self, amount: Fraction, unit: str) -> None:
        kind, factor = _UNITS[unit[:10]]
        value = amount * factor
        if kind == "micros":
            self.micros += value
        elif kind == "days":
            self._add_days(value)
        else:
            if factor > 1:
                # PostgreSQL rounds the months of a fraction of a year.
                whole = Fraction(int(amount)) * factor
                self.years += int(whole) // 12
                self.months += round(amount * factor - whole)
                return
            whole_months = int(value)
            self.months += whole_months
            self._add_days((value - whole_months) * 30)

    def _add_days(self, value: Fraction) -> None:
        whole = int(value)
        self.days += whole
        self.micros += (value - whole) * _MICROS_PER_DAY

    def result(self, text: str, sign: int = 1) -> Interval:
        days, micros = sign * self.days, sign * round(self.micros)
        fields = (self.years, self.months, self.days, sign * self.years, sign * self.months, days)
        if any(not -(2**31) <= value < 2**31 for value in fields) or not -(2**63) <= micros < 2**63:
            raise IntervalFieldOverflow(f'interval field value out of range: "{text}"')
        months = sign * (self.years * 12 + self.months)
        if not -(2**31) <= months < 2**31:
            raise interval_out_of_range()
        return Interval(months, days, micros)


def _invalid(text: str) -> InvalidDatetimeFormat:
    return InvalidDatetimeFormat(f'invalid input syntax for type interval: "{text}"')


_LEADING_SIGN = re.compile(r"-(?!.*\s[+-])", re.DOTALL)
"""The sign of the first field of an interval whose other fields have none."""
_DAY_TO_HOUR = 1032
"""Fields of INTERVAL '1 2' DAY TO HOUR, where a number before the hours means days."""


def parse_interval(text: str, fields: int = 0x7FFF, style: str = "postgres") -> Interval:
    """An interval; `fields` is the mask of the typmod (INTERVAL '1' YEAR), `style` the IntervalStyle: by sql_standard
    a sign before the first field is that of all fields, if no other has one. Raises 22007, 22015."""
    stripped = text.strip()
    if stripped[:1] in ("P", "p"):
        return fields_kept(_iso(stripped, text), fields)
    total = _Sum()
    pending: Fraction | None = None
    position, ago, seen = 0, False, False
    units_seen: set[tuple[str, Fraction]] = set()
    default_unit = _FIELD_UNITS.get(fields, "second")
    all_negative = style.lower() == "sql_standard" and _LEADING_SIGN.match(stripped) is not None
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None or ago:
            raise _invalid(text)
        position = match.end()
        if match.group("at"):
            continue
        word = match.group("word")
        if word is not None:
            lowered = word.lower()
            if lowered == "ago" and seen and pending is None:
                ago = True
                continue
            unit = lowered[:10]
            if unit not in _UNITS or pending is None:
                raise _invalid(text)
            given = {_UNITS[unit]}
            if given == {_UNITS["second"]} and pending.denominator != 1:
                given |= _PARTS_OF_SECONDS
            if given & units_seen:
                raise _invalid(text)
            units_seen |= given
            total.add(pending, unit)
            pending = None
            continue
        seen = True
        if match.group("clock"):
            if pending is not None:
                total.add(pending, "day")
                pending = None
            if _CLOCK & units_seen:
                raise _invalid(text)
            units_seen |= _CLOCK
            clock = _clock(_joined(match.group("clock")), fields, text)
            total.micros += -abs(clock) if all_negative else clock
        elif match.group("yearmonth"):
            if pending is not None:
                raise _invalid(text)
            body = match.group("yearmonth")
            sign = -1 if body[0] == "-" or all_negative else 1
            years, months = body.lstrip("+-").split("-")
            if int(months) > 11:
                raise IntervalFieldOverflow(f'interval field value out of range: "{text}"')
            total.months += sign * (int(years) * 12 + int(months))
        else:
            if pending is not None:
                if fields != _DAY_TO_HOUR:
                    raise _invalid(text)
                total.add(pending, "day")
            number = Fraction(_joined(match.group("number")))
            pending = -abs(number) if all_negative else number
    if pending is not None:
        total.add(pending, default_unit)
    if not seen:
        raise _invalid(text)
    return fields_kept(total.result(text, -1 if ago else 1), fields)


def _clock(body: str, fields: int, text: str) -> Fraction:
    sign = -1 if body[0] == "-" else 1
    parts = body.lstrip("+-").split(":")
    if len(parts) == 2:
        parts = ["0", *parts] if fields == 6144 or "." in parts[1] else [*parts, "0"]
    hours, minutes, seconds = (Fraction(part) for part in parts)
    if minutes > 59 or seconds >= 61:
        raise IntervalFieldOverflow(f'interval field value out of range: "{text}"')
    return sign * ((hours * 60 + minutes) * 60 + seconds) * 1_000_000


_ISO_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_ISO_DATE = {"Y": "year", "M": "month", "W": "week", "D": "day"}
_ISO_TIME = {"H": "hour", "M": "minute", "S": "second"}


def _iso(body: str, text: str) -> Interval:
    """An interval in ISO 8601's forms: with designators, and the alternative ones (DecodeISO8601Interval)."""
    date_part, mark, time_part = body[1:].upper().partition("T")
    if not date_part and not mark:
        raise _invalid(text)
    total = _Sum()
    _add_iso(total, date_part, _ISO_DATE, ("year", "month", "day"), ("-", 8, 4), text)
    _add_iso(total, time_part, _ISO_TIME, ("hour", "minute", "second"), (":", 6, 2), text)
    return total.result(text)


def _add_iso(
    total: _Sum,
    part: str,
    designated: Mapping[str, str],
    units: tuple[str, str, str],
    form: tuple[str, int, int],
    text: str,
) -> None:
    """Adds the date or the time. Without designators it is of numbers between marks, or of digits alone: `form` has
    the mark, how many digits there are, and how many of them are the first field's."""
    mark, digits, first = form
    position, fields = 0, 0
    while position < len(part):
        number = _ISO_NUMBER.match(part, position)
        if number is None:
            raise _invalid(text)
        position = number.end()
        if part[position : position + 1] in designated and position < len(part):
            total.add(Fraction(number[0]), designated[part[position]])
            position += 1
            fields += 1
            continue
        if fields:
            raise _invalid(text)
        whole, point, fraction = number[0].partition(".")
        if position == len(part) and re.fullmatch(rf"\d{{{digits}}}", whole):
            places = (0, first, first + 2, digits)
            for unit, start, end in zip(units, places[:-1], places[1:], strict=True):
                total.add(Fraction(whole[start:end]), unit)
            if point:
                total.add(Fraction(f"0.{fraction or 0}"), units[-1])
            return
        values = [number[0]]
        while part[position : position + 1] == mark and len(values) < len(units):
            number = _ISO_NUMBER.match(part, position + 1)
            if number is None:
                raise _invalid(text)
            values.append(number[0])
            position = number.end()
        if position < len(part):
            raise _invalid(text)
        for value, unit in zip(values, units, strict=False):
            total.add(Fraction(value), unit)


YEAR_FIELD = 4
YEAR_OR_MONTH_FIELDS = frozenset({4, 2, 6})
TIME_UNITS = {8: None, 1024: 3_600_000_000, 1032: 3_600_000_000, 2048: 60_000_000, 3080: 60_000_000, 3072: 60_000_000}
"""By mask of a typmod without seconds: the microseconds that its time is a multiple of, None where it keeps no time."""


def fields_kept(value: Interval, fields: int) -> Interval:
    """What the fields of a typmod's mask keep of an interval (AdjustIntervalForTypmod)."""
    if fields in YEAR_OR_MONTH_FIELDS:
        return Interval(int(value.months / 12) * 12 if fields == YEAR_FIELD else value.months, 0, 0)
    if fields in TIME_UNITS:
        unit = TIME_UNITS[fields]
        micros = 0 if unit is None else abs(value.micros) // unit * unit
        return Interval(value.months, value.days, micros if value.micros >= 0 else -micros)
    return value


def format_interval(value: Interval, style: str = "postgres") -> str:
    """PostgreSQL's text of an interval in an IntervalStyle."""
    years, months = int(value.months / 12), value.months - int(value.months / 12) * 12
    days, micros = value.days, value.micros
    style = style.lower()
    if style == "iso_8601":
        return _format_iso(years, months, days, micros)
    if style == "sql_standard":
        return _format_sql(years, months, days, micros)
    if style == "postgres_verbose":
        return _format_verbose(years, months, days, micros)
    parts = []
    previous_negative = False
    for amount, name in ((years, "year"), (months, "mon"), (days, "day")):
        if amount:
            sign = "+" if previous_negative and amount > 0 else ""
            parts.append(f"{sign}{amount} {name}{'' if amount == 1 else 's'}")
            previous_negative = amount < 0
    if micros or not parts:
        sign = "-" if micros < 0 else "+" if previous_negative else ""
        parts.append(sign + _clock_text(micros))
    return " ".join(parts)


def _clock_text(micros: int, *, pad: bool = True) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    hours, rest = divmod(seconds, 3600)
    minutes, second = divmod(rest, 60)
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{hours:02d}:{minutes:02d}:{second:02d}{tail}" if pad else f"{hours}:{minutes:02d}:{second:02d}{tail}"


def _seconds_text(micros: int) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{'-' if micros < 0 else ''}{seconds}{tail}"


def _split(micros: int) -> tuple[int, int, int]:
    sign = -1 if micros < 0 else 1
    hours, rest = divmod(abs(micros), 3_600_000_000)
    minutes, micros_left = divmod(rest, 60_000_000)
    return sign * hours, sign * minutes, sign * micros_left


def _format_iso(years: int, months: int, days: int, micros: int) -> str:
    if not (years or months or days or micros):
        return "PT0S"
    text = "P"
    for amount, letter in ((years, "Y"), (months, "M"), (days, "D")):
        if amount:
            text += f"{amount}{letter}"
    if micros:
        text += "T"
        hours, minutes, rest = _split(micros)
        if hours:
            text += f"{hours}H"
        if minutes:
            text += f"{minutes}M"
        if rest:
            text += f"{_seconds_text(rest)}S"
    return text


def _format_sql(years: int, months: int, days: int, micros: int) -> str:
    amounts = (years, months, days, micros)
    if not any(amounts):
        return "0"
    negative, positive = any(amount < 0 for amount in amounts), any(amount > 0 for amount in amounts)
    has_year_month, has_day_time = bool(years or months), bool(days or micros)
    if (negative and positive) or (has_year_month and has_day_time):
        year_sign = "-" if years < 0 or months < 0 else "+"
        day_sign = "-" if days < 0 else "+"
        clock_sign = "-" if micros < 0 else "+"
        clock = _clock_text(micros, pad=False)
        return f"{year_sign}{abs(years)}-{abs(months)} {day_sign}{abs(days)} {clock_sign}{clock}"
    sign = "-" if negative else ""
    if has_year_month:
        return f"{sign}{abs(years)}-{abs(months)}"
    if days:
        return f"{sign}{abs(days)} {_clock_text(micros, pad=False)}"
    return f"{sign}{_clock_text(micros, pad=False)}"


def _format_verbose(years: int, months: int, days: int, micros: int) -> str:
    hours, minutes, rest = _split(micros)
    amounts = [(years, "year"), (months, "mon"), (days, "day"), (hours, "hour"), (minutes, "min")]
    first = next((amount for amount in (years, months, days, micros) if amount), 0)
    flip = -1 if first < 0 else 1
    parts = ["@"]
    parts.extend(f"{amount * flip} {name}{'' if amount * flip == 1 else 's'}" for amount, name in amounts if amount)
    if rest:
        text = _seconds_text(rest * flip)
        parts.append(f"{text} sec{'' if abs(rest) == 1_000_000 else 's'}")
    if len(parts) == 1:
        parts.append("0")
    if flip < 0:
        parts.append("ago")
    return " ".join(parts)
