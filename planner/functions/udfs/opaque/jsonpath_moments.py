"""The dates and times that the method .datetime() of jsonpath makes of strings, and their order.

A string is read strictly (PostgreSQL's parse_datetime): separators and literal text of the template have to be there,
and nothing may remain. Without a template the ISO formats are tried. What moments mean beside those with a zone depends
on the session's, and is refused where the caller is not one of the functions `..._tz`.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from planner.errors import (
    DataException,
    DatetimeFieldOverflow,
    FeatureNotSupported,
    InvalidArgumentForSqlJsonDatetimeFunction,
    InvalidDatetimeFormat,
    InvalidTimeZoneDisplacementValue,
)
from planner.functions.udfs.opaque.timetz import of_time
from planner.functions.udfs.templates.datetime_input import assembled, distance
from planner.functions.udfs.templates.datetime_scanning import scanned_fields
from planner.functions.udfs.templates.template_patterns import tokens
from planner.values.datetime_output import format_date, format_moment, format_time
from planner.values.datetimes.calendar_days import DAY_MICROS
from planner.values.datetimes.time_zones import setting_zone
from planner.values.opaque.timetz import fields_of

Kind = Literal["date", "time", "timetz", "timestamp", "timestamptz"]


class InvalidTemplate(DataException):
    """What is wrong with a template itself, which `silent` does not leave out."""

    sqlstate = "22007"


UNREADABLE = (InvalidDatetimeFormat, DatetimeFieldOverflow, InvalidTimeZoneDisplacementValue)
"""What is wrong with a string for a template."""

_SECOND = 1_000_000
_SEPARATORS = frozenset("-./,':; ")
_ZONED = frozenset({"TZH", "TZM", "TZ", "OF"})
_TIMED = frozenset({
    "HH24", "HH12", "HH", "MI", "SS", "MS", "US", "SSSS", "SSSSS", "AM", "PM", "A.M.", "P.M.",
    "FF1", "FF2", "FF3", "FF4", "FF5", "FF6",
})  # fmt: skip
_SHOWN_CLOCKS = ("HH24:MI:SS.US", "HH24:MI:SS")
_CLOCKS = (
    *[f"{clock}{zone}" for clock in _SHOWN_CLOCKS for zone in ("TZH:TZM", "TZH")],
    *_SHOWN_CLOCKS,
)
_ISO = (
    "yyyy-mm-dd",
    *_CLOCKS,
    *[f"yyyy-mm-dd {clock}" for clock in _CLOCKS],
    *[f'yyyy-mm-dd"T"{clock}' for clock in _CLOCKS],
)
"""What is tried without a template, in this order."""


class Moment(Struct, frozen=True):
    """`micros` are since midnight or, on the clock of its zone, since 1970; `east` is its zone's distance from
    Greenwich in seconds."""

    kind: Kind
    micros: int
    east: int = 0

    @property
    def type_name(self) -> str:
        """What .type() says."""
        zone = "with" if self.kind.endswith("tz") else "without"
        if self.kind == "date":
            return "date"
        return f"{self.kind.removesuffix('tz')} {zone} time zone"

    @property
    def text(self) -> str:
        """Its form in JSON, ISO 8601."""
        if self.kind == "date":
            return format_date(self.micros // DAY_MICROS, "ISO")
        if self.kind.startswith("timestamp"):
            shown, *era = format_moment(self.micros, "ISO", None).replace(" ", "T", 1).split(" ")
        else:
            shown, era = format_time(self.micros), []
        if self.kind.endswith("tz"):
            sign, away = "-" if self.east < 0 else "+", abs(self.east)
            shown += f"{sign}{away // 3600:02d}:{away // 60 % 60:02d}"
        return " ".join([shown, *era])


def moment_in(text: str, template: str | None) -> Moment:
    """.datetime() of a string. Raises 22031 where no ISO format is that of `text`, and for a template 22007, 22008 or
    22009."""
    if template is not None:
        return _read(text, template)
    for each in _ISO:
        try:
            return _read(text, each)
        except UNREADABLE:
            continue
    raise InvalidArgumentForSqlJsonDatetimeFunction(
        f'datetime format is not recognized: "{text}"',
        hint="Use a datetime template argument to specify the input data format.",
    )


def _read(text: str, template: str) -> Moment:
    parts = tokens(template)
    fields = set()
    for kind, part, _, _ in parts:
        if kind == "field":
            fields.add(part.partition("\0")[0].upper())
        elif kind == "text" and part not in _SEPARATORS:
            raise InvalidTemplate(f'invalid datetime format separator: "{part}"')
    found = scanned_fields(text, template, standard=True)
    timed, zoned, dated = bool(fields & _TIMED), bool(fields & _ZONED), bool(fields - _TIMED - _ZONED)
    if dated and zoned and not timed:
        raise InvalidDatetimeFormat("datetime format is zoned but not timed")
    if not dated and not timed:
        raise InvalidDatetimeFormat("datetime format is not dated and not timed")
    micros = _rounded(assembled(found, text), fields)
    east = int(distance(found, text).total_seconds()) if zoned else 0
    if not timed:
        return Moment("date", micros // DAY_MICROS * DAY_MICROS)
    if dated:
        return Moment("timestamptz", micros, east) if zoned else Moment("timestamp", micros)
    clock = micros % DAY_MICROS
    return Moment("timetz", clock, east) if zoned else Moment("time", clock)


def _rounded(micros: int, fields: set[str]) -> int:
    """`micros` with as many digits of a second as FF1 to FF6 say."""
    digits = next((int(field[2]) for field in fields if field.startswith("FF")), 6)
    step: int = 10 ** (6 - digits)
    return (micros + step // 2) // step * step


def compared(left: Moment, right: Moment, zone: str | None) -> int | None:
    """Less than, equal to or greater than 0 as `left` is before, at or after `right`; None for what has no order.

    `zone` is the session's, None where it may not be used. Raises 0A000 where it would have to.
    """
    if left.kind.startswith("time") and not left.kind.startswith("timestamp"):
        if not right.kind.startswith("time") or right.kind.startswith("timestamp"):
            return None
    elif not (right.kind == "date" or right.kind.startswith("timestamp")):
        return None
    if left.kind.endswith("tz") != right.kind.endswith("tz"):
        left, right = _in_zone(left, right.kind, zone), _in_zone(right, left.kind, zone)
    if left.kind.endswith("tz"):
        mine, other = left.micros - left.east * _SECOND, right.micros - right.east * _SECOND
        if mine == other and left.kind == "timetz":
            # At one moment the clocks that are farther west come later (timetz_cmp_internal).
            mine, other = right.east, left.east
    else:
        mine, other = left.micros, right.micros
    return int(mine > other) - int(mine < other)


def _in_zone(moment: Moment, kind: Kind, zone: str | None) -> Moment:
    """`moment` as one with a zone, the session's where it has none."""
    if moment.kind.endswith("tz"):
        return moment
    if zone is None:
        raise FeatureNotSupported(
            f"cannot convert value from {moment.kind} to {kind} without time zone usage",
            hint="Use *_tz() function for time zone support.",
        )
    if moment.kind == "time":
        _, east = fields_of(of_time(moment.micros, zone))
    else:
        east = (moment.micros - setting_zone(zone).micros_of_wall(moment.micros)) // _SECOND
    return Moment(kind, moment.micros, east)
