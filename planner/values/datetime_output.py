"""Dates, times and timestamps as PostgreSQL prints them under a DateStyle (its datetime.c, EncodeDateTime)."""

from __future__ import annotations

from datetime import UTC, timedelta

from planner.values.datetimes.calendar_days import DAY_MICROS, civil_from_days, in_python_years
from planner.values.datetimes.time_zones import Zone

_DAY_NAMES = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
"""From the weekday of 1970-01-01."""
_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _style(date_style: str) -> tuple[str, bool]:
    """The style in capitals, and whether the day is before the month."""
    style, _, order = date_style.upper().partition(",")
    return style, order.strip() == "DMY"


def _year(year: int) -> tuple[str, str]:
    """A year's digits and what follows the whole text."""
    return (f"{year:04d}", "") if year > 0 else (f"{1 - year:04d}", " BC")


def format_date(days: int, date_style: str) -> str:
    """A date, in days since 1970."""
    text, suffix = _date_and_suffix(days, date_style)
    return text + suffix


def _date_and_suffix(days: int, date_style: str) -> tuple[str, str]:
    style, day_first = _style(date_style)
    number, month, day = civil_from_days(days)
    year, suffix = _year(number)
    if style == "GERMAN":
        return f"{day:02d}.{month:02d}.{year}", suffix
    if style == "SQL":
        return (f"{day:02d}/{month:02d}/{year}" if day_first else f"{month:02d}/{day:02d}/{year}"), suffix
    if style == "POSTGRES":
        return (f"{day:02d}-{month:02d}-{year}" if day_first else f"{month:02d}-{day:02d}-{year}"), suffix
    return f"{year}-{month:02d}-{day:02d}", suffix


def format_moment(micros: int, date_style: str, zone: Zone | None) -> str:
    """A timestamp, in microseconds since 1970; with a `zone`, the moment as clocks show it there."""
    style, day_first = _style(date_style)
    shown_zone = ""
    if zone is not None:
        offset = zone.offset_of(micros)
        distance = _offset_text(timedelta(microseconds=offset))
        if style == "ISO":
            shown_zone = distance
        else:
            like, _ = in_python_years(micros)
            shown_zone = " " + (like.replace(tzinfo=UTC).astimezone(zone.info).tzname() or distance)
        micros += offset
    days, rest = divmod(micros, DAY_MICROS)
    clock = format_time(rest)
    if style == "POSTGRES":
        number, month, day = civil_from_days(days)
        year, suffix = _year(number)
        name = _MONTH_NAMES[month - 1]
        day_month = f"{day:02d} {name}" if day_first else f"{name} {day:02d}"
        return f"{_DAY_NAMES[days % 7]} {day_month} {clock} {year}{shown_zone}{suffix}"
    text, suffix = _date_and_suffix(days, date_style)
    return f"{text} {clock}{shown_zone}{suffix}"


def _offset_text(offset: timedelta) -> str:
    seconds = int(offset.total_seconds())
    sign = "-" if seconds < 0 else "+"
    hours, rest = divmod(abs(seconds), 3600)
    minutes, second = divmod(rest, 60)
    text = f"{sign}{hours:02d}"
    if minutes or second:
        text += f":{minutes:02d}"
    if second:
        text += f":{second:02d}"
    return text


def format_time(micros: int) -> str:
    """A time of day, in microseconds since midnight."""
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + f".{fraction:06d}".rstrip("0") if fraction else text
