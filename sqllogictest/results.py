"""Results as lines to compare: formatting, sorting, hashing.

Two formats. Row-wise (sqllogictest-rs): a line per row, values verbatim, a blank between. Value-wise (the original):
a line per value, integers as %d, reals as %.3f, text with unprintable characters as @. In both NULL is ``NULL`` and the
empty string ``(empty)``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from sqllogictest.records import SortMode

NULL = "NULL"
EMPTY = "(empty)"


def _original(value: str, kind: str) -> str:
    """A value as the original's runner prints it for a column type."""
    if kind == "I":
        try:
            return str(int(value))
        except ValueError:
            pass
        try:
            return str(int(float(value)))
        except (ValueError, OverflowError):
            return {"t": "1", "f": "0"}.get(value, value)
    if kind == "R":
        try:
            return f"{float(value):.3f}"
        except ValueError:
            return value
    return "".join(character if " " <= character <= "~" else "@" for character in value)


def format_rows(rows: Sequence[Sequence[str | None]], types: str, *, original: bool) -> list[list[str]]:
    """Every value as text for comparison."""
    formatted: list[list[str]] = []
    for row in rows:
        values: list[str] = []
        for index, value in enumerate(row):
            if value is None:
                values.append(NULL)
            elif value == "":
                values.append(EMPTY)
            else:
                kind = types[index] if index < len(types) else "T"
                values.append(_original(value, kind) if original else value)
        formatted.append(values)
    return formatted


def sort_rows(rows: list[list[str]], mode: SortMode) -> list[list[str]]:
    """The rows in the order of the sort mode (bytewise); valuesort makes rows of one value."""
    if mode is SortMode.ROWS:
        return sorted(rows, key=lambda row: [value.encode() for value in row])
    if mode is SortMode.VALUES:
        return [[value] for value in sorted((value for row in rows for value in row), key=str.encode)]
    return rows


def result_hash(rows: Sequence[Sequence[str]]) -> str:
    """MD5 over every value followed by a line end, as the original computes it."""
    digest = hashlib.md5(usedforsecurity=False)
    for row in rows:
        for value in row:
            digest.update(value.encode() + b"\n")
    return digest.hexdigest()


def hash_line(rows: Sequence[Sequence[str]]) -> str:
    """The line that stands for a long result."""
    count = sum(len(row) for row in rows)
    return f"{count} values hashing to {result_hash(rows)}"


def result_lines(rows: Sequence[Sequence[str]], *, valuewise: bool) -> list[str]:
    """The lines as they stand in a file."""
    if valuewise:
        return [value for row in rows for value in row]
    return [" ".join(row).rstrip() for row in rows]
