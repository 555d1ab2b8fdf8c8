"""Time zones by every name that PostgreSQL takes, and the moments that wall clocks mean in them.

A name is one of the time zone database's (in any case); or a POSIX specification, ``GMT+4`` or ``EST5EDT``, whose
offset is what is added to local time to get UTC, so it is west of Greenwich where it is positive; or, where a zone is
written beside a time but not in the setting TimeZone, an abbreviation. Most abbreviations mean one offset; some
(``MSK``) mean what they meant in their place at that moment.

The rules are those of PostgreSQL's pgtz.c (pg_tzset), localtime.c (tzparse) and datetime.c (DetermineTimeZoneOffset,
DetermineTimeZoneAbbrevOffset). A zone a day or more from UTC cannot be represented and counts as unknown.
"""

from __future__ import annotations

import io
import re
import struct
from bisect import bisect_right
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from planner.catalog_data.content import columns
from planner.common_errors import unknown_time_zone
from planner.values.datetimes.calendar_days import in_python_years, micros_of

_ZERO = timedelta()
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)


class Zone(Struct, frozen=True, kw_only=True):
    """A time zone. `name` is PostgreSQL's spelling, `offset` its distance east of Greenwich where that never changes.

    `uses`, of an abbreviation whose meaning changes, are the moments (seconds since 1970) from which it meant an
    offset (seconds), in order.
    """

    name: str
    info: tzinfo
    offset: timedelta | None
    uses: tuple[tuple[int, int], ...] = ()

    def offset_at(self, moment: datetime) -> timedelta:
        """The distance east of Greenwich at a moment (which has a zone)."""
        if self.offset is not None:
            return self.offset
        if self.uses:
            return self._meant_at(moment)
        return moment.astimezone(self.info).utcoffset() or _ZERO

    def wall(self, moment: datetime) -> datetime:
        """What clocks show at a moment (which has a zone)."""
        return (moment.astimezone(UTC) + self.offset_at(moment)).replace(tzinfo=None)

    def moment(self, wall: datetime) -> datetime:
        """The moment, in UTC, at which clocks show `wall`. Of an hour that comes twice it is the second; an hour that
        is left out counts from before."""
        if self.offset is not None:
            return (wall - self.offset).replace(tzinfo=UTC)
        found = wall.replace(tzinfo=self.info, fold=1).astimezone(UTC)
        if found.astimezone(self.info).replace(tzinfo=None) != wall:
            found = wall.replace(tzinfo=self.info, fold=0).astimezone(UTC)
        if self.uses:
            return (wall - self._meant_at(found)).replace(tzinfo=UTC)
        return found

    def offset_of(self, micros: int) -> int:
        """The distance east of Greenwich, in microseconds, at a moment of any year (microseconds since 1970)."""
        like, _ = in_python_years(micros)
        return self.offset_at(like.replace(tzinfo=UTC)) // _MICROSECOND

    def micros_of_wall(self, micros: int) -> int:
        """`moment` of any year, in microseconds since 1970."""
        if self.offset is not None:
            return micros - self.offset // _MICROSECOND
        like, shift = in_python_years(micros)
        return micros_of(self.moment(like)) + shift

    def _meant_at(self, moment: datetime) -> timedelta:
        seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // _SECOND
        last = bisect_right(self.uses, (seconds, 1 << 31)) - 1
        return timedelta(seconds=self.uses[max(last, 0)][1])


def fixed(offset: timedelta, name: str) -> Zone:
    """The zone that is always `offset` east of Greenwich, called `name`."""
    return Zone(name=name, info=timezone(offset, name) if name else timezone(offset), offset=offset)


@lru_cache(maxsize=256)
def named_zone(text: str) -> Zone | None:
    """The zone of a name or a POSIX specification, as the setting TimeZone takes it; None when there is none."""
    name = _names().get(text.lower())
    if name is not None:
        try:
            info = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return None
        offset = info.utcoffset(None)
        return Zone(name=name, info=UTC if name == "UTC" else info, offset=offset)
    return _posix_zone(text.upper())


