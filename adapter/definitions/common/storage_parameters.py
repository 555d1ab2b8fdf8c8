"""WITH (...) of tables, indexes and materialized views: which parameters there are, and what they may be.

The messages are PostgreSQL's (access/common/reloptions.c).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

from planner.errors import InvalidParameterValue

Bounds: TypeAlias = tuple[int, int] | tuple[float, float]
"""The least and the largest value of a number; of one that may have a fraction both are floats."""

_FLAG_WORDS = frozenset({"true", "false", "on", "off", "yes", "no", "1", "0"})


def checked_parameters(
    options: Iterable[tuple[str, str]],
    numbers: Mapping[str, Bounds],
    flags: Collection[str],
    others: Mapping[str, Callable[[str], str]] | None = None,
) -> dict[str, str]:
    """The options by name, in the order in which they were given.

    `numbers` have their bounds, `flags` are booleans, and each of the `others` is what its function
    makes of it. Raises 22023 for an unknown one, a bad value, and one that is given twice.
    """
    found: dict[str, str] = {}
    for name, value in options:
        if name in found:
            raise InvalidParameterValue(f'parameter "{name}" specified more than once')
        if others and name in others:
            value = others[name](value)
        elif name in numbers:
            _check_number(name, value, *numbers[name])
        elif name in flags:
            if value.lower() not in _FLAG_WORDS:
                raise InvalidParameterValue(f'invalid value for boolean option "{name}": {value}')
        else:
            namespace, dot, rest = name.rpartition(".")
            if dot and namespace != "toast":
                raise InvalidParameterValue(f'unrecognized parameter namespace "{namespace}"')
            raise InvalidParameterValue(f'unrecognized parameter "{rest}"')
        found[name] = value
    return found


def _check_number(name: str, value: str, low: float, high: float) -> None:
    has_fraction = isinstance(low, float)
    try:
        # PostgreSQL rounds a number with a fraction where it wants a whole one (parse_int).
        number = float(value) if has_fraction else round(float(value))
    except (ValueError, OverflowError):
        sort = "floating point" if has_fraction else "integer"
        raise InvalidParameterValue(f'invalid value for {sort} option "{name}": {value}') from None
    if not low <= number <= high:
        shown = "{:.6f}" if has_fraction else "{}"
        raise InvalidParameterValue(
            f'value {value} out of bounds for option "{name}"',
            detail=f'Valid values are between "{shown.format(low)}" and "{shown.format(high)}".',
        )
