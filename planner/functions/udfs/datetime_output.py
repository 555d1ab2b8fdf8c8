"""to_char of timestamps and intervals (PostgreSQL, section 9.8)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping

from msgspec import Struct

from planner.errors import InvalidDatetimeFormat
from planner.functions.udfs.templates.template_patterns import DAYS, MONTHS, ordinal, tokens
from planner.values.datetimes.calendar_days import in_python_years, years_of_shift
from planner.values.datetimes.time_zones import setting_zone
from planner.values.datetimes.weeks import (
    day_of_week_year,
    julian_day,
    quotient,
    remainder,
    week_of,
    wrapped,
    year_of_week,
)


class _Clock(Struct, frozen=True):
    """What a time zone is at a moment: its distance east of Greenwich and its abbreviation."""

    offset: dt.timedelta
    name: str


_ISO_FIELD = re.compile("[IiJj]")
_ROMAN = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"]


def to_char_timestamp(micros: int, pattern: str, zone: str) -> str:
    """to_char(timestamp, pattern) of microseconds since 1970. For timestamptz these are in UTC and `zone` is the
    session's time zone, which is empty otherwise."""
    clock = None
    value, shift = in_python_years(micros)
    if zone:
        found, moment = setting_zone(zone), value.replace(tzinfo=dt.UTC)
        value = found.wall(moment)
        clock = _Clock(found.offset_at(moment), moment.astimezone(found.info).tzname() or "")
    years = years_of_shift(shift)
    out: list[str] = []
    for token, text, fill, _ in tokens(pattern):
        if token != "field":
            out.append(text)
            continue
        field, _, suffix = text.partition("\0")
        shown = _moment_field(value, years, field, fill, clock)
        out.append(ordinal(shown, suffix) if suffix and shown.lstrip("-").isdigit() else shown)
    return "".join(out)


def _padded(number: int, width: int, fill: bool) -> str:
    return str(number) if fill else f"{number:0{width + (number < 0)}d}"


def _cased(names: list[str], index: int, field: str, fill: bool, width: int) -> str:
    name = names[index]
    shown = name.upper() if field.isupper() else name.lower() if field.islower() else name
    return shown if fill else shown.ljust(width)


