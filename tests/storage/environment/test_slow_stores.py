"""What statements cost in time and operations when every operation of a store takes 100 ms.

Virtual time: a hundred milliseconds are exactly that, and what overlaps shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from adapter.transactions.commit_request import CommitRequest, Isolation
from adapter.transactions.group_commit import GroupCommitter
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.background import KEEP_ALIVE_S
from storage.environment.environment import Environment
from storage.environment.opening import open_on_stores
from storage.stores.counting import CountingBlob, CountingConsensus
from storage.transactions.txn import Txn
from tests.simulation import loop as loop_module
from tests.simulation.loop import SimulatedClock, SimulatedLoop, simulate
from tests.simulation.network import Conditions, Network, NetworkBlob, NetworkConsensus
from tests.storage.environments import SCHEMA, commit, create, deletion, insert, read, rows

T = TypeVar("T")

OPERATION_S = 0.1
BIG = rows(*[(n, "x" * 100) for n in range(2000)])


class Slow:
    """An environment whose stores take `OPERATION_S` for an operation, and what was asked of them."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        network = Network(loop, 1, Conditions(min_delay_s=OPERATION_S / 2, max_delay_s=OPERATION_S / 2))
        self.blob = CountingBlob(NetworkBlob(MemoryBlob(), network))
        self.consensus = CountingConsensus(NetworkConsensus(MemoryConsensus(), network))
        self.env: Environment

    async def open(self, *, background: bool, shared: bool = False) -> Environment:
        """Open the environment."""
        self.env = await open_on_stores(
            blob=self.blob,
            consensus=self.consensus,
            clock=SimulatedClock(self.loop),
            random=SeededRandomness(1),
            process="test",
            shared=shared,
            background=background,
        )
        return self.env

    async def cost(self, work: Callable[[], Awaitable[T]]) -> tuple[float, dict[str, int], dict[str, int], T]:
        """Run `work`: the operations that it took one after the other, and the calls to consensus and blob."""
        start, consensus, blob = self.loop.time(), self.consensus.counts.copy(), self.blob.counts.copy()
        result = await work()
        operations = round((self.loop.time() - start) / OPERATION_S, 3)
        calls = (self.consensus.counts - consensus).calls, (self.blob.counts - blob).calls
        return operations, dict(calls[0]), dict(calls[1]), result


def slowly(work: Callable[[Slow], Coroutine[Any, Any, None]]) -> None:
    """Run `work` on a `Slow` in virtual time."""

    async def main(loop: SimulatedLoop) -> None:
        await work(Slow(loop))

    simulate(1, main)


ONE_WRITE = {"compare_and_set": 1}

FOLLOWED_S = 3.1
"""How long two servers are left alone between what is counted: so that it never falls together with a keep-alive."""


@pytest.mark.parametrize("shared", [False, True])
def test_each_statement_waits_for_as_few_operations_as_can_be(shared: bool) -> None:
    async def work(slow: Slow) -> None:
        env = await slow.open(background=False, shared=shared)
        timestamp = {"scan": 1} if shared else {}
        shard, other = await create(env, (0, "old")), await create(env)

        assert (await slow.cost(lambda: insert(env, shard, (1, "a"))))[:3] == (1, ONE_WRITE, {})

        txn = env.begin()
        txn.write(other, rows((1, "a")))
        txn.delete(shard, deletion((0, 0, "old")))
        assert (await slow.cost(lambda: commit(env, txn)))[:3] == (1, ONE_WRITE, {})

        waited, consensus, blob, found = await slow.cost(lambda: read(env, shard))
        assert (waited, consensus, blob) == (len(timestamp), timestamp, {})
        assert found == {1: (1, "a")}

        # Upload and record at the same time; the record is made explicit later, off the client's path.
        large = env.begin()
        large.write(shard, BIG)
        assert (await slow.cost(lambda: commit(env, large)))[:3] == (1, ONE_WRITE, {"put_if_absent": 1})
        await env.applier.apply_all()

        waited, consensus, blob, found = await slow.cost(lambda: read(env, shard))
        assert (waited, consensus, blob) == (1 + len(timestamp), timestamp, {"get": 1})
        assert len(found) == 2001

        definition = env.begin()
        definition.create_shard(env.new_shard_id(), SCHEMA)
        assert (await slow.cost(lambda: commit(env, definition)))[:3] == (1, ONE_WRITE, {})

    slowly(work)


