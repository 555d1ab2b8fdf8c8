"""Keys compare as PostgreSQL compares the values they are made from, one at a time and by columns alike."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.shards.indexes import keys
from storage.shards.indexes.definition import Computed, IndexDefinition, KeyColumn, StoredColumn
from storage.shards.indexes.scalar_keys import hash_of, plain, plain_scalar, prefix_of
from tests.storage.shards.indexes.key_values import INTERVAL, TYPES, compare, in_order, key_column

KINDS = st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3)


@st.composite
def key_sets(draw: st.DrawFn, kinds: st.SearchStrategy[list[str]] = KINDS) -> Any:
    """Key columns and keys of their types, some of them alike."""
    chosen = draw(kinds)
    columns = [
        key_column(kind, f"c{n}", descending=draw(st.booleans()), nulls_first=draw(st.booleans()))
        for n, kind in enumerate(chosen)
    ]
    one = st.tuples(*(st.none() | TYPES[kind][1] for kind in chosen))
    found = draw(st.lists(one, min_size=1, max_size=12))
    # Keys that begin alike.
    for _ in range(draw(st.integers(0, 3))):
        first, second = draw(st.sampled_from(found)), draw(st.sampled_from(found))
        cut = draw(st.integers(0, len(chosen)))
        found.append((*first[:cut], *second[cut:]))
    return chosen, columns, found


def arrays(kinds: list[str], found: list[tuple[Any, ...]], pad: int = 0) -> list[pa.Array]:
    """The keys as columns; with `pad` they are slices of longer ones."""
    made = []
    for n, kind in enumerate(kinds):
        values = [key[n] for key in found]
        made.append(pa.array([*values[:pad], *values, *values[:pad]], TYPES[kind][0]).slice(pad, len(values)))
    return made


def values(columns: list[KeyColumn], made: list[pa.Array]) -> list[keys.Values]:
    return keys.values_of(columns, made)


@settings(max_examples=300, deadline=None)
@given(key_sets())
def test_keys_compare_as_their_values(drawn: Any) -> None:
    kinds, columns, found = drawn
    made = values(columns, arrays(kinds, found, pad=min(1, len(found))))
    hashed, encoded = keys.hashes(made), keys.prefixes(made)
    for a, b in itertools.product(range(len(found)), repeat=2):
        truth = compare(kinds, columns, found[a], found[b])
        if truth == 0:
            assert hashed[a] == hashed[b]
            assert encoded.keys[a] == encoded.keys[b]
        elif truth < 0:
            assert encoded.keys[a] <= encoded.keys[b], (found[a], found[b])
            assert hashed[a] != hashed[b]
        if truth and encoded.exact[a] and encoded.exact[b]:
            assert encoded.keys[a] != encoded.keys[b]
        at = np.array([a]), np.array([b])
        assert bool(keys.equal(made, at[0], made, at[1])[0]) == (truth == 0)
    assert keys.order(made, encoded).tolist() == in_order(kinds, columns, found)


@settings(max_examples=300, deadline=None)
@given(key_sets())
def test_one_key_is_made_as_whole_columns_are(drawn: Any) -> None:
    kinds, columns, found = drawn
    made = arrays(kinds, found)
    whole = values(columns, made)
    hashed, encoded = keys.hashes(whole), keys.prefixes(whole)
    for n, key in enumerate(found):
        one = tuple(plain(column, value) for column, value in zip(columns, key, strict=True))
        assert one == tuple(plain_scalar(column, array[n]) for column, array in zip(columns, made, strict=True))
        assert hash_of(columns, one) == int(hashed[n])
        prefix, bits = prefix_of(columns, one)
        assert prefix == int(encoded.keys[n])
        assert (bits <= 64) == bool(encoded.exact[n])


@settings(max_examples=200, deadline=None)
@given(key_sets(), st.data())
def test_the_first_columns_bound_the_whole_key(drawn: Any, data: st.DataObject) -> None:
    kinds, columns, found = drawn
    encoded = keys.prefixes(values(columns, arrays(kinds, found)))
    key = data.draw(st.sampled_from(found))
    width = data.draw(st.integers(1, len(columns)))
    start = tuple(plain(column, value) for column, value in zip(columns, key[:width], strict=False))
    low, bits = prefix_of(columns, start)
    high = low | (1 << max(64 - bits, 0)) - 1
    for other, prefix in zip(found, encoded.keys.tolist(), strict=True):
        truth = compare(kinds, columns[:width], other[:width], key[:width])
        if truth == 0:
            assert low <= prefix <= high
        else:
            assert prefix <= high if truth < 0 else prefix >= low


def test_hashes_and_prefixes_are_the_same_for_ever() -> None:
    """Runs that are stored hold them: another value here needs another `definition.KEY_FORMAT`."""
    kinds = ["int8", "text", "float8", "numeric", "interval", "bytea"]
    interval = {"months": 1, "days": 2, "micros": 3}
    row = (42, "Tidegate é", 1.5, Decimal("12.34"), interval, b"\x00\xff")
    found = [row, tuple([None] * 6)]
    columns = [key_column(kind) for kind in kinds]
    whole = values(columns, arrays(kinds, found))
    assert [hex(word) for word in keys.hashes(whole).tolist()] == HASHES
    alone = [[hex(word) for word in keys.prefixes([item]).keys.tolist()] for item in whole]
    assert alone == PREFIXES


HASHES = ["0x21577d0fee1fb145", "0xaec1dcf57b0f2e3"]
PREFIXES = [
    ["0x812a000000000000", "0xff00000000000000"],
    ["0x566b666769637667", "0xff00000000000000"],
    ["0x6ffe000000000000", "0xc000000000000000"],
    ["0x705a05bc150af042", "0xc000000000000000"],
    ["0x8120810300000000", "0xff00000000000000"],
    ["0x403fc00000000008", "0xc000000000000000"],
]


def test_decimals_of_different_scale_are_equal() -> None:
    column = key_column("numeric")
    narrow = pa.array([Decimal("1.5"), Decimal("-7.0")], pa.decimal128(5, 1))
    wide = pa.array([Decimal("1.5"), Decimal("-7")], pa.decimal128(38, 30))
    one, other = values([column], [narrow]), values([column], [wide])
    assert keys.hashes(one).tolist() == keys.hashes(other).tolist()
    assert keys.prefixes(one).keys.tolist() == keys.prefixes(other).keys.tolist()
    both = np.arange(2)
    assert keys.equal(one, both, other, both).all()


def test_integers_of_different_width_are_equal() -> None:
    one = values([key_column("int2")], [pa.array([-5, 7], pa.int16())])
    other = values([key_column("int8")], [pa.array([-5, 7], pa.int64())])
    assert keys.hashes(one).tolist() == keys.hashes(other).tolist()
    assert keys.prefixes(one).keys.tolist() == keys.prefixes(other).keys.tolist()


def test_dates_that_python_does_not_have_are_keys() -> None:
    column = key_column("date")
    far = pa.array([2**31 - 1, -(2**31), 0], pa.int32()).view(pa.date32())
    encoded = keys.prefixes(values([column], [far])).keys
    assert np.argsort(encoded).tolist() == [1, 2, 0]
    assert plain_scalar(column, far[0]) == 2**31 - 1


def test_null_is_no_value() -> None:
    """A NULL's hash is not that of a value that looks like what stands in its place."""
    for kind, empty in (("int8", 0), ("text", ""), ("float8", 0.0), ("bytea", b"")):
        made = values([key_column(kind)], [pa.array([None, empty], TYPES[kind][0])])
        first, second = keys.hashes(made).tolist()
        assert first != second
        null = keys.any_null(made)
        assert null is not None
        assert null.tolist() == [True, False]


