"""Rows that an exclusion constraint with && forbids: the conflict that is found is one, and none is missed."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from adapter.transactions.overlaps import FEW_ROWS, Key, OverlapIndex, Taken, first_conflict, overlap_index, taken_keys
from planner.types.types import SqlType
from planner.values.text_values import parse_text
from storage.shards.indexes.definition import IndexDefinition, KeyColumn, StoredColumn
from storage.shards.indexes.reading.found import Found
from storage.shards.indexes.reading.ranges import KeyRange

INT4RANGE, INT4MULTIRANGE = 3904, 4451


def index_of(*types: int) -> OverlapIndex:
    """An index by an integer with `=` and ranges with &&."""
    columns = [StoredColumn(name="a", type=pa.int32())]
    columns += [StoredColumn(name=f"r{n}", type=pa.binary()) for n in range(len(types))]
    return overlap_index(IndexDefinition(id=1, columns=tuple(KeyColumn(source=each) for each in columns)), types)


def ranges(chosen: random.Random, oid: int) -> object:
    """A random value, NULL and the empty one among them."""
    if chosen.random() < 0.1:
        return None
    parts = []
    for _ in range(1 if oid == INT4RANGE else chosen.randrange(3)):
        lower = chosen.randrange(60)
        parts.append(f"[{lower},{lower + chosen.randrange(4)})" if chosen.random() < 0.97 else f"[{lower},)")
    return parse_text(parts[0] if oid == INT4RANGE else "{" + ",".join(parts) + "}", SqlType(oid))


def random_key(chosen: random.Random, types: tuple[int, ...]) -> Key:
    equal = None if chosen.random() < 0.05 else chosen.randrange(3)
    return (equal, *(ranges(chosen, oid) for oid in types))


def conflicts(index: OverlapIndex, key: Key, other: Key) -> bool:
    """By the definition."""
    return index.excludes(key) and index.excludes(other) and index.conflict(key, other)


class Rows:
    """Rows in memory, searched as the storage searches them."""

    def __init__(self, index: OverlapIndex, keys: list[Key]) -> None:
        self.keys = sorted(key for key in keys if None not in key)
        self._types = [column.source.type for column in index.definition.columns]

    async def search(self, wanted: KeyRange, descending: bool, limit: int | None) -> Found:
        low, high = wanted.low, wanted.high
        found = [
            key
            for key in self.keys
            if key[: len(wanted.equal)] == wanted.equal
            and (low is None or key[-1] >= low.values[0])
            and (high is None or key[-1] < high.values[0])
        ]
        return self._found(found[::-1][:limit] if descending else found[:limit])

    async def everything(self) -> Found:
        return self._found(self.keys)

    def _found(self, keys: list[Key]) -> Found:
        arrays = [pa.array([key[n] for key in keys], type_) for n, type_ in enumerate(self._types)]
        names = ["a", *(f"r{n}" for n in range(len(self._types) - 1))]
        numbers = pa.array(range(len(keys)), pa.int64()).to_numpy()
        return Found(keys=numbers, row_ids=numbers, rows=pa.RecordBatch.from_arrays(arrays, names=names))


@pytest.mark.parametrize("types", [(INT4RANGE,), (INT4MULTIRANGE,), (INT4RANGE, INT4RANGE)])
@pytest.mark.parametrize("many", [False, True])
async def test_conflicts_are_found(types: tuple[int, ...], many: bool) -> None:
    chosen = random.Random(len(types) + many)
    index = index_of(*types)
    for _ in range(10 if many else 60):
        there: list[Key] = []
        for key in [random_key(chosen, types) for _ in range(20)]:
            if not any(conflicts(index, key, other) for other in there):
                there.append(key)
        new = [random_key(chosen, types) for _ in range(chosen.randrange(1, 4))]
        if many:
            # Rows without a conflict: beyond what the random ones have, but for one that has no end.
            new += [
                (7, *(parse_text(f"[{n},{n + 1})", SqlType(INT4RANGE)) for _ in types)) for n in range(FEW_ROWS + 1)
            ]
        others = [
            (number, key)
            for number, key in enumerate(new)
            if any(conflicts(index, key, other) for other in (*there, *new[:number]))
        ]
        rows = Rows(index, [*there, *new])
        found = await first_conflict(index, new, rows.search, rows.everything, own=True)
        assert (found is None) == (not others)
        if found is not None:
            assert found.key == new[found.row]
            assert conflicts(index, found.key, found.other)
        before = Rows(index, there)
        with_those = [number for number, key in enumerate(new) if any(conflicts(index, key, other) for other in there)]
        assert await taken_keys(index, new, before.search, before.everything) == with_those
        if not others:
            # What others have added, and is not in what was looked at.
            assert await first_conflict(index, new, before.search, before.everything, own=False) is None
        taken = Taken(index)
        kept: list[Key] = []
        for key in new:
            assert (key in taken) == any(conflicts(index, key, other) for other in kept)
            if key not in taken:
                taken.add(key)
                kept.append(key)


async def test_a_row_that_is_gone_conflicts_with_nothing() -> None:
    """What was written under a deferred constraint may have been deleted since."""
    index = index_of(INT4RANGE)
    data = [parse_text(text, SqlType(INT4RANGE)) for text in ("[1,5)", "[4,9)")]
    keys: list[Key] = [(1, data[0]), (1, data[1])]
    rows = Rows(index, keys[1:])
    assert await first_conflict(index, keys, rows.search, rows.everything, own=True) is None
