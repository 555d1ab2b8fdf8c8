"""Threads that do blocking work for the event loop: an engine's, or planning.

Reads of a few milliseconds come here, so handing a job over is kept short: no locks but the queue's own, and one call
back to the loop for each job. Jobs start in the order they came, as many at once as there are threads.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

STACK_BYTES = 256 * 1024 * 1024
"""Stack of each thread: parsing, planning and engines recurse as deep as a statement nests. The system gives memory to
what is used of it only."""


class Workers:
    """At most `limit` threads, started as jobs need them, which give way to others by `nice`. Belongs to one event
    loop, but for `close`."""

    def __init__(self, limit: int, name: str, *, nice: int = 0) -> None:
        self._limit = limit
        self._name = name
        self._nice = nice
        self._jobs: queue.SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0
        """Jobs that wait or run. There are `limit` threads or at least as many as this ever was."""

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Runs `work` on a thread, in the caller's context; the future has its result or what it raised. Cancelling the
        future does not stop the work: whoever cancels makes it end, and shields the future if it has to know when."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._unfinished += 1
        if self._unfinished > len(self._threads) < self._limit:
            thread = threading.Thread(
                target=self._work, args=(loop,), name=f"{self._name}_{len(self._threads)}", daemon=True
            )
            self._threads.append(thread)
            before = threading.stack_size(STACK_BYTES)
            try:
                thread.start()
            finally:
                threading.stack_size(before)
        self._jobs.put((future, partial(copy_context().run, work)))
        return future

    def close(self) -> None:
        """Ends the threads once what was given to them is done; blocks until then."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._nice and sys.platform == "linux":
            # There a thread has a niceness of its own, and so have the threads that it starts.
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._nice)
        while (job := self._jobs.get()) is not None:
            future, work = job
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001 - passed on to whoever awaits it
                error = raised
            try:
                loop.call_soon_threadsafe(self._finished, future, result, error)
            except RuntimeError:
                # The loop is closed: nobody waits for the result, or for any other.
                return
            del job, future, work, result, error

    def _finished(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._unfinished -= 1
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
