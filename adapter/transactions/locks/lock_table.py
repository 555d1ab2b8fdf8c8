"""The lock table of a server: taking locks, waiting for them, letting go of them.

Everything here happens between two awaits of the event loop, but for the waiting itself. A request that waits ends in
one of five ways: it is granted; `lock_timeout` has passed (55P03); it waits for itself, which is looked for each
`deadlock_timeout`, or seen at once where two wait for one table (40P01, and it is always the one who looks that fails);
its task is cancelled; or its owner was never willing to wait (`try_lock`, `try_row`).

Locks of a transaction are let go at its end and at ROLLBACK TO SAVEPOINT (`release`, `release_since`); those of a
session when it says so or ends. What is left behind by a failure of this module is gone with the owner's release.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from adapter.transactions.locks import deadlock, tags
from adapter.transactions.locks.between_workers import BetweenWorkers, Holding, Waiting
from adapter.transactions.locks.lock import Follows, Lock, Owner, Patience, Request, Segment
from adapter.transactions.locks.modes import Mode, modes_of
from adapter.transactions.locks.outside import is_shared
from adapter.transactions.locks.row_locks import MAX_ROWS, RowLocks
from adapter.transactions.locks.row_sets import RowSet
from adapter.transactions.locks.tags import Tag
from planner.errors import LockNotAvailable, OutOfMemory, SqlError
from storage.clock import Clock

MAX_LOCKS = 200_000
"""Locks on other things than rows: about 100 MiB of them. PostgreSQL refuses at a few thousand (53200)."""

ONE_BY_ONE = 16
"""So many rows are taken one by one; more are looked at together."""


class LockTable:
    """See the module's contract. Belongs to the event loop, but for what tells who waits for whom."""

    def __init__(self, clock: Clock, between_workers: BetweenWorkers | None = None) -> None:
        self._clock = clock
        self.between_workers = between_workers
        """What holds against the other workers of the server; None when there are none."""
        if between_workers is not None:
            between_workers.go_on = self._go_on
            between_workers.waits, between_workers.holders = self._waits, self._holders_of
        self.in_flight: Sequence[object] = ()
        """The commits that are being written; the committer's."""
        self.moved: Callable[[], Awaitable[None]]
        """Returns when they hold up no lock on a row that can be seen; the committer's."""
        self.let_go_of: Callable[[Tag], None] = lambda tag: None
        """Hears which advisory locks somebody has let go of; those who tell other servers."""
        self.waited: Callable[[str, float], None] = lambda kind, seconds: None  # Hears of each wait that is over.
        self._locks: dict[Tag, Lock] = {}
        self._rows: dict[int, RowLocks] = {}
        self._waiting: dict[Request, None] = {}

    # ------------------------------------------------------------ locks by tag

    def try_lock(self, owner: Owner, tag: Tag, mode: Mode, *, for_session: bool = False) -> bool:
        """Take the lock if that needs no waiting. Raises 53200 when there are too many locks."""
        lock = self._lock(tag)
        if lock.holders.get(owner, 0) >> mode & 1 or (lock.is_grantable(owner, mode) and self._is_free(lock, mode)):
            self._hold(owner, lock, mode, for_session)
            return True
        if lock.is_free:
            del self._locks[tag]
        return False

    def would_wait(self, owner: Owner, locks: Sequence[tuple[Tag, Mode]]) -> bool:
        """Whether one of these locks would have to be waited for now. None of them is taken."""
        for tag, mode in locks:
            lock = self._locks.get(tag)
            if lock is not None and not lock.is_grantable(owner, mode):
                return True
            between, held = self.between_workers, 0 if lock is None else lock.modes
            if between is not None and between.excludes(tag, mode, held):
                return True
        return False

    async def lock(self, owner: Owner, tag: Tag, mode: Mode, patience: Patience, *, for_session: bool = False) -> bool:
        """Take the lock; whether it had to be waited for. Raises 55P03, 40P01, 53200."""
        if self.try_lock(owner, tag, mode, for_session=for_session):
            return False
        await self._wait(owner, self._lock(tag), mode, patience, for_session)
        return True

    def unlock(self, owner: Owner, tag: Tag, mode: Mode) -> bool:
        """Undo one taking for the session; False when it does not have the lock so."""
        lock = self._locks.get(tag)
        taken = 0 if lock is None else owner.session_level.get((lock, mode), 0)
        if lock is None or not taken:
            return False
        if taken > 1:
            owner.session_level[lock, mode] = taken - 1
            return True
        del owner.session_level[lock, mode]
        if not owner.takes_in_transaction(lock, mode):
            self._remove(owner, lock, mode)
        return True

    def unlock_all(self, owner: Owner) -> None:
        """Undo all taking for the session."""
        for lock, mode in list(owner.session_level):
            owner.session_level[lock, mode] = 1
            self.unlock(owner, lock.tag, mode)

    def seize(
        self,
        owner: Owner,
        locks: Sequence[tuple[Tag, Mode]],
        rows: Sequence[tuple[int, Mode, np.ndarray[Any, Any]]],
    ) -> None:
        """Give `owner` locks, and rows (relation, mode, ids that ascend), whoever has them: it had them before, where
        this lock table does not reach, so that conflicting modes may be held at once until somebody lets go."""
        for tag, mode in locks:
            lock = self._lock(tag)
            if self.between_workers is not None:
                self.between_workers.take(lock, mode)
            self._hold(owner, lock, mode, False)
            if tag.kind == "rows":
                self._rows_of(tag.space).claim(owner, mode)
                self._rows_of(tag.space).claim_settled(owner)
        for relation_oid, mode, row_ids in rows:
            self._rows_of(relation_oid).seize(owner, row_ids, mode)

    def _lock(self, tag: Tag) -> Lock:
        lock = self._locks.get(tag)
        if lock is None:
            if len(self._locks) >= MAX_LOCKS:
                raise OutOfMemory("out of shared memory", hint="The server keeps a limited number of locks.")
            lock = self._locks[tag] = Lock(tag)
        return lock

    def _hold(self, owner: Owner, lock: Lock, mode: Mode, for_session: bool) -> None:
        if not lock.holders.get(owner, 0) >> mode & 1:
            lock.add(owner, mode)
        if for_session:
            owner.session_level[lock, mode] = owner.session_level.get((lock, mode), 0) + 1
        elif not owner.takes_in_transaction(lock, mode):
            owner.segments[-1].locks[lock, mode] = None

    def _remove(self, owner: Owner, lock: Lock, mode: Mode) -> None:
        lock.remove(owner, mode)
        if lock.tag.kind == "advisory":
            self.let_go_of(lock.tag)
        between = self.between_workers
        if between is not None and not lock.modes >> mode & 1 and between.release(lock, mode):
            return  # Another worker has been waiting too: it is its turn.
        if lock.tag.kind == "rows":
            left = modes_of(lock.holders.get(owner, 0))
            self._rows_of(lock.tag.space).lower_claim(owner, max(left, default=None))
            self._forget_rows(lock.tag.space)
        self._go_on(lock)

    def _go_on(self, lock: Lock) -> None:
        if lock.tag.kind == "tuple":
            self._rows_of(lock.tag.space).withdrawn(lock)
            self._forget_rows(lock.tag.space)
            return
        for request in lock.next_granted(lambda mode: self._is_free(lock, mode)):
            self._hold(request.owner, lock, request.mode, request.for_session)
            self._wake(request)
        if lock.is_free:
            self._locks.pop(lock.tag, None)

    def _is_free(self, lock: Lock, mode: Mode) -> bool:
        """Whether no other worker excludes `mode`: then this one has it from now on."""
        between = self.between_workers
        return between is None or bool(lock.modes >> mode & 1) or between.take(lock, mode)

    # ------------------------------------------------------------ rows

    def try_row(self, owner: Owner, relation_oid: int, row_id: int, mode: Mode) -> bool:
        """Take a row if that needs no waiting."""
        return self._rows_of(relation_oid).take(owner, row_id, mode) is None

    def holders_of_row(self, relation_oid: int, row_id: int) -> Sequence[Owner]:
        """Who of this process has this row."""
        return self._rows[relation_oid].holders_of(row_id) if relation_oid in self._rows else ()

    async def lock_row(
        self,
        owner: Owner,
        relation_oid: int,
        row_id: int,
        mode: Mode,
        patience: Patience,
        *,
        follows: Follows = Follows.NOBODY,
    ) -> bool:
        """Take a row; whether it had to be waited for. Holders that have passed it on are not when the request
        `follows` them. Raises 55P03, 40P01."""
        waited = False
        while True:
            rows = self._rows_of(relation_oid)
            blocking = rows.take(owner, row_id, mode, follows)
            if blocking is None:
                return waited
            waited = True
            if isinstance(blocking, Lock):
                if follows and blocking.ask_to_decide():
                    continue
                await self._wait(owner, blocking, mode, patience, False, follows=follows)
                return True
            lock = self._lock(blocking)
            await self._wait(owner, lock, mode, patience, False)
            # The claim is over, which is all that was waited for.
            owner.segments[-1].locks.pop((lock, mode), None)
            self._remove(owner, lock, mode)

    async def lock_rows(
        self,
        owner: Owner,
        relation_oid: int,
        row_ids: np.ndarray[Any, Any],
        mode: Mode,
        patience: Patience,
        *,
        follows: Follows = Follows.NOBODY,
    ) -> bool:
        """Take rows (ids ascending, each once) in their order; whether one had to be waited for. Holders that
        have passed them on are not when the request `follows` them, unless the rows are many.

        Raises 55P03, 40P01.
        """
        waited, place = False, 0
        if len(row_ids) > ONE_BY_ONE:
            if self._too_many(owner, relation_oid, len(row_ids)):
                return await self._lock_every_row(owner, relation_oid, mode, patience)
            while place < len(row_ids):
                place += self._rows_of(relation_oid).take_free(owner, row_ids[place:], mode)
                if place < len(row_ids):
                    waited |= await self.lock_row(owner, relation_oid, int(row_ids[place]), mode, patience)
                    place += 1
            return waited
        for row_id in row_ids.tolist():
            waited |= await self.lock_row(owner, relation_oid, row_id, mode, patience, follows=follows)
        return waited

    def pass_on(self, owner: Owner, relation_oid: int) -> None:
        """Let those who follow have the rows of a table that `owner` has, unless they are many."""
        for segment in owner.segments:
            for (relation, _), taken in segment.rows.items():
                if relation == relation_oid and len(taken) <= ONE_BY_ONE and not taken.everything:
                    for row_id in list(taken):
                        self._rows_of(relation_oid).pass_on(owner, row_id)

    def try_rows(
        self, owner: Owner, relation_oid: int, row_ids: np.ndarray[Any, Any], mode: Mode
    ) -> np.ndarray[Any, Any]:
        """Take those of these rows (ids ascending, each once) that need no waiting; the others."""
        refused: list[int] = []
        place = 0
        while place < len(row_ids):
            if len(row_ids) - place > ONE_BY_ONE:
                place += self._rows_of(relation_oid).take_free(owner, row_ids[place:], mode)
            few = row_ids[place : place + ONE_BY_ONE].tolist()
            refused.extend(row_id for row_id in few if not self.try_row(owner, relation_oid, row_id, mode))
            place += ONE_BY_ONE
        return np.array(refused, np.int64)

    def give_back(self, owner: Owner, relation_oid: int, row_ids: np.ndarray[Any, Any], mode: Mode) -> None:
        """Let go of rows that the transaction has only just taken."""
        taken = owner.segments[-1].rows.get((relation_oid, mode))
        if taken is None or not len(row_ids):
            return
        rows = RowSet()
        rows.update(taken.common(row_ids))
        taken.subtract(rows)
        self._rows_of(relation_oid).release(owner, mode, rows)
        self._forget_rows(relation_oid)

    def _too_many(self, owner: Owner, relation_oid: int, more: int) -> bool:
        sets = self._rows_of(relation_oid).bulk.get(owner, {})
        return sum(map(len, sets.values())) + more > MAX_ROWS

    async def _lock_every_row(self, owner: Owner, relation_oid: int, mode: Mode, patience: Patience) -> bool:
        waited = await self.lock(owner, tags.every_row(relation_oid), mode, patience)
        rows = self._rows_of(relation_oid)
        rows.claim(owner, mode)
        while (lock := rows.first_excluding(owner, mode)) is not None:
            waited = True
            await self._wait(owner, lock, mode, patience, False)
        rows.claim_settled(owner)
        return waited

    def follow(self, relation_oid: int, owner: Owner, old: np.ndarray[Any, Any], new: np.ndarray[Any, Any]) -> None:
        """The rows `old` (ascending) are the rows `new` from now on for who holds or awaits them; `owner` lets go."""
        rows = self._rows.get(relation_oid)
        if rows is not None:
            rows.follow(owner, old, new)
            if self.between_workers is not None:
                self.between_workers.follow(relation_oid, owner, old, new)

    def _rows_of(self, relation_oid: int) -> RowLocks:
        rows = self._rows.get(relation_oid)
        if rows is None:
            rows = self._rows[relation_oid] = RowLocks(relation_oid, self._wake)
        return rows

    def _forget_rows(self, relation_oid: int) -> None:
        if relation_oid in self._rows and self._rows[relation_oid].is_free:
            del self._rows[relation_oid]

    # ------------------------------------------------------------ waiting

    async def _wait(
        self,
        owner: Owner,
        lock: Lock,
        mode: Mode,
        patience: Patience,
        for_session: bool,
        *,
        follows: Follows = Follows.NOBODY,
    ) -> None:
        patience.check()
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        request = Request(
            owner=owner,
            lock=lock,
            mode=mode,
            granted=granted,
            since_ms=self._clock.now_ms(),
            for_session=for_session,
            follows=follows,
        )
        other = lock.waits_for_each_other(owner, mode) if lock.tag.kind in ("relation", "advisory", "name") else None
        if other is not None:
            cycle = (deadlock.Edge(request, other.owner, None), deadlock.Edge(other, owner, None))
            raise deadlock.detected(cycle)
        lock.enqueue(request)
        owner.waiting = request
        self._waiting[request] = None
        if self.between_workers is not None and is_shared(lock.tag):
            self._go_on(lock)  # It may be that only other workers have it.
        began = self._clock.monotonic()
        timers = [self._each(patience.deadlock_timeout_ms, lambda: self._look_for_deadlock(request))]
        if patience.lock_timeout_ms:
            timers.append(self._each(patience.lock_timeout_ms, lambda: self._expire(request)))
        try:
            await granted
        except BaseException:
            if request.holds and for_session:
                self.unlock(owner, lock.tag, mode)
            raise
        finally:
            for timer in timers:
                timer.cancel()
            self._withdraw(request)
            self.waited(lock.tag.kind, self._clock.monotonic() - began)

    def _each(self, milliseconds: int, act: Callable[[], None]) -> asyncio.Task[None]:
        async def repeat() -> None:
            while True:
                await self._clock.sleep(milliseconds / 1000)
                act()

        return asyncio.get_running_loop().create_task(repeat(), name="lock-timer")

    def _withdraw(self, request: Request) -> None:
        """`request` does not wait any more; those behind it may go on."""
        if request not in self._waiting:
            return
        del self._waiting[request]
        request.owner.waiting = None
        request.lock.queue.remove(request)
        self._go_on(request.lock)

    def _wake(self, request: Request) -> None:
        request.holds = True
        request.owner.waiting = None
        del self._waiting[request]
        if not request.granted.done():
            request.granted.set_result(None)

    def _expire(self, request: Request) -> None:
        if not request.granted.done():
            self._fail(request, LockNotAvailable("canceling statement due to lock timeout"))

    def _fail(self, request: Request, error: SqlError) -> None:
        # NOTE: out of the queue at once. Others who look at this moment must not find it there, and fail as well.
        request.granted.set_exception(error)
        request.owner.failed_at = request.lock.tag
        self._withdraw(request)

    def _look_for_deadlock(self, request: Request) -> None:
        if request.granted.done():
            return
        verdict = deadlock.judge(request)
        if verdict.cycle:
            self._fail(request, deadlock.detected(verdict.cycle))
            return
        for lock, queue in verdict.orders.items():
            lock.queue[:] = queue
            self._go_on(lock)
        if self.between_workers is not None and not request.granted.done():
            self.between_workers.look_for_deadlock(request, self._fail)

    # ------------------------------------------------------------ letting go

    def mark(self, owner: Owner) -> int:
        """A point that `release_since` goes back to."""
        owner.segments.append(Segment())
        return len(owner.segments) - 1

    def forget_mark(self, owner: Owner, mark: int) -> None:
        """What was taken since `mark` counts as taken before it; later marks are gone."""
        for segment in owner.segments[mark:]:
            owner.segments[mark - 1].locks |= segment.locks
            for name, rows in segment.rows.items():
                kept = owner.segments[mark - 1].rows.setdefault(name, rows)
                if kept is not rows:
                    kept.update(rows)
        del owner.segments[mark:]

    def release_since(self, owner: Owner, mark: int) -> None:
        """Let go of what was taken since `mark`, which stays."""
        undone = owner.segments[mark:]
        owner.segments[mark:] = [Segment()]
        for segment in reversed(undone):
            self._release(owner, segment)

    def release(self, owner: Owner) -> None:
        """Let go of all that the transaction took."""
        undone, owner.segments = owner.segments, [Segment()]
        for segment in reversed(undone):
            self._release(owner, segment)

    def _release(self, owner: Owner, segment: Segment) -> None:
        for (relation_oid, mode), taken in segment.rows.items():
            self._rows_of(relation_oid).release(owner, mode, taken)
            self._forget_rows(relation_oid)
        for lock, mode in segment.locks:
            if (lock, mode) not in owner.session_level:
                self._remove(owner, lock, mode)

    def hand_over(self, owner: Owner) -> Owner:
        """Give all that the transaction took to a new owner, so that the session can begin another transaction."""
        heir = Owner(pid=owner.pid, database_oid=owner.database_oid, is_awaited=owner.is_awaited)
        heir.segments, owner.segments = owner.segments, [Segment()]
        for segment in heir.segments:
            for lock, mode in segment.locks:
                if (lock, mode) not in owner.session_level:
                    lock.remove(owner, mode)
                lock.add(heir, mode)
        for relation_oid in {relation_oid for segment in heir.segments for relation_oid, _ in segment.rows}:
            self._rows_of(relation_oid).hand_over(owner, heir)
        return heir

    # ------------------------------------------------------------ who waits for whom

    def waiting(self) -> list[Request]:
        """The requests that wait, the oldest first."""
        return list(self._waiting)

    def held(self) -> Iterator[tuple[Lock, Owner, int]]:
        """The locks that are held, by whom and in which modes; of rows only those that others share or want."""
        for lock in list(self._locks.values()):
            for owner, modes in list(lock.holders.items()):
                yield lock, owner, modes
        for rows in list(self._rows.values()):
            for lock in list(rows.entries.values()):
                if lock.queue or len(lock.holders) > 1:
                    for owner, modes in list(lock.holders.items()):
                        yield lock, owner, modes

    def _waits(self) -> list[Waiting]:
        return [
            Waiting(
                pid=request.owner.pid,
                tag=request.lock.tag,
                mode=request.mode,
                database_oid=request.owner.database_oid,
                blockers=tuple(self.blocking(request.owner.pid)),
            )
            for request in self.waiting()
        ]

    def _holders_of(self, asked: Sequence[Tag]) -> list[Holding]:
        found = [(number, self.holders_of(tag)) for number, tag in enumerate(asked)]
        return [Holding(number, owner.pid, modes) for number, held in found for owner, modes in held.items()]

    def holders_of(self, tag: Tag) -> Mapping[Owner, int]:
        """Who of this process has a lock that is not a row's, and in which modes."""
        return self._locks[tag].holders if tag in self._locks else {}

    def blocking(self, pid: int) -> list[int]:
        """The processes that the waiting process `pid` waits for: holders, then those ahead of it in the queue."""
        mine = [request for request in self.waiting() if request.owner.pid == pid]
        blockers = [owner for each in mine for owner, _ in each.lock.blockers(each, each.lock.queue)]
        return list({owner.pid: None for owner in blockers})


