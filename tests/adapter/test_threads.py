"""The threads that work for the event loop."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from adapter.threads import Workers


async def test_results_and_errors_come_back() -> None:
    workers = Workers(2, "test")

    def fail() -> None:
        raise ValueError("as it was raised")

    try:
        assert await workers.run(lambda: threading.current_thread().name) == "test_0"
        with pytest.raises(ValueError, match="as it was raised"):
            await workers.run(fail)
        assert await asyncio.gather(*(workers.run(partial(int, n)) for n in range(100))) == list(range(100))
    finally:
        await asyncio.to_thread(workers.close)


async def test_as_many_at_once_as_there_are_threads() -> None:
    workers = Workers(3, "test")
    all_busy, go = threading.Barrier(4), threading.Event()
    started: list[int] = []

    def work(number: int) -> int:
        started.append(number)
        if number < 3:
            all_busy.wait()
        go.wait()
        return number

    try:
        jobs = [workers.run(partial(work, n)) for n in range(5)]
        await asyncio.to_thread(all_busy.wait)
        assert sorted(started) == [0, 1, 2]
        go.set()
        assert await asyncio.gather(*jobs) == [0, 1, 2, 3, 4]
    finally:
        await asyncio.to_thread(workers.close)


async def test_a_cancelled_job_is_done_all_the_same_and_close_waits_for_it() -> None:
    workers = Workers(1, "test")
    go = threading.Event()
    done: list[int] = []

    def work() -> None:
        go.wait()
        done.append(1)

    job = workers.run(work)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    go.set()
    await asyncio.to_thread(workers.close)
    assert done == [1]
