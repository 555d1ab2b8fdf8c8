"""Making and converting dates, times and intervals: make_date and so on, AT TIME ZONE, age, date_bin, justify_days."""

from __future__ import annotations

import math
from collections.abc import Mapping

from planner.functions.engines.spark import checked
from planner.functions.forms.form import CallSite, Form, both, local_only
from planner.functions.forms.intervals import unless_null
from planner.functions.forms.zones import moment_in, of_whole_seconds, wall_in
from planner.types.types import INTERVAL, TIMESTAMP, TIMESTAMPTZ


def _age(site: CallSite) -> str:
    zoned = site.arg_types[0].oid == TIMESTAMPTZ
    places = ["{0}", "{1}"]
    if zoned:
        places = [site.dialect.to_local_time(site.settings.timezone, place) for place in places]
    if site.engine == "local":
        return f"tg_age(epoch_us({places[0]}), epoch_us({places[1]}))"
    return checked(f"tg_age({', '.join([f'unix_micros(CAST({place} AS TIMESTAMP))' for place in places])})")


def _shifted(site: CallSite, micros: str) -> str:
    """AT TIME ZONE with a fixed distance to UTC, east of it."""
    plain = site.dialect.scalar_types[TIMESTAMP]
    zoned = site.dialect.scalar_types[TIMESTAMPTZ]
    if site.arg_types[1].oid == TIMESTAMPTZ:
        moment, target, sign = f"CAST({{1}} AS {plain})", plain, "+"
    else:
        moment, target, sign = "{1}", zoned, "-"
    return f"CAST({site.dialect.shifted(moment, f'{sign} {site.dialect.micros_interval(micros)}')} AS {target})"


def _timezone(site: CallSite) -> str | None:
    if site.arg_types[0].oid == INTERVAL:
        return of_whole_seconds(site, _shifted(site, "{0}.micros"))
    return wall_in(site, 0, "{1}") if site.arg_types[1].oid == TIMESTAMPTZ else moment_in(site, 0, "{1}")


def _make_interval(site: CallSite) -> str:
    years, months, weeks, days, hours, minutes = (f"{{{index}}}" for index in range(6))
    seconds = "round_even({6} * 1000000, 0)" if site.engine == "local" else "rint({6} * 1000000D)"
    micros = (
        f"(CAST({hours} AS BIGINT) * 3600000000 + CAST({minutes} AS BIGINT) * 60000000 + CAST({seconds} AS BIGINT))"
    )
    return unless_null(
        "0123456",
        site.dialect.interval_struct(f"{years} * 12 + {months}", f"{weeks} * 7 + {days}", micros),
    )


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
    if isinstance(site.constants[0], float) and math.isfinite(site.constants[0]):
        return finite
    ends = [site.dialect.infinite(TIMESTAMPTZ, negative) for negative in (False, True)]
    infinite = f"CASE WHEN {{0}} > 0 THEN {ends[0]} ELSE {ends[1]} END"
    fault = site.dialect.raise_sql("22008", "timestamp cannot be NaN")
    is_infinite = site.dialect.is_infinite("{0}")
    return f"CASE WHEN isnan({{0}}) THEN {fault} WHEN {is_infinite} THEN {infinite} ELSE {finite} END"


def _date_bin(site: CallSite) -> str:
    type = site.arg_types[1].oid
    source, origin = (site.dialect.moment_micros(place, type) for place in ("{1}", "{2}"))
    binned = site.dialect.moment_of_micros(site.dialect.python("tg_date_bin", "{0}", source, origin), type)
    fault = site.dialect.raise_sql("22008", "origin out of range")
    endless = [site.dialect.is_infinite_moment(place) for place in ("{1}", "{2}")]
    return f"CASE WHEN {endless[0]} THEN {{1}} WHEN {endless[1]} THEN {fault} ELSE {binned} END"


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
