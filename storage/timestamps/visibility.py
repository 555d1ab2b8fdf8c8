"""Ordered visibility: commits become durable concurrently and become visible in CSN order.

A writer *acquires* a CSN, makes its commit durable, and *publishes* it. A CSN is visible once it and every lower
acquired CSN is published or abandoned. Whoever completes the head of the queue releases everyone complete behind
it; nobody polls and no lock is held.

    acquired 5 6 7      publish(6) -> waits      publish(5) -> 5 and 6 visible      abandon(7) -> nothing new

An acquired CSN that is neither published nor abandoned blocks all later ones, so its owner must do one of the two
on every way out. `pending` shows who is in the way.
"""

from __future__ import annotations

import asyncio
import bisect

from storage.timestamps.csn import Csn


class _Entry:
    __slots__ = ("complete", "csn", "publishes", "waiters")

    def __init__(self, csn: Csn) -> None:
        self.csn = csn
        self.complete = False
        self.publishes = False
        self.waiters: list[asyncio.Future[None]] = []


class PublishQueue:
    """The queue of one timeline in one process. Not thread-safe: it belongs to one event loop."""

    def __init__(self, visible: Csn) -> None:
        self.visible = visible
        """The highest CSN up to which everything acquired here is published."""
        self._entries: list[_Entry] = []

    @property
    def pending(self) -> tuple[Csn, ...]:
        """The acquired CSNs that are not yet visible, lowest first."""
        return tuple(entry.csn for entry in self._entries)

    def acquire(self, csn: Csn) -> None:
        """Enter `csn`, which must be above `visible` and not entered yet."""
        at = bisect.bisect_left(self._entries, csn, key=lambda entry: entry.csn)
        if csn <= self.visible or (at < len(self._entries) and self._entries[at].csn == csn):
            raise ValueError(f"CSN {csn} was acquired before, or too late: {self.visible} is visible")
        self._entries.insert(at, _Entry(csn))

    def publish(self, csn: Csn) -> asyncio.Future[None] | None:
        """Mark `csn` durable. None: it is visible now; otherwise a future that is done when it is.

        A CSN that was not acquired here (another process's commit) is entered at its place. Idempotent.
        """
        if csn <= self.visible:
            return None
        at = bisect.bisect_left(self._entries, csn, key=lambda entry: entry.csn)
        if at == len(self._entries) or self._entries[at].csn != csn:
            self._entries.insert(at, _Entry(csn))
        entry = self._entries[at]
        entry.complete = entry.publishes = True
        self._release()
        if csn <= self.visible:
            return None
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry.waiters.append(waiter)
        return waiter

    def abandon(self, csn: Csn) -> None:
        """Give up an acquired `csn`, which will never commit. Does nothing when it is not pending."""
        at = bisect.bisect_left(self._entries, csn, key=lambda entry: entry.csn)
        if at < len(self._entries) and self._entries[at].csn == csn and not self._entries[at].complete:
            self._entries[at].complete = True
            self._release()

    def _release(self) -> None:
        ready = 0
        while ready < len(self._entries) and self._entries[ready].complete:
            ready += 1
        released = self._entries[:ready]
        del self._entries[:ready]
        for entry in released:
            if entry.publishes:
                self.visible = max(self.visible, entry.csn)
            for waiter in entry.waiters:
                if not waiter.done():
                    waiter.set_result(None)
