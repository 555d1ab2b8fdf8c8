"""AND and OR that a constant decides, as PostgreSQL folds them while it plans (clauses.c, eval_const_expressions), and
which expressions raise no error."""

from __future__ import annotations

from msgspec.structs import replace

from planner.ir import nodes as ir
from planner.ir.rewrite import walk
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


def folded(expr: ir.Scalar) -> ir.Scalar:
    """`expr`, or what stands for it where it is an AND or OR that a constant among its operands decides: nothing behind
    that constant is evaluated, and before it only what is constant too, since it may raise an error."""
    if not isinstance(expr, ir.BoolOp) or expr.op == "not":
        return expr
    decisive = expr.op == "or"
    for index, operand in enumerate(expr.args):
        found = folded(operand)
        if _is_settled(found, expr.op, decisive):
            before = tuple([arg for arg in expr.args[:index] if _is_constant(arg) and can_raise(arg)])
            return replace(expr, args=(*before, found)) if before else found
    return expr


def _is_settled(expr: ir.Scalar, op: str, decisive: bool) -> bool:
    """Whether a folded operand of `op` is the constant that decides, perhaps behind others that may raise an error."""
    if isinstance(expr, ir.BoolOp) and expr.op == op:
        return _is_settled(expr.args[-1], op, decisive) and all(map(_is_constant, expr.args[:-1]))
    return isinstance(expr, ir.Literal) and expr.value is decisive


def _is_constant(expr: ir.Scalar) -> bool:
    """Whether an expression is made of constants and functions of them alone."""
    return all(isinstance(part, (ir.Literal, ir.Call, ir.Cast, ir.BoolOp, ir.IsNull)) for part in walk(expr))
