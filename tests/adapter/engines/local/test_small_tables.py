"""What is kept of small tables is bounded, keys included."""

from __future__ import annotations

import pyarrow as pa
import pytest

from adapter.engines.local import small_tables
from adapter.engines.local.small_tables import ENTRY_BYTES, PART_NAME_BYTES, _Kept
from storage.shards import part_store
from tests.adapter.engines.harness import INT8, World


def test_tables_of_many_parts_count_for_what_their_keys_take(monkeypatch: pytest.MonkeyPatch) -> None:
    row = pa.table({"c1": pa.array([1], pa.int64())})
    monkeypatch.setattr(small_tables, "MAX_BYTES", 100 * (ENTRY_BYTES + row.nbytes + 32 * PART_NAME_BYTES))
    for parts, most in ((32, 100), (10_000, 1), (0, 200)):
        kept = _Kept()
        for number in range(300):
            kept.put(number, row, parts)
        assert most * 0.9 <= len(kept) <= most * 1.01
        assert kept.get(299) is row
        assert kept.get(0) is None


async def test_parts_of_single_rows_count_for_more_than_their_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_store, "CACHE_BYTES", 10 * part_store.ENTRY_BYTES)
    relation = await world.table(("a", INT8))
    for number in range(30):
        await world.insert(relation, [(number,)])
    for part in (await world.input(relation)).inserts:
        await world.env.reader.read_part(part)
    assert 5 <= len(world.env.parts._cache) <= 10
