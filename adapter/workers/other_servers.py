"""What transactions notify, told to the other servers of the environment.

The workers of one server tell each other by themselves (`mesh`), as long as no other server is at work. With others
the way is a key of the consensus store, a run of numbered entries: whoever has committed a transaction that notifies
appends what it has, and every process follows the key and hands on all entries, its own among them, in their order: the
same at every listener. A process that is alone, or shares the environment with none but the other workers of its
server, appends nothing and follows nothing. Before another server may begin to commit (`storage.membership.peers`) it
begins to follow, so that nothing is missed.

The entries of one process are in the order of its commits, and a client that has its COMMIT's answer knows its entry
appended: what it does next, on whatever server, comes behind. Entries of transactions of several servers that commit at
one moment may be in either order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

import msgspec
import structlog

from storage.clock import Clock
from storage.durable.state import framed, unframed
from storage.errors import Determinate, Indeterminate, StorageClosed
from storage.stores.consensus import NO_SEQNO, Consensus, SeqNo, VersionedData

log = structlog.get_logger(__name__)

KEY = "notifications"
WHAT = "the notifications between servers"

KEPT = 256
"""Entries that stay for those who have not read them yet."""

TRUNCATE_EVERY = 64

ENTRY_BYTES = 256 << 10
"""What one entry has of payloads, about; a transaction that notifies more appends several."""

RETRY_S = 0.1
RETRIES = 50
"""After so many attempts to append, what a transaction has notified is lost to the other servers: it has committed."""

LONGEST_WAIT_S = 5.0
"""After so long a process that follows looks whether there are other servers still."""


class Others(Protocol):
    """What is asked about the other processes of the environment (`storage.membership.peers.Peers`)."""

    before_sharing: list[Callable[[], Awaitable[None]]]

    @property
    def has_strangers(self) -> bool:
        """Whether other servers may be at work."""
        ...


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """The `number`-th that `process` appends: what the transaction of its session `pid` has notified."""

    process: str
    number: int
    pid: int
    database: int
    notifications: tuple[tuple[str, str], ...]


Deliver = Callable[[int, int, Sequence[tuple[str, str]]], None]
"""Hands on what a session (its pid), in a database, has notified."""


class OtherServers:
    """See the module. Belongs to the event loop."""

    def __init__(self, *, consensus: Consensus, clock: Clock, peers: Others, process: str, deliver: Deliver) -> None:
        self._consensus = consensus
        self._clock = clock
        self._peers = peers
        self._process = process
        self._deliver = deliver
        self._appending = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._numbers = 0
        self._read = NO_SEQNO
        """The number in the store of the newest entry that was handed on, or was there before."""
        self._heard: dict[str, int] = {}
        """Of each other process, the number of its newest entry."""
        self._task: asyncio.Task[None] | None = None
        peers.before_sharing.append(self._follow)

    async def start(self) -> None:
        """The server is about to serve: follow, if others are at work."""
        if self._peers.has_strangers:
            await self._follow()

    async def close(self) -> None:
        """Follow no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # ------------------------------------------------------------ telling

    async def notify(self, pid: int, database: int, notifications: Sequence[tuple[str, str]]) -> int | None:
        """Tell all servers what the committed transaction of a session has notified: it is written when this returns,
        and handed on here. The number of its first entry; None when the way to others is not this one, because there
        are none, or because the store cannot be written to. Never fails: the transaction has committed."""
        if not notifications or not self._peers.has_strangers:
            return None
        first: int | None = None
        async with self._appending:
            for some in _pieces(notifications):
                self._numbers += 1
                entry = Entry(self._process, self._numbers, pid, database, tuple(some))
                number = await self._append(framed(msgspec.msgpack.encode(entry)))
                if number is None:
                    return None
                first = first or number
        assert first is not None
        await self.appended(first)
        return first

    async def _append(self, data: bytes) -> int | None:
        for _ in range(RETRIES):
            try:
                head = await self._consensus.head(KEY)
                if head is not None and head.data == data:
                    return head.seqno  # An attempt whose outcome was not known had written it.
                known = None if head is None else head.seqno
                new = VersionedData(seqno=SeqNo((known or 0) + 1), data=data)
                if await self._consensus.compare_and_set(KEY, known, new):
                    if new.seqno % TRUNCATE_EVERY == 0 and new.seqno > KEPT:
                        await self._consensus.truncate(KEY, SeqNo(new.seqno - KEPT))
                    return new.seqno
            except StorageClosed:
                return None
            except (Determinate, Indeterminate):
                await self._clock.sleep(RETRY_S)
        log.warning("other servers are not told what a transaction has notified")
        return None

    # ------------------------------------------------------------ following

    async def appended(self, first: int) -> None:
        """This process, or another worker of its server, has appended entries from the number `first` on: hand them on
        now."""
        with contextlib.suppress(StorageClosed, Determinate, Indeterminate):
            if not self._is_following:
                await self._follow(before=SeqNo(first))
            await self._catch_up()

    @property
    def _is_following(self) -> bool:
        return self._task is not None and not self._task.done()

    async def _follow(self, before: SeqNo | None = None) -> None:
        """Begin to follow: from the entry `before` on, or with the next one that is appended."""
        if not self._is_following:
            head = await self._consensus.head(KEY) if before is None else None
            self._read = SeqNo(before - 1) if before is not None else NO_SEQNO if head is None else head.seqno
            self._task = asyncio.get_running_loop().create_task(self._following(), name="notifications-of-servers")

    async def _following(self) -> None:
        while True:
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LONGEST_WAIT_S):
                        await self._consensus.watch(KEY, self._read)
                await self._catch_up()
            except StorageClosed:
                return
            except (Determinate, Indeterminate):
                await self._clock.sleep(RETRY_S)
            if not self._peers.has_strangers:
                return

    async def _catch_up(self) -> None:
        async with self._reading:
            for version in await self._consensus.scan(KEY, SeqNo(self._read + 1)):
                self._read = version.seqno
                self._hand_on(msgspec.msgpack.decode(unframed(version.data, WHAT), type=Entry))

    def _hand_on(self, entry: Entry) -> None:
        if entry.number <= self._heard.get(entry.process, 0):
            return
        self._heard[entry.process] = entry.number
        self._deliver(entry.pid, entry.database, entry.notifications)


def _pieces(notifications: Sequence[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Notifications in entries' sizes."""
    piece: list[tuple[str, str]] = []
    size = 0
    for channel, payload in notifications:
        piece.append((channel, payload))
        size += len(channel) + len(payload)
        if size >= ENTRY_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
