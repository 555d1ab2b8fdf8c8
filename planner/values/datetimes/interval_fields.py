"""What the fields of a type modifier keep of an interval: INTERVAL DAY TO MINUTE."""

from __future__ import annotations

from planner.ir.nodes import Interval

YEAR_FIELD = 4
YEAR_OR_MONTH_FIELDS = frozenset({4, 2, 6})
TIME_UNITS = {8: None, 1024: 3_600_000_000, 1032: 3_600_000_000, 2048: 60_000_000, 3080: 60_000_000, 3072: 60_000_000}
"""By mask of a typmod without seconds: the microseconds that its time is a multiple of, None where it keeps no time."""


def fields_kept(value: Interval, fields: int) -> Interval:
    """What the fields of a typmod's mask keep of an interval (AdjustIntervalForTypmod)."""
    if fields in YEAR_OR_MONTH_FIELDS:
        return Interval(int(value.months / 12) * 12 if fields == YEAR_FIELD else value.months, 0, 0)
    if fields in TIME_UNITS:
        unit = TIME_UNITS[fields]
        micros = 0 if unit is None else abs(value.micros) // unit * unit
        return Interval(value.months, value.days, micros if value.micros >= 0 else -micros)
    return value
