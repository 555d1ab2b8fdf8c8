"""Operators of extensions in the queries that the catalog keeps: called by the type that they are over
(`planner.types.user_types.kept_schema`), so that they mean the same whatever the search path is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree, subtrees
from planner.types.user_types import STORED_SCHEMA, kept_schema

_WITHOUT_NAME = {pb.AEXPR_LIKE, pb.AEXPR_ILIKE, pb.AEXPR_SIMILAR}
"""What is written with a word in place of the operator's name."""
_BOUNDS: dict[int, tuple[str, str]] = {pb.AEXPR_BETWEEN: (">=", "<="), pb.AEXPR_NOT_BETWEEN: ("<", ">")}


def keep_operators(tree: Tree, operators: Sequence[tuple[Tree, int]]) -> None:
    """Writes the operators of extensions in `tree` with names that the catalog keeps: of each expression (A_Expr, or
    SubLink) the oid of the type's record."""
    for expr, oid in operators:
        link = expr.DESCRIPTOR.name == "SubLink"
        _rename(expr.oper_name if link else expr.name, oid)
        if not link and expr.kind in _WITHOUT_NAME:
            expr.kind = pb.AEXPR_OP
        elif not link and expr.kind == pb.AEXPR_IN:
            _write_out_list(expr, oid)
    if not any(expr.DESCRIPTOR.name == "A_Expr" and expr.kind in _BOUNDS for expr, _ in operators):
        return
    for node in list(subtrees(tree)):
        if node.DESCRIPTOR.name == "Node" and node.HasField("a_expr"):
            names = strings(node.a_expr.name)
            if node.a_expr.kind in _BOUNDS and len(names) > 1:
                node.CopyFrom(_both_bounds(node.a_expr, names[0]))


def _rename(names: Any, oid: int) -> None:
    symbol = names[-1].string.sval if names else "="
    del names[:]
    for part in (kept_schema(oid), symbol):
        names.add().string.sval = part


def _write_out_list(expr: Tree, oid: int) -> None:
    """IN as = ANY, NOT IN as <> ALL, of an array of the type."""
    expr.kind = pb.AEXPR_OP_ALL if expr.name[-1].string.sval == "<>" else pb.AEXPR_OP_ANY
    array = pb.Node()
    array.type_cast.arg.a_array_expr.elements.extend(expr.rexpr.list.items)
    for part in (STORED_SCHEMA, str(oid)):
        array.type_cast.type_name.names.add().string.sval = part
    array.type_cast.type_name.array_bounds.add().integer.ival = -1
    array.type_cast.type_name.typemod = -1
    expr.rexpr.CopyFrom(array)


def _both_bounds(expr: Tree, schema: str) -> Tree:
    """BETWEEN as the comparisons that it consists of."""
    node = pb.Node()
    node.bool_expr.boolop = pb.AND_EXPR if expr.kind == pb.AEXPR_BETWEEN else pb.OR_EXPR
    for symbol, bound in zip(_BOUNDS[expr.kind], expr.rexpr.list.items, strict=True):
        part = node.bool_expr.args.add().a_expr
        part.kind = pb.AEXPR_OP
        part.lexpr.CopyFrom(expr.lexpr)
        part.rexpr.CopyFrom(bound)
        for name in (schema, symbol):
            part.name.add().string.sval = name
    return node
