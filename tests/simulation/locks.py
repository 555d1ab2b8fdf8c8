"""Locks in a simulation: servers whose sessions take rows, tables and advisory locks, hand rows on, and are killed.

Each server has a lock table (the adapter's, with the simulated clock) and a committer that writes groups of
transactions to counters, one for each row, which outlive the server. A transaction takes locks in an order of its own,
so that some wait for each other; adds one to each counter whose row it has to itself; goes back to savepoints; gives
up, or is cancelled; and queues for its commit, where it passes its rows on to those who follow it. Groups fail, members
are refused, servers are killed with locks held.

A ledger of its own knows who is where (`Ledger`). What must hold:

- Nobody has what another one excludes, unless he follows him, who then is decided (and certain, where that is asked).
- No addition is lost, nobody is told of one that is not durable, and what follows a lost one is lost.
- Who follows only what is certain loses nothing but by a group that failed.
- A deadlock ends, and only those end by it who wait for themselves. Nobody waits for ever.
- When all is over the lock table is empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from adapter.transactions.locks import tags
from adapter.transactions.locks.lock import Follows, Owner, Patience, Request
from adapter.transactions.locks.lock_table import LockTable
from adapter.transactions.locks.modes import (
    CONFLICTS,
    FOR_KEY_SHARE,
    FOR_NO_KEY_UPDATE,
    FOR_SHARE,
    FOR_UPDATE,
    Mode,
)
from adapter.transactions.locks.tags import Tag
from planner.errors import DeadlockDetected, LockNotAvailable, SqlError
from storage.doubles.clock import SeededRandomness
from tests.simulation.loop import Process, SimulatedClock, SimulatedLoop, Trace, simulate, spawn

TABLE = 16384
ROWS = 4
SERVERS = 2
SESSIONS = 6
TRANSACTIONS = 12
KILLS = 2

LONGEST_WAIT_S = 120.0
"""Virtual time that nobody waits for a lock as long as all others go on."""

Outcome = Literal["open", "decided", "durable", "refused", "failed"]


@dataclass(eq=False)
class Attempt:
    """One transaction as the ledger knows it."""

    owner: Owner
    held: dict[Tag, set[Mode]] = field(default_factory=dict)
    counters: dict[int, int] = field(default_factory=dict)
    """What it makes of the counters."""
    followed: list[Attempt] = field(default_factory=list)
    follows: Follows = Follows.NOBODY
    outcome: Outcome = "open"
    is_certain: bool = False
    """Whether only a group that fails can keep it from being durable, once it is decided."""
    has_passed_on: bool = False
    wish: tuple[Tag, Mode] | None = None
    wishes_since: float = 0.0
    over: asyncio.Future[None] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether it was decided, and will not be durable."""
        return self.outcome in ("refused", "failed")

    def excludes(self, tag: Tag, mode: Mode) -> bool:
        """Whether it has a mode of `tag` that conflicts with `mode`."""
        return any(CONFLICTS[mode] >> held & 1 for held in self.held.get(tag, ()))


