"""Temporary files: where a session puts what does not fit into its budget, and what is told of it.

A file never has a name, so that nothing stays of it when it is closed, when its statement is cancelled or when the
process is killed. What a session has in files at one time is bounded by `temp_file_limit` (53400). A file that is
closed counts in pg_stat_database (temp_files, temp_bytes), and is logged if it has at least `log_temp_files` kilobytes.

Budgets are `work_mem`, for each thing that grows with the rows of a statement, as in PostgreSQL.
"""

from __future__ import annotations

import errno
import gc
import mmap
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import structlog

from adapter.settings.values import number_of
from planner.errors import ConfigurationLimitExceeded, DiskFull

log = structlog.get_logger(__name__)

UNLIMITED = -1
"""temp_file_limit and log_temp_files: no limit, and no file is logged."""


class TemporaryFileCounts:
    """The files that sessions of this process have closed: how many, and their bytes, by oid of the database. Safe for
    use from several threads."""

    def __init__(self) -> None:
        # NOTE: files may be closed when memory is, which may happen while this thread holds the lock.
        self._lock = threading.RLock()
        self._by_database: dict[int, tuple[int, int]] = {}

    def add(self, database_oid: int, size: int) -> None:
        """A file of `size` bytes has been closed."""
        with self._lock:
            files, total = self._by_database.get(database_oid, (0, 0))
            self._by_database[database_oid] = files + 1, total + size

    def rows(self) -> list[Mapping[str, Any]]:
        """By database that has had any, with names as in pg_stat_database."""
        with self._lock:
            return [
                {"datid": oid, "temp_files": files, "temp_bytes": size}
                for oid, (files, size) in self._by_database.items()
            ]


class TemporaryFiles:
    """The files of one session, in `folder`, as its `settings` allow. Safe for use from several threads."""

    def __init__(
        self,
        folder: Path | None,
        counts: TemporaryFileCounts,
        database_oid: int,
        settings: Callable[[], Mapping[str, str]],
    ) -> None:
        """`folder` None: the system's one."""
        self.folder = folder
        self.used = 0
        """Bytes in files at present."""
        self._counts = counts
        self._database_oid = database_oid
        self._settings = settings
        self._lock = threading.RLock()

    @property
    def memory_bytes(self) -> int:
        """`work_mem`: what may stay in memory of one thing that is kept."""
        return int(number_of("work_mem", self._settings()["work_mem"])) * 1024

    def take(self, size: int) -> None:
        """A file is about to grow by `size` bytes. Raises 53400 beyond `temp_file_limit`, and changes nothing."""
        limit_kb = int(number_of("temp_file_limit", self._settings()["temp_file_limit"]))
        if limit_kb != UNLIMITED and self.used + size > limit_kb * 1024:
            # What is mapped ends when it is collected: errors of statements before may hold some of it.
            gc.collect()
        with self._lock:
            if limit_kb != UNLIMITED and self.used + size > limit_kb * 1024:
                raise ConfigurationLimitExceeded(f"temporary file size exceeds temp_file_limit ({limit_kb}kB)")
            self.used += size

    def closed(self, size: int) -> None:
        """A file of `size` bytes is gone."""
        with self._lock:
            self.used -= size
        self._counts.add(self._database_oid, size)
        least_kb = int(number_of("log_temp_files", self._settings()["log_temp_files"]))
        if least_kb != UNLIMITED and size >= least_kb * 1024:
            log.info("temporary_file", bytes=size, database_oid=self._database_oid)

    def keep(self, arrays: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        """The same arrays in a file that is mapped into memory, which the system may drop and read again; the file ends
        with the last of them. Blocks. Raises 53400."""
        kept = TemporaryFile(self)
        try:
            batch = pa.record_batch(list(arrays), names=[str(number) for number in range(len(arrays))])
            mapped = kept.mapped(batch.serialize(), batch.schema)
        except BaseException:
            kept.close()
            raise
        return tuple(mapped.columns)

    def keep_numbers(self, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """`keep` of one numpy array of values of one width."""
        (kept,) = self.keep([pa.array(numbers.view(np.uint8))])
        found: np.ndarray[Any, Any] = kept.to_numpy().view(numbers.dtype)
        return found


class TemporaryFile:
    """A file of `files`. All methods block; one thread at a time."""

    def __init__(self, files: TemporaryFiles) -> None:
        self._is_open = False
        self._files = files
        self._file = tempfile.TemporaryFile(dir=files.folder)  # noqa: SIM115 - closed by `close`
        self._is_open = True
        self.size = 0

    def append(self, data: pa.Buffer) -> int:
        """Add `data` at the end; where that is. Raises 53400, and 53100 when the disk is full."""
        self._files.take(data.size)
        at = self.size
        self.size += data.size
        try:
            self._file.seek(at)
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise DiskFull(f"could not write to a temporary file: {error.strerror}") from error
        return at

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes from `at` on."""
        self._file.seek(at)
        return self._file.read(size)

    def mapped(self, data: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
        """`data`, a serialized batch, as this file's only content, in mapped memory. The file is closed with it."""
        self.append(data)
        memory = mmap.mmap(self._file.fileno(), self.size, access=mmap.ACCESS_READ)
        weakref.finalize(memory, self.close)
        return pa.ipc.read_record_batch(pa.py_buffer(memory), schema)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """The file is gone, as when nobody has it any more. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._file.close()
            self._files.closed(self.size)
