"""Time and chance under a test's control: a clock that moves when it is told to, and randomness from a seed."""

from __future__ import annotations

import asyncio
import random


class SeededRandomness:
    """Reproducible randomness: the same seed gives the same sequence, on every platform and process."""

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)

    def random(self) -> float:
        """The next float in [0, 1)."""
        return self._generator.random()

    def randrange(self, stop: int) -> int:
        """The next integer in [0, stop)."""
        return self._generator.randrange(stop)

    def randbytes(self, n: int) -> bytes:
        """The next `n` bytes."""
        return self._generator.randbytes(n)


class ManualClock:
    """A clock that moves only when told, for tests: `sleep` waits until somebody advances it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        """The time last set."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds advanced so far."""
        return self._monotonic_ms / 1000

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has been advanced by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._monotonic_ms + seconds * 1000, woken))
        await woken

    def advance(self, milliseconds: int) -> None:
        """Let `milliseconds` pass on both clocks."""
        self._now_ms += milliseconds
        self._monotonic_ms += milliseconds
        due = [woken for at_ms, woken in self._sleepers if at_ms <= self._monotonic_ms]
        self._sleepers = [sleeper for sleeper in self._sleepers if sleeper[0] > self._monotonic_ms]
        for woken in due:
            if not woken.done():
                woken.set_result(None)

    def jump(self, milliseconds: int) -> None:
        """Move the wall clock alone, back when negative, as a badly set system clock does."""
        self._now_ms += milliseconds
