"""Advisory locks hold between all servers of an environment.

A process that has the environment to itself, or shares it with none but the other workers of its server, orders
advisory locks by its lock table (and `locks.outside`), and writes nothing down. Before another server may begin to work
(`storage.membership.peers`) it writes down what its sessions have. From then on every advisory lock is taken twice:
first in the lock table, where the sessions of a process wait for each other; then in a register of the consensus store,
where those wait for each other whom their processes have let through. What is written there follows from the lock table
alone: who holds a lock, without those who are still waiting for the register (`_awaited`).

A lock is let go of in the lock table at once, and in the register right afterwards: pg_advisory_unlock answers when
that is written; the end of a transaction or a session does not wait for it.

What a process has written counts as long as it has its lease. One that stood still for so long that the others took it
for dead has lost its locks, and learns of that before it commits anything (`storage.membership.leases`).

Deadlocks that go through several servers' advisory locks are found after `deadlock_timeout` by those who wait in the
registers, who write down for each other which sessions of their processes wait for which.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from msgspec.structs import replace

from adapter.transactions.locks import tags
from adapter.transactions.locks.deadlock import way_back
from adapter.transactions.locks.lock import Owner, Patience
from adapter.transactions.locks.lock_table import LockTable
from adapter.transactions.locks.modes import Mode
from adapter.transactions.locks.servers.page import (
    Edges,
    Page,
    Session,
    Waiter,
    blockers,
    edges,
    entry_of,
    name_of,
    of_living,
    processes,
    tag_of,
    with_own,
    with_waiter,
    with_within,
)
from adapter.transactions.locks.tags import Tag
from planner.errors import DeadlockDetected, LockNotAvailable
from storage.clock import Clock
from storage.durable.registers import Register, decode_register
from storage.errors import Determinate, Indeterminate, StorageClosed
from storage.stores.consensus import Consensus

PAGES = 16
"""Registers that the locks of an environment are spread over."""

WHAT = "the advisory locks"

LONGEST_PAUSE_S = 1.0
"""After so long who waits looks again, though nothing has been written: a holder may have ended without a word."""

RETRY_S = 0.1
"""Pause before what could not be written is tried again."""


class Others(Protocol):
    """What is asked about the other processes of the environment (`storage.membership.peers.Peers`)."""

    before_sharing: list[Callable[[], Awaitable[None]]]

    @property
    def has_strangers(self) -> bool:
        """Whether other servers may be at work."""
        ...

    async def living(self, processes: Collection[str]) -> frozenset[str]:
        """Those of `processes` that have not ended."""
        ...


class BetweenServers:
    """See the module. Belongs to the event loop."""

    def __init__(self, *, consensus: Consensus, clock: Clock, peers: Others, process: str, locks: LockTable) -> None:
        self._consensus = consensus
        self._clock = clock
        self._peers = peers
        self._process = process
        self._locks = locks
        locks.let_go_of = self.let_go
        self._awaited: dict[Tag, dict[Owner, Mode]] = {}
        """Who wants a lock and is not let through yet, in which mode."""
        self._queued: set[tuple[Owner, Tag]] = set()
        """Those of them whom the lock table has let through, so that they are in a queue of a page."""
        self._written: set[Tag] = set()
        """The locks of which something of this process may be written down."""
        self._changed: set[Tag] = set()
        """Those of which it is to be written anew."""
        self._writing = [asyncio.Lock() for _ in range(PAGES)]
        self._task: asyncio.Task[None] | None = None
        peers.before_sharing.append(self._share)

    async def close(self) -> None:
        """Write nothing any more. The process's lease goes, and what it has written with it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # ------------------------------------------------------------ taking and letting go

    def is_awaited(self, owner: Owner, tag: Tag, mode: Mode) -> bool:
        """Whether `owner` is still waiting for other servers, whatever the lock table says."""
        return self._awaited.get(tag, {}).get(owner) is mode

    def awaits(self, owner: Owner) -> bool:
        """Whether `owner` is waiting for other servers."""
        return any(owner in owners for owners in self._awaited.values())

    async def blocked(self) -> Mapping[int, Sequence[int]]:
        """By the pid of each session that waits for other servers, wherever it is: for whom."""
        if not self._peers.has_strangers:
            return {}
        found = edges(replace(page, within=()) for page in await self._pages())
        return {pid: tuple(blocker for _, blocker in whom) for (_, pid), whom in found.blockers.items()}

    @contextmanager
    def asking(self, owner: Owner, tag: Tag, mode: Mode) -> Iterator[None]:
        """While `owner` takes a lock, first in the lock table and then here, it counts as not having it."""
        if self._locks.holders_of(tag).get(owner, 0) >> mode & 1:
            yield  # It has it, and takes it once more.
            return
        self._awaited.setdefault(tag, {})[owner] = mode
        try:
            yield
        finally:
            if self.is_awaited(owner, tag, mode):
                self._let_through(owner, tag)
                self.let_go(tag)

    def _let_through(self, owner: Owner, tag: Tag) -> None:
        self._queued.discard((owner, tag))
        del self._awaited[tag][owner]
        if not self._awaited[tag]:
            del self._awaited[tag]

    async def take(self, owner: Owner, tag: Tag, mode: Mode, patience: Patience, *, wait: bool = True) -> bool:
        """Take a lock that the lock table has just given to `owner`, who is `asking`; whether it is had. Only without
        `wait` it may not be.

        Raises 55P03, 40P01 and what the store raises.
        """
        if not self.is_awaited(owner, tag, mode):
            return True
        if not self._peers.has_strangers:
            self._let_through(owner, tag)
            return True
        self._queued.add((owner, tag))
        clock = self._clock.monotonic
        began = clock()
        look_at = began + patience.deadlock_timeout_ms / 1000
        suspected: Sequence[Session] = ()
        while not await self._try(owner, tag, mode, wait=wait):
            if not wait:
                return False
            patience.check()
            owner.failed_at = tag
            now = clock()
            until = min(look_at, now + LONGEST_PAUSE_S)
            if patience.lock_timeout_ms:
                expires = began + patience.lock_timeout_ms / 1000
                if now >= expires:
                    raise LockNotAvailable("canceling statement due to lock timeout")
                until = min(until, expires)
            if now >= look_at:
                look_at = now + patience.deadlock_timeout_ms / 1000
                suspected = await self._look_for_deadlock(owner, tag, suspected)
                continue
            await self._moved(tag, Waiter(self._process, owner.pid, mode), until - now)
        return True

    async def _try(self, owner: Owner, tag: Tag, mode: Mode, *, wait: bool) -> bool:
        """Take the lock, if nobody of another process has it or is before; with `wait`, be in the queue otherwise."""
        name, waiter = name_of(tag), Waiter(self._process, owner.pid, mode)
        granted = False

        async def propose(value: Page | None) -> Page:
            nonlocal granted
            before = await self._living(value or Page())
            page = self._own(before, tag)
            granted = not blockers(entry_of(page, name), waiter)
            if granted:
                held, waiting = self._share_of(tag)
                waiting.discard((owner.pid, mode))
                held[owner.pid] = held.get(owner.pid, 0) | 1 << mode
                page = with_own(page, name, self._process, held, waiting)
            elif wait:
                page = with_waiter(page, name, waiter)
            return page if value is None or page != value else value

        async with self._writing[_number(tag)]:
            # NOTE: noted before the write. What is written and not answered must be taken back.
            self._written.add(tag)
            await self._register(tag).change(propose)
            if granted:
                self._let_through(owner, tag)
        return granted

    def let_go(self, tag: Tag) -> None:
        """Somebody has let go of a lock, in the lock table: let the others know."""
        if tag in self._written:
            self._changed.add(tag)
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._write_all(), name="locks-of-servers")

    async def told(self, let_go: Iterable[Tag]) -> None:
        """Returns when the others can see that these locks have been let go of."""
        # NOTE: also those that are not changed any more: they may be being written.
        for number in {_number(tag) for tag in let_go if tag in self._written}:
            await self._write(number)

    # ------------------------------------------------------------ writing

    async def _share(self) -> None:
        """Another server is about to begin: write down what this process has had to itself."""
        held = {lock.tag for lock, _, _ in self._locks.held() if lock.tag.kind == "advisory"}
        self._written |= held
        self._changed |= held
        for number in {_number(tag) for tag in self._changed}:
            await self._write(number)

    async def _write_all(self) -> None:
        while self._changed:
            for number in {_number(tag) for tag in self._changed}:
                try:
                    await self._write(number)
                except StorageClosed:
                    return
                except (Determinate, Indeterminate):
                    await self._clock.sleep(RETRY_S)

    async def _write(self, number: int) -> None:
        async with self._writing[number]:
            changed = {tag for tag in self._changed if _number(tag) == number}
            if not changed:
                return

            async def propose(value: Page | None) -> Page:
                page = await self._living(value or Page())
                for tag in changed:
                    page = self._own(page, tag)
                if not any(_number(tag) == number for tag in self._awaited):
                    page = with_within(page, self._process, {})
                return page if value is None or page != value else value

            self._changed -= changed
            try:
                await self._register_of(number).change(propose)
            except BaseException:
                self._changed |= changed
                raise
            over = {tag for tag in changed - self._changed if tag not in self._awaited}
            self._written -= {tag for tag in over if not self._locks.holders_of(tag)}

    def _share_of(self, tag: Tag) -> tuple[dict[int, int], set[tuple[int, int]]]:
        """What this process has of a lock: modes by pid, and who waits for which mode."""
        held: dict[int, int] = {}
        awaited = self._awaited.get(tag, {})
        for owner, modes in self._locks.holders_of(tag).items():
            # A prepared transaction has no pid, and every server knows of its locks by itself.
            if owner.pid:
                wanted = awaited.get(owner)
                settled = modes if wanted is None else modes & ~(1 << wanted)
                held[owner.pid] = held.get(owner.pid, 0) | settled
        return held, {(owner.pid, mode) for owner, mode in awaited.items() if (owner, tag) in self._queued}

    def _own(self, page: Page, tag: Tag) -> Page:
        held, waiting = self._share_of(tag)
        return with_own(page, name_of(tag), self._process, held, waiting)

    async def _living(self, page: Page) -> Page:
        others = processes(page) - {self._process}
        return page if not others else of_living(page, await self._peers.living(others) | {self._process})

    def _register(self, tag: Tag) -> Register[Page]:
        return self._register_of(_number(tag))

    def _register_of(self, number: int) -> Register[Page]:
        return Register(
            self._consensus, self._clock, _key(number), WHAT, lambda data: decode_register(data, Page, WHAT)
        )

    # ------------------------------------------------------------ waiting

    async def _moved(self, tag: Tag, waiter: Waiter, pause_s: float) -> None:
        """Until something has been written of the lock and some others, but not for longer; at once if nobody is in the
        way of `waiter` any more."""
        try:
            head = await self._consensus.head(_key(_number(tag)))
        except (Determinate, Indeterminate):
            await self._clock.sleep(min(RETRY_S, pause_s))
            return
        assert head is not None, "who waits has written that down"
        if not blockers(entry_of(decode_register(head.data, Page, WHAT), name_of(tag)), waiter):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(pause_s, 0.001)):
                await self._consensus.watch(_key(_number(tag)), head.seqno)

    # ------------------------------------------------------------ deadlocks

    async def _look_for_deadlock(self, owner: Owner, tag: Tag, suspected: Sequence[Session]) -> Sequence[Session]:
        """Raise 40P01 when `owner` waits for itself, and it is the one to fail. What others say of waits within their
        processes may be old: such a way back counts when it was `suspected` the last time; returned for the next."""
        waits = {request.owner.pid: self._locks.blocking(request.owner.pid) for request in self._locks.waiting()}

        async def propose(value: Page | None) -> Page:
            page = with_within(value or Page(), self._process, waits)
            return page if value is None or page != value else value

        async with self._writing[_number(tag)]:
            await self._register(tag).change(propose)
        cycle, _ = await self._cycle((self._process, owner.pid))
        if not cycle:
            return ()
        again, found = await self._cycle((self._process, owner.pid))
        looking = [session for session in cycle if session in found.waits]
        is_certain = all(session in found.waits or session[0] == self._process for session in cycle)
        if again == cycle and max(looking) == (self._process, owner.pid) and (is_certain or cycle == suspected):
            raise _deadlock_detected(cycle, found)
        return cycle

    async def _cycle(self, session: Session) -> tuple[tuple[Session, ...], Edges]:
        found = edges(await self._pages())
        return way_back(found.blockers, session), found

    async def _pages(self) -> list[Page]:
        pages = [await self._register_of(number).read() for number in range(PAGES)]
        return [await self._living(page) for page in pages if page is not None]


def _number(tag: Tag) -> int:
    return zlib.crc32(repr(name_of(tag)).encode()) % PAGES


def _key(number: int) -> str:
    return f"locks/advisory/{number}"


def _deadlock_detected(cycle: Sequence[Session], found: Edges) -> DeadlockDetected:
    lines = []
    for session, (_, blocker) in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
        pid = session[1]
        wanted = found.waits.get(session)
        if wanted is None:
            lines.append(f"Process {pid} waits for another lock of its server; blocked by process {blocker}.")
        else:
            what = tags.described(tag_of(wanted[0]), wanted[0][0])
            lines.append(
                f"Process {pid} waits for {Mode(wanted[1]).lock_name} on {what}; blocked by process {blocker}."
            )
    return DeadlockDetected("deadlock detected", detail="\n".join(lines), hint="See server log for query details.")
