"""How long a test keeps its event loop from everything else: the watchdog of the whole suite.

What counts is the processor time that the loop's thread spends in one callback, or one step of a task, so that a busy
machine does not matter. asyncio's own loop runs each of them by `Handle._run`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct


class Stall(Struct):
    """The longest stall so far: seconds, and what ran."""

    seconds: float = 0.0
    what: str = ""


@contextmanager
def watched() -> Iterator[Stall]:
    """Watch every loop of this thread."""
    longest = Stall()
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        try:
            run(handle)
        finally:
            seconds = time.thread_time() - began
            if seconds > longest.seconds:
                longest.seconds, longest.what = seconds, repr(handle)

    asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]
    try:
        yield longest
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
