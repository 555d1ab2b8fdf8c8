"""The rows of a portal: read forward from a stream, and for scrollable cursors in every direction.

`RowReader` hands out rows of a stream in the numbers asked for. `CursorRows` adds a position and FETCH's directions;
position 0 is before the first row, n is on row n, and one past the last row is after the end (PostgreSQL, "FETCH").
A cursor that may go back keeps what it has read in a `RowSpool`. `of_either` is the stream of a query that either of
the engines may run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import structlog
from msgspec import Struct

from adapter.engines.common.engine import ArrowTable, TableInput
from adapter.engines.router import Route
from adapter.execution_context import ExecutionContext
from adapter.results import RecordBatch
from adapter.spilling.row_spool import RowSpool
from adapter.spilling.temporary_files import TemporaryFiles
from planner.common_errors import EngineFailed, EngineRefuses
from planner.errors import FeatureNotSupported, ObjectNotInPrerequisiteState
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Literal
from planner.statements.records import Fetch

log = structlog.get_logger(__name__)

MAX_ERROR_CHARS = 500
"""Of an engine's own error in the log."""


async def of_either(
    first: Callable[[], AsyncIterator[RecordBatch]],
    other: Callable[[], AsyncIterator[RecordBatch]],
    unsupported: Callable[[], str | None],
) -> AsyncIterator[RecordBatch]:
    """The rows that the first engine gives of a query. Where it fails with an error of its own, which no statement may
    cause (a plan that its optimizer gets wrong, for instance), or turns out not to be able to run it, and has given
    none yet, those of the other one, unless the query is `unsupported` there. The failure is logged: it is a bug all
    the same. When neither engine can run the query, the error is that of the first."""
    given = False
    stream: Any = first()
    try:
        async with aclosing(stream) as batches:
            async for batch in batches:
                given = True
                yield batch
        return
    except (EngineFailed, EngineRefuses) as error:
        if given or unsupported() is not None:
            raise
        failure = error
    if isinstance(failure, EngineFailed):
        log.error("an engine failed; the other one runs the statement", reason=str(failure.__cause__)[:MAX_ERROR_CHARS])
    stream = other()
    try:
        async with aclosing(stream) as batches:
            async for batch in batches:
                given = True
                yield batch
    except (EngineFailed, FeatureNotSupported, ObjectNotInPrerequisiteState) as error:
        # It fails as well, or is not there (Spark without Java).
        if given:
            raise
        log.warning("the other engine failed as well", error=error.message)
        raise failure from failure.__cause__


def of_route(
    route: Route,
    query: BoundQuery,
    tables: Mapping[int, TableInput],
    params: Sequence[Literal],
    context: ExecutionContext,
    extra: Mapping[int, ArrowTable] | None = None,
) -> Callable[[], AsyncIterator[RecordBatch]]:
    """What gives the rows of a query on the engine that is chosen for it, or on the other one (`of_either`)."""
    stream = partial(route.engine.execute, query, tables, params, context, extra=extra)
    if route.other is None:
        return stream
    elsewhere = partial(route.other.execute, query, tables, params, context, extra=extra)
    return partial(of_either, stream, elsewhere, partial(route.other.unsupported, query))


class RowReader:
    """Pulls rows in chosen numbers from a stream of batches; what is left of a batch waits for the next pull. `count`
    is the number of rows that were handed out."""

    def __init__(self, batches: AsyncIterator[RecordBatch]) -> None:
        self._batches = batches
        self._rest: RecordBatch | None = None
        self.exhausted = False
        self.count = 0

    async def next(self, limit: int | None) -> RecordBatch | None:
        """Some rows, at most `limit` (None: as many as come); None when there are no more, or none are wanted."""
        if limit == 0:
            return None
        while True:
            batch = self._rest if self._rest is not None else await self._pull()
            self._rest = None
            if batch is None:
                return None
            if limit is not None and batch.num_rows > limit:
                self._rest = batch.slice(limit)
                batch = batch.slice(0, limit)
            if batch.num_rows:
                self.count += batch.num_rows
                return batch

    async def _pull(self) -> RecordBatch | None:
        if self.exhausted:
            return None
        try:
            return await anext(self._batches)
        except StopAsyncIteration:
            self.exhausted = True
            return None

    async def read(self, limit: int | None) -> AsyncIterator[RecordBatch]:
        """At most `limit` rows (None: all that remain)."""
        stop = None if limit is None else self.count + limit
        while (batch := await self.next(None if stop is None else stop - self.count)) is not None:
            yield batch

    async def close(self) -> None:
        """End the stream."""
        self.exhausted = True
        self._rest = None
        close = getattr(self._batches, "aclose", None)
        if close is not None:
            await close()


class PortalCursor(Protocol):
    """What FETCH needs of a cursor."""

    @property
    def row_ids(self) -> tuple[int | None, ...] | None:
        """See `CursorRows.row_ids`."""
        ...

    def fetch(self, request: Fetch) -> AsyncIterator[RecordBatch]:
        """See `CursorRows.fetch`."""
        ...

    async def hold(self) -> None:
        """See `CursorRows.hold`."""
        ...

    async def close(self) -> None:
        """See `CursorRows.close`."""
        ...


class KnownRow(Struct, frozen=True, kw_only=True):
    """A column of a cursor's query behind those that clients see: it has ids of rows of a table. `locked`: of those
    that the cursor locks."""

    relation_oid: int
    locked: bool


