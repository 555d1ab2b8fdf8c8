"""Text output of interval by IntervalStyle."""

from __future__ import annotations

from planner.ir.nodes import Interval


def format_interval(value: Interval, style: str = "postgres") -> str:
    """PostgreSQL's text of an interval in an IntervalStyle."""
    years, months = int(value.months / 12), value.months - int(value.months / 12) * 12
    days, micros = value.days, value.micros
    style = style.lower()
    if style == "iso_8601":
        return _format_iso(years, months, days, micros)
    if style == "sql_standard":
        return _format_sql(years, months, days, micros)
    if style == "postgres_verbose":
        return _format_verbose(years, months, days, micros)
    parts = []
    previous_negative = False
    for amount, name in ((years, "year"), (months, "mon"), (days, "day")):
        if amount:
            sign = "+" if previous_negative and amount > 0 else ""
            parts.append(f"{sign}{amount} {name}{'' if amount == 1 else 's'}")
            previous_negative = amount < 0
    if micros or not parts:
        sign = "-" if micros < 0 else "+" if previous_negative else ""
        parts.append(sign + _clock_text(micros))
    return " ".join(parts)


def _clock_text(micros: int, *, pad: bool = True) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    hours, rest = divmod(seconds, 3600)
    minutes, second = divmod(rest, 60)
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{hours:02d}:{minutes:02d}:{second:02d}{tail}" if pad else f"{hours}:{minutes:02d}:{second:02d}{tail}"


def _seconds_text(micros: int) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{'-' if micros < 0 else ''}{seconds}{tail}"


def _split(micros: int) -> tuple[int, int, int]:
    sign = -1 if micros < 0 else 1
    hours, rest = divmod(abs(micros), 3_600_000_000)
    minutes, micros_left = divmod(rest, 60_000_000)
    return sign * hours, sign * minutes, sign * micros_left


def _format_iso(years: int, months: int, days: int, micros: int) -> str:
    if not (years or months or days or micros):
        return "PT0S"
    text = "P"
    for amount, letter in ((years, "Y"), (months, "M"), (days, "D")):
        if amount:
            text += f"{amount}{letter}"
    if micros:
        text += "T"
        hours, minutes, rest = _split(micros)
        if hours:
            text += f"{hours}H"
        if minutes:
            text += f"{minutes}M"
        if rest:
            text += f"{_seconds_text(rest)}S"
    return text


def _format_sql(years: int, months: int, days: int, micros: int) -> str:
    amounts = (years, months, days, micros)
    if not any(amounts):
        return "0"
    negative, positive = any(amount < 0 for amount in amounts), any(amount > 0 for amount in amounts)
    has_year_month, has_day_time = bool(years or months), bool(days or micros)
    if (negative and positive) or (has_year_month and has_day_time):
        year_sign = "-" if years < 0 or months < 0 else "+"
        day_sign = "-" if days < 0 else "+"
        clock_sign = "-" if micros < 0 else "+"
        clock = _clock_text(micros, pad=False)
        return f"{year_sign}{abs(years)}-{abs(months)} {day_sign}{abs(days)} {clock_sign}{clock}"
    sign = "-" if negative else ""
    if has_year_month:
        return f"{sign}{abs(years)}-{abs(months)}"
    if days:
        return f"{sign}{abs(days)} {_clock_text(micros, pad=False)}"
    return f"{sign}{_clock_text(micros, pad=False)}"


def _format_verbose(years: int, months: int, days: int, micros: int) -> str:
    hours, minutes, rest = _split(micros)
    amounts = [(years, "year"), (months, "mon"), (days, "day"), (hours, "hour"), (minutes, "min")]
    first = next((amount for amount in (years, months, days, micros) if amount), 0)
    flip = -1 if first < 0 else 1
    parts = ["@"]
    parts.extend(f"{amount * flip} {name}{'' if amount * flip == 1 else 's'}" for amount, name in amounts if amount)
    if rest:
        text = _seconds_text(rest * flip)
        parts.append(f"{text} sec{'' if abs(rest) == 1_000_000 else 's'}")
    if len(parts) == 1:
        parts.append("0")
    if flip < 0:
        parts.append("ago")
    return " ".join(parts)
