"""Relations whose rows sessions know: settings, activity, cursors, prepared statements, locks; and time zones.

A session describes itself through `SessionFacts`. Without them only pg_settings and the time zones have rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from adapter.execution_context import Row, SessionFacts
from adapter.system_catalogs.objects.content import Content
from planner.catalog_data import content as catalog_data

# fmt: off
_DATABASE_COUNTERS = (
    "numbackends", "xact_commit", "xact_rollback", "blks_read", "blks_hit", "tup_returned", "tup_fetched",
    "tup_inserted", "tup_updated", "tup_deleted", "conflicts", "temp_files", "temp_bytes", "deadlocks", "sessions",
    "sessions_abandoned", "sessions_fatal", "sessions_killed",
)
# fmt: on
_DATABASE_TIMES = ("blk_read_time", "blk_write_time", "session_time", "active_time", "idle_in_transaction_time")


@cache
def _settings_pattern() -> tuple[Row, ...]:
    data = catalog_data.columns("pg_settings")
    return tuple(dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True))


def pg_settings(rows: Sequence[Row]) -> Content:
    """The settings that a session has, with what PostgreSQL says of them where the session says nothing."""
    patterns = {str(pattern["name"]).lower(): pattern for pattern in _settings_pattern()}
    merged: list[Row] = [{**patterns.get(str(row["name"]).lower(), {}), **row} for row in rows]
    return Content(rows=sorted(merged, key=lambda row: str(row["name"]).lower()))


def _interval(offset: timedelta) -> Mapping[str, int]:
    return {"months": 0, "days": 0, "micros": offset // timedelta(microseconds=1)}


def pg_timezone_names(now_ms: int) -> Content:
    """Time zones with their offset at `now_ms`."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    rows: list[Row] = []
    for name in catalog_data.columns("pg_timezone_names")["name"]:
        try:
            local = now.astimezone(ZoneInfo(name))
        except (KeyError, ValueError, OSError):
            continue
        offset = local.utcoffset() or timedelta()
        rows.append(
            {
                "name": name,
                "abbrev": local.tzname(),
                "utc_offset": _interval(offset),
                "is_dst": bool(local.dst()),
            }
        )
    return Content(rows=rows)


@cache
def pg_timezone_abbrevs() -> Content:
    """PostgreSQL's default set of abbreviations."""
    data = catalog_data.columns("pg_timezone_abbrevs")
    rows: list[Row] = []
    for abbrev, text, is_dst in zip(data["abbrev"], data["utc_offset"], data["is_dst"], strict=True):
        sign = -1 if text.startswith("-") else 1
        hours, minutes, seconds = (int(part) for part in text.lstrip("+-").split(":"))
        offset = sign * timedelta(hours=hours, minutes=minutes, seconds=seconds)
        rows.append({"abbrev": abbrev, "utc_offset": _interval(offset), "is_dst": is_dst})
    return Content(rows=rows)


def session_content(
    name: str, settings: Mapping[str, str], facts: SessionFacts | None, now_ms: Callable[[], int]
) -> Content:
    """The rows of the session relation `name`; `settings` are the session's, for want of facts."""
    if name == "pg_settings":
        rows = facts.rows(name) if facts is not None else [{"name": n, "setting": v} for n, v in settings.items()]
        return pg_settings(rows)
    if name == "pg_timezone_names":
        return pg_timezone_names(now_ms() if facts is None else facts.now_ms())
    if name == "pg_timezone_abbrevs":
        return pg_timezone_abbrevs()
    if facts is None:
        return Content()
    if name == "pg_stat_database":
        zeros: Row = {**dict.fromkeys(_DATABASE_COUNTERS, 0), **dict.fromkeys(_DATABASE_TIMES, 0.0)}
        return Content(rows=[{**zeros, **row} for row in facts.rows(name)])
    if name == "pg_stat_gssapi":
        sessions: list[Row] = [
            {"pid": row["pid"], "gss_authenticated": False, "encrypted": False}
            for row in facts.rows("pg_stat_activity")
            if row.get("client_port") is not None
        ]
        return Content(rows=sessions)
    return Content(rows=facts.rows(name))
