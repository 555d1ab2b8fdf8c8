"""Subqueries in FROM without an alias, which PostgreSQL's grammar refuses."""

from __future__ import annotations

from typing import Any

from planner.errors import SqlSyntaxError
from planner.syntax.libpg_query import pb, scan
from planner.syntax.parse import Parsed, Tree, subtrees


def unnamed(parsed: Parsed, tree: Tree) -> SqlSyntaxError:
    """The error about `tree`, a subquery without an alias, or about the first one inside it."""
    inside = first_unnamed(parsed, tree.subquery)
    if inside is not None:
        return inside
    select = tree.subquery.select_stmt
    what, example = ("VALUES", "VALUES") if select.values_lists else ("subquery", "SELECT")
    return SqlSyntaxError(
        f"{what} in FROM must have an alias",
        hint=f"For example, FROM ({example} ...) [AS] foo.",
        position=parsed.position(_parenthesis_before(parsed.text, select)),
    )


def first_unnamed(parsed: Parsed, tree: Tree) -> SqlSyntaxError | None:
    """The error about the first subquery without an alias in `tree`, None where there is none. It comes before those of
    analysis."""
    found = [each for each in subtrees(tree) if each.DESCRIPTOR.name == "RangeSubselect" and not each.HasField("alias")]
    if not found:
        return None
    return unnamed(parsed, min(found, key=lambda each: _parenthesis_before(parsed.text, each.subquery.select_stmt)))


def _parenthesis_before(text: str, select: Tree) -> int:
    """Where the parenthesis around a subquery stands: the tree does not say, so the tokens before its first located
    part are read backwards."""
    first = _first_location(select)
    if first < 0:
        return -1
    tokens = scan(text).tokens
    depth = 0
    for index in range(sum(token.start < first for token in tokens) - 1, -1, -1):
        kind = tokens[index].token
        if kind == pb.ASCII_41:
            depth += 1
        elif kind == pb.ASCII_40 and depth:
            depth -= 1
        elif kind == pb.ASCII_40:
            if tokens[index + 1].token not in (pb.SELECT, pb.VALUES, pb.WITH, pb.TABLE):
                continue
            # The first side of a set operation has parentheses of its own.
            while select.op != pb.SETOP_NONE and index and tokens[index - 1].token == pb.ASCII_40:
                index -= 1
            return int(tokens[index].start)
    return -1


def _first_location(tree: Any) -> int:
    """The smallest location in a parse tree, -1 when it has none."""
    found = (
        value
        for part in subtrees(tree)
        for descriptor, value in part.ListFields()
        if descriptor.name == "location" and value >= 0
    )
    return min(found, default=-1)
