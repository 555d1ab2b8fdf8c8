"""to_timestamp and to_date (PostgreSQL, section 9.8)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from planner.common_errors import datetime_field_overflow
from planner.errors import (
    DatetimeFieldOverflow,
    InvalidDatetimeFormat,
    InvalidTimeZoneDisplacementValue,
)
from planner.functions.udfs.templates.datetime_scanning import scanned_fields
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


def to_timestamp(text: str, pattern: str, zone: str) -> int:
    """to_timestamp(text, pattern): the moment, as microseconds since 1970, of a wall-clock time in `zone`, or in the
    zone that its fields TZH and TZM say."""
    found = scanned_fields(text, pattern)
    wall = assembled(found, text)
    if "TZH" in found or "TZM" in found:
        micros = checked_micros(wall - distance(found, text) // dt.timedelta(microseconds=1))
    else:
        micros = checked_micros(setting_zone(zone).micros_of_wall(wall))
    unit: int = 10 ** (6 - found.get("FF", 6))
    return (micros + unit // 2) // unit * unit


def to_date(text: str, pattern: str) -> int:
    """to_date(text, pattern), as days since 1970."""
    return assembled(scanned_fields(text, pattern), text) // DAY_MICROS


def distance(found: Mapping[str, int], text: str) -> dt.timedelta:
    """How far east of Greenwich the zone of TZH and TZM is."""
    hours, minutes = found.get("TZH", 0), found.get("TZM", 0)
    if not 0 <= hours <= MAX_ZONE_HOURS or not 0 <= minutes <= 59:
        raise InvalidTimeZoneDisplacementValue(f'time zone displacement out of range: "{text}"')
    return dt.timedelta(hours=hours, minutes=minutes) * found.get("TZ sign", 1)


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
            raise InvalidDatetimeFormat(
                f'hour "{hour}" is invalid for the 12-hour clock',
                hint="Use the 24-hour clock, or give an hour between 1 and 12.",
            )
        hour = hour % 12 + 12 * found.get("PM", 0)
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
            if not 0 < found["DDD"] <= days_from_civil(year + 1, 1, 1) - days_from_civil(year, 1, 1):
                raise datetime_field_overflow(text)
        elif "WW" in found and "MM" not in found:
            days = days_from_civil(year, 1, 1) + (found["WW"] - 1) * 7
        else:
            days = days_from_civil(year, month, day)
        clock = dt.time(hour, found.get("MI", 0), found.get("SS", 0), found.get("US", 0))
    except ValueError:
        raise datetime_field_overflow(text) from None
    if not FIRST_DAY <= days <= LAST_DAY:
        raise DatetimeFieldOverflow(f'date out of range: "{text}"')
    if not 0 <= found.get("SSSS", found.get("SSSSS", 0)) < 86_400:
        raise datetime_field_overflow(text)
    seconds = found.get("SSSS", found.get("SSSSS", 0)) + (clock.hour * 60 + clock.minute) * 60 + clock.second
    return days * DAY_MICROS + seconds * 1_000_000 + clock.microsecond
