"""One lock: who holds it, who waits for it in which order. Pure transitions: no waiting, no clock.

Rules, which are PostgreSQL's (lock.c, proc.c):

- Owners do not exclude themselves. One that holds a mode gets it again at no cost.
- A request is granted when no other owner holds a conflicting mode and nobody waits ahead of it for a conflicting one.
- Requests wait in the order of arrival. An owner that holds something already goes ahead of the first one that has to
  wait for what it holds: behind it, both would wait for each other.
- When something is released the queue is gone through from its head, and every request is granted that conflicts
  neither with a holder nor with one that still waits ahead of it. So compatible requests are granted together and
  nobody starves.

And one that is not PostgreSQL's: an owner whose commit is decided may *pass on* what it holds. It holds it still, for
everybody but requests that follow it (`Follows`), which go on from what it will have committed
(`adapter.transactions.decided_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Protocol

from msgspec import Struct, field

from adapter.transactions.locks.modes import CONFLICTS, Mode, modes_of
from adapter.transactions.locks.row_sets import RowSet
from adapter.transactions.locks.tags import Tag
from planner.errors import LockNotAvailable


class Granted(Protocol):
    """What a request is told through; an `asyncio.Future` is one."""

    def done(self) -> bool:
        """Whether there is nothing to tell any more."""
        ...

    def set_result(self, result: None, /) -> None:
        """The lock is held now."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """The lock will not be held."""
        ...


class Follows(IntEnum):
    """After which of those who have passed a lock on a request may have it."""

    NOBODY = 0
    CERTAIN = 1
    """After those whom nothing but a failure of the store keeps from committing."""
    ANYBODY = 2


class Segment(Struct, eq=False):
    """What an owner took between two marks: modes of locks, and rows by relation and mode."""

    locks: dict[tuple[Lock, Mode], None] = field(default_factory=dict)
    """In the order in which they were taken, which is that in which others go on."""
    rows: dict[tuple[int, Mode], RowSet] = field(default_factory=dict)


class Owner(Struct, eq=False, kw_only=True):
    """Who holds locks: a session with its transaction, or a commit that is under way after its session went on.

    What belongs to the transaction is in `segments`, one for each open savepoint after the first; `session_level`
    counts how often the session took each mode for itself, beyond transactions.
    """

    pid: int
    database_oid: int = 0
    transactions: int = 0
    """How many have ended."""
    waiting: Request | None = None
    failed_at: Tag | None = None
    """The lock that its latest request failed to get."""
    is_awaited: bool = False
    """Whether somebody would follow it, once it is decided."""
    is_certain: bool = False
    """Whether nothing but a failure of the store keeps it from committing, once it is decided."""
    is_overtaken: bool = False
    """Whether another worker has got a row that it has followed, before it could take that against the others."""
    decide: Callable[[], None] | None = None
    """Lets others follow it: it is decided, and nobody has asked for that yet."""
    segments: list[Segment] = field(default_factory=lambda: [Segment()])
    session_level: dict[tuple[Lock, Mode], int] = field(default_factory=dict)

    @property
    def has_taken(self) -> bool:
        """Whether the transaction has taken anything, or has a savepoint."""
        first = self.segments[0]
        return len(self.segments) > 1 or bool(first.locks) or bool(first.rows)

    def takes_in_transaction(self, lock: Lock, mode: Mode) -> bool:
        """Whether the transaction itself holds `mode`, not only the session."""
        return any((lock, mode) in segment.locks for segment in self.segments)


class Request(Struct, eq=False, kw_only=True):
    """An owner that waits for a mode of a lock; `since_ms` is the wall clock's time at which it began."""

    owner: Owner
    lock: Lock
    mode: Mode
    granted: Granted
    since_ms: int = 0
    for_session: bool = False
    follows: Follows = Follows.NOBODY
    """Which holders that have passed the lock on are not waited for."""
    holds: bool = False
    """Whether it has been granted."""


class Patience(Struct, frozen=True, kw_only=True):
    """How long a request waits. `lock_timeout_ms` 0: for ever."""

    lock_timeout_ms: int = 0
    deadlock_timeout_ms: int = 1000
    never: bool = False
    """It does not wait at all, but raises WouldWait."""

    def check(self) -> None:
        """Raise WouldWait when a request must not wait."""
        if self.never:
            raise WouldWait("a lock would have to be waited for")


class WouldWait(LockNotAvailable):
    """A request of who waits for nobody would have to wait. No client is told."""


