"""Stored expressions and queries when what they name gets another name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planner.definitions.deparse import expression_text, query_text
from planner.queries.stored_expressions import parse_expression
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Parsed, split_and_parse, subtrees


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


def edited_query(definition: str, edit: Callable[[Parsed], None]) -> str:
    """The query passed through `edit`, which writes into its tree; the very text when that changes nothing."""
    (parsed,) = split_and_parse(definition)
    node = pb.Node()
    getattr(node, parsed.kind).CopyFrom(parsed.tree)
    copy = parsed.part(node)
    edit(copy)
    return definition if copy.tree == parsed.tree else query_text(node)


def each_reference(tree: Any, edit: Callable[[Any], None]) -> None:
    """Passes every reference to a relation (RangeVar) below `tree` through `edit`."""
    for reference in [each for each in subtrees(tree) if each.DESCRIPTOR.name == "RangeVar"]:
        edit(reference)
