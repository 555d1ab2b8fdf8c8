"""From one process to several: how a process that has an environment to itself makes room for others.

A process that is alone takes timestamps by itself, without I/O; several take them from the txns shard, which costs a
read of it per read timestamp. Which of the two holds is written in the leases:

1. A process that opens the environment and finds no other lease takes its own as ``sole``, atomically with that
   finding.
2. One that finds others takes a lease that is not ``sole``, and waits. It neither reads nor commits yet.
3. The ``sole`` process sees the new lease, switches to the shared oracle *first*, and then renews its own lease
   without ``sole``. Nothing that it served before can be missed: nobody else has committed.
4. When no live lease is ``sole`` any more, the newcomer begins.

A ``sole`` process that has died is recognised by `Liveness` where there is one, or by its lease.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from storage.csn import Csn
from storage.oracle import Oracle, Timeline
from storage.oracle_shared import TxnsFrontier
from storage.txns_cache import TxnsCache
from storage.txns_head import CacheHead


class Liveness(Protocol):
    """Knows, sooner than a lease runs out, that a process is dead."""

    def announce(self, process: str) -> None:
        """This process is `process`."""
        ...

    def is_dead(self, process: str) -> bool:
        """Whether `process` has certainly ended."""
        ...


class FollowingHead(CacheHead):
    """The head of the txns shard, for an oracle whose readers find the catalog as new as their timestamp."""

    def __init__(self, cache: TxnsCache, catch_up: Callable[[], Awaitable[object]]) -> None:
        super().__init__(cache)
        self._catch_up = catch_up

    async def refresh(self) -> TxnsFrontier:
        """See `CacheHead.refresh`; the catalog of this process has followed when it returns."""
        frontier = await super().refresh()
        await self._catch_up()
        return frontier


class SwitchingOracle:
    """An `Oracle` that passes everything on to another one, which can be exchanged."""

    def __init__(self, inner: Oracle) -> None:
        self._inner = inner
        self._left: list[Oracle] = []

    def switch(self, inner: Oracle) -> None:
        """Take timestamps from `inner` from now on. Timestamps acquired before stay valid as proposals."""
        self._left.append(self._inner)
        self._inner = inner

    async def read_ts(self, timeline: Timeline) -> Csn:
        """See `Oracle.read_ts`."""
        return await self._inner.read_ts(timeline)

    async def write_ts(self, timeline: Timeline) -> Csn:
        """See `Oracle.write_ts`."""
        return await self._inner.write_ts(timeline)

    async def apply_write(self, timeline: Timeline, ts: Csn, *, wait: bool = True) -> None:
        """See `Oracle.apply_write`; those who wait at an oracle that was left are released too."""
        for oracle in self._left:
            await oracle.apply_write(timeline, ts, wait=False)
        await self._inner.apply_write(timeline, ts, wait=wait)

    def abandon_write(self, timeline: Timeline, ts: Csn) -> None:
        """See `Oracle.abandon_write`."""
        for oracle in (*self._left, self._inner):
            oracle.abandon_write(timeline, ts)

    def observe(self, ts: Csn) -> None:
        """See `Oracle.observe`."""
        self._inner.observe(ts)

    async def close(self) -> None:
        """See `Oracle.close`."""
        for oracle in (*self._left, self._inner):
            await oracle.close()
