"""WITH (...) of tables and materialized views.

PostgreSQL's parameters are checked, shown and without effect; ``retain_history`` says how much of the past is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping

from adapter.definitions.common.storage_parameters import checked_parameters
from planner.errors import InvalidParameterValue, SqlError
from planner.values.datetimes.interval_input import parse_interval

RETAIN_HISTORY = "retain_history"

DAY_US = 86_400_000_000
MONTH_DAYS = 30

MAX_RETAIN_MS = 100 * 365 * DAY_US // 1000
"""A hundred years."""

_MAX_INT = 2147483647
_VACUUM_NUMBERS: Mapping[str, tuple[int, int]] = {
    "autovacuum_vacuum_threshold": (0, _MAX_INT),
    "autovacuum_vacuum_insert_threshold": (-1, _MAX_INT),
    "autovacuum_vacuum_cost_limit": (1, 10000),
    "autovacuum_freeze_min_age": (0, 1000000000),
    "autovacuum_freeze_max_age": (100000, 2000000000),
    "autovacuum_freeze_table_age": (0, 2000000000),
    "autovacuum_multixact_freeze_min_age": (0, 1000000000),
    "autovacuum_multixact_freeze_max_age": (10000, 2000000000),
    "autovacuum_multixact_freeze_table_age": (0, 2000000000),
    "log_autovacuum_min_duration": (-1, _MAX_INT),
}
_NUMBERS: Mapping[str, tuple[int, int]] = {
    "fillfactor": (10, 100),
    "parallel_workers": (0, 1024),
    "toast_tuple_target": (128, 8160),
    "autovacuum_analyze_threshold": (0, _MAX_INT),
    **_VACUUM_NUMBERS,
    **{f"toast.{name}": bounds for name, bounds in _VACUUM_NUMBERS.items()},
}
_FRACTIONS: Mapping[str, tuple[float, float]] = {
    "autovacuum_vacuum_cost_delay": (-1, 100),
    "autovacuum_vacuum_scale_factor": (0, 100),
    "autovacuum_vacuum_insert_scale_factor": (0, 100),
    "autovacuum_analyze_scale_factor": (0, 100),
}
_FLAGS = frozenset({
    "autovacuum_enabled", "toast.autovacuum_enabled", "vacuum_truncate", "toast.vacuum_truncate", "user_catalog_table",
})  # fmt: skip


def checked_options(
    options: Iterable[tuple[str, str]], others: Mapping[str, Callable[[str], str]] | None = None
) -> dict[str, str]:
    """The options of a table by name; `others` are those that it may have besides. Raises 22023 for an unknown one, a
    bad value, and one that is given twice."""
    known: dict[str, Callable[[str], str]] = {RETAIN_HISTORY: _interval, **(others or {})}
    for name, bounds in _FRACTIONS.items():
        for full in (name, f"toast.{name}"):
            known[full] = _fraction(full, *bounds)
    for full in ("vacuum_index_cleanup", "toast.vacuum_index_cleanup"):
        known[full] = _index_cleanup
    return checked_parameters(options, _NUMBERS, _FLAGS, known)


def with_column_options(known: Iterable[str], given: Iterable[tuple[str, str]], *, reset: bool) -> dict[str, str]:
    """`known`, options of a column as pg_attribute.attoptions has them, after SET or RESET of those that are `given`.
    Raises 22023."""
    options = dict(parameter.split("=", 1) for parameter in known)
    if reset:
        for name, _ in given:
            options.pop(name, None)
    else:
        checks = {name: _fraction(name, -1, sys.float_info.max) for name in ("n_distinct", "n_distinct_inherited")}
        options.update(checked_parameters(given, {}, frozenset(), checks))
    return options


def retained_ms(text: str) -> int:
    """The milliseconds of the past that ``retain_history`` asks for. Raises 22023."""
    try:
        interval = parse_interval(text)
    except SqlError:
        interval = None
    if interval is None:
        raise InvalidParameterValue(
            f'invalid value for interval option "{RETAIN_HISTORY}": {text}', hint="Write it as in '7 days'."
        )
    kept_ms = ((interval.months * MONTH_DAYS + interval.days) * DAY_US + interval.micros) // 1000
    if not 0 <= kept_ms <= MAX_RETAIN_MS:
        raise InvalidParameterValue(
            f'value {text} out of bounds for option "{RETAIN_HISTORY}"',
            detail='Valid values are between "0" and "100 years".',
        )
    return kept_ms


def retained_of(options: Mapping[str, str]) -> int | None:
    """What the options say of the past, in milliseconds."""
    return None if RETAIN_HISTORY not in options else retained_ms(options[RETAIN_HISTORY])


def with_options(
    known: Iterable[str], given: Iterable[tuple[str, str]], *, reset: bool, others: Mapping[str, Callable[[str], str]]
) -> dict[str, str]:
    """`known`, options as pg_class.reloptions has them, after SET or RESET of those that are `given`. Raises 22023."""
    options = dict(parameter.split("=", 1) for parameter in known)
    if reset:
        for name, _ in given:
            options.pop(name, None)
    else:
        # What is said anew stands behind what stays (transformRelOptions).
        changed = checked_options(given, others)
        options = {name: value for name, value in options.items() if name not in changed} | changed
    return options


def as_reloptions(options: Mapping[str, str]) -> tuple[str, ...]:
    """The options as pg_class.reloptions has them."""
    return tuple(f"{name}={value}" for name, value in options.items())


def _interval(value: str) -> str:
    retained_ms(value)
    return value


def _index_cleanup(value: str) -> str:
    if value.lower() not in ("auto", "on", "off", "true", "false", "yes", "no", "1", "0"):
        raise InvalidParameterValue(
            f'invalid value for enum option "vacuum_index_cleanup": {value}',
            detail='Valid values are "on", "off", and "auto".',
        )
    return value


def _fraction(name: str, low: float, high: float) -> Callable[[str], str]:
    def check(value: str) -> str:
        try:
            number = float(value)
        except ValueError:
            raise InvalidParameterValue(f'invalid value for floating point option "{name}": {value}') from None
        if not low <= number <= high:
            raise InvalidParameterValue(
                f'value {value} out of bounds for option "{name}"',
                detail=f'Valid values are between "{low:f}" and "{high:f}".',
            )
        return value

    return check
