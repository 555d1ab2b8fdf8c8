"""Rows kept aside in order, in memory while they are few and in a temporary file beyond.

A cursor keeps what it has returned here, so that it can go back; a WITH HOLD cursor keeps all of its rows. Memory is
bounded by the session's `work_mem` whatever the number of rows: the rest is in one temporary file.
"""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa

from adapter.results import RecordBatch
from adapter.spilling.temporary_files import TemporaryFile, TemporaryFiles
from storage.shards.parts import arrow_bytes


class RowSpool:
    """A growing sequence of record batches of one schema, addressed by row number from 0; beyond the budget of `files`
    it is in one of them."""

    def __init__(self, files: TemporaryFiles) -> None:
        self.rows = 0
        self._files = files
        self._starts: list[int] = []
        self._batches: list[RecordBatch | tuple[int, int]] = []
        self._bytes = 0
        self._file: TemporaryFile | None = None
        self._schema: Any = None

    async def append(self, batch: RecordBatch) -> None:
        """Add `batch` at the end. Raises 53400 when files may not grow."""
        if batch.num_rows == 0:
            return
        self._schema = batch.schema
        self._starts.append(self.rows)
        self.rows += batch.num_rows
        size = arrow_bytes(batch)
        if self._file is None and self._bytes + size <= self._files.memory_bytes:
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
            self._file = TemporaryFile(self._files)
        data = batch.serialize()
        return self._file.append(data), data.size

    def _load(self, offset: int, size: int) -> RecordBatch:
        assert self._file is not None
        return pa.ipc.read_record_batch(pa.py_buffer(self._file.read(offset, size)), self._schema)
