"""Conditions that parts may have rows for (`storage.shards.parts.may_match`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from storage.shards.parts import ANY_OF


class Condition(Protocol):
    """``column op value`` on a physical column, as `part_may_match` takes them, or one with `ANY_OF`."""

    @property
    def column(self) -> str:
        """The physical column."""
        ...

    @property
    def op(self) -> str:
        """=, <>, <, <=, >, >=, in, is null, is not null, or `ANY_OF`."""
        ...

    @property
    def value(self) -> Any:
        """A Python value; a sequence of them for ``in``; conjunctions for `ANY_OF`."""
        ...


Needed: TypeAlias = Sequence[Sequence[Condition]]
"""Conjunctions, of which a row has to meet one. An empty one is met by every row."""


def columns_of(needed: Needed) -> frozenset[str]:
    """The physical columns that `needed` is about."""
    found: set[str] = set()
    for conjunction in needed:
        for condition in conjunction:
            if condition.op == ANY_OF:
                found |= columns_of(condition.value)
            else:
                found.add(condition.column)
    return frozenset(found)
