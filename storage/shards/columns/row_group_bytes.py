"""Reading one row group of a Parquet file out of the bytes that hold it."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq


class _Window(io.RawIOBase):
    """The bytes of a file from `start` on, at their place; nothing else of it is there."""

    def __init__(self, start: int, data: bytes) -> None:
        super().__init__()
        self._start = start
        self._data = data
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        end = self._start + len(self._data)
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: end}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        first = self._at - self._start
        if first < 0:
            raise OSError("read before the window")
        piece = self._data[first:] if size < 0 else self._data[first : first + size]
        self._at += len(piece)
        return piece


def row_group(metadata: pq.FileMetaData, number: int, columns: Sequence[str], start: int, data: bytes) -> pa.Table:
    """The row group `number` of a Parquet file, of which `data` are the bytes from `start` on."""
    source = pa.PythonFile(_Window(start, data), mode="r")
    file = pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True)
    return file.read_row_group(number, columns=columns, use_threads=False)
