"""Results on disk: what executors wrote as Parquet, read back in order and deleted as it is read.

A spool is the files of one result: a directory, in which Spark names them ``part-<partition>-...``, so that their
names' order is the result's order, or objects of a store. The reader holds one file open and a few batches, whatever
the result's size; one of a store it holds in memory.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from adapter.engines.common.engine import RecordBatch
from adapter.engines.spark.cluster.object_store import ClusterStore

BATCH_ROWS = 8192
"""Rows of a batch read back."""

ROW_GROUP_BYTES = 8 << 20
"""Row groups of spool files: what a writing task buffers, and what the reader holds of a file."""

ROW_GROUP_ROWS = 1 << 18
"""The same in rows."""


class SpoolFiles(Protocol):
    """The files of one result. Everything blocks."""

    def sources(self) -> Iterator[Any]:
        """What Parquet's reader opens, in the result's order; each is removed when the next one is asked for."""
        ...

    def remove(self) -> None:
        """Remove what is left."""
        ...


class FolderSpool:
    """`SpoolFiles` in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def sources(self) -> Iterator[Any]:
        """See `SpoolFiles.sources`."""
        for path in result_files(self.directory):
            yield path
            path.unlink()

    def remove(self) -> None:
        """See `SpoolFiles.remove`."""
        shutil.rmtree(self.directory, ignore_errors=True)


class StoredSpool:
    """`SpoolFiles` in an object store, by their keys in order."""

    def __init__(self, store: ClusterStore, keys: list[str]) -> None:
        self._store = store
        self._keys = keys

    def sources(self) -> Iterator[Any]:
        """See `SpoolFiles.sources`."""
        while self._keys:
            yield pa.BufferReader(self._store.files.get(self._keys[0]))
            self._store.remove([self._keys.pop(0)])

    def remove(self) -> None:
        """See `SpoolFiles.remove`."""
        self._store.remove(self._keys)
        self._keys = []


class SpooledResult:
    """The result in `files`. Every call blocks; `remove` waits for a `read` that another thread is in."""

    def __init__(self, files: SpoolFiles) -> None:
        self._files = files
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
            self._files.remove()

    def _stream(self) -> Generator[RecordBatch, None, None]:
        for source in self._files.sources():
            with pq.ParquetFile(source, pre_buffer=False) as file:
                yield from _file_batches(file)


def result_files(directory: Path) -> list[Path]:
    """The Parquet files of a result in `directory`, in the result's order."""
    return sorted(path for path in directory.glob("*.parquet") if not path.name.startswith((".", "_")))


def _file_batches(file: Any) -> Iterator[RecordBatch]:
    yield from file.iter_batches(batch_size=BATCH_ROWS, use_threads=False)