@pytest.mark.parametrize("shared", [False, True])
def test_sessions_that_insert_at_once_share_the_writes(shared: bool) -> None:
    async def work(slow: Slow) -> None:
        env = await slow.open(background=False, shared=shared)
        shard = await create(env)
        committer = GroupCommitter(env)
        committer.start()
        at = await env.oracle.read_ts("user")

        def request(number: int) -> CommitRequest:
            txn: Txn = env.begin()
            txn.write(shard, rows((number, "a")))
            return CommitRequest(
                txn=txn,
                isolation=Isolation.READ_COMMITTED,
                snapshot=at,
                reads=(),
                catalog_updates=(),
                catalog_reads={},
            )

        async def all_at_once() -> None:
            await asyncio.gather(*(committer.commit(request(number)) for number in range(64)))

        waited, consensus, blob, _ = await slow.cost(all_at_once)
        # The first goes alone or with all; who comes while it is written shares the next.
        assert consensus["compare_and_set"] == committer.groups <= 2
        assert set(consensus) == {"compare_and_set"}
        assert blob == {}
        assert waited == committer.groups
        await committer.close()
        assert len(await read(env, shard)) == 64

    slowly(work)


def test_an_idle_environment_costs_its_keep_alive_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "MAX_STEPS", 1_000_000)

    async def work(slow: Slow) -> None:
        env = await slow.open(background=True)
        for _ in range(20):
            shard = await create(env, (1, "a"))
            txn = env.begin()
            txn.write(shard, BIG)
            await commit(env, txn)
        # What there was to apply, to compact and to look for is done.
        await asyncio.sleep(400)
        _, consensus, blob, _ = await slow.cost(lambda: asyncio.sleep(1000 * KEEP_ALIVE_S))
        assert set(consensus) == {"compare_and_set", "watch"}
        assert 980 <= consensus["compare_and_set"] <= 1000
        assert blob == {}
        await env.close()

    slowly(work)


def test_two_live_servers_wait_for_no_more_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "MAX_STEPS", 1_000_000)

    async def work(slow: Slow) -> None:
        env = await slow.open(background=True, shared=True)
        peer = await open_on_stores(
            blob=slow.blob.inner,
            consensus=slow.consensus.inner,
            clock=SimulatedClock(slow.loop),
            random=SeededRandomness(2),
            process="peer",
            shared=True,
        )
        shard = await create(env, (0, "a"))
        for number in range(1, 6):
            # Both have followed what was done, and neither is at its keep-alive.
            await asyncio.sleep(FOLLOWED_S)
            assert (await slow.cost(lambda: insert(env, shard, (1, "a"))))[0] == 1
            await asyncio.sleep(FOLLOWED_S)
            waited, _, blob, found = await slow.cost(lambda: read(env, shard))
            assert (waited, blob, len(found)) == (1, {}, 2 * number)
            # What the peer has acknowledged is there at once.
            await insert(peer, shard, (2, "b"))
            assert len(await read(env, shard)) == 2 * number + 1
            await asyncio.sleep(FOLLOWED_S)
            definition = env.begin()
            definition.create_shard(env.new_shard_id(), SCHEMA)
            waited, *_ = await slow.cost(lambda txn=definition: commit(env, txn))  # type: ignore[misc]
            assert waited == 1
        large = env.begin()
        large.write(shard, BIG)
        await asyncio.sleep(FOLLOWED_S)
        assert (await slow.cost(lambda: commit(env, large)))[0] == 1
        await peer.close()
        await env.close()

    slowly(work)
