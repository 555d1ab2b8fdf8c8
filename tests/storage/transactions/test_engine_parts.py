"""Files of engines in a commit: what is promised of them, and how often the stores have to be waited for.

What is counted is rounds of latency: an operation that begins after another one has ended is a round later than that,
and those that are under way at the same time are of one round. No time is measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from storage.clock import SystemClock
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.environment import Environment
from storage.environment.opening import open_on_stores
from storage.errors import CorruptPart, Determinate
from storage.ids import ShardId
from storage.shards.footers import footer_of
from storage.shards.part_store import TOMBSTONE
from storage.shards.parts import UploadedPart, checksum, encode_parquet
from storage.stores.blob import ByteRange
from storage.stores.consensus import SeqNo, VersionedData
from storage.transactions.txns_shard import UpperMismatch
from tests.storage.environments import commit, create, insert, read, rows

T = TypeVar("T")


class Rounds:
    """Counts the rounds that a commit has waited for."""

    def __init__(self) -> None:
        self.over = 0

    async def of(self, operation: Callable[[], Awaitable[T]]) -> T:
        """What `operation` gives, after those that were asked for at the same time have begun too."""
        own = self.over + 1
        await asyncio.sleep(0.02)
        result = await operation()
        self.over = max(self.over, own)
        return result


class RoundsBlob(MemoryBlob):
    """A store of objects that takes part in the rounds."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__()
        self._rounds = rounds

    async def get(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        return await self._rounds.of(lambda: MemoryBlob.get(self, key, byte_range))

    async def size(self, key: str) -> int | None:
        return await self._rounds.of(lambda: MemoryBlob.size(self, key))

    async def put(self, key: str, data: bytes) -> None:
        await self._rounds.of(lambda: MemoryBlob.put(self, key, data))

    async def make_durable(self, key: str) -> int | None:
        return await self._rounds.of(lambda: MemoryBlob.make_durable(self, key))


class RoundsConsensus(MemoryConsensus):
    """A consensus store that takes part in the rounds."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__()
        self._rounds = rounds

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        return await self._rounds.of(lambda: MemoryConsensus.compare_and_set(self, key, expected_seqno, new))


async def opened(blob: MemoryBlob, consensus: MemoryConsensus) -> tuple[Environment, ShardId]:
    env = await open_on_stores(
        blob=blob, consensus=consensus, clock=SystemClock(), random=SeededRandomness(1), process="test",
        background=False, validate=True,
    )  # fmt: skip
    return env, await create(env)


async def written(env: Environment, shard: ShardId, first: int, *, told: bool = True) -> UploadedPart:
    """A file that an engine has written; `told`: it tells everything of it."""
    key, data = env.parts.new_key(shard), encode_parquet(rows(*[(first + n, "x") for n in range(1000)]))
    await env.blob.put(key, data)
    if not told:
        return UploadedPart(key=key, rows=1000, bytes=len(data), checksum=checksum(data))
    return UploadedPart(key=key, rows=1000, bytes=len(data), checksum=checksum(data), footer=footer_of(data))


@pytest.mark.parametrize("files", [1, 5])
async def test_a_commit_of_an_engine_s_files_waits_for_one_round(files: int) -> None:
    rounds = Rounds()
    env, shard = await opened(RoundsBlob(rounds), RoundsConsensus(rounds))
    await insert(env, shard, (0, "before"))
    took = {}
    for told in (False, True):
        uploads = [await written(env, shard, 1000 * (files * told + n), told=told) for n in range(files)]
        before = rounds.over
        txn = env.begin()
        for uploaded in uploads:
            await txn.write_part(shard, uploaded)
        await commit(env, txn)
        took[told] = rounds.over - before
        assert len(await read(env, shard)) == 1000 * files * (1 + told) + 1
    assert took[True] == 1
    assert took[False] == 2 * files + 1
    # With the writing of the files, which an engine's tasks do at the same time.
    assert (1 + took[True]) / (1 + took[False]) <= 0.6 if files > 1 else took[True] / took[False] <= 0.6
    await env.close()


async def test_what_is_not_there_is_not_committed() -> None:
    env, shard = await opened(MemoryBlob(), MemoryConsensus())
    await insert(env, shard, (1, "a"))
    uploaded = await written(env, shard, 100)
    txn = env.begin()
    await env.blob.delete(uploaded.key)
    await txn.write_part(shard, uploaded)
    with pytest.raises(Determinate, match="is gone"):
        await commit(env, txn)
    assert list((await read(env, shard)).values()) == [(1, "a")]
    # Nobody is held up by it.
    await insert(env, shard, (2, "b"))
    assert len(await read(env, shard)) == 2
    await env.close()


async def test_what_another_process_has_prevented_is_not_committed() -> None:
    env, shard = await opened(MemoryBlob(), MemoryConsensus())
    uploaded = await written(env, shard, 100)
    txn = env.begin()
    await env.blob.put(uploaded.key, TOMBSTONE)
    await txn.write_part(shard, uploaded)
    ts = await env.oracle.write_ts("user")
    assert isinstance(await env.committer.commit(txn, ts=ts), UpperMismatch)
    env.oracle.abandon_write("user", ts)
    assert await read(env, shard) == {}
    await env.close()


async def test_a_store_that_cannot_be_asked_does_not_lose_a_file_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    blob = MemoryBlob()
    env, shard = await opened(blob, MemoryConsensus())
    uploaded = await written(env, shard, 100)
    txn = env.begin()
    await txn.write_part(shard, uploaded)
    asked = 0

    async def fails(key: str) -> int | None:
        nonlocal asked
        asked += 1
        raise Determinate("not now")

    monkeypatch.setattr(blob, "make_durable", fails)
    await commit(env, txn)
    assert asked >= 2
    assert len(await read(env, shard)) == 1000
    await env.close()


async def test_a_footer_that_is_none_is_refused() -> None:
    env, shard = await opened(MemoryBlob(), MemoryConsensus())
    txn = env.begin()
    for footer in (b"PAR1", b"nothing of a footer", b"\0" * 40):
        with pytest.raises(CorruptPart):
            await txn.write_part(
                shard, UploadedPart(key=env.parts.new_key(shard), rows=1, bytes=9, checksum="c", footer=footer)
            )
    await env.close()