@lru_cache(maxsize=256)
def written_zone(text: str) -> Zone | None:
    """The zone of a name as it stands beside a time or in AT TIME ZONE: an abbreviation before all else."""
    lowered = text.lower()
    place = _CHANGING.get(lowered)
    if place is not None:
        zone = named_zone(place)
        return None if zone is None else _as_abbreviation(zone, text.upper())
    offset = abbreviations().get(lowered)
    return named_zone(text) if offset is None else fixed(offset, text.upper())


def zone_of(text: str) -> Zone:
    """`written_zone`; 22023 when there is none."""
    zone = written_zone(text)
    if zone is None:
        raise unknown_time_zone(text)
    return zone


def setting_zone(name: str) -> Zone:
    """The zone that the setting TimeZone has. Raises 22023 when this host does not know it."""
    zone = named_zone(name)
    if zone is None:
        raise unknown_time_zone(name)
    return zone


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    data = columns("pg_timezone_names")
    return {str(name).lower(): str(name) for name in data["name"]}


# ---------------------------------------------------------------- abbreviations


@lru_cache(maxsize=1)
def abbreviations() -> Mapping[str, timedelta]:
    """The abbreviations, in lower case, with the offset that they have today."""
    data = columns("pg_timezone_abbrevs")
    return {
        str(name).lower(): _clock_offset(str(value))
        for name, value in zip(data["abbrev"], data["utc_offset"], strict=True)
    }


def _clock_offset(text: str) -> timedelta:
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = (int(part) for part in text.lstrip("+-").split(":"))
    return sign * timedelta(hours=hours, minutes=minutes, seconds=seconds)


_CHANGING = {
    "art": "America/Argentina/Buenos_Aires", "arst": "America/Argentina/Buenos_Aires", "clt": "America/Santiago",
    "gyt": "America/Guyana", "pyt": "America/Asuncion", "vet": "America/Caracas", "davt": "Antarctica/Davis",
    "mawt": "Antarctica/Mawson", "amst": "Asia/Yerevan", "anast": "Asia/Anadyr", "anat": "Asia/Anadyr",
    "azst": "Asia/Baku", "azt": "Asia/Baku", "gest": "Asia/Tbilisi", "get": "Asia/Tbilisi", "irkst": "Asia/Irkutsk",
    "irkt": "Asia/Irkutsk", "kgt": "Asia/Bishkek", "krast": "Asia/Krasnoyarsk", "krat": "Asia/Krasnoyarsk",
    "lkt": "Asia/Colombo", "magst": "Asia/Magadan", "magt": "Asia/Magadan", "novst": "Asia/Novosibirsk",
    "novt": "Asia/Novosibirsk", "omsst": "Asia/Omsk", "omst": "Asia/Omsk", "petst": "Asia/Kamchatka",
    "pett": "Asia/Kamchatka", "sgt": "Asia/Singapore", "tmt": "Asia/Ashgabat", "ulat": "Asia/Ulaanbaatar",
    "vlast": "Asia/Vladivostok", "vlat": "Asia/Vladivostok", "yakst": "Asia/Yakutsk", "yakt": "Asia/Yakutsk",
    "yekt": "Asia/Yekaterinburg", "fkst": "Atlantic/Stanley", "fkt": "Atlantic/Stanley",
    "lhdt": "Australia/Lord_Howe", "msk": "Europe/Moscow", "volt": "Europe/Volgograd", "iot": "Indian/Chagos",
    "ckt": "Pacific/Rarotonga", "easst": "Pacific/Easter", "east": "Pacific/Easter", "kost": "Pacific/Kosrae",
    "lint": "Pacific/Kiritimati", "nut": "Pacific/Niue", "tkt": "Pacific/Fakaofo",
}  # fmt: skip
"""The abbreviations of PostgreSQL's default set (timezonesets/Default) that name a place in place of an offset."""

