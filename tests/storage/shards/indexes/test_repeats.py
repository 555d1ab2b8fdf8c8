"""Whether a key is in two of several pieces, against sets of Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from storage.shards.indexes.definition import IndexDefinition, KeyColumn, StoredColumn
from storage.shards.indexes.reading import repeats
from storage.shards.indexes.reading.repeats import may_repeat


class Kept:
    """What is kept, and how much."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        self.sizes.append(len(numbers))
        return numbers


def _index(*types: pa.DataType) -> IndexDefinition:
    columns = [KeyColumn(source=StoredColumn(name=f"c{n}", type=type_)) for n, type_ in enumerate(types)]
    return IndexDefinition(id=1, columns=tuple(columns), unique=True)


INTEGERS = _index(pa.int64())


def _pieces(*pieces: list[Any]) -> list[list[pa.Array]]:
    return [[pa.array(piece, pa.int64())] for piece in pieces]


def test_pieces_that_rise_need_no_hashes() -> None:
    kept = Kept()
    assert not may_repeat(INTEGERS, _pieces([1, 2, 3], [4, 7], [8, 9]), kept)
    assert not may_repeat(INTEGERS, _pieces([4, 7], [1, 2, 3]), kept)
    assert kept.sizes == []


@pytest.mark.parametrize("pieces", [([1, 2, 3], [3, 4]), ([1, 2, 1], [3, 4]), ([5, 6], [1], [6])])
def test_a_key_in_two_places(pieces: tuple[list[Any], ...]) -> None:
    assert may_repeat(INTEGERS, _pieces(*pieces), Kept())


def test_nulls_are_equal_only_where_the_index_says_so() -> None:
    pieces = _pieces([1, None], [None, 2])
    assert not may_repeat(INTEGERS, pieces, Kept())
    assert may_repeat(replace(INTEGERS, nulls_not_distinct=True), pieces, Kept())


@pytest.mark.parametrize("seed", range(20))
def test_like_a_set(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "AT_ONCE", 50)
    random_ = random.Random(seed)
    keys = random_.sample(range(10_000), 400)
    if seed % 2:
        keys.append(random_.choice(keys))
    cuts = sorted(random_.sample(range(401), 5))
    parts = [keys[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(keys)], strict=True)]
    index = _index(pa.string(), pa.int32())
    pieces = [[pa.array([f"key {key // 7}" for key in part]), pa.array(part, pa.int32())] for part in parts]
    kept = Kept()
    assert may_repeat(index, pieces, kept) == bool(seed % 2)
    assert kept.sizes == [len(part) for part in parts]