class CursorRows:
    """A cursor's rows and position. `scroll` False forbids going back."""

    def __init__(self, reader: RowReader, files: TemporaryFiles, *, scroll: bool, hidden: int = 0) -> None:
        """`hidden`: how many columns at the end are ids of rows, which clients do not see."""
        self._hidden = hidden
        self._last: tuple[int | None, ...] = ()
        self._reader = reader
        self._scroll = scroll
        self._spool = RowSpool(files)
        self._read = 0
        self.position = 0
        self._after_end = False

    async def fetch(self, request: Fetch) -> AsyncIterator[RecordBatch]:
        """The rows that FETCH returns, in its order; moves the position.

        Raises 55000 when the cursor would have to go back and may not.
        """
        direction, count = request.direction, request.count
        if direction in ("forward", "backward"):
            forward = (direction == "forward") == (count is None or count >= 0)
            wanted = None if count is None else abs(count)
            if wanted == 0:
                rows = self._current()
            elif forward:
                rows = self._forward(wanted)
            else:
                rows = self._backward(wanted)
        elif direction == "absolute":
            rows = self._absolute(0 if count is None else count)
        else:
            rows = self._relative(0 if count is None else count)
        async for batch in rows:
            yield self._shown(batch) if self._hidden else batch

    @property
    def row_ids(self) -> tuple[int | None, ...] | None:
        """The hidden columns of the row that the cursor is on; None when it is on none."""
        return None if self._after_end or not self.position else self._last

    def _shown(self, batch: RecordBatch) -> RecordBatch:
        shown = batch.num_columns - self._hidden
        if batch.num_rows:
            self._last = tuple([column[batch.num_rows - 1].as_py() for column in batch.columns[shown:]])
        return batch.select(list(range(shown)))

    async def _forward(self, count: int | None) -> AsyncIterator[RecordBatch]:
        if self._after_end:
            return
        remaining = count
        if self.position < self._read:
            stop = self._read if remaining is None else min(self._read, self.position + remaining)
            async for batch in self._spool.read(self.position, stop):
                self.position += batch.num_rows
                if remaining is not None:
                    remaining -= batch.num_rows
                yield batch
        if remaining is None or remaining > 0:
            async for batch in self._reader.read(remaining):
                if self._scroll:
                    await self._spool.append(batch)
                self._read += batch.num_rows
                self.position = self._read
                if remaining is not None:
                    remaining -= batch.num_rows
                yield batch
            if remaining is None or remaining > 0:
                self._after_end = True
                self.position = self._read + 1

    async def _backward(self, count: int | None) -> AsyncIterator[RecordBatch]:
        self._require_scroll()
        last = min(self.position, self._read + 1) - 1
        first = 0 if count is None else max(last - count, 0)
        reached_start = count is None or last - count < 0
        self._after_end = False
        self.position = 0 if reached_start else first + 1
        if last <= 0:
            self.position = 0
            return
        pieces = [batch async for batch in self._spool.read(first, last)]
        for batch in reversed(pieces):
            yield batch.take(pa.array(range(batch.num_rows - 1, -1, -1), pa.int64()))

    async def _current(self) -> AsyncIterator[RecordBatch]:
        if self._after_end or self.position == 0:
            return
        self._require_scroll()
        async for batch in self._spool.read(self.position - 1, self.position):
            yield batch

    async def _absolute(self, target: int) -> AsyncIterator[RecordBatch]:
        if target < 0:
            async for _ in self._forward(None):
                pass
            target = self._read + 1 + target
            if target < 1:
                self._rewind()
                return
        if target == 0:
            self._rewind()
            return
        async for batch in self._go(target):
            yield batch

    async def _relative(self, offset: int) -> AsyncIterator[RecordBatch]:
        if offset == 0:
            async for batch in self._current():
                yield batch
            return
        target = self.position + offset
        if target < 1:
            self._rewind()
            return
        async for batch in self._go(target):
            yield batch

    async def _go(self, target: int) -> AsyncIterator[RecordBatch]:
        """Move onto row `target` and return it, or end up after the last row."""
        if target <= self.position:
            self._require_scroll()
            self._after_end = False
            self.position = target - 1
        elif target - 1 > self.position:
            async for _ in self._forward(target - 1 - self.position):
                pass
        async for batch in self._forward(1):
            yield batch

    def _rewind(self) -> None:
        if self.position:
            self._require_scroll()
        self.position = 0
        self._after_end = False

    def _require_scroll(self) -> None:
        if not self._scroll:
            raise ObjectNotInPrerequisiteState(
                "cursor can only scan forward", hint="Declare it with SCROLL option to enable backward scan."
            )

    async def hold(self) -> None:
        """Read everything that is left into the spool, so that the stream can end with the transaction."""
        async for batch in self._reader.read(None):
            await self._spool.append(batch)
        await self._reader.close()
        held = self._spool
        self._reader = RowReader(_empty())
        if self._scroll:
            self._read = held.rows
        else:
            # Positions count from the first held row on: rows already returned cannot come back.
            self._read = self.position = 0
            self._reader = RowReader(held.read(0, held.rows))

    async def close(self) -> None:
        """End the stream and free what is kept."""
        await self._reader.close()
        self._spool.close()


async def _empty() -> AsyncIterator[RecordBatch]:
    return
    yield
