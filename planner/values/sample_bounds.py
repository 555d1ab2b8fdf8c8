"""What TABLESAMPLE compares rows with, and what it adds to their numbers."""

from __future__ import annotations

from planner.errors import InvalidTablesampleArgument, InvalidTablesampleRepeat

_BITS = 128
_ABOVE_ALL = "g"
"""A text that comes after all of hexadecimal digits."""


def sample_bound(percentage: float | None) -> str:
    """The text that the MD5 sums, in hexadecimal digits, of so many percent of all rows are below. Raises 2202H."""
    if percentage is None:
        raise InvalidTablesampleArgument("TABLESAMPLE parameter cannot be null")
    if not 0 <= percentage <= 100:
        raise InvalidTablesampleArgument("sample percentage must be between 0 and 100")
    if percentage == 100:
        return _ABOVE_ALL
    return f"{int(percentage / 100 * (1 << 53)) << (_BITS - 53):032x}"


def sample_seed(seed: float | None) -> str:
    """The seed of REPEATABLE as a text. Raises 2202G."""
    if seed is None:
        raise InvalidTablesampleRepeat("TABLESAMPLE REPEATABLE parameter cannot be null")
    return repr(float(seed))