_FIRST_USE, _LAST_USE = datetime(1880, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
_SHORTEST_USE = timedelta(days=14)


def _as_abbreviation(zone: Zone, abbreviation: str) -> Zone:
    """`zone` as its abbreviation means it: what that meant when last in use, or first. One that the time zone database
    has no more means the zone itself."""
    uses: list[tuple[int, int]] = []
    moment, before = _FIRST_USE, ("", _ZERO)
    while moment < _LAST_USE:
        local = moment.astimezone(zone.info)
        now = (local.tzname() or "", local.utcoffset() or _ZERO)
        if now != before and now[0] == abbreviation:
            start = _change(zone.info, moment - _SHORTEST_USE, moment)
            uses.append(((start - datetime(1970, 1, 1, tzinfo=UTC)) // _SECOND, now[1] // _SECOND))
        before = now
        moment += _SHORTEST_USE
    return Zone(name=abbreviation, info=zone.info, offset=zone.offset, uses=tuple(uses))


def _change(info: tzinfo, before: datetime, after: datetime) -> datetime:
    """The second between the two moments at which a zone becomes what it is at the later one."""
    wanted = after.astimezone(info)
    while after - before > _SECOND:
        middle = before + (after - before) // _SECOND // 2 * _SECOND
        local = middle.astimezone(info)
        if (local.tzname(), local.utcoffset()) == (wanted.tzname(), wanted.utcoffset()):
            after = middle
        else:
            before = middle
    return after


# ---------------------------------------------------------------- POSIX

_OFFSET = r"(?P<{0}sign>[+-]?)(?P<{0}hours>\d{{1,3}})(?::(?P<{0}minutes>[0-5]?\d))?(?::(?P<{0}seconds>[0-5]?\d))?"
_POSIX = re.compile(
    r"(?P<name><[^<>]*>|[^0-9,+\-<>]*)"
    + _OFFSET.format("")
    + r"(?:(?P<dst><[^<>]*>|[^0-9,+\-<>]+)(?:" + _OFFSET.format("dst_") + r")?(?:[,;](?P<rule>.*))?)?"
)  # fmt: skip
_AMERICAN_RULE = "M3.2.0,M11.1.0"
"""When daylight saving time begins and ends where a specification does not say it."""


def _posix_zone(text: str) -> Zone | None:
    match = _POSIX.fullmatch(text)
    if match is None:
        return None
    west = _posix_offset(match, "")
    if abs(west) >= timedelta(days=1):
        return None
    name = match["name"].strip("<>")
    if match["dst"] is None:
        return Zone(name=text, info=timezone(-west, name), offset=-west)
    other = west - timedelta(hours=1) if match["dst_hours"] is None else _posix_offset(match, "dst_")
    rule = (match["rule"] or _AMERICAN_RULE).replace(";", ",")
    daylight = match["dst"].strip("<>")
    footer = f"<{name}>{_written(west)}<{daylight}>{_written(other)},{rule}"
    try:
        return Zone(name=text, info=_from_rule(footer), offset=None)
    except ValueError:
        return None


def _posix_offset(match: re.Match[str], prefix: str) -> timedelta:
    offset = timedelta(
        hours=int(match[f"{prefix}hours"]),
        minutes=int(match[f"{prefix}minutes"] or 0),
        seconds=int(match[f"{prefix}seconds"] or 0),
    )
    return -offset if match[f"{prefix}sign"] == "-" else offset


def _written(offset: timedelta) -> str:
    minutes, seconds = divmod(abs(offset) // _SECOND, 60)
    return f"{'-' if offset < _ZERO else ''}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"


def _from_rule(rule: str) -> ZoneInfo:
    """The zone of a rule, by way of a file of the time zone database (RFC 8536) that holds nothing else. Raises
    ValueError for a rule that is none."""
    header = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    body = struct.pack(">lBB", 0, 0, 0) + b"UTC\0"
    return ZoneInfo.from_file(io.BytesIO((header + body) * 2 + b"\n" + rule.encode() + b"\n"), key=rule)
