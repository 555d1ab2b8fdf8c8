"""Parse trees back to SQL text: stored expressions (defaults, checks) and view definitions."""

from __future__ import annotations

import postgast
from postgast import pg_query_pb2 as pb

from planner.parse import Tree


def expression_text(node: Tree) -> str:
    """The SQL text of an expression `Node`."""
    result = pb.ParseResult()
    target = result.stmts.add().stmt.select_stmt.target_list.add().res_target
    target.val.CopyFrom(node)
    text: str = postgast.deparse(result)
    return text.removeprefix("SELECT ")


def query_text(node: Tree) -> str:
    """The SQL text of a statement `Node`."""
    result = pb.ParseResult()
    result.stmts.add().stmt.CopyFrom(node)
    text: str = postgast.deparse(result)
    return text
