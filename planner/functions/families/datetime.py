"""Dates, times, timestamps and intervals.

An interval is a struct of months, days and microseconds on both engines. Arithmetic with timestamptz in a session whose
time zone is not UTC goes through the wall clock of that zone, as PostgreSQL's does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.functions.families.text import raised
from planner.functions.forms import CallSite, Form, both, local_only
from planner.functions.zones import from_local_time, is_utc, to_local_time
from planner.ir import Interval
from planner.types import DATE, INTERVAL, TIME, TIMESTAMP, TIMESTAMPTZ

_DAY = 86_400_000_000


def _struct(engine: str, months: str, days: str, micros: str) -> str:
    if engine == "local":
        return (
            f"{{'months': CAST({months} AS INTEGER), 'days': CAST({days} AS INTEGER), 'micros': CAST({micros} AS"
            " BIGINT)}"
        )
    # A struct of constants would count as never NULL even where the whole struct is.
    months, days, micros = (f"nullif({part}, 1)" if part == "0" else part for part in (months, days, micros))
    return (
        f"named_struct('months', CAST({months} AS INT), 'days', CAST({days} AS INT), 'micros', CAST({micros} AS"
        " BIGINT))"
    )


def _strict(engine: str, places: str, body: str) -> str:
    """A struct is not NULL by itself when its members are."""
    tests = " OR ".join(f"{{{place}}} IS NULL" for place in places)
    return f"CASE WHEN {tests} THEN NULL ELSE {body} END"


def _plain(site: CallSite) -> str:
    return "TIMESTAMP" if site.engine == "local" else "TIMESTAMP_NTZ"


def _shifted(site: CallSite, moment: str, interval: int, sign: str) -> str:
    """`moment` (a timestamp) plus or minus argument `interval`: months, then days, then microseconds."""
    place = f"{{{interval}}}"
    constant = site.constants[interval]
    parts: list[str] = []
    if isinstance(constant, Interval):
        months, days, micros = str(constant.months), str(constant.days), str(constant.micros)
        present = (constant.months != 0, constant.days != 0, constant.micros != 0)
    else:
        months, days, micros = f"{place}.months", f"{place}.days", f"{place}.micros"
        present = (True, True, True)
    if site.engine == "local":
        for text, function, there in zip(
            (months, days, micros), ("to_months", "to_days", "to_microseconds"), present, strict=True
        ):
            if there:
                parts.append(f"{function}({text})")
        if not parts:
            return moment
        # DuckDB adds the months, days and microseconds of one INTERVAL in that order.
        return f"({moment} {sign} ({' + '.join(parts)}))"
    result = moment
    if present[0]:
        result += f" {sign} make_ym_interval(0, {months})"
    if present[1]:
        result += f" {sign} make_dt_interval({days})"
    if present[2]:
        result += f" {sign} make_dt_interval(0, 0, 0, CAST({micros} / 1000000BD AS DECIMAL(18,6)))"
    return f"({result})"


def _moment_interval(sign: str, moment: int, interval: int) -> Callable[[CallSite], str]:
    def template(site: CallSite) -> str:
        place = f"{{{moment}}}"
        type = site.arg_types[moment].oid
        if type == DATE:
            return _shifted(site, f"CAST({place} AS {_plain(site)})", interval, sign)
        if type == TIMESTAMPTZ and not is_utc(site.settings.timezone):
            constant = site.constants[interval]
            if not (isinstance(constant, Interval) and constant.months == 0 and constant.days == 0):
                wall = to_local_time(site.engine, site.settings.timezone, place)
                return from_local_time(site.engine, site.settings.timezone, _shifted(site, wall, interval, sign))
        return _shifted(site, place, interval, sign)

    return template


def _micros(site: CallSite, place: str, type: int) -> str:
    if site.engine == "local":
        return f"epoch_us({place})"
    if type == TIMESTAMP:
        return f"unix_micros(CAST({place} AS TIMESTAMP))"
    return f"unix_micros({place})"


def _difference(site: CallSite) -> str:
    left = _micros(site, "{0}", site.arg_types[0].oid)
    right = _micros(site, "{1}", site.arg_types[1].oid)
    div = "//" if site.engine == "local" else "div"
    days = f"(({left} - {right}) {div} {_DAY})"
    return _strict(site.engine, "01", _struct(site.engine, "0", days, f"(({left} - {right}) % {_DAY})"))


def _time_micros(site: CallSite, place: str) -> str:
    if site.engine == "local":
        return f"epoch_us({place})"
    return f"time_diff('MICROSECOND', TIME '00:00:00', {place})"


def _time_of_micros(site: CallSite, micros: str) -> str:
    if site.engine == "local":
        return f"(TIME '00:00:00' + to_microseconds({micros}))"
    return f"CAST(CAST(timestamp_micros(CAST({micros} AS BIGINT)) AS TIMESTAMP_NTZ) AS TIME(6))"


def _time_interval(sign: str) -> Callable[[CallSite], str]:
    def template(site: CallSite) -> str:
        place = "1" if site.arg_types[1].oid == INTERVAL else "0"
        time = "0" if place == "1" else "1"
        total = f"({_time_micros(site, f'{{{time}}}')} {sign} {{{place}}}.micros)"
        return _time_of_micros(site, f"((({total} % {_DAY}) + {_DAY}) % {_DAY})")

    return template


def _interval_sum(sign: str) -> Callable[[CallSite], str]:
    def template(site: CallSite) -> str:
        parts = [f"({{0}}.{part} {sign} {{1}}.{part})" for part in ("months", "days", "micros")]
        return _strict(site.engine, "01", _struct(site.engine, *parts))

    return template


def _negated(site: CallSite) -> str:
    return _strict(site.engine, "0", _struct(site.engine, "-{0}.months", "-{0}.days", "-{0}.micros"))


def _date_plus(sign: str) -> Callable[[CallSite], str]:
    def template(site: CallSite) -> str:
        date, days = ("{0}", "{1}") if site.arg_types[0].oid == DATE else ("{1}", "{0}")
        if site.engine == "local":
            return f"({date} {sign} {days})"
        return f"date_add({date}, {'-' if sign == '-' else ''}{days})"

    return template


def _date_minus_date(site: CallSite) -> str:
    return "CAST({0} - {1} AS INTEGER)" if site.engine == "local" else "datediff({0}, {1})"


def _date_time(site: CallSite) -> str:
    date, time = (0, 1) if site.arg_types[0].oid == DATE else (1, 0)
    if site.engine == "local":
        return f"(CAST({{{date}}} AS TIMESTAMP) + to_microseconds(epoch_us({{{time}}})))"
    return f"make_timestamp_ntz({{{date}}}, {{{time}}})"


# ---------------------------------------------------------------- extract

_INTEGER_FIELDS = {
    "year": ("isoyearless", "year"),
    "month": ("", "month"),
    "day": ("", "day"),
    "hour": ("", "hour"),
    "minute": ("", "minute"),
    "quarter": ("", "quarter"),
    "week": ("", "week"),
    "doy": ("", "doy"),
}
_ALIASES = {
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
UNIT_NAMES = {
    DATE: "date",
    TIME: "time without time zone",
    TIMESTAMP: "timestamp without time zone",
    TIMESTAMPTZ: "timestamp with time zone",
    INTERVAL: "interval",
}


def _field(site: CallSite) -> str | None:
    field = site.constants[0]
    if not isinstance(field, str):
        return None
    lowered = field.lower()
    return _ALIASES.get(lowered, lowered)


def _extract(site: CallSite) -> str | None:
    """extract() of numeric, date_part() of double precision; None for a field that is not constant."""
    field = _field(site)
    if field is None:
        return None
    type = site.arg_types[1].oid
    source = "{1}"
    if type == TIMESTAMPTZ and field not in ("epoch", "timezone", "timezone_hour", "timezone_minute"):
        source = to_local_time(site.engine, site.settings.timezone, source)
    if type == INTERVAL:
        value = _interval_field(site, field)
    elif type == TIME:
        value = _clock_field(site, field, _time_micros(site, "{1}"))
    elif type == DATE and field in ("hour", "minute", "second", "millisecond", "microsecond"):
        value = None
    else:
        value = _moment_field(site, field, source, type)
    if value is None:
        from planner.errors import FeatureNotSupported, InvalidParameterValue

        name = UNIT_NAMES[type]
        known = field in _KNOWN
        fault = FeatureNotSupported if known else InvalidParameterValue
        text = site.constants[0]
        message = f'unit "{str(text).lower()}" not {"supported" if known else "recognized"} for type {name}'
        sqlstate = "0A000" if known else "22023"
        assert fault is not None
        return raised(site, sqlstate, message)
    return f"CAST({value} AS {{t}})"


_KNOWN = frozenset(
    [
        "year",
        "month",
        "day",
        "hour",
        "minute",
        "second",
        "millisecond",
        "microsecond",
        "decade",
        "century",
        "millennium",
        "week",
        "quarter",
        "epoch",
        "dow",
        "isodow",
        "doy",
        "isoyear",
        "julian",
        "timezone",
        "timezone_hour",
        "timezone_minute",
    ]
)


def _decimal(site: CallSite, micros: str, divisor: int) -> str:
    """Microseconds divided by a power of ten, exactly."""
    digits = len(str(divisor)) - 1
    if site.engine == "local":
        return f"(CAST({micros} AS DECIMAL(20,0)) * CAST('{1 / divisor:.{digits}f}' AS DECIMAL({digits},{digits})))"
    return f"(CAST({micros} AS DECIMAL(20,0)) * CAST('{1 / divisor:.{digits}f}' AS DECIMAL({digits},{digits})))"


def _clock_field(site: CallSite, field: str, micros: str) -> str | None:
    div = "//" if site.engine == "local" else "div"
    if field == "hour":
        return f"({micros} {div} 3600000000)"
    if field == "minute":
        return f"(({micros} {div} 60000000) % 60)"
    if field == "second":
        return _decimal(site, f"({micros} % 60000000)", 1_000_000)
    if field == "millisecond":
        return _decimal(site, f"({micros} % 60000000)", 1_000)
    if field == "microsecond":
        return f"({micros} % 60000000)"
    if field == "epoch":
        return _decimal(site, micros, 1_000_000)
    return None


def _moment_field(site: CallSite, field: str, source: str, type: int) -> str | None:
    local = site.engine == "local"
    div = "//" if local else "div"
    year = f"year({source})"
    simple = {
        "year": year,
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
        return f"isoyear({source})" if local else f"extract(YEAROFWEEK FROM {source})"
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
        return _decimal(site, _micros(site, source, TIMESTAMP if type == TIMESTAMP else TIMESTAMPTZ), 1_000_000)
    if field in ("second", "millisecond", "microsecond"):
        micros = f"microsecond({source})" if local else f"CAST(extract(SECOND FROM {source}) * 1000000 AS BIGINT)"
        divisor = {"second": 1_000_000, "millisecond": 1_000, "microsecond": 1}[field]
        return micros if divisor == 1 else _decimal(site, micros, divisor)
    if field == "julian" and type == DATE:
        return (
            f"({source} - DATE '1970-01-01' + 2440588)"
            if local
            else f"(datediff({source}, DATE '1970-01-01') + 2440588)"
        )
    if field == "julian" and local:
        return f"julian({source})"
    if field in ("timezone", "timezone_hour", "timezone_minute") and type == TIMESTAMPTZ:
        if is_utc(site.settings.timezone):
            return "(0 * year({1}))"
        wall = to_local_time(site.engine, site.settings.timezone, "{1}")
        micros = f"({_micros(site, wall, TIMESTAMP)} - {_micros(site, '{1}', TIMESTAMPTZ)})"
        unit = {"timezone": 1, "timezone_hour": 3600, "timezone_minute": 60}[field]
        seconds = f"({micros} {div} 1000000)"
        return seconds if unit == 1 else f"({seconds} {div} 3600)" if unit == 3600 else f"(({seconds} {div} 60) % 60)"
    return None


def _interval_field(site: CallSite, field: str) -> str | None:
    local = site.engine == "local"
    div = "//" if local else "div"
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
        return _decimal(site, f"({seconds} * 1000000 + {micros})", 1_000_000)
    return _clock_field(site, field, micros)


# ---------------------------------------------------------------- truncation

_TRUNC_UNITS = {
    "millennium",
    "century",
    "decade",
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
}


def _trunc(site: CallSite) -> str | None:
    field = _field(site)
    if field is None:
        return None
    type = site.arg_types[1].oid
    if field not in _TRUNC_UNITS:
        known = field in _KNOWN
        message = (
            f'unit "{str(site.constants[0]).lower()}" not {"supported" if known else "recognized"} for type'
            f" {UNIT_NAMES[type]}"
        )
        return raised(site, "0A000" if known else "22023", message)
    if type == INTERVAL:
        return _trunc_interval(site, field)
    if type == TIMESTAMPTZ:
        zone = None
        if len(site.constants) > 2:
            zone = "{2}"
        elif is_utc(site.settings.timezone):
            return _trunc_moment(site, field, "{1}")
        wall = to_local_time(site.engine, site.settings.timezone, "{1}", zone)
        return from_local_time(site.engine, site.settings.timezone, _trunc_moment(site, field, wall), zone)
    return _trunc_moment(site, field, "{1}")


def _trunc_moment(site: CallSite, field: str, source: str) -> str:
    if site.engine == "spark":
        spark_units = {
            "year": "YEAR",
            "quarter": "QUARTER",
            "month": "MONTH",
            "week": "WEEK",
            "day": "DAY",
            "hour": "HOUR",
            "minute": "MINUTE",
            "second": "SECOND",
            "millisecond": "MILLISECOND",
            "microsecond": "MICROSECOND",
        }
        target = "TIMESTAMP" if site.type.oid == TIMESTAMPTZ and source == "{1}" else "TIMESTAMP_NTZ"
        if field in spark_units:
            return f"CAST(date_trunc('{spark_units[field]}', {source}) AS {target})"
        year = f"year({source})"
        start = {
            "decade": f"({year} - pmod({year}, 10))",
            "century": f"({year} - pmod({year} - 1, 100))",
            "millennium": f"({year} - pmod({year} - 1, 1000))",
        }[field]
        return f"CAST(make_date({start}, 1, 1) AS {target})"
    if field in ("century", "millennium"):
        size = 100 if field == "century" else 1000
        target = "TIMESTAMPTZ" if site.type.oid == TIMESTAMPTZ and source == "{1}" else "TIMESTAMP"
        return f"CAST(make_date(year({source}) - (year({source}) - 1) % {size}, 1, 1) AS {target})"
    return f"date_trunc('{field}', {source})"


def _trunc_interval(site: CallSite, field: str) -> str | None:
    div = "//" if site.engine == "local" else "div"
    months = {"millennium": 12000, "century": 1200, "decade": 120, "year": 12, "quarter": 3, "month": 1}
    if field in months:
        unit = months[field]
        return _strict(site.engine, "1", _struct(site.engine, f"{{1}}.months {div} {unit} * {unit}", "0", "0"))
    if field == "week":
        return raised(site, "0A000", 'unit "week" not supported for type interval')
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
    return _strict(site.engine, "1", _struct(site.engine, "{1}.months", "{1}.days", part))


# ---------------------------------------------------------------- construction and conversion

_FROM_INTERVAL = (
    "{'months': CAST(date_part('year', {p}) * 12 + date_part('month', {p}) AS INTEGER), "
    "'days': CAST(date_part('day', {p}) AS INTEGER), 'micros': CAST(date_part('hour', {p}) * 3600000000 + "
    "date_part('minute', {p}) * 60000000 + date_part('microsecond', {p}) AS BIGINT)}"
)


def _age(site: CallSite) -> str:
    zoned = site.arg_types[0].oid == TIMESTAMPTZ
    places = ["{0}", "{1}"]
    if zoned:
        places = [to_local_time("local", site.settings.timezone, place) for place in places]
    return f"tg_age(epoch_us({places[0]}), epoch_us({places[1]}))"


def _timezone(site: CallSite) -> str | None:
    if site.arg_types[0].oid == INTERVAL:
        plain = "TIMESTAMP" if site.engine == "local" else "TIMESTAMP_NTZ"
        zoned = "TIMESTAMPTZ" if site.engine == "local" else "TIMESTAMP"
        if site.arg_types[1].oid == TIMESTAMPTZ:
            moment, target, sign = f"CAST({{1}} AS {plain})", plain, "+"
        else:
            moment, target, sign = "{1}", zoned, "-"
        shift = (
            "to_microseconds({0}.micros)"
            if site.engine == "local"
            else "make_dt_interval(0, 0, 0, CAST({0}.micros / 1000000BD AS DECIMAL(18,6)))"
        )
        return f"CAST({moment} {sign} {shift} AS {target})"
    zone = "{0}"
    constant = site.constants[0]
    if isinstance(constant, str) and is_utc(constant):
        zone = "'UTC'"
    if site.arg_types[1].oid == TIMESTAMPTZ:
        return to_local_time(site.engine, site.settings.timezone, "{1}", zone)
    return from_local_time(site.engine, site.settings.timezone, "{1}", zone)


def _make_interval(site: CallSite) -> str:
    years, months, weeks, days, hours, minutes = (f"{{{index}}}" for index in range(6))
    if site.engine == "local":
        micros = (
            f"(CAST({hours} AS BIGINT) * 3600000000 + CAST({minutes} AS BIGINT) * 60000000 + CAST(round_even({{6}} *"
            " 1000000, 0) AS BIGINT))"
        )
    else:
        micros = (
            f"(CAST({hours} AS BIGINT) * 3600000000 + CAST({minutes} AS BIGINT) * 60000000 + CAST(rint({{6}} *"
            " 1000000D) AS BIGINT))"
        )
    return _strict(
        site.engine, "0123456", _struct(site.engine, f"{years} * 12 + {months}", f"{weeks} * 7 + {days}", micros)
    )


def _make_date(site: CallSite) -> str:
    if site.engine == "local":
        return "tg_make_date({0}, {1}, {2})"
    parts = [f"lpad(CAST({{{index}}} AS STRING), {width}, '0')" for index, width in enumerate((4, 2, 2))]
    fault = (
        "raise_error(concat('TG:22008:date field value out of range: ', {0}, '-', lpad({1}, 2, '0'), '-', "
        "lpad({2}, 2, '0')))"
    )
    return (
        f"coalesce(try_cast(concat_ws('-', {', '.join(parts)}) AS DATE), "
        f"CASE WHEN {{0}} + {{1}} + {{2}} IS NOT NULL THEN {fault} END)"
    )


def _make_timestamp(site: CallSite) -> str | None:
    if site.engine != "local":
        return None
    wall = "tg_make_timestamp({0}, {1}, {2}, {3}, {4}, {5})"
    if site.type.oid == TIMESTAMPTZ:
        return from_local_time("local", site.settings.timezone, wall, "{6}" if len(site.constants) > 6 else None)
    return wall


def _to_timestamp(site: CallSite) -> str:
    if site.engine == "local":
        return "make_timestamptz(CAST(round_even({0} * 1000000, 0) AS BIGINT))"
    return "timestamp_micros(CAST(rint({0} * 1000000D) AS BIGINT))"


def _to_char_moment(site: CallSite) -> str | None:
    zoned = site.arg_types[0].oid == TIMESTAMPTZ
    source = to_local_time(site.engine, site.settings.timezone) if zoned else "{0}"
    pattern = site.constants[1]
    if isinstance(pattern, str):
        simple = _simple_pattern(pattern, site.engine)
        if simple is not None:
            return f"strftime({source}, '{simple}')" if site.engine == "local" else f"date_format({source}, '{simple}')"
    if site.engine == "local":
        zone = "'" + site.settings.timezone.replace("'", "''") + "'" if zoned else "''"
        return f"tg_to_char_timestamp({source}, {{1}}, {zone})"
    return None


_SIMPLE_FIELDS = {
    "YYYY": ("%Y", "yyyy"),
    "MM": ("%m", "MM"),
    "DD": ("%d", "dd"),
    "HH24": ("%H", "HH"),
    "MI": ("%M", "mm"),
    "SS": ("%S", "ss"),
    "US": ("%f", "SSSSSS"),
    "HH12": ("%I", "hh"),
}


def _simple_pattern(pattern: str, engine: str) -> str | None:
    """The engine's own pattern for one made only of plain numeric fields and punctuation."""
    out: list[str] = []
    index = 0
    while index < len(pattern):
        for field in ("HH24", "HH12", "YYYY", "MM", "DD", "MI", "SS", "US"):
            if pattern.startswith(field, index):
                out.append(_SIMPLE_FIELDS[field][0 if engine == "local" else 1])
                index += len(field)
                break
        else:
            if pattern[index] not in "-/.:, ":
                return None
            out.append(pattern[index])
            index += 1
    return "".join(out)


