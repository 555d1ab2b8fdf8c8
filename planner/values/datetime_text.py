"""Text input of date, time, timestamp and timestamptz. Values are as in `planner.ir.nodes.Literal`: numbers for years
that Python does not have and for 24:00:00, and infinity and -infinity are the strings themselves.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time

from planner.errors import (
    DatetimeFieldOverflow,
)
from planner.values.datetimes.calendar_days import (
    DAY_MICROS,
    FIRST_DAY,
    FIRST_MICROS,
    LAST_DAY,
    LAST_MICROS,
    clock_of,
    date_of,
    days_from_civil,
    days_of,
    timestamp_of,
    timestamptz_of,
)
from planner.values.datetimes.fields import DateTimeFields, invalid, read_fields
from planner.values.datetimes.time_zones import setting_zone
from planner.values.opaque.timetz import show_timetz


def parse_date(text: str, date_style: str) -> date | int | str:
    """A date, or "infinity" / "-infinity". Raises 22007, 22008."""
    fields = read_fields(text, "date", date_style)
    if fields.special == "epoch":
        return date(1970, 1, 1)
    if fields.special is not None and fields.special.endswith("infinity"):
        return fields.special
    if fields.special is not None:
        raise invalid("date", text)
    return date_of(_day(fields, text))


def parse_time(text: str, date_style: str) -> time | int:
    """A time of day without zone; a zone in the text is ignored. Raises 22007, 22008."""
    fields = read_fields(text, "time", date_style)
    if fields.special is not None:
        raise invalid("time", text)
    return clock_of(fields.clock)


def parse_timetz(text: str, date_style: str, zone: str) -> str:
    """A time of day with its offset from UTC (the session's when the text has none), as `timetz` shows it. Raises 22007
    also for a zone whose offset changes, when the text has no date."""
    fields = read_fields(text, "time with time zone", date_style)
    if fields.special is not None:
        raise invalid("time with time zone", text)
    found = fields.zone or setting_zone(zone)
    day = _day(fields, text) if fields.has_date else days_of(datetime.now(UTC).date())
    wall = day * DAY_MICROS + fields.clock
    return show_timetz(fields.clock, (wall - found.micros_of_wall(wall)) // 1_000_000)


def parse_timestamp(text: str, date_style: str) -> datetime | int | str:
    """A timestamp without zone; a zone in the text is ignored. Raises 22007, 22008."""
    fields = read_fields(text, "timestamp", date_style)
    if fields.special == "epoch":
        return timestamp_of(0)
    if fields.special is not None and fields.special.endswith("infinity"):
        return fields.special
    if fields.special is not None:
        raise invalid("timestamp", text)
    return timestamp_of(_moment(fields, text))


def parse_timestamptz(text: str, date_style: str, zone: str) -> datetime | int | str:
    """A moment, in UTC; a text without a zone is in the session's `zone`. Raises 22007, 22008, 22023."""
    fields = read_fields(text, "timestamp with time zone", date_style)
    if fields.special == "epoch":
        return timestamptz_of(0)
    if fields.special is not None and fields.special.endswith("infinity"):
        return fields.special
    if fields.special is not None:
        raise invalid("timestamp with time zone", text)
    local = _moment(fields, text)
    moment = (fields.zone or setting_zone(zone)).micros_of_wall(local)
    if not FIRST_MICROS <= moment <= LAST_MICROS:
        raise DatetimeFieldOverflow(f'timestamp out of range: "{text}"')
    return timestamptz_of(moment)


def _day(fields: DateTimeFields, text: str) -> int:
    """The day number of the fields."""
    days = days_from_civil(fields.year, fields.month, fields.day)
    if not FIRST_DAY <= days <= LAST_DAY:
        raise DatetimeFieldOverflow(f'date out of range: "{text}"')
    return days


def _moment(fields: DateTimeFields, text: str) -> int:
    """The microseconds of the fields' wall clock."""
    days = days_from_civil(fields.year, fields.month, fields.day)
    micros = days * DAY_MICROS + fields.clock
    if not FIRST_DAY <= days <= LAST_DAY or not FIRST_MICROS <= micros <= LAST_MICROS:
        raise DatetimeFieldOverflow(f'timestamp out of range: "{text}"')
    return micros
