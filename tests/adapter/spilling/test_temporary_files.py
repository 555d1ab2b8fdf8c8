"""Temporary files: what is kept comes back, the limit, what is counted, and that files end with what is in them."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from adapter.spilling.key_runs import Keys, spill, taken
from adapter.spilling.row_spool import RowSpool
from adapter.spilling.temporary_files import TemporaryFile, TemporaryFileCounts
from planner.errors import SqlError
from tests.adapter.spilling.files import temporary_files


async def _batches(rows: int, size: int) -> AsyncIterator[Any]:
    for start in range(0, rows, size):
        yield pa.record_batch([pa.array(range(start, min(start + size, rows)))], names=["c1"])


async def test_rows_beyond_the_budget_are_in_a_file() -> None:
    counts = TemporaryFileCounts()
    files = temporary_files(counts, work_mem="64")
    spool = RowSpool(files)
    async for batch in _batches(20_000, 1000):
        await spool.append(batch)
    # 64 kB of 160 stay in memory.
    assert 80_000 < files.used < 130_000
    read = [v async for b in spool.read(5, 19_993) for v in b.column(0).to_pylist()]
    assert read == list(range(5, 19_993))
    size = files.used
    spool.close()
    assert files.used == 0
    assert counts.rows() == [{"datid": 5, "temp_files": 1, "temp_bytes": size}]


async def test_few_rows_need_no_file() -> None:
    counts = TemporaryFileCounts()
    spool = RowSpool(temporary_files(counts))
    async for batch in _batches(20_000, 1000):
        await spool.append(batch)
    spool.close()
    assert counts.rows() == []


def test_arrays_come_back_mapped_and_their_file_ends_with_them() -> None:
    counts = TemporaryFileCounts()
    files = temporary_files(counts)
    given = (pa.array(range(100_000)), pa.array([None, "a", "bc"] * 33_333 + ["d"]))
    before = pa.total_allocated_bytes()
    kept = files.keep(given)
    assert pa.total_allocated_bytes() - before < 1000
    assert [one.equals(other) for one, other in zip(given, kept, strict=True)] == [True, True]
    assert files.used > 800_000
    numbers = files.keep_numbers(np.arange(1000, dtype=np.uint64))
    assert numbers.tolist() == list(range(1000))
    part = kept[0].slice(500, 3)
    del kept, numbers
    assert files.used > 800_000
    assert part.to_pylist() == [500, 501, 502]
    del part
    assert files.used == 0
    assert counts.rows()[0]["temp_files"] == 2


def test_the_limit_is_what_a_session_has_at_one_time() -> None:
    counts = TemporaryFileCounts()
    files = temporary_files(counts, limit="1000")
    kept = files.keep((pa.array(range(100_000)),))
    with pytest.raises(SqlError) as caught:
        files.keep((pa.array(range(100_000)),))
    assert (caught.value.sqlstate, caught.value.message) == (
        "53400",
        "temporary file size exceeds temp_file_limit (1000kB)",
    )
    del kept
    assert files.keep((pa.array(range(100_000)),))[0][7].as_py() == 7
    assert files.used == 0


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    files = temporary_files()

    class Full:
        def seek(self, at: int) -> None: ...

        def write(self, data: pa.Buffer) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self) -> None: ...

    file = TemporaryFile(files)
    monkeypatch.setattr(file, "_file", Full())
    with pytest.raises(SqlError, match="could not write to a temporary file: No space left on device") as caught:
        file.append(pa.py_buffer(b"abc"))
    assert caught.value.sqlstate == "53100"
    file.close()
    assert files.used == 0


def test_files_have_no_names(tmp_path: Path) -> None:
    files = temporary_files(folder=tmp_path)
    held = TemporaryFile(files)
    held.append(pa.py_buffer(b"abc"))
    assert held.read(1, 2) == b"bc"
    kept = files.keep((pa.array(range(1000)),))
    assert list(tmp_path.iterdir()) == []
    assert kept[0][999].as_py() == 999
    held.close()


async def test_keys_beyond_the_budget_come_back_in_pieces() -> None:
    files = temporary_files(work_mem="1024")
    noted: list[Keys] = []
    for first in range(0, 100_000, 10_000):
        noted.append((pa.array(range(first, first + 10_000)), pa.array(["k"] * 10_000)))
        await spill(noted, files)
    pieces = taken(noted)
    assert not noted
    assert [len(piece[0]) for piece in pieces] == [40_000, 40_000, 20_000]
    assert [number for piece in pieces for number in piece[0].to_pylist()] == list(range(100_000))
    assert files.used > 900_000
    del pieces
    # The loop has the last result until its next round.
    await asyncio.sleep(0.01)
    assert files.used == 0


async def test_few_keys_are_one_piece() -> None:
    files = temporary_files()
    noted: list[Keys] = []
    for first in range(0, 9000, 1000):
        noted.append((pa.array(range(first, first + 1000)),))
        await spill(noted, files)
    (piece,) = taken(noted)
    assert piece[0].to_pylist() == list(range(9000))
    assert files.used == 0
