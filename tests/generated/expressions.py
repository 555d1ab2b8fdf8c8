"""Random typed expressions over the columns in scope."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from msgspec import Struct

from tests.generated.vocabulary import AGGREGATES, CONSTANTS, PLACE, TEMPLATES

TYPES = tuple(CONSTANTS)
ORDINARY = ("int", "int", "int", "text", "text", "numeric", "bool", "date", "timestamp", "bigint", "float")
"""Types that queries have most."""


class Item(Struct, frozen=True):
    """Something in scope: how it is written, and its type in the vocabulary."""

    text: str
    kind: str


class Expressions:
    """Makes expressions; the same for the same state of the random source."""

    def __init__(self, random: Random, scope: Sequence[Item]) -> None:
        self._random = random
        self.scope = scope

    def any_kind(self) -> str:
        """A type: usually one of those that the scope has."""
        random = self._random
        if self.scope and random.random() < 0.5:
            return random.choice(self.scope).kind
        return random.choice(ORDINARY if random.random() < 0.6 else TYPES)

    def of(self, kind: str, depth: int) -> str:
        """An expression of type `kind`, of at most `depth` templates in each other."""
        random = self._random
        if depth <= 0 or random.random() < 0.15:
            return self.leaf(kind)
        return f"({self.filled(random.choice(TEMPLATES[kind]), depth - 1)})"

    def leaf(self, kind: str) -> str:
        """A column of that type, where there is one, or a constant."""
        columns = [item.text for item in self.scope if item.kind == kind]
        if columns and self._random.random() < 0.75:
            return self._random.choice(columns)
        return self._random.choice(CONSTANTS[kind])

    def aggregate(self, kind: str, depth: int) -> str:
        """An aggregate of type `kind`."""
        return self.filled(self._random.choice(AGGREGATES[kind]), depth)

    def filled(self, template: str, depth: int) -> str:
        """The template with an expression in each place."""
        last = ""

        def expression(place: re.Match[str]) -> str:
            nonlocal last
            if place[1] is None:
                return place[0][0]
            if place[1] != "same":
                last = self.of(place[1], depth)
            return last

        return PLACE.sub(expression, template)
