"""Calls of the functions in Python that compute numerics as PostgreSQL does, from and to text."""

from __future__ import annotations

from collections.abc import Callable

from planner.functions.forms.form import CallSite
from planner.types.numeric_shapes import shape_of
from planner.types.types import SqlType, is_wide


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


MAX_DIGITS = 38
"""Of a decimal."""


def product(site: CallSite) -> str:
    """The product of two numerics one of which is wide: on Spark of their digits, where it is known to have room for
    them, so that nothing passes a process of Python."""
    digits = [known or (0 if is_wide(type) else shape_of(type).precision) for known, type in _operands(site)]
    if site.engine != "spark" or site.subquery or not all(digits) or sum(digits) > MAX_DIGITS:
        return computed(site, "mul", 2)
    left, right = (site.dialect.shown(f"{{{index}}}", site.arg_types[index]) for index in range(2))
    numbers = [
        f"CAST(replace(t.{name}, '.', '') AS DECIMAL({count},0))" for name, count in zip("ab", digits, strict=True)
    ]
    behind = [
        f"CASE WHEN instr(t.{name}, '.') > 0 THEN length(t.{name}) - instr(t.{name}, '.') ELSE 0 END" for name in "ab"
    ]
    shown = "CAST(abs(p.n) AS STRING)"
    filled = f"lpad({shown}, greatest(length({shown}), p.s + 1), '0')"
    return (
        f"transform(transform(transform(array(named_struct('a', {left}, 'b', {right})), "
        f"t -> named_struct('n', CAST({' * '.join(numbers)} AS DECIMAL(38,0)), 's', {' + '.join(behind)})), "
        f"p -> named_struct('m', p.n < 0, 's', p.s, 'd', {filled})), "
        "r -> CASE WHEN r.m THEN '-' ELSE '' END || left(r.d, length(r.d) - r.s) || "
        "CASE WHEN r.s > 0 THEN '.' || right(r.d, r.s) ELSE '' END)[0]"
    )


def _operands(site: CallSite) -> list[tuple[int, SqlType]]:
    return list(zip(site.digits or (0, 0), site.arg_types, strict=True))


def wide(name: str, arity: int) -> Callable[[CallSite], str]:
    """A template of ``tg_numeric_<name>`` of `arity` arguments."""
    return lambda site: computed(site, name, arity)
