"""Texts of date, time, timestamp and timestamptz as fields, by PostgreSQL's rules (its datetime.c, appendix B).

A text is cut into parts: numbers, dates, times, zones, words (ParseDateTime). What each means depends on its form, on
what has been seen and, for dates like 1/2/03, on DateStyle's order (DecodeDateTime, DecodeTimeOnly).
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

from msgspec import Struct

from planner.common_errors import datetime_field_overflow, unknown_time_zone
from planner.errors import (
    InvalidDatetimeFormat,
    InvalidTimeZoneDisplacementValue,
)
from planner.values.datetimes.calendar_days import (
    DAY_MICROS,
    FIRST_DAY,
    LAST_DAY,
    civil_from_days,
    days_from_civil,
    days_in_month,
)
from planner.values.datetimes.time_zones import Zone, fixed, written_zone
from planner.values.datetimes.words import LONGEST_TOKEN, TOKENS

_YEAR, _MONTH, _DAY, _HOUR, _MINUTE, _SECOND, _FRACTION, _ZONE, _DAY_OF_YEAR, _SUMMER = (1 << n for n in range(10))
_WEEKDAY, _MERIDIEM, _ERA, _RESERVED = (1 << n for n in range(10, 14))
_DATE = _YEAR | _MONTH | _DAY
_TIME = _HOUR | _MINUTE | _SECOND | _FRACTION

_UNITS = {
    "year": ("year", _YEAR),
    "month number": ("month", _MONTH),
    "day": ("day", _DAY),
    "hour": ("hour", _HOUR),
    "minute": ("minute", _MINUTE),
    "second": ("second", _SECOND),
}
_FRACTIONAL_UNITS = frozenset({"julian", "time", "second"})
_MOST_FIELDS = 25
_INT_END = 1 << 31
_FIELD = re.compile(
    r"(?P<time>\d+:[\d:.]*)"
    r"|(?P<date>\d+(?P<sep>[-/.])\d+(?P=sep)(?:\d|(?P=sep))*|\d+[-/]\d+|\d+(?P<mark>[-/.])(?!\d)(?:[A-Za-z0-9]|(?P=mark))*)"
    r"|(?P<number>\d+(?:\.\d+)?|\.\d*)"
    r"|(?P<zone>[+-]\s*\d[\d:.\-]*)"
    r"|(?P<signed>[+-]\s*[A-Za-z]+)"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<ignored>[\s!-*,/:-@\[-`{-~]+)",
    re.ASCII,
)
_REST_OF_NAME = re.compile(r"[+\-/_.:A-Za-z0-9]+", re.ASCII)
_DISTANCE = re.compile(r"([+-])(\d+)(?::(\d*)(?::(\d*))?)?", re.ASCII)
_DATE_PART = re.compile(r"\d+|[A-Za-z]+", re.ASCII)


class Malformed(Exception):
    """The text is no date/time at all."""


class OutOfRange(Exception):
    """A field is beyond its range; `month_day` when another DateStyle might help."""

    def __init__(self, *, month_day: bool = False) -> None:
        self.month_day = month_day


class DateTimeFields(Struct):
    """What a text says. `special` is epoch, allballs, infinity or -infinity, or the moving time now, today, tomorrow or
    yesterday, which stands for the date (now: for all)."""

    seen: int = 0
    year: int = 0
    month: int = 0
    day: int = 0
    hour: int = 0
    minute: int = 0
    second: int = 0
    micro: int = 0
    zone: Zone | None = None
    special: str | None = None

    @property
    def has_date(self) -> bool:
        """Whether the text has a whole date."""
        return self.seen & _DATE == _DATE

    @property
    def has_time(self) -> bool:
        """Whether the text has a time of day."""
        return self.seen & _TIME == _TIME

    @property
    def clock(self) -> int:
        """The time of day in microseconds."""
        return ((self.hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + self.micro


def invalid(type_name: str, text: str) -> InvalidDatetimeFormat:
    return InvalidDatetimeFormat(f'invalid input syntax for type {type_name}: "{text}"')


def read_fields(text: str, type_name: str, date_style: str) -> DateTimeFields:
    """The fields of a text of type date, time, timestamp or one with time zone. Raises 22007, 22008, 22009, 22023."""
    try:
        return _Reader(date_style, time_only=type_name.startswith("time ") or type_name == "time").read(text)
    except Malformed:
        raise invalid(type_name, text) from None
    except OutOfRange as error:
        hint = 'Perhaps you need a different "datestyle" setting.' if error.month_day else None
        raise datetime_field_overflow(text, hint) from None
    except InvalidTimeZoneDisplacementValue:
        raise InvalidTimeZoneDisplacementValue(f'time zone displacement out of range: "{text}"') from None


def cut(text: str) -> list[tuple[str, str]]:
    """The fields of a text with their kinds: date, time, number, zone, word. Raises Malformed."""
    found: list[tuple[str, str]] = []
    position, length = 0, len(text)
    while position < length:
        match = _FIELD.match(text, position)
        if match is None:
            raise Malformed
        position = match.end()
        kind, value = match.lastgroup or "", match[0]
        if match["date"]:
            kind = "date"
        elif kind == "ignored":
            continue
        elif kind in ("zone", "signed"):
            value = value[0] + value[1:].lstrip()
            kind = "zone" if kind == "zone" else "word"
        elif kind == "word" and position < length:
            # A month's name begins a date; other words with marks or numbers behind them are zones.
            after = text[position]
            if after in "-/." or ((after == "+" or "0" <= after <= "9") and value.lower() not in TOKENS):
                rest = _REST_OF_NAME.match(text, position)
                assert rest is not None
                kind, value, position = "date", value + rest[0], rest.end()
        found.append((kind, value))
    if len(found) > _MOST_FIELDS:
        raise Malformed
    return found


def _integer(text: str) -> int:
    value = int(text)
    if value >= _INT_END:
        raise OutOfRange
    return value


def _micros_of(fraction: str) -> int:
    """Microseconds of a fraction that begins with its point, half to even as rint() does."""
    return round(Decimal(f"0{fraction}") * 1_000_000)


class _Reader:
    """Reads one text: DecodeDateTime, or, for times, DecodeTimeOnly."""

    def __init__(self, date_style: str, *, time_only: bool) -> None:
        self._order = date_style.upper().rpartition(" ")[2].rpartition(",")[2].strip()
        self._time_only = time_only
        self._fields = DateTimeFields()
        self._unit = ""
        self._month_by_name = self._julian = self._short_year = self._bc = False
        self._day_of_year = 0
        self._meridiem: int | None = None
        self._parts: list[tuple[str, str]] = []

    def read(self, text: str) -> DateTimeFields:
        fields = self._fields
        self._parts = cut(text)
        for index, (kind, value) in enumerate(self._parts):
            match kind:
                case "date":
                    found = self._date_or_zone(index, value)
                case "time":
                    if self._unit not in ("", "time"):
                        raise Malformed
                    self._unit = ""
                    found = self._clock(value)
                case "zone":
                    fields.zone, found = _distance(value), _ZONE
                case "number" if self._unit:
                    found, self._unit = self._labelled(value), ""
                case "number":
                    found = self._loose(index, value)
                case _:
                    found = self._word(index, value)
            if found & fields.seen:
                raise Malformed
            fields.seen |= found
        self._finish()
        return fields

    # ------------------------------------------------------------ fields

    def _date_or_zone(self, index: int, value: str) -> int:
        fields = self._fields
        if self._time_only:
            kinds = [kind for kind, _ in self._parts]
            if index == 0 and len(kinds) >= 2 and (kinds[-1] == "date" or kinds[1] == "time"):
                return self._date(value)
        elif self._unit == "julian":
            self._unit = ""
            digits = value.partition("-")[0]
            self._julian_day(_integer(digits))
            fields.zone = _distance(value[len(digits) :])
            return _DATE | _TIME | _ZONE
        elif not self._unit and fields.seen & (_MONTH | _DAY) != _MONTH | _DAY:
            return self._date(value)
        if not value[0].isdigit() and not self._unit:
            fields.zone = written_zone(value)
            if fields.zone is None:
                raise unknown_time_zone(value.lower())
            return _ZONE
        if self._unit not in ("", "time") or fields.has_time or "-" not in value:
            raise Malformed
        self._unit = ""
        digits = value.partition("-")[0]
        fields.zone = _distance(value[len(digits) :])
        return self._run_together(digits, fields.seen | (_DATE if self._time_only else 0)) | _ZONE

    def _date(self, value: str) -> int:
        """DecodeDate: a date whose parts have marks between them."""
        numbers = []
        seen, found = self._fields.seen, 0
        # One character after each part is a mark, whatever it is.
        position = 0
        while position < len(value):
            match = _DATE_PART.search(value, position)
            if match is None:
                raise Malformed
            position = match.end() + 1
            if match[0][0].isdigit():
                numbers.append(match[0])
                continue
            what, number = TOKENS.get(match[0].lower()[:LONGEST_TOKEN], ("", 0))
            if what == "nothing":
                continue
            if what != "month" or (seen | found) & _MONTH:
                raise Malformed
            self._fields.month, self._month_by_name = number, True
            found |= _MONTH
        for number_text in numbers:
            part = self._number(number_text, seen | found)
            if part & (seen | found):
                raise Malformed
            found |= part
        if (seen | found) & ~(_DAY_OF_YEAR | _ZONE) != _DATE:
            raise Malformed
        return found

    def _clock(self, value: str) -> int:
        fields = self._fields
        whole, point, fraction = value.partition(".")
        parts = whole.split(":")
        if not 2 <= len(parts) <= 3 or not parts[0] or "." in fraction or ":" in fraction:
            raise Malformed
        # Nothing after a colon is 0, as strtol() reads it.
        numbers = [_integer(part or "0") for part in parts]
        if len(numbers) == 2:
            numbers = [0, *numbers] if point else [*numbers, 0]
        fields.hour, fields.minute, fields.second = numbers
        fields.micro = _micros_of("." + fraction) if point else 0
        if fields.minute > 59 or fields.second > 60 or (not self._time_only and _overflows(fields)):
            raise OutOfRange
        return _TIME

    def _labelled(self, value: str) -> int:
        """A number after the unit that it is of (``Y2001``, ``J2451187``)."""
        fields = self._fields
        whole, point, fraction = value.partition(".")
        number = _integer(whole or "0")
        if point and self._unit not in _FRACTIONAL_UNITS:
            raise Malformed
        unit = self._unit
        if unit == "month number" and fields.seen & _MONTH and fields.seen & _HOUR:
            unit = "minute"
        if unit == "julian":
            self._julian_day(number)
            if not point:
                return _DATE
            clock = int(Decimal(f"0.{fraction or 0}") * DAY_MICROS)
            minutes, micros = divmod(clock, 60_000_000)
            fields.hour, fields.minute = divmod(minutes, 60)
            fields.second, fields.micro = divmod(micros, 1_000_000)
            return _DATE | _TIME
        if unit == "time":
            if self._run_together(value, fields.seen | _DATE) != _TIME:
                raise Malformed
            return _TIME
        if unit == "other unit":
            raise Malformed
        name, found = _UNITS[unit]
        setattr(fields, name, number)
        if point:
            fields.micro, found = _micros_of(point + fraction), _SECOND | _FRACTION
        return found

    def _loose(self, index: int, value: str) -> int:
        """A number that stands alone."""
        seen = self._fields.seen
        whole, point, _ = value.partition(".")
        if self._time_only:
            if point:
                if index == 0 and len(self._parts) >= 2 and self._parts[-1][0] == "date":
                    return self._date(value)
                if len(whole) <= 2:
                    raise Malformed
                return self._run_together(value, seen | _DATE)
            if len(value) > 4:
                return self._run_together(value, seen | _DATE)
            return self._number(value, seen | _DATE)
        if point and not seen & _DATE:
            return self._date(value)
        if (point and len(whole) > 2) or (len(value) >= 6 and (not seen & _DATE or not seen & _TIME)):
            return self._run_together(value, seen)
        return self._number(value, seen)

    def _word(self, index: int, value: str) -> int:
        fields = self._fields
        word = value.lower()
        what, number = TOKENS.get(word[:LONGEST_TOKEN], ("", 0))
        match what:
            case "nothing":
                return 0
            case "special":
                return self._special(word)
            case "month" if not self._time_only:
                # A number before a month's name was the day.
                found = _MONTH
                if fields.seen & _MONTH and not self._month_by_name and not fields.seen & _DAY and fields.month <= 31:
                    fields.day, found = fields.month, _DAY
                fields.month, self._month_by_name = number, True
                return found
            case "weekday" if not self._time_only:
                return _WEEKDAY
            case "meridiem":
                self._meridiem = number
                return _MERIDIEM
            case "era":
                self._bc = bool(number)
                return _ERA
            case "summer":
                if fields.zone is None or fields.zone.offset is None:
                    raise Malformed
                fields.zone = fixed(fields.zone.offset + timedelta(hours=1), fields.zone.name)
                return _SUMMER
            case "time":
                if not self._time_only and not fields.has_date:
                    raise Malformed
                if index + 1 == len(self._parts) or self._parts[index + 1][0] not in ("number", "time", "date"):
                    raise Malformed
                self._unit = what
                return 0
            case _ if what in _UNITS or what in ("julian", "other unit"):
                self._unit = what
                return 0
            case "":
                fields.zone = written_zone(value)
                if fields.zone is None:
                    raise Malformed
                return _ZONE
        raise Malformed

    def _special(self, word: str) -> int:
        if word == "allballs":
            self._fields.zone = fixed(timedelta(), "")
            return _TIME | _ZONE
        if self._time_only and word != "now":
            raise Malformed
        self._fields.special = word
        if word == "now":
            return _TIME if self._time_only else _DATE | _TIME | _ZONE
        return _DATE if word in ("today", "tomorrow", "yesterday") else _RESERVED

    # ------------------------------------------------------------ numbers

    def _number(self, value: str, seen: int) -> int:
        """DecodeNumber: what a number is by what has been seen."""
        fields = self._fields
        whole, point, fraction = value.partition(".")
        number = _integer(whole or "0")
        if point:
            if len(whole) > 2:
                return self._run_together(value, seen | _DATE)
            fields.micro = _micros_of(point + fraction)
        if len(value) == 3 and seen & _DATE == _YEAR and 1 <= number <= 366:
            self._day_of_year = number
            return _DAY_OF_YEAR | _MONTH | _DAY
        is_year = len(value) >= 3 or self._order == "YMD"
        match seen & _DATE:
            case 0:
                found = _YEAR if is_year else _DAY if self._order == "DMY" else _MONTH
            case x if x in (_YEAR, _DAY):
                found = _MONTH
            case x if x == _MONTH:
                found = _YEAR if self._month_by_name and is_year else _DAY
            case x if x == _YEAR | _MONTH:
                found = _DAY
                if self._month_by_name and len(value) >= 3 and self._short_year:
                    # The first number was the day.
                    fields.day, fields.year, self._short_year = fields.year, number, False
                    return found
            case x if x == _MONTH | _DAY:
                found = _YEAR
            case x if x == _DATE:
                return self._run_together(value, seen)
            case _:
                raise Malformed
        setattr(fields, {_YEAR: "year", _MONTH: "month", _DAY: "day"}[found], number)
        if found == _YEAR:
            self._short_year = len(value) <= 2
        return found

    def _run_together(self, value: str, seen: int) -> int:
        """DecodeNumberField: yyyymmdd, yymmdd, hhmmss or hhmm, the last two with a fraction perhaps."""
        fields = self._fields
        digits, point, fraction = value.partition(".")
        if point:
            fields.micro = _micros_of(point + fraction)
        elif seen & _DATE != _DATE and len(digits) >= 6:
            fields.year, fields.month, fields.day = _integer(digits[:-4]), int(digits[-4:-2]), int(digits[-2:])
            self._short_year = len(digits) == 6
            return _DATE
        if seen & _TIME == _TIME or len(digits) not in (4, 6):
            raise Malformed
        fields.hour, fields.minute, fields.second = int(digits[:2]), int(digits[2:4]), int(digits[4:] or 0)
        return _TIME

    def _julian_day(self, number: int) -> None:
        fields = self._fields
        if FIRST_DAY + number > LAST_DAY:
            raise OutOfRange
        fields.year, fields.month, fields.day = civil_from_days(FIRST_DAY + number)
        self._julian = True

    # ------------------------------------------------------------ the whole

    def _finish(self) -> None:
        fields = self._fields
        self._check_date()
        if self._meridiem is not None:
            if fields.hour > 12:
                raise OutOfRange
            fields.hour = fields.hour % 12 + self._meridiem
        if self._time_only:
            if _overflows(fields):
                raise OutOfRange
            # A zone whose offset changes needs a date, and what has no zone either a whole one or none.
            needs_date = fields.seen & _DATE if fields.zone is None else fields.zone.offset is None
            if not fields.has_time or (needs_date and not fields.has_date):
                raise Malformed
        elif fields.special is None and not fields.has_date:
            raise Malformed

    def _check_date(self) -> None:
        """ValidateDate."""
        fields = self._fields
        if fields.special in ("now", "today", "tomorrow", "yesterday"):
            return
        if fields.seen & _YEAR and not self._julian:
            if self._short_year and not self._bc:
                fields.year += 2000 if fields.year < 70 else 1900
            elif fields.year <= 0:
                raise OutOfRange
            elif self._bc:
                fields.year = 1 - fields.year
        if fields.seen & _DAY_OF_YEAR:
            day = days_from_civil(fields.year, 1, 1) + self._day_of_year - 1
            fields.year, fields.month, fields.day = civil_from_days(day)
        if fields.seen & _MONTH and not 1 <= fields.month <= 12:
            raise OutOfRange(month_day=True)
        if fields.seen & _DAY and not 1 <= fields.day <= 31:
            raise OutOfRange(month_day=True)
        if fields.has_date and fields.day > days_in_month(fields.year, fields.month):
            raise OutOfRange


def _overflows(fields: DateTimeFields) -> bool:
    """time_overflows()."""
    return fields.hour > 24 or fields.minute > 59 or fields.second > 60 or fields.clock > DAY_MICROS


def _distance(value: str) -> Zone:
    try:
        return parse_distance(value)
    except ValueError:
        raise Malformed from None


def parse_distance(value: str) -> Zone:
    """The zone of a distance to UTC such as ``-08``, ``+5:30`` or ``+0530``: east where it is positive
    (DecodeTimezone). Raises ValueError for other text, 22009 when it is out of range."""
    match = _DISTANCE.match(value)
    if match is None:
        raise ValueError(value)
    hours, minutes, seconds = (int(part or 0) for part in match.group(2, 3, 4))
    if match[3] is None and match.end() == len(value) > 3:
        hours, minutes = divmod(hours, 100)
    if hours > 15 or minutes > 59 or seconds > 59:
        raise InvalidTimeZoneDisplacementValue("time zone displacement out of range")
    if match.end() < len(value):
        raise ValueError(value)
    distance = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return fixed(-distance if match[1] == "-" else distance, "")
