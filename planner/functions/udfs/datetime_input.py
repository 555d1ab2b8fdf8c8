"""to_timestamp and to_date (PostgreSQL, section 9.8)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping

from planner.common_errors import datetime_field_overflow
from planner.errors import (
    DatetimeFieldOverflow,
    FeatureNotSupported,
    InvalidDatetimeFormat,
    InvalidTimeZoneDisplacementValue,
)
from planner.functions.udfs.template_patterns import DAYS, MONTHS, tokens
from planner.values.datetimes.calendar_days import (
    DAY_MICROS,
    FIRST_DAY,
    LAST_DAY,
    checked_micros,
    days_from_civil,
    days_of,
)
from planner.values.datetimes.time_zones import setting_zone

MAX_ZONE_HOURS = 15
"""The farthest that a time zone may be from Greenwich, in hours (PostgreSQL's MAX_TZDISP_HOUR)."""


def _invalid_value(text: str, field: str, detail: str) -> InvalidDatetimeFormat:
    return InvalidDatetimeFormat(f'invalid value "{text}" for "{field}"', detail=detail)


def to_timestamp(text: str, pattern: str, zone: str) -> int:
    """to_timestamp(text, pattern): the moment, as microseconds since 1970, of a wall-clock time in `zone`, or in the
    zone that its fields TZH and TZM say."""
    found = _fields_of(text, pattern)
    wall = assembled(found, text)
    if "TZH" in found or "TZM" in found:
        return checked_micros(wall - distance(found, text) // dt.timedelta(microseconds=1))
    return checked_micros(setting_zone(zone).micros_of_wall(wall))


def to_date(text: str, pattern: str) -> int:
    """to_date(text, pattern), as days since 1970."""
    return assembled(_fields_of(text, pattern), text) // DAY_MICROS


def distance(found: Mapping[str, int], text: str) -> dt.timedelta:
    """How far east of Greenwich the zone of TZH and TZM is."""
    hours, minutes = found.get("TZH", 0), found.get("TZM", 0)
    if hours > MAX_ZONE_HOURS or minutes > 59:
        raise InvalidTimeZoneDisplacementValue(f'time zone displacement out of range: "{text}"')
    return dt.timedelta(hours=hours, minutes=minutes) * found.get("TZ sign", 1)


def _fields_of(text: str, pattern: str) -> dict[str, int]:
    """The numbers that the fields of a pattern find in `text`, by field."""
    found: dict[str, int] = {}
    position = 0
    parts = tokens(pattern)
    for number, (token, part, _, _) in enumerate(parts):
        if token != "field":
            if part == " " or not part.isalnum():
                if position < len(text) and not text[position].isalnum() and text[position] not in "+":
                    position += 1
            else:
                position += len(part)
            continue
        while position < len(text) and text[position] == " ":
            position += 1
        if position >= len(text):
            break
        field = part.partition("\0")[0]
        following = parts[number + 1] if number + 1 < len(parts) else None
        position = read_field(text, position, field, following is not None and following[0] == "field", found)
    return found


_WIDTHS = {
    "HH24": 2,
    "HH12": 2,
    "HH": 2,
    "MI": 2,
    "SS": 2,
    "MS": 3,
    "US": 6,
    "YYYY": 4,
    "YYY": 3,
    "YY": 2,
    "Y": 1,
    "MM": 2,
    "DD": 2,
    "DDD": 3,
    "D": 1,
    "W": 1,
    "WW": 2,
    "IW": 2,
    "IYYY": 4,
    "IYY": 3,
    "IY": 2,
    "I": 1,
    "IDDD": 3,
    "ID": 1,
    "Q": 1,
    "J": 7,
    "CC": 2,
    "SSSS": 5,
    "SSSSS": 5,
    "FF1": 1,
    "FF2": 2,
    "FF3": 3,
    "FF4": 4,
    "FF5": 5,
    "FF6": 6,
}


_SHORT_YEARS = {"YYY": "YYYY", "YY": "YYYY", "Y": "YYYY", "IYY": "IYYY", "IY": "IYYY", "I": "IYYY"}
"""Fields of fewer than four digits, which stand for the year nearest to 2020, and the field that they fill."""


def read_field(text: str, position: int, field: str, adjacent: bool, found: dict[str, int]) -> int:
    """Reads a field of a template at `position` into `found`; where it ends. `adjacent`: another field follows."""
    upper = field.upper()
    if upper in ("MONTH", "MON", "DAY", "DY"):
        names = MONTHS if upper in ("MONTH", "MON") else DAYS
        rest = text[position:].lower()
        for index, name in enumerate(names):
            for form in (name,) if upper in ("MONTH", "DAY") else (name[:3],):
                if rest.startswith(form.lower()):
                    if names is MONTHS:
                        found["MM"] = index + 1
                    return position + len(form)
        raise _invalid_value(
            text[position : position + 3 if upper in ("MON", "DY") else None],
            field,
            "The given value did not match any of the allowed values for this field.",
        )
    if upper in ("AM", "PM", "A.M.", "P.M."):
        found["PM"] = 1 if text[position : position + 1].lower() == "p" else 0
        return position + len(field)
    if upper in ("AD", "BC", "A.D.", "B.C."):
        if text[position : position + 1].lower() == "b":
            found["BC"] = 1
        return position + len(field)
    if upper == "Y,YYY":
        match = re.compile(r"(\d+),(\d{3})").match(text, position)
        if match is None:
            raise _invalid_value(text[position : position + 5], field, "Value must be an integer.")
        found["YYYY"] = int(match[1]) * 1000 + int(match[2])
        return match.end()
    if upper in ("TZ", "OF"):
        raise FeatureNotSupported(f'formatting field "{field}" is only supported in to_char')
    if upper in ("TZH", "TZM"):
        match = re.compile(r"([+ -]?)([+-]?\d{1,2})" if upper == "TZH" else r"()(\d{1,2})").match(text, position)
        if match is None:
            raise _invalid_value(text[position : position + 2], field, "Value must be an integer.")
        if upper == "TZH":
            # A minus sign may have been taken for the separator before the field.
            negative = match[1] == "-" or (not match[1] and text[position - 1 : position] == "-")
            found["TZ sign"] = -1 if negative else 1
        found[upper] = int(match[2])
        return match.end()
    width = _WIDTHS.get(upper, 2)
    if upper.startswith("FF") and not adjacent:
        width = 6
    limit = r"\d{1," + str(width) + "}" if adjacent or upper in ("MS", "US") or upper.startswith("FF") else r"\d+"
    match = re.compile(r"[+-]?" + limit).match(text, position)
    if match is None:
        shown = text[position : position + width]
        raise _invalid_value(shown, field, "Value must be an integer.")
    digits = match[0]
    value = int(digits)
    if upper == "MS":
        found["US"] = int(digits.ljust(3, "0")) * 1000
    elif upper == "US" or upper.startswith("FF"):
        found["US"] = int(digits.ljust(6, "0")[:6])
    elif upper in _SHORT_YEARS:
        if len(digits) < 4:
            value += (2000 if value < 70 else 1900) if value < 100 else 2000 if value < 520 else 1000
        found[_SHORT_YEARS[upper]] = value
    else:
        found["HH12" if upper == "HH" else upper] = value
    return match.end()


def _year_of(found: Mapping[str, int]) -> int:
    """The year that the fields say, 0 being 1 BC, which it is without any (do_to_timestamp)."""
    sign = -1 if "BC" in found else 1
    if "YYYY" not in found and "CC" in found:
        century = sign * found["CC"]
        return (century - 1) * 100 + 1 if century >= 0 else century * 100 + 1
    year = sign * found.get("YYYY", 0)
    return year + 1 if year < 0 else year


def assembled(found: Mapping[str, int], text: str) -> int:
    """The microseconds since 1970 of the wall clock that the fields say."""
    month, day = found.get("MM", 1), found.get("DD", 1)
    year = _year_of(found)
    hour = found.get("HH24", 0)
    if "HH12" in found:
        hour = found["HH12"]
        if not 1 <= hour <= 12:
            raise DatetimeFieldOverflow(
                f'hour "{hour}" is invalid for the 12-hour clock',
                hint="Use the 24-hour clock, or give an hour between 1 and 12.",
            )
        if "PM" in found:
            hour = hour % 12 + 12 * found["PM"]
    if "W" in found and "DD" not in found:
        day = (found["W"] - 1) * 7 + 1
    if year == 0 and "BC" not in found and "MM" not in found and ("DDD" in found or "WW" in found):
        raise InvalidDatetimeFormat("cannot calculate day of year without year information")
    try:
        if "J" in found:
            days = FIRST_DAY + found["J"]
        elif "IYYY" in found or "IW" in found or "IDDD" in found:
            cycles, like = divmod(found.get("IYYY", 0) - 1, 400)
            if "IDDD" in found:
                day_of_year = dt.date.fromisocalendar(like + 1, 1, 1) + dt.timedelta(days=found["IDDD"] - 1)
            else:
                day_of_year = dt.date.fromisocalendar(like + 1, found.get("IW", 1), found.get("ID", 1))
            days = days_of(day_of_year) + cycles * 146_097
        elif "DDD" in found and "MM" not in found:
            days = days_from_civil(year, 1, 1) + found["DDD"] - 1
        elif "WW" in found and "MM" not in found:
            days = days_from_civil(year, 1, 1) + (found["WW"] - 1) * 7
        else:
            days = days_from_civil(year, month, day)
        clock = dt.time(hour, found.get("MI", 0), found.get("SS", 0), found.get("US", 0))
    except ValueError:
        raise datetime_field_overflow(text) from None
    if not FIRST_DAY <= days <= LAST_DAY:
        raise DatetimeFieldOverflow(f'date out of range: "{text}"')
    seconds = found.get("SSSS", found.get("SSSSS", 0)) + (clock.hour * 60 + clock.minute) * 60 + clock.second
    return days * DAY_MICROS + seconds * 1_000_000 + clock.microsecond
