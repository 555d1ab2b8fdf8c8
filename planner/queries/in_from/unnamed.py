"""Subqueries in FROM without an alias, which PostgreSQL's grammar refuses."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from planner.errors import SqlSyntaxError
from planner.syntax.libpg_query import pb, scan
from planner.syntax.parse import Parsed, Tree


def unnamed(parsed: Parsed, tree: Tree) -> SqlSyntaxError:
    """The error about `tree`, a subquery without an alias, or about the first one inside it."""
    return first_unnamed(parsed, tree) or _error(tree.subquery.select_stmt, parsed.position(-1))


def first_unnamed(parsed: Parsed, tree: Tree) -> SqlSyntaxError | None:
    """The error about the first subquery without an alias in `tree`, None where there is none. It comes before those of
    analysis. The first is the one that ends first."""
    parts = _walked(tree)
    found = [each for each in parts if each.is_unnamed]
    if not found:
        return None
    tokens = scan(parsed.text).tokens
    starts = [token.start for token in tokens]
    for each in found:
        each.opening = _parenthesis_before(tokens, starts, each.node.subquery.select_stmt, each.location)
    found.sort(key=lambda each: each.opening)
    first = found[0]
    for each in found[1:]:
        if not first.number < each.number <= first.last:
            break
        first = each
    return _error(first.node.subquery.select_stmt, parsed.position(first.opening))


class _Part(Struct):
    """A message of a tree, with where it is: `number` in the order of the walk, `last` of those inside it, `location`
    the first one in it (-1: none)."""

    node: Tree
    number: int
    parent: int
    is_unnamed: bool
    last: int
    location: int = -1
    opening: int = -1


def _walked(tree: Tree) -> list[_Part]:
    """The messages of a tree, each before those inside it."""
    parts: list[_Part] = []
    stack = [(tree, -1)]
    while stack:
        node, parent = stack.pop()
        number = len(parts)
        unnamed_here = node.DESCRIPTOR.name == "RangeSubselect" and not node.HasField("alias")
        part = _Part(node=node, number=number, parent=parent, is_unnamed=unnamed_here, last=number)
        parts.append(part)
        for descriptor, value in node.ListFields():
            if descriptor.message_type is not None:
                stack.extend((each, number) for each in (value if descriptor.is_repeated else (value,)))
            elif descriptor.name == "location" and value >= 0:
                part.location = value
    for part in reversed(parts):
        if part.parent >= 0:
            above = parts[part.parent]
            above.last = max(above.last, part.last)
            if part.location >= 0 and (above.location < 0 or part.location < above.location):
                above.location = part.location
    return parts


def _error(select: Tree, position: int | None) -> SqlSyntaxError:
    what, example = ("VALUES", "VALUES") if select.values_lists else ("subquery", "SELECT")
    return SqlSyntaxError(
        f"{what} in FROM must have an alias", hint=f"For example, FROM ({example} ...) [AS] foo.", position=position
    )


def _parenthesis_before(tokens: Sequence[Any], starts: Sequence[int], select: Tree, first: int) -> int:
    """Where the parenthesis around a subquery stands: the tree does not say, so the tokens before its `first` located
    part are read backwards."""
    if first < 0:
        return -1
    depth = 0
    for index in range(bisect_left(starts, first) - 1, -1, -1):
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
