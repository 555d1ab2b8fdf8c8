"""A run of numbered entries in the consensus store, which the servers of an environment write to each other.

Who has something to say appends an entry; who wants to hear follows the key, and is handed every entry from then on, in
the same order as everybody else. Entries are forgotten after a while: nobody who comes later is told what was.

A process that is alone, or shares the environment with none but the other workers of its server, follows nothing.
Before another server may begin to work (`storage.membership.peers`) it begins to follow, so that nothing is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from storage.clock import Clock
from storage.durable.state import framed, unframed
from storage.errors import Determinate, Indeterminate, StorageClosed
from storage.stores.consensus import NO_SEQNO, Consensus, SeqNo, VersionedData

TRUNCATE_EVERY = 64

RETRY_S = 0.1
RETRIES = 50
"""Attempts to append an entry, before it is given up."""

LONGEST_WAIT_S = 5.0
"""After so long a process that follows looks whether there are other servers still."""


class Others(Protocol):
    """What is asked about the other processes of the environment (`storage.membership.peers.Peers`)."""

    before_sharing: list[Callable[[], Awaitable[None]]]

    @property
    def has_strangers(self) -> bool:
        """Whether other servers may be at work."""
        ...

    def strangers(self) -> frozenset[str]:
        """The processes of other servers that have a lease, as far as this one has heard."""
        ...

    async def living(self, processes: Collection[str]) -> frozenset[str]:
        """Those of `processes` that have not ended."""
        ...


class SharedLog:
    """The entries of one key; `what` names them in errors. `kept` stay for those who have not read them yet."""

    def __init__(self, consensus: Consensus, clock: Clock, key: str, what: str, kept: int) -> None:
        self._consensus = consensus
        self._clock = clock
        self.name = key
        self._key = key
        self._what = what
        self._kept = kept

    async def append(self, entry: bytes) -> SeqNo | None:
        """Write an entry; its number, or None when the store cannot be written to."""
        data = framed(entry)
        for _ in range(RETRIES):
            try:
                head = await self._consensus.head(self._key)
                if head is not None and head.data == data:
                    return head.seqno  # An attempt whose outcome was not known had written it.
                known = None if head is None else head.seqno
                new = VersionedData(seqno=SeqNo((known or 0) + 1), data=data)
                if await self._consensus.compare_and_set(self._key, known, new):
                    if new.seqno % TRUNCATE_EVERY == 0 and new.seqno > self._kept:
                        await self._consensus.truncate(self._key, SeqNo(new.seqno - self._kept))
                    return new.seqno
            except StorageClosed:
                return None
            except (Determinate, Indeterminate):
                await self._clock.sleep(RETRY_S)
        return None

    async def newest(self) -> SeqNo:
        """The number of the newest entry."""
        head = await self._consensus.head(self._key)
        return NO_SEQNO if head is None else head.seqno

    async def after(self, number: SeqNo) -> list[tuple[SeqNo, bytes]]:
        """The entries behind `number`."""
        found = await self._consensus.scan(self._key, SeqNo(number + 1))
        return [(version.seqno, unframed(version.data, self._what)) for version in found]

    async def moved(self, number: SeqNo, within_s: float) -> None:
        """Until there is an entry behind `number`, but not for longer than `within_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._consensus.watch(self._key, number)

    async def forget_before(self, number: SeqNo) -> None:
        """Nobody needs the entries before `number` any more."""
        # Only room is at stake.
        with contextlib.suppress(Determinate, Indeterminate):
            await self._consensus.truncate(self._key, number)


class Following:
    """Hands on all entries of a log, as long as other servers may be at work. Belongs to the event loop."""

    def __init__(self, log: SharedLog, peers: Others, clock: Clock, hand_on: Callable[[bytes], None]) -> None:
        self._log = log
        self._peers = peers
        self._clock = clock
        self._hand_on = hand_on
        self._reading = asyncio.Lock()
        self._read = NO_SEQNO
        """The number of the newest entry that was handed on, or was there before."""
        self._task: asyncio.Task[None] | None = None
        peers.before_sharing.append(self.follow)

    async def start(self) -> None:
        """The server is about to serve: follow, if others are at work."""
        if self._peers.has_strangers:
            await self.follow()

    async def close(self) -> None:
        """Follow no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def up_to_now(self, first: SeqNo) -> None:
        """Entries have been appended from the number `first` on: hand them on now."""
        with contextlib.suppress(StorageClosed, Determinate, Indeterminate):
            if not self._is_following:
                await self.follow(before=first)
            await self._catch_up()

    @property
    def _is_following(self) -> bool:
        return self._task is not None and not self._task.done()

    async def follow(self, before: SeqNo | None = None) -> None:
        """Begin to follow: from the entry `before` on, or with the next one that is appended."""
        if not self._is_following:
            self._read = SeqNo(before - 1) if before is not None else await self._log.newest()
            self._task = asyncio.get_running_loop().create_task(self._follow(), name=f"follow-{self._log.name}")

    async def _follow(self) -> None:
        while True:
            try:
                await self._log.moved(self._read, LONGEST_WAIT_S)
                await self._catch_up()
            except StorageClosed:
                return
            except (Determinate, Indeterminate):
                await self._clock.sleep(RETRY_S)
            if not self._peers.has_strangers:
                return

    async def _catch_up(self) -> None:
        async with self._reading:
            for number, entry in await self._log.after(self._read):
                self._read = number
                self._hand_on(entry)
