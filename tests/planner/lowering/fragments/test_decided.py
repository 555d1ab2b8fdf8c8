"""AND and OR that a constant decides."""

from __future__ import annotations

from typing import Literal

import pytest

from planner.ir import nodes as ir
from planner.lowering.fragments import decided
from planner.types.types import BOOL, INT4, SqlType

BOOLEAN = SqlType(BOOL)
TRUE, FALSE = (ir.Literal(value=value, type=BOOLEAN) for value in (True, False))
COLUMN = ir.ColumnRef(id=1, type=BOOLEAN)
FAILS = ir.Cast(arg=ir.Literal(value=5, type=SqlType(INT4)), type=BOOLEAN)
"""A constant that may raise an error."""


def op(kind: Literal["and", "or"], *args: ir.Scalar) -> ir.BoolOp:
    return ir.BoolOp(op=kind, args=args, type=BOOLEAN)


@pytest.mark.parametrize(
    ("expr", "result"),
    [
        (op("or", COLUMN, TRUE, FAILS), TRUE),
        (op("and", COLUMN, FALSE, FAILS), FALSE),
        (op("or", COLUMN, FALSE), op("or", COLUMN, FALSE)),
        (op("or", COLUMN, op("or", COLUMN, TRUE)), TRUE),
        (op("or", COLUMN, op("and", COLUMN, FALSE)), op("or", COLUMN, op("and", COLUMN, FALSE))),
        (op("and", COLUMN, op("or", COLUMN, op("and", FALSE, COLUMN))), None),
        (op("or", FAILS, COLUMN, TRUE), op("or", FAILS, TRUE)),
        (op("or", COLUMN, op("or", FAILS, TRUE)), op("or", FAILS, TRUE)),
    ],
)
def test_what_stands_for_an_expression(expr: ir.Scalar, result: ir.Scalar | None) -> None:
    assert decided.folded(expr, {}) == (expr if result is None else result)


def test_what_is_nested_is_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    depth, calls = 200, 0
    fold = decided._folded

    def counted(expr: ir.BoolOp, known: decided.Decided) -> ir.Scalar:
        nonlocal calls
        calls += 1
        return fold(expr, known)

    monkeypatch.setattr(decided, "_folded", counted)
    levels: list[ir.Scalar] = [COLUMN]
    for _ in range(depth):
        levels.append(op("and", TRUE, levels[-1]))
    known: decided.Decided = {}
    for level in reversed(levels):
        assert decided.folded(level, known) is level
    assert calls == depth
