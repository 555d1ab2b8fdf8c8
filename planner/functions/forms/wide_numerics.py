"""Calls of the functions in Python that compute numerics as PostgreSQL does, from and to text."""

from __future__ import annotations

from collections.abc import Callable

from planner.functions.forms.form import CallSite
from planner.types.types import is_wide


def computed(site: CallSite, name: str, arity: int, *others: str) -> str:
    """``tg_numeric_<name>`` of the first `arity` arguments and of what else it takes."""
    texts = [site.dialect.shown(f"{{{index}}}", site.arg_types[index]) for index in range(arity)]
    return site.dialect.python(f"tg_numeric_{name}", *texts, *others)


MAX_ROUNDED_DIGITS = 18
"""Fraction digits up to which the local engine rounds: it has room for twenty before the point."""

OPPOSITE = (
    "CASE WHEN left({0}, 1) = '-' THEN substr({0}, 2) "
    "WHEN {0} = 'NaN' OR replace(replace({0}, '0', ''), '.', '') = '' THEN {0} ELSE '-' || {0} END"
)
"""The opposite of a wide numeric."""
ABSOLUTE = "CASE WHEN left({0}, 1) = '-' THEN substr({0}, 2) ELSE {0} END"
"""The absolute value of a wide numeric."""


def rounded(site: CallSite, digits: int, otherwise: str) -> str:
    """A wide numeric rounded to a constant number of digits, by the local engine where it has room for them."""
    if site.engine != "local" or not 0 <= digits <= MAX_ROUNDED_DIGITS or not is_wide(site.arg_types[0]):
        return otherwise
    return f"coalesce(CAST(try_cast({{0}} AS DECIMAL(38,{digits})) AS VARCHAR), {otherwise})"


def wide(name: str, arity: int) -> Callable[[CallSite], str]:
    """A template of ``tg_numeric_<name>`` of `arity` arguments."""
    return lambda site: computed(site, name, arity)
