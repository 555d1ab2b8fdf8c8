"""The options of a materialized view: WITH (...) of CREATE, SET and RESET of ALTER.

``refresh`` says how it is kept, ``fillfactor`` and its like are PostgreSQL's for tables: checked, shown, and without
effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adapter.definitions.common.storage_parameters import checked_parameters
from planner.errors import InvalidParameterValue, SqlError
from planner.values.interval_text import parse_interval

_NUMBERS: Mapping[str, tuple[int, int]] = {
    "fillfactor": (10, 100),
    "parallel_workers": (0, 1024),
    "toast_tuple_target": (128, 8160),
    "autovacuum_vacuum_threshold": (0, 2147483647),
    "autovacuum_analyze_threshold": (0, 2147483647),
}
_FLAGS = frozenset({"autovacuum_enabled", "toast.autovacuum_enabled", "vacuum_truncate", "user_catalog_table"})

DAY_US = 86_400_000_000
MONTH_DAYS = 30

MIN_INTERVAL_US = 100_000
"""A tenth of a second: refreshing more often would leave room for nothing else; that is what on commit is for."""


def checked(options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The options by name. Raises 22023 for an unknown one, a bad value, and one that is given twice."""
    return checked_parameters(options, _NUMBERS, _FLAGS, {"refresh": _refresh})


def _refresh(value: str) -> str:
    words = " ".join(value.lower().split())
    kept(words)
    return words


def kept(refresh: str) -> tuple[str, int]:
    """How a view is kept by what ``refresh`` says: manual, on commit or every, and the pause of the last one in
    microseconds. Raises 22023."""
    if refresh in ("manual", "on commit"):
        return refresh, 0
    word, _, rest = refresh.partition(" ")
    if word == "every" and rest:
        try:
            interval = parse_interval(rest)
        except SqlError:
            interval = None
        if interval is not None:
            pause_us = (interval.months * MONTH_DAYS + interval.days) * DAY_US + interval.micros
            if pause_us < MIN_INTERVAL_US:
                raise InvalidParameterValue(
                    f'value "{refresh}" out of bounds for option "refresh"',
                    detail=f"The shortest interval is {MIN_INTERVAL_US // 1000} milliseconds.",
                )
            return "every", pause_us
    raise InvalidParameterValue(
        f'invalid value for enum option "refresh": {refresh}',
        detail='Valid values are "manual", "on commit" and "every" with an interval, as in "every 1 minute".',
    )
