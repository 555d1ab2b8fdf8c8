"""What is kept of small tables is bounded, keys included."""

from __future__ import annotations

import pyarrow as pa
import pytest

from adapter.engines.local.small_tables import ENTRY_BYTES, PART_NAME_BYTES, kept_bytes
from storage.bounded_map import BoundedMap
from storage.shards import part_store
from tests.adapter.engines.harness import INT8, World


def test_tables_of_many_parts_count_for_what_their_keys_take() -> None:
    row = pa.table({"c1": pa.array([1], pa.int64())})
    most_bytes = 100 * (ENTRY_BYTES + row.nbytes + 32 * PART_NAME_BYTES)
    for parts, most in ((32, 100), (10_000, 1), (0, 200)):
        kept: BoundedMap[int, pa.Table] = BoundedMap(max_bytes=most_bytes)
        for number in range(300):
            kept.put(number, row, kept_bytes(row, parts))
        assert most * 0.9 <= len(kept) <= most * 1.01
        assert kept.get(299) is row
        assert kept.get(0) is None


async def test_parts_of_single_rows_count_for_more_than_their_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.env.parts._cache, "max_bytes", 10 * part_store.ENTRY_BYTES)
    relation = await world.table(("a", INT8))
    for number in range(30):
        await world.insert(relation, [(number,)])
    for part in (await world.input(relation)).inserts:
        await world.env.reader.read_part(part)
    assert 5 <= len(world.env.parts._cache) <= 10
