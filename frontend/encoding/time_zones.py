"""The session's TimeZone applied to instants.

A zone is an IANA name or a POSIX offset as PostgreSQL shows it (`<+03>-03`, `UTC+3`: hours *west* of Greenwich). Arrow
computes local times where its tables reach (it ignores the rules that continue after them); the standard library
does the years from 2037 on, once per distinct quarter of an hour.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

Int64Vector = npt.NDArray[np.int64]

MICROS_PER_SECOND = 1_000_000
_TABLE_END_MICROS = int(datetime(2037, 1, 1, tzinfo=UTC).timestamp()) * MICROS_PER_SECOND
_TABLE_BEGIN_MICROS = int(datetime(1, 1, 2, tzinfo=UTC).timestamp()) * MICROS_PER_SECOND
_BUCKET_MICROS = 900 * MICROS_PER_SECOND
_POSIX = re.compile(r"(?:<([^>]+)>|([A-Za-z]{3,}))([+-]?)(\d{1,3})(?::(\d{2})(?::(\d{2}))?)?")


class Zone(Struct, frozen=True, kw_only=True):
    """A resolved time zone. `fixed_seconds` is its offset east of Greenwich when it has only one; `arrow_name` the
    name under which Arrow knows it otherwise."""

    info: tzinfo
    fixed_seconds: int | None
    arrow_name: str | None


@lru_cache(maxsize=1)
def _names_by_folded() -> dict[str, str]:
    return {name.casefold(): name for name in available_timezones()}


@lru_cache(maxsize=256)
def resolve_zone(name: str) -> Zone:
    """The zone of this name; raises KeyError when there is none."""
    if name.casefold() in ("utc", "etc/utc", "gmt", "zulu", "z"):
        return Zone(
            info=timezone(timedelta(0), "GMT" if name.casefold() == "gmt" else "UTC"), fixed_seconds=0, arrow_name=None
        )
    canonical = _names_by_folded().get(name.casefold())
    if canonical is not None:
        try:
            return Zone(info=ZoneInfo(canonical), fixed_seconds=None, arrow_name=canonical)
        except ZoneInfoNotFoundError as error:
            raise KeyError(name) from error
    match = _POSIX.fullmatch(name)
    if match is None:
        raise KeyError(name)
    bracketed, bare, sign, hours, minutes, seconds = match.groups()
    west = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    east = west if sign == "-" else -west
    return Zone(info=timezone(timedelta(seconds=east), bracketed or bare), fixed_seconds=east, arrow_name=None)


def _offsets_by_bucket(zone: Zone, micros: Int64Vector) -> Int64Vector:
    buckets, inverse = np.unique(micros // _BUCKET_MICROS, return_inverse=True)
    offsets = np.empty(len(buckets), dtype=np.int64)
    for index, bucket in enumerate(buckets.tolist()):
        offsets[index] = offset_seconds(zone, bucket * _BUCKET_MICROS)
    return offsets[inverse]


def offset_seconds(zone: Zone, micros: int) -> int:
    """Seconds east of Greenwich at an instant (microseconds since 1970, any year)."""
    if zone.fixed_seconds is not None:
        return zone.fixed_seconds
    return int(_local(zone, micros).utcoffset() // timedelta(seconds=1))  # type: ignore[operator]


def abbreviation(zone: Zone, micros: int) -> str | None:
    """The zone's abbreviation in force at an instant, such as CEST."""
    return _local(zone, micros).tzname()


def _local(zone: Zone, micros: int) -> datetime:
    # The Gregorian calendar, and with it every rule, repeats after 400 years.
    cycle = 146_097 * 86_400
    seconds = micros // MICROS_PER_SECOND
    if seconds < -62_135_510_400:
        seconds = -62_135_510_400
    elif seconds > 253_402_128_000:
        seconds -= cycle * -(-(seconds - 253_402_128_000) // cycle)
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).astimezone(zone.info)


def utc_offsets(zone: Zone, micros: Int64Vector) -> Int64Vector:
    """Seconds east of Greenwich for every instant (microseconds since 1970)."""
    if zone.fixed_seconds is not None:
        return np.full(len(micros), zone.fixed_seconds, dtype=np.int64)
    inside = (micros >= _TABLE_BEGIN_MICROS) & (micros < _TABLE_END_MICROS)
    offsets = np.zeros(len(micros), dtype=np.int64)
    if inside.any():
        instants = micros[inside]
        try:
            offsets[inside] = _offsets_by_arrow(zone, instants)
        except pa.ArrowInvalid:
            # The host has no time zone tables where Arrow looks for them.
            offsets[inside] = _offsets_by_bucket(zone, instants)
    if not inside.all():
        offsets[~inside] = _offsets_by_bucket(zone, micros[~inside])
    return offsets


def _offsets_by_arrow(zone: Zone, micros: Int64Vector) -> Any:
    seconds = micros // MICROS_PER_SECOND
    local = pc.local_timestamp(pa.array(seconds, pa.timestamp("s", zone.arrow_name)))
    return local.cast(pa.int64()).to_numpy() - seconds
