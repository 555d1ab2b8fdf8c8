"""Waiting for locks that other workers of the server have: trying again, taking turns, and finding deadlocks.

The lock table asks for each mode that no session of its worker holds yet (`take`), and says when it lets one go
(`release`). What was refused it is offered again (`go_on`) until nobody waits for it.

*Turns.* A worker that lets go of a lock for which both its own sessions and others wait leaves it alone for a moment,
so that the others are not passed over for ever by a queue that never empties.

*Deadlocks* that go through several workers are looked for by each who waits, whenever the lock table looks for those of
its own: the workers are asked who waits for what and who holds it. A cycle that is found twice is one; the session in
it with the highest pid fails. No cycle needs a row of another worker: those are not waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from adapter.transactions.locks import tags
from adapter.transactions.locks.lock import Lock, Request
from adapter.transactions.locks.modes import CONFLICTS, Mode
from adapter.transactions.locks.outside import OutsideLocks, is_shared
from adapter.transactions.locks.tags import Tag
from adapter.workers.colleagues import Colleagues
from adapter.workers.messages import HoldersOf, LetGo, Waits
from planner.errors import DeadlockDetected

SHORTEST_PAUSE_S = 0.002
LONGEST_PAUSE_S = 0.02
"""Pauses before a lock is tried again without a word from whoever had it: it may have died, or two were in each other's
way."""


class Waiting(Struct, frozen=True):
    """One session that waits: for what, and for whom of its own worker."""

    pid: int
    tag: Tag
    mode: int
    database_oid: int
    blockers: tuple[int, ...]


class Holding(Struct, frozen=True, array_like=True):
    """A session that holds the lock asked for at place `asked`, in a set of modes."""

    asked: int
    pid: int
    modes: int


Edges: TypeAlias = Mapping[int, tuple[Waiting, Sequence[int]]]
"""By the pid of each who waits: what it waits for, and whose."""


class BetweenWorkers:
    """See the module's contract. Belongs to the event loop."""

    def __init__(self, locks: OutsideLocks, colleagues: Colleagues) -> None:
        self.go_on: Callable[[Lock], None] = lambda lock: None
        """Offers a lock to those who wait for it; the lock table sets it."""
        self.waits: Callable[[], list[Waiting]] = list
        """Who waits at this worker; the lock table sets it."""
        self.holders: Callable[[Sequence[Tag]], list[Holding]] = lambda asked: []
        """Who holds these locks at this worker; the lock table sets it."""
        self._locks = locks
        self._colleagues = colleagues
        assert colleagues.place is not None
        memory = colleagues.place.memory
        self._share = 0.5 + 0.5 * (memory.own + 1) / memory.count
        """Of a pause, by which two who refuse each other do not meet again and again."""
        self._refused: dict[Lock, None] = {}
        self._let_go = asyncio.Event()
        self._trying: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._looking: set[Request] = set()

    async def close(self) -> None:
        """Let go of everything."""
        tasks = [*self._tasks, *([] if self._trying is None else [self._trying])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._locks.close()

    # ------------------------------------------------------------ taking and letting go

    def take(self, lock: Lock, mode: Mode) -> bool:
        """Whether no other worker excludes `mode`; then this one has it."""
        if not is_shared(lock.tag) or self._locks.take(lock.tag, mode, lock.modes):
            return True
        if lock.queue:
            self._try_later(lock)
        return False

    def release(self, lock: Lock, mode: Mode) -> bool:
        """No session of this worker holds `mode` any more. Returns whether its own that wait are offered it later."""
        if not is_shared(lock.tag):
            return False
        self._locks.release(lock.tag, mode, lock.modes)
        wanting = self._locks.wanted_by(lock.tag)
        if not wanting:
            return False
        for worker in wanting:
            self._start(self._colleagues.tell(worker, LetGo()))
        if not lock.queue:
            return False
        self._try_later(lock)
        return True

    def try_now(self) -> None:
        """Another worker has let go of something that this one waits for."""
        self._let_go.set()

    def _try_later(self, lock: Lock) -> None:
        if lock not in self._refused:
            self._refused[lock] = None
            self._locks.want([each.tag for each in self._refused])
        if self._trying is None or self._trying.done():
            self._trying = asyncio.get_running_loop().create_task(self._try_again(), name="locks-of-workers")

    async def _try_again(self) -> None:
        pause_s = SHORTEST_PAUSE_S
        while self._refused:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s * self._share):
                    await self._let_go.wait()
            self._let_go.clear()
            refused, self._refused = self._refused, {}
            for lock in refused:
                if lock.queue:
                    self.go_on(lock)
            self._locks.want([lock.tag for lock in self._refused])
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------ deadlocks

    def look_for_deadlock(self, request: Request, fail: Callable[[Request, DeadlockDetected], None]) -> None:
        """Fail `request` if it waits for itself through other workers, and it is the one to fail."""
        if request not in self._looking:
            self._looking.add(request)
            self._start(self._look(request, fail))

    async def _look(self, request: Request, fail: Callable[[Request, DeadlockDetected], None]) -> None:
        try:
            cycle = _cycle(await self.edges(), request.owner.pid)
            if not cycle or max(cycle) != request.owner.pid:
                return
            edges = await self.edges()
            if _cycle(edges, request.owner.pid) == cycle and not request.granted.done():
                fail(request, _deadlock_detected(cycle, edges))
        finally:
            self._looking.discard(request)

    async def edges(self) -> Edges:
        """Who waits for whom, at all workers."""
        mesh = self._colleagues.mesh
        assert mesh is not None
        answers = [self.waits(), *msgspec.convert(await mesh.ask_all(Waits()), list[list[Waiting]])]
        waiting = list(itertools.chain.from_iterable(answers))
        asked = tuple(dict.fromkeys(each.tag for each in waiting if is_shared(each.tag)))
        held = [self.holders(asked)]
        held += msgspec.convert(await mesh.ask_all(HoldersOf(asked)), list[list[Holding]])
        edges: dict[int, tuple[Waiting, Sequence[int]]] = {}
        for each in waiting:
            excluding = CONFLICTS[each.mode]
            holders = [
                holding.pid
                for holding in itertools.chain.from_iterable(held)
                if asked[holding.asked] == each.tag and holding.modes & excluding and holding.pid != each.pid
            ]
            edges[each.pid] = each, tuple(dict.fromkeys([*holders, *each.blockers]))
        return edges


def _cycle(edges: Edges, start: int) -> tuple[int, ...]:
    """The pids on a way from `start` back to it; () when there is none."""
    path: list[int] = [start]
    seen = {start}
    levels = [iter(edges[start][1] if start in edges else ())]
    while levels:
        pid = next(levels[-1], None)
        if pid is None:
            levels.pop()
            path.pop()
        elif pid == start:
            return tuple(path)
        elif pid not in seen and pid in edges:
            seen.add(pid)
            path.append(pid)
            levels.append(iter(edges[pid][1]))
    return ()


def _deadlock_detected(cycle: tuple[int, ...], edges: Edges) -> DeadlockDetected:
    lines = []
    for pid, blocker in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
        waiting = edges[pid][0]
        what = tags.described(waiting.tag, waiting.database_oid)
        lines.append(f"Process {pid} waits for {Mode(waiting.mode).lock_name} on {what}; blocked by process {blocker}.")
    return DeadlockDetected("deadlock detected", detail="\n".join(lines), hint="See server log for query details.")
