"""What transactions notify, told to the other servers of the environment.

The workers of one server tell each other by themselves (`mesh`), as long as no other server is at work. With others
the way is a log in the consensus store (`shared_log`): whoever has committed a transaction that notifies appends what
it has, and every process follows the log and hands on all entries, its own among them, in their order: the same at
every listener. A process that is alone, or shares the environment with none but the other workers of its server,
appends nothing and follows nothing.

The entries of one process are in the order of its commits, and a client that has its COMMIT's answer knows its entry
appended: what it does next, on whatever server, comes behind. Entries of transactions of several servers that commit at
one moment may be in either order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec
import structlog

from adapter.workers.shared_log import Following, Others, SharedLog
from storage.clock import Clock
from storage.stores.consensus import Consensus, SeqNo

log = structlog.get_logger(__name__)

KEY = "notifications"
WHAT = "the notifications between servers"

KEPT = 256
"""Entries that stay for those who have not read them yet."""

ENTRY_BYTES = 256 << 10
"""What one entry has of payloads, about; a transaction that notifies more appends several."""


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
        self._peers = peers
        self._process = process
        self._deliver = deliver
        self._appending = asyncio.Lock()
        self._numbers = 0
        self._heard: dict[str, int] = {}
        """Of each other process, the number of its newest entry."""
        self._log = SharedLog(consensus, clock, KEY, WHAT, KEPT)
        self._following = Following(self._log, peers, clock, self._hand_on)

    async def start(self) -> None:
        """The server is about to serve: follow, if others are at work."""
        await self._following.start()

    async def close(self) -> None:
        """Follow no more."""
        await self._following.close()

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
                number = await self._log.append(msgspec.msgpack.encode(entry))
                if number is None:
                    # It has committed: what it has notified is lost to the other servers.
                    log.warning("other servers are not told what a transaction has notified")
                    return None
                first = first or number
        assert first is not None
        await self.appended(first)
        return first

    async def appended(self, first: int) -> None:
        """This process, or another worker of its server, has appended entries from the number `first` on: hand them on
        now."""
        await self._following.up_to_now(SeqNo(first))

    def _hand_on(self, data: bytes) -> None:
        entry = msgspec.msgpack.decode(data, type=Entry)
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
