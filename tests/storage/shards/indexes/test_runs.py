"""Key runs keep their bytes, find every row of their part and no key that is not there, and notice what changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import NewerFormat
from storage.shards.indexes import filters, runs
from storage.shards.indexes.definition import Computed, IndexDefinition, KeyColumn, StoredColumn
from storage.shards.indexes.levels import Levels
from storage.shards.parts import inline_part

GOLDEN = Path(__file__).parent / "golden" / f"v{runs.RUN_VERSION}_key_run.hex"
C1 = StoredColumn(name="c1", type=pa.int64())
C2 = StoredColumn(name="c2", type=pa.string())
INDEX = IndexDefinition(id=7, columns=(KeyColumn(source=C2), KeyColumn(source=C1, descending=True)))
ROWS = pa.table(
    {"c1": [3, 1, 2, None, 2, 1], "c2": ["long enough to differ late: b", "a", None, "a", "a", "long enough to differ"]}
)
TAG = runs.part_tag(inline_part("insert", ROWS))


def decoded(data: bytes, index: IndexDefinition = INDEX, tag: bytes = TAG) -> runs.KeyRun:
    return runs.decode(index.fingerprint, tag, data, "the run")


def test_a_run_keeps_its_bytes() -> None:
    """A deliberate change raises `runs.RUN_VERSION`; TIDEGATE_REWRITE_GOLDEN=1 writes a file that is missing."""
    tag = bytes(range(16))
    data = runs.build(INDEX, ROWS, tag)
    if not GOLDEN.exists():
        assert os.environ.get("TIDEGATE_REWRITE_GOLDEN"), f"{GOLDEN.name} is missing"
        GOLDEN.write_text(data.hex() + "\n")
    stored = bytes.fromhex(GOLDEN.read_text())
    assert data == stored
    run = decoded(stored, tag=tag)
    assert run.by_order is not None
    assert run.by_order.positions.tolist() == [4, 1, 3, 5, 0, 2]
    assert run.head.part_rows == run.head.entries == 6
    assert not run.head.exact
    assert len(stored) == run.head.bytes


def test_every_row_is_found_and_few_others() -> None:
    table = pa.table({"c1": np.arange(10_000) * 3 % 10_007, "c2": ["same"] * 10_000})
    index = IndexDefinition(id=1, columns=(KeyColumn(source=C1),))
    run = decoded(runs.build(index, table, TAG), index)
    keys = table.column("c1").to_pylist()
    from storage.shards.indexes.keys import hashes, values_of
    from storage.shards.indexes.scalar_keys import hash_of

    for position in range(0, 10_000, 97):
        assert run.find(hash_of(index.columns, (keys[position],))) == [position]
    hashed = hashes(values_of(index.columns, [pa.array(keys)]))
    numbers, positions = run.probe(hashed)
    assert sorted(zip(numbers.tolist(), positions.tolist(), strict=True)) == [(n, n) for n in range(10_000)]
    absent = hashes(values_of(index.columns, [pa.array(np.arange(20_000, 120_000))]))
    assert len(run.probe(absent)[0]) == 0
    likely = filters.may_hold_each(run.head.filter, absent)
    assert [filters.may_hold(run.head.filter, h) for h in absent[:500].tolist()] == likely[:500].tolist()
    assert likely.mean() < 0.02
    assert run.head.exact
    assert run.between(0, (1 << 64) - 1) == np.argsort(keys).tolist()


def test_a_partial_index_has_the_rows_of_its_predicate() -> None:
    some = Computed(
        text="c1 > 1", type=pa.bool_(), inputs=(C1,), evaluate=lambda table: pa.compute.greater(table.column("c1"), 1)
    )
    index = IndexDefinition(id=1, columns=(KeyColumn(source=C1),), predicate=some)
    run = decoded(runs.build(index, ROWS, TAG), index)
    assert run.head.entries == 3
    assert run.by_order is not None
    assert run.by_order.positions.tolist() == [2, 4, 0]


def test_a_run_of_no_rows() -> None:
    run = decoded(runs.build(INDEX, ROWS.slice(0, 0), TAG))
    assert run.find(5) == []
    assert run.between(0, (1 << 64) - 1) == []
    assert len(run.probe(np.array([5], np.uint64))[0]) == 0


@pytest.mark.parametrize("at", [0, 9, 30, 41, 60, 75, 95, 110, 130, 170, 230, -1])
def test_a_changed_byte_is_noticed(at: int) -> None:
    data = bytearray(runs.build(INDEX, ROWS, TAG))
    data[at] ^= 0x10
    with pytest.raises((runs.CorruptRun, NewerFormat)):
        decoded(bytes(data))


@pytest.mark.parametrize("length", [0, 50, 127, 140, 300])
def test_a_truncated_run_is_noticed(length: int) -> None:
    data = runs.build(INDEX, ROWS, TAG)
    assert length < len(data)
    with pytest.raises(runs.CorruptRun):
        decoded(data[:length])
    with pytest.raises(runs.CorruptRun):
        decoded(data + b"\0")


def test_a_run_of_something_else_is_refused() -> None:
    data = runs.build(INDEX, ROWS, TAG)
    with pytest.raises(runs.CorruptRun, match="another part"):
        decoded(data, tag=runs.part_tag(inline_part("insert", ROWS.slice(1))))
    with pytest.raises(runs.CorruptRun, match="another definition"):
        decoded(data, IndexDefinition(id=7, columns=(KeyColumn(source=C2), KeyColumn(source=C1))))


def test_a_newer_run_is_refused_by_name() -> None:
    data = bytearray(runs.build(INDEX, ROWS, TAG))
    data[8] = runs.RUN_VERSION + 1
    with pytest.raises(NewerFormat, match=rf"the run has format {runs.RUN_VERSION + 1}.*upgrade Tidegate"):
        decoded(bytes(data))


def test_runs_are_merged_in_order_and_lazily() -> None:
    sections = []
    for start in range(3):
        keys = np.arange(start, 3000, 3, dtype=np.uint64)
        sections.append((runs.Section(keys, np.arange(1000, dtype=np.uint32)), 10, 900))
    merged = runs.merged(sections)
    assert [next(merged) for _ in range(4)] == [(30, 0, 10), (31, 1, 10), (32, 2, 10), (33, 0, 11)]
    backwards = runs.merged(sections, descending=True)
    assert [next(backwards)[0] for _ in range(4)] == [2699, 2698, 2697, 2696]
    assert len(list(merged)) == 3 * 890 - 4


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30) | st.just(2**64 - 1), min_size=1, max_size=12), max_size=40), st.data())
def test_levels_are_a_multimap(parts: list[list[int]], data: Any) -> None:
    levels = Levels()
    held: list[tuple[int, int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("storage.shards.indexes.levels.MAX_RECENT", 5)
        for number, keys in enumerate(parts):
            held += [(key, number, position) for position, key in enumerate(keys)]
            if data.draw(st.booleans()):
                order = np.argsort(np.array(keys, np.uint64), kind="stable")
                levels.add_part(np.array(keys, np.uint64)[order], number, order)
            else:
                for position, key in enumerate(keys):
                    levels.add_one(key, number, position)
    wanted = [0, 7, 2**64 - 1, 31]
    for key in wanted:
        assert sorted(levels.find(key)) == sorted(entry[1:] for entry in held if entry[0] == key)
    numbers, ids, positions = (array.tolist() for array in levels.probe(np.array(wanted, np.uint64)))
    assert sorted(zip(numbers, ids, positions, strict=True)) == sorted(
        (wanted.index(key), *entry) for key, *entry in held if key in wanted
    )
    low, high = sorted(data.draw(st.tuples(*[st.sampled_from([0, 5, 9, 31, 2**64 - 1])] * 2)))
    found = zip(*(array.tolist() for array in levels.between(low, high)), strict=True)
    assert sorted(found) == sorted(entry for entry in held if low <= entry[0] <= high)
