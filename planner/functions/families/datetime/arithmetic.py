"""Operators on dates, times, timestamps and intervals, and OVERLAPS.

Arithmetic with timestamptz in a session whose time zone is not UTC goes through the wall clock of that zone, as
PostgreSQL's does.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping

from planner.dialects.time_zones import is_utc
from planner.functions.forms.form import CallSite, Form, both, local_only
from planner.functions.forms.intervals import MICROS_PER_DAY, unless_null
from planner.functions.forms.limits import in_range, interval_in_range
from planner.functions.forms.spans import overlapping
from planner.ir.nodes import Interval
from planner.types.types import DATE, INT4, INTERVAL, TIME, TIMESTAMP, TIMESTAMPTZ
from planner.values.datetimes.calendar_days import FIRST_DAY, LAST_DAY


def _pieces(site: CallSite, interval: int, sign: str) -> list[str]:
    """Argument `interval` as the engine's own: what is behind a timestamp to which its months, its days and its
    microseconds are added, empty for those that are none."""
    place = f"{{{interval}}}"
    constant = site.constants[interval]
    if isinstance(constant, Interval):
        amounts = [str(constant.months), str(constant.days), str(constant.micros)]
    else:
        amounts = [f"{place}.months", f"{place}.days", f"{place}.micros"]
    months, days, micros = amounts
    if site.engine == "local":
        written = [f"to_months({months})", f"to_days({days})", f"to_microseconds({micros})"]
    else:
        written = [f"make_ym_interval(0, {months})", f"make_dt_interval({days})", site.dialect.micros_interval(micros)]
    return ["" if amount == "0" else f"{sign} {text}" for amount, text in zip(amounts, written, strict=True)]


def _shifted(site: CallSite, moment: str, interval: int, sign: str) -> str:
    """`moment` (a timestamp) plus or minus argument `interval`: months, then days, then microseconds."""
    pieces = list(filter(None, _pieces(site, interval, sign)))
    if not pieces:
        return moment
    if site.engine == "local":
        # DuckDB adds the months, days and microseconds of one INTERVAL in that order.
        whole = " + ".join([piece.removeprefix(f"{sign} ") for piece in pieces])
        return f"({moment} {sign} ({whole}))"
    return _unless_none(site, interval, site.dialect.shifted(moment, " ".join(pieces)))


def _unless_none(site: CallSite, interval: int, moved: str) -> str:
    """What is infinite stays so by any interval, but not by none."""
    constant = site.constants[interval]
    return moved if isinstance(constant, Interval) else f"CASE WHEN {{{interval}}} IS NOT NULL THEN {moved} END"


def _moment_interval(sign: str, moment: int, interval: int) -> Callable[[CallSite], str]:
    def template(site: CallSite) -> str:
        shifted = _moved(site, sign, moment, interval)
        if site.engine == "local":
            shifted = _when_near(site, shifted, moment, interval)
        zoned = site.arg_types[moment].oid == TIMESTAMPTZ
        falls = _falls(sign, site.constants[interval])
        return in_range(site.dialect, shifted, TIMESTAMPTZ if zoned else TIMESTAMP, falls=falls)

    return template


_FAR_MONTHS, _FAR_DAYS = 12 * 300_000, 110_000_000
"""Farther than any two moments are from each other."""


def _when_near(site: CallSite, shifted: str, moment: int, interval: int) -> str:
    """`shifted` where the interval leads to a moment at all: DuckDB has other errors for long ones."""
    constant, place = site.constants[interval], f"{{{interval}}}"
    still = f"{{{moment}}}"
    finite = f"NOT {site.dialect.is_infinite_moment(still)}"
    if site.arg_types[moment].oid == DATE:
        still = site.dialect.midnight(still)
    fault = f"CASE WHEN {finite} THEN {site.dialect.raise_sql('22008', 'timestamp out of range')} ELSE {still} END"
    if isinstance(constant, Interval):
        is_far = abs(constant.months) > _FAR_MONTHS or abs(constant.days) > _FAR_DAYS
        return fault if is_far else shifted
    far = (
        f"{place}.months NOT BETWEEN {-_FAR_MONTHS} AND {_FAR_MONTHS} "
        f"OR {place}.days NOT BETWEEN {-_FAR_DAYS} AND {_FAR_DAYS}"
    )
    return f"CASE WHEN {far} THEN {fault} ELSE {shifted} END"


def _falls(sign: str, interval: object) -> bool:
    """Whether a moment plus or minus an interval may be earlier than the moment."""
    if not isinstance(interval, Interval):
        return True
    parts = (interval.months, interval.days, interval.micros)
    return max(parts) > 0 if sign == "-" else min(parts) < 0


def _moved(site: CallSite, sign: str, moment: int, interval: int) -> str:
    place = f"{{{moment}}}"
    type = site.arg_types[moment].oid
    if type == DATE:
        return _shifted(site, site.dialect.midnight(place), interval, sign)
    zone = site.settings.timezone
    *of_clock, micros = _pieces(site, interval, sign)
    steps = list(filter(None, of_clock))
    if type != TIMESTAMPTZ or is_utc(zone) or not steps:
        return _shifted(site, place, interval, sign)
    # Months and days are of the wall clock, each for itself, microseconds are not (timestamptz_pl_interval).
    moved = site.dialect.moved_on_clock(zone, place, steps)
    later = f"({moved} {micros})" if micros else moved
    return _unless_none(site, interval, site.dialect.if_finite(place, later, place))


def _of_finite(site: CallSite, what: str, difference: str) -> str:
    """`difference` of the arguments, which are dates or timestamps: PostgreSQL 15 has no infinite distance."""
    fault = site.dialect.raise_sql("22008", f"cannot subtract infinite {what}")
    may_be = [index for index, value in enumerate(site.constants) if not isinstance(value, dt.date)]
    infinite = " OR ".join([site.dialect.is_infinite_moment(f"{{{index}}}") for index in may_be])
    if not infinite:
        return difference
    return f"CASE WHEN ({infinite}) AND {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN {fault} ELSE {difference} END"


def _difference(site: CallSite) -> str:
    left = site.dialect.moment_micros("{0}", site.arg_types[0].oid)
    right = site.dialect.moment_micros("{1}", site.arg_types[1].oid)
    div = site.dialect.whole_division
    days = f"(({left} - {right}) {div} {MICROS_PER_DAY})"
    struct = site.dialect.interval_struct("0", days, f"(({left} - {right}) % {MICROS_PER_DAY})")
    return _of_finite(site, "timestamps", unless_null("01", struct))


def _time_interval(sign: str, time: int, interval: int) -> Callable[[CallSite], str]:
    def template(site: CallSite) -> str:
        total = f"({site.dialect.time_micros(f'{{{time}}}')} {sign} {{{interval}}}.micros)"
        return site.dialect.time_of_micros(f"((({total} % {MICROS_PER_DAY}) + {MICROS_PER_DAY}) % {MICROS_PER_DAY})")

    return template


def _interval_sum(sign: str) -> Callable[[CallSite], str]:
    def template(site: CallSite) -> str:
        wide = site.dialect.wide_integer()
        parts = [f"(CAST({{0}}.{part} AS {wide}) {sign} {{1}}.{part})" for part in ("months", "days", "micros")]
        return unless_null("01", interval_in_range(site, *parts))

    return template


def _negated(site: CallSite) -> str:
    wide = site.dialect.wide_integer()
    parts = [f"(-CAST({{0}}.{part} AS {wide}))" for part in ("months", "days", "micros")]
    return unless_null("0", interval_in_range(site, *parts))


_NEAR = 2_400_000
"""Days that carry no date beyond what the engines have."""


def _date_plus(sign: str) -> Callable[[CallSite], str]:
    def template(site: CallSite) -> str:
        date, days = ("{0}", "{1}") if site.arg_types[0].oid == DATE else ("{1}", "{0}")
        constant = site.constants[1 if date == "{0}" else 0]
        if isinstance(constant, int) and abs(constant) < _NEAR:
            plain = f"({date} {sign} {days})"
            if site.engine == "spark":
                moved = f"date_add({date}, {'-' if sign == '-' else ''}{days})"
                plain = site.dialect.if_finite(date, moved, date)
            earlier = (constant < 0) == (sign == "+")
            return in_range(site.dialect, plain, DATE, falls=earlier, rises=not earlier)
        total = f"({site.dialect.days_of_date(date)} {sign} CAST({days} AS BIGINT))"
        moved = site.dialect.date_of_days(f"CAST({total} AS {site.dialect.scalar_types[INT4]})")
        fault = site.dialect.raise_sql("22008", "date out of range")
        checked = f"CASE WHEN {total} BETWEEN {FIRST_DAY} AND {LAST_DAY} THEN {moved} ELSE {fault} END"
        return unless_null("01", site.dialect.if_finite(date, checked, date))

    return template


def _date_minus_date(site: CallSite) -> str:
    days = "CAST({0} - {1} AS INTEGER)" if site.engine == "local" else "datediff({0}, {1})"
    return _of_finite(site, "dates", days)


def _time_difference(site: CallSite) -> str:
    left, right = site.dialect.time_micros("{0}"), site.dialect.time_micros("{1}")
    return unless_null("01", site.dialect.interval_struct("0", "0", f"({left} - {right})"))


def _date_time(site: CallSite) -> str:
    date, time = (0, 1) if site.arg_types[0].oid == DATE else (1, 0)
    if site.engine == "local":
        return f"(CAST({{{date}}} AS TIMESTAMP) + to_microseconds(epoch_us({{{time}}})))"
    since = site.dialect.moment_micros(midnight := site.dialect.midnight(f"{{{date}}}"), TIMESTAMP)
    later = site.dialect.moment_of_micros(f"({since} + {site.dialect.time_micros(f'{{{time}}}')})", TIMESTAMP)
    return unless_null(str(time), site.dialect.if_finite(f"{{{date}}}", later, midnight))


def _interval_times(site: CallSite) -> str | None:
    if site.engine != "local":
        return None
    return "tg_interval_mul({0}, {1})" if site.arg_types[0].oid == INTERVAL else "tg_interval_mul({1}, {0})"


def _overlaps(site: CallSite) -> str:
    later = _time_interval if site.arg_types[0].oid == TIME else _moment_interval
    e1 = later("+", 0, 1)(site) if site.arg_types[1].oid == INTERVAL else "{1}"
    e2 = later("+", 2, 3)(site) if site.arg_types[3].oid == INTERVAL else "{3}"
    return overlapping("{0}", e1, "{2}", e2)


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    for sign in "+-":
        for type in ("date", "timestamp", "timestamptz"):
            given[f"{sign}({type},interval)"] = both(_moment_interval(sign, 0, 1))
        given[f"{sign}(interval,interval)"] = both(_interval_sum(sign))
        given[f"{sign}(time,interval)"] = both(_time_interval(sign, 0, 1))
        given[f"{sign}(date,int4)"] = both(_date_plus(sign))
    for type in ("date", "timestamp", "timestamptz"):
        given[f"+(interval,{type})"] = both(_moment_interval("+", 1, 0))
    given["+(interval,time)"] = both(_time_interval("+", 1, 0))
    given["+(int4,date)"] = both(_date_plus("+"))
    given["+(date,time)"] = given["+(time,date)"] = both(_date_time)
    given["-(date,date)"] = both(_date_minus_date)
    given["-(timestamp,timestamp)"] = given["-(timestamptz,timestamptz)"] = both(_difference)
    given["-(time,time)"] = both(_time_difference)
    given["-(interval)"] = both(_negated)
    given["*(interval,float8)"] = given["*(float8,interval)"] = both(_interval_times)
    given["/(interval,float8)"] = local_only("tg_interval_div({0}, {1})")
    for type in ("time", "timestamp", "timestamptz"):
        for first in (type, "interval"):
            for second in (type, "interval"):
                given[f"overlaps({type},{first},{type},{second})"] = both(_overlaps)
    return given
