"""Where the fields of the rows of binary COPY data are, for many rows at once.

A row is the number of its fields (16 bits) and for each field its length (32 bits, -1 for NULL) and its bytes. Where a
row begins is known when the one before it has been read; so that not every field has to be looked at one after the
other, all places that may be the beginning of a row are followed at the same time, and those that a row from the first
one on leads to are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from frontend.decoding.binary_columns import Bytes, Ints, numbers_at

MOST_BYTES = 8 << 20
"""Longer data has few rows, whose values are long."""

_MOST_FALSE = 8
"""Places that look like rows are followed as long as there are at most so many for each row that has room: what is
kept of them takes no more than 32 times the memory of the data then."""


class Rows(Struct, frozen=True, kw_only=True):
    """Fields of rows: where each begins and how long it is (-1: NULL), a row of the arrays for each row; `end` is the
    place after the last one."""

    starts: Ints
    lengths: Ints
    end: int

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.starts)


def rows_at_once(data: bytes, position: int, columns: int) -> Rows:
    """Rows of so many columns, one after the other from `position` on, as many as are whole and without doubt. What
    follows (an end, an error, part of a row) is for who looks at one field after the other."""
    none = Rows(starts=np.zeros((0, columns), np.int64), lengths=np.zeros((0, columns), np.int64), end=position)
    size = len(data)
    if not columns or size - position < 2 + 4 * columns or size > MOST_BYTES:
        return none
    octets = np.frombuffer(data, np.uint8)
    high, low = divmod(columns, 256)
    begins = np.flatnonzero((octets[position:-1] == high) & (octets[position + 1 :] == low)) + position
    if len(begins) * (2 + 4 * columns) > _MOST_FALSE * size:
        return none
    begins, ends, starts, lengths = _followed(octets, begins, columns)
    if not len(begins) or begins[0] != position:
        return none
    kept = _chain(begins, ends)
    return Rows(starts=starts[kept], lengths=lengths[kept], end=int(ends[kept[-1]]))


def _followed(octets: Bytes, begins: Ints, columns: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Of the places `begins` those that have whole fields behind them, with their ends, and the fields."""
    size = len(octets)
    starts = np.zeros((len(begins), columns), np.int64)
    lengths = np.zeros((len(begins), columns), np.int64)
    numbers = np.arange(len(begins))
    cursor = begins + 2
    for column in range(columns):
        inside = cursor <= size - 4
        numbers, cursor = numbers[inside], cursor[inside]
        found = numbers_at(octets, cursor, ">i4").astype(np.int64)
        cursor = cursor + 4
        starts[numbers, column], lengths[numbers, column] = cursor, found
        ends = cursor + np.maximum(found, 0)
        right = (found >= -1) & (ends <= size)
        numbers, cursor = numbers[right], ends[right]
    return begins[numbers], cursor, starts[numbers], lengths[numbers]


def _chain(begins: Ints, ends: Ints) -> Any:
    """The indexes of the first place and those that follow it: each begins where the one before ends."""
    if (ends[:-1] == begins[1:]).all():
        return np.arange(len(begins))
    following = np.searchsorted(begins, ends)
    leads = begins[np.minimum(following, len(begins) - 1)] == ends
    links = np.where(leads, following, -1).tolist()
    kept, index = [], 0
    while index >= 0:
        kept.append(index)
        index = links[index]
    return np.array(kept)
