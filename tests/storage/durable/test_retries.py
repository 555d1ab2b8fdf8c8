"""Trying again: how often, how long, and what is final."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from storage.doubles.clock import ManualClock
from storage.durable.retries import retried
from storage.errors import Determinate, Indeterminate, StorageClosed, StorageError, StoreFull

PAUSES_S = (1.0, 2.0, 4.0)


class Store:
    """Fails as `failures` say, one by one, and then answers; each attempt takes `seconds`."""

    def __init__(self, clock: ManualClock, *failures: StorageError, seconds: float = 0.0) -> None:
        self.asked_at: list[float] = []
        self._clock = clock
        self._failures = list(failures)
        self._seconds = seconds

    async def ask(self) -> str:
        self.asked_at.append(self._clock.monotonic())
        self._clock.advance(round(self._seconds * 1000))
        if self._failures:
            raise self._failures.pop(0)
        return "answer"


async def passing(clock: ManualClock, work: Callable[[], Awaitable[str]]) -> str:
    """The result of `work` while the clock goes on a second at a time."""
    task = asyncio.ensure_future(work())
    while not task.done():
        for _ in range(5):
            await asyncio.sleep(0)
        if not task.done():
            clock.advance(1000)
    return task.result()


async def test_a_store_that_recovers_is_asked_again_after_each_pause() -> None:
    clock = ManualClock()
    start = clock.monotonic()
    store = Store(clock, Determinate("away"), Indeterminate("perhaps"), StoreFull("full"))
    assert await passing(clock, lambda: retried(store.ask, clock, PAUSES_S)) == "answer"
    assert [at - start for at in store.asked_at] == [0, 1, 3, 7]


async def test_the_last_failure_is_raised() -> None:
    clock = ManualClock()
    store = Store(clock, *[Determinate(f"failure {number}") for number in range(9)])
    with pytest.raises(Determinate, match="failure 3"):
        await passing(clock, lambda: retried(store.ask, clock, PAUSES_S))


@pytest.mark.parametrize(
    ("failure", "final"), [(StorageClosed("closed"), None), (Indeterminate("perhaps"), (StorageClosed, Indeterminate))]
)
async def test_what_is_final_is_raised_at_once(
    failure: StorageError, final: tuple[type[StorageError], ...] | None
) -> None:
    clock = ManualClock()
    store = Store(clock, failure)
    with pytest.raises(type(failure)):
        await (
            retried(store.ask, clock, PAUSES_S) if final is None else retried(store.ask, clock, PAUSES_S, final=final)
        )
    assert len(store.asked_at) == 1


async def test_other_errors_are_not_the_stores() -> None:
    async def broken() -> str:
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match="a mistake"):
        await retried(broken, ManualClock(), PAUSES_S)


async def test_a_store_that_takes_long_to_fail_is_asked_once_more_after_the_limit() -> None:
    clock = ManualClock()
    store = Store(clock, *[Determinate("slow")] * 9, seconds=10.0)
    with pytest.raises(Determinate):
        await passing(clock, lambda: retried(store.ask, clock, [1.0] * 8, give_up_s=15.0))
    assert len(store.asked_at) == 3
