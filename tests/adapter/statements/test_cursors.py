"""Cursors: every direction of FETCH, positions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pytest

from adapter.execution.cursors import CursorRows, RowReader
from planner.errors import SqlError
from planner.statements.records import Fetch
from tests.adapter.spilling.files import temporary_files


async def _batches(rows: int, size: int = 3) -> AsyncIterator[Any]:
    for start in range(0, rows, size):
        yield pa.record_batch([pa.array(range(start + 1, min(start + size, rows) + 1))], names=["c1"])


def _cursor(rows: int = 10, *, scroll: bool = True) -> CursorRows:
    return CursorRows(RowReader(_batches(rows)), temporary_files(), scroll=scroll)


async def _fetch(cursor: CursorRows, direction: Any, count: int | None) -> list[int]:
    request = Fetch(name="c", direction=direction, count=count)
    return [value for batch in [b async for b in cursor.fetch(request)] for value in batch.column(0).to_pylist()]


async def test_walk_forward_and_back() -> None:
    cursor = _cursor()
    assert await _fetch(cursor, "forward", 4) == [1, 2, 3, 4]
    assert await _fetch(cursor, "backward", 2) == [3, 2]
    assert await _fetch(cursor, "forward", 0) == [2]
    assert await _fetch(cursor, "relative", 3) == [5]
    assert await _fetch(cursor, "relative", -1) == [4]
    assert await _fetch(cursor, "absolute", 9) == [9]
    assert await _fetch(cursor, "absolute", -1) == [10]
    assert await _fetch(cursor, "forward", 1) == []
    assert await _fetch(cursor, "backward", 1) == [10]
    assert await _fetch(cursor, "backward", None) == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert await _fetch(cursor, "forward", 1) == [1]
    assert await _fetch(cursor, "absolute", 0) == []
    assert await _fetch(cursor, "forward", None) == list(range(1, 11))
    assert await _fetch(cursor, "absolute", -20) == []
    assert await _fetch(cursor, "forward", 1) == [1]
    assert await _fetch(cursor, "absolute", 50) == []
    assert await _fetch(cursor, "backward", 1) == [10]


async def test_forward_only() -> None:
    cursor = _cursor(scroll=False)
    assert await _fetch(cursor, "forward", 2) == [1, 2]
    assert await _fetch(cursor, "absolute", 5) == [5]
    with pytest.raises(SqlError) as caught:
        await _fetch(cursor, "backward", 1)
    assert (caught.value.sqlstate, caught.value.message) == ("55000", "cursor can only scan forward")
    assert caught.value.hint == "Declare it with SCROLL option to enable backward scan."
    assert await _fetch(cursor, "forward", None) == [6, 7, 8, 9, 10]


@pytest.mark.parametrize("scroll", [True, False])
async def test_hold_keeps_the_rest(scroll: bool) -> None:
    cursor = _cursor(scroll=scroll)
    assert await _fetch(cursor, "forward", 4) == [1, 2, 3, 4]
    await cursor.hold()
    assert await _fetch(cursor, "forward", 2) == [5, 6]
    if scroll:
        assert await _fetch(cursor, "backward", 3) == [5, 4, 3]
        assert await _fetch(cursor, "absolute", 7) == [7]
    assert (await _fetch(cursor, "forward", None))[-1] == 10
