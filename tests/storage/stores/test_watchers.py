"""Watching a key: what all consensus stores share."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage.errors import StorageClosed
from storage.stores.consensus import SeqNo, VersionedData
from storage.stores.consensus_sqlite import SqliteConsensus
from storage.stores.watchers import Watchers


async def test_who_watches_is_woken_by_the_move_it_waits_for_and_no_other() -> None:
    watchers = Watchers()
    first, later, other = (
        asyncio.ensure_future(watchers.wait(key, SeqNo(number))) for key, number in (("a", 1), ("a", 5), ("b", 0))
    )
    await asyncio.sleep(0)
    assert sorted(watchers.keys) == ["a", "b"]
    assert watchers.unseen
    watchers.moved("a", SeqNo(1))
    await asyncio.sleep(0)
    assert not first.done()
    watchers.moved("a", SeqNo(3))
    await first
    assert not later.done()
    assert not other.done()
    later.cancel()
    other.cancel()
    await asyncio.wait({later, other})
    assert not watchers


async def test_what_has_moved_already_is_not_waited_for() -> None:
    watchers = Watchers()
    watchers.moved("a", SeqNo(4))
    watchers.moved("a", SeqNo(2))
    assert watchers.has_moved("a", SeqNo(3))
    await watchers.wait("a", SeqNo(3))
    assert not watchers


async def test_a_store_that_closes_tells_who_waits() -> None:
    watchers = Watchers()
    waiting = asyncio.ensure_future(watchers.wait("a", SeqNo(0)))
    await asyncio.sleep(0)
    watchers.fail(StorageClosed("closed"))
    with pytest.raises(StorageClosed):
        await waiting


async def test_following_ones_own_writes_asks_sqlite_nothing(tmp_path: Path) -> None:
    store = await SqliteConsensus.open(tmp_path / "consensus.sqlite")
    reads = 0
    read = store._readers.submit

    def counted(*arguments: object) -> object:
        nonlocal reads
        reads += 1
        return read(*arguments)  # type: ignore[arg-type]

    store._readers.submit = counted  # type: ignore[method-assign, assignment]
    for number in range(1, 101):
        watching = asyncio.ensure_future(store.watch("k", SeqNo(number - 1)))
        await asyncio.sleep(0)
        assert await store.compare_and_set(
            "k", SeqNo(number - 1) or None, VersionedData(seqno=SeqNo(number), data=b"x")
        )
        await watching
    # Only the poller, which looks at its interval, has read.
    assert reads < 100
    await store.close()
