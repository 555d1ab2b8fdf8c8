"""Moments and wall clocks: conversions between timestamptz and timestamp.

A zone whose distance to UTC never changes is added or taken away; the engines know the places of the time zone
database. All else (POSIX rules, abbreviations whose meaning changed, zones that only the execution knows) is
`planner.values.datetimes.time_zones` called in Python.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from zoneinfo import ZoneInfo

from planner.dialects.literals import Literals
from planner.dialects.quoting import quoted
from planner.types.types import TIMESTAMP, TIMESTAMPTZ
from planner.values.datetimes.time_zones import Zone, named_zone, setting_zone

_UNKNOWN_TO_ENGINES = ("Etc/", "posix/", "right/", "SystemV/")
"""Folders of the time zone database that engines know otherwise than PostgreSQL, or not at all."""

UTC_NAMES = frozenset({"utc", "gmt", "etc/utc", "zulu", "universal", "z", "etc/gmt", "uct", "etc/universal"})
"""Names that mean UTC, where conversions are not needed; in lower case."""


def is_utc(zone: str) -> bool:
    """Whether a time zone's name means UTC."""
    return zone.lower() in UTC_NAMES


class TimeZones(Literals):
    """One engine's conversions. A `Zone` is known now; an SQL string (a place of a template) names one later."""

    @abstractmethod
    def python(self, name: str, *args: str) -> str:
        """A call of one of our functions in Python."""

    @abstractmethod
    def micros_interval(self, micros: str) -> str:
        """That many microseconds as the engine's own interval, to add to a timestamp."""

    @abstractmethod
    def moment_micros(self, moment: str, oid: int) -> str:
        """The microseconds since 1970 of a timestamp or timestamptz (`oid` tells which)."""

    @abstractmethod
    def if_finite(self, moment: str, then: str, otherwise: str) -> str:
        """`then`, or `otherwise` where a moment is infinite."""

    @abstractmethod
    def is_infinite_moment(self, moment: str) -> str:
        """Whether a date, timestamp or timestamptz is infinite; NULL of NULL."""

    @abstractmethod
    def midnight(self, date: str) -> str:
        """A date as the timestamp at which it begins."""

    @abstractmethod
    def date_of_timestamp(self, timestamp: str) -> str:
        """The day of a timestamp; an infinite date of an infinite one."""

    @abstractmethod
    def shifted(self, timestamp: str, by: str) -> str:
        """A timestamp with `by`, operators and the engine's own intervals, behind it; what is infinite stays so."""

    @abstractmethod
    def wall_in_place(self, moment: str, place: str) -> str:
        """A timestamptz as the wall-clock timestamp in a place of the time zone database, an SQL string."""

    @abstractmethod
    def moment_in_place(self, timestamp: str, place: str) -> str:
        """A wall-clock timestamp in a place of the time zone database, an SQL string, as a timestamptz."""

    def to_local_time(self, timezone: str, moment: str = "{0}") -> str:
        """A timestamptz as the wall-clock timestamp in the session's zone `timezone`."""
        return self.wall(setting_zone(timezone), moment)

    def from_local_time(self, timezone: str, timestamp: str = "{0}") -> str:
        """A wall-clock timestamp in the session's zone `timezone` as a timestamptz."""
        return self.moment(setting_zone(timezone), timestamp)

    def moved_on_clock(self, timezone: str, moment: str, steps: Sequence[str]) -> str:
        """A finite timestamptz by `steps`, one after the other on the clock of the session's zone `timezone`: operators
        and the engine's own intervals."""
        zone = setting_zone(timezone)
        for step in steps:
            # NOTE: where functions in Python are called before CASE has chosen, infinite moments come here too.
            moment = self.moment(zone, self.shifted(self.wall(zone, moment), step))
        return moment

    def wall(self, zone: Zone | str, moment: str) -> str:
        """A timestamptz as the wall-clock timestamp in `zone`."""
        plain = f"CAST({moment} AS {self.scalar_types[TIMESTAMP]})"
        if isinstance(zone, Zone) and zone.offset is not None:
            return self._shifted(plain, zone.offset)
        name = quoted(self.string(zone.name)) if isinstance(zone, Zone) else zone
        if isinstance(zone, Zone) and known_to_engines(zone):
            return self.wall_in_place(moment, name)
        micros = self.python(
            "tg_session_wall" if _is_setting(zone) else "tg_wall", self.moment_micros(moment, TIMESTAMPTZ), name
        )
        return self.if_finite(moment, self.moment_of_micros(micros, TIMESTAMP), plain)

    def moment(self, zone: Zone | str, timestamp: str) -> str:
        """A wall-clock timestamp in `zone` as a timestamptz."""
        target = self.scalar_types[TIMESTAMPTZ]
        if isinstance(zone, Zone) and zone.offset is not None:
            return f"CAST({self._shifted(timestamp, -zone.offset)} AS {target})"
        name = quoted(self.string(zone.name)) if isinstance(zone, Zone) else zone
        if isinstance(zone, Zone) and known_to_engines(zone):
            return self.moment_in_place(timestamp, name)
        micros = self.python(
            "tg_session_moment" if _is_setting(zone) else "tg_moment",
            self.moment_micros(timestamp, TIMESTAMP),
            name,
        )
        return self.if_finite(timestamp, self.moment_of_micros(micros, TIMESTAMPTZ), f"CAST({timestamp} AS {target})")

    def _shifted(self, timestamp: str, offset: timedelta) -> str:
        micros = offset // timedelta(microseconds=1)
        if not micros:
            return timestamp
        return self.shifted(timestamp, f"{'-' if micros < 0 else '+'} {self.micros_interval(str(abs(micros)))}")


def _is_setting(zone: Zone | str) -> bool:
    """Whether the zone is what its name means as the setting TimeZone, and no abbreviation."""
    return isinstance(zone, Zone) and named_zone(zone.name) == zone


def known_to_engines(zone: Zone) -> bool:
    place = isinstance(zone.info, ZoneInfo) and zone.info.key == zone.name
    return place and "/" in zone.name and not zone.name.startswith(_UNKNOWN_TO_ENGINES)
