"""Advisory locks of several processes on a store that fails and is late: nobody has what excludes another."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection

import pytest

from adapter.transactions.locks import tags
from adapter.transactions.locks.lock import Owner, Patience
from adapter.transactions.locks.lock_table import LockTable
from adapter.transactions.locks.modes import CONFLICTS, Mode
from adapter.transactions.locks.servers import between_servers
from adapter.transactions.locks.servers.between_servers import PAGES, BetweenServers
from adapter.transactions.locks.servers.page import Page
from adapter.transactions.locks.tags import Tag
from planner.errors import DeadlockDetected, LockNotAvailable
from storage.clock import SystemClock
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_consensus import MemoryConsensus
from storage.doubles.unreliable import FaultRates, Faults, UnreliableConsensus
from storage.durable.registers import decode_register
from storage.errors import Determinate, Indeterminate

KEYS = [tags.advisory(5, 0, number, 1) for number in range(3)]
STEPS = 25
RATES = FaultRates(fail_before=0.05, unknown_before=0.05, unknown_after=0.05, late=0.3, max_delay_s=0.003)


class Environment:
    """The processes that live, and what each session has, as it knows itself."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.memory = MemoryConsensus()
        faults = Faults(rates=RATES, randomness=SeededRandomness(seed), clock=SystemClock())
        self.consensus = UnreliableConsensus(self.memory, faults)
        self.living: set[str] = set()
        self.had: dict[Tag, dict[tuple[str, int], Mode]] = defaultdict(dict)
        self.faults: list[str] = []
        self.taken = 0

    def note(self, tag: Tag, session: tuple[str, int], mode: Mode) -> None:
        """`session` has been told that it has the lock."""
        for other, its in self.had[tag].items():
            if CONFLICTS[mode] >> its & 1:
                self.faults.append(f"{session} has {mode.name} of {tag} beside {its.name} of {other}")
        self.had[tag][session] = mode
        self.taken += 1

    async def pages(self) -> list[Page]:
        """What is written down."""
        heads = [await self.memory.head(f"locks/advisory/{number}") for number in range(PAGES)]
        return [decode_register(head.data, Page, "a page") for head in heads if head is not None]


class Process:
    """A process of the environment, with its lock table."""

    def __init__(self, environment: Environment, name: str, *, has_strangers: bool = True) -> None:
        self.environment, self.name, self.has_strangers = environment, name, has_strangers
        self.before_sharing: list[Callable[[], Awaitable[None]]] = []
        self.locks = LockTable(SystemClock())
        self.servers = BetweenServers(
            consensus=environment.consensus, clock=SystemClock(), peers=self, process=name, locks=self.locks
        )
        self.tasks: list[asyncio.Task[None]] = []
        environment.living.add(name)

    async def living(self, processes: Collection[str]) -> frozenset[str]:
        """See `Others`."""
        return frozenset(self.environment.living.intersection(processes))

    async def kill(self) -> None:
        """End at once, and say nothing to anybody."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.servers.close()
        self.environment.living.discard(self.name)
        for sessions in self.environment.had.values():
            for session in [session for session in sessions if session[0] == self.name]:
                del sessions[session]

    async def take(self, owner: Owner, tag: Tag, mode: Mode, patience: Patience, *, wait: bool = True) -> bool:
        """As `adapter.queries.acting.advisory_locks` does it."""
        with self.servers.asking(owner, tag, mode):
            if wait:
                await self.locks.lock(owner, tag, mode, patience)
            elif not self.locks.try_lock(owner, tag, mode):
                return False
            return await self.servers.take(owner, tag, mode, patience, wait=wait)

    async def work(self, pid: int) -> None:
        """Transactions of a session, each of which takes some locks."""
        chance, owner = self.environment.chance, Owner(pid=pid)
        session = self.name, pid
        for _ in range(STEPS):
            try:
                for tag in chance.sample(KEYS, chance.randint(1, 2)):
                    mode = chance.choice((Mode.SHARE, Mode.EXCLUSIVE))
                    patience = Patience(lock_timeout_ms=chance.choice((0, 0, 30)), deadlock_timeout_ms=20)
                    if await self.take(owner, tag, mode, patience, wait=chance.random() < 0.8):
                        self.environment.note(tag, session, mode)
                    await asyncio.sleep(chance.random() * 0.004)
            except (LockNotAvailable, DeadlockDetected, Determinate, Indeterminate):
                pass
            for sessions in self.environment.had.values():
                sessions.pop(session, None)
            self.locks.release(owner)


async def run(seed: int) -> Environment:
    """Three processes with three sessions each, one of which is killed, and one that comes then."""
    environment = Environment(seed)
    processes = [Process(environment, name) for name in "abc"]

    def begin(process: Process) -> None:
        process.tasks = [asyncio.ensure_future(process.work(pid)) for pid in (1, 2, 3)]

    for process in processes:
        begin(process)
    await asyncio.sleep(0.2)
    await processes.pop().kill()
    processes.append(Process(environment, "d"))
    begin(processes[-1])
    async with asyncio.timeout(60):
        await asyncio.gather(*(task for process in processes for task in process.tasks))
    for process in processes:
        await process.servers.told(KEYS)
        await process.servers.close()
    return environment


@pytest.mark.parametrize("seed", range(2))
async def test_nobody_has_what_excludes_another(seed: int) -> None:
    environment = await run(seed)
    assert environment.faults == []
    assert environment.taken > 50
    left = [each for page in await environment.pages() for entry in page.entries for each in entry.holders]
    assert [each for each in left if each.process in environment.living] == []


async def test_a_mistake_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between_servers, "blockers", lambda entry, waiter: [])
    assert (await run(1)).faults


async def test_what_a_process_has_is_written_down_before_others_begin() -> None:
    environment = Environment(1)
    first, patience = Process(environment, "a", has_strangers=False), Patience()
    owner = Owner(pid=1)
    assert await first.take(owner, KEYS[0], Mode.EXCLUSIVE, patience)
    assert await environment.pages() == []
    first.has_strangers = True
    for share in first.before_sharing:
        await share()
    second, other = Process(environment, "b"), Owner(pid=1)
    assert not await second.take(other, KEYS[0], Mode.SHARE, patience, wait=False)
    second.locks.release(other)
    first.locks.release(owner)
    await first.servers.told(KEYS)
    assert await second.take(other, KEYS[0], Mode.SHARE, patience, wait=False)


async def test_they_take_turns() -> None:
    """A process whose sessions always want a lock does not keep it from another one's."""
    environment = Environment(1)
    first, second = Process(environment, "a"), Process(environment, "b")
    stopping = asyncio.Event()

    async def want(pid: int) -> None:
        owner = Owner(pid=pid)
        while not stopping.is_set():
            await first.take(owner, KEYS[0], Mode.EXCLUSIVE, Patience())
            await asyncio.sleep(0.001)
            first.locks.release(owner)

    wanting = [asyncio.ensure_future(want(pid)) for pid in range(1, 5)]
    async with asyncio.timeout(20):
        for _ in range(3):
            await asyncio.sleep(0.02)
            owner = Owner(pid=1)
            await second.take(owner, KEYS[0], Mode.EXCLUSIVE, Patience())
            second.locks.release(owner)
    stopping.set()
    await asyncio.gather(*wanting, return_exceptions=True)
