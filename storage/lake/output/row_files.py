"""Rows divided among files that are written aside: in this process, or in a task of an executor.

    rows = RowFiles(columns, format, Layout(partition_by=("day",)), Aside(folder), shown="/lake/out")
    rows.write(batch)
    rows.finish()          # or drop()
    rows.whole             # [WrittenFile(values=("2024-01-01",), path="/lake/out/.x/0", rows=10, bytes=800), ...]

Which names the files get in the end, and in which folders, is not said here (`new_files`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Struct

from storage.lake.troubles import FileTrouble, trouble_of

MAX_OPEN_FILES = 100
"""Files of partitions that are written beside each other; for one more the longest unused is closed, and begun anew
when rows for it come again."""

ROW_GROUP_BYTES = 32 << 20
"""Rows of a Parquet file that are gathered in memory, to be a row group."""

GATHERED_BYTES = 8 * ROW_GROUP_BYTES
"""Rows of all files together that are gathered in memory; beyond, the file that has most of them writes a row group
earlier."""

PACKINGS: dict[str, str] = {"gzip": ".gz", "zstd": ".zst", "bz2": ".bz2", "lz4": ".lz4"}
"""The compressions of text files, with what their names end in."""

Values: TypeAlias = tuple[str | None, ...]


class Encoder(Protocol):
    """The bytes of a text file."""

    def start(self) -> bytes:
        """What comes before all rows."""

    def rows(self, batch: pa.RecordBatch, first: bool) -> bytes | memoryview:
        """The bytes of a batch, the file's `first` or a later one."""

    def finish(self, *, any_rows: bool) -> bytes:
        """What comes after them."""


class Lines:
    """Texts as lines of a file."""

    def start(self) -> bytes:
        """Nothing comes before them."""
        return b""

    def rows(self, batch: pa.RecordBatch, first: bool) -> bytes:
        """The lines of a batch."""
        return b"".join(f"{line}\n".encode() for line in batch.column(0).to_pylist())

    def finish(self, *, any_rows: bool) -> bytes:
        """Nothing comes after them."""
        return b""


class Layout(Struct, frozen=True, kw_only=True):
    """How rows are laid out in files: the columns that become folders, and after how many bytes a file ends."""

    partition_by: tuple[str, ...] = ()
    file_size: int | None = None

    @property
    def is_folder(self) -> bool:
        """Whether there may be several files."""
        return bool(self.partition_by) or self.file_size is not None


class OutputFormat(Struct, frozen=True, kw_only=True):
    """How a file is written: Parquet, or the text that an `encoder` made for each file gives. `compression` is
    Parquet's codec, or one of `PACKINGS`."""

    name: Literal["parquet", "text", "csv", "json", "binary"]
    compression: str | None = None
    encoder: Callable[[], Encoder] | None = None

    @property
    def suffix(self) -> str:
        """What names of such files end in."""
        plain = {"text": ".txt", "binary": ".bin"}.get(self.name, f".{self.name}")
        return plain if self.name == "parquet" else plain + PACKINGS.get(self.compression or "", "")


class WrittenFile(Struct, frozen=True, kw_only=True):
    """A file that is whole, aside at `path` (a local one, or an object's URL). `values` are those of the columns that
    become folders."""

    values: Values
    path: str
    rows: int
    bytes: int


class Aside:
    """A local folder, which is there already, where files are written that have no name yet. Everything blocks and
    raises OSError or FileTrouble."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, number: int) -> Any:
        """A new file, to be written."""
        return pa.OSFile(self._path(number), "wb")

    def end(self, number: int, rows: int) -> tuple[str, int]:
        """Keeps a file that was closed; where it is, and its bytes."""
        descriptor = os.open(self._path(number), os.O_RDONLY)
        try:
            os.fsync(descriptor)
            return self._path(number), os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def drop(self, number: int) -> None:
        """Removes a file."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(number))

    def _path(self, number: int) -> str:
        return str(self._folder / str(number))


