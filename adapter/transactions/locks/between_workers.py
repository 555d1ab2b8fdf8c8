"""Waiting for locks that other workers of the server have: trying again, taking turns, and finding deadlocks.

The lock table asks for each mode that no session of its worker holds yet (`take`), and says when it lets one go
(`release`). What was refused it is offered again (`go_on`) until nobody waits for it.

*Turns.* A worker that lets go of a lock for which both its own sessions and others wait leaves it alone for a moment,
so that the others are not passed over for ever by a queue that never empties.

*Deadlocks* that go through several workers are looked for by each who waits, whenever the lock table looks for those of
its own: the workers are asked who waits for what and who holds it. A cycle that is found twice is one; the session in
it with the highest pid fails.

*Rows* are taken against the other workers when the lock table has given them to the session (`lock_rows`), and given
back when its transaction is over, which is when its commit is durable. A statement that has got them looks at what was
committed until then, by whomever (`catch_up`).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct

from adapter.transactions.locks import tags
from adapter.transactions.locks.deadlock import way_back
from adapter.transactions.locks.lock import Lock, Owner, Patience, Request
from adapter.transactions.locks.modes import CONFLICTS, FOR_NO_KEY_UPDATE, Mode
from adapter.transactions.locks.outside import OutsideLocks, is_shared
from adapter.transactions.locks.rows_outside import MAX_ROWS, RowsOutside, runs_of
from adapter.transactions.locks.tags import Tag
from adapter.workers.colleagues import Colleagues, WorkerPlace
from adapter.workers.messages import HoldersOf, LetGo, Waits
from planner.errors import DeadlockDetected, LockNotAvailable

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

    def __init__(self, locks: OutsideLocks, rows: RowsOutside, colleagues: Colleagues) -> None:
        self.go_on: Callable[[Lock], None] = lambda lock: None
        """Offers a lock to those who wait for it; the lock table sets it."""
        self.waits: Callable[[], list[Waiting]] = list
        """Who waits at this worker; the lock table sets it."""
        self.holders: Callable[[Sequence[Tag]], list[Holding]] = lambda asked: []
        """Who holds these locks at this worker; the lock table sets it."""
        self.catch_up: Callable[[], Awaitable[object]]
        """Brings this worker up to all that was committed; the server sets it."""
        self.waited: Callable[[str, float], None] = lambda kind, seconds: None
        """Hears of each wait for a row that is over."""
        self._locks = locks
        self._rows = rows
        self.row_waits: dict[Owner, Waiting] = {}
        """Who waits at this worker for a row that another one has."""
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

    @staticmethod
    def at(place: WorkerPlace, colleagues: Colleagues) -> BetweenWorkers:
        """With the files in the workers' folder."""
        return BetweenWorkers(OutsideLocks(place.folder, place.memory), RowsOutside(place.folder), colleagues)

    async def close(self) -> None:
        """Let go of everything."""
        tasks = [*self._tasks, *([] if self._trying is None else [self._trying])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._locks.close()
        self._rows.close()

    # ------------------------------------------------------------ taking and letting go

    def take(self, lock: Lock, mode: Mode) -> bool:
        """Whether no other worker excludes `mode`; then this one has it."""
        if not is_shared(lock.tag) or self._locks.take(lock.tag, mode, lock.modes):
            return True
        if lock.queue:
            self._try_later(lock)
        return False

    def excludes(self, tag: Tag, mode: Mode, held: int) -> bool:
        """Whether another worker excludes `mode` beside the modes `held` here; nothing is taken."""
        return not held >> mode & 1 and is_shared(tag) and self._locks.excludes(tag, mode)

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
        let_go, self._let_go = self._let_go, asyncio.Event()
        let_go.set()

    async def _pause(self, pause_s: float) -> None:
        """Until another worker lets go of something, but not for longer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s * self._share):
                await self._let_go.wait()

    def _want(self) -> None:
        self._locks.want([*(lock.tag for lock in self._refused), *(each.tag for each in self.row_waits.values())])

    def _try_later(self, lock: Lock) -> None:
        if lock not in self._refused:
            self._refused[lock] = None
            self._want()
        if self._trying is None or self._trying.done():
            self._trying = asyncio.get_running_loop().create_task(self._try_again(), name="locks-of-workers")

    async def _try_again(self) -> None:
        pause_s = SHORTEST_PAUSE_S
        while self._refused:
            await self._pause(pause_s)
            refused, self._refused = self._refused, {}
            for lock in refused:
                if lock.queue:
                    self.go_on(lock)
            self._want()
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------ rows

    async def lock_rows(
        self, owner: Owner, relation_oid: int, row_ids: np.ndarray[Any, Any], mode: Mode, patience: Patience
    ) -> bool:
        """Take rows (ids ascending) that the lock table has given to `owner`; whether one had to be waited for.

        Raises 55P03, 40P01.
        """
        waited = False
        if len(row_ids) <= MAX_ROWS and is_shared(tags.relation(relation_oid)):
            for first, count in runs_of(row_ids.tolist()):
                waited |= await self._lock_run(owner, relation_oid, first, count, mode, patience)
        await self.catch_up()
        return waited

    async def try_rows(
        self, owner: Owner, relation_oid: int, row_ids: np.ndarray[Any, Any], mode: Mode
    ) -> np.ndarray[Any, Any]:
        """Take those of these rows that need no waiting; the others."""
        refused: list[int] = []
        if len(row_ids) <= MAX_ROWS and is_shared(tags.relation(relation_oid)):
            refused = [row for row in row_ids.tolist() if self._take_run(owner, relation_oid, row, 1, mode) is not None]
        await self.catch_up()
        return np.array(refused, np.int64)

    def release_rows(self, owner: Owner) -> None:
        """The transaction of `owner` is over."""
        self._tell(self._rows.release(owner))

    def release_undone_rows(self, owner: Owner) -> None:
        """The transaction of `owner` has rolled back to a savepoint, and its lock table knows what it still has."""
        self._tell(self._rows.release_all_but(owner, [segment.rows for segment in owner.segments]))

    def _tell(self, relations: Collection[int]) -> None:
        """Rows of these relations have been let go of."""
        for worker in {worker for oid in relations for worker in self._locks.wanted_by(tags.row(oid, 0))}:
            self._start(self._colleagues.tell(worker, LetGo()))

    def hand_over_rows(self, owner: Owner, heir: Owner) -> None:
        """`heir` has what the transaction of `owner` took."""
        self._rows.hand_over(owner, heir)

    def follow(self, relation_oid: int, owner: Owner, old: np.ndarray[Any, Any], new: np.ndarray[Any, Any]) -> None:
        """The rows `old` (ascending) are the rows `new` from now on: whoever but `owner` has taken an old one has the
        new one as well, or is overtaken by a worker that has seen the commit before this one and taken it."""
        self._rows.follow(relation_oid, owner, old, new)

    def _take_run(self, owner: Owner, relation_oid: int, first: int, count: int, mode: Mode) -> int | None:
        """None when `owner` has these rows now; otherwise one that it has to wait for."""
        if (
            mode >= FOR_NO_KEY_UPDATE
            and self._rows.is_written_by_another(owner, relation_oid, first, count)
            and self._locks.wanted_by(tags.row(relation_oid, first))
        ):
            return first  # This worker would keep it; it is another one's turn.
        return self._rows.take(owner, relation_oid, first, count, mode)

    async def _lock_run(
        self, owner: Owner, relation_oid: int, first: int, count: int, mode: Mode, patience: Patience
    ) -> bool:
        blocked = self._take_run(owner, relation_oid, first, count, mode)
        if blocked is None:
            return False
        patience.check()
        clock = asyncio.get_running_loop().time
        began = clock()
        look_at = began + patience.deadlock_timeout_ms / 1000
        pause_s = SHORTEST_PAUSE_S
        try:
            while blocked is not None:
                tag = tags.row(relation_oid, blocked)
                self.row_waits[owner] = Waiting(owner.pid, tag, mode, owner.database_oid, ())
                self._want()
                await self._pause(pause_s)
                pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
                owner.failed_at = tag
                if patience.lock_timeout_ms and (clock() - began) * 1000 >= patience.lock_timeout_ms:
                    raise LockNotAvailable("canceling statement due to lock timeout")
                if clock() >= look_at:
                    look_at = clock() + patience.deadlock_timeout_ms / 1000
                    found = await self._deadlock_of(owner)
                    if found is not None:
                        raise found
                blocked = self._take_run(owner, relation_oid, first, count, mode)
        finally:
            if self.row_waits.pop(owner, None) is not None:
                self.waited("tuple", clock() - began)
            self._want()
        return True

    # ------------------------------------------------------------ deadlocks

    def look_for_deadlock(self, request: Request, fail: Callable[[Request, DeadlockDetected], None]) -> None:
        """Fail `request` if it waits for itself through other workers, and it is the one to fail."""
        if request not in self._looking:
            self._looking.add(request)
            self._start(self._look(request, fail))

    async def _look(self, request: Request, fail: Callable[[Request, DeadlockDetected], None]) -> None:
        try:
            found = await self._deadlock_of(request.owner)
            if found is not None and not request.granted.done():
                fail(request, found)
        finally:
            self._looking.discard(request)

    async def _deadlock_of(self, owner: Owner) -> DeadlockDetected | None:
        """The error for a session that waits for itself, if it is the one to fail."""
        cycle = _way_back(await self.edges(), owner.pid)
        if not cycle or max(cycle) != owner.pid:
            return None
        edges = await self.edges()
        return _deadlock_detected(cycle, edges) if _way_back(edges, owner.pid) == cycle else None

    def who_waits(self) -> list[Waiting]:
        """Who waits at this worker, and for what."""
        return [*self.waits(), *self.row_waits.values()]

    def who_holds(self, asked: Sequence[Tag]) -> list[Holding]:
        """Which sessions of this worker hold these locks."""
        rows = [
            Holding(number, owner.pid, modes)
            for number, tag in enumerate(asked)
            if tag.kind == "tuple" and isinstance(tag.item, int)
            for owner, modes in self._rows.holders(tag.space, tag.item)
        ]
        return [*self.holders(asked), *rows]

    async def edges(self) -> Edges:
        """Who waits for whom, at all workers."""
        mesh = self._colleagues.mesh
        assert mesh is not None
        answers = [self.who_waits(), *msgspec.convert(await mesh.ask_all(Waits()), list[list[Waiting]])]
        waiting = list(itertools.chain.from_iterable(answers))
        asked = tuple(dict.fromkeys(each.tag for each in waiting))
        held = [self.who_holds(asked)]
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


def _way_back(edges: Edges, start: int) -> tuple[int, ...]:
    return way_back({pid: blockers for pid, (_, blockers) in edges.items()}, start)


def _deadlock_detected(cycle: tuple[int, ...], edges: Edges) -> DeadlockDetected:
    lines = []
    for pid, blocker in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
        waiting = edges[pid][0]
        what = tags.described(waiting.tag, waiting.database_oid)
        lines.append(f"Process {pid} waits for {Mode(waiting.mode).lock_name} on {what}; blocked by process {blocker}.")
    return DeadlockDetected("deadlock detected", detail="\n".join(lines), hint="See server log for query details.")
