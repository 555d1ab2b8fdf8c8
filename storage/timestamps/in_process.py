"""The CSN oracle of an environment that one process has to itself: timestamps cost no I/O.

It reserves CSNs durably a window at a time, in the background and before the window is used up, so that a restart never
reissues one. The reservation also fences: when another process has taken the window over, the next extension raises
`EnvironmentFenced`, and this process must stop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

import msgspec

from storage.clock import Clock, Randomness
from storage.durable.registers import Register, decode_register
from storage.errors import Determinate, EnvironmentFenced, Indeterminate, NewerFormat
from storage.stores.consensus import Consensus
from storage.timestamps.csn import COUNTER_BITS, Csn, csn_from_ms
from storage.timestamps.hlc import HybridLogicalClock
from storage.timestamps.oracle import TIMELINES, Timeline
from storage.timestamps.visibility import PublishQueue

WINDOW_MS = 10_000
"""CSNs reserved ahead by one durable write. A restart skips at most so much time; longer costs fewer writes."""

WINDOW_KEY = "oracle/window"
WINDOW_FORMAT = 1


class _Window(msgspec.Struct, frozen=True, kw_only=True):
    """The durable reservation: CSNs below `end` may have been issued by `owner`."""

    format: int
    owner: str
    end: int


class InProcessOracle:
    """`Oracle` of one process; see the module's contract."""

    def __init__(self, consensus: Consensus, clock: Clock, owner: str) -> None:
        self._register = Register(consensus, clock, WINDOW_KEY, "the CSN window", _decode)
        self._clock = clock
        self._owner = owner
        self._hlc = HybridLogicalClock(clock)
        self._queues = {timeline: PublishQueue(Csn(0)) for timeline in TIMELINES}
        self._window_end = Csn(0)
        self._extending = asyncio.Lock()
        self._background: asyncio.Task[None] | None = None
        self._failure: EnvironmentFenced | None = None
        self._closed = False

    @staticmethod
    async def open(
        consensus: Consensus,
        clock: Clock,
        randomness: Randomness,
        *,
        read_floor: Mapping[Timeline, Csn] | None = None,
    ) -> InProcessOracle:
        """Take the environment's window over and start above everything it covers.

        `read_floor` gives the first read timestamp of each timeline: it must be at or above every commit so far
        (the txns shard's upper - 1 is). Without one the end of the last window serves.
        """
        oracle = InProcessOracle(consensus, clock, randomness.randbytes(12).hex())
        last_end = await oracle._take_over()
        for timeline in TIMELINES:
            floor = (read_floor or {}).get(timeline, last_end)
            oracle._queues[timeline] = PublishQueue(floor)
            oracle._hlc.observe(floor)
        return oracle

    @property
    def clock_jumps(self) -> int:
        """How often the wall clock was seen to jump."""
        return self._hlc.jumps

    async def read_ts(self, timeline: Timeline) -> Csn:
        """See `Oracle.read_ts`."""
        if self._failure is not None:
            raise self._failure
        return self._queues[timeline].visible

    async def write_ts(self, timeline: Timeline) -> Csn:
        """See `Oracle.write_ts`; waits for a durable write only when the window is used up."""
        if self._failure is not None:
            raise self._failure
        ts = self._hlc.tick()
        # NOTE: acquire before the first await, so that CSNs enter the queue in the order they were drawn.
        self._queues[timeline].acquire(ts)
        try:
            await self._cover(ts)
        except BaseException:
            self.abandon_write(timeline, ts)
            raise
        return ts

    async def apply_write(self, timeline: Timeline, ts: Csn, *, wait: bool = True) -> None:
        """See `Oracle.apply_write`."""
        self._hlc.observe(ts)
        await self._cover(ts)
        waiter = self._queues[timeline].publish(ts)
        if wait and waiter is not None:
            await waiter

    def abandon_write(self, timeline: Timeline, ts: Csn) -> None:
        """See `Oracle.abandon_write`."""
        self._queues[timeline].abandon(ts)

    def observe(self, ts: Csn) -> None:
        """See `Oracle.observe`."""
        self._hlc.observe(ts)

    async def close(self) -> None:
        """Give back what is left of the window, so that a restart need not skip it."""
        if self._closed:
            return
        self._closed = True
        if self._background is not None:
            self._background.cancel()
            with contextlib.suppress(asyncio.CancelledError, Determinate, Indeterminate, EnvironmentFenced):
                await self._background
        # A window that cannot be given back is skipped at the next start, as after a crash.
        with contextlib.suppress(Determinate, Indeterminate, EnvironmentFenced):
            await self._reserve(Csn(self._hlc.last + 1))

    async def _cover(self, ts: Csn) -> None:
        """Return once `ts` is below the durable end of the window; extend in the background before that."""
        if ts + (WINDOW_MS // 2 << COUNTER_BITS) < self._window_end:
            return
        if ts < self._window_end:
            if self._background is None or self._background.done():
                self._background = asyncio.get_running_loop().create_task(self._extend_ahead(ts))
            return
        async with self._extending:
            if ts >= self._window_end:
                await self._reserve(self._wanted_end(ts))

    async def _extend_ahead(self, ts: Csn) -> None:
        async with self._extending:
            end = self._wanted_end(ts)
            if end <= self._window_end:
                return
            try:
                await self._reserve(end)
            except EnvironmentFenced as error:
                self._failure = error
            except (Determinate, Indeterminate):
                return  # The next call tries again, and waits for it when the window is used up.

    def _wanted_end(self, ts: Csn) -> Csn:
        return Csn(max(ts, csn_from_ms(self._clock.now_ms())) + (WINDOW_MS << COUNTER_BITS))

    async def _take_over(self) -> Csn:
        last_end = Csn(0)

        async def take_over(window: _Window | None) -> _Window:
            nonlocal last_end
            if window is not None and window.owner == self._owner:
                return window  # An attempt of ours took effect without our hearing of it.
            last_end = Csn(0 if window is None else window.end)
            self._hlc.observe(last_end)
            return _Window(format=WINDOW_FORMAT, owner=self._owner, end=self._wanted_end(last_end))

        self._window_end = Csn((await self._register.change(take_over)).end)
        return last_end

    async def _reserve(self, end: Csn) -> None:
        """Make `end` the durable end of the window. Raises EnvironmentFenced when another process owns it now."""

        async def move(window: _Window | None) -> _Window:
            if window is None or window.owner != self._owner:
                raise EnvironmentFenced("another process has taken over the CSN window; stop this one")
            return window if window.end == end else _Window(format=WINDOW_FORMAT, owner=self._owner, end=end)

        await self._register.change(move, from_seen=True)
        self._window_end = end


def _decode(data: bytes) -> _Window:
    window = decode_register(data, _Window, "the CSN window")
    if window.format > WINDOW_FORMAT:
        raise NewerFormat(f"the CSN window has format {window.format}; this version knows {WINDOW_FORMAT}")
    return window
