"""Parse trees and constants back to SQL text: stored expressions (defaults, checks) and view definitions."""

from __future__ import annotations

from planner.ir.nodes import Literal
from planner.syntax.libpg_query import deparse, pb
from planner.syntax.parse import Tree
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
    text: str = deparse(result)
    return text.removeprefix("SELECT ")


def query_text(node: Tree) -> str:
    """The SQL text of a statement `Node`."""
    result = pb.ParseResult()
    result.stmts.add().stmt.CopyFrom(node)
    text: str = deparse(result)
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