class Server:
    """One process with its lock table, its sessions and its committer."""

    def __init__(self, world: World, process: Process, counters: dict[int, int], answered: dict[int, int]) -> None:
        self.world = world
        self.process = process
        self.table = _WatchedTable(self)
        self.counters = counters
        """What is durable."""
        self.answered = answered
        """How many additions somebody was told of."""
        self.attempts: dict[Attempt, None] = {}
        self.queue: list[Attempt] = []
        self.pids = iter(range(1, 1_000_000))
        self.tasks: list[asyncio.Task[None]] = []

    # ------------------------------------------------------------ sessions

    async def session(self) -> None:
        """One transaction after the other."""
        for _ in range(TRANSACTIONS):
            await self._transaction()
            await asyncio.sleep(self.world.random() * 0.05)

    async def _transaction(self) -> None:
        draw = self.world.randomness
        attempt = Attempt(Owner(pid=next(self.pids), database_oid=5))
        attempt.follows = (Follows.NOBODY, Follows.CERTAIN, Follows.CERTAIN, Follows.ANYBODY)[draw.randrange(4)]
        steps = 1 if attempt.follows is Follows.ANYBODY else 1 + draw.randrange(4)
        self.attempts[attempt] = None
        work = asyncio.ensure_future(self._work(attempt, steps))
        if self.world.random() < 0.1:
            asyncio.get_running_loop().call_later(self.world.random(), work.cancel)
        try:
            await work
        except (DeadlockDetected, LockNotAvailable, asyncio.CancelledError):
            self._end(attempt)
            return
        self._end(attempt)
        if attempt.outcome == "durable":
            for row in attempt.counters:
                self.answered[row] += 1

    def _end(self, attempt: Attempt) -> None:
        del self.attempts[attempt]
        attempt.owner.is_certain, attempt.owner.decide = False, None
        self.table.release(attempt.owner)

    async def _work(self, attempt: Attempt, steps: int) -> None:
        draw = self.world.randomness
        marks: list[tuple[int, dict[Tag, set[Mode]], dict[int, int]]] = []
        for _ in range(steps):
            drawn = self.world.random()
            if drawn < 0.65:
                await self._take_row(attempt, draw.randrange(ROWS))
            elif drawn < 0.8:
                await self._take(attempt, tags.relation(1 + draw.randrange(2)), Mode(1 + draw.randrange(8)))
            elif drawn < 0.9:
                await self._take(attempt, tags.advisory(5, 0, draw.randrange(2), 1), Mode.EXCLUSIVE)
            elif drawn < 0.95 or not marks:
                held = {tag: set(modes) for tag, modes in attempt.held.items()}
                marks.append((self.table.mark(attempt.owner), held, dict(attempt.counters)))
            else:
                mark, attempt.held, attempt.counters = marks.pop()
                self.table.release_since(attempt.owner, mark)
            await asyncio.sleep(self.world.random() * 0.1)
        if attempt.counters and self.world.random() < 0.9:
            await self._commit(attempt)

    # ------------------------------------------------------------ locks

    async def _take(self, attempt: Attempt, tag: Tag, mode: Mode) -> None:
        with self._wishing(attempt, tag, mode):
            await self.table.lock(attempt.owner, tag, mode, self._patience())
        self._has(attempt, tag, mode, Follows.NOBODY)

    async def _take_row(self, attempt: Attempt, row: int) -> None:
        modes = (FOR_KEY_SHARE, FOR_SHARE, FOR_NO_KEY_UPDATE, FOR_NO_KEY_UPDATE, FOR_NO_KEY_UPDATE, FOR_UPDATE)
        mode, tag = modes[self.world.randomness.randrange(len(modes))], tags.row(TABLE, row)
        follows = attempt.follows if mode == FOR_NO_KEY_UPDATE else Follows.NOBODY
        with self._wishing(attempt, tag, mode):
            await self.table.lock_row(attempt.owner, TABLE, row, mode, self._patience(), follows=follows)
        self._has(attempt, tag, mode, follows)
        if mode in (FOR_NO_KEY_UPDATE, FOR_UPDATE) and row not in attempt.counters:
            ahead = [other for other in self.attempts if other.outcome == "decided" and row in other.counters]
            newest = max([other.counters[row] for other in ahead], default=self.counters[row])
            attempt.followed += ahead
            self.world.followers += bool(ahead)
            attempt.counters[row] = newest + 1

    def _wishing(self, attempt: Attempt, tag: Tag, mode: Mode) -> _Wishing:
        return _Wishing(self, attempt, tag, mode)

    def _patience(self) -> Patience:
        timeout_ms = 1 + self.world.randomness.randrange(3_000) if self.world.random() < 0.1 else 0
        return Patience(lock_timeout_ms=timeout_ms, deadlock_timeout_ms=1_000)

    def _has(self, attempt: Attempt, tag: Tag, mode: Mode, follows: Follows) -> None:
        # Who has a row in a stronger mode has it in this one, too.
        known = tag.kind == "tuple" and max(attempt.held.get(tag, ()), default=0) >= mode
        for other in () if known else self.attempts:
            if other is not attempt and other.excludes(tag, mode):
                may = other.has_passed_on and (
                    follows is Follows.ANYBODY or (follows is Follows.CERTAIN and other.owner.is_certain)
                )
                if not may:
                    self.world.problem(f"two have {tag} at once, in {mode.lock_name} and {other.held[tag]}")
        attempt.held.setdefault(tag, set()).add(mode)

    def waits_for_itself(self, attempt: Attempt) -> bool:
        """Whether `attempt` may wait for itself: a way leads back to it over those who have, or wait for, what excludes
        what somebody wants."""
        seen: set[int] = set()
        todo = [attempt]
        while todo:
            for blocker in self._blockers(todo.pop()):
                if blocker is attempt:
                    return True
                if id(blocker) not in seen:
                    seen.add(id(blocker))
                    todo.append(blocker)
        return False

    def _blockers(self, attempt: Attempt) -> Iterator[Attempt]:
        if attempt.wish is None:
            return
        tag, mode = attempt.wish
        for other in self.attempts:
            waits = other.wish is not None and other.wish[0] == tag and CONFLICTS[mode] >> other.wish[1] & 1
            if other is not attempt and (waits or other.excludes(tag, mode)):
                yield other

    # ------------------------------------------------------------ commits

    async def _commit(self, attempt: Attempt) -> None:
        attempt.outcome = "decided"
        attempt.over = asyncio.get_running_loop().create_future()
        self.queue.append(attempt)
        # Nothing to be refused for in some of them.
        certain = self.world.random() < 0.5 and all(
            other.is_certain and not other.is_lost for other in attempt.followed
        )

        def decide() -> None:
            attempt.has_passed_on = True
            attempt.owner.is_certain = certain
            self.table.pass_on(attempt.owner, TABLE)

        attempt.is_certain = certain
        if attempt.owner.is_awaited:
            decide()
        else:
            attempt.owner.decide = decide
        while not attempt.over.done():
            try:
                await asyncio.shield(attempt.over)
            except asyncio.CancelledError:
                continue  # The commit alone says what becomes of it.

    async def committer(self) -> None:
        """Groups, one after the other."""
        while True:
            await asyncio.sleep(0.001 + self.world.random() * 0.05)
            group, self.queue = self.queue, []
            group = [attempt for attempt in group if self._validated(attempt)]
            for attempt in group:
                attempt.is_certain = True
                if attempt.has_passed_on and not attempt.owner.is_certain:
                    attempt.owner.is_certain = True
                    self.table.pass_on(attempt.owner, TABLE)
            await asyncio.sleep(self.world.random() * 0.1)
            fails = self.world.random() < 0.1
            for attempt in group:
                if not fails:
                    self._write(attempt)
                self._over(attempt, "failed" if fails else "durable")

    def _validated(self, attempt: Attempt) -> bool:
        lost = [other for other in attempt.followed if other.is_lost]
        if any(other.outcome == "refused" for other in lost) and attempt.follows is not Follows.ANYBODY:
            self.world.problem("what was certain has been refused")
        refused = not attempt.is_certain and self.world.random() < 0.2
        if lost or refused:
            # Who is refused for what has failed has failed with it, as far as his followers are concerned.
            self._over(attempt, "refused" if refused or any(other.outcome == "refused" for other in lost) else "failed")
            return False
        return True

    def _write(self, attempt: Attempt) -> None:
        if any(other.outcome != "durable" for other in attempt.followed):
            self.world.problem("it is durable before what it has followed")
        for row, value in attempt.counters.items():
            if self.counters[row] != value - 1:
                self.world.problem(f"an addition to row {row} is lost: {self.counters[row]} becomes {value}")
            self.counters[row] = value

    @staticmethod
    def _over(attempt: Attempt, outcome: Outcome) -> None:
        attempt.outcome = outcome
        assert attempt.over is not None
        attempt.over.set_result(None)

    def check_empty(self) -> None:
        """Nobody has or wants anything any more."""
        left = [*self.table._locks, *self.table._rows, *self.table.waiting()]
        if left:
            self.world.problem(f"left in the lock table: {left}")


