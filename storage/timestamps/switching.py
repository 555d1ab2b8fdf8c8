"""The oracle of a process that may be alone today and not tomorrow: it passes everything on to the one in use.

Who changes over, and when that is safe, is told in `storage.membership.peers`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from storage.timestamps.csn import Csn
from storage.timestamps.in_process import InProcessOracle
from storage.timestamps.oracle import Oracle, Timeline
from storage.timestamps.shared import TxnsOracle


class SwitchingOracle:
    """An `Oracle` that passes everything on to one of several, which can be exchanged."""

    def __init__(self, inner: Oracle, ensure_alone: Callable[[], Awaitable[None]] | None = None) -> None:
        self._inner = inner
        self._left: list[Oracle] = []
        self._ensure_alone = ensure_alone
        """Awaited before a timestamp is read from memory: raises when others may have begun to commit."""

    @property
    def inner(self) -> Oracle:
        """The oracle in use."""
        return self._inner

    @property
    def asks_store(self) -> bool:
        """Whether a read timestamp costs a question to the store."""
        inner = self._inner
        return inner.asks_store if isinstance(inner, TxnsOracle) else not isinstance(inner, InProcessOracle)

    def start_with(self, inner: Oracle) -> None:
        """Take timestamps from `inner` instead; none has been asked for yet."""
        self._inner = inner

    def switch(self, inner: Oracle) -> None:
        """Take timestamps from `inner` from now on. Timestamps acquired before stay valid as proposals."""
        self._left = [oracle for oracle in (*self._left, self._inner) if oracle is not inner]
        self._inner = inner

    async def read_ts(self, timeline: Timeline) -> Csn:
        """See `Oracle.read_ts`."""
        if self._ensure_alone is not None and not self.asks_store:
            await self._ensure_alone()
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
