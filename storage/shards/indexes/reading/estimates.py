"""What a reading by key would cost, told without reading a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.reading import lookups, ranges
from storage.shards.indexes.reading.part_views import PartView
from storage.shards.indexes.reading.ranges import KeyRange
from storage.shards.indexes.reading.sources import Sources, Steps
from storage.shards.parts import Part

MOST_ROWS = 1 << 18
"""Of more rows than that it is not found out where they are: they are read with their table."""


class Estimate(Struct, frozen=True, kw_only=True):
    """`rows`: how many rows there are at most (deleted ones count). `unread`: how many rows the row groups have that
    would have to be read and decoded for them."""

    rows: int
    unread: int


def of_keys(
    sources: Sources, views: Sequence[PartView], index: IndexDefinition, keys: Sequence[pa.Array]
) -> Steps[Estimate]:
    """What a lookup of `keys`, by columns, would cost."""
    found = yield from lookups.places(sources, views, index, keys)
    return (yield from _estimate(sources, found))


def of_ranges(
    sources: Sources, views: Sequence[PartView], index: IndexDefinition, keys: Sequence[KeyRange]
) -> Steps[Estimate]:
    """What reading the ranges `keys` would cost."""
    found: list[tuple[Part | None, Any]] = []
    for each in keys:
        found += yield from ranges.places(sources, views, index, each)
    return (yield from _estimate(sources, found))


def _estimate(sources: Sources, places: Sequence[tuple[Part | None, Any]]) -> Steps[Estimate]:
    rows = sum([len(positions) for _, positions in places])
    if rows > MOST_ROWS:
        return Estimate(rows=rows, unread=0)
    unread: dict[tuple[str, int], int] = {}
    for part, positions in places:
        if part is None or part.key is None:
            continue
        groups = yield from sources.groups_at(part, positions)
        for number, _ in groups:
            if sources.rows.get(part, number) is None:
                layout = sources.rows.layout(part)
                assert layout is not None
                unread[part.key, number] = layout.metadata.row_group(number).num_rows
    return Estimate(rows=rows, unread=sum(unread.values()))
