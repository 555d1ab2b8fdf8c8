"""A query's rows on a server, and whether two servers' rows are the same.

ORDER BY with LIMIT leaves open which of the rows that tie are first. So where the rows of two servers differ, both
are asked again with all columns behind the keys of the outermost ORDER BY: that leaves nothing open.
"""

from __future__ import annotations

import re
import time
from decimal import Decimal
from typing import Any

import psycopg
from msgspec import Struct

Row = tuple[Any, ...]
_WORDS = re.compile(r"\(|\)|'[^']*'|\bORDER BY\b", re.IGNORECASE)
_LIMIT = re.compile(r"\s+LIMIT\s+\d+$", re.IGNORECASE)

DATA = "22"
"""The class of SQLSTATEs of what a query's data lead to (a quotient by zero)."""

FLOAT_TOLERANCE = 1e-9
"""Sums of double precision depend on the order of their rows, in PostgreSQL too."""


class Answer(Struct, frozen=True, kw_only=True):
    """What a server made of a query. `types` are names and type OIDs of columns; `error` is empty where it has rows."""

    seconds: float
    types: list[tuple[str, int]] = []
    rows: list[Row] = []
    error: str = ""
    sqlstate: str = ""


def ask(connection: psycopg.Connection, text: str) -> Answer:
    """Runs `text`. Raises nothing that the server reports."""
    began = time.perf_counter()
    try:
        cursor = connection.execute(text.encode())
        rows = cursor.fetchall()
    except psycopg.Error as error:
        message = f"{error.sqlstate}: {str(error).partition(chr(10))[0]}"
        return Answer(seconds=time.perf_counter() - began, error=message, sqlstate=error.sqlstate or "")
    types = [(column.name, column.type_code) for column in cursor.description or ()]
    return Answer(seconds=time.perf_counter() - began, types=types, rows=rows)


def with_total_order(text: str, columns: int) -> str:
    """`text` with all its columns behind the keys of its outermost ORDER BY."""
    depth, ordered = 0, False
    for word in _WORDS.findall(text):
        depth += {"(": 1, ")": -1}.get(word, 0)
        ordered |= depth == 0 and word.upper() == "ORDER BY"
    limit = _LIMIT.search(text)
    head, tail = (text[: limit.start()], limit[0]) if limit else (text, "")
    return head + (", " if ordered else "\nORDER BY ") + ", ".join(map(str, range(1, columns + 1))) + tail


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or abs(one - other) <= FLOAT_TOLERANCE * max(abs(one), abs(other)) or one != one != other
    return type(one) is type(other) and (one == other or (isinstance(one, Decimal) and one != one and other != other))


def _differing(ours: list[Row], theirs: list[Row]) -> str:
    if len(ours) != len(theirs):
        return f"{len(ours)} rows where there are {len(theirs)}"
    for index, (left, right) in enumerate(zip(ours, theirs, strict=True)):
        for column, (mine, other) in enumerate(zip(left, right, strict=True)):
            if not _equal(mine, other):
                return f"row {index + 1}, column {column + 1}: {mine!r} instead of {other!r}"
    return ""


def difference(text: str, ours: tuple[psycopg.Connection, Answer], theirs: tuple[psycopg.Connection, Answer]) -> str:
    """What is wrong with our answer to `text`, as a sentence; empty where nothing is. An error is an answer where
    it is one of the data; to be out of time or room is none, whoever else is.

    Names and types of the columns have to be the same, and the rows in their order; numbers must be equal (trailing
    zeros of a numeric do not count), those of double precision but for their last digits.
    """
    (us, mine), (them, other) = ours, theirs
    if mine.error or other.error:
        alike = mine.sqlstate == other.sqlstate and mine.sqlstate.startswith(DATA)
        return "" if alike else mine.error or f"rows instead of {other.error}"
    if mine.types != other.types:
        return f"columns {mine.types} instead of {other.types}"
    if not _differing(mine.rows, other.rows):
        return ""
    again = with_total_order(text, len(mine.types))
    mine, other = ask(us, again), ask(them, again)
    return mine.error or other.error or _differing(mine.rows, other.rows)
