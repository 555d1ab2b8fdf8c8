"""Rows of rounds, in memory and in a file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from adapter.engines.common import kept_rows
from adapter.engines.common.kept_rows import KeptRows
from planner.ir.nodes import Field
from planner.types.types import INT4, SqlType

FIELDS = (Field(id=7, name="n", type=SqlType(INT4)),)


def _batch(*values: int | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int32())], names=["c7"])


@pytest.mark.parametrize("limit", [1 << 20, 0])
def test_rows_in_memory_and_in_files_are_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: int) -> None:
    monkeypatch.setattr(kept_rows, "MEMORY_BYTES", limit)
    added, so_far = KeptRows(FIELDS, tmp_path / "rounds"), KeptRows(FIELDS, tmp_path / "rounds")
    added.append(_batch(1, None))
    added.append(_batch())
    added.append(_batch(3))
    so_far.append(_batch(0))
    so_far.add(added)
    assert (added.rows, so_far.rows) == (3, 4)
    assert sorted(so_far.table().column("c1").to_pylist(), key=str) == [0, 1, 3, None]
    assert not list(tmp_path.rglob("rounds-*"))