class RowFiles:
    """See the module. Belongs to one thread at a time; everything blocks and raises FileTrouble, which calls the files
    `shown`: nobody knows the names that they have aside."""

    def __init__(
        self,
        schema: pa.Schema,
        format: OutputFormat,
        layout: Layout,
        aside: Aside,
        *,
        shown: str,
    ) -> None:
        self._format = format
        self._layout = layout
        self._keys = [schema.get_field_index(name) for name in layout.partition_by]
        self._others = [index for index in range(len(schema)) if index not in self._keys]
        self._schema = pa.schema([schema.field(index) for index in self._others])
        self._aside = aside
        self._shown = shown
        self._open: dict[Values, _File] = {}
        self._count = 0
        self._closed_bytes = 0
        self.whole: list[WrittenFile] = []

    @property
    def bytes(self) -> int:
        """Written so far."""
        return self._closed_bytes + sum(file.size for file in self._open.values())

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""
        rows = batch.select(self._others)
        if not self._keys:
            self._divide((), rows)
            return
        for values, indices in _groups([batch.column(index) for index in self._keys]):
            self._divide(values, rows.take(pa.array(indices)))

    def begin(self) -> None:
        """Begins a file of no partition, which may stay without rows."""
        self._new(())

    def finish(self) -> None:
        """Ends all files."""
        for values in list(self._open):
            self._close(values)

    def drop(self) -> None:
        """Removes the files that are not whole."""
        for file in self._open.values():
            file.give_up()
            self._aside.drop(file.number)
        self._open.clear()

    def _divide(self, values: Values, rows: pa.RecordBatch) -> None:
        """Adds rows in pieces of which no file takes many too many."""
        limit = self._layout.file_size
        at_once = rows.num_rows if limit is None else rows.num_rows * limit // max(4 * rows.nbytes, 1)
        for start in range(0, rows.num_rows, max(at_once, 1)):
            self._add(values, rows.slice(start, max(at_once, 1)))

    def _add(self, values: Values, rows: pa.RecordBatch) -> None:
        file = self._open.pop(values, None)
        if file is None:
            if len(self._open) >= MAX_OPEN_FILES:
                self._close(next(iter(self._open)))
            file = self._new(values)
        # NOTE: the order of the map is that of use.
        self._open[values] = file
        with told(self._shown):
            file.write(rows)
            if len(self._open) > 1 and sum(each.gathered for each in self._open.values()) > GATHERED_BYTES:
                max(self._open.values(), key=lambda each: each.gathered).write_gathered()
        if self._layout.file_size is not None and file.size >= self._layout.file_size:
            self._close(values)

    def _close(self, values: Values) -> None:
        file = self._open[values]
        with told(self._shown):
            file.close()
            path, size = self._aside.end(file.number, file.rows)
        # NOTE: until here it is one of those that `drop` removes.
        del self._open[values]
        self.whole.append(WrittenFile(values=values, path=path, rows=file.rows, bytes=size))
        self._closed_bytes += size

    def _new(self, values: Values) -> _File:
        with told(self._shown):
            file = _File(self._count, self._aside.begin(self._count))
            self._count += 1
            # NOTE: known before it is begun, so that `drop` finds it.
            self._open[values] = file
            file.begin(self._schema, self._format)
        return file


class _File:
    """One file that is written."""

    def __init__(self, number: int, raw: Any) -> None:
        self.number = number
        self.rows = 0
        self.gathered = 0
        """Bytes of rows that are gathered in memory."""
        self._gathered: list[pa.RecordBatch] = []
        self._raw = raw
        self._packed: Any = None
        self._parquet: Any = None
        self._encoder: Encoder | None = None

    def begin(self, schema: pa.Schema, format: OutputFormat) -> None:
        """Writes what comes before all rows."""
        if format.name == "parquet":
            import pyarrow.parquet as pq

            self._parquet = pq.ParquetWriter(self._raw, schema, compression=format.compression or "zstd")
            return
        assert format.encoder is not None
        self._encoder = format.encoder()
        if format.compression is not None:
            self._packed = pa.CompressedOutputStream(self._raw, format.compression)
        self._put(self._encoder.start())

    @property
    def size(self) -> int:
        """Bytes written; rows that are still gathered count as they are in memory."""
        size: int = self._raw.tell()
        return size + self.gathered

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows."""
        if self._encoder is None:
            self._gathered.append(pa.record_batch(rows.columns, schema=self._parquet.schema))
            self.gathered += rows.nbytes
            if self.gathered >= ROW_GROUP_BYTES:
                self.write_gathered()
        else:
            self._put(self._encoder.rows(rows, self.rows == 0))
        self.rows += rows.num_rows

    def write_gathered(self) -> None:
        """Makes a row group of what is gathered."""
        if self._gathered:
            self._parquet.write_table(pa.Table.from_batches(self._gathered))
            self._gathered, self.gathered = [], 0

    def _put(self, data: bytes | memoryview) -> None:
        if data:
            (self._packed or self._raw).write(data)

    def close(self) -> None:
        """Ends the file."""
        if self._encoder is None:
            self.write_gathered()
            self._parquet.close()
        else:
            self._put(self._encoder.finish(any_rows=self.rows > 0))
            if self._packed is not None:
                self._packed.close()
        self._raw.close()

    def give_up(self) -> None:
        """Lets go of the file, whatever is in it."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._raw.close()


@contextlib.contextmanager
def told(path: str) -> Any:
    """Turns what writing the file at `path` raises into FileTrouble."""
    try:
        yield
    except FileTrouble:
        raise
    except OSError as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
            raise trouble_of(path, error) from error
        raise FileTrouble("unreadable", f'could not write to file "{path}": {error.strerror or error}') from error


def _groups(keys: Sequence[pa.Array]) -> list[tuple[Values, np.ndarray[Any, Any]]]:
    """The rows that have the same keys: the keys as texts, and the rows' numbers in their order."""
    codes = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        encoded = key.dictionary_encode(null_encoding="encode")
        codes = codes * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
    found, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    bounds = np.searchsorted(inverse[order], np.arange(len(found) + 1))
    return [
        (tuple(_text(key[int(first[group])].as_py()) for key in keys), order[bounds[group] : bounds[group + 1]])
        for group in range(len(found))
    ]


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
