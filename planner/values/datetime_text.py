"""Text input of date, time, timestamp and timestamptz by PostgreSQL's rules (its datetime.c, appendix B).

A text is cut into fields (numbers, dates, times, zones, words); what each means depends on its form, on what has been
seen and, for dates like 1/2/03, on DateStyle's order. Values are as in `planner.ir.nodes.Literal`: numbers for years
that Python does not have, and infinity and -infinity are the strings themselves.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

from msgspec import Struct

from planner.common_errors import datetime_field_overflow, unknown_time_zone
from planner.errors import (
    DatetimeFieldOverflow,
    InvalidDatetimeFormat,
    InvalidTimeZoneDisplacementValue,
)
from planner.values.calendar_days import (
    DAY_MICROS,
    FIRST_DAY,
    FIRST_MICROS,
    LAST_DAY,
    LAST_MICROS,
    civil_from_days,
    clock_of,
    date_of,
    days_from_civil,
    days_of,
    timestamp_of,
    timestamptz_of,
)
from planner.values.opaque.timetz import show_timetz
from planner.values.time_zones import Zone, fixed, setting_zone, written_zone

_MONTHS = {
    name: number
    for number, names in enumerate(
        ("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
         "september sep sept", "october oct", "november nov", "december dec"), 1)
    for name in names.split()
}  # fmt: skip
_DAYS = frozenset(
    [
        "monday",
        "mon",
        "tuesday",
        "tue",
        "tues",
        "wednesday",
        "wed",
        "weds",
        "thursday",
        "thu",
        "thur",
        "thurs",
        "friday",
        "fri",
        "saturday",
        "sat",
        "sunday",
        "sun",
    ]
)
_FIELD = re.compile(
    r"\s*(?:"
    r"(?P<iso>\d{4,7}-\d{1,2}-\d{1,2})(?=$|[\sTtZz+,-]|$)"
    r"|(?P<time>\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d*)?)?)"
    r"|(?P<zone>[+-]\d{1,2}(?::\d{1,2}(?::\d{1,2})?|\d{2,4})?)(?=$|[\s)])"
    r"|(?P<name>[A-Za-z]+/[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*)"
    r"|(?P<posix>(?!" + "|".join(_MONTHS) + r")(?:[A-Za-z]{2,}[+-]?\d{1,2}(?::\d{2}){0,2}(?:[A-Za-z]{3,})?)(?=\s|$))"
    r"|(?P<date>(?:\d+|[A-Za-z]{3,9})(?P<sep>[-/.])(?:\d+|[A-Za-z]{3,9})(?:(?P=sep)\d+)?)"
    r"|(?P<compact>[Tt]\d{4}(?:\d{2}(?:\.\d*)?)?)(?![\d:])"
    r"|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<julian>[Jj]\d+)"
    r"|(?P<word>[A-Za-z][A-Za-z_]*(?:/[A-Za-z_+\-0-9/]+)?\.?)"
    r"|(?P<mark>[,@()])"
    r")"
)


class Malformed(Exception):
    """The text is no date/time at all."""


class OutOfRange(Exception):
    """A field is beyond its range; `month_day` when another DateStyle might help."""

    def __init__(self, *, month_day: bool = False) -> None:
        self.month_day = month_day


class _Fields(Struct):
    year: int | None = None
    month: int | None = None
    day: int | None = None
    time: tuple[int, int, int, int] | None = None
    """Hour, minute, second, microsecond; hour 24 only with nothing after it, second 60 allowed."""
    zone: Zone | None = None
    bc: bool = False
    meridiem: str | None = None
    special: str | None = None
    two_digit_year: bool = False


def invalid(type_name: str, text: str) -> InvalidDatetimeFormat:
    return InvalidDatetimeFormat(f'invalid input syntax for type {type_name}: "{text}"')


def parse_date(text: str, date_style: str) -> date | int | str:
    """A date, or "infinity" / "-infinity". Raises 22007, 22008."""
    fields = _checked(text, "date", date_style)
    if fields.special == "epoch":
        return date(1970, 1, 1)
    if fields.special is not None and fields.special.endswith("infinity"):
        return fields.special
    if fields.special is not None or fields.day is None:
        raise invalid("date", text)
    return date_of(_date(fields, text))


def parse_time(text: str, date_style: str) -> time:
    """A time of day without zone; a zone in the text is ignored. Raises 22007, 22008."""
    fields = _checked(text, "time", date_style)
    if fields.special == "allballs":
        return time(0)
    if fields.time is None:
        raise invalid("time", text)
    micros = _micros(fields.time)
    if micros >= 86_400_000_000:
        # 24:00:00 has no Python value; PostgreSQL keeps it apart from 00:00:00.
        raise datetime_field_overflow(text)
    return clock_of(micros)


def parse_timetz(text: str, date_style: str, zone: str) -> str:
    """A time of day with its offset from UTC (the session's when the text has none), as `timetz` shows it. Raises 22007
    also for a zone whose offset changes, when the text has no date."""
    fields = _checked(text, "time with time zone", date_style)
    if fields.special == "allballs":
        return show_timetz(0, 0)
    if fields.time is None or (fields.zone is not None and fields.day is None and fields.zone.offset is None):
        raise invalid("time with time zone", text)
    micros = _micros(fields.time)
    found = fields.zone or setting_zone(zone)
    day = days_of(datetime.now(UTC).date()) if fields.day is None else _date(fields, text)
    wall = day * DAY_MICROS + micros
    return show_timetz(micros, (wall - found.micros_of_wall(wall)) // 1_000_000)


def parse_timestamp(text: str, date_style: str) -> datetime | int | str:
    """A timestamp without zone; a zone in the text is ignored. Raises 22007, 22008."""
    fields = _checked(text, "timestamp", date_style)
    if fields.special == "epoch":
        return timestamp_of(0)
    if fields.special is not None and fields.special.endswith("infinity"):
        return fields.special
    if fields.special is not None or fields.day is None:
        raise invalid("timestamp", text)
    return timestamp_of(_moment(fields, text))


def parse_timestamptz(text: str, date_style: str, zone: str) -> datetime | int | str:
    """A moment, in UTC; a text without a zone is in the session's `zone`. Raises 22007, 22008, 22023."""
    fields = _checked(text, "timestamp with time zone", date_style)
    if fields.special == "epoch":
        return timestamptz_of(0)
    if fields.special is not None and fields.special.endswith("infinity"):
        return fields.special
    if fields.special is not None or fields.day is None:
        raise invalid("timestamp with time zone", text)
    local = _moment(fields, text)
    moment = (fields.zone or setting_zone(zone)).micros_of_wall(local)
    if not FIRST_MICROS <= moment <= LAST_MICROS:
        raise DatetimeFieldOverflow(f'timestamp out of range: "{text}"')
    return timestamptz_of(moment)


def _checked(text: str, type_name: str, date_style: str) -> _Fields:
    try:
        return _fields(text, date_style, needs_date=not type_name.startswith("time ") and type_name != "time")
    except Malformed:
        raise invalid(type_name, text) from None
    except OutOfRange as error:
        hint = 'Perhaps you need a different "datestyle" setting.' if error.month_day else None
        raise datetime_field_overflow(text, hint) from None
    except InvalidTimeZoneDisplacementValue:
        raise InvalidTimeZoneDisplacementValue(f'time zone displacement out of range: "{text}"') from None


def _fields(text: str, date_style: str, *, needs_date: bool) -> _Fields:
    fields = _Fields()
    if text.strip().lower() in ("-infinity", "-inf"):
        fields.special = "-infinity"
        return fields
    position, length = 0, len(text.rstrip())
    numbers: list[str] = []
    while position < length:
        match = _FIELD.match(text, position, length)
        if match is None:
            raise Malformed
        position = match.end()
        kind = match.lastgroup
        value = match.group(kind or 0).strip()
        if match.group("date"):
            kind, value = "date", match.group("date")
        if kind == "iso":
            if fields.time is not None:
                raise Malformed
            _set_date(fields, *(int(part) for part in value.split("-")))
        elif kind == "time":
            if fields.time is not None:
                raise Malformed
            fields.time = _clock(value)
        elif kind == "compact":
            if fields.time is not None:
                raise Malformed
            fields.time = _clock(f"{value[1:3]}:{value[3:5]}:{value[5:] or 0}")
        elif kind == "zone":
            if fields.time is None and fields.day is None:
                raise Malformed
            fields.zone = parse_distance(value)
        elif kind == "date":
            _separated_date(fields, value, match.group("sep"), date_style)
        elif kind == "number":
            _number(fields, value, numbers, needs_date)
        elif kind == "julian":
            _julian(fields, int(value[1:]))
        elif kind in ("name", "posix"):
            fields.zone = _named_zone(value)
        elif kind == "word":
            _word(fields, value.rstrip(".").lower(), value)
    _loose_numbers(fields, numbers, date_style)
    _apply_meridiem(fields)
    return fields


def _set_date(fields: _Fields, year: int, month: int, day: int) -> None:
    if fields.day is not None:
        raise Malformed
    fields.year, fields.month, fields.day = year, month, day


def _clock(value: str) -> tuple[int, int, int, int]:
    hour_text, minute_text, *rest = value.split(":")
    hour, minute = int(hour_text), int(minute_text)
    second = micro = 0
    if rest:
        whole, _, fraction = rest[0].partition(".")
        second = int(whole)
        micro = round(int((fraction + "000000000")[:9]) / 1000) if fraction else 0
    if hour > 24 or minute > 59 or second > 60 or (hour == 24 and (minute or second or micro)):
        raise OutOfRange
    return hour, minute, second, micro


def parse_distance(value: str) -> Zone:
    """The zone of a distance to UTC such as ``-08``, ``+5:30`` or ``+0530``: east where it is positive. Raises
    ValueError for other text, 22009 when it is out of range."""
    sign = -1 if value[0] == "-" else 1
    body = value[1:]
    if ":" in body:
        parts = [int(part) for part in body.split(":")]
    elif len(body) <= 2:
        parts = [int(body)]
    elif len(body) <= 4:
        parts = [int(body[:-2]), int(body[-2:])]
    else:
        parts = [int(body[:-4]), int(body[-4:-2]), int(body[-2:])]
    hours, minutes, seconds = (*parts, 0, 0)[:3]
    if hours > 15 or minutes > 59 or seconds > 59:
        raise InvalidTimeZoneDisplacementValue("time zone displacement out of range")
    return fixed(sign * timedelta(hours=hours, minutes=minutes, seconds=seconds), "")


def _month(word: str) -> int:
    number = _MONTHS.get(word.lower())
    if number is None:
        raise Malformed
    return number


def _separated_date(fields: _Fields, value: str, separator: str, date_style: str) -> None:
    if fields.day is not None:
        raise Malformed
    parts = value.split(separator)
    if (
        len(parts) == 2
        and separator == "."
        and len(parts[0]) == 4
        and len(parts[1]) == 3
        and value.replace(".", "").isdigit()
    ):
        start = date(int(parts[0]), 1, 1) + timedelta(days=int(parts[1]) - 1)
        _set_date(fields, start.year, start.month, start.day)
        return
    words = [index for index, part in enumerate(parts) if part.isalpha()]
    if words:
        if len(words) > 1 or len(parts) != 3:
            raise Malformed
        month = _month(parts[words[0]])
        rest = [part for index, part in enumerate(parts) if index != words[0]]
        if len(rest[0]) >= 3:
            year, day = rest
        else:
            day, year = rest
            if date_style.upper().endswith("YMD") and len(year) < 3:
                year, day = rest
        fields.two_digit_year = len(year) <= 2
        _set_date(fields, int(year), month, int(day))
        return
    if len(parts) != 3:
        raise Malformed
    _ordered_date(fields, parts, date_style)


def _ordered_date(fields: _Fields, parts: list[str], date_style: str) -> None:
    order = date_style.upper().rpartition(" ")[2].rpartition(",")[2].strip()
    if len(parts[0]) >= 3 or order == "YMD":
        year, month, day = parts
    elif order == "DMY":
        day, month, year = parts
    else:
        month, day, year = parts
    fields.two_digit_year = len(year) <= 2
    if int(month) > 12 or int(day) > 31 or int(month) < 1 or int(day) < 1:
        raise OutOfRange(month_day=True)
    _set_date(fields, int(year), int(month), int(day))


def _number(fields: _Fields, value: str, numbers: list[str], needs_date: bool) -> None:
    whole, _, fraction = value.partition(".")
    if fields.day is None and len(whole) == 8 and not fraction and needs_date:
        _set_date(fields, int(whole[:4]), int(whole[4:6]), int(whole[6:]))
    elif fields.day is None and len(whole) > 8 and needs_date:
        raise OutOfRange(month_day=True)
    elif fields.day is None and len(whole) == 6 and not fraction and needs_date and not numbers:
        fields.two_digit_year = True
        _set_date(fields, int(whole[:2]), int(whole[2:4]), int(whole[4:]))
    elif fields.time is None and len(whole) in (4, 6) and (fields.day is not None or not needs_date) and not numbers:
        padded = whole.ljust(6, "0")
        fields.time = _clock(f"{padded[:2]}:{padded[2:4]}:{padded[4:]}.{fraction or 0}")
    elif fraction:
        raise Malformed
    else:
        numbers.append(whole)


def _word(fields: _Fields, word: str, raw: str) -> None:
    if word in _MONTHS and fields.month is None:
        fields.month = _MONTHS[word]
    elif word in _DAYS or word in ("at", "on", "of", "t"):
        return
    elif word in ("am", "pm"):
        fields.meridiem = word
    elif word in ("bc", "ad"):
        fields.bc = word == "bc"
    elif word in ("epoch", "allballs"):
        fields.special = word
    elif word in ("infinity", "inf"):
        fields.special = "infinity"
    elif word == "dst" and fields.zone is not None and fields.zone.offset is not None:
        fields.zone = fixed(fields.zone.offset + timedelta(hours=1), fields.zone.name)
    else:
        fields.zone = _named_zone(raw)


def _julian(fields: _Fields, number: int) -> None:
    if FIRST_DAY + number > LAST_DAY:
        raise OutOfRange
    year, month, day = civil_from_days(FIRST_DAY + number)
    fields.bc = year < 1
    _set_date(fields, year if year > 0 else 1 - year, month, day)


def _loose_numbers(fields: _Fields, numbers: list[str], date_style: str) -> None:
    """Numbers that stood alone: day and year beside a month's name, or all three parts of a date."""
    if not numbers:
        return
    if fields.day is not None:
        raise Malformed
    if fields.month is not None and len(numbers) == 2:
        first, second = numbers
        year, day = (first, second) if len(first) >= 3 else (second, first)
        fields.two_digit_year = len(year) <= 2
        fields.year, fields.day = int(year), int(day)
        if fields.day > 31 or fields.day < 1:
            raise OutOfRange(month_day=True)
    elif fields.month is None and len(numbers) == 3:
        _ordered_date(fields, numbers, date_style)
    else:
        raise Malformed


def _apply_meridiem(fields: _Fields) -> None:
    if fields.meridiem is None:
        return
    if fields.time is None:
        raise Malformed
    hour, minute, second, micro = fields.time
    if hour > 12:
        raise OutOfRange
    if fields.meridiem == "am":
        hour = 0 if hour == 12 else hour
    elif hour != 12:
        hour += 12
    fields.time = (hour, minute, second, micro)


def _micros(clock: tuple[int, int, int, int]) -> int:
    hour, minute, second, micro = clock
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + micro


def _date(fields: _Fields, text: str) -> int:
    """The day number of the fields."""
    year, month, day = fields.year, fields.month, fields.day
    if year is None or month is None or day is None:
        raise invalid("date", text)
    if fields.bc:
        if year == 0:
            raise datetime_field_overflow(text)
        year = 1 - year
    elif fields.two_digit_year:
        year += 2000 if year < 70 else 1900
    elif year == 0:
        raise datetime_field_overflow(text)
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        hint = 'Perhaps you need a different "datestyle" setting.'
        raise datetime_field_overflow(text, hint)
    try:
        days = days_from_civil(year, month, day)
    except ValueError:
        raise datetime_field_overflow(text) from None
    if not FIRST_DAY <= days <= LAST_DAY:
        raise DatetimeFieldOverflow(f'date out of range: "{text}"')
    return days


def _moment(fields: _Fields, text: str) -> int:
    """The microseconds of the fields' wall clock."""
    try:
        micros = _date(fields, text) * DAY_MICROS + _micros(fields.time or (0, 0, 0, 0))
    except DatetimeFieldOverflow as error:
        if str(error).startswith("date out of range"):
            raise DatetimeFieldOverflow(f'timestamp out of range: "{text}"') from None
        raise
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        raise DatetimeFieldOverflow(f'timestamp out of range: "{text}"')
    return micros


def _named_zone(raw: str) -> Zone:
    zone = written_zone(raw)
    if zone is None:
        if "/" in raw:
            raise unknown_time_zone(raw.lower())
        raise Malformed
    return zone
