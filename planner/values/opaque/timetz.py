"""time with time zone: values held as the text that its output function prints (PostgreSQL 15, timetz_out)."""

from __future__ import annotations

import re

from planner.errors import InternalError

_FORM = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?")
_SECOND = 1_000_000
DAY_MICROS = 86_400 * _SECOND


def fields_of(text: str) -> tuple[int, int]:
    """The time of day in microseconds, and its distance east of Greenwich in seconds."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise InternalError(f"{text!r} is no time with time zone")
    hours, minutes, seconds, fraction, sign, *offset = match.groups()
    micros = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * _SECOND + int((fraction or "").ljust(6, "0"))
    east = sum(int(part or 0) * unit for part, unit in zip(offset, (3600, 60, 1), strict=True))
    return micros, -east if sign == "-" else east


def show_timetz(micros: int, east: int) -> str:
    """What timetz_out prints."""
    whole, fraction = divmod(micros, _SECOND)
    shown = f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    if fraction:
        shown += f".{fraction:06d}".rstrip("0")
    distance = abs(east)
    shown += f"{'-' if east < 0 else '+'}{distance // 3600:02d}"
    if distance % 3600:
        shown += f":{distance // 60 % 60:02d}"
    return shown + (f":{distance % 60:02d}" if distance % 60 else "")


def timetz_key(text: str) -> str:
    """A text whose place among those of other values is that of the value: by moment, then by zone, the eastern ones
    first (timetz_cmp_internal)."""
    micros, east = fields_of(text)
    return f"{micros - east * _SECOND + 2 * DAY_MICROS:012d}{2 * 86_400 - east:06d}"


def rounded_timetz(text: str, digits: int) -> str:
    """A value with so many digits of a second, 6 at most."""
    micros, east = fields_of(text)
    step = 10 ** (6 - min(digits, 6))
    return show_timetz((micros + step // 2) // step * step, east)


def in_zone(text: str, east: int) -> str:
    """The same moment on clocks that far east of Greenwich."""
    micros, own = fields_of(text)
    return show_timetz((micros + (east - own) * _SECOND) % DAY_MICROS, east)


def moved(text: str, micros: int) -> str:
    """A value so much later, on the same clock."""
    own, east = fields_of(text)
    return show_timetz((own + micros) % DAY_MICROS, east)
