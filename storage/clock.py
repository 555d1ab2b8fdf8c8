"""Time and randomness: the only module that may touch the operating system's clock or entropy.

Everything in `storage` takes a `Clock` and a `Randomness` from outside, so that the whole layer can run in a
deterministic simulation. A wall clock may jump back or ahead; nothing may rely on `now_ms` for order, only
for the milliseconds of a new CSN, which the oracle keeps monotone by itself. Durations are measured with
`monotonic`.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now_ms(self) -> int:
        """Unix milliseconds. May jump in both directions."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after at least `seconds`; with 0, let other tasks run once."""
        ...


class Randomness(Protocol):
    """A source of random numbers."""

    def random(self) -> float:
        """A float in [0, 1)."""
        ...

    def randrange(self, stop: int) -> int:
        """An integer in [0, stop). `stop` must be positive."""
        ...

    def randbytes(self, n: int) -> bytes:
        """`n` random bytes, for identifiers and tokens."""
        ...


class SystemClock:
    """The operating system's clocks."""

    def now_ms(self) -> int:
        """Unix milliseconds of the system's real-time clock."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds of the system's monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running event loop."""
        await asyncio.sleep(seconds)


class SystemRandomness:
    """The operating system's entropy."""

    def __init__(self) -> None:
        self._generator = random.SystemRandom()

    def random(self) -> float:
        """A float in [0, 1)."""
        return self._generator.random()

    def randrange(self, stop: int) -> int:
        """An integer in [0, stop)."""
        return self._generator.randrange(stop)

    def randbytes(self, n: int) -> bytes:
        """`n` bytes fit for identifiers that must not collide between processes."""
        return os.urandom(n)
