"""Dates and times as text and in binary.

Physical values: date32 (days since 1970), time64[us], timestamp[us] (with zone UTC for timestamptz). Infinity is the
largest integer of the type and -infinity the smallest or its successor. ISO text of the years 1 to 9999 is made by
Arrow and NumPy; other years and other DateStyles are written by `format_*`, one row at a time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frontend.encoding.columns import (
    ArrowArray,
    BoolVector,
    ColumnEncoder,
    Encoded,
    Int64Vector,
    as_binary,
    join_pieces,
    map_distinct,
    null_mask,
    numpy_values,
    replace_rows,
    without_nulls,
)
from frontend.encoding.settings import FormatSettings
from frontend.encoding.time_zones import MICROS_PER_SECOND, abbreviation, offset_seconds, resolve_zone, utc_offsets
from planner.values.datetimes.calendar_days import (
    DATE_INFINITY,
    DAYS_1970_TO_2000,
    MICROS_1970_TO_2000,
    TIMESTAMP_INFINITY,
    civil_from_days,
)

MICROS_PER_DAY = 86_400 * MICROS_PER_SECOND
_FIRST_ISO_DAY = -719_162
_LAST_ISO_DAY = 2_932_896
"""0001-01-01 and 9999-12-31 in days since 1970."""
_WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _date_parts(days: int) -> tuple[str, str, str, str]:
    year, month, day = civil_from_days(days)
    shown_year, suffix = (year, "") if year > 0 else (1 - year, " BC")
    return f"{shown_year:04d}", f"{month:02d}", f"{day:02d}", suffix


def format_date(days: int, settings: FormatSettings) -> str:
    """A date as PostgreSQL prints it under the DateStyle."""
    if days == DATE_INFINITY:
        return "infinity"
    if days <= -DATE_INFINITY:
        return "-infinity"
    year, month, day, suffix = _date_parts(days)
    return _join_date(year, month, day, settings) + suffix


def _join_date(year: str, month: str, day: str, settings: FormatSettings) -> str:
    day_first = settings.date_order == "DMY"
    match settings.date_style:
        case "ISO":
            return f"{year}-{month}-{day}"
        case "SQL":
            return f"{day}/{month}/{year}" if day_first else f"{month}/{day}/{year}"
        case "German":
            return f"{day}.{month}.{year}"
        case _:
            return f"{day}-{month}-{year}" if day_first else f"{month}-{day}-{year}"


def format_time(micros: int) -> str:
    """Microseconds since midnight as hh:mm:ss with the fraction's significant digits."""
    seconds, fraction = divmod(micros, MICROS_PER_SECOND)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def format_offset(seconds: int) -> str:
    """Seconds east of Greenwich as PostgreSQL appends them: +02, +05:30, -04:56:02."""
    sign = "-" if seconds < 0 else "+"
    hours, rest = divmod(abs(seconds), 3600)
    minutes, remainder = divmod(rest, 60)
    text = f"{sign}{hours:02d}"
    if minutes or remainder:
        text += f":{minutes:02d}"
    if remainder:
        text += f":{remainder:02d}"
    return text


def format_timestamp(micros: int, settings: FormatSettings, *, with_zone: bool) -> str:
    """A timestamp (or, `with_zone`, an instant shown in the session's zone) under the DateStyle."""
    if micros == TIMESTAMP_INFINITY:
        return "infinity"
    if micros <= -TIMESTAMP_INFINITY:
        return "-infinity"
    zone_text = ""
    local = micros
    if with_zone:
        zone = resolve_zone(settings.time_zone)
        offset = offset_seconds(zone, micros)
        local = micros + offset * MICROS_PER_SECOND
        if settings.date_style == "ISO":
            zone_text = format_offset(offset)
        else:
            zone_text = " " + (abbreviation(zone, micros) or format_offset(offset))
    days, time = divmod(local, MICROS_PER_DAY)
    year, month, day, suffix = _date_parts(days)
    if settings.date_style != "Postgres":
        return f"{_join_date(year, month, day, settings)} {format_time(time)}{zone_text}{suffix}"
    weekday, month_name = _WEEKDAYS[(days + 4) % 7], _MONTHS[int(month) - 1]
    day_month = f"{day} {month_name}" if settings.date_order == "DMY" else f"{month_name} {day}"
    return f"{weekday} {day_month} {format_time(time)} {year}{zone_text}{suffix}"


def date_text_encoder(settings: FormatSettings) -> ColumnEncoder:
    """date as text."""

    def one(days: int) -> bytes:
        return format_date(days, settings).encode()

    def encode(array: ArrowArray) -> Encoded:
        nulls = null_mask(array)
        days = numpy_values(array, np.int32)
        if settings.date_style != "ISO":
            return Encoded(values=without_nulls(map_distinct(array.view(pa.int32()), one)), nulls=nulls)
        text = without_nulls(as_binary(pc.cast(array, pa.string())))
        unusual = _not_null((days < _FIRST_ISO_DAY) | (days > _LAST_ISO_DAY), nulls)
        if unusual.any():
            text = replace_rows(text, unusual, [one(value) for value in days[unusual].tolist()])
        return Encoded(values=text, nulls=nulls)

    return encode


