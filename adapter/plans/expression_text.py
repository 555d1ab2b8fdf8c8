"""Scalars of the IR as text for people, close to what PostgreSQL's EXPLAIN prints."""

from __future__ import annotations

from collections.abc import Mapping

from planner.definitions.deparse import literal_text
from planner.ir import nodes as ir
from planner.types.signature import Kind
from planner.types.type_names import format_type


def scalar_text(expr: ir.Scalar, names: Mapping[int, str]) -> str:
    """`expr` with columns called as `names` has them by id."""

    def show(inner: ir.Scalar) -> str:
        return scalar_text(inner, names)

    def listed(items: tuple[ir.Scalar, ...]) -> str:
        return ", ".join(show(item) for item in items)

    match expr:
        case ir.Literal():
            return literal_text(expr)
        case ir.Param():
            return f"${expr.index}"
        case ir.ColumnRef():
            return names.get(expr.id, f"c{expr.id}")
        case ir.SessionValue():
            return expr.name if not expr.args else f"{expr.name}({listed(expr.args)})"
        case ir.Call(args=(left, right)) if expr.signature.kind is Kind.OPERATOR:
            return f"({show(left)} {expr.signature.name} {show(right)})"
        case ir.Call(args=(operand,)) if expr.signature.kind is Kind.OPERATOR:
            return f"({expr.signature.name} {show(operand)})"
        case ir.Call():
            return f"{expr.signature.name}({listed(expr.args)})"
        case ir.Cast():
            return f"({show(expr.arg)})::{format_type(expr.type.oid, expr.type.typmod)}"
        case ir.BoolOp(op="not", args=(operand,)):
            return f"(NOT {show(operand)})"
        case ir.BoolOp():
            return "(" + f" {expr.op.upper()} ".join(show(arg) for arg in expr.args) + ")"
        case ir.IsNull():
            return f"({show(expr.arg)} IS {'NOT ' if expr.negated else ''}NULL)"
        case ir.BooleanTest():
            return f"({show(expr.arg)} IS {'NOT ' if expr.negated else ''}{expr.test.upper()})"
        case ir.Distinct():
            return f"({show(expr.left)} IS {'NOT ' if expr.negated else ''}DISTINCT FROM {show(expr.right)})"
        case ir.Case():
            whens = " ".join(f"WHEN {show(when)} THEN {show(then)}" for when, then in expr.whens)
            otherwise = "" if expr.otherwise is None else f" ELSE {show(expr.otherwise)}"
            return f"CASE {whens}{otherwise} END"
        case ir.Coalesce():
            return f"COALESCE({listed(expr.args)})"
        case ir.MinMax():
            return f"{expr.op.upper()}({listed(expr.args)})"
        case ir.InList():
            return f"({show(expr.arg)} {'NOT ' if expr.negated else ''}IN ({listed(expr.items)}))"
        case ir.QuantifiedArray():
            operator = expr.operator.name
            return f"({show(expr.arg)} {operator} {expr.quantifier.upper()} ({show(expr.array)}))"
        case ir.ArrayConstructor():
            return f"ARRAY[{listed(expr.items)}]"
        case ir.Subscript():
            inside = show(expr.index) if expr.index is not None else ""
            if expr.slice:
                inside = f"{inside}:{show(expr.upper) if expr.upper is not None else ''}"
            return f"({show(expr.arg)})[{inside}]"
        case ir.RowConstructor():
            return f"ROW({listed(expr.items)})"
        case ir.FieldSelect():
            return f"({show(expr.arg)}).{expr.name}"
        case ir.ScalarSubquery():
            return "(SubPlan)"
        case ir.Exists():
            return f"{'NOT ' if expr.negated else ''}EXISTS(SubPlan)"
        case ir.QuantifiedSubquery():
            compared = show(expr.args[0]) if len(expr.args) == 1 else f"ROW({listed(expr.args)})"
            return f"({compared} {expr.operators[0].name} {expr.quantifier.upper()} (SubPlan))"
        case ir.ArraySubquery():
            return "ARRAY(SubPlan)"
        case ir.Collate():
            return f'({show(expr.arg)} COLLATE "{expr.collation}")'
