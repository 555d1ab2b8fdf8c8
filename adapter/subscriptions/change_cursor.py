"""A cursor over a subscription: FETCH gives the rows that have come, and waits for the first one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from adapter.results import RecordBatch
from adapter.subscriptions.feed import Feed
from planner.errors import FeatureNotSupported, ObjectNotInPrerequisiteState
from planner.statements.records import Fetch


class ChangeCursor:
    """See the module's contract; the methods are those of `adapter.execution.cursors.CursorRows`."""

    row_ids: tuple[int | None, ...] | None = None

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._rest: RecordBatch | None = None
        self.timeout_s: float | None = None
        """How long the next FETCH waits for its first row; None: until there is one."""

    async def fetch(self, request: Fetch) -> AsyncIterator[RecordBatch]:
        """The rows that FETCH returns: at most as many as it asks for, and those that are there. Raises 55000 for any
        direction but forward."""
        timeout_s, self.timeout_s = self.timeout_s, None
        if request.direction != "forward" or (request.count is not None and request.count < 0):
            raise ObjectNotInPrerequisiteState(
                "cursor can only scan forward", hint="A subscription cannot be read backward."
            )
        left = request.count
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        is_first = True
        while left is None or left > 0:
            batch, self._rest = self._rest, None
            if batch is None:
                patience: float | None = 0.0
                if is_first:
                    patience = None if deadline is None else max(deadline - loop.time(), 0)
                try:
                    batch = await self._feed.next(patience)
                except TimeoutError:
                    return
            if batch is None:
                return
            if left is not None and batch.num_rows > left:
                self._rest, batch = batch.slice(left), batch.slice(0, left)
            if left is not None:
                left -= batch.num_rows
            is_first = False
            yield batch

    async def hold(self) -> None:
        """Raise 0A000: a subscription ends with its transaction."""
        raise FeatureNotSupported("a cursor over a subscription cannot be held")

    async def close(self) -> None:
        """End the subscription."""
        self._rest = None
        await self._feed.close()
