"""Weeks of ISO 8601 and Julian days of a year, a month and a day that need be no date: those of an interval.

What PostgreSQL's date2j, date2isoyear and their like say of any integers, which is what C's arithmetic makes of them.
"""

from __future__ import annotations


def wrapped(value: int) -> int:
    """What an int of 32 bits holds of a value."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def quotient(value: int, by: int) -> int:
    """C's ``/``: toward zero."""
    return -(-value // by) if value < 0 else value // by


def remainder(value: int, by: int) -> int:
    """C's ``%``: of the sign of `value`."""
    return value - quotient(value, by) * by


def julian_day(year: int, month: int, day: int) -> int:
    month, year = (month + 1, year + 4800) if month > 2 else (month + 13, year + 4799)
    century = quotient(year, 100)
    found = wrapped(year * 365 - 32167) + quotient(year, 4) - century + quotient(century, 4)
    return wrapped(found + quotient(7834 * month, 256) + day)


def _first_day(year: int) -> int:
    """The Monday of the first week of a year."""
    fourth = julian_day(year, 1, 4)
    return wrapped(fourth - fourth % 7)


def _week(year: int, month: int, day: int) -> tuple[int, int]:
    """The year that a day's week is of, and the number of the week."""
    found = julian_day(year, month, day)
    if found < _first_day(year):
        year -= 1
    week = quotient(wrapped(found - _first_day(year)), 7) + 1
    if week >= 52 and found >= (following := _first_day(year + 1)):
        return year + 1, quotient(wrapped(found - following), 7) + 1
    return year, week


def week_of(year: int, month: int, day: int) -> int:
    return _week(year, month, day)[1]


def year_of_week(year: int, month: int, day: int) -> int:
    """The year that its week is of."""
    return _week(year, month, day)[0]


def day_of_week_year(year: int, month: int, day: int) -> int:
    """Which day of the year that its week is of."""
    return wrapped(julian_day(year, month, day) - _first_day(year_of_week(year, month, day)) + 1)
