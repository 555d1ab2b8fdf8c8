"""AND and OR that a constant decides, as PostgreSQL folds them while it plans (clauses.c, eval_const_expressions), and
which expressions raise no error."""

from __future__ import annotations

from typing import TypeAlias

from msgspec.structs import replace

from planner.ir import nodes as ir
from planner.ir.rewrite import is_volatile, walk
from planner.types.signature import COMPARISONS

_HARMLESS = (
    ir.Literal, ir.Param, ir.ColumnRef, ir.LetValue, ir.SessionValue, ir.BoolOp, ir.IsNull, ir.BooleanTest,
    ir.Distinct, ir.InList, ir.Case, ir.Coalesce, ir.MinMax, ir.Collate, ir.RowConstructor,
)  # fmt: skip
"""What raises no error where its parts raise none."""


def can_raise(expr: ir.Scalar) -> bool:
    """Whether evaluating an expression might raise an error: it calls more than comparisons."""
    for part in walk(expr):
        compares = isinstance(part, ir.Call) and part.signature.name in COMPARISONS
        if not compares and not isinstance(part, _HARMLESS):
            return True
    return False


Decided: TypeAlias = dict[int, tuple[ir.Scalar, ir.Scalar]]
"""By the identity of an expression: itself, which keeps that from being used again, and what stands for it. Lowering
asks at each level of what is nested, and each is worked out once."""


def folded(expr: ir.Scalar, known: Decided) -> ir.Scalar:
    """`expr`, or what stands for it where it is an AND or OR that a constant among its operands decides: nothing behind
    that constant is evaluated, and before it only what is constant too, since it may raise an error."""
    if not isinstance(expr, ir.BoolOp) or expr.op == "not":
        return expr
    before = known.get(id(expr))
    if before is None:
        result = _folded(expr, known)
        before = known[id(expr)] = (expr, result)
        known[id(result)] = (result, result)
    return before[1]


def _folded(expr: ir.BoolOp, known: Decided) -> ir.Scalar:
    decisive = expr.op == "or"
    for index, operand in enumerate(expr.args):
        found = folded(operand, known)
        rest = found.args if isinstance(found, ir.BoolOp) and found.op == expr.op else (found,)
        # Of an AND or OR that has been folded the last operand is the constant that decides, if one does.
        if isinstance(rest[-1], ir.Literal) and rest[-1].value is decisive:
            before = tuple([arg for arg in expr.args[:index] if is_constant(arg) and can_raise(arg)])
            return replace(expr, args=(*before, *rest)) if before or len(rest) > 1 else rest[-1]
    return expr


def is_constant(expr: ir.Scalar) -> bool:
    """Whether an expression is made of constants and functions of them alone, which give the same each time."""
    return not is_volatile(expr) and all(
        isinstance(part, (ir.Literal, ir.Call, ir.Cast, ir.BoolOp, ir.IsNull)) for part in walk(expr)
    )
