"""Templates of Spark SQL for texts that PostgreSQL writes otherwise than Spark: floats, intervals, moments, JSON."""

from __future__ import annotations

from planner.types import types

JSON_STRING = (
    "CASE WHEN {0} RLIKE '[\\\\x00-\\\\x1f]' THEN '\"' || array_join(transform(split({0}, ''), c -> CASE "
    "WHEN c IN ('\"', '\\\\') THEN '\\\\' || c WHEN c = '\\b' THEN '\\\\b' WHEN c = '\\u000c' THEN '\\\\f' "
    "WHEN c = '\\n' THEN '\\\\n' WHEN c = '\\r' THEN '\\\\r' WHEN c = '\\t' THEN '\\\\t' "
    "WHEN ascii(c) < 32 THEN '\\\\u00' || lower(lpad(hex(ascii(c)), 2, '0')) ELSE c END), '') || '\"' "
    "ELSE '\"' || replace(replace({0}, '\\\\', '\\\\\\\\'), '\"', '\\\\\"') || '\"' END"
)
"""A text as a JSON string."""


def float_text(oid: int) -> str:
    """A template of a float's text; `oid` is real or double precision.

    Java prints the shortest digits, with an exponent outside 10^-3..10^7; PostgreSQL's bounds are 10^-4 and 10^15, of
    real 10^6.
    """
    million = (
        "WHEN abs({0}) >= 1e6D AND abs({0}) < 1e7D THEN regexp_replace(regexp_replace("
        "replace(CAST({0} AS STRING), '.', ''), '^(-?\\\\d)', '$1.'), '\\\\.?0+$', '') || 'e+06' "
        if oid == types.FLOAT4
        else ""
    )
    high, low = ("1e6D", "CAST(1e-4D AS FLOAT)") if oid == types.FLOAT4 else ("1e15D", "1e-4D")
    return (
        "CASE WHEN {0} IS NULL THEN NULL WHEN isnan({0}) THEN 'NaN' WHEN {0} = double('Infinity') THEN 'Infinity' "
        "WHEN {0} = double('-Infinity') THEN '-Infinity' WHEN {0} = 0 THEN CASE WHEN CAST({0} AS STRING) LIKE '-%' "
        "THEN '-0' ELSE '0' END "
        f"{million}WHEN abs({{0}}) >= {high} OR abs({{0}}) < {low} THEN "
        "regexp_replace(regexp_replace(regexp_replace(regexp_replace(CAST({0} AS STRING), '\\\\.0E', 'E'), "
        "'E(\\\\d)', 'e+$1'), 'E-', 'e-'), '([+-])(\\\\d)$', '$10$2') "
        "ELSE regexp_replace(regexp_replace(CAST(CAST(CAST({0} AS STRING) AS DECIMAL(38,20)) AS STRING), '0+$', ''), "
        "'\\\\.$', '') END"
    )


INFINITE_MICROS = (-(2**63 - 1), 2**63 - 1)
_INFINITIES = dict(zip(("-infinity", "infinity"), INFINITE_MICROS, strict=True))
"""The microseconds of what stands for the infinite timestamps; of dates it is so many days as 32 bits hold."""


def infinite(oid: int, *, negative: bool) -> str:
    """An infinite date, timestamp or timestamptz."""
    name = "-infinity" if negative else "infinity"
    if oid == types.DATE:
        return f"date_from_unix_date({'-' if negative else ''}{2**31 - 1})"
    moment = f"timestamp_micros({_INFINITIES[name]}L)"
    return moment if oid == types.TIMESTAMPTZ else f"CAST({moment} AS TIMESTAMP_NTZ)"


def is_infinite(moment: str) -> str:
    """Whether a date, timestamp or timestamptz is infinite. No others are in these years."""
    return f"year({moment}) IN (294247, -290308, 5881580, -5877641)"


def moment_text(moment: str, zone: str = "") -> str:
    """The text of a date or timestamp, `zone` (SQL of a text) behind its clock. Spark has a sign before the years
    beyond 9999, and counts those before 1 down from 0."""
    text = f"CAST({moment} AS STRING)"
    behind = f" || {zone}" if zone else ""
    before = f"lpad(CAST(1 - year({moment}) AS STRING), 4, '0') || regexp_replace({text}, '^-?[0-9]+', '')"
    return (
        f"CASE WHEN {is_infinite(moment)} THEN CASE WHEN year({moment}) < 1 THEN '-infinity' ELSE 'infinity' END "
        f"WHEN year({moment}) < 1 THEN {before}{behind} || ' BC' ELSE ltrim('+', {text}){behind} END"
    )


def timestamptz_text(wall: str, *, utc: bool) -> str:
    """A template of a moment's text; `wall` is its wall-clock time in the session's zone, `utc` whether that is UTC."""
    if utc:
        return moment_text(wall, "'+00'")
    offset = f"timestampdiff(SECOND, CAST({{0}} AS TIMESTAMP_NTZ), {wall})"
    sign = f"CASE WHEN {offset} < 0 THEN '-' ELSE '+' END"
    hours = f"format_string('%02d', abs({offset}) div 3600)"
    minutes = (
        f"CASE WHEN {offset} % 3600 = 0 THEN '' ELSE format_string(':%02d', abs({offset}) div 60 % 60) END || "
        f"CASE WHEN {offset} % 60 = 0 THEN '' ELSE format_string(':%02d', abs({offset}) % 60) END"
    )
    infinite_text = "CASE WHEN year({0}) < 1 THEN '-infinity' ELSE 'infinity' END"
    shown = moment_text(wall, f"{sign} || {hours} || {minutes}")
    return f"CASE WHEN {is_infinite('{0}')} THEN {infinite_text} ELSE {shown} END"


def _interval() -> str:
    def part(value: str, unit: str, before: str = "") -> str:
        plus = f"CASE WHEN {value} > 0 AND ({before}) THEN '+' ELSE '' END || " if before else ""
        return (
            f"CASE WHEN {value} = 0 THEN NULL ELSE {plus}CAST({value} AS STRING) || ' {unit}' || "
            f"CASE WHEN {value} = 1 THEN '' ELSE 's' END END"
        )

    negative_day = "{0}.days < 0 OR ({0}.days = 0 AND {0}.months < 0)"
    micros = "abs({0}.micros)"
    clock = (
        f"format_string('%02d:%02d:%02d', {micros} div 3600000000, ({micros} div 60000000) % 60, "
        f"({micros} div 1000000) % 60) || CASE WHEN {micros} % 1000000 = 0 THEN '' ELSE "
        f"regexp_replace(format_string('.%06d', {micros} % 1000000), '0+$', '') END"
    )
    parts = (
        part("({0}.months div 12)", "year"),
        part("({0}.months % 12)", "mon"),
        part("{0}.days", "day", "{0}.months < 0"),
        "CASE WHEN {0}.micros = 0 AND ({0}.months <> 0 OR {0}.days <> 0) THEN NULL ELSE "
        f"CASE WHEN {{0}}.micros < 0 THEN '-' WHEN {negative_day} THEN '+' ELSE '' END || {clock} END",
    )
    return f"CASE WHEN {{0}} IS NULL THEN NULL ELSE concat_ws(' ', {', '.join(parts)}) END"


INTERVAL = _interval()
"""An interval in the IntervalStyle postgres."""
