"""PostgreSQL's snapshots over the transactions of several processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from storage.clock import SystemClock
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.environment import Environment
from storage.environment.local_environment import open_local_environment
from storage.environment.opening import open_on_stores
from storage.errors import SnapshotTooOld
from storage.stores.consensus import VersionedData
from storage.timestamps.csn import Csn
from storage.transactions.txns_state import MAX_OUTCOMES
from storage.transactions.xids import PgSnapshot, Xid
from tests.storage.environments import commit, create, rows


async def opened(blob: MemoryBlob, consensus: MemoryConsensus, number: int) -> Environment:
    return await open_on_stores(
        blob=blob,
        consensus=consensus,
        clock=SystemClock(),
        random=SeededRandomness(number),
        process=f"p{number}",
        shared=True,
        background=False,
        validate=True,
    )


class Model:
    """What has become of every xid, as the test knows it."""

    def __init__(self) -> None:
        self.committed: dict[int, Csn] = {}
        self.running: dict[int, Environment] = {}
        self.aborted: set[int] = set()

    def check(self, snapshot: PgSnapshot, at: Csn) -> None:
        for xid, csn in self.committed.items():
            assert snapshot.visible(Xid(xid)) == (csn <= at), (str(snapshot), xid, csn, at)
        for xid in self.running:
            assert not snapshot.visible(Xid(xid)), (str(snapshot), xid)
        assert snapshot.xmin == (snapshot.xip[0] if snapshot.xip else snapshot.xmax)


@pytest.mark.parametrize("seed", range(8))
async def test_snapshots_are_right_for_the_transactions_of_all_processes(seed: int) -> None:
    random = Random(seed)
    blob, consensus = MemoryBlob(), MemoryConsensus()
    envs = [await opened(blob, consensus, number) for number in range(3)]
    shard = await create(envs[0])
    for env in envs:
        await env.oracle.read_ts("user")
    model, held = Model(), [await envs[0].oracle.read_ts("user")]
    for step in range(150):
        env = random.choice(envs)
        match random.choice(["draw", "draw", "commit", "commit", "abort", "look", "settle"]):
            case "draw":
                drawn = await asyncio.gather(*(env.xids.draw() for _ in range(random.randint(1, 3))))
                assert sorted(drawn) == drawn
                assert not set(drawn) & {*model.committed, *model.running, *model.aborted}
                model.running.update(dict.fromkeys(drawn, env))
            case "commit" if model.running:
                xid, env = random.choice(list(model.running.items()))
                txn = env.begin(xid)
                txn.write(shard, rows((step, "a")))
                model.committed[xid] = (await commit(env, txn)).ts
                del model.running[xid]
                if random.random() < 0.7:
                    env.xids.ended(xid)
            case "abort" if model.running:
                xid, env = random.choice(list(model.running.items()))
                env.xids.ended(xid, in_doubt=random.random() < 0.3)
                model.aborted.add(xid)
                del model.running[xid]
            case "settle":
                await env.leases.keep_alive()
            case _:
                held.append(await env.oracle.read_ts("user"))
                for at in (held[-1], random.choice(held)):
                    model.check(await env.outcomes.current_snapshot(at), at)
    for xid in [*model.committed]:
        for env in envs:
            env.xids.ended(xid)
    for env in envs:
        await env.leases.keep_alive()
    for env in envs:
        at = await env.oracle.read_ts("user")
        snapshot = await env.outcomes.current_snapshot(at)
        model.check(snapshot, at)
        assert set(snapshot.xip) == set(model.running), "what has aborted is over for everybody"
        assert {xid: env.outcomes.committed_at(xid) for xid in model.committed} == model.committed
    for xid in model.aborted:
        assert [await env.outcomes.status(xid) for env in envs] == ["aborted"] * 3
    for xid, owner in model.running.items():
        assert {await env.outcomes.status(xid) for env in envs if env is not owner} == {"in progress"}
    # The transactions of a process that is gone are over.
    gone = envs.pop()
    await envs[0].txns_shard.tidy(expired=[gone.process])
    for env in envs:
        at = await env.oracle.read_ts("user")
        left = {xid for xid, owner in model.running.items() if owner is not gone}
        assert set((await env.outcomes.current_snapshot(at)).xip) == left


async def test_a_process_alone_writes_down_what_runs_before_others_begin(tmp_path: Path) -> None:
    one = await open_local_environment(tmp_path, peers=True, process="one")
    shard = await create(one)
    running = [await one.xids.draw() for _ in range(3)]
    one.xids.ended(running[1])
    alone = await one.outcomes.current_snapshot(await one.oracle.read_ts("user"))
    assert str(alone) == f"{running[0]}:{running[2] + 1}:{running[0]},{running[2]}"
    two = await open_local_environment(tmp_path, peers=True, process="two")
    seen = await two.outcomes.current_snapshot(await two.oracle.read_ts("user"))
    assert seen.xip == (running[0], running[2])
    drawn = [await env.xids.draw() for env in (two, one, two)]
    assert drawn == sorted(drawn)
    assert drawn[0] >= seen.xmax
    txn = one.begin(running[0])
    txn.write(shard, rows((1, "a")))
    await commit(one, txn)
    one.xids.ended(running[0])
    for env in (one, two):
        snapshot = await env.outcomes.current_snapshot(await env.oracle.read_ts("user"))
        assert snapshot.xip == (running[2], *drawn)
    await two.close()
    while not one.leases.sole or one.oracle.asks_store:
        await one.clock.sleep(0.02)
    after = await one.outcomes.current_snapshot(await one.oracle.read_ts("user"))
    assert after.xip == (running[2], drawn[1])
    assert after.xmax > drawn[2]
    assert await one.xids.draw() >= after.xmax
    await one.close()


async def test_a_snapshot_that_cannot_be_told_any_more_is_too_old() -> None:
    env = await opened(MemoryBlob(), MemoryConsensus(), 1)
    shard = await create(env)
    at = await env.oracle.read_ts("user")
    merged = env.begin()
    for _ in range(MAX_OUTCOMES + 1):
        txn = env.begin(await env.xids.draw())
        txn.write(shard, rows((1, "a")))
        merged.merge(txn)
    await commit(env, merged)
    with pytest.raises(SnapshotTooOld):
        await env.outcomes.current_snapshot(at)
    await env.outcomes.current_snapshot(await env.oracle.read_ts("user"))


class SlowToLook(MemoryConsensus):
    """A store whose next `head` can be held up on its way there."""

    def __init__(self) -> None:
        super().__init__()
        self.holding = False
        self.held = asyncio.Event()
        self.gate = asyncio.Event()

    async def head(self, key: str) -> VersionedData | None:
        """See `Consensus.head`."""
        if self.holding:
            self.holding = False
            self.held.set()
            await self.gate.wait()
        return await super().head(key)


async def test_what_is_drawn_while_one_looks_is_not_overlooked() -> None:
    consensus = SlowToLook()
    env = await opened(MemoryBlob(), consensus, 1)
    await create(env)
    at = await env.oracle.read_ts("user")
    consensus.holding = True
    looking = asyncio.create_task(env.outcomes.current_snapshot(at))
    await consensus.held.wait()
    xid = await env.xids.draw()
    consensus.gate.set()
    snapshot = await looking
    assert snapshot.xmax == xid + 1
    assert snapshot.xip == (xid,)
