"""Constants that stand in a column beside the rows of a scan, so that the engine's text is the same for every constant.

    SELECT ... FROM rows_23 AS t1 WHERE (t1.c2 = t1.p1)     # b = 7: the source's column p1 is 7 in every row

The engine plans such a text once; its caller makes the columns (`LoweredQuery.constants`).
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.ir import nodes as ir
from planner.lowering.fragments.fragment import Fragment
from planner.lowering.scalars.scalars import Scalars
from planner.types import types

HELD_TYPES = frozenset({
    types.INT2, types.INT4, types.INT8, types.FLOAT8, types.TEXT, types.VARCHAR, types.BPCHAR, types.DATE,
    types.TIMESTAMP, types.TIMESTAMPTZ, types.UUID,
})  # fmt: skip
"""Types whose constants can be columns of a scan. numeric is not among them: a literal's scale is part of its type."""

MAX_HELD_CHARS = 1_000
"""Longer constants are part of the text: what is computed of them is computed for every row."""

MAX_HELD_ITEMS = 16
"""Longer lists are part of the text: the engine looks constants up faster than columns."""


def compared_with_held(scalars: Scalars, left: ir.Scalar, right: ir.Scalar) -> list[Fragment] | None:
    """Both sides of a comparison of a scanned column with a constant that its source can hold. None for others.

    SUBTLE: where an outer join puts NULLs in place of the scan's row, the constant is NULL too. That is right only
    for what gives NULL whenever the column is NULL: not for IS DISTINCT FROM.
    """
    if not scalars.ctx.scans:
        return None
    for constant, column in ((left, right), (right, left)):
        if isinstance(constant, (ir.Literal, ir.Param)) and isinstance(column, (ir.ColumnRef, ir.Cast)):
            scanned = scalars.lower(column)
            held = held_beside(scalars, scanned, (constant,))
            if held is None:
                return None
            return [*held, scanned] if constant is left else [scanned, *held]
    return None


def held_beside(scalars: Scalars, scanned: Fragment, constants: Sequence[ir.Scalar]) -> list[Fragment] | None:
    """The columns of the source of `scanned` that hold `constants`; None when it can hold none, or not all."""
    given = [constant for constant in constants if isinstance(constant, (ir.Literal, ir.Param))]
    if not len(given) == len(constants) <= MAX_HELD_ITEMS or not all(map(_can_be_held, given)):
        return None
    return scalars.ctx.hold_constants(scanned, given)


def _can_be_held(constant: ir.Literal | ir.Param) -> bool:
    """Whether a column of a scan may hold `constant`. The answer is the same for all values of a parameter."""
    if isinstance(constant, ir.Param):
        # Nothing is computed of the other types: see `Scalars.key`.
        return constant.type.oid in HELD_TYPES and constant.type.oid != types.BPCHAR
    long = isinstance(constant.value, str) and len(constant.value) > MAX_HELD_CHARS
    return constant.type.oid in HELD_TYPES and not long
