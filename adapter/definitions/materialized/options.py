"""The options of a materialized view: WITH (...) of CREATE, SET and RESET of ALTER.

``refresh`` says how it is kept; the others are those of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from adapter.definitions.common.table_options import DAY_US, MONTH_DAYS, checked_options
from planner.errors import InvalidParameterValue, SqlError
from planner.values.datetimes.interval_input import parse_interval

MIN_INTERVAL_US = 100_000
"""A tenth of a second: refreshing more often would leave room for nothing else; that is what on commit is for."""


def checked(options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The options by name. Raises 22023 for an unknown one, a bad value, and one that is given twice."""
    return checked_options(options, OF_VIEWS)


def _refresh(value: str) -> str:
    words = " ".join(value.lower().split())
    kept(words)
    return words


OF_VIEWS: Mapping[str, Callable[[str], str]] = {"refresh": _refresh}
"""What a materialized view may have beside the options of a table."""


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
