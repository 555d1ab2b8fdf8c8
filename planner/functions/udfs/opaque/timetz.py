"""Functions on time with time zone, held as the text that its output function prints."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from planner.functions.udfs.table import Udf
from planner.values.datetime_text import parse_timetz
from planner.values.datetimes.time_zones import setting_zone, zone_of
from planner.values.opaque.timetz import DAY_MICROS, fields_of, in_zone, moved, rounded_timetz, show_timetz, timetz_key

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timetz_in(text: str, settings: str) -> str:
    """The cast of a text. `settings` are TimeZone and DateStyle, a semicolon between them."""
    zone, _, style = settings.partition(";")
    return parse_timetz(text, style, zone)


def of_time(micros: int, zone: str) -> str:
    """The cast of a time: in the session's zone, as of today (time_timetz)."""
    return show_timetz(micros, _east(zone, datetime.now(UTC)))


def of_moment(micros: int, zone: str) -> str:
    """The cast of a timestamptz: what clocks show in the session's zone (timestamptz_timetz)."""
    east = _east(zone, _EPOCH + timedelta(microseconds=micros))
    return show_timetz((micros + east * 1_000_000) % DAY_MICROS, east)


def _east(zone: str, moment: datetime) -> int:
    return int(setting_zone(zone).offset_at(moment).total_seconds())


def at_zone(name: str, text: str) -> str:
    """timezone(text, timetz): on the clocks of a zone, as of now. Raises 22023."""
    return in_zone(text, int(zone_of(name).offset_at(datetime.now(UTC)).total_seconds()))


_T = "VARCHAR"

UDFS: Mapping[str, Udf] = {
    "tg_timetz_in": Udf((_T, _T), _T, timetz_in),
    "tg_timetz_key": Udf((_T,), _T, timetz_key),
    "tg_timetz_micros": Udf((_T,), "BIGINT", lambda text: fields_of(text)[0]),
    "tg_timetz_east": Udf((_T,), "BIGINT", lambda text: fields_of(text)[1]),
    "tg_timetz_moved": Udf((_T, "BIGINT"), _T, moved),
    "tg_timetz_rounded": Udf((_T, "INTEGER"), _T, rounded_timetz),
    "tg_timetz_of_time": Udf(("BIGINT", _T), _T, of_time),
    "tg_timetz_of_moment": Udf(("BIGINT", _T), _T, of_moment),
    "tg_timetz_at_zone": Udf((_T, _T), _T, at_zone),
    "tg_timetz_at_offset": Udf(("BIGINT", _T), _T, lambda micros, text: in_zone(text, micros // 1_000_000)),
}