def test_many_hashes_are_spread() -> None:
    """All different, and every bit is set in about half of them."""
    made = values([key_column("int8")], [pa.array(np.arange(100_000))])
    hashed = keys.hashes(made)
    assert len(np.unique(hashed)) == 100_000
    for bit in range(64):
        share = float(np.mean((hashed >> np.uint64(bit)) & np.uint64(1)))
        assert 0.49 < share < 0.51


def test_types_without_an_order_are_refused() -> None:
    for type_ in (pa.list_(pa.int64()), pa.struct([("a", pa.int64())])):
        with pytest.raises(TypeError):
            KeyColumn(source=StoredColumn(name="c1", type=type_))


def test_another_definition_has_another_fingerprint() -> None:
    source = StoredColumn(name="c1", type=pa.int64())
    upper = Computed(text="upper(c2)", type=pa.string(), inputs=(source,), evaluate=lambda table: table.column(0))
    some = Computed(text="c1 > 5", type=pa.bool_(), inputs=(source,), evaluate=lambda table: table.column(0))
    column = KeyColumn(source=source)
    variants = [
        IndexDefinition(id=1, columns=(column,)),
        IndexDefinition(id=1, columns=(column, column)),
        IndexDefinition(id=1, columns=(KeyColumn(source=source, descending=True),)),
        IndexDefinition(id=1, columns=(KeyColumn(source=source, nulls_first=True),)),
        IndexDefinition(id=1, columns=(KeyColumn(source=StoredColumn(name="c2", type=pa.int64())),)),
        IndexDefinition(id=1, columns=(KeyColumn(source=StoredColumn(name="c1", type=pa.int32())),)),
        IndexDefinition(
            id=1, columns=(KeyColumn(source=StoredColumn(name="c1", type=pa.int64(), missing=pa.scalar(5))),)
        ),
        IndexDefinition(id=1, columns=(KeyColumn(source=upper),)),
        IndexDefinition(id=1, columns=(column,), predicate=some),
        IndexDefinition(id=1, columns=(column,), ordered=False),
    ]
    assert len({definition.fingerprint for definition in variants}) == len(variants)
    assert IndexDefinition(id=2, columns=(column,)).fingerprint == variants[0].fingerprint
    assert [column.name for column in variants[8].inputs] == ["c1"]


def test_intervals_of_one_length_are_equal() -> None:
    month, days = {"months": 1, "days": 0, "micros": 0}, {"months": 0, "days": 29, "micros": 86_400_000_000}
    made = values([key_column("interval")], [pa.array([month, days], INTERVAL)])
    first, second = keys.hashes(made).tolist()
    assert first == second


@pytest.mark.parametrize("rows", [0, 1, 1000, keys.PACKED_ROWS, keys.PACKED_ROWS + 12_345])
def test_hashes_are_sorted_as_numpy_sorts(rows: int) -> None:
    random = np.random.default_rng(rows)
    hashed = random.integers(0, 1 << 64, rows, dtype=np.uint64)
    meeting = hashed.copy()
    # A few that are equal, and a few that differ in their last bits alone.
    meeting[: rows // 40] = meeting[rows // 40 : 2 * (rows // 40)]
    meeting[rows // 2 : rows // 2 + rows // 50] ^= np.uint64(3)
    meeting[rows // 3 : rows // 3 + rows // 50] = meeting[rows // 2 : rows // 2 + rows // 50] ^ np.uint64(5)
    few = hashed % np.uint64(1000) << np.uint64(40)
    for each in (hashed, meeting, few, np.sort(hashed), np.sort(hashed)[::-1].copy(), hashed >> np.uint64(40)):
        assert (keys.ascending(each) == np.argsort(each, kind="stable")).all()
