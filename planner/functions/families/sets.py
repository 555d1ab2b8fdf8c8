"""Set-returning functions over numbers and timestamps; each form gives a list."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from planner.dialects.quoting import quoted
from planner.dialects.time_zones import is_utc
from planner.functions.engines.spark import checked
from planner.functions.forms.form import CallSite, Form, both
from planner.types.types import INT8, TIMESTAMPTZ, is_wide

_ZERO_STEP = "step size cannot equal zero"

MAX_LIST = 1 << 24
"""Numbers that a series may have where it is made as a list (128 MiB), which does not count against the engine's
memory limit."""

_TOO_LONG = f"generate_series of more than {MAX_LIST} rows is only supported in FROM"
_TOO_LONG_BY_ROW = f"generate_series of more than {MAX_LIST} rows is only supported with constants"


def _integers(site: CallSite) -> str:
    three = len(site.arg_types) == 3
    step = site.constants[2] if three else 1
    start, stop = site.constants[0], site.constants[1]
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        rows = (stop - start) // (step or 1) + 1
        if rows > MAX_LIST:
            raised = site.dialect.raise_sql("54000", _TOO_LONG)
            # Spark's has no type, and what is exploded must be an array.
            return raised if site.engine == "local" else f"CAST({raised} AS ARRAY<{{t}}>)"
    fault = site.dialect.raise_sql("22023", _ZERO_STEP)
    if site.engine == "local":
        series = "generate_series(CAST({0} AS BIGINT), CAST({1} AS BIGINT)" + (
            ", CAST({2} AS BIGINT))" if three else ")"
        )
        plain = series if site.type.oid == INT8 else f"CAST({series} AS {{t}}[])"
        is_known = isinstance(step, int) and step != 0
        zero = "" if is_known else f"WHEN {{2}} = 0 THEN {fault} "
        long = ""
        if not isinstance(start, int) or not isinstance(stop, int) or not is_known:
            each = str(step) if is_known else "CAST({2} AS HUGEINT)"
            steps = f"(CAST({{1}} AS HUGEINT) - CAST({{0}} AS HUGEINT)) // {each}"
            long = f"WHEN {steps} >= {MAX_LIST} THEN {site.dialect.raise_sql('54000', _TOO_LONG_BY_ROW)} "
        return f"CASE {zero}{long}ELSE {plain} END" if zero or long else plain
    stride = "{2}" if three else "CAST(1 AS {t})"
    series = f"sequence({{0}}, {{1}}, {stride})"
    if not three:
        return f"CASE WHEN {{0}} > {{1}} THEN CAST(array() AS ARRAY<{{t}}>) ELSE {series} END"
    return (
        f"CASE WHEN {{2}} = 0 THEN {fault} WHEN ({{2}} > 0 AND {{0}} > {{1}}) OR ({{2}} < 0"
        f" AND {{0}} < {{1}}) THEN CAST(array() AS ARRAY<{{t}}>) ELSE {series} END"
    )


def _integer_table(site: CallSite) -> str | None:
    step = site.constants[2] if len(site.constants) == 3 else 1
    if step == 0:
        return None
    if site.engine == "local":
        return "generate_series({*})".replace("{*}", ", ".join(f"{{{index}}}" for index in range(len(site.constants))))
    start, stop = site.constants[0], site.constants[1]
    assert isinstance(start, int)
    assert isinstance(stop, int)
    assert isinstance(step, int)
    end = stop + (1 if step > 0 else -1)
    if (step > 0 and start > stop) or (step < 0 and start < stop):
        end = start
    if not -(2**63) <= end < 2**63:
        return None
    return f"range({start}L, {end}L, {step}L)"


def _numerics(site: CallSite) -> str:
    bounds = [site.dialect.shown(f"{{{index}}}", type) for index, type in enumerate(site.arg_types)]
    series = site.dialect.python("tg_numeric_series", *bounds, *["'1'"][len(bounds) - 2 :])
    return series if is_wide(site.type) else site.dialect.transform(series, "e", "CAST(e AS {t})")


def _timestamps(site: CallSite) -> str | None:
    zoned = site.type.oid == TIMESTAMPTZ
    zone = site.dialect.string(site.settings.timezone if zoned and not is_utc(site.settings.timezone) else "")
    zone = quoted(zone)
    if site.engine == "local":
        make = "make_timestamptz" if zoned else "make_timestamp"
        series = f"tg_timestamp_series(epoch_us({{0}}), epoch_us({{1}}), {{2}}, {zone})"
        moments = f"list_transform({series}, lambda m: {make}(m))"
    else:
        bounds = "unix_micros(CAST({0} AS TIMESTAMP)), unix_micros(CAST({1} AS TIMESTAMP))"
        series = f"tg_timestamp_series({bounds}, {{2}}, {zone})"
        moment = "timestamp_micros(m)" if zoned else "CAST(timestamp_micros(m) AS TIMESTAMP_NTZ)"
        moments = f"transform({checked(series)}, m -> {moment})"
    may_be = [index for index in (0, 1) if not isinstance(site.constants[index], dt.date)]
    if not may_be:
        return moments
    # PostgreSQL gives rows for as long as they are fetched; the engines make the whole series first.
    infinite = " OR ".join([site.dialect.is_infinite_moment(f"{{{index}}}") for index in may_be])
    fault = site.dialect.raise_sql("0A000", "generate_series from or to an infinite timestamp is not supported")
    return f"CASE WHEN {infinite} THEN {fault} ELSE {moments} END"


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    for type in ("int4", "int8"):
        for key in (f"{type},{type}", f"{type},{type},{type}"):
            given[f"generate_series({key})"] = Form(
                local=_integers, spark=_integers, local_table=_integer_table, spark_table=_integer_table
            )
    given["generate_series(numeric,numeric)"] = both(_numerics)
    given["generate_series(numeric,numeric,numeric)"] = both(_numerics)
    given["generate_series(timestamp,timestamp,interval)"] = both(_timestamps)
    given["generate_series(timestamptz,timestamptz,interval)"] = both(_timestamps)
    return given
