"""Dates, times and intervals: input, age, series, arithmetic with fractions, and construction with range checks.

Moments are microseconds since 1970-01-01, of UTC for timestamptz and of the wall clock for timestamp.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Any

from planner.common_errors import division_by_zero, interval_out_of_range, timestamp_out_of_range
from planner.errors import (
    DatetimeFieldOverflow,
    FeatureNotSupported,
    InvalidParameterValue,
    InvalidTimeZoneDisplacementValue,
)
from planner.functions.udfs.table import INTERVAL, Udf
from planner.ir.nodes import Interval
from planner.types import types
from planner.types.types import SqlType
from planner.values.datetimes.calendar_days import DAY_MICROS as DAY
from planner.values.datetimes.calendar_days import (
    FIRST_DAY,
    FIRST_MICROS,
    LAST_DAY,
    LAST_MICROS,
    MICROS_1970_TO_2000,
    TIMESTAMP_INFINITY,
    checked_micros,
    civil_from_days,
    clock_micros,
    clock_of,
    days_from_civil,
    days_in_month,
    days_of,
    micros_of,
    months_later,
)
from planner.values.datetimes.fields import parse_distance
from planner.values.datetimes.time_zones import Zone, setting_zone, zone_of
from planner.values.text_values import format_text, parse_text

DAYS_PER_MONTH = 30

IntervalValue = dict[str, int]


def make_interval(months: int, days: int, micros: int) -> IntervalValue:
    """An interval whose parts are in range."""
    if not (-(2**31) <= months < 2**31 and -(2**31) <= days < 2**31 and -(2**63) <= micros < 2**63):
        raise interval_out_of_range()
    return {"months": months, "days": days, "micros": micros}


def add_interval(micros: int, interval: Mapping[str, int], zone: Zone | None = None) -> int:
    """A moment plus an interval: months (clamped to the month's last day), days, microseconds; months and days by the
    wall clock of `zone`."""
    if interval["months"] or interval["days"]:
        days, clock = divmod(micros if zone is None else micros + zone.offset_of(micros), DAY)
        later = months_later(days, interval["months"]) + interval["days"]
        wall = checked_micros(later * DAY + clock)
        micros = wall if zone is None else zone.micros_of_wall(wall)
    return checked_micros(micros + interval["micros"])


def wall(micros: int, zone: str) -> int:
    """What clocks of a zone show at a moment: timestamptz AT TIME ZONE."""
    return checked_micros(micros + zone_of(zone).offset_of(micros))


def moment_of_wall(micros: int, zone: str) -> int:
    """The moment at which clocks of a zone show this: timestamp AT TIME ZONE."""
    return checked_micros(zone_of(zone).micros_of_wall(micros))


def session_wall(micros: int, zone: str) -> int:
    """`wall` of the setting TimeZone, where CET is the zone of that name and not the abbreviation."""
    return checked_micros(micros + setting_zone(zone).offset_of(micros))


def session_moment(micros: int, zone: str) -> int:
    """`moment_of_wall` of the setting TimeZone."""
    return checked_micros(setting_zone(zone).micros_of_wall(micros))


def age(left: int, right: int) -> IntervalValue:
    """age(a, b): the difference in years, months, days and time, borrowing month lengths as PostgreSQL does. PostgreSQL
    15 counts to infinity as to the last moment that its 64 bits hold."""
    left, right = (_of_2000(micros) for micros in (left, right))
    negative = left < right
    (left_day, left_clock), (right_day, right_clock) = divmod(left, DAY), divmod(right, DAY)
    a, b = civil_from_days(left_day), civil_from_days(right_day)
    micros, days, months = left_clock - right_clock, a[2] - b[2], (a[0] - b[0]) * 12 + a[1] - b[1]
    if negative:
        micros, days, months = -micros, -days, -months
    if micros < 0:
        micros += DAY
        days -= 1
    year, month, _ = a if negative else b
    while days < 0:
        days += days_in_month(year, month)
        months -= 1
    if negative:
        micros, days, months = -micros, -days, -months
    return make_interval(months, days, micros)


def _of_2000(micros: int) -> int:
    if micros == -TIMESTAMP_INFINITY:
        raise timestamp_out_of_range()
    return micros + MICROS_1970_TO_2000 if micros == TIMESTAMP_INFINITY else micros


def series(start: int, stop: int, step: Mapping[str, int], zone: str) -> list[int]:
    """generate_series of moments; `zone` is empty where days are 24 hours."""
    total = _length(step)
    if total == 0:
        raise InvalidParameterValue("step size cannot equal zero")
    clock = setting_zone(zone) if zone else None
    found: list[int] = []
    current = start
    while current <= stop if total > 0 else current >= stop:
        found.append(current)
        current = add_interval(current, step, clock)
    return found


def _rounded(value: float) -> float:
    return round(value * 1_000_000) / 1_000_000


def _of_parts(months_exact: float, days_exact: float, micros_exact: float) -> IntervalValue:
    """What is left of months goes to days (30 a month), of days to time."""
    # NaN is in no range.
    if not (abs(months_exact) < 2**31 and abs(days_exact) < 2**31 and abs(micros_exact) < 2**63):
        raise interval_out_of_range()
    months, days = int(months_exact), int(days_exact)
    month_days = _rounded((months_exact - months) * DAYS_PER_MONTH)
    seconds = _rounded((days_exact - days + month_days - int(month_days)) * 86400.0)
    if abs(seconds) >= 86400.0:
        days += int(seconds / 86400.0)
        seconds -= int(seconds / 86400.0) * 86400.0
    days += int(month_days)
    return make_interval(months, days, round(micros_exact + seconds * 1_000_000))


def scale(interval: Mapping[str, int], factor: float) -> IntervalValue:
    """interval * factor (interval_mul)."""
    return _of_parts(interval["months"] * factor, interval["days"] * factor, interval["micros"] * factor)


_FIELDS = ("months", "days", "micros")


def _length(interval: Mapping[str, int]) -> int:
    """What intervals are compared by: months of 30 days, days of 24 hours (interval_cmp_value)."""
    return (interval["months"] * DAYS_PER_MONTH + interval["days"]) * DAY + interval["micros"]


def percentile(intervals: Sequence[Mapping[str, int] | None], place: float, ascending: bool) -> IntervalValue:
    """percentile_cont(): what is at `place` in the sorted intervals, between two of them by interval_lerp's formula."""
    ordered = sorted((each for each in intervals if each is not None), key=_length, reverse=not ascending)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    if low is high:
        return make_interval(low["months"], low["days"], low["micros"])
    step = scale({field: high[field] - low[field] for field in _FIELDS}, place - math.floor(place))
    return make_interval(*(low[field] + step[field] for field in _FIELDS))


def divide(interval: Mapping[str, int], divisor: float) -> IntervalValue:
    """interval / divisor (interval_div)."""
    if divisor == 0:
        raise division_by_zero()
    return _of_parts(interval["months"] / divisor, interval["days"] / divisor, interval["micros"] / divisor)


def average(months: int, days: int, micros: int, count: int) -> IntervalValue | None:
    """avg(interval) from sums and count."""
    if not count:
        return None
    return divide(make_interval(months, days, micros), float(count))


def over_distinct(kind: str, values: list[str]) -> IntervalValue | None:
    """sum or avg (`kind`) over the different ones of values given as "months days micros"."""
    parts = [tuple(map(int, value.split())) for value in values if value]
    different = {(part[0] * DAYS_PER_MONTH + part[1]) * DAY + part[2]: part for part in parts}
    if not different:
        return None
    total = make_interval(*[sum(numbers) for numbers in zip(*different.values(), strict=True)])
    return total if kind == "sum" else divide(total, float(len(different)))


def _carry(value: int, unit: int) -> tuple[int, int]:
    quotient = int(value / unit) if abs(value) < 2**52 else (abs(value) // unit) * (1 if value > 0 else -1)
    return quotient, value - quotient * unit


def justify_hours(interval: Mapping[str, int]) -> IntervalValue:
    """justify_hours(): 24 hours are a day."""
    whole, micros = _carry(interval["micros"], DAY)
    days = interval["days"] + whole
    if days > 0 and micros < 0:
        days, micros = days - 1, micros + DAY
    elif days < 0 and micros > 0:
        days, micros = days + 1, micros - DAY
    return make_interval(interval["months"], days, micros)


def justify_days(interval: Mapping[str, int]) -> IntervalValue:
    """justify_days(): 30 days are a month."""
    whole, days = _carry(interval["days"], DAYS_PER_MONTH)
    months = interval["months"] + whole
    if months > 0 and days < 0:
        months, days = months - 1, days + DAYS_PER_MONTH
    elif months < 0 and days > 0:
        months, days = months + 1, days - DAYS_PER_MONTH
    return make_interval(months, days, interval["micros"])


def justify_interval(interval: Mapping[str, int]) -> IntervalValue:
    """justify_interval(): both, and all parts get one sign."""
    months, days, micros = interval["months"], interval["days"], interval["micros"]
    if (days > 0 and micros > 0) or (days < 0 and micros < 0):
        whole, days = _carry(days, DAYS_PER_MONTH)
        months += whole
    whole, micros = _carry(micros, DAY)
    days += whole
    whole, days = _carry(days, DAYS_PER_MONTH)
    months += whole
    if months > 0 and (days < 0 or (days == 0 and micros < 0)):
        days, months = days + DAYS_PER_MONTH, months - 1
    elif months < 0 and (days > 0 or (days == 0 and micros > 0)):
        days, months = days - DAYS_PER_MONTH, months + 1
    if days > 0 and micros < 0:
        micros, days = micros + DAY, days - 1
    elif days < 0 and micros > 0:
        micros, days = micros - DAY, days + 1
    return make_interval(months, days, micros)


def date_bin(stride: Mapping[str, int], source: int, origin: int) -> int:
    """date_bin(stride, source, origin)."""
    if stride["months"]:
        raise FeatureNotSupported("timestamps cannot be binned into intervals containing months or years")
    width = stride["days"] * DAY + stride["micros"]
    if width <= 0:
        raise DatetimeFieldOverflow("stride must be greater than zero")
    return checked_micros(origin + (source - origin) // width * width)


def make_date(year: int, month: int, day: int) -> int:
    """make_date(), as days since 1970; negative years are BC."""
    return _days(year, month, day, shown=year if year > 0 else year + 1)


def _days(year: int, month: int, day: int, *, shown: int) -> int:
    """The day of a date; what there is not is told with the year `shown`."""
    told = year
    try:
        if year in (0, -(2**31)):
            raise ValueError
        told = shown
        days = days_from_civil(year if year > 0 else year + 1, month, day)
    except ValueError:
        raise DatetimeFieldOverflow(f"date field value out of range: {told}-{month:02d}-{day:02d}") from None
    if not FIRST_DAY <= days <= LAST_DAY:
        raise DatetimeFieldOverflow(f"date out of range: {shown}-{month:02d}-{day:02d}")
    return days


def make_time(hour: int, minute: int, seconds: float) -> int:
    """make_time(), as microseconds since midnight."""
    return _clock(hour, minute, seconds)


class _EndOfDay:
    """24:00:00 as PySpark takes a time of day: by these attributes. Python's own has no such value."""

    hour, minute, second, microsecond = 24, 0, 0, 0


def clock(micros: int) -> dt.time | _EndOfDay:
    """The time of day so many microseconds after midnight, a day at most, for Spark."""
    value = clock_of(micros)
    return _EndOfDay() if isinstance(value, int) else value


def _clock(hour: int, minute: int, seconds: float) -> int:
    """Microseconds since midnight, a day at most."""
    micros = round(seconds * 1_000_000) if math.isfinite(seconds) else -1
    total = (hour * 60 + minute) * 60_000_000 + micros
    if not (0 <= hour <= 24 and 0 <= minute < 60 and 0 <= micros <= 60_000_000 and total <= DAY):
        raise DatetimeFieldOverflow(f"time field value out of range: {hour}:{minute:02d}:{_seconds(seconds)}")
    return total


def _seconds(seconds: float) -> str:
    if math.isfinite(seconds):
        return f"{seconds:02g}"
    return "NaN" if math.isnan(seconds) else "Infinity" if seconds > 0 else "-Infinity"


def make_timestamp(year: int, month: int, day: int, hour: int, minute: int, seconds: float) -> int:
    """make_timestamp(), as microseconds since 1970."""
    micros = _days(year, month, day, shown=year) * DAY + _clock(hour, minute, seconds)
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        text = f"{year}-{month:02d}-{day:02d} {hour}:{minute:02d}:{_seconds(seconds)}"
        raise DatetimeFieldOverflow(f"timestamp out of range: {text}")
    return micros


def make_timestamptz(
    year: int, month: int, day: int, hour: int, minute: int, seconds: float, zone: str
) -> int:  # fmt: skip
    """make_timestamptz() with a zone: its name, or a distance that is east of Greenwich where it is positive."""
    wall = make_timestamp(year, month, day, hour, minute, seconds)
    if zone[:1].isdigit():
        raise InvalidParameterValue(
            f'invalid input syntax for type numeric time zone: "{zone}"',
            hint='Numeric time zones must have "-" or "+" as first character.',
        )
    return checked_micros((_distance(zone) or zone_of(zone)).micros_of_wall(wall))


def _distance(text: str) -> Zone | None:
    if text[:1] not in ("+", "-"):
        return None
    try:
        return parse_distance(text)
    except InvalidTimeZoneDisplacementValue:
        raise InvalidParameterValue(f'numeric time zone "{text}" out of range') from None
    except ValueError:
        return None


def _settings(given: str) -> dict[str, str]:
    zone, _, style = given.partition(";")
    return {"TimeZone": zone, "DateStyle": style}


def date_in(text: str, settings: str) -> int:
    """date input, as days since 1970."""
    return days_of(_parsed(text, types.DATE, settings))


def timestamp_in(text: str, settings: str) -> int:
    """timestamp input, as microseconds since 1970."""
    return micros_of(_parsed(text, types.TIMESTAMP, settings))


def timestamptz_in(text: str, settings: str) -> int:
    """timestamptz input, as microseconds since 1970."""
    return micros_of(_parsed(text, types.TIMESTAMPTZ, settings))


def _parsed(text: str, oid: int, settings: str) -> Any:
    return parse_text(text, SqlType(oid), _settings(settings))


def timestamptz_out(micros: int, zone: str) -> str:
    """Text of a timestamptz in a time zone."""
    return format_text(micros, SqlType(types.TIMESTAMPTZ), {"TimeZone": zone})


def moment_out(number: int, type_name: str, settings: str) -> str:
    """Text of a date (its days) or timestamp (its microseconds) in the DateStyle of `settings` (`time zone;style`)."""
    known = _settings(settings)
    if type_name == "date":
        return format_text(number, SqlType(types.DATE), known)
    if type_name == "timestamp without time zone":
        return format_text(number, SqlType(types.TIMESTAMP), known)
    return format_text(number, SqlType(types.TIMESTAMPTZ), known)


def time_in(text: str) -> int:
    """time input, as microseconds since midnight."""
    value = parse_text(text, SqlType(types.TIME))
    assert isinstance(value, (dt.time, int))
    return clock_micros(value)


def interval_in(text: str, style: str) -> IntervalValue:
    """interval input by an IntervalStyle."""
    value = parse_text(text, SqlType(types.INTERVAL), {"IntervalStyle": style})
    assert isinstance(value, Interval)
    return make_interval(value.months, value.days, value.micros)


_T, _I, _B, _F = "VARCHAR", "INTEGER", "BIGINT", "DOUBLE"

UDFS: Mapping[str, Udf] = {
    "tg_age": Udf((_B, _B), INTERVAL, age),
    "tg_timestamp_series": Udf((_B, _B, INTERVAL, _T), "BIGINT[]", series),
    "tg_interval_percentile": Udf((f"{INTERVAL}[]", _F, "BOOLEAN"), INTERVAL, percentile),
    "tg_interval_mul": Udf((INTERVAL, _F), INTERVAL, scale),
    "tg_interval_div": Udf((INTERVAL, _F), INTERVAL, divide),
    "tg_interval_avg": Udf((_B, _B, _B, _B), INTERVAL, average),
    "tg_interval_over_distinct": Udf((_T, "VARCHAR[]"), INTERVAL, over_distinct),
    "tg_justify_hours": Udf((INTERVAL,), INTERVAL, justify_hours),
    "tg_justify_days": Udf((INTERVAL,), INTERVAL, justify_days),
    "tg_justify_interval": Udf((INTERVAL,), INTERVAL, justify_interval),
    "tg_date_bin": Udf((INTERVAL, _B, _B), _B, date_bin),
    "tg_make_date": Udf((_I, _I, _I), _I, make_date),
    "tg_make_time": Udf((_I, _I, _F), _B, make_time),
    "tg_clock": Udf((_B,), "TIME", clock),
    "tg_make_timestamp": Udf((_I, _I, _I, _I, _I, _F), _B, make_timestamp),
    "tg_date_in": Udf((_T, _T), _I, date_in),
    "tg_timestamp_in": Udf((_T, _T), _B, timestamp_in),
    "tg_timestamptz_in": Udf((_T, _T), _B, timestamptz_in),
    "tg_make_timestamptz": Udf((_I, _I, _I, _I, _I, _F, _T), _B, make_timestamptz),
    "tg_wall": Udf((_B, _T), _B, wall),
    "tg_moment": Udf((_B, _T), _B, moment_of_wall),
    "tg_session_wall": Udf((_B, _T), _B, session_wall),
    "tg_session_moment": Udf((_B, _T), _B, session_moment),
    "tg_moment_out": Udf((_B, _T, _T), _T, moment_out),
    "tg_timestamptz_out": Udf((_B, _T), _T, timestamptz_out),
    "tg_time_in": Udf((_T,), _B, time_in),
    "tg_interval_in": Udf((_T, _T), INTERVAL, interval_in),
}
