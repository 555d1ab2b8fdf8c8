"""Parts of dates, times, timestamps and intervals: extract, date_part, date_trunc."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from planner.common_errors import NanNotHeld
from planner.dialects.time_zones import is_utc
from planner.functions.forms.form import CallSite, Form, both, strict
from planner.functions.forms.intervals import unless_null
from planner.functions.forms.limits import in_range
from planner.functions.forms.zones import moment_in, wall_in
from planner.types.types import DATE, FLOAT8, INTERVAL, TIME, TIMESTAMP, TIMESTAMPTZ, TIMETZ, SqlType, is_wide

_UNIT_ALIASES = {
    "years": "year",
    "y": "year",
    "yr": "year",
    "yrs": "year",
    "months": "month",
    "mon": "month",
    "mons": "month",
    "days": "day",
    "d": "day",
    "hours": "hour",
    "h": "hour",
    "hr": "hour",
    "hrs": "hour",
    "minutes": "minute",
    "min": "minute",
    "mins": "minute",
    "m": "minute",
    "seconds": "second",
    "sec": "second",
    "secs": "second",
    "s": "second",
    "milliseconds": "millisecond",
    "ms": "millisecond",
    "msec": "millisecond",
    "msecs": "millisecond",
    "microseconds": "microsecond",
    "us": "microsecond",
    "usec": "microsecond",
    "usecs": "microsecond",
    "decades": "decade",
    "centuries": "century",
    "c": "century",
    "millennium": "millennium",
    "millennia": "millennium",
    "mil": "millennium",
    "weeks": "week",
    "w": "week",
    "qtr": "quarter",
    "epochs": "epoch",
    "julian": "julian",
    "timezone_h": "timezone_hour",
    "timezone_m": "timezone_minute",
}
_TRUNC_UNITS = {
    "millennium", "century", "decade", "year", "quarter", "month", "week", "day", "hour", "minute", "second",
    "millisecond", "microsecond",
}  # fmt: skip
_GROWING = {"millennium", "century", "decade", "year", "isoyear", "julian", "epoch"}
_UNITS = _TRUNC_UNITS | {
    "epoch", "dow", "isodow", "doy", "isoyear", "julian", "timezone", "timezone_hour", "timezone_minute",
}  # fmt: skip
_TYPE_NAMES = {
    DATE: "date",
    TIME: "time without time zone",
    TIMETZ: "time with time zone",
    TIMESTAMP: "timestamp without time zone",
    TIMESTAMPTZ: "timestamp with time zone",
    INTERVAL: "interval",
}


def _field(site: CallSite) -> str | None:
    field = site.constants[0]
    if not isinstance(field, str):
        return None
    lowered = field.lower()
    return _UNIT_ALIASES.get(lowered, lowered)


def _unit_fault(site: CallSite, field: str) -> str:
    """PostgreSQL's error about a unit that the type does not have, or that does not exist."""
    known = field in _UNITS
    text = str(site.constants[0]).lower()
    verdict = "supported" if known else "recognized"
    message = f'unit "{text}" not {verdict} for type {_TYPE_NAMES[site.arg_types[1].oid]}'
    fault = site.dialect.raise_sql("0A000" if known else "22023", message)
    # Of a type: what is made of an interval looks at its fields.
    return strict(site, f"CAST({fault} AS {{t}})", 1)


def _extract(site: CallSite) -> str | None:
    """extract() of numeric, date_part() of double precision, of a constant field."""
    field = _field(site)
    if field is None:
        return None
    type = site.arg_types[1].oid
    source = "{1}"
    if type == TIMESTAMPTZ and field not in ("epoch", "timezone", "timezone_hour", "timezone_minute"):
        source = site.dialect.to_local_time(site.settings.timezone, source)
    if type == INTERVAL:
        value = _interval_field(site, field)
    elif type == TIME:
        value = _clock_field(site, field, site.dialect.time_micros("{1}"))
    elif type == TIMETZ:
        value = _zoned_clock_field(site, field)
    elif type == DATE and field in ("hour", "minute", "second", "millisecond", "microsecond"):
        value = None
    else:
        value = _moment_field(site, field, source, type)
    if value is None:
        return _unit_fault(site, field)
    value = f"CAST({value} AS {{t}})"
    if type in (DATE, TIMESTAMP, TIMESTAMPTZ) and not isinstance(site.constants[1], dt.date):
        infinite = site.dialect.is_infinite_moment("{1}")
        return f"CASE WHEN {infinite} THEN {_of_infinite(site, field)} ELSE {value} END"
    return value


