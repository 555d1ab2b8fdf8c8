"""interval as text in its four IntervalStyles and in binary.

Physical values: struct<months: int32, days: int32, micros: int64>. Text is written once per distinct value.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from frontend.encoding.columns import (
    ArrowArray,
    ColumnEncoder,
    Encoded,
    null_mask,
    numpy_values,
)
from frontend.encoding.settings import FormatSettings

MICROS_PER_SECOND = 1_000_000


def _quotient(value: int, divisor: int) -> tuple[int, int]:
    """Quotient and remainder that truncate toward zero, as C does."""
    quotient = abs(value) // divisor
    return (quotient, value - quotient * divisor) if value >= 0 else (-quotient, value + quotient * divisor)


def _fields(months: int, days: int, micros: int) -> tuple[int, int, int, int, int, int, int]:
    year, month = _quotient(months, 12)
    hour, rest = _quotient(micros, 3600 * MICROS_PER_SECOND)
    minute, rest = _quotient(rest, 60 * MICROS_PER_SECOND)
    second, fraction = _quotient(rest, MICROS_PER_SECOND)
    return year, month, days, hour, minute, second, fraction


def _seconds(second: int, fraction: int, *, width: int) -> str:
    text = f"{abs(second):0{width}d}"
    return f"{text}.{abs(fraction):06d}".rstrip("0") if fraction else text


def format_interval(months: int, days: int, micros: int, style: str) -> str:
    """An interval as PostgreSQL prints it under the IntervalStyle."""
    fields = _fields(months, days, micros)
    match style:
        case "sql_standard":
            return _sql_standard(*fields)
        case "iso_8601":
            return _iso_8601(*fields)
        case "postgres_verbose":
            return _postgres_verbose(*fields)
        case _:
            return _postgres(*fields)


def _postgres(year: int, month: int, day: int, hour: int, minute: int, second: int, fraction: int) -> str:
    parts: list[str] = []
    before_negative = False
    for value, unit in ((year, "year"), (month, "mon"), (day, "day")):
        if value == 0:
            continue
        plus = "+" if before_negative and value > 0 else ""
        parts.append(f"{plus}{value} {unit}{'' if value == 1 else 's'}")
        before_negative = value < 0
    if not parts or hour or minute or second or fraction:
        negative = hour < 0 or minute < 0 or second < 0 or fraction < 0
        sign = "-" if negative else ("+" if before_negative else "")
        parts.append(f"{sign}{abs(hour):02d}:{abs(minute):02d}:{_seconds(second, fraction, width=2)}")
    return " ".join(parts)


def _postgres_verbose(year: int, month: int, day: int, hour: int, minute: int, second: int, fraction: int) -> str:
    parts: list[str] = []
    ago = False
    for value, unit in ((year, "year"), (month, "mon"), (day, "day"), (hour, "hour"), (minute, "min")):
        if value == 0:
            continue
        if not parts:
            ago = value < 0
            shown = abs(value)
        else:
            shown = -value if ago else value
        # PostgreSQL decides the plural on the value's own sign.
        parts.append(f"{shown} {unit}{'' if shown == 1 else 's'}")
    if second or fraction:
        negative = second < 0 or fraction < 0
        if not parts:
            ago = negative
        sign = "-" if negative != ago else ""
        singular = abs(second) == 1 and fraction == 0
        parts.append(f"{sign}{_seconds(second, fraction, width=1)} sec{'' if singular else 's'}")
    if not parts:
        parts.append("0")
    return "@ " + " ".join(parts) + (" ago" if ago else "")


def _iso_8601(year: int, month: int, day: int, hour: int, minute: int, second: int, fraction: int) -> str:
    date = "".join(f"{value}{unit}" for value, unit in ((year, "Y"), (month, "M"), (day, "D")) if value)
    time = "".join(f"{value}{unit}" for value, unit in ((hour, "H"), (minute, "M")) if value)
    if second or fraction:
        sign = "-" if second < 0 or fraction < 0 else ""
        time += f"{sign}{_seconds(second, fraction, width=1)}S"
    if not date and not time:
        return "PT0S"
    return f"P{date}T{time}" if time else f"P{date}"


def _sql_standard(year: int, month: int, day: int, hour: int, minute: int, second: int, fraction: int) -> str:
    values = (year, month, day, hour, minute, second, fraction)
    negative, positive = any(value < 0 for value in values), any(value > 0 for value in values)
    has_year_month = bool(year or month)
    has_time = bool(hour or minute or second or fraction)
    has_day_time = has_time or bool(day)
    if not negative and not positive:
        return "0"
    if (negative and positive) or (has_year_month and has_day_time):
        year_sign = "-" if year < 0 or month < 0 else "+"
        day_sign = "-" if day < 0 else "+"
        time_sign = "-" if hour < 0 or minute < 0 or second < 0 or fraction < 0 else "+"
        return (
            f"{year_sign}{abs(year)}-{abs(month)} {day_sign}{abs(day)} "
            f"{time_sign}{abs(hour)}:{abs(minute):02d}:{_seconds(second, fraction, width=2)}"
        )
    sign = "-" if negative else ""
    if has_year_month:
        return f"{sign}{abs(year)}-{abs(month)}"
    clock = f"{abs(hour)}:{abs(minute):02d}:{_seconds(second, fraction, width=2)}"
    return f"{sign}{abs(day)} {clock}" if day else f"{sign}{clock}"


def _parts(array: ArrowArray) -> Iterable[ArrowArray]:
    return (array.field(name) for name in ("months", "days", "micros"))


def _table(array: ArrowArray) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    months, days, micros = _parts(array)
    table = np.empty((len(array), 3), dtype=np.int64)
    table[:, 0] = numpy_values(months, np.int32)
    table[:, 1] = numpy_values(days, np.int32)
    table[:, 2] = numpy_values(micros, np.int64)
    return table


def interval_text_encoder(settings: FormatSettings) -> ColumnEncoder:
    """interval as text."""

    def encode(array: ArrowArray) -> Encoded:
        nulls = null_mask(array)
        table = _table(array)
        if nulls is not None:
            table[nulls] = 0
        distinct, inverse = np.unique(table, axis=0, return_inverse=True)
        texts = [
            format_interval(months, days, micros, settings.interval_style).encode()
            for months, days, micros in distinct.tolist()
        ]
        values = pa.array(texts, pa.binary()).take(pa.array(inverse.reshape(-1)))
        return Encoded(values=values, nulls=nulls)

    return encode


def interval_binary(array: ArrowArray) -> Encoded:
    """interval in binary: int64 microseconds, int32 days, int32 months."""
    table = _table(array)
    packed = np.empty(len(array), dtype=[("micros", ">i8"), ("days", ">i4"), ("months", ">i4")])
    packed["micros"], packed["days"], packed["months"] = table[:, 2], table[:, 1], table[:, 0]
    return Encoded(fixed=packed.view(np.uint8).reshape(len(array), 16), nulls=null_mask(array))