def _overlaps(site: CallSite) -> str:
    s1, s2 = "{0}", "{2}"
    e1 = _moment_interval("+", 0, 1)(site) if site.arg_types[1].oid == INTERVAL else "{1}"
    e2 = _moment_interval("+", 2, 3)(site) if site.arg_types[3].oid == INTERVAL else "{3}"
    a, b = f"least({s1}, {e1})", f"greatest({s1}, {e1})"
    c, d = f"least({s2}, {e2})", f"greatest({s2}, {e2})"
    return f"(({a} < {d} AND {c} < {b}) OR {a} = {c})"


def _interval_times(site: CallSite) -> str | None:
    if site.engine != "local":
        return None
    return "tg_interval_mul({0}, {1})" if site.arg_types[0].oid == INTERVAL else "tg_interval_mul({1}, {0})"


def _isfinite(site: CallSite) -> str:
    return "isfinite({0})" if site.engine == "local" else "({0} IS NOT NULL)"


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    for sign in "+-":
        for type in ("date", "timestamp", "timestamptz"):
            given[f"{sign}({type},interval)"] = both(_moment_interval(sign, 0, 1))
        given[f"{sign}(interval,interval)"] = both(_interval_sum(sign))
        given[f"{sign}(time,interval)"] = both(_time_interval(sign))
        given[f"{sign}(date,int4)"] = both(_date_plus(sign))
    for type in ("date", "timestamp", "timestamptz"):
        given[f"+(interval,{type})"] = both(_moment_interval("+", 1, 0))
    given["+(interval,time)"] = both(_time_interval("+"))
    given["+(int4,date)"] = both(_date_plus("+"))
    given["+(date,time)"] = given["+(time,date)"] = both(_date_time)
    given["-(date,date)"] = both(_date_minus_date)
    given["-(timestamp,timestamp)"] = given["-(timestamptz,timestamptz)"] = both(_difference)
    given["-(time,time)"] = both(
        lambda site: _strict(
            site.engine,
            "01",
            _struct(site.engine, "0", "0", f"({_time_micros(site, '{0}')} - {_time_micros(site, '{1}')})"),
        )
    )
    given["-(interval)"] = both(_negated)
    given["*(interval,float8)"] = given["*(float8,interval)"] = both(_interval_times)
    given["/(interval,float8)"] = local_only("tg_interval_div({0}, {1})")
    for type in ("date", "time", "timestamp", "timestamptz", "interval"):
        given[f"extract(text,{type})"] = both(_extract)
        given[f"date_part(text,{type})"] = both(_extract)
    for type in ("timestamp", "timestamptz", "interval", "timestamptz,text"):
        given[f"date_trunc(text,{type})"] = both(_trunc)
    given["age(timestamp,timestamp)"] = given["age(timestamptz,timestamptz)"] = local_only(_age)
    for type in ("text,timestamp", "text,timestamptz", "interval,timestamp", "interval,timestamptz"):
        given[f"timezone({type})"] = both(_timezone)
    given["make_interval(int4,int4,int4,int4,int4,int4,float8)"] = both(_make_interval)
    given["make_date(int4,int4,int4)"] = both(_make_date)
    given["make_time(int4,int4,float8)"] = local_only("tg_make_time({0}, {1}, {2})")
    given["make_timestamp(int4,int4,int4,int4,int4,float8)"] = local_only(_make_timestamp)
    given["make_timestamptz(int4,int4,int4,int4,int4,float8)"] = local_only(_make_timestamp)
    given["make_timestamptz(int4,int4,int4,int4,int4,float8,text)"] = local_only(_make_timestamp)
    given["to_timestamp(float8)"] = both(_to_timestamp)
    given["to_char(timestamp,text)"] = given["to_char(timestamptz,text)"] = both(_to_char_moment)
    given["to_char(interval,text)"] = local_only("tg_to_char_interval({0}, {1})")
    for type in ("int4", "int8", "numeric", "float8", "float4"):
        kind = {"float4": "float4", "float8": "float8"}.get(type, "numeric")
        given[f"to_char({type},text)"] = local_only(f"tg_to_char_number(CAST({{0}} AS VARCHAR), {{1}}, '{kind}')")
    given["to_date(text,text)"] = local_only("CAST(tg_to_timestamp({0}, {1}) AS DATE)")
    given["to_timestamp(text,text)"] = local_only(
        lambda site: from_local_time("local", site.settings.timezone, "tg_to_timestamp({0}, {1})")
    )
    given["to_number(text,text)"] = local_only("CAST(tg_to_number({0}, {1}) AS {t})")
    for name in ("justify_days", "justify_hours", "justify_interval"):
        given[f"{name}(interval)"] = local_only(f"tg_{name}({{0}})")
    for type in ("date", "timestamp", "timestamptz"):
        given[f"isfinite({type})"] = both(_isfinite)
    given["isfinite(interval)"] = both("({0} IS NOT NULL)")
    given["date_bin(interval,timestamp,timestamp)"] = local_only(
        "make_timestamp(tg_date_bin({0}, epoch_us({1}), epoch_us({2})))"
    )
    given["date_bin(interval,timestamptz,timestamptz)"] = local_only(
        "make_timestamptz(tg_date_bin({0}, epoch_us({1}), epoch_us({2})))"
    )
    for type in ("timestamp", "timestamptz"):
        for first in (type, "interval"):
            for second in (type, "interval"):
                given[f"overlaps({type},{first},{type},{second})"] = both(_overlaps)
    for type in ("time",):
        given[f"overlaps({type},{type},{type},{type})"] = both(_overlaps)
    return given
