"""The ends of what PostgreSQL has of dates, timestamps and intervals; the engines' own lie further away."""

from __future__ import annotations

from planner.dialects.dialect import Dialect
from planner.functions.forms.form import CallSite
from planner.types.types import DATE
from planner.values.datetimes.calendar_days import FIRST_DAY, FIRST_MICROS, LAST_DAY


def in_range(dialect: Dialect, moment: str, oid: int, *, falls: bool = True, rises: bool = True) -> str:
    """`moment`, SQL of what has become earlier (`falls`) or later (`rises`), if PostgreSQL has it or it is infinite.
    Raises 22008. The engines refuse timestamps that are too late by themselves."""
    beyond = []
    if falls:
        first = _first(dialect, oid)
        beyond.append(f"{moment} < {first}")
    if rises and oid == DATE:
        beyond.append(f"{moment} > {dialect.date_of_days(str(LAST_DAY))}")
    if not beyond:
        return moment
    fault = dialect.raise_sql("22008", f"{'date' if oid == DATE else 'timestamp'} out of range")
    return (
        f"CASE WHEN ({' OR '.join(beyond)}) AND NOT {dialect.is_infinite_moment(moment)} THEN {fault} ELSE {moment} END"
    )


def interval_in_range(site: CallSite, months: str, days: str, micros: str) -> str:
    """The interval of parts, SQL of whole numbers of any size. Raises 22008."""
    within = [f"{part} BETWEEN {-(2**31)} AND {2**31 - 1}" for part in (months, days)]
    least = f"CAST('{-(2**63)}' AS {site.dialect.wide_integer()})"
    within.append(f"{micros} BETWEEN {least} AND {2**63 - 1}")
    fault = site.dialect.raise_sql("22008", "interval out of range")
    made = site.dialect.interval_struct(months, days, micros)
    return f"CASE WHEN {' AND '.join(within)} THEN {made} ELSE {fault} END"


def _first(dialect: Dialect, oid: int) -> str:
    return dialect.date_of_days(str(FIRST_DAY)) if oid == DATE else dialect.moment_of_micros(str(FIRST_MICROS), oid)
