"""Parallel commit: latency, prevention, resolution by others, dead coordinators, and lost answers."""

from __future__ import annotations

import asyncio

import pytest

from storage.doubles.clock import ManualClock, SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.background import KEEP_ALIVE_S
from storage.environment.environment import Environment
from storage.environment.opening import open_on_stores
from storage.errors import Determinate, Indeterminate, StoreFull, StoreTimeout, StoreUnavailable
from storage.ids import ShardId
from storage.membership.watch import LEASE_MS
from storage.shards.part_store import TOMBSTONE
from storage.stores.consensus import SeqNo, VersionedData
from storage.timestamps.csn import Csn
from storage.transactions.parallel_commit import HEARTBEAT_S, STAGED_LIMIT_S
from storage.transactions.txn import Txn
from storage.transactions.txns_shard import Committed, UpperMismatch
from tests.storage.environments import create, read, rows

BIG = rows(*[(n, "x" * 100) for n in range(2000)])


class SlowBlob(MemoryBlob):
    """Uploads take `delay_s`, wait for `gate`, or fail as `fail` says."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.manual = clock
        self.delay_s = 0.0
        self.gate: asyncio.Event | None = None
        self.fail: Exception | None = None
        self.lose_answers = False
        self.waiting = 0

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        if data != TOMBSTONE:
            if self.fail is not None:
                raise self.fail
            if self.delay_s:
                await self.manual.sleep(self.delay_s)
            if self.gate is not None:
                self.waiting += 1
                await self.gate.wait()
            if self.lose_answers:
                await super().put_if_absent(key, data)
                raise StoreTimeout("no answer")
        return await super().put_if_absent(key, data)


class SlowConsensus(MemoryConsensus):
    """Compare-and-sets on the txns shard take `delay_s`, or lose their answer; or the store cannot be reached."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.manual = clock
        self.delay_s = 0.0
        self.lose_answers = False
        self.unreachable = False

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        if self.unreachable:
            raise StoreUnavailable("no route")
        if self.delay_s and key == "txns":
            await self.manual.sleep(self.delay_s)
        result = await super().compare_and_set(key, expected_seqno, new)
        if self.lose_answers and key == "txns":
            raise StoreTimeout("no answer")
        return result

    async def scan(self, key: str, from_seqno: SeqNo, limit: int | None = None) -> list[VersionedData]:
        if self.unreachable or (self.lose_answers and key == "txns"):
            raise StoreUnavailable("no route")
        return await super().scan(key, from_seqno, limit)


