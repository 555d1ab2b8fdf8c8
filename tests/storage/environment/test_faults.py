"""A full store, one that does not answer, clocks that jump: nothing acknowledged is lost, and errors say what to do."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest
from structlog.testing import capture_logs

from storage.doubles.clock import ManualClock, SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.durable import state as durable
from storage.environment.environment import Environment
from storage.environment.local_environment import open_local_environment
from storage.environment.opening import open_on_stores
from storage.errors import Determinate, Indeterminate, StoreFull, StoreUnavailable
from storage.stores import blob_local, consensus_sqlite
from storage.stores.blob import ByteRange
from storage.stores.blob_local import LocalBlob
from storage.stores.consensus import SeqNo, VersionedData
from storage.stores.consensus_sqlite import SqliteConsensus
from storage.timestamps.csn import Csn
from storage.transactions.txns_shard import Committed
from tests.storage.environments import Stores, commit, create, insert, read, rows


class FillingConsensus(MemoryConsensus):
    """A store that is full while told so."""

    full = False

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        if self.full:
            raise StoreFull("no space left on device; free space and try again")
        return await super().compare_and_set(key, expected_seqno, new)


class FillingBlob(MemoryBlob):
    """A store that is full while told so."""

    full = False

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        if self.full:
            raise StoreFull("no space left on device; free space and try again")
        return await super().put_if_absent(key, data)


async def open_on(consensus: MemoryConsensus, blob: MemoryBlob, clock: ManualClock) -> Environment:
    return await open_on_stores(
        blob=blob,
        consensus=consensus,
        clock=clock,
        random=SeededRandomness(1),
        process="test",
        background=False,
        validate=True,
    )


async def test_a_full_consensus_store_refuses_and_recovers() -> None:
    consensus, blob, clock = FillingConsensus(), MemoryBlob(), ManualClock()
    env = await open_on(consensus, blob, clock)
    shard = await create(env, (1, "a"))
    consensus.full = True
    txn = env.begin()
    txn.write(shard, rows((2, "b")))
    ts = await env.oracle.write_ts("user")
    with pytest.raises(StoreFull, match="free space"):
        await env.committer.commit(txn, ts=ts)
    env.oracle.abandon_write("user", ts)
    assert await read(env, shard) == {0: (1, "a")}
    consensus.full = False
    await commit(env, txn)
    assert await read(env, shard) == {0: (1, "a"), 1: (2, "b")}


async def test_a_full_blob_store_aborts_the_transaction_that_met_it() -> None:
    consensus, blob, clock = MemoryConsensus(), FillingBlob(), ManualClock()
    env = await open_on(consensus, blob, clock)
    shard = await create(env, (1, "a"))
    blob.full = True
    txn = env.begin()
    txn.write(shard, rows(*[(n, "x" * 100) for n in range(2000)]))
    ts = await env.oracle.write_ts("user")
    with pytest.raises(Determinate, match="no space left"):
        await env.committer.commit(txn, ts=ts)
    blob.full = False
    env.oracle.abandon_write("user", ts)
    assert not env.cache.state.staged
    again = await env.committer.commit(txn, ts=Csn(env.cache.upper + 1))
    assert isinstance(again, Committed)
    assert len(await read(env, shard, again.ts)) == 2001


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
async def test_a_wall_clock_that_jumps_changes_no_order_and_loses_no_process(jump_ms: int) -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    other, env = await stores.open("other"), await stores.open("one")
    shard = await create(env, (0, "a"))
    before = await env.oracle.read_ts("user")
    txn = other.begin()
    await other.cache.durable.refresh()
    txn.write(shard, rows(*[(n, "x" * 100) for n in range(1, 1000)]))
    await txn.spill(force=True)
    clock.jump(jump_ms)
    first = await insert(env, shard, (1000, "b"))
    assert first.ts > before
    second = await insert(env, shard, (1001, "c"))
    assert second.ts > first.ts
    # An hour of wall-clock time is no reason to bury a process that was seen a moment ago.
    await env.maintenance.run({shard})
    await env.maintenance.orphans.collect()
    assert other.process in env.cache.state.leases
    assert isinstance(await other.committer.commit(txn, ts=Csn(second.ts + 1)), Committed)
    assert len(await read(other, shard, Csn(second.ts + 1))) == 1002
    await env.close()
    again = await stores.open("again")
    third = await insert(again, shard, (1002, "d"))
    assert third.ts > second.ts + 1
    assert len(await read(again, shard)) == 1003


@pytest.mark.parametrize(("behind_ms", "warned"), [(3_600_000, True), (5_000, False), (-3_600_000, False)])
async def test_commits_ahead_of_the_clock_are_told_of_at_the_start(behind_ms: int, warned: bool) -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    env = await stores.open("one")
    shard = await create(env, (0, "a"))
    await env.close()
    clock.jump(-behind_ms)
    with capture_logs() as told:
        env = await stores.open("two")
    assert [entry["seconds"] for entry in told if "ahead of the system clock" in entry["event"]] == (
        [pytest.approx(3600, abs=20)] if warned else []
    )
    assert len(await read(env, shard)) == 1


@pytest.fixture
async def on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Environment]:
    """An environment in a folder, whose stores have to answer soon."""
    monkeypatch.setattr(consensus_sqlite, "ANSWER_LIMIT_S", 0.1)
    monkeypatch.setattr(blob_local, "ANSWER_LIMIT_S", 0.1)
    monkeypatch.setattr(durable, "GIVE_UP_S", 0.3)
    env = await open_local_environment(tmp_path / "data")
    yield env
    await env.close()


@contextlib.contextmanager
def stuck(env: Environment) -> Iterator[None]:
    """The consensus store takes no write meanwhile: somebody else holds its lock."""
    assert isinstance(env.consensus, SqliteConsensus)
    other = apsw.Connection(str(env.consensus.path))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


async def test_a_consensus_store_that_does_not_answer_leaves_the_outcome_open(on_disk: Environment) -> None:
    env = on_disk
    shard = await create(env, (1, "a"))
    txn = env.begin(xid=77)
    txn.write(shard, rows((2, "b")))
    ts = await env.oracle.write_ts("user")
    with (
        stuck(env),
        pytest.raises(Indeterminate, match=r"consensus\.sqlite has not answered within 0\.1 seconds; check"),
    ):
        await env.committer.commit(txn, ts=ts)
    env.oracle.abandon_write("user", ts)
    # What was sent arrives when the store goes on; asked for, the outcome is what everybody sees.
    await asyncio.sleep(0.5)
    status = await env.outcomes.status(77)
    at = Csn(env.cache.upper - 1)
    assert (len(await read(env, shard, at)) == 2) == (status == "committed")
    await insert(env, shard, (3, "c"))
    assert (3, "c") in (await read(env, shard)).values()


async def test_a_consensus_store_that_answers_late_commits_once(
    on_disk: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = on_disk
    monkeypatch.setattr(durable, "GIVE_UP_S", 30.0)
    shard = await create(env, (1, "a"))
    with stuck(env):
        committing = asyncio.ensure_future(insert(env, shard, (2, "b")))
        await asyncio.sleep(0.4)
        assert not committing.done()
    await committing
    assert await read(env, shard) == {0: (1, "a"), 1: (2, "b")}


async def test_a_blob_store_that_does_not_answer_is_an_error_that_says_so(
    on_disk: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = on_disk
    shard = await create(env)
    txn = env.begin()
    txn.write(shard, rows(*[(n, "x" * 100) for n in range(2000)]))
    await commit(env, txn)
    await env.applier.apply_all()
    going_on = threading.Event()
    read_file = LocalBlob._get

    def hanging(self: LocalBlob, key: str, byte_range: ByteRange | None) -> bytes | None:
        going_on.wait(10)
        return read_file(self, key, byte_range)

    monkeypatch.setattr(LocalBlob, "_get", hanging)
    with pytest.raises(StoreUnavailable, match=r"blob has not answered within 0\.1 seconds; check the disk"):
        await read(env, shard)
    going_on.set()
    assert len(await read(env, shard)) == 2000
