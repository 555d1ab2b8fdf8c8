"""The Z-order curve: one order for several columns, in which rows that are near have near values in each of them.

The values of a column are numbered, from the smallest to the largest, so that each number has about as many rows as any
other; NULLs have the largest. The bits of a row's numbers, one of each column in turn, are its place on the curve
(Morton, "A Computer Oriented Geodetic Data Base", 1966). Files of rows along it have narrow bounds in all the columns,
where files that are sorted have them in the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places: TypeAlias = npt.NDArray[np.int64]

MOST_COLUMNS = 8
"""More columns have so few bits each that the curve tells nothing of any."""

BITS_OF_PLACE = 48
"""Bits of a place among rows that are at hand."""


def spread(number: int, bits: int, place: int, columns: int) -> int:
    """The part of a place on the curve that the column at `place` of `columns` adds by its `number` of `bits` bits."""
    return sum(((number >> bit) & 1) << (bit * columns + columns - 1 - place) for bit in range(bits))


def places(rows: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> Places:
    """The places of `rows` on the curve of `columns`. A column that they lack has one value in all of them."""
    count, present = rows.num_rows, [name for name in columns if name in rows.schema.names]
    found = np.zeros(count, np.int64)
    if not present or not count:
        return found
    bits = BITS_OF_PLACE // len(present)
    for place, name in enumerate(present):
        column: Any = rows.column(name)
        rank = pc.rank(column, sort_keys="ascending", tiebreaker="min")  # NULLs at the end.
        numbers = (np.asarray(rank).astype(np.int64) - 1) * ((1 << bits) - 1) // max(count - 1, 1)
        for bit in range(bits):
            found |= ((numbers >> bit) & 1) << (bit * len(present) + len(present) - 1 - place)
    return found
