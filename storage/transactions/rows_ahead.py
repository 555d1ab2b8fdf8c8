"""Changing rows of a transaction that has not committed yet.

A transaction may delete rows that another one has buffered, if it commits together with that one or after it. It names
such a row by the other's *place*, a number that the caller gives to the transactions that others go on from, and the
row's provisional id::

    row 5 of the transaction at place 3     PROVISIONAL_ROW_ID + 5  +  3 * ROWS_AHEAD

When both are sealed as one commit, the row is neither written nor deleted (`netted`), so that a queue of transactions
that change one row after another leaves one row. When the other has committed before, its rows have ids of their own,
which the caller puts in (`Txn.settle`). A name that is left over when a transaction is sealed is a ValueError: what it
was worked out from is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from storage.shards.parts import PROVISIONAL_ROW_ID
from storage.transactions.row_places import NewPart, Run

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

ROWS_AHEAD = 1 << 50
"""Provisional row ids of one transaction; those of different places are apart by so much."""

MAX_PLACES = 2_000
"""Places that are given at one time."""

MAX_AHEAD = 4_000
"""Places for which there are ids in 63 bits; those above `MAX_PLACES` are for numbering transactions that have none."""

FIRST_AHEAD = PROVISIONAL_ROW_ID + ROWS_AHEAD
"""Row ids from here on are of rows of other transactions."""


def row_ahead(place: int, provisional: int) -> int:
    """The name of the row with this id in the transaction at `place`."""
    return provisional + place * ROWS_AHEAD


def place_of(row_id: int) -> tuple[int, int]:
    """The inverse of `row_ahead`."""
    place, rest = divmod(row_id - PROVISIONAL_ROW_ID, ROWS_AHEAD)
    return place, rest + PROVISIONAL_ROW_ID


def apart(deletes: Sequence[pa.Table]) -> tuple[list[pa.Table], list[pa.Table]]:
    """Tables of deleted rows that name rows of other transactions, and those that do not."""
    ahead = [bool((table.column(0).to_numpy() >= FIRST_AHEAD).any()) for table in deletes]
    named = [table for table, is_ahead in zip(deletes, ahead, strict=True) if is_ahead]
    return named, [table for table, is_ahead in zip(deletes, ahead, strict=True) if not is_ahead]


def netted(
    inserts: list[NewPart], deletes: list[tuple[int, pa.Table]], places: Sequence[int]
) -> tuple[list[NewPart], list[tuple[int, pa.Table]]]:
    """What is left of new rows (one run each) and deletions (by member) when those cancel out that name rows of other
    members; `places` are the members' own.

    Raises ValueError when a row is not there, or is named twice.
    """
    kept: list[tuple[int, pa.Table]] = []
    gone: set[tuple[int, int]] = set()
    for scope, table in deletes:
        ids = table.column(0).to_numpy()
        ahead = ids >= FIRST_AHEAD
        if not ahead.any():
            kept.append((scope, table))
            continue
        for row_id in ids[ahead].tolist():
            name = place_of(row_id)
            if name in gone:
                raise ValueError("a row of another transaction is deleted twice")
            gone.add(name)
        if not ahead.all():
            kept.append((scope, table.filter(pa.array(~ahead))))
    if not gone:
        return inserts, deletes
    left: list[NewPart] = []
    for part in inserts:
        ((scope, first, rows),) = part.runs
        place = places[scope]
        dropped = [n for n in range(rows) if (place, first + n) in gone] if place else []
        if not dropped:
            left.append(part)
            continue
        gone.difference_update([(place, first + n) for n in dropped])
        table = pa.concat_tables(part.tables)
        ends = [*dropped, rows]
        for start, stop in zip([0, *(n + 1 for n in dropped)], ends, strict=True):
            if start < stop:
                left.append(NewPart([Run(scope, first + start, stop - start)], [table.slice(start, stop - start)]))
    if gone:
        raise ValueError("rows are deleted of a transaction that is not part of the commit")
    return left, kept


def rows_named(ids: Ints, place: int) -> Ints:
    """`ids` of a transaction at `place` as others name them: own provisional ones moved, all others as they are."""
    own = (ids >= PROVISIONAL_ROW_ID) & (ids < FIRST_AHEAD)
    return np.where(own, ids + place * ROWS_AHEAD, ids)
