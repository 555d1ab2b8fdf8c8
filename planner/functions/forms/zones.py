"""Moments and wall clocks: conversions between timestamptz and timestamp as templates of either engine."""

from __future__ import annotations

from planner.dialects.engine_name import EngineName
from planner.functions.forms.form import UTC_NAMES


def is_utc(zone: str) -> bool:
    """Whether a time zone's name means UTC."""
    return zone.lower() in UTC_NAMES


def to_local_time(engine: EngineName, timezone: str, sql: str = "{0}", zone: str | None = None) -> str:
    """A timestamptz as the wall-clock timestamp in `zone` (an SQL string), by default the session's `timezone`."""
    if zone is None:
        if is_utc(timezone):
            return f"CAST({sql} AS TIMESTAMP)" if engine == "local" else f"CAST({sql} AS TIMESTAMP_NTZ)"
        zone = "'" + timezone.replace("'", "''") + "'"
    if engine == "local":
        return f"({sql} AT TIME ZONE {zone})"
    return f"convert_timezone('UTC', {zone}, CAST({sql} AS TIMESTAMP_NTZ))"


def from_local_time(engine: EngineName, timezone: str, sql: str = "{0}", zone: str | None = None) -> str:
    """A wall-clock timestamp in `zone` (an SQL string), by default the session's `timezone`, as a timestamptz."""
    if zone is None:
        if is_utc(timezone):
            return f"CAST({sql} AS TIMESTAMPTZ)" if engine == "local" else f"CAST({sql} AS TIMESTAMP)"
        zone = "'" + timezone.replace("'", "''") + "'"
    if engine == "local":
        return f"({sql} AT TIME ZONE {zone})"
    return f"CAST(convert_timezone({zone}, 'UTC', {sql}) AS TIMESTAMP)"
