"""Parse trees and constants back to SQL text: stored expressions (defaults, checks) and view definitions."""

from __future__ import annotations

from planner.ir.nodes import Literal
from planner.syntax.libpg_query import PgQueryError, deparse, parse, pb
from planner.syntax.parse import Tree, subtrees
from planner.types import types as t
from planner.types.type_names import format_type
from planner.values.text_values import format_text

_BARE = frozenset({t.BOOL, t.INT2, t.INT4, t.INT8, t.FLOAT4, t.FLOAT8, t.NUMERIC, t.OID})
"""Types whose constants need no quotes."""


def expression_text(node: Tree) -> str:
    """The SQL text of an expression `Node`."""
    result = pb.ParseResult()
    target = result.stmts.add().stmt.select_stmt.target_list.add().res_target
    target.val.CopyFrom(node)
    text: str = _printed(result)
    return text.removeprefix("SELECT ")


def query_text(node: Tree) -> str:
    """The SQL text of a statement `Node`."""
    result = pb.ParseResult()
    result.stmts.add().stmt.CopyFrom(node)
    text: str = _printed(result)
    return text


def literal_text(literal: Literal) -> str:
    """A constant, as PostgreSQL prints it."""
    if literal.value is None:
        return f"NULL::{format_type(literal.type.oid, literal.type.typmod)}"
    if literal.type.oid == t.BOOL:
        return "true" if literal.value else "false"
    text = format_text(literal.value, literal.type)
    if literal.type.oid in _BARE and text[0].isdigit():
        return text
    quoted = text.replace("'", "''")
    return f"'{quoted}'::{format_type(literal.type.oid, literal.type.typmod)}"


# ---------------------------------------------------------------- parentheses
#
# libpg_query leaves out some where it prints a parse tree, so that the text would be read as another tree or as none:
# `(NOT a) IS NULL` as `NOT a IS NULL`, `(GREATEST(a, b))[1]` as `GREATEST(a, b)[1]`. A tree has no node for
# parentheses; but an A_Indirection is printed with them around what it is of, also when that is an A_Indirection
# without any subscript or field, and reads back as nothing at all.

_OPERANDS = frozenset({"a_expr", "bool_expr", "null_test", "boolean_test", "collate_clause", "sub_link", "func_call"})
_OF_OPERATORS = frozenset(
    {"A_Expr", "BoolExpr", "NullTest", "BooleanTest", "CollateClause", "TypeCast", "SubLink", "FuncCall"}
)
_SUBSCRIPTED = _OPERANDS | {
    "a_const", "case_expr", "coalesce_expr", "grouping_func", "min_max_expr", "sqlvalue_function",
}  # fmt: skip
_PLACES = frozenset({"location", "list_start", "list_end", "rexpr_list_start", "rexpr_list_end", "stmt_len"})


def _printed(tree: pb.ParseResult) -> str:
    """The SQL text of a parse tree, which is read back as that tree. Raises PgQueryError for a tree that no statement
    has."""
    text = deparse(tree)
    if _reads_as(text, tree):
        return text
    copy = pb.ParseResult()
    copy.CopyFrom(tree)
    # From the leaves up: a node that gets parentheses is copied into them.
    for part in reversed(list(subtrees(copy))):
        _parenthesize(part)
    return deparse(copy)


def _reads_as(text: str, tree: pb.ParseResult) -> bool:
    try:
        read = parse(text)
    except PgQueryError:
        return False
    left, right = pb.ParseResult(), pb.ParseResult()
    left.CopyFrom(tree)
    right.CopyFrom(read)
    return _without_places(left) == _without_places(right)


def _without_places(tree: pb.ParseResult) -> list[bytes]:
    for part in list(subtrees(tree)):
        for descriptor, _ in part.ListFields():
            if descriptor.name in _PLACES:
                part.ClearField(descriptor.name)
    return [statement.stmt.SerializeToString(deterministic=True) for statement in tree.stmts]


def _parenthesize(part: Tree) -> None:
    kind = part.DESCRIPTOR.name
    if kind == "A_Indirection":
        _wrap(part.arg, _SUBSCRIPTED, 1)
        return
    if kind not in _OF_OPERATORS or (kind == "FuncCall" and part.funcformat != pb.COERCE_SQL_SYNTAX):
        return
    for descriptor, value in part.ListFields():
        if descriptor.message_type is None or descriptor.message_type.name != "Node":
            continue
        for node in list(value) if not hasattr(value, "ListFields") else [value]:
            members = list(node.list.items) if node.HasField("list") else [node]
            for member in members:
                _wrap(member, _OPERANDS, 2)


def _wrap(node: Tree, kinds: frozenset[str], levels: int) -> None:
    """Parentheses around a node of one of `kinds`. Operators and calls have them of one level already."""
    kind = node.WhichOneof("node")
    if kind not in kinds or (kind == "sub_link" and node.sub_link.sub_link_type == pb.EXPR_SUBLINK):
        return
    if kind == "func_call" and node.func_call.funcformat != pb.COERCE_SQL_SYNTAX:
        return
    for _ in range(1 if kind in ("a_expr", "func_call") else levels):
        inner = pb.Node()
        inner.CopyFrom(node)
        node.a_indirection.arg.CopyFrom(inner)
