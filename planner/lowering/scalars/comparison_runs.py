"""Long runs of comparisons of one column with constants, said as one list: ``a = 1 OR a = 2 OR ...`` is
``a IN (1, 2, ...)``, and ``a <> 1 AND a <> 2 AND ...`` is ``a NOT IN (1, 2, ...)``.

An engine looks a value up in a list, where it would try one condition after the other, and its optimiser takes more
than linear time over many conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Literal

from planner.ir import nodes as ir
from planner.types import types
from planner.types.signature import Signature
from planner.types.types import BOOL, SqlType
from planner.values.geometry.shapes import GEOMETRY

MIN_RUN = 20
"""Comparisons that are worth it."""

_SAME_KEYS = frozenset({types.INT2, types.INT4, types.INT8, types.TEXT, types.NAME})
"""Types that an engine compares with one another as PostgreSQL does."""


def compares_keys(equals: Signature) -> bool:
    """Whether an engine may compare the two sides of `equals` (an = or <> operator) as the values that they are."""
    if equals.args[0] in GEOMETRY:
        return False
    return equals.args[0] == equals.args[1] or _SAME_KEYS.issuperset(equals.args)


def as_lists(op: Literal["and", "or"], args: Sequence[ir.Scalar]) -> Sequence[ir.Scalar]:
    """`args`, the operands of AND or OR, with lists in the places of long runs."""
    if len(args) < MIN_RUN:
        return args
    symbol = "=" if op == "or" else "<>"
    found: list[ir.Scalar] = []
    for column, run in groupby(args, lambda arg: _compared_column(arg, symbol)):
        operands = list(run)
        if column is None or len(operands) < MIN_RUN:
            found += operands
            continue
        calls = [operand for operand in operands if isinstance(operand, ir.Call)]
        found.append(
            ir.InList(
                arg=calls[0].args[0],
                items=tuple([call.args[1] for call in calls]),
                equals=calls[0].signature,
                negated=op == "and",
                type=SqlType(BOOL),
            )
        )
    return found


def _compared_column(arg: ir.Scalar, symbol: str) -> tuple[int, int] | None:
    """The column that `arg` compares with a constant by the operator `symbol`, with the constant's type."""
    if not isinstance(arg, ir.Call) or arg.signature.name != symbol or not compares_keys(arg.signature):
        return None
    if len(arg.args) != 2 or not isinstance(arg.args[0], ir.ColumnRef):
        return None
    constant = arg.args[1]
    if not isinstance(constant, ir.Literal) or constant.value is None:
        return None
    return arg.args[0].id, constant.type.oid
