"""Keys that a statement notes row by row, for checks at its end: in memory while they fit into the budget, and beyond
in temporary files, in pieces of about that size, which are then checked one after the other.

They are noted in a plain list, for statements of one row cost no more than it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from adapter.spilling.temporary_files import TemporaryFiles
from storage.off_loop import AT_ONCE_ROWS

Keys: TypeAlias = tuple[pa.Array, ...]
"""Values of some columns, row by row: one array for each column."""

CHECK_BYTES = 16
"""What a key takes besides itself while it is checked: its hash and its number."""


class KeptKeys(tuple[pa.Array, ...]):
    """Keys that are in a file."""

    __slots__ = ()


async def spill(noted: list[Keys], files: TemporaryFiles) -> None:
    """Put those of `noted` that are in memory into a file if they are beyond the budget. Raises 53400."""
    kept = sum([isinstance(keys, KeptKeys) for keys in noted])
    held = noted[kept:]
    rows = sum([len(keys[0]) for keys in held])
    if rows <= AT_ONCE_ROWS:
        return
    if sum([column.nbytes for keys in held for column in keys]) + CHECK_BYTES * rows > files.memory_bytes:
        noted[kept:] = [KeptKeys(await asyncio.to_thread(lambda: files.keep(joined(held))))]


def taken(noted: list[Keys]) -> list[Keys]:
    """All of them, in the order in which they were noted; there are none then. One piece if they are within the
    budget."""
    pieces = noted.copy()
    noted.clear()
    if len(pieces) > 1:
        kept = sum([isinstance(keys, KeptKeys) for keys in pieces])
        if kept < len(pieces):
            pieces[kept:] = [joined(pieces[kept:])]
    return pieces


def joined(pieces: Sequence[Keys]) -> Keys:
    """One after the other."""
    if len(pieces) == 1:
        return pieces[0]
    return tuple(pa.concat_arrays([_whole(piece[n]) for piece in pieces]) for n in range(len(pieces[0])))


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
