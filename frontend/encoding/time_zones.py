"""The session's TimeZone applied to instants.

What a zone is called is `planner.values.datetimes.time_zones`'s. Arrow computes local times of the places that it knows
where its tables reach (it ignores the rules that continue after them); the standard library does the rest, once per
distinct quarter of an hour.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from planner.values.datetimes.time_zones import named_zone

Int64Vector = npt.NDArray[np.int64]

MICROS_PER_SECOND = 1_000_000
_TABLE_END_MICROS = int(datetime(2037, 1, 1, tzinfo=UTC).timestamp()) * MICROS_PER_SECOND
_TABLE_BEGIN_MICROS = int(datetime(1, 1, 2, tzinfo=UTC).timestamp()) * MICROS_PER_SECOND
_BUCKET_MICROS = 900 * MICROS_PER_SECOND


class Zone(Struct, frozen=True, kw_only=True):
    """A resolved time zone. `fixed_seconds` is its offset east of Greenwich when it has only one; `arrow_name` the
    name under which Arrow knows it otherwise, if it does."""

    info: tzinfo
    fixed_seconds: int | None
    arrow_name: str | None


@lru_cache(maxsize=256)
def resolve_zone(name: str) -> Zone:
    """The zone of the setting TimeZone; raises KeyError when there is none."""
    found = named_zone(name)
    if found is None:
        raise KeyError(name)
    if found.offset is not None:
        seconds = found.offset // timedelta(seconds=1)
        return Zone(info=found.info, fixed_seconds=seconds, arrow_name=None)
    place = isinstance(found.info, ZoneInfo) and found.info.key == found.name
    return Zone(info=found.info, fixed_seconds=None, arrow_name=found.name if place else None)


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
    if zone.arrow_name is None:
        return _offsets_by_bucket(zone, micros)
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