def _not_null(mask: BoolVector, nulls: BoolVector | None) -> BoolVector:
    return mask if nulls is None else mask & ~nulls


def time_text(array: ArrowArray) -> Encoded:
    """time as text."""
    nulls = null_mask(array)
    micros = numpy_values(array, np.int64)
    text = _trim_fraction(pc.cast(array, pa.string()))
    midnight = _not_null(micros >= MICROS_PER_DAY, nulls)
    if midnight.any():
        text = replace_rows(text, midnight, [format_time(value).encode() for value in micros[midnight].tolist()])
    return Encoded(values=text, nulls=nulls)


def _trim_fraction(text: ArrowArray) -> ArrowArray:
    """Binary text without trailing zeros of the six-digit fraction that Arrow writes; NULL is empty."""
    trimmed = pc.ascii_rtrim(pc.ascii_rtrim(text, characters="0"), characters=".")
    return without_nulls(as_binary(trimmed))


def timestamp_text_encoder(settings: FormatSettings, *, with_zone: bool) -> ColumnEncoder:
    """timestamp, or timestamptz shown in the session's zone, as text."""

    def one(micros: int) -> bytes:
        return format_timestamp(micros, settings, with_zone=with_zone).encode()

    def encode(array: ArrowArray) -> Encoded:
        nulls = null_mask(array)
        instants = array.cast(pa.timestamp("us", array.type.tz)).view(pa.int64())
        if settings.date_style != "ISO":
            return Encoded(values=without_nulls(map_distinct(instants, one)), nulls=nulls)
        micros = numpy_values(instants, np.int64)
        if nulls is not None:
            micros = np.where(nulls, 0, micros)
        unusual = (micros < (_FIRST_ISO_DAY + 2) * MICROS_PER_DAY) | (micros > (_LAST_ISO_DAY - 1) * MICROS_PER_DAY)
        any_unusual = bool(unusual.any())
        if any_unusual:
            micros = np.where(unusual, 0, micros)
        if with_zone:
            offsets = utc_offsets(resolve_zone(settings.time_zone), micros)
            text = join_pieces(_iso_timestamps(micros + offsets * MICROS_PER_SECOND), _offset_texts(offsets))
        else:
            text = _iso_timestamps(micros)
        if any_unusual:
            originals = numpy_values(instants, np.int64)[unusual]
            text = replace_rows(text, unusual, [one(value) for value in originals.tolist()])
        return Encoded(values=text, nulls=nulls)

    return encode


def _iso_timestamps(micros: Int64Vector) -> ArrowArray:
    if (micros % MICROS_PER_SECOND == 0).all():
        return as_binary(pc.cast(pa.array(micros // MICROS_PER_SECOND, pa.timestamp("s")), pa.string()))
    return _trim_fraction(pc.cast(pa.array(micros, pa.timestamp("us")), pa.string()))


def _offset_texts(offsets: Int64Vector) -> ArrowArray:
    distinct, inverse = np.unique(offsets, return_inverse=True)
    texts = pa.array([format_offset(value).encode() for value in distinct.tolist()], pa.binary())
    return texts[0] if len(texts) == 1 else texts.take(pa.array(inverse))


def date_binary(array: ArrowArray) -> Encoded:
    """date in binary: int32 days since 2000."""
    days = numpy_values(array, np.int32).astype(np.int64)
    shifted = days - DAYS_1970_TO_2000
    shifted = np.where(days == DATE_INFINITY, DATE_INFINITY, shifted)
    shifted = np.where(days <= -DATE_INFINITY, -DATE_INFINITY - 1, shifted)
    return Encoded(fixed=shifted.astype(">i4").view(np.uint8).reshape(len(days), 4), nulls=null_mask(array))


def time_binary(array: ArrowArray) -> Encoded:
    """time in binary: int64 microseconds since midnight."""
    micros = numpy_values(array, np.int64)
    return Encoded(fixed=micros.astype(">i8").view(np.uint8).reshape(len(micros), 8), nulls=null_mask(array))


def timestamp_binary(array: ArrowArray) -> Encoded:
    """timestamp and timestamptz in binary: int64 microseconds since 2000."""
    instants = array.cast(pa.timestamp("us", array.type.tz)).view(pa.int64())
    micros = numpy_values(instants, np.int64)
    endless = (micros == TIMESTAMP_INFINITY) | (micros <= -TIMESTAMP_INFINITY)
    shifted = np.where(endless, micros, micros - MICROS_1970_TO_2000)
    shifted = np.where(micros == -TIMESTAMP_INFINITY, np.iinfo(np.int64).min, shifted)
    return Encoded(fixed=shifted.astype(">i8").view(np.uint8).reshape(len(micros), 8), nulls=null_mask(array))
