"""Random definitions: tables, views, indexes, constraints, types, sequences, functions and comments are made, changed
and dropped in any order, and the catalogs are compared as they go.

What there is to draw from is in `definitions.txt`; the queries of the catalogs, which name objects and never say an
oid, are in `catalogs.sql`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from random import Random

from tests.generated.trials import Trial

CATALOGS = tuple(
    text.strip() for text in Path(__file__).with_name("catalogs.sql").read_text(encoding="utf-8").split(";\n\n")
)
CLEAN = (
    "rollback",
    "drop schema if exists made cascade",
    "drop schema if exists other cascade",
    "drop table if exists pg_temp.t4",
    "set search_path = generated",
)
BEGIN = ("create schema made", "create schema other", "set search_path = made")
_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
_LINE = re.compile(r"(?:(\d+)\* ?)?(.*)")


def _choices() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    name = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            name = line[1:-1]
            found[name] = []
        elif line and not line.startswith("#"):
            drawn = _LINE.fullmatch(line)
            assert drawn is not None
            found[name] += [drawn[2]] * int(drawn[1] or 1)
    return {name: tuple(lines) for name, lines in found.items()}


CHOICES = _choices()


class Definitions:
    """Trials of definitions over schemas of their own; the same for the same seed.

    `length` is how many definitions a trial has, `every` after how many of them the catalogs are compared."""

    def __init__(self, seed: int, *, length: int = 24, every: int = 4) -> None:
        self.random = Random(seed)
        self._length = length
        self._every = every

    def trial(self) -> Trial:
        """The next one. Some of its definitions stand in transactions, of which some are rolled back."""
        random = self.random
        statements: list[str] = []
        is_open = False
        for number in range(self._length):
            drawn = random.random()
            if drawn < 0.05 or (is_open and drawn < 0.2):
                statements.append(random.choice(["commit", "rollback"]) if is_open else "begin")
                is_open = not is_open
            else:
                statements.append(self._of("definition"))
            if number % self._every == self._every - 1:
                statements.extend(CATALOGS)
        if is_open:
            statements.extend(("commit", *CATALOGS))
        return Trial(BEGIN, tuple(statements), self._length, frozenset(CATALOGS), CLEAN)

    def _of(self, name: str) -> str:
        """One of the choices of a name, its places filled."""

        def filled(place: re.Match[str]) -> str:
            return self._of(place[1]) if place[1] else place[0][0]

        return _PLACE.sub(filled, self.random.choice(CHOICES[name]))
