"""Interrupting a statement: cancel requests, timeouts, termination.

A statement runs inside a `CancelScope`. Its code is entered with ``with scope:``, as often as the statement
is resumed (each pull of a result is one entry). `request` sets the reason; the task that is inside is cancelled, and
the scope turns the cancellation into the reason, a `SqlError`. A request that comes between two entries strikes at the
next one. What the storage layer raises inside leaves the scope as the SQL error for it.

SUBTLE: a task may be cancelled by somebody else too (the server stops). Then the task's count of cancellations is
above ours and the CancelledError goes on. Code inside may also swallow the cancellation (a commit whose outcome is
already decided); then the statement succeeds, and the count is put right on the way out.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from adapter.store_errors import sql_error
from planner.errors import SqlError
from storage.errors import StorageError


class CancelScope:
    """One statement's scope. Not re-entrant; belongs to the event loop."""

    __slots__ = ("_cancelled", "_cancelling", "_is_done", "_task", "reason")

    def __init__(self) -> None:
        self.reason: SqlError | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelled = False
        self._cancelling = 0
        self._is_done = False

    def done(self) -> None:
        """What the statement does has been done, and its rows are there: whatever reason there is, or comes, it is too
        late."""
        self._is_done, self.reason = True, None

    def request(self, reason: SqlError) -> None:
        """Interrupt the statement with `reason`; the first reason stays."""
        if self.reason is not None or self._is_done:
            return
        self.reason = reason
        if self._task is not None and self._task is not asyncio.current_task():
            self._cancelled = True
            self._task.cancel()

    def check(self) -> None:
        """Raise the reason if there is one: for code that does not wait."""
        if self.reason is not None:
            raise self.reason

    def __enter__(self) -> CancelScope:
        if self.reason is not None:
            raise self.reason
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        assert task is not None
        if not self._cancelled:
            if isinstance(error, StorageError):
                raise sql_error(error) from error
            return
        self._cancelled = False
        remaining = task.uncancel()
        if kind is not None and issubclass(kind, asyncio.CancelledError) and remaining <= self._cancelling:
            assert self.reason is not None
            raise self.reason from None
