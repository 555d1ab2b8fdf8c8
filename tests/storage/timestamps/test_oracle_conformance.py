"""The contract of `storage.timestamps.oracle`, which every implementation keeps, with as many processes as it
serves.

Commits go through a register that stands for the txns shard: it takes a commit only at or above its upper. The
recorded history is checked for the rules between operations of which one returned before the other began.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from storage.doubles.clock import ManualClock, SeededRandomness
from storage.doubles.memory_consensus import MemoryConsensus
from storage.doubles.unreliable import NO_FAULTS, FaultRates, Faults, UnreliableConsensus
from storage.errors import Determinate, Indeterminate
from storage.stores.consensus import Consensus
from storage.stores.counting import CountingConsensus
from storage.timestamps.csn import Csn
from storage.timestamps.in_process import InProcessOracle
from storage.timestamps.oracle import TIMELINES, Oracle, Timeline
from storage.timestamps.shared import ConsensusOracle, TxnsFrontier, TxnsOracle

KINDS = ("in_process", "consensus", "txns")
SHARED = ("consensus", "txns")


class Register:
    """The txns shard's register: allocates commits in CSN order."""

    def __init__(self) -> None:
        self.frontier = TxnsFrontier(upper=Csn(0), catalog=Csn(0))

    def commit(self, timeline: Timeline, ts: Csn) -> Csn | None:
        """None: committed; otherwise the least committable CSN."""
        if ts < self.frontier.upper:
            return self.frontier.upper
        catalog = ts if timeline == "catalog" else self.frontier.catalog
        self.frontier = TxnsFrontier(upper=Csn(ts + 1), catalog=catalog)
        return None


class Head:
    """One process's view of the register; `refresh` takes a round trip of yields."""

    is_told = False
    is_current = False

    def __init__(self, register: Register, randomness: SeededRandomness) -> None:
        self._register = register
        self._randomness = randomness
        self._known = register.frontier

    def known(self) -> TxnsFrontier:
        return self._known

    async def refresh(self) -> TxnsFrontier:
        for _ in range(self._randomness.randrange(4)):
            await asyncio.sleep(0)
        self._known = self._register.frontier
        for _ in range(self._randomness.randrange(4)):
            await asyncio.sleep(0)
        return self._known


@dataclass(slots=True)
class Operation:
    kind: str
    timeline: Timeline
    began: int
    csn: int = 0
    ended: int | None = None


class World:
    """Several processes on one environment, with the history of what they did."""

    def __init__(self, kind: str, seed: int, rates: FaultRates = NO_FAULTS) -> None:
        self.kind = kind
        self.rates = rates
        self.randomness = SeededRandomness(seed)
        self.clocks = [ManualClock() for _ in range(3)]
        self.consensus: Consensus = MemoryConsensus()
        self.register = Register()
        self.history: list[Operation] = []
        self.moments = itertools.count()

    async def open(self, process: int) -> Oracle:
        clock = self.clocks[process]
        faults = Faults(rates=self.rates, randomness=self.randomness, clock=clock)
        consensus = Yielding(UnreliableConsensus(self.consensus, faults), self.randomness)
        match self.kind:
            case "in_process":
                return await InProcessOracle.open(consensus, clock, self.randomness)
            case "consensus":
                return ConsensusOracle(consensus, Impatient(clock))
            case _:
                return TxnsOracle(Head(self.register, self.randomness), clock)

    async def record(self, kind: str, timeline: Timeline, work: Callable[[], Awaitable[Csn]]) -> None:
        operation = Operation(kind, timeline, next(self.moments))
        self.history.append(operation)
        try:
            operation.csn = await work()
        except (Determinate, Indeterminate):
            self.history.remove(operation)
            return
        operation.ended = next(self.moments)

    async def read(self, oracle: Oracle, timeline: Timeline) -> None:
        await self.record("read", timeline, lambda: oracle.read_ts(timeline))

    async def commit(self, oracle: Oracle, timeline: Timeline) -> None:
        async def work() -> Csn:
            while True:
                ts = await oracle.write_ts(timeline)
                for _ in range(self.randomness.randrange(5)):
                    await asyncio.sleep(0)
                least = self.register.commit(timeline, ts)
                if least is None:
                    await oracle.apply_write(timeline, ts)
                    return ts
                oracle.abandon_write(timeline, ts)
                oracle.observe(Csn(least - 1))

        await self.record("commit", timeline, work)

    async def run(self, oracles: list[Oracle], operations: int) -> None:
        async def session(oracle: Oracle, clock: ManualClock) -> None:
            for _ in range(operations):
                timeline: Timeline = TIMELINES[self.randomness.randrange(2)]
                if self.randomness.random() < 0.5:
                    await self.read(oracle, timeline)
                else:
                    await self.commit(oracle, timeline)
                if self.randomness.random() < 0.1:
                    clock.advance(self.randomness.randrange(20_000))
                if self.randomness.random() < 0.05:
                    clock.jump(self.randomness.randrange(7_200_000) - 3_600_000)

        await asyncio.gather(
            *(session(oracle, clock) for oracle, clock in zip(oracles, self.clocks, strict=False) for _ in range(4))
        )

    def check(self) -> None:
        done = [operation for operation in self.history if operation.ended is not None]
        commits = [operation.csn for operation in done if operation.kind == "commit"]
        assert len(set(commits)) == len(commits)
        for first, second in itertools.permutations(done, 2):
            if first.timeline != second.timeline or first.ended is None or first.ended > second.began:
                continue
            match first.kind, second.kind:
                case ("read", "read") | ("commit", "read"):
                    assert first.csn <= second.csn, (first, second)
                case _:
                    assert first.csn < second.csn, (first, second)


