"""The time that SQL's now() and its like show: the one place in the adapter that reads the wall clock."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The present moment in UTC, to the microsecond."""
    return datetime.now(UTC)
