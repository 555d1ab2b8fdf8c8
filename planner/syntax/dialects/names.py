"""What both ways of translating share: the name of PostgreSQL's own dialect, the limit, and how sqlglot is loaded."""

from __future__ import annotations

import logging
from functools import cache
from types import ModuleType

POSTGRES = "postgres"

MAX_CHARS = 256 * 1024
"""Longer texts are refused: sqlglot takes about ten seconds for a million characters, and cannot be interrupted."""

CALLED_ALIKE = "tidegate.called_alike"
"""In a MERGE the column that stands for all of the target, each with the value of the source's of its name."""


def words(text: str) -> frozenset[str]:
    """The words of `text`."""
    return frozenset(text.split())


@cache
def sqlglot_module() -> ModuleType:
    """sqlglot, loaded by the first call: start-up and statements of PostgreSQL do without it."""
    import sqlglot

    # What it would warn of is refused here.
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL + 1)
    return sqlglot
