"""Parts are decoded on the event loop only when that takes no longer than a thread would."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from storage.ids import ShardId
from storage.shards import part_store
from storage.shards.parts import INLINE_LIMIT_BYTES, read_table
from tests.storage.environments import Stores


@pytest.fixture
def on_the_loop(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each part that is decoded, whether that held up the loop."""
    seen: list[bool] = []

    def noted(*arguments: Any) -> pa.Table:
        seen.append(threading.current_thread() is threading.main_thread())
        return read_table(*arguments)

    monkeypatch.setattr(part_store, "read_table", noted)
    return seen


@pytest.mark.parametrize(("length", "held"), [(1000, True), (20_000_000, False)])
async def test_a_large_value_in_a_small_file(on_the_loop: list[bool], length: int, held: bool) -> None:
    env = await Stores().open()
    table = pa.table({"c1": ["x" * length, "y"]})
    part = await env.parts.upload("insert", ShardId("s1"), table)
    assert part.bytes < part_store.THREAD_BYTES
    on_the_loop.clear()
    assert (await env.parts.read(part, ["c1"])).equals(table)
    assert on_the_loop == [held]
    await env.close()


async def test_many_rows(on_the_loop: list[bool]) -> None:
    env = await Stores().open()
    part = await env.parts.upload(
        "insert", ShardId("s1"), pa.table({"c1": [n * n * 7919 % 999_983 for n in range(100_000)]})
    )
    assert part.bytes > max(part_store.THREAD_BYTES, INLINE_LIMIT_BYTES)
    on_the_loop.clear()
    assert (await env.parts.read(part, ["c1"])).num_rows == 100_000
    assert on_the_loop == [False]
    await env.close()
