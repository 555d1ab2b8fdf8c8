"""Makes a failing statement small: parts of its parse tree are left out or replaced by parts of themselves, as long as
the statement still fails in the same way (delta debugging over libpg_query's tree)."""

from __future__ import annotations

import faulthandler
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

from planner.syntax.libpg_query import PgQueryError, deparse, parse

_KEPT = frozenset({"agg_order", "order_clause"})

_PLACES = frozenset({"res_target", "column_def", "constraint", "def_elem", "function_parameter", "range_var"})
"""Nodes that nothing else can stand in for: what is printed would be another structure's bytes."""

Tree = Any
"""A protobuf message of libpg_query."""


def reduce(text: str, fails: Callable[[str], bool], most: int = 2000) -> str:
    """A shorter statement for which `fails` still holds, after at most `most` attempts. The text itself where nothing
    is shorter."""
    best = text
    attempts = 0
    shrunk = True
    while shrunk:
        shrunk = False
        for candidate in _candidates(best):
            attempts += 1
            if attempts > most:
                return best
            if len(candidate) < len(best) and fails(candidate):
                best, shrunk = candidate, True
                break
    return best


def _candidates(text: str) -> Iterator[str]:
    """Statements with one change each, the boldest first. None where the text is no statement."""
    try:
        parse(text)
    except PgQueryError:
        return
    count = sum(1 for _ in _changes(parse(text).stmts[0].stmt))
    for number in range(count):
        if (changed := _changed(text, number)) is not None:
            yield changed


def _changed(text: str, number: int) -> str | None:
    """The text after one change. It is written by a child process: libpg_query ends one that gives it a tree which
    makes no sense."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            faulthandler.disable()
            tree = parse(text)
            next(itertools.islice(_changes(tree.stmts[0].stmt), number, None))()
            os.write(writing, deparse(tree).encode()[:65000])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        changed = pipe.read().decode()
    os.waitpid(child, 0)
    return changed or None


def _changes(message: Tree) -> Iterator[Callable[[], None]]:
    """Each way to change the tree once, from the root downwards."""
    for field, value in message.ListFields():
        name = field.name
        if field.message_type is None:
            continue
        if isinstance(value, type(message)) or hasattr(value, "ListFields"):
            if name in (
                "where_clause",
                "having_clause",
                "with_clause",
                "agg_filter",
                "limit_count",
                "limit_offset",
                "over",
            ):
                yield lambda name=name: message.ClearField(name)  # type: ignore[misc]
            for inner in _replacements(value):
                yield lambda value=value, inner=inner: value.CopyFrom(inner)  # type: ignore[misc]
            yield from _changes(value)
        else:
            elements = list(value)
            # Without its order an aggregate's value would be another on each server.
            for index in range(0 if name in _KEPT else len(elements)):
                yield lambda name=name, index=index: _delete(message, name, index)  # type: ignore[misc]
            for element in elements:
                for inner in _replacements(element):
                    yield lambda element=element, inner=inner: element.CopyFrom(inner)  # type: ignore[misc]
                yield from _changes(element)


def _delete(message: Tree, name: str, index: int) -> None:
    del getattr(message, name)[index]


def _replacements(node: Tree) -> list[Tree]:
    """Copies of the nodes right below a node, which may stand in its place."""
    if node.DESCRIPTOR.name != "Node" or node.WhichOneof("node") in _PLACES:
        return []
    found: list[Tree] = []

    def gather(message: Tree, depth: int) -> None:
        for field, value in message.ListFields():
            if field.message_type is None:
                continue
            for part in [value] if hasattr(value, "ListFields") else list(value):
                if part.DESCRIPTOR.name == "Node":
                    copy = type(part)()
                    copy.CopyFrom(part)
                    found.append(copy)
                elif depth < 2:
                    gather(part, depth + 1)

    gather(node, 0)
    return found