class SessionLocks:
    """The locks of one session, as its transaction and its statements use them. `patience` tells how long a request
    waits, once one has to."""

    __slots__ = ("owner", "patience", "table")

    def __init__(self, table: LockTable, owner: Owner, patience: Callable[[], Patience]) -> None:
        self.table = table
        self.owner = owner
        self.patience = patience

    # ------------------------------------------------------------ taking

    async def lock(self, tag: Tag, mode: Mode, *, for_session: bool = False) -> bool:
        """Take a lock; whether it had to be waited for. Raises 55P03, 40P01, 53200."""
        if self.try_lock(tag, mode, for_session=for_session):
            return False
        waited = await self.table.lock(self.owner, tag, mode, self.patience(), for_session=for_session)
        if waited and self.table.between_workers is not None:
            await self.table.between_workers.catch_up()
        return waited

    def try_lock(self, tag: Tag, mode: Mode, *, for_session: bool = False) -> bool:
        """Take a lock if that needs no waiting. Raises 53200."""
        return self.table.try_lock(self.owner, tag, mode, for_session=for_session)

    async def lock_relation(self, tag: Tag, mode: Mode, name: str, *, nowait: bool) -> bool:
        """Take the lock of the relation `name`; 55P03 with `nowait` when it would have to be waited for."""
        if nowait:
            if not self.try_lock(tag, mode):
                raise LockNotAvailable(f'could not obtain lock on relation "{name}"')
            return False
        return await self.lock(tag, mode)

    async def lock_rows(
        self, relation_oid: int, row_ids: np.ndarray[Any, Any], mode: Mode, *, follows: Follows = Follows.NOBODY
    ) -> bool:
        """Take rows, in the order of their ids (ascending, each once); whether one had to be waited for. Holders
        that have passed them on are not when the request `follows` them."""
        patience, between = self.patience(), self.table.between_workers
        if self.table.in_flight:
            await self.table.moved()
        waited = await self.table.lock_rows(self.owner, relation_oid, row_ids, mode, patience, follows=follows)
        if between is not None:
            waited |= await between.lock_rows(self.owner, relation_oid, row_ids, mode, patience)
        return waited

    async def try_rows(self, relation_oid: int, row_ids: np.ndarray[Any, Any], mode: Mode) -> np.ndarray[Any, Any]:
        """Take those of these rows (ids ascending, each once) that need no waiting; the others."""
        if self.table.in_flight:
            await self.table.moved()
        refused, between = self.table.try_rows(self.owner, relation_oid, row_ids, mode), self.table.between_workers
        if between is None:
            return refused
        elsewhere = await between.try_rows(self.owner, relation_oid, np.setdiff1d(row_ids, refused), mode)
        self.table.give_back(self.owner, relation_oid, elsewhere, mode)
        return np.union1d(refused, elsewhere)

    def unlock(self, tag: Tag, mode: Mode) -> bool:
        """Undo one taking for the session; False when it does not have the lock so."""
        return self.table.unlock(self.owner, tag, mode)

    def unlock_all(self) -> None:
        """Undo all taking for the session."""
        self.table.unlock_all(self.owner)

    def savepoint(self) -> None:
        """A savepoint is defined."""
        self.table.mark(self.owner)

    def release_savepoint(self, depth: int) -> None:
        """The savepoint number `depth` (from 1) and all later ones are forgotten."""
        self.table.forget_mark(self.owner, depth)

    def roll_back_to(self, depth: int) -> None:
        """Let go of what was taken since the savepoint number `depth`; 0 is the transaction's begin."""
        self.table.release_since(self.owner, depth)
        if (between := self.table.between_workers) is not None:
            between.release_undone_rows(self.owner)

    def end(self) -> None:
        """The transaction is over."""
        self.owner.transactions += 1
        self.owner.is_awaited, self.owner.is_certain, self.owner.decide = False, False, None
        self.owner.is_overtaken = False
        if self.owner.has_taken:
            self.table.release(self.owner)
        if self.table.between_workers is not None:
            self.table.between_workers.release_rows(self.owner)

    def hand_over(self) -> Owner:
        """Give what the transaction took to a new owner, whom `let_go` releases: its commit goes on by itself."""
        heir = self.table.hand_over(self.owner)
        if self.table.between_workers is not None:
            self.table.between_workers.hand_over_rows(self.owner, heir)
        return heir

    def let_go(self, heir: Owner) -> None:
        """The commit that held on to `heir` is over."""
        heir.decide = None
        self.table.release(heir)
        if self.table.between_workers is not None:
            self.table.between_workers.release_rows(heir)
