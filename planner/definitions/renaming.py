"""Stored expressions of a table when one of its columns gets another name."""

from __future__ import annotations

from planner.definitions.deparse import expression_text
from planner.queries.stored_expressions import parse_expression
from planner.syntax.libpg_query import pb
from planner.syntax.parse import subtrees


def with_column_renamed(text: str, old: str, new: str) -> str:
    """The expression `text` over the columns of one table, of which `old` is called `new`."""
    _, parsed = parse_expression(text)
    node = pb.Node()
    node.CopyFrom(parsed)
    changed = False
    for tree in subtrees(node):
        if tree.DESCRIPTOR.name == "ColumnRef":
            last = tree.fields[len(tree.fields) - 1]
            if last.HasField("string") and last.string.sval == old:
                last.string.sval = new
                changed = True
    return expression_text(node) if changed else text
