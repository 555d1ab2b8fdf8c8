"""What is kept of small tables is bounded, keys included."""

from __future__ import annotations

import pyarrow as pa
import pytest

from adapter.engines import small_tables
from adapter.engines.small_tables import PART_NAME_BYTES, _Kept


def test_tables_of_many_parts_count_for_what_their_keys_take(monkeypatch: pytest.MonkeyPatch) -> None:
    row = pa.table({"c1": pa.array([1], pa.int64())})
    monkeypatch.setattr(small_tables, "MAX_BYTES", 100 * (row.nbytes + 10 * PART_NAME_BYTES))
    for parts, most in ((10, 100), (1000, 1), (0, 16_100)):
        kept = _Kept()
        for number in range(20_000):
            kept.put(number, row, parts)
        assert most * 0.9 <= len(kept) <= most * 1.01
        assert kept.get(19_999) is row
        assert kept.get(0) is None
