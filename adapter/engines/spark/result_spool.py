"""Results on disk: what executors wrote as Parquet, read back in order and deleted as it is read.

A spool is a directory of the files of one result. Spark names them ``part-<partition>-...``, so their names' order is
the result's order. The reader holds one file open and a few batches, whatever the result's size.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from adapter.engines.common.engine import RecordBatch

BATCH_ROWS = 8192
"""Rows of a batch read back."""

ROW_GROUP_BYTES = 8 << 20
"""Row groups of spool files: what a writing task buffers, and what the reader holds of a file."""

ROW_GROUP_ROWS = 1 << 18
"""The same in rows."""


class SpooledResult:
    """The result in `directory`. Every call blocks; `remove` waits for a `read` that another thread is in."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._batches: Generator[RecordBatch, None, None] | None = None

    def read(self, most_bytes: int) -> tuple[list[RecordBatch], bool]:
        """The next batches, up to about `most_bytes`, and whether there may be more."""
        batches: list[RecordBatch] = []
        size = 0
        with self._lock:
            if self._batches is None:
                self._batches = self._stream()
            while size < most_bytes:
                batch = next(self._batches, None)
                if batch is None:
                    return batches, False
                batches.append(batch)
                size += batch.nbytes
            return batches, True

    def remove(self) -> None:
        """Deletes what is left of the result."""
        with self._lock:
            if self._batches is not None:
                self._batches.close()
            shutil.rmtree(self.directory, ignore_errors=True)

    def _stream(self) -> Generator[RecordBatch, None, None]:
        for path in result_files(self.directory):
            with pq.ParquetFile(path, pre_buffer=False) as file:
                yield from _file_batches(file)
            path.unlink()


def result_files(directory: Path) -> list[Path]:
    """The Parquet files of a result in `directory`, in the result's order."""
    return sorted(path for path in directory.glob("*.parquet") if not path.name.startswith((".", "_")))


def _file_batches(file: Any) -> Iterator[RecordBatch]:
    yield from file.iter_batches(batch_size=BATCH_ROWS, use_threads=False)