class _WatchedTable(LockTable):
    """A lock table whose deadlocks are looked at."""

    def __init__(self, server: Server) -> None:
        super().__init__(SimulatedClock(server.world.loop))
        self._server = server

    def _fail(self, request: Request, error: SqlError) -> None:
        if isinstance(error, DeadlockDetected):
            server = self._server
            server.world.deadlocks += 1
            victim = next(attempt for attempt in server.attempts if attempt.owner is request.owner)
            if not server.waits_for_itself(victim):
                server.world.problem(f"a deadlock of one who does not wait for himself: {victim.wish}")
        super()._fail(request, error)


class _Wishing:
    """While it waits for a lock."""

    def __init__(self, server: Server, attempt: Attempt, tag: Tag, mode: Mode) -> None:
        self._server, self._attempt, self._wish = server, attempt, (tag, mode)

    def __enter__(self) -> None:
        self._attempt.wish = self._wish
        self._attempt.wishes_since = self._server.world.loop.time()

    def __exit__(self, *_: object) -> None:
        self._attempt.wish = None


class World:
    """The servers of one run, and what has gone wrong."""

    def __init__(self, loop: SimulatedLoop, seed: int) -> None:
        self.loop = loop
        self.randomness = SeededRandomness(seed)
        self.random = self.randomness.random
        self.problems: list[str] = []
        self.deadlocks = self.kills = self.durable = self.followers = 0

    def problem(self, text: str) -> None:
        """Note what must not be."""
        self.problems.append(text)

    def start(self, name: str, counters: dict[int, int], answered: dict[int, int]) -> Server:
        """A server begins, with an empty lock table."""
        server = Server(self, Process(name), counters, answered)
        spawn(self.loop, server.process, server.committer())
        server.tasks = [spawn(self.loop, server.process, server.session()) for _ in range(SESSIONS)]
        return server

    async def run(self) -> None:
        """All of it."""
        stores = [(dict.fromkeys(range(ROWS), 0), dict.fromkeys(range(ROWS), 0)) for _ in range(SERVERS)]
        servers = [self.start(f"s{number}", *store) for number, store in enumerate(stores)]
        for _ in range(KILLS):
            await asyncio.sleep(self.random() * 6)
            victim = self.randomness.randrange(SERVERS)
            servers[victim].process.alive = False
            self.kills += 1
            servers[victim] = self.start(f"s{victim}+{self.kills}", *stores[victim])
        while any(not task.done() for server in servers for task in server.tasks):
            await asyncio.sleep(5.0)
            waiting = [attempt for server in servers for attempt in server.attempts if attempt.wish is not None]
            if any(self.loop.time() - attempt.wishes_since > LONGEST_WAIT_S for attempt in waiting):
                self.problem("somebody waits for ever")
                return
        for server in servers:
            server.check_empty()
        for counters, answered in stores:
            self.durable += sum(counters.values())
            if any(counters[row] < answered[row] for row in counters):
                self.problem(f"additions are gone that somebody was told of: {answered} became {counters}")


def run(seed: int) -> tuple[World, str]:
    """One simulation of locks; its world, and the digest of what happened."""
    worlds: list[World] = []

    async def main(loop: SimulatedLoop) -> None:
        worlds.append(World(loop, seed))
        await worlds[0].run()

    trace = Trace()
    simulate(seed, main, trace=trace)
    return worlds[0], trace.digest
