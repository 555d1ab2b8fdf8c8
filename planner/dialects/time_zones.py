"""Which names of time zones mean UTC, where conversions are not needed."""

from __future__ import annotations

UTC_NAMES = frozenset({"utc", "gmt", "etc/utc", "zulu", "universal", "z", "etc/gmt", "uct", "etc/universal"})
"""In lower case."""


def is_utc(zone: str) -> bool:
    """Whether a time zone's name means UTC."""
    return zone.lower() in UTC_NAMES