def _of_infinite(site: CallSite, field: str) -> str:
    """A part of an infinite moment: what grows with time is infinite, what comes round again is NULL."""
    if field not in _GROWING:
        return "NULL"
    if site.type.oid == FLOAT8 or is_wide(site.type):
        ends = [site.dialect.float8(end) for end in (math.inf, -math.inf)]
        if is_wide(site.type):
            ends = ["'Infinity'", "'-Infinity'"]
        zero = "DATE '1970-01-01'"
        return f"CASE WHEN {{1}} > {zero} THEN {ends[0]} ELSE {ends[1]} END"
    # No decimal is infinite: the statement runs once more, with such numbers as texts.
    return site.dialect.raise_sql(NanNotHeld.sqlstate, NanNotHeld.MESSAGE)


def _julian(site: CallSite, source: str) -> str:
    """The Julian date of a timestamp, with its time of day as a fraction."""
    return site.dialect.python("tg_numeric_julian", site.dialect.moment_micros(source, TIMESTAMP))


def _decimal(micros: str, divisor: int) -> str:
    """Microseconds divided by a power of ten, exactly."""
    digits = len(str(divisor)) - 1
    return f"(CAST({micros} AS DECIMAL(20,0)) * CAST('{1 / divisor:.{digits}f}' AS DECIMAL({digits},{digits})))"


def _clock_field(site: CallSite, field: str, micros: str) -> str | None:
    div = site.dialect.whole_division
    if field == "hour":
        return f"({micros} {div} 3600000000)"
    if field == "minute":
        return f"(({micros} {div} 60000000) % 60)"
    if field == "second":
        return _decimal(f"({micros} % 60000000)", 1_000_000)
    if field == "millisecond":
        return _decimal(f"({micros} % 60000000)", 1_000)
    if field == "microsecond":
        return f"({micros} % 60000000)"
    if field == "epoch":
        return _decimal(micros, 1_000_000)
    return None


def _zoned_clock_field(site: CallSite, field: str) -> str | None:
    micros, east = (site.dialect.python(f"tg_timetz_{part}", "{1}") for part in ("micros", "east"))
    div = site.dialect.whole_division
    match field:
        case "timezone":
            return east
        case "timezone_hour":
            return f"({east} {div} 3600)"
        case "timezone_minute":
            return f"(({east} {div} 60) % 60)"
        case "epoch":
            return _decimal(f"({micros} - {east} * 1000000)", 1_000_000)
        case _:
            return _clock_field(site, field, micros)


def _moment_field(site: CallSite, field: str, source: str, type: int) -> str | None:
    local = site.engine == "local"
    div = site.dialect.whole_division
    year = f"year({source})"
    simple = {
        "year": _signed_year(year),
        "month": f"month({source})",
        "day": f"day({source})",
        "quarter": f"quarter({source})",
        "hour": f"hour({source})",
        "minute": f"minute({source})",
    }
    if field in simple:
        return simple[field]
    if field == "dow":
        return f"dayofweek({source})" if local else f"(dayofweek({source}) - 1)"
    if field == "isodow":
        return f"isodow({source})" if local else f"(weekday({source}) + 1)"
    if field == "doy":
        return f"dayofyear({source})"
    if field == "week":
        return f"weekofyear({source})"
    if field == "isoyear":
        return _signed_year(f"isoyear({source})" if local else f"extract(YEAROFWEEK FROM {source})")
    if field == "decade":
        return f"CAST(floor({year} / {'10.0' if local else '10BD'}) AS BIGINT)"
    if field == "century":
        return f"CASE WHEN {year} > 0 THEN ({year} + 99) {div} 100 ELSE -((99 - ({year} - 1)) {div} 100) END"
    if field == "millennium":
        return f"CASE WHEN {year} > 0 THEN ({year} + 999) {div} 1000 ELSE -((999 - ({year} - 1)) {div} 1000) END"
    if field == "epoch":
        if type == DATE:
            days = f"({source} - DATE '1970-01-01')" if local else f"datediff({source}, DATE '1970-01-01')"
            return f"(CAST({days} AS BIGINT) * 86400)"
        return _decimal(site.dialect.moment_micros(source, TIMESTAMP if type == TIMESTAMP else TIMESTAMPTZ), 1_000_000)
    if field in ("second", "millisecond", "microsecond"):
        micros = f"microsecond({source})" if local else f"CAST(extract(SECOND FROM {source}) * 1000000 AS BIGINT)"
        divisor = {"second": 1_000_000, "millisecond": 1_000, "microsecond": 1}[field]
        return micros if divisor == 1 else _decimal(micros, divisor)
    if field == "julian" and type == DATE:
        return (
            f"({source} - DATE '1970-01-01' + 2440588)"
            if local
            else f"(datediff({source}, DATE '1970-01-01') + 2440588)"
        )
    if field == "julian" and is_wide(site.type):
        return _julian(site, source)
    if field == "julian" and local:
        return f"julian({source})"
    if field in ("timezone", "timezone_hour", "timezone_minute") and type == TIMESTAMPTZ:
        if is_utc(site.settings.timezone):
            return "(0 * year({1}))"
        wall = site.dialect.to_local_time(site.settings.timezone, "{1}")
        micros = f"({site.dialect.moment_micros(wall, TIMESTAMP)} - {site.dialect.moment_micros('{1}', TIMESTAMPTZ)})"
        unit = {"timezone": 1, "timezone_hour": 3600, "timezone_minute": 60}[field]
        seconds = f"({micros} {div} 1000000)"
        return seconds if unit == 1 else f"({seconds} {div} 3600)" if unit == 3600 else f"(({seconds} {div} 60) % 60)"
    return None


