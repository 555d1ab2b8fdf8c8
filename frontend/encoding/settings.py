"""The session settings that act on the text of values, parsed once per result.

DateStyle, TimeZone, IntervalStyle, extra_float_digits and bytea_output (PostgreSQL, "Locale and Formatting").
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from planner.catalog_data.encodings import SQL_ASCII, UTF8


class FormatSettings(Struct, frozen=True, kw_only=True):
    """How values are written as text. `date_style` is ISO, SQL, Postgres or German; `date_order` MDY, DMY or YMD.
    `encoding` is the client's."""

    date_style: str = "ISO"
    date_order: str = "MDY"
    time_zone: str = "UTC"
    interval_style: str = "postgres"
    extra_float_digits: int = 1
    bytea_output: str = "hex"
    encoding: str = UTF8


@lru_cache(maxsize=256)
def _parse(
    date_style: str, time_zone: str, interval_style: str, digits: str, bytea_output: str, encoding: str
) -> FormatSettings:
    words = [word.strip() for word in date_style.split(",")]
    style, order = "ISO", "MDY"
    for word in words:
        upper = word.upper()
        if upper in ("MDY", "DMY", "YMD"):
            order = upper
        elif upper in ("ISO", "SQL", "GERMAN", "POSTGRES"):
            style = {"GERMAN": "German", "POSTGRES": "Postgres"}.get(upper, upper)
    return FormatSettings(
        date_style=style,
        date_order=order,
        time_zone=time_zone,
        interval_style=interval_style.lower(),
        extra_float_digits=int(digits),
        bytea_output=bytea_output.lower(),
        encoding=UTF8 if encoding == SQL_ASCII else encoding,
    )


def format_settings(settings: Mapping[str, str]) -> FormatSettings:
    """The `FormatSettings` of a session's settings (names as PostgreSQL spells them); absent ones have defaults."""
    return _parse(
        settings.get("DateStyle", "ISO, MDY"),
        settings.get("TimeZone", "UTC"),
        settings.get("IntervalStyle", "postgres"),
        settings.get("extra_float_digits", "1"),
        settings.get("bytea_output", "hex"),
        settings.get("client_encoding", UTF8),
    )
