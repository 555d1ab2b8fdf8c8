"""The hybrid logical clock that CSNs are drawn from.

`tick` is above everything the clock has given out or been shown, and as near to the wall clock as that allows:
the milliseconds follow the wall clock, and the counter orders what falls into one millisecond. A wall clock that
jumps back only makes the counter run (and, after 65,536 ticks, borrow the next millisecond); one that jumps ahead
is followed, and CSNs then wait there for the time to catch up. Order never depends on the wall clock.
"""

from __future__ import annotations

from storage.clock import Clock
from storage.csn import Csn, csn_from_ms

JUMP_THRESHOLD_MS = 1_000
"""A wall clock that gains or loses more than this against the monotonic clock between two ticks has jumped."""


class HybridLogicalClock:
    """Draws ever higher CSNs. Not thread-safe: it belongs to one event loop."""

    def __init__(self, clock: Clock, *, start: Csn = Csn(0)) -> None:
        self._clock = clock
        self._last = start
        self._offset_ms = self._wall_minus_monotonic()
        self.jumps = 0
        """How often the wall clock was seen to jump, in either direction."""

    @property
    def last(self) -> Csn:
        """The highest CSN given out or observed."""
        return self._last

    def tick(self) -> Csn:
        """A CSN above every earlier one."""
        offset_ms = self._wall_minus_monotonic()
        if abs(offset_ms - self._offset_ms) > JUMP_THRESHOLD_MS:
            self.jumps += 1
        self._offset_ms = offset_ms
        self._last = Csn(max(self._last + 1, csn_from_ms(self._clock.now_ms())))
        return self._last

    def observe(self, csn: Csn) -> None:
        """Make every later tick be above `csn`."""
        self._last = max(self._last, csn)

    def _wall_minus_monotonic(self) -> float:
        return self._clock.now_ms() - self._clock.monotonic() * 1000
