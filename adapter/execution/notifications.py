"""LISTEN and NOTIFY: the listeners of one server process, which also hears what other workers of the server, and other
servers of the environment, notify.

A transaction's notifications are published when it commits, in order, duplicates removed. Each listening session has a
bounded queue, emptied when it is idle (PostgreSQL, "NOTIFY"). The channels of each database are its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field

from adapter.workers.colleagues import Colleagues
from adapter.workers.other_servers import OtherServers

MAX_QUEUED = 10_000
"""Notifications that wait for one busy session; beyond, the oldest are lost rather than the server's memory."""


class Listener(Struct, eq=False):
    """A session's side: what it listens to and what waits for it."""

    pid: int
    database: int = 0
    """The oid of its session's database."""
    channels: dict[str, None] = field(default_factory=dict)
    """In the order in which it began to listen."""
    queue: deque[tuple[int, str, str]] = field(default_factory=lambda: deque(maxlen=MAX_QUEUED))


class NotificationHub:
    """All listeners of a server process."""

    def __init__(self, colleagues: Colleagues | None = None) -> None:
        self._colleagues = colleagues or Colleagues()
        self.other_servers: OtherServers | None = None
        """Who tells the other servers of the environment."""
        self._listeners: dict[Listener, Callable[[], None]] = {}

    def add(self, listener: Listener, arrived: Callable[[], None]) -> None:
        """Begin to serve `listener`; `arrived` is called when something came for it."""
        self._listeners[listener] = arrived

    def remove(self, listener: Listener) -> None:
        """Stop serving it."""
        self._listeners.pop(listener, None)

    def usage(self) -> float:
        """How full the queue is that is the fullest."""
        return max((len(listener.queue) for listener in self._listeners), default=0) / MAX_QUEUED

    async def publish(self, sender: Listener, notifications: Iterable[tuple[str, str]]) -> None:
        """Hand the (channel, payload) pairs of a transaction that the session of `sender` has committed to those who
        listen in its database, at whatever worker: they have them when this returns, and those at other servers a
        moment later."""
        distinct = list(dict.fromkeys(notifications))
        if distinct:
            # Cannot be cancelled: the transaction has committed, and must not seem to have failed.
            publishing = asyncio.ensure_future(self._publish(sender.pid, sender.database, distinct))
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(publishing)

    async def _publish(self, pid: int, database: int, distinct: Sequence[tuple[str, str]]) -> None:
        first = None if self.other_servers is None else await self.other_servers.notify(pid, database, distinct)
        if first is None:
            self.deliver(pid, database, distinct)
            await self._colleagues.notify(pid, database, distinct)
        else:
            await self._colleagues.appended(first)

    def deliver(self, pid: int, database: int, distinct: Sequence[tuple[str, str]]) -> None:
        """Hand (channel, payload) pairs to those who listen at this worker."""
        for listener, arrived in self._listeners.items():
            if listener.database != database:
                continue
            due = [(pid, channel, payload) for channel, payload in distinct if channel in listener.channels]
            if due:
                listener.queue.extend(due)
                arrived()
