"""The hybrid logical clock that CSNs are drawn from.

`tick` is above everything the clock has given out or been shown, and as near to the wall clock as that allows:
the milliseconds follow the wall clock, and the counter orders what falls into one millisecond. A wall clock that
jumps back only makes the counter run (and, after 65,536 ticks, borrow the next millisecond); one that jumps ahead
is followed, and CSNs then wait there for the time to catch up. Order never depends on the wall clock.
"""

from __future__ import annotations

import structlog

from storage.clock import Clock
from storage.timestamps.csn import Csn, csn_from_ms, csn_ms

log = structlog.get_logger(__name__)

JUMP_THRESHOLD_MS = 1_000
"""A wall clock that gains or loses more than this against the monotonic clock between two ticks has jumped."""

AHEAD_THRESHOLD_MS = 60_000
"""CSNs further ahead of the wall clock than this come from a clock that was wrong. A crash makes them skip less."""


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
        jumped_ms = offset_ms - self._offset_ms
        if abs(jumped_ms) > JUMP_THRESHOLD_MS:
            self.jumps += 1
            log.warning(
                "the system clock jumped; commits keep their order, but times that are asked for are as wrong as the "
                "clock: check the host's time synchronization",
                seconds=round(jumped_ms / 1000, 1),
            )
        self._offset_ms = offset_ms
        self._last = Csn(max(self._last + 1, csn_from_ms(self._clock.now_ms())))
        return self._last

    def observe(self, csn: Csn) -> None:
        """Make every later tick be above `csn`."""
        self._last = max(self._last, csn)

    def _wall_minus_monotonic(self) -> float:
        return self._clock.now_ms() - self._clock.monotonic() * 1000


def warn_if_ahead(newest: Csn, clock: Clock) -> None:
    """Tell the operator when the environment's newest CSN is far ahead of the wall clock: one of the two is wrong."""
    ahead_ms = csn_ms(newest) - clock.now_ms()
    if ahead_ms > AHEAD_THRESHOLD_MS:
        log.warning(
            "the newest commit is ahead of the system clock; new ones follow it in order, and their commit times stand "
            "still until the clock has caught up: check the host's time synchronization",
            seconds=round(ahead_ms / 1000, 1),
        )
