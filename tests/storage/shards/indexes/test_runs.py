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
from storage.shards.indexes.definition import RUN_VERSION, Computed, IndexDefinition, KeyColumn, StoredColumn
from storage.shards.indexes.levels import Levels
from storage.shards.parts import inline_part

GOLDEN = Path(__file__).parent / "golden" / f"v{RUN_VERSION}_key_run.hex"
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
    """A deliberate change raises `definition.RUN_VERSION`; TIDEGATE_REWRITE_GOLDEN=1 writes a file that is missing."""
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
    likely = filters.may_hold_each(run.filter, absent)
    assert [filters.may_hold(run.filter, h) for h in absent[:500].tolist()] == likely[:500].tolist()
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


def test_pages_find_what_the_whole_run_finds() -> None:
    """Also where one key goes on over several pages."""
    keys = np.concatenate([np.full(3 * runs.PAGE_ENTRIES, 77), np.arange(4 * runs.PAGE_ENTRIES) % 9_001]).astype("i8")
    table = pa.table({"c1": keys})
    index = IndexDefinition(id=1, columns=(KeyColumn(source=C1),))
    data = runs.build(index, table, TAG)
    run = decoded(data, index)
    head = runs.read_head(index.fingerprint, TAG, data[: runs.first_bytes(index, len(keys))], "the run")
    assert head.checksum == run.head.checksum
    assert runs.encode(index, run, TAG) == data
    for pages, whole in ((head.by_hash, run.by_hash), (head.by_order, run.by_order)):
        assert pages is not None
        assert whole is not None
        assert len(pages.firsts) == 7
        for at in (0, 1, 77, len(keys) // 2, len(keys) - 1):
            low, high = whole.keys[at : at + 1], whole.keys[min(at + 500, len(keys) - 1) :][:1]
            for top in (low, high):
                numbers = pages.holding(low, top).tolist()
                places = [pages.place_of(number) for number in numbers]
                some = runs.joined(
                    [
                        pages.page(number, data[start : start + length], "the run")
                        for number, (start, length) in zip(numbers, places, strict=True)
                    ]
                )
                for one, other in zip(some.probe_between(low, top), whole.probe_between(low, top), strict=True):
                    assert one.tolist() == other.tolist()
        assert pages.holding(np.empty(0, np.uint64), np.empty(0, np.uint64)).tolist() == []
        start, length = pages.place_of(2)
        with pytest.raises(runs.CorruptRun, match="checksum"):
            pages.page(2, data[start : start + length - 1] + b"!", "the run")
        with pytest.raises(runs.CorruptRun, match="checksum"):
            pages.page(1, data[start : start + length], "the run")


def test_a_run_of_an_older_format_is_told_by_its_version() -> None:
    data = bytes.fromhex((GOLDEN.parent / "v1_key_run.hex").read_text())
    assert runs.version_of(data) == 1
    with pytest.raises(runs.CorruptRun, match="the run has the older format 1"):
        decoded(data, tag=bytes(range(16)))


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
    data[8] = RUN_VERSION + 1
    with pytest.raises(NewerFormat, match=rf"the run has format {RUN_VERSION + 1}.*upgrade Tidegate"):
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
