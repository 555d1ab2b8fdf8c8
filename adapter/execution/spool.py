"""Rows kept aside in order, in memory while they are few and in a temporary file beyond.

A cursor keeps what it has returned here, so that it can go back; a WITH HOLD cursor keeps all of its rows. Memory is
bounded by `MEMORY_BYTES` whatever the number of rows: the rest is in one unnamed file that vanishes with the process.
"""

from __future__ import annotations

import asyncio
import bisect
import tempfile
from collections.abc import AsyncIterator
from typing import IO, Any

import pyarrow as pa

from adapter.results import RecordBatch
from storage.shards.parts import arrow_bytes

MEMORY_BYTES = 8 * 1024 * 1024
"""Arrow bytes of one spool that stay in memory; a few screens of rows for hundreds of cursors."""


class RowSpool:
    """A growing sequence of record batches of one schema, addressed by row number from 0."""

    def __init__(self) -> None:
        self.rows = 0
        self._starts: list[int] = []
        self._batches: list[RecordBatch | tuple[int, int]] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._schema: Any = None
        self._end = 0

    async def append(self, batch: RecordBatch) -> None:
        """Add `batch` at the end."""
        if batch.num_rows == 0:
            return
        self._schema = batch.schema
        self._starts.append(self.rows)
        self.rows += batch.num_rows
        size = arrow_bytes(batch)
        if self._file is None and self._bytes + size <= MEMORY_BYTES:
            self._bytes += size
            self._batches.append(batch)
        else:
            self._batches.append(await asyncio.to_thread(self._write, batch))

    async def read(self, start: int, stop: int) -> AsyncIterator[RecordBatch]:
        """Rows [start, stop) in order."""
        index = max(bisect.bisect_right(self._starts, start) - 1, 0)
        while start < stop and index < len(self._batches):
            stored = self._batches[index]
            first = self._starts[index]
            batch = await asyncio.to_thread(self._load, *stored) if isinstance(stored, tuple) else stored
            end = min(stop, first + batch.num_rows)
            if end > start:
                yield batch.slice(start - first, end - start)
                start = end
            index += 1

    def close(self) -> None:
        """Give memory and file back."""
        self._batches.clear()
        self._starts.clear()
        self.rows = 0
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, batch: RecordBatch) -> tuple[int, int]:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="tidegate-spool-")  # noqa: SIM115 - lives as long as the spool
        data = batch.serialize()
        self._file.seek(self._end)
        self._file.write(data)
        place = (self._end, data.size)
        self._end += data.size
        return place

    def _load(self, offset: int, size: int) -> RecordBatch:
        assert self._file is not None
        self._file.seek(offset)
        return pa.ipc.read_record_batch(pa.py_buffer(self._file.read(size)), self._schema)