def _moment_field(value: dt.datetime, years: int, field: str, fill: bool, clock: _Clock | None) -> str:
    """The text of a field of `value`, whose year is `years` more than it says."""
    iso_year, iso_week, iso_day = value.isocalendar()
    year = value.year + years
    iso_year += years
    # PostgreSQL shows the years before 1 without a sign; year 0 is 1 BC.
    shown_year, iso_year = (year if year > 0 else 1 - year), (iso_year if iso_year > 0 else 1 - iso_year)
    hour12 = value.hour % 12 or 12
    day_of_year = value.timetuple().tm_yday
    weekday = (value.weekday() + 1) % 7
    century = (year + 99) // 100 if year > 0 else -((100 - year) // 100)
    numbers = {
        "HH24": (value.hour, 2),
        "HH12": (hour12, 2),
        "HH": (hour12, 2),
        "MI": (value.minute, 2),
        "SS": (value.second, 2),
        "MS": (value.microsecond // 1000, 3),
        "US": (value.microsecond, 6),
        "YYYY": (shown_year, 4),
        "IYYY": (iso_year, 4),
        "YYY": (shown_year % 1000, 3),
        "YY": (shown_year % 100, 2),
        "Y": (shown_year % 10, 1),
        "IYY": (iso_year % 1000, 3),
        "IY": (iso_year % 100, 2),
        "I": (iso_year % 10, 1),
        "MM": (value.month, 2),
        "DD": (value.day, 2),
        "DDD": (day_of_year, 3),
        "D": (weekday + 1, 1),
        "ID": (iso_day, 1),
        "IDDD": ((iso_week - 1) * 7 + iso_day, 3),
        "W": ((value.day - 1) // 7 + 1, 1),
        "WW": ((day_of_year - 1) // 7 + 1, 2),
        "IW": (iso_week, 2),
        "CC": (century, 2),
        "Q": ((value.month - 1) // 3 + 1, 1),
        "J": (value.toordinal() + 1721425 + years // 400 * 146_097, 1),
    }
    if field in numbers:
        return _padded(*numbers[field], fill)
    if field in ("SSSS", "SSSSS"):
        return str(value.hour * 3600 + value.minute * 60 + value.second)
    if field.startswith("FF"):
        return f"{value.microsecond:06d}"[: int(field[2])]
    if field.upper() == "MONTH":
        return _cased(MONTHS, value.month - 1, field, fill, 9)
    if field.upper() == "MON":
        return _cased([name[:3] for name in MONTHS], value.month - 1, field, True, 3)
    if field.upper() == "DAY":
        return _cased(DAYS, weekday, field, fill, 9)
    if field.upper() == "DY":
        return _cased([name[:3] for name in DAYS], weekday, field, True, 3)
    if field in ("AM", "PM"):
        return "AM" if value.hour < 12 else "PM"
    if field in ("am", "pm"):
        return "am" if value.hour < 12 else "pm"
    if field in ("A.M.", "P.M."):
        return "A.M." if value.hour < 12 else "P.M."
    if field in ("a.m.", "p.m."):
        return "a.m." if value.hour < 12 else "p.m."
    if field in ("AD", "BC", "A.D.", "B.C.", "ad", "bc", "a.d.", "b.c."):
        word = ("A.D." if year > 0 else "B.C.") if "." in field else ("AD" if year > 0 else "BC")
        return word if field.isupper() else word.lower()
    if field == "Y,YYY":
        return f"{shown_year // 1000},{shown_year % 1000:03d}"
    if field in ("RM", "rm"):
        roman = _ROMAN[value.month - 1]
        roman = roman if fill else roman.ljust(4)
        return roman if field == "RM" else roman.lower()
    return _zone_field(field, clock)


def _zone_field(field: str, clock: _Clock | None) -> str:
    if clock is None:
        return "+00" if field in ("OF", "TZH") else "00" if field == "TZM" else ""
    minutes = int(clock.offset / dt.timedelta(minutes=1))
    sign = "-" if minutes < 0 else "+"
    hours, rest = divmod(abs(minutes), 60)
    if field == "TZH":
        return f"{sign}{hours:02d}"
    if field == "TZM":
        return f"{rest:02d}"
    if field == "OF":
        return f"{sign}{hours:02d}" + (f":{rest:02d}" if rest else "")
    return clock.name if field == "TZ" else clock.name.lower()


def to_char_interval(interval: Mapping[str, int], pattern: str) -> str:
    """to_char(interval, pattern): years, months, days and an unlimited hour."""
    years, months = int(interval["months"] / 12), interval["months"] - int(interval["months"] / 12) * 12
    days, micros = interval["days"], abs(interval["micros"])
    sign = -1 if interval["micros"] < 0 else 1
    hours, rest = divmod(micros, 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    hour12 = sign * (hours % 12) or 12
    is_afternoon = sign > 0 and hours % 24 >= 12
    days_in_all = wrapped(days + 30 * interval["months"])
    signed = {
        "HH24": (sign * hours, 2, sign * hours),
        "HH12": (hour12, 2, sign * hours),
        "HH": (hour12, 2, sign * hours),
        "MI": (sign * minutes, 2, sign * minutes),
        "SS": (sign * seconds, 2, sign * seconds),
        "YYYY": (years, 4, years),
        "YYY": (remainder(years, 1000), 3, years),
        "YY": (remainder(years, 100), 2, years),
        "Y": (remainder(years, 10), 1, 0),
        "MM": (months, 2, months),
        "CC": (quotient(years, 100), 2, quotient(years, 100)),
    }
    """Their numbers, how wide they are, and whose sign makes them wider."""
    plain = {
        "MS": (sign * (fraction // 1000), 3),
        "US": (sign * fraction, 6),
        "DD": (days, 2),
        "DDD": (days_in_all, 3),
        "W": (quotient(wrapped(days - 1), 7) + 1, 1),
        "WW": (quotient(wrapped(days_in_all - 1), 7) + 1, 2),
    }
    plain |= {f"FF{digits}": (sign * (fraction // 10 ** (6 - digits)), digits) for digits in range(1, 7)}
    if _ISO_FIELD.search(pattern) is not None:
        iso_year = year_of_week(years, months, days)
        signed |= {
            "IYYY": (iso_year, 4, years),
            "IYY": (remainder(iso_year, 1000), 3, years),
            "IY": (remainder(iso_year, 100), 2, years),
            "I": (remainder(iso_year, 10), 1, 0),
        }
        plain |= {
            "IDDD": (day_of_week_year(years, months, days), 3),
            "IW": (week_of(years, months, days), 2),
            "J": (julian_day(years, months, days), 1),
        }
    out: list[str] = []
    for token, text, fill, _ in tokens(pattern):
        if token != "field":
            out.append(text)
            continue
        field, _, suffix = text.partition("\0")
        if field in signed:
            number, width, of = signed[field]
            shown = str(number) if fill else f"{number:0{width + (of < 0)}d}"
        elif field in plain:
            number, width = plain[field]
            shown = str(number) if fill else f"{number:0{width}d}"
        elif field == "Q":
            if not months:
                continue
            shown = str(int((months - 1) / 3) + 1)
        elif field == "Y,YYY":
            shown = f"{int(years / 1000)},{years - int(years / 1000) * 1000:03d}"
        elif field in ("RM", "rm"):
            # Of 12 months only years are left; -1 counts from the year's end.
            place = months - (months > 0) if months else 11 if years >= 0 else 0
            roman = _ROMAN[place] if months or years else ""
            roman = roman if fill or not roman else roman.ljust(4)
            shown = roman if field == "RM" else roman.lower()
        elif field in ("SSSS", "SSSSS"):
            shown = str(sign * (hours * 3600 + minutes * 60 + seconds))
        elif field.upper() in ("AM", "PM", "A.M.", "P.M."):
            half = ("P.M." if is_afternoon else "A.M.") if "." in field else "PM" if is_afternoon else "AM"
            shown = half if field.isupper() else half.lower()
        else:
            raise InvalidDatetimeFormat(
                "invalid format specification for an interval value",
                hint="Intervals are not tied to specific calendar dates.",
            )
        out.append(ordinal(shown, suffix) if suffix else shown)
    return "".join(out)