class Lock:
    """See the module's contract. `holders` gives the set of modes (`modes`) that each owner has."""

    __slots__ = ("_counts", "_mask", "holders", "passed_on", "queue", "tag")

    def __init__(self, tag: Tag) -> None:
        self.tag = tag
        self.holders: dict[Owner, int] = {}
        self.queue: list[Request] = []
        self.passed_on: set[Owner] = set()
        """Those of the holders that have passed the lock on."""
        self._mask = 0
        self._counts = [0] * (len(Mode) + 1)

    @property
    def is_free(self) -> bool:
        """Whether nobody holds it or waits for it."""
        return not self.holders and not self.queue

    def excludes(self, owner: Owner, mode: Mode, follows: Follows = Follows.NOBODY) -> bool:
        """Whether another owner holds a mode that conflicts with `mode`, but for those that the request `follows`."""
        found = CONFLICTS[mode] & self._mask
        if not found:
            return False
        if follows and self.passed_on:
            return any(
                held & found and other is not owner and not self.has_passed_on(other, follows)
                for other, held in self.holders.items()
            )
        own = self.holders.get(owner, 0)
        return any(found >> held & 1 and self._counts[held] > (own >> held & 1) for held in range(1, len(self._counts)))

    def ask_to_decide(self) -> bool:
        """Have the holders let others follow them when they are decided; whether one of them does now."""
        decides = False
        for owner in list(self.holders):
            owner.is_awaited = True
            if owner.decide is not None:
                decide, owner.decide = owner.decide, None
                decide()
                decides = True
        return decides

    def has_passed_on(self, owner: Owner, follows: Follows) -> bool:
        """Whether the holder `owner` has passed the lock on to requests that follow so."""
        return owner in self.passed_on and (follows is Follows.ANYBODY or (bool(follows) and owner.is_certain))

    def is_grantable(self, owner: Owner, mode: Mode, follows: Follows = Follows.NOBODY) -> bool:
        """Whether a request that comes now need not wait."""
        if self.excludes(owner, mode, follows):
            return False
        if not self.queue:
            return True
        place = self._place(owner)
        return not any(CONFLICTS[mode] >> ahead.mode & 1 for ahead in self.queue[:place])

    def _place(self, owner: Owner) -> int:
        held = self.holders.get(owner, 0)
        if held:
            for place, waiting in enumerate(self.queue):
                if CONFLICTS[waiting.mode] & held:
                    return place
        return len(self.queue)

    def waits_for_each_other(self, owner: Owner, mode: Mode) -> Request | None:
        """The first request that waits for what `owner` holds, if `mode` would have to wait for its owner in turn: a
        deadlock that needs no looking for (PostgreSQL, proc.c, ProcSleep)."""
        held = self.holders.get(owner, 0)
        for waiting in self.queue:
            if CONFLICTS[waiting.mode] & held:
                return waiting if CONFLICTS[mode] & self.holders.get(waiting.owner, 0) else None
        return None

    def enqueue(self, request: Request) -> None:
        """Let `request` wait at its place."""
        self.queue.insert(self._place(request.owner), request)

    def add(self, owner: Owner, mode: Mode) -> None:
        """`owner` holds `mode` from now on. It must not have held it before."""
        held = self.holders.get(owner, 0)
        assert not held >> mode & 1
        self.holders[owner] = held | 1 << mode
        self._counts[mode] += 1
        self._mask |= 1 << mode

    def remove(self, owner: Owner, mode: Mode) -> None:
        """`owner` does not hold `mode` any more. `next_granted` says who may go on."""
        held = self.holders[owner] & ~(1 << mode)
        if held:
            self.holders[owner] = held
        else:
            del self.holders[owner]
            self.passed_on.discard(owner)
        self._counts[mode] -= 1
        if not self._counts[mode]:
            self._mask &= ~(1 << mode)

    @property
    def modes(self) -> int:
        """The set of modes that somebody holds."""
        return self._mask

    def next_granted(self, is_free_outside: Callable[[Mode], bool] = lambda mode: True) -> Iterator[Request]:
        """The waiting requests that can be granted now, each taken from the queue; the caller adds the holder before it
        asks for the next. `is_free_outside` is asked last."""
        ahead = 0
        for request in list(self.queue):
            if (
                CONFLICTS[request.mode] & ahead
                or self.excludes(request.owner, request.mode, request.follows)
                or not is_free_outside(request.mode)
            ):
                ahead |= 1 << request.mode
                continue
            self.queue.remove(request)
            yield request

    def absorb(self, other: Lock) -> None:
        """Become both: the holders of `other` hold this lock too, and its waiters wait behind those here.

        Conflicting modes may then be held at once, until one of the owners lets go.
        """
        for owner, held in other.holders.items():
            for mode in modes_of(held & ~self.holders.get(owner, 0)):
                self.add(owner, mode)
        self.passed_on |= other.passed_on
        for request in other.queue:
            request.lock = self
        self.queue.extend(other.queue)

    def blockers(self, request: Request, queue: list[Request]) -> Iterator[tuple[Owner, Request | None]]:
        """Whom `request` waits for if the queue is `queue`: holders (with None), then those ahead of it, with their
        requests."""
        conflicts = CONFLICTS[request.mode]
        # Copies: pg_blocking_pids looks from another thread.
        for owner, held in list(self.holders.items()):
            if owner is not request.owner and conflicts & held and not self.has_passed_on(owner, request.follows):
                yield owner, None
        for ahead in list(queue):
            if ahead is request:
                return
            if conflicts >> ahead.mode & 1:
                yield ahead.owner, ahead
