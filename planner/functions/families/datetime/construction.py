"""Making and converting dates, times and intervals: make_date and so on, AT TIME ZONE, age, date_bin, justify_days."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.engines.spark import checked
from planner.functions.forms.form import CallSite, Form, both, local_only, strict
from planner.functions.forms.intervals import unless_null
from planner.functions.forms.limits import in_range, interval_in_range
from planner.functions.forms.zones import moment_in, of_whole_seconds, wall_in
from planner.types.types import INTERVAL, TIMESTAMP, TIMESTAMPTZ
from planner.values.datetimes.calendar_days import FIRST_MICROS, LAST_MICROS, TIMESTAMP_INFINITY


def _age(site: CallSite) -> str:
    type = site.arg_types[0].oid
    micros = [_endless(site, place, type) for place in ("{0}", "{1}")]
    call = f"tg_age({', '.join(micros)})"
    return call if site.engine == "local" else checked(call)


def _endless(site: CallSite, place: str, type: int) -> str:
    """The microseconds of a moment, by the session's clocks; of an infinite one TIMESTAMP_INFINITY."""
    finite = site.dialect.to_local_time(site.settings.timezone, place) if type == TIMESTAMPTZ else place
    micros = site.dialect.moment_micros(finite, TIMESTAMP)
    infinite = (
        f"CASE WHEN {place} > {site.dialect.date_of_days('0')} THEN {TIMESTAMP_INFINITY} ELSE {-TIMESTAMP_INFINITY} END"
    )
    return f"CASE WHEN {site.dialect.is_infinite_moment(place)} THEN {infinite} ELSE {micros} END"


def _shifted(site: CallSite, micros: str) -> str:
    """AT TIME ZONE with a fixed distance to UTC, east of it."""
    plain = site.dialect.scalar_types[TIMESTAMP]
    zoned = site.dialect.scalar_types[TIMESTAMPTZ]
    if site.arg_types[1].oid == TIMESTAMPTZ:
        moment, target, sign = f"CAST({{1}} AS {plain})", plain, "+"
    else:
        moment, target, sign = "{1}", zoned, "-"
    return f"CAST({site.dialect.shifted(moment, f'{sign} {site.dialect.micros_interval(micros)}')} AS {target})"


def _timezone(site: CallSite) -> str:
    zoned = site.arg_types[1].oid == TIMESTAMPTZ
    if site.arg_types[0].oid == INTERVAL:
        moved = of_whole_seconds(site, _shifted(site, "{0}.micros"))
    else:
        moved = wall_in(site, 0, "{1}") if zoned else moment_in(site, 0, "{1}")
    # Infinite moments stay as they are, whatever the zone.
    checked = moved if moved == "{1}" else in_range(site.dialect, moved, TIMESTAMP if zoned else TIMESTAMPTZ)
    return strict(site, checked, 0)


_MAX_SECONDS = "9.223372036854e12"
"""So many have their microseconds in a bigint."""


def _make_interval(site: CallSite) -> str:
    years, months, weeks, days, hours, minutes = (f"{{{index}}}" for index in range(6))
    # An engine may compute a branch of CASE that it does not take.
    counted = f"(CASE WHEN abs({{6}}) < {_MAX_SECONDS} THEN {{6}} ELSE 0 END)"
    seconds = f"round_even({counted} * 1000000, 0)" if site.engine == "local" else f"rint({counted} * 1000000D)"
    wide = site.dialect.wide_integer()
    clock = f"CAST({hours} AS BIGINT) * 3600000000 + CAST({minutes} AS BIGINT) * 60000000"
    micros = f"({clock} + CAST(CAST({seconds} AS BIGINT) AS {wide}))"
    made = interval_in_range(
        site, f"(CAST({years} AS BIGINT) * 12 + {months})", f"(CAST({weeks} AS BIGINT) * 7 + {days})", micros
    )
    fault = site.dialect.raise_sql("22008", "interval out of range")
    return unless_null("0123456", f"CASE WHEN abs({{6}}) < {_MAX_SECONDS} THEN {made} ELSE {fault} END")


def _make_date(site: CallSite) -> str:
    return site.dialect.date_of_days(site.dialect.python("tg_make_date", "{0}", "{1}", "{2}"))


def _wall_made(site: CallSite) -> str:
    micros = site.dialect.python("tg_make_timestamp", "{0}", "{1}", "{2}", "{3}", "{4}", "{5}")
    return site.dialect.moment_of_micros(micros, TIMESTAMP)