class World:
    """Two processes on one environment, and control over their stores."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.blob = SlowBlob(self.clock)
        self.consensus = SlowConsensus(self.clock)
        self.seed = 0

    async def open(self, name: str) -> Environment:
        self.seed += 1
        return await open_on_stores(
            blob=self.blob,
            consensus=self.consensus,
            clock=self.clock,
            random=SeededRandomness(self.seed),
            process=name,
            shared=True,
            background=False,
            validate=True,
        )

    async def run(self, task: asyncio.Task[object], limit_ms: int = 100_000) -> int:
        """Let time pass until `task` is done. Returns the milliseconds it took."""
        start = self.clock.monotonic()
        while not task.done():
            for _ in range(50):
                await asyncio.sleep(0)
            if not task.done() and self.clock._sleepers:
                due = min(at_ms for at_ms, _ in self.clock._sleepers)
                self.clock.advance(max(1, round(due - self.clock.monotonic() * 1000)))
                assert self.clock.monotonic() - start < limit_ms / 1000
            elif not task.done():
                await asyncio.sleep(0.001)
        return round((self.clock.monotonic() - start) * 1000)


async def big_txn(env: Environment, shard: ShardId, xid: int | None = None) -> Txn:
    txn = env.begin(xid)
    txn.write(shard, BIG)
    return txn


async def staged(world: World, env: Environment, shard: ShardId, xid: int | None = None) -> asyncio.Task[object]:
    """A commit under way whose record is durable and whose upload is held up."""
    world.blob.gate = asyncio.Event()
    txn = await big_txn(env, shard, xid)
    ts = await env.oracle.write_ts("user")
    task: asyncio.Task[object] = asyncio.create_task(env.committer.commit(txn, ts=ts))
    while not env.cache.state.staged:
        await env.cache.changed()
    return task


async def test_upload_and_append_run_at_the_same_time() -> None:
    world = World()
    env = await world.open("one")
    shard = await create(env)
    world.blob.delay_s = world.consensus.delay_s = 0.1
    txn = await big_txn(env, shard)
    ts = await env.oracle.write_ts("user")
    task: asyncio.Task[object] = asyncio.create_task(env.committer.commit(txn, ts=ts))
    passed = await world.run(task)
    assert isinstance(task.result(), Committed)
    assert 100 <= passed <= 120
    assert env.cache.implicit
    world.blob.delay_s = world.consensus.delay_s = 0
    assert len(await read(env, shard)) == 2000
    await env.applier.apply_all()
    assert not env.cache.state.staged
    assert len(await read(env, shard)) == 2000


async def test_a_small_commit_takes_one_operation_of_a_slow_store() -> None:
    world = World()
    env = await world.open("one")
    shard = await create(env)
    world.blob.delay_s = world.consensus.delay_s = 0.1
    txn = env.begin()
    txn.write(shard, rows((1, "a")))
    ts = await env.oracle.write_ts("user")
    task: asyncio.Task[object] = asyncio.create_task(env.committer.commit(txn, ts=ts))
    assert 100 <= await world.run(task) <= 105
    assert isinstance(task.result(), Committed)


async def test_a_staged_record_delays_only_its_shards_and_only_from_its_csn() -> None:
    world = World()
    env = await world.open("one")
    shard, other = await create(env, (1, "a")), await create(env, (2, "b"))
    before = await env.oracle.read_ts("user")
    task = await staged(world, env, shard)
    now = await env.oracle.read_ts("user")
    assert now > before
    assert await read(env, other, now) == {0: (2, "b")}
    assert await read(env, shard, before) == {0: (1, "a")}
    blocked: asyncio.Task[object] = asyncio.create_task(read(env, shard, now))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not blocked.done()
    assert world.blob.gate is not None
    world.blob.gate.set()
    assert isinstance(await task, Committed)
    rows_now = await blocked
    assert isinstance(rows_now, dict)
    assert len(rows_now) == 2001


async def test_a_later_commit_on_the_shard_keeps_the_order_of_row_ids() -> None:
    world = World()
    env, peer = await world.open("one"), await world.open("two")
    shard = await create(env)
    task = await staged(world, env, shard)
    txn = env.begin()
    txn.write(shard, rows((9, "later")))
    later = await env.committer.commit(txn, ts=Csn(env.cache.upper + 5))
    assert isinstance(later, Committed)
    await env.applier.apply_all()
    assert world.blob.gate is not None
    world.blob.gate.set()
    assert isinstance(await task, Committed)
    assert (await read(env, shard, later.ts))[2000] == (9, "later")
    await env.applier.apply_all()
    await env.applier.apply_all()
    assert (await read(env, shard, later.ts))[2000] == (9, "later")
    await peer.cache.durable.refresh()
    assert (await read(peer, shard, later.ts))[2000] == (9, "later")


async def test_the_work_of_a_dead_coordinator_with_all_parts_present_is_committed() -> None:
    world = World()
    env = await world.open("one")
    peer = await world.open("two")
    shard = await create(env)
    txn = await big_txn(env, shard, xid=77)
    ts = await env.oracle.write_ts("user")
    assert isinstance(await env.committer.commit(txn, ts=ts), Committed)
    # The coordinator answered and died; its record is still STAGED.
    await peer.cache.durable.refresh()
    assert peer.cache.state.staged
    task: asyncio.Task[object] = asyncio.create_task(read(peer, shard, ts))
    passed = await world.run(task)
    assert passed >= STAGED_LIMIT_S * 1000
    found = task.result()
    assert isinstance(found, dict)
    assert len(found) == 2000
    assert not peer.cache.state.staged
    assert await peer.outcomes.status(77) == "committed"


async def test_a_living_coordinator_may_take_as_long_as_it_needs() -> None:
    world = World()
    env, peer = await world.open("one"), await world.open("two")
    shard = await create(env, (1, "a"))
    task = await staged(world, env, shard)
    await peer.cache.durable.refresh()
    reading = asyncio.create_task(read(peer, shard, Csn(peer.cache.upper - 1)))
    for _ in range(4 * round(STAGED_LIMIT_S)):
        world.clock.advance(1_000)
        for _ in range(50):
            await asyncio.sleep(0)
        for process in (env, peer):
            await process.cache.durable.refresh()
            assert await process.staging.resolve_overdue() == 0
    assert not task.done()
    assert not reading.done()
    assert world.blob.gate is not None
    world.blob.gate.set()
    assert isinstance(await task, Committed)
    await env.applier.apply_all()
    await peer.cache.durable.refresh()
    assert len(await reading) == 2001


async def test_a_record_that_its_living_process_has_given_up_is_resolved_by_others() -> None:
    world = World()
    env, peer = await world.open("one"), await world.open("two")
    shard = await create(env)
    txn = await big_txn(env, shard)
    ts = await env.oracle.write_ts("user")
    assert isinstance(await env.committer.commit(txn, ts=ts), Committed)
    await peer.cache.durable.refresh()
    reading = asyncio.create_task(read(peer, shard, ts))
    for second in range(4 * round(KEEP_ALIVE_S)):
        if second % round(KEEP_ALIVE_S) == 0:
            await env.leases.renew()
        world.clock.advance(1_000)
        for _ in range(50):
            await asyncio.sleep(0)
        await peer.cache.durable.refresh()
    assert reading.done()
    assert len(reading.result()) == 2000
    assert 2 * HEARTBEAT_S < STAGED_LIMIT_S < KEEP_ALIVE_S


async def test_who_cannot_be_sure_of_its_lease_any_more_answers_that_the_outcome_is_not_known() -> None:
    world = World()
    env, peer = await world.open("one"), await world.open("two")
    shard = await create(env)
    xid = await env.xids.draw()
    task = await staged(world, env, shard, xid)
    # The consensus store cannot be reached for longer than the lease is safe; the blob store can.
    world.consensus.unreachable = True
    world.clock.advance(LEASE_MS)
    assert world.blob.gate is not None
    world.blob.gate.set()
    await world.run(task)
    assert isinstance(task.exception(), Indeterminate)
    world.consensus.unreachable = False
    # Everything was stored: it has committed. Nobody coordinates it any more, so its process needs not wait either.
    assert await env.staging.resolve_overdue() == 1
    assert await env.outcomes.status(xid) == "committed"
    await peer.cache.durable.refresh()
    assert len(await read(peer, shard, Csn(peer.cache.upper - 1))) == 2000


async def test_an_upload_in_doubt_that_is_there_is_a_commit_even_if_that_cannot_be_written_down() -> None:
    world = World()
    env = await world.open("one")
    shard = await create(env)
    world.blob.gate = asyncio.Event()
    txn = await big_txn(env, shard)
    task: asyncio.Task[object] = asyncio.create_task(env.committer.commit(txn, ts=await env.oracle.write_ts("user")))
    while not env.cache.state.staged:
        await env.cache.changed()
    world.blob.lose_answers = world.consensus.unreachable = True
    world.blob.gate.set()
    await world.run(task)
    assert isinstance(task.result(), Committed)
    world.blob.lose_answers = world.consensus.unreachable = False
    assert len(await read(env, shard)) == 2000


async def test_the_work_of_a_dead_coordinator_with_a_missing_part_is_aborted() -> None:
    world = World()
    env, peer = await world.open("one"), await world.open("two")
    shard = await create(env, (1, "a"))
    xid = await env.xids.draw()
    await staged(world, env, shard, xid=xid)
    await peer.cache.durable.refresh()
    ts = Csn(peer.cache.upper - 1)
    task: asyncio.Task[object] = asyncio.create_task(read(peer, shard, ts))
    await world.run(task)
    assert task.result() == {0: (1, "a")}
    assert not peer.cache.state.staged
    assert await peer.outcomes.status(xid) == "in progress"
    await peer.txns_shard.tidy(expired=[env.process])
    assert await peer.outcomes.status(xid) == "aborted"


async def test_a_coordinator_that_comes_back_after_prevention_repeats_with_new_files() -> None:
    world = World()
    env, peer = await world.open("one"), await world.open("two")
    shard = await create(env)
    task = await staged(world, env, shard)
    await peer.cache.durable.refresh()
    (record,) = peer.cache.state.staged.values()
    await peer.staging.resolve(record)
    assert world.blob.gate is not None
    world.blob.gate.set()
    result = await task
    assert isinstance(result, UpperMismatch)
    assert not any(write.parts for write in env.cache.state.pending[shard])
    await env.maintenance.orphans.collect()


async def test_prevented_transactions_can_be_committed_again() -> None:
    world = World()
    env, peer = await world.open("one"), await world.open("two")
    shard = await create(env)
    world.blob.gate = asyncio.Event()
    txn = await big_txn(env, shard)
    first: asyncio.Task[object] = asyncio.create_task(env.committer.commit(txn, ts=await env.oracle.write_ts("user")))
    while not env.cache.state.staged:
        await env.cache.changed()
    await peer.cache.durable.refresh()
    await peer.staging.resolve(next(iter(peer.cache.state.staged.values())))
    world.blob.gate.set()
    mismatch = await first
    assert isinstance(mismatch, UpperMismatch)
    again = await env.committer.commit(txn, ts=Csn(mismatch.least_committable + 10))
    assert isinstance(again, Committed)
    assert len(await read(env, shard, again.ts)) == 2000


@pytest.mark.parametrize(("failure", "kind"), [(StoreUnavailable, Determinate), (StoreFull, StoreFull)])
async def test_a_failed_upload_aborts_and_says_so(failure: type[Determinate], kind: type[Determinate]) -> None:
    world = World()
    env = await world.open("one")
    shard = await create(env, (1, "a"))
    world.blob.fail = failure("the bucket is gone")
    txn = await big_txn(env, shard)
    ts = await env.oracle.write_ts("user")
    task: asyncio.Task[object] = asyncio.create_task(env.committer.commit(txn, ts=ts))
    await world.run(task)
    with pytest.raises(kind, match="the bucket is gone"):
        task.result()
    assert not env.cache.state.staged
    assert await read(env, shard, Csn(env.cache.upper - 1)) == {0: (1, "a")}


async def test_a_lost_answer_to_the_record_is_an_abort_while_a_part_is_missing() -> None:
    world = World()
    env, peer = await world.open("one"), await world.open("two")
    shard = await create(env)
    await peer.cache.durable.refresh()
    world.blob.gate = asyncio.Event()
    world.consensus.lose_answers = True
    xid = await env.xids.draw()
    txn = await big_txn(env, shard, xid=xid)
    task: asyncio.Task[object] = asyncio.create_task(env.committer.commit(txn, ts=await env.oracle.write_ts("user")))
    await world.run(task)
    assert isinstance(task.exception(), Determinate)
    world.consensus.lose_answers = False
    for asked, expected in ((peer, "in progress"), (env, "aborted")):
        status: asyncio.Task[object] = asyncio.create_task(asked.outcomes.status(xid))
        await world.run(status)
        assert status.result() == expected
    world.blob.gate.set()


async def test_a_lost_answer_with_all_parts_present_is_ambiguous_and_explained_later() -> None:
    world = World()
    env, peer = await world.open("one"), await world.open("two")
    shard = await create(env)
    await peer.cache.durable.refresh()
    world.consensus.lose_answers = True
    txn = await big_txn(env, shard, xid=6)
    task: asyncio.Task[object] = asyncio.create_task(env.committer.commit(txn, ts=await env.oracle.write_ts("user")))
    await world.run(task)
    assert isinstance(task.exception(), Indeterminate)
    world.consensus.lose_answers = False
    status: asyncio.Task[object] = asyncio.create_task(peer.outcomes.status(6))
    await world.run(status)
    assert status.result() == "committed"
    assert len(await read(peer, shard, Csn(peer.cache.upper - 1))) == 2000
    # The same transaction committed once more does nothing.
    again = await env.committer.commit(txn, ts=Csn(peer.cache.upper + 10))
    assert isinstance(again, Committed)
    assert again.ts < peer.cache.upper
    assert len(await read(env, shard, Csn(env.cache.upper - 1))) == 2000


async def test_definitions_are_not_staged() -> None:
    from tests.storage.environments import SCHEMA

    world = World()
    env = await world.open("one")
    txn = env.begin()
    shard = env.new_shard_id()
    txn.create_shard(shard, SCHEMA)
    txn.write(shard, BIG)
    result = await env.committer.commit(txn, ts=await env.oracle.write_ts("user"))
    assert isinstance(result, Committed)
    assert not env.cache.state.staged
    assert len(await read(env, shard, result.ts)) == 2000


async def test_what_a_dead_coordinator_left_staged_runs_until_it_is_resolved() -> None:
    world = World()
    one, two = await world.open("one"), await world.open("two")
    shard = await create(one, (0, "a"))
    before = await two.oracle.read_ts("user")
    xid = await one.xids.draw()
    task = await staged(world, one, shard, xid)
    task.cancel()
    # Its process is gone, and with it its lease; what it staged may yet turn out to be committed.
    await two.txns_shard.tidy(expired=[one.process])
    assert (await two.outcomes.current_snapshot(before)).xip == (xid,)
    assert world.blob.gate is not None
    world.blob.gate.set()
