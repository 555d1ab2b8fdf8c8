"""Stored expressions and queries when what they name gets another name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from planner.definitions.deparse import expression_text, query_text
from planner.queries.stored_expressions import parse_expression
from planner.syntax.libpg_query import pb
from planner.syntax.parse import split_and_parse, subtrees


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


def edited_query(definition: str, edit: Callable[[Any], None]) -> str:
    """The query with every reference to a relation passed through `edit`."""
    (parsed,) = split_and_parse(definition)
    node = pb.Node()
    tree = getattr(node, parsed.kind)
    tree.CopyFrom(parsed.tree)
    for reference in list(_references(tree)):
        edit(reference)
    return query_text(node)


def names_joined_using(definition: str) -> frozenset[str]:
    """The columns that joins in the query go by, as USING has them."""
    (parsed,) = split_and_parse(definition)
    joins = (tree for tree in subtrees(parsed.tree) if tree.DESCRIPTOR.name == "JoinExpr")
    return frozenset(node.string.sval for join in joins for node in join.using_clause)


def _references(message: Any) -> Iterator[Any]:
    """Every RangeVar below `message`."""
    if message.DESCRIPTOR.name == "RangeVar":
        yield message
        return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        for item in [value] if hasattr(value, "DESCRIPTOR") else value:
            yield from _references(item)