def _signed_year(year: str) -> str:
    """A year as extract gives it: there is no year 0, 1 BC is -1."""
    return f"CASE WHEN {year} > 0 THEN {year} ELSE {year} - 1 END"


def _interval_field(site: CallSite, field: str) -> str | None:
    local = site.engine == "local"
    div = site.dialect.whole_division
    micros = "{1}.micros"
    years = f"({{1}}.months {div} 12)"
    fields = {
        "year": years,
        "month": "({1}.months % 12)",
        "day": "{1}.days",
        "quarter": f"(({{1}}.months % 12) {div} 3 + 1)",
        "decade": f"({years} {div} 10)",
        "century": f"({years} {div} 100)",
        "millennium": f"({years} {div} 1000)",
    }
    if field in fields:
        return fields[field]
    if field == "epoch":
        wide = "HUGEINT" if local else "DECIMAL(28,0)"
        seconds = (
            f"(CAST({{1}}.months {div} 12 AS {wide}) * 31557600 + ({{1}}.months % 12) * 2592000 + CAST({{1}}.days AS"
            " BIGINT) * 86400)"
        )
        return _decimal(f"({seconds} * 1000000 + {micros})", 1_000_000)
    return _clock_field(site, field, micros)


def _trunc(site: CallSite) -> str | None:
    field = _field(site)
    if field is None:
        return None
    type = site.arg_types[1].oid
    if field not in _TRUNC_UNITS:
        return _unit_fault(site, field)
    if type == INTERVAL:
        return _trunc_interval(site, field)
    truncated = _trunc_zoned(site, field) if type == TIMESTAMPTZ else _trunc_moment(site, field, "{1}")
    return in_range(site.dialect, truncated, type) if field in _BEYOND_A_DAY else truncated


_BEYOND_A_DAY = ("millennium", "century", "decade", "year", "quarter", "month", "week")
_WITHIN_A_DAY = ("hour", "minute", "second", "millisecond", "microsecond")


def _trunc_zoned(site: CallSite, field: str) -> str:
    """date_trunc of a timestamptz by the clocks of the zone that is given, or of the session's."""
    given = len(site.constants) > 2
    timezone = site.settings.timezone
    if not given and is_utc(timezone):
        return _trunc_moment(site, field, "{1}")
    wall = wall_in(site, 2, "{1}") if given else site.dialect.to_local_time(timezone, "{1}")
    truncated = _trunc_moment(site, field, wall)
    if field in _WITHIN_A_DAY:
        # What is taken off is taken off the moment itself: of an hour that comes twice it stays in its own.
        micros = [site.dialect.moment_micros(moment, TIMESTAMP) for moment in (wall, truncated)]
        shorter = f"({{1}} - {site.dialect.micros_interval(f'({micros[0]} - {micros[1]})')})"
        return site.dialect.if_finite("{1}", shorter, "{1}")
    return moment_in(site, 2, truncated) if given else site.dialect.from_local_time(timezone, truncated)


