"""The contract of `storage.stores.consensus`, which every implementation keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage.errors import Determinate, InvalidKey
from storage.stores.consensus import Consensus, SeqNo, VersionedData
from tests.storage.store_servers import CONSENSUSES, ConsensusFactory, consensus_factory


@pytest.fixture(params=CONSENSUSES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> ConsensusFactory:
    postgres = request.getfixturevalue("postgres") if request.param == "postgres" else None
    return consensus_factory(request.param, tmp_path, postgres)


@pytest.fixture
async def consensus(opened: ConsensusFactory) -> AsyncIterator[Consensus]:
    async with opened() as store:
        yield store


def diff(seqno: int, data: bytes | None = None) -> VersionedData:
    return VersionedData(seqno=SeqNo(seqno), data=f"d{seqno}".encode() if data is None else data)


async def append(consensus: Consensus, key: str, count: int) -> None:
    head = await consensus.head(key)
    seqno = None if head is None else head.seqno
    for _ in range(count):
        new = diff((seqno or 0) + 1)
        assert await consensus.compare_and_set(key, seqno, new) is True
        seqno = new.seqno


async def test_a_key_never_written_is_absent(consensus: Consensus) -> None:
    assert await consensus.head("k") is None
    assert await consensus.scan("k", SeqNo(0)) == []
    assert await consensus.list_keys() == []
    with pytest.raises(Determinate):
        await consensus.truncate("k", SeqNo(1))


async def test_compare_and_set_appends_to_the_expected_head(consensus: Consensus) -> None:
    assert await consensus.compare_and_set("k", None, diff(1)) is True
    assert await consensus.head("k") == diff(1)
    assert await consensus.compare_and_set("k", SeqNo(1), diff(2)) is True
    assert await consensus.head("k") == diff(2)
    assert await consensus.scan("k", SeqNo(0)) == [diff(1), diff(2)]


async def test_a_wrong_expectation_writes_nothing(consensus: Consensus) -> None:
    assert await consensus.compare_and_set("k", SeqNo(4), diff(5)) is False
    assert await consensus.head("k") is None
    await append(consensus, "k", 2)
    assert await consensus.compare_and_set("k", None, diff(1, b"x")) is False
    assert await consensus.compare_and_set("k", SeqNo(1), diff(2, b"x")) is False
    assert await consensus.compare_and_set("k", SeqNo(3), diff(4, b"x")) is False
    assert await consensus.scan("k", SeqNo(0)) == [diff(1), diff(2)]


async def test_sequence_numbers_are_consecutive(consensus: Consensus) -> None:
    with pytest.raises(ValueError, match="does not follow"):
        await consensus.compare_and_set("k", None, diff(2))
    await append(consensus, "k", 1)
    for seqno in (0, 1, 3):
        with pytest.raises(ValueError, match="does not follow"):
            await consensus.compare_and_set("k", SeqNo(1), diff(seqno))
    assert await consensus.head("k") == diff(1)


async def test_keys_are_independent(consensus: Consensus) -> None:
    await append(consensus, "b", 2)
    await append(consensus, "a", 1)
    await append(consensus, "a/b", 1)
    assert await consensus.list_keys() == ["a", "a/b", "b"]
    assert await consensus.head("a") == diff(1)
    assert await consensus.head("b") == diff(2)


async def test_scan_starts_where_asked(consensus: Consensus) -> None:
    await append(consensus, "k", 5)
    assert await consensus.scan("k", SeqNo(3)) == [diff(3), diff(4), diff(5)]
    assert await consensus.scan("k", SeqNo(2), limit=2) == [diff(2), diff(3)]
    assert await consensus.scan("k", SeqNo(6)) == []


async def test_truncate_keeps_the_head(consensus: Consensus) -> None:
    await append(consensus, "k", 5)
    assert await consensus.truncate("k", SeqNo(3)) == 2
    assert await consensus.truncate("k", SeqNo(3)) == 0
    assert await consensus.truncate("k", SeqNo(1)) == 0
    assert await consensus.scan("k", SeqNo(0)) == [diff(3), diff(4), diff(5)]
    with pytest.raises(Determinate):
        await consensus.truncate("k", SeqNo(6))
    assert await consensus.truncate("k", SeqNo(5)) == 2
    assert await consensus.scan("k", SeqNo(0)) == [diff(5)]
    await append(consensus, "k", 1)
    assert await consensus.scan("k", SeqNo(2)) == [diff(5), diff(6)]
    assert await consensus.list_keys() == ["k"]


async def test_data_is_kept_to_the_byte(consensus: Consensus) -> None:
    data = bytes(range(256)) * 1024
    assert await consensus.compare_and_set("k", None, diff(1, data)) is True
    assert await consensus.compare_and_set("k", SeqNo(1), diff(2, b"")) is True
    assert await consensus.scan("k", SeqNo(0)) == [diff(1, data), diff(2, b"")]


async def test_of_concurrent_compare_and_sets_one_wins(opened: ConsensusFactory) -> None:
    async with opened() as one, opened() as two:
        expected: SeqNo | None = None
        for round_number in range(1, 21):
            contenders = [diff(round_number, f"{n}".encode()) for n in range(8)]
            won = await asyncio.gather(
                *((one if n % 2 else two).compare_and_set("k", expected, d) for n, d in enumerate(contenders))
            )
            assert sum(won) == 1
            assert await one.head("k") == await two.head("k") == contenders[won.index(True)]
            expected = SeqNo(round_number)


async def test_concurrent_increments_are_all_counted(opened: ConsensusFactory) -> None:
    async def increment(consensus: Consensus, times: int) -> None:
        for _ in range(times):
            while True:
                head = await consensus.head("counter")
                value = 0 if head is None else int(head.data)
                new = diff(1 if head is None else head.seqno + 1, str(value + 1).encode())
                if await consensus.compare_and_set("counter", None if head is None else head.seqno, new):
                    break

    async with opened() as one, opened() as two:
        await asyncio.gather(*(increment(store, 10) for store in (one, two, one, two)))
        assert await one.head("counter") == diff(40, b"40")
        assert [d.data for d in await two.scan("counter", SeqNo(0))] == [str(n).encode() for n in range(1, 41)]


async def test_watch_returns_at_once_when_the_key_has_moved(consensus: Consensus) -> None:
    await append(consensus, "k", 2)
    await consensus.watch("k", SeqNo(0))
    await consensus.watch("k", SeqNo(1))


async def test_watch_waits_for_the_move(opened: ConsensusFactory) -> None:
    async with opened() as one, opened() as two:
        await append(one, "k", 1)
        watching = [asyncio.create_task(store.watch("k", SeqNo(1))) for store in (one, two)]
        unborn = asyncio.create_task(two.watch("unborn", SeqNo(0)))
        later = asyncio.create_task(two.watch("k", SeqNo(2)))
        await append(one, "other", 1)
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in [*watching, unborn, later])
        await append(one, "k", 1)
        await asyncio.gather(*watching)
        assert not later.done()
        await append(one, "unborn", 1)
        await unborn
        await append(one, "k", 1)
        await later


async def test_a_cancelled_watch_leaves_no_trace(consensus: Consensus) -> None:
    watching = asyncio.create_task(consensus.watch("k", SeqNo(0)))
    await asyncio.sleep(0.01)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    await append(consensus, "k", 1)
    assert await consensus.head("k") == diff(1)


@pytest.mark.parametrize("key", ["", "a b", "ü", "a" * 300, "a\n"])
async def test_keys_that_are_not_portable_are_refused(consensus: Consensus, key: str) -> None:
    with pytest.raises(InvalidKey):
        await consensus.compare_and_set(key, None, diff(1))
    with pytest.raises(InvalidKey):
        await consensus.head(key)
