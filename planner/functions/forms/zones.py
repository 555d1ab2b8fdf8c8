"""Conversions by a time zone that an argument names."""

from __future__ import annotations

from planner.functions.forms.form import CallSite, strict
from planner.types.types import TIMESTAMP
from planner.values.datetimes.time_zones import Zone, written_zone


def wall_in(site: CallSite, argument: int, moment: str) -> str:
    """A timestamptz as the wall-clock timestamp in the zone that an argument names."""
    zone = _named(site, argument)
    return _unknown(site, argument, moment) if zone is None else site.dialect.wall(zone, moment)


def moment_in(site: CallSite, argument: int, timestamp: str) -> str:
    """A wall-clock timestamp in the zone that an argument names as a timestamptz."""
    zone = _named(site, argument)
    return _unknown(site, argument, timestamp) if zone is None else site.dialect.moment(zone, timestamp)


def _named(site: CallSite, argument: int) -> Zone | str | None:
    """The zone of a constant, the place of what is none; None where there is no such zone."""
    constant = site.constants[argument]
    return written_zone(constant) if isinstance(constant, str) else f"{{{argument}}}"


def _unknown(site: CallSite, argument: int, moment: str) -> str:
    fault = site.dialect.raise_sql("22023", f'time zone "{site.constants[argument]}" not recognized')
    return f"CAST(CASE WHEN {moment} IS NOT NULL THEN {fault} END AS {site.dialect.scalar_types[TIMESTAMP]})"


def of_whole_seconds(site: CallSite, then: str) -> str:
    """`then`, with 22023 for an interval that is no distance between time zones: of months or days."""
    words = "concat('TG:22023:interval time zone \"', {text:0}, '\" must not include months or days')"
    whole = "{0}.months <> 0 OR {0}.days <> 0"
    return f"CASE WHEN {whole} THEN {strict(site, site.dialect.error(words), 1)} ELSE {then} END"
