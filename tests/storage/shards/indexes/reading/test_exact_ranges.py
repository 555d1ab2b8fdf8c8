"""Where prefixes say all of a key, those between the bounds of a range are exactly the keys in it."""

from __future__ import annotations

import random
from itertools import product

import pyarrow as pa
import pytest

from storage.shards.indexes.definition import IndexDefinition, KeyColumn, StoredColumn
from storage.shards.indexes.reading.ranges import Bound, KeyRange, exact_prefixes
from storage.shards.indexes.scalar_keys import prefix_of

NEAR = [0, 1, -1, 127, 128, -128, -129, 255, 256, 65_535, 65_536, -65_536, 2**31, -(2**31), 2**47, 2**54 - 1, -(2**54)]
FAR = [2**56, -(2**60), 2**63 - 1, -(2**63)]


def index_of(*descending: bool) -> IndexDefinition:
    columns = [
        KeyColumn(source=StoredColumn(name=f"c{n}", type=pa.int64()), descending=turned)
        for n, turned in enumerate(descending)
    ]
    return IndexDefinition(id=1, columns=tuple(columns))


@pytest.mark.parametrize("turned", [False, True])
def test_of_one_column(turned: bool) -> None:
    index = index_of(turned)
    chance = random.Random(1)
    values = sorted({*NEAR, *[chance.randint(-(2**54), 2**54) for _ in range(20)]})
    for low, high, first, last in product(values[::3], values[::2], (True, False), (True, False)):
        found = exact_prefixes(index, KeyRange(low=Bound((low,), first), high=Bound((high,), last)))
        assert found is not None
        for value in (*values, low + 1, low - 1, high + 1, high - 1):
            inside = (low < value or (first and low == value)) and (value < high or (last and value == high))
            prefix, _ = prefix_of(index.columns, [value])
            assert (found[0] <= prefix <= found[1]) == inside, (low, high, first, last, value)
    for other, end in product([*values, *FAR, None], (low, high)):
        prefix, _ = prefix_of(index.columns, [other])
        found = exact_prefixes(index, KeyRange(low=Bound((end,)), high=Bound((end,))))
        assert found is not None
        assert (found[0] <= prefix <= found[1]) == (other == end)


@pytest.mark.parametrize("turned", list(product([False, True], [False, True])))
def test_of_two_columns(turned: tuple[bool, bool]) -> None:
    index = index_of(*turned)
    values = [0, 1, -1, 127, 128, -300, 70_000]
    for equal, low, high in product(values, values, values):
        found = exact_prefixes(index, KeyRange(equal=(equal,), low=Bound((low,), False), high=Bound((high,))))
        assert found is not None
        for key in product(values, [*values, None]):
            prefix, _ = prefix_of(index.columns, key)
            inside = key[0] == equal and key[1] is not None and low < key[1] <= high
            assert (found[0] <= prefix <= found[1]) == inside
    found = exact_prefixes(index, KeyRange(equal=(127, -300)))
    assert found is not None
    assert found[0] == found[1] == prefix_of(index.columns, (127, -300))[0]


def test_where_more_has_to_be_compared() -> None:
    index, two = index_of(False), index_of(False, False)
    assert exact_prefixes(index, KeyRange(low=Bound((1,)))) is None
    assert exact_prefixes(index, KeyRange(low=Bound((1,)), high=Bound((2**60,)))) is None
    assert exact_prefixes(index, KeyRange(low=Bound((None,)), high=Bound((1,)))) is None
    assert exact_prefixes(two, KeyRange(equal=(1,))) is None
    assert exact_prefixes(two, KeyRange(low=Bound((1, 2)), high=Bound((1, 3)))) is None
    assert exact_prefixes(two, KeyRange(equal=(2**40, 2**40))) is None
    texts = IndexDefinition(id=1, columns=(KeyColumn(source=StoredColumn(name="c", type=pa.string())),))
    assert exact_prefixes(texts, KeyRange(low=Bound(("a",)), high=Bound(("b",)))) is None