def _trunc_moment(site: CallSite, field: str, source: str) -> str:
    if site.engine == "spark":
        target = "TIMESTAMP" if site.type.oid == TIMESTAMPTZ and source == "{1}" else "TIMESTAMP_NTZ"
        if field not in ("decade", "century", "millennium"):
            whole = f"CAST(date_trunc('{field.upper()}', {source}) AS {target})"
            return site.dialect.if_finite(source, whole, source)
        year = f"year({source})"
        start = {
            "decade": f"({year} - pmod({year}, 10))",
            "century": f"({year} - pmod({year} - 1, 100))",
            "millennium": f"({year} - pmod({year} - 1, 1000))",
        }[field]
        return site.dialect.if_finite(source, f"CAST(make_date({start}, 1, 1) AS {target})", source)
    if field in ("decade", "century", "millennium"):
        size, first = {"decade": (10, 0), "century": (100, 1), "millennium": (1000, 1)}[field]
        zoned = site.type.oid == TIMESTAMPTZ and source == "{1}"
        # NOTE: the year of a TIMESTAMPTZ counts from 1 backwards before Christ, too.
        year = f"year({source} AT TIME ZONE 'UTC')" if zoned else f"year({source})"
        since = f"(({year} - {first}) % {size} + {size}) % {size}"
        first_day = f"CAST(make_date({year} - {since}, 1, 1) AS {'TIMESTAMPTZ' if zoned else 'TIMESTAMP'})"
        return site.dialect.if_finite(source, first_day, source)
    return f"date_trunc('{field}', {source})"


def _trunc_interval(site: CallSite, field: str) -> str | None:
    div = site.dialect.whole_division
    months = {"millennium": 12000, "century": 1200, "decade": 120, "year": 12, "quarter": 3, "month": 1}
    if field in months:
        unit = months[field]
        return unless_null("1", site.dialect.interval_struct(f"{{1}}.months {div} {unit} * {unit}", "0", "0"))
    if field == "week":
        return _unit_fault(site, field)
    micros = {
        "day": 0,
        "hour": 3_600_000_000,
        "minute": 60_000_000,
        "second": 1_000_000,
        "millisecond": 1000,
        "microsecond": 1,
    }
    unit = micros[field]
    part = "0" if unit == 0 else f"{{1}}.micros {div} {unit} * {unit}"
    return unless_null("1", site.dialect.interval_struct("{1}.months", "{1}.days", part))


def _any_field(template: Callable[[CallSite], str | None]) -> Callable[[CallSite], str | None]:
    """`template`, which wants its field to be constant, for fields that only the execution knows too."""

    def made(site: CallSite) -> str | None:
        if site.constants[0] is None:
            return "CAST(NULL AS {t})"
        if isinstance(site.constants[0], str):
            return template(site)
        spellings: dict[str, list[str]] = {field: [field] for field in sorted(_UNITS)}
        for alias, field in _UNIT_ALIASES.items():
            if alias != field:
                spellings[field].append(alias)
        absent = [f"{{{place}}} IS NULL" for place in range(len(site.arg_types))]
        branches = f"WHEN {' OR '.join(absent)} THEN NULL"
        for field, names in spellings.items():
            value = template(replace(site, constants=(field, *site.constants[1:])))
            if value is None:
                return None
            # Spark asks a function in Python for rows of other branches, too.
            value = value.replace("{2}", "CASE WHEN {0} IS NOT NULL THEN {2} END")
            branches += f" WHEN lower({{0}}) IN ({', '.join(repr(name) for name in names)}) THEN {value}"
        type = _TYPE_NAMES[site.arg_types[1].oid]
        unknown = f"concat('TG:22023:unit \"', lower({{0}}), '\" not recognized for type {type}')"
        return f"CASE {branches} ELSE {site.dialect.error(unknown)} END"

    return made


def _part_of_date(site: CallSite) -> str | None:
    """date_part() of a date, which is that of its midnight, and so has hours and is refused in a timestamp's words."""
    midnight = site.dialect.midnight("{1}")
    template = _any_field(_extract)(replace(site, arg_types=(site.arg_types[0], SqlType(TIMESTAMP))))
    return None if template is None else template.replace("{1}", midnight)


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    for type in ("date", "time", "timetz", "timestamp", "timestamptz", "interval"):
        given[f"extract(text,{type})"] = both(_any_field(_extract))
        given[f"date_part(text,{type})"] = both(_part_of_date if type == "date" else _any_field(_extract))
    for type in ("timestamp", "timestamptz", "interval", "timestamptz,text"):
        given[f"date_trunc(text,{type})"] = both(_any_field(_trunc))
    return given
