"""The simulated loop itself: virtual time, seeded order, killed processes, equal traces."""

from __future__ import annotations

import asyncio

import pytest

from storage.doubles.memory_consensus import MemoryConsensus
from storage.errors import Determinate, Indeterminate
from storage.stores.consensus import SeqNo, VersionedData
from tests.simulation.loop import Deadlock, Process, SimulatedLoop, simulate, spawn
from tests.simulation.network import STORMY, Conditions, Network, NetworkConsensus


def test_time_is_virtual_and_orders_timers() -> None:
    async def main(loop: SimulatedLoop) -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []

        async def sleeper(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, loop.time()))

        await asyncio.gather(sleeper("day", 86_400.0), sleeper("second", 1.0), sleeper("now", 0))
        return seen

    seen, _ = simulate(1, main)
    assert seen == [("now", 0.0), ("second", 1.0), ("day", 86_400.0)]


def test_the_seed_decides_who_runs_next() -> None:
    async def main(loop: SimulatedLoop) -> str:
        order: list[str] = []

        async def step(name: str) -> None:
            for _ in range(3):
                order.append(name)
                await asyncio.sleep(0)

        await asyncio.gather(*(step(name) for name in "abc"))
        return "".join(order)

    orders = {simulate(seed, main)[0] for seed in range(20)}
    assert len(orders) > 10
    assert [simulate(7, main)[0] for _ in range(3)] == [simulate(7, main)[0]] * 3


def test_a_killed_process_stops_where_it_is() -> None:
    async def main(loop: SimulatedLoop) -> list[str]:
        events: list[str] = []
        process = Process("p")

        async def child() -> None:
            await asyncio.sleep(0.5)
            events.append("child ran")

        async def victim() -> None:
            try:
                events.append("began")
                task = asyncio.create_task(child())
                await asyncio.sleep(1)
                events.append("went on")
                await task
            finally:
                events.append("cleaned up")

        spawn(loop, process, victim())
        await asyncio.sleep(0.2)
        process.alive = False
        await asyncio.sleep(5)
        return list(events)

    assert simulate(1, main)[0] == ["began"]


def test_a_paused_process_goes_on_later() -> None:
    async def main(loop: SimulatedLoop) -> list[tuple[str, float]]:
        events: list[tuple[str, float]] = []
        process = Process("p")

        async def worker() -> None:
            for name in ("one", "two"):
                await asyncio.sleep(1)
                events.append((name, loop.time()))

        task = spawn(loop, process, worker())
        await asyncio.sleep(0.5)
        loop.pause(process)
        await asyncio.sleep(10)
        assert events == []
        loop.resume(process)
        await task
        return events

    assert simulate(1, main)[0] == [("one", 10.5), ("two", 11.5)]


def test_a_message_outlives_its_sender() -> None:
    async def main(loop: SimulatedLoop) -> VersionedData | None:
        shared = MemoryConsensus()
        network = Network(loop, 1, Conditions(min_delay_s=0.1, max_delay_s=0.2))
        process = Process("p")
        new = VersionedData(seqno=SeqNo(1), data=b"x")
        spawn(loop, process, NetworkConsensus(shared, network).compare_and_set("k", None, new))
        await asyncio.sleep(0.01)
        process.alive = False
        await asyncio.sleep(1)
        return await shared.head("k")

    assert simulate(1, main)[0] == VersionedData(seqno=SeqNo(1), data=b"x")


async def stormy_counter(loop: SimulatedLoop, seed: int) -> tuple[int, int, int]:
    """Several processes increment a counter; returns (acknowledged, in doubt, counted)."""
    shared = MemoryConsensus()
    network = Network(loop, seed, STORMY)
    sure = doubtful = 0

    async def increment() -> None:
        nonlocal sure, doubtful
        consensus = NetworkConsensus(shared, network)
        for _ in range(20):
            try:
                head = await consensus.head("k")
                seqno = None if head is None else head.seqno
                value = 0 if head is None else int(head.data)
                new = VersionedData(seqno=SeqNo((seqno or 0) + 1), data=str(value + 1).encode())
                stored = await consensus.compare_and_set("k", seqno, new)
                sure += stored
            except Determinate:
                continue
            except Indeterminate:
                doubtful += 1

    await asyncio.gather(*(spawn(loop, Process(f"p{n}"), increment()) for n in range(4)))
    head = await shared.head("k")
    return sure, doubtful, 0 if head is None else int(head.data)


@pytest.mark.parametrize("seed", range(20))
def test_errors_mean_what_they_say(seed: int) -> None:
    (sure, doubtful, counted), _ = simulate(seed, lambda loop: stormy_counter(loop, seed))
    assert sure <= counted <= sure + doubtful
    assert counted > 0


def test_the_same_seed_gives_the_same_trace() -> None:
    traces = [simulate(5, lambda loop: stormy_counter(loop, 5))[1] for _ in range(2)]
    assert traces[0].digest == traces[1].digest
    assert traces[0].events == traces[1].events > 100
    assert simulate(6, lambda loop: stormy_counter(loop, 6))[1].digest != traces[0].digest


def test_a_deadlock_is_reported() -> None:
    async def main(loop: SimulatedLoop) -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        simulate(1, main)


def test_a_failure_that_nobody_awaits_is_reported() -> None:
    async def main(loop: SimulatedLoop) -> None:
        async def broken() -> None:
            raise ZeroDivisionError

        task = asyncio.create_task(broken())
        await asyncio.sleep(1)
        del task

    with pytest.raises(ZeroDivisionError):
        simulate(1, main)
