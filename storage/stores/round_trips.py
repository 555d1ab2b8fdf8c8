"""Batching of concurrent calls into round trips.

Calls that arrive while a round trip is under way gather and share the next one. A call is served only by a round
trip that *began after it arrived*: joining one already under way would be faster and could answer with what was
true before the call, which is not linearizable.

A caller that is cancelled leaves its batch undisturbed; an error of the round trip goes to all of its batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")

MAX_BATCH = 4096
"""Calls in one round trip; bounds the work of one and so the wait of the next."""


class RoundTrips(Generic[Q, A]):
    """Runs `serve(questions) -> answers`, at most once at a time, for every `ask`."""

    def __init__(self, serve: Callable[[Sequence[Q]], Awaitable[Sequence[A]]]) -> None:
        self._serve = serve
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._running: asyncio.Task[None] | None = None
        self.trips = 0
        self.calls = 0

    async def ask(self, question: Q) -> A:
        """The answer of a round trip that began after this call."""
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        self.calls += 1
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._run())
        return await answer

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            batch = [(question, answer) for question, answer in batch if not answer.done()]
            if not batch:
                continue
            self.trips += 1
            try:
                answers = await self._serve([question for question, _ in batch])
            except asyncio.CancelledError:
                for _, answer in [*batch, *self._waiting]:
                    answer.cancel()
                raise
            except Exception as error:  # noqa: BLE001 - every caller of the batch gets it
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, answer), value in zip(batch, answers, strict=True):
                if not answer.done():
                    answer.set_result(value)

    async def close(self) -> None:
        """Cancel the round trip under way and everybody who waits."""
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.wait([self._running])