class Yielding(CountingConsensus):
    """Consensus whose calls let other tasks run before and after they take effect."""

    def __init__(self, inner: Consensus, randomness: SeededRandomness) -> None:
        super().__init__(inner)
        self._randomness = randomness

    async def _yield(self) -> None:
        for _ in range(self._randomness.randrange(4)):
            await asyncio.sleep(0)

    async def head(self, key):  # type: ignore[no-untyped-def]
        await self._yield()
        found = await super().head(key)
        await self._yield()
        return found

    async def compare_and_set(self, key, expected_seqno, new):  # type: ignore[no-untyped-def]
        await self._yield()
        stored = await super().compare_and_set(key, expected_seqno, new)
        await self._yield()
        return stored


class Impatient:
    """A clock whose sleeps only yield, so that retries need nobody to advance it."""

    def __init__(self, inner: ManualClock) -> None:
        self.now_ms = inner.now_ms
        self.monotonic = inner.monotonic

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", KINDS)
async def test_one_process_keeps_the_rules(kind: str, seed: int) -> None:
    world = World(kind, seed)
    await world.run([await world.open(0)], 15)
    world.check()
    assert sum(operation.kind == "commit" for operation in world.history) > 10


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", SHARED)
async def test_three_processes_keep_the_rules(kind: str, seed: int) -> None:
    world = World(kind, seed)
    await world.run([await world.open(process) for process in range(3)], 10)
    world.check()
    assert sum(operation.kind == "commit" for operation in world.history) > 30


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", ["consensus"])
async def test_the_rules_hold_on_a_failing_store(kind: str, seed: int) -> None:
    world = World(kind, seed, FaultRates(fail_before=0.1, unknown_before=0.1, unknown_after=0.1))
    await world.run([await world.open(process) for process in range(3)], 8)
    world.check()
    assert sum(operation.kind == "commit" for operation in world.history) > 20


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", KINDS)
async def test_the_rules_hold_across_a_restart(kind: str, seed: int) -> None:
    world = World(kind, seed)
    for _ in range(4):
        oracle = await world.open(0)
        await world.run([oracle], 4)
        world.clocks[0].jump(-7_200_000)
    world.check()


@pytest.mark.parametrize("kind", SHARED)
async def test_concurrent_reads_share_a_round_trip(kind: str) -> None:
    world = World(kind, 1)
    oracle = await world.open(0)
    first = asyncio.create_task(oracle.read_ts("user"))
    await asyncio.sleep(0)
    await asyncio.gather(first, *(oracle.read_ts("user") for _ in range(100)))
    assert isinstance(oracle, (ConsensusOracle, TxnsOracle))
    assert oracle.round_trips == 2


async def test_concurrent_writes_share_a_round_trip_and_differ() -> None:
    world = World("consensus", 1)
    oracle = await world.open(0)
    stamps = await asyncio.gather(*(oracle.write_ts("user") for _ in range(100)))
    assert len(set(stamps)) == 100
    assert isinstance(oracle, ConsensusOracle)
    assert oracle.round_trips == 1


async def test_a_caching_oracle_would_be_caught() -> None:
    """The suite bites: an oracle that answers reads from the last answer fails it."""

    class Caching(TxnsOracle):
        async def read_ts(self, timeline: Timeline) -> Csn:
            return self._head.known().read_ts(timeline)

    world = World("txns", 3)
    oracles: list[Oracle] = [
        Caching(Head(world.register, world.randomness), world.clocks[process]) for process in range(3)
    ]
    await world.run(oracles, 10)
    with pytest.raises(AssertionError):
        world.check()
