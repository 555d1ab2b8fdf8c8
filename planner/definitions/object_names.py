"""Names that PostgreSQL makes up: of constraints without a name, of sequences behind columns (makeObjectName)."""

from __future__ import annotations

from collections.abc import Callable

MAX_NAME_BYTES = 63
"""NAMEDATALEN less its terminator."""


def object_name(table: str, column: str | None, label: str) -> str:
    """``table_column_label`` in at most 63 bytes: the longer one of table and column is cut first."""
    overhead = len(label.encode()) + 1 + (0 if column is None else 1)
    available = MAX_NAME_BYTES - overhead
    first, second = len(table.encode()), 0 if column is None else len(column.encode())
    while first + second > available:
        if first > second:
            first -= 1
        else:
            second -= 1
    parts = [_clipped(table, first)]
    if column is not None:
        parts.append(_clipped(column, second))
    return "_".join([*parts, label])


def _clipped(name: str, size: int) -> str:
    """The characters of `name` that fit into `size` bytes."""
    return name.encode()[:size].decode(errors="ignore")


def free_name(table: str, column: str | None, label: str, is_taken: Callable[[str], bool]) -> str:
    """`object_name` with the smallest number behind its label that makes it free, without one if it is."""
    name, number = object_name(table, column, label), 0
    while is_taken(name):
        number += 1
        name = object_name(table, column, f"{label}{number}")
    return name
