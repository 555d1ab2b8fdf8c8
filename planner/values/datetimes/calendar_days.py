"""Dates and timestamps as numbers: days and microseconds since 1970, of all years that PostgreSQL has.

The calendar is the Gregorian one, also for the years before it; year 0 is 1 BC. A value that Python's own types cannot
hold (years before 1 and after 9999) is its number in `planner.ir.nodes.Literal` too. The calendar, and with it the
weekdays and every rule of a time zone, repeats after 400 years.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta

from planner.common_errors import timestamp_out_of_range
from planner.errors import DatetimeFieldOverflow

DAY_MICROS = 86_400_000_000
DAYS_1970_TO_2000 = 10_957
MICROS_1970_TO_2000 = DAYS_1970_TO_2000 * DAY_MICROS
"""To PostgreSQL's epoch."""
FIRST_DAY, LAST_DAY = -2_440_588, 2_145_042_905
"""4714-11-24 BC and 5874897-12-31, PostgreSQL's first and last date."""
FIRST_MICROS, LAST_MICROS = FIRST_DAY * DAY_MICROS, 2**63 - 2
"""PostgreSQL's first timestamp; the last that 64 bits can count from 1970 (294247-01-10; PostgreSQL's is 30 years on,
since it counts from 2000)."""
DATE_INFINITY, TIMESTAMP_INFINITY = 2**31 - 1, 2**63 - 1

_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
_CYCLE_MICROS = _CYCLE_DAYS * DAY_MICROS
_EPOCH_DATE = date(1970, 1, 1)
_EPOCH, _EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)  # noqa: DTZ001 - both kinds of timestamp
_MICROSECOND = timedelta(microseconds=1)
_PYTHON_FIRST_DAY, _PYTHON_LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31."""
_PYTHON_FIRST, _PYTHON_END = _PYTHON_FIRST_DAY * DAY_MICROS, (_PYTHON_LAST_DAY + 1) * DAY_MICROS


def civil_from_days(days: int) -> tuple[int, int, int]:
    """(year, month, day) of a day number."""
    shifted = days + 719_468
    era, day_of_era = divmod(shifted, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year_of_era + era * 400 + (1 if month <= 2 else 0), month, day


def days_from_civil(year: int, month: int, day: int) -> int:
    """The day number of a date. Raises ValueError when the month has no such day."""
    cycles, like = divmod(year - 1, _CYCLE_YEARS)
    return (date(like + 1, month, day) - _EPOCH_DATE).days + cycles * _CYCLE_DAYS


def days_in_month(year: int, month: int) -> int:
    """How many days a month has."""
    return monthrange((year - 1) % _CYCLE_YEARS + 1, month)[1]


def months_later(days: int, months: int) -> int:
    """The day so many months later, or the last of that month."""
    year, month, day = civil_from_days(days)
    years, index = divmod(month - 1 + months, 12)
    year += years
    return days_from_civil(year, index + 1, min(day, days_in_month(year, index + 1)))


def date_of(days: int) -> date | int:
    """A date as `Literal` has it."""
    if _PYTHON_FIRST_DAY <= days <= _PYTHON_LAST_DAY:
        return _EPOCH_DATE + timedelta(days=days)
    return days


def timestamp_of(micros: int) -> datetime | int:
    """A timestamp without time zone as `Literal` has it."""
    return _EPOCH + timedelta(microseconds=micros) if _PYTHON_FIRST <= micros < _PYTHON_END else micros


def timestamptz_of(micros: int) -> datetime | int:
    """A timestamp with time zone as `Literal` has it."""
    return _EPOCH_UTC + timedelta(microseconds=micros) if _PYTHON_FIRST <= micros < _PYTHON_END else micros


def days_of(value: date | int | str) -> int:
    """The number of a date as `Literal` has it; infinity is the last or first integer of its size."""
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return DATE_INFINITY if value == "infinity" else -DATE_INFINITY
    return (value - _EPOCH_DATE).days


def micros_of(value: datetime | int | str) -> int:
    """The number of a timestamp as `Literal` has it, with or without time zone; infinity as for `days_of`."""
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return TIMESTAMP_INFINITY if value == "infinity" else -TIMESTAMP_INFINITY
    return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND


def clock_of(micros: int) -> time | int:
    """A time of day as `Literal` has it: 24:00:00, which Python does not have, is the microseconds of a day."""
    return micros if micros == DAY_MICROS else (_EPOCH + timedelta(microseconds=micros)).time()


def clock_micros(value: time | int) -> int:
    """The microseconds since midnight of a time of day as `Literal` has it."""
    if isinstance(value, int):
        return value
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def checked_days(days: int) -> int:
    """`days`, if it is a date of PostgreSQL's. Raises 22008."""
    if FIRST_DAY <= days <= LAST_DAY:
        return days
    raise DatetimeFieldOverflow("date out of range")


def checked_micros(micros: int) -> int:
    """`micros`, if it is a timestamp of PostgreSQL's. Raises 22008."""
    if FIRST_MICROS <= micros <= LAST_MICROS:
        return micros
    raise timestamp_out_of_range()


def in_python_years(micros: int) -> tuple[datetime, int]:
    """A naive datetime whole cycles of 400 years from a moment, at least two days from the ends of what Python has; and
    the microseconds from it to the moment."""
    if micros < _PYTHON_FIRST + 2 * DAY_MICROS:
        shift = -(-(_PYTHON_FIRST + 2 * DAY_MICROS - micros) // _CYCLE_MICROS) * -_CYCLE_MICROS
    elif micros >= _PYTHON_END - 2 * DAY_MICROS:
        shift = ((micros - (_PYTHON_END - 2 * DAY_MICROS)) // _CYCLE_MICROS + 1) * _CYCLE_MICROS
    else:
        shift = 0
    return _EPOCH + timedelta(microseconds=micros - shift), shift


def years_of_shift(shift: int) -> int:
    """The years that `in_python_years` has moved a moment by."""
    return shift // _CYCLE_MICROS * _CYCLE_YEARS