def _time_made(site: CallSite) -> str:
    return site.dialect.clock_of_micros(site.dialect.python("tg_make_time", "{0}", "{1}", "{2}"))


def _make_timestamptz(site: CallSite) -> str:
    return site.dialect.from_local_time(site.settings.timezone, _wall_made(site))


def _to_timestamp(site: CallSite) -> str:
    if site.engine == "local":
        finite = "make_timestamptz(CAST(round_even({0} * 1000000, 0) AS BIGINT))"
    else:
        finite = "timestamp_micros(CAST(rint({0} * 1000000D) AS BIGINT))"
    first, last = FIRST_MICROS / 1_000_000, (LAST_MICROS + 1) / 1_000_000
    out_of_range = site.dialect.raise_quoting("22008", "timestamp out of range: ", _short(site))
    if isinstance(site.constants[0], float) and first <= site.constants[0] < last:
        return finite
    ends = [site.dialect.infinite(TIMESTAMPTZ, negative) for negative in (False, True)]
    infinite = f"CASE WHEN {{0}} > 0 THEN {ends[0]} ELSE {ends[1]} END"
    fault = site.dialect.raise_sql("22008", "timestamp cannot be NaN")
    is_infinite = site.dialect.is_infinite("{0}")
    beyond = f"{{0}} < {site.dialect.float8(first)} OR {{0}} >= {site.dialect.float8(last)}"
    return (
        f"CASE WHEN isnan({{0}}) THEN {fault} WHEN {is_infinite} THEN {infinite} WHEN {beyond} THEN {out_of_range} "
        f"ELSE {finite} END"
    )


def _short(site: CallSite) -> str:
    """A number of at least seven digits as C's %g shows it."""
    digits = site.dialect.significant_digits("{0}", 6)
    return digits if site.engine == "local" else f"regexp_replace({digits}, '[.]?0*e', 'e')"


def _date_bin(site: CallSite) -> str:
    type = site.arg_types[1].oid
    source, origin = (site.dialect.moment_micros(place, type) for place in ("{1}", "{2}"))
    binned = site.dialect.moment_of_micros(site.dialect.python("tg_date_bin", "{0}", source, origin), type)
    fault = site.dialect.raise_sql("22008", "origin out of range")
    endless = [site.dialect.is_infinite_moment(place) for place in ("{1}", "{2}")]
    return strict(site, f"CASE WHEN {endless[0]} THEN {{1}} WHEN {endless[1]} THEN {fault} ELSE {binned} END", 0, 1, 2)


def _isfinite(site: CallSite) -> str:
    return "CASE WHEN {0} IS NOT NULL THEN " + site.dialect.if_finite("{0}", "TRUE", "FALSE") + " END"


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    given["age(timestamp,timestamp)"] = given["age(timestamptz,timestamptz)"] = both(_age)
    for type in ("text,timestamp", "text,timestamptz", "interval,timestamp", "interval,timestamptz"):
        given[f"timezone({type})"] = both(_timezone)
    given["make_interval(int4,int4,int4,int4,int4,int4,float8)"] = both(_make_interval)
    given["make_date(int4,int4,int4)"] = both(_make_date)
    given["make_time(int4,int4,float8)"] = both(_time_made)
    given["make_timestamp(int4,int4,int4,int4,int4,float8)"] = both(_wall_made)
    given["make_timestamptz(int4,int4,int4,int4,int4,float8)"] = both(_make_timestamptz)
    given["make_timestamptz(int4,int4,int4,int4,int4,float8,text)"] = local_only(
        "make_timestamptz(tg_make_timestamptz({0}, {1}, {2}, {3}, {4}, {5}, {6}))"
    )
    given["to_timestamp(float8)"] = both(_to_timestamp)
    for name in ("justify_days", "justify_hours", "justify_interval"):
        given[f"{name}(interval)"] = local_only(f"tg_{name}({{0}})")
    for type in ("date", "timestamp", "timestamptz"):
        given[f"isfinite({type})"] = both(_isfinite)
    given["isfinite(interval)"] = both("CASE WHEN {0} IS NOT NULL THEN TRUE END")
    for type in ("timestamp", "timestamptz"):
        given[f"date_bin(interval,{type},{type})"] = both(_date_bin)
    return given
