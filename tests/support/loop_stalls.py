"""How long a test keeps its event loop from everything else: the watchdog of the whole suite.

What counts is the processor time that the loop's thread spends in one callback, or one step of a task, so that a busy
machine does not matter. asyncio's own loop runs each of them by `Handle._run`. Python's collector is not counted: a
server never lets it look at everything (`adapter.sessions.memory`), while the process of the tests, which holds all
their modules and results, does.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct


class Stall(Struct):
    """The longest stall so far: seconds, and what ran."""

    seconds: float = 0.0
    what: str = ""


class _CollectorTime:
    """Counts the processor time of Python's collector: one of `gc.callbacks`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.seconds += time.thread_time() - self._began


@contextmanager
def watched() -> Iterator[Stall]:
    """Watch every loop of this thread."""
    longest = Stall()
    run = asyncio.Handle._run
    collector = _CollectorTime()

    def timed(handle: asyncio.Handle) -> None:
        collector.seconds = 0.0
        began = time.thread_time()
        try:
            run(handle)
        finally:
            seconds = time.thread_time() - began - collector.seconds
            if seconds > longest.seconds:
                longest.seconds, longest.what = seconds, repr(handle)

    asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]
    gc.callbacks.append(collector)
    try:
        yield longest
    finally:
        gc.callbacks.remove(collector)
        asyncio.Handle._run = run  # type: ignore[method-assign]
