"""New files: written aside, and all of them there at once when everything is written, or none.

    writer = FilesWriter(places, "/lake/out", columns, format, Layout(partition_by=("day",)), scratch)
    writer.write(batch)
    writer.finish()        # or abort()

Without partitions and a file size the path is that of one file, which takes the place of one that was there. Otherwise
it is that of a folder, which has no files yet: ``/lake/out/day=2024-01-01/part-00000.parquet``. While they are written,
local files have names that begin with a dot, which no reader of folders takes; objects are files of the server's
`scratch` folder, sent when all are whole. A crash leaves such files and nothing else; an error leaves none.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import structlog
from msgspec import Struct

from storage.lake.formats import HIVE_NULL
from storage.lake.places import Places, is_url
from storage.lake.troubles import FileTrouble, trouble_of, trouble_of_store

log = structlog.get_logger(__name__)

MAX_OPEN_FILES = 100
"""Files of partitions that are written beside each other; for one more the longest unused is closed, and begun anew
when rows for it come again."""

ROW_GROUP_BYTES = 32 << 20
"""Rows of a Parquet file that are gathered in memory, to be a row group."""

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


class FilesWriter:
    """See the module. Belongs to one thread at a time; everything blocks and raises FileTrouble."""

    def __init__(
        self, places: Places, path: str, schema: pa.Schema, format: OutputFormat, layout: Layout, scratch: Path,
        *, beside: str | None = None,
    ) -> None:  # fmt: skip
        """With `beside`, which no other writer has, the files of the folder have it in their names, and are put beside
        those that are there, of which none is replaced."""
        self._places = places
        self._is_url = is_url(path)
        self._format = format
        self._layout = layout
        self._path = places.writable(path).rstrip("/")
        self._scratch = scratch
        self._keys = [schema.get_field_index(name) for name in layout.partition_by]
        self._others = [index for index in range(len(schema)) if index not in self._keys]
        self._schema = pa.schema([schema.field(index) for index in self._others])
        self._open: dict[Values, _File] = {}
        self._whole: list[_File] = []
        self._made: list[str] = []
        """Folders that were made for the files, in that order."""
        self._numbers: dict[Values, int] = {}
        self._closed_bytes = 0
        self._beside = beside
        self._own = "" if beside is None else f"{beside}-"
        if layout.is_folder and beside is None:
            self._refuse_files()

    def _refuse_files(self) -> None:
        try:
            found = self._places.files((self._path,), ("",))
        except FileTrouble as trouble:
            if trouble.kind == "missing":
                return
            raise
        raise FileTrouble("exists", f'there are files in "{self._path}" already, such as "{found[0].path}"')

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
        with _told(file.target):
            file.write(rows)
        if self._layout.file_size is not None and file.size >= self._layout.file_size:
            self._close(values)

    def _close(self, values: Values) -> None:
        file = self._open.pop(values)
        self._whole.append(file)
        self._closed_bytes += file.size
        with _told(file.target):
            file.close()

    def _new(self, values: Values) -> _File:
        target = self._path
        if self._layout.is_folder:
            number = self._numbers[values] = self._numbers.get(values, -1) + 1
            folders = [
                f"{quote(name, safe=' ')}={HIVE_NULL if value is None else quote(value, safe=' :,+-')}"
                for name, value in zip(self._layout.partition_by, values, strict=True)
            ]
            target = "/".join((self._path, *folders, f"part-{self._own}{number:05d}{self._format.suffix}"))
        if self._is_url:
            self._scratch.mkdir(parents=True, exist_ok=True)
            aside = str(self._scratch / f"{len(self._whole) + len(self._open)}-{sum(self._numbers.values())}")
        else:
            folder, _, name = target.rpartition("/")
            if self._layout.is_folder:
                self._make_folder(folder)
            aside = f"{folder}/.{self._scratch.name}-{name}"
        with _told(target):
            file = _File(target, aside)
            # NOTE: known before it is begun, so that `abort` finds it.
            self._open[values] = file
            file.begin(self._schema, self._format)
        return file

    def _make_folder(self, folder: str) -> None:
        missing = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for each in reversed(missing):
            with _told(each):
                os.mkdir(each)
            self._made.append(each)

    def finish(self) -> None:
        """Ends all files, and puts them where they belong; after an error nothing is left of them."""
        if not self._whole and not self._open:
            # No rows at all are one file without rows, or a folder without partitions.
            if self._keys:
                return
            self._new(())
        for values in list(self._open):
            self._close(values)
        there: list[str] = []
        try:
            for file in self._whole:
                with _told(file.target):
                    if self._is_url:
                        self._send(file)
                    elif self._beside is not None:
                        _link(file)
                    else:
                        os.replace(file.aside, file.target)
                there.append(file.target)
        except BaseException:
            for target in there if self._layout.is_folder else ():
                self._remove(target)
            raise
        if self._is_url:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _send(self, file: _File) -> None:
        from obstore import exceptions

        store, key = self._places.store(file.target)
        try:
            store.put(key, Path(file.aside), mode="overwrite" if self._beside is None else "create")
        except exceptions.AlreadyExistsError as error:
            raise FileTrouble("exists", f'there is an object "{file.target}" already') from error
        except Exception as error:
            raise trouble_of_store(file.target, error, "could not write object") from error

    def _remove(self, target: str) -> None:
        if not self._is_url:
            with contextlib.suppress(OSError):
                os.unlink(target)
            return
        store, key = self._places.store(target)
        try:
            store.delete(key)
        except Exception as error:  # noqa: BLE001 - the statement has failed already
            log.warning("file left behind", file=target, error=str(error).partition("\n\n")[0])

    def abort(self) -> None:
        """Removes what was written. Raises nothing: what cannot be removed is left aside."""
        for file in (*self._whole, *self._open.values()):
            file.drop()
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        if self._is_url:
            shutil.rmtree(self._scratch, ignore_errors=True)


class _File:
    """One file that is written."""

    def __init__(self, target: str, aside: str) -> None:
        self.target = target
        self.aside = aside
        self._rows = 0
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._raw: Any = pa.OSFile(aside, "wb")
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
        return size + self._gathered_bytes

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows."""
        if self._encoder is None:
            self._gathered.append(pa.record_batch(rows.columns, schema=self._parquet.schema))
            self._gathered_bytes += rows.nbytes
            if self._gathered_bytes >= ROW_GROUP_BYTES:
                self._write_gathered()
        else:
            self._put(self._encoder.rows(rows, self._rows == 0))
        self._rows += rows.num_rows

    def _write_gathered(self) -> None:
        if self._gathered:
            self._parquet.write_table(pa.Table.from_batches(self._gathered))
            self._gathered, self._gathered_bytes = [], 0

    def _put(self, data: bytes | memoryview) -> None:
        if data:
            (self._packed or self._raw).write(data)

    def close(self) -> None:
        """Ends the file."""
        if self._encoder is None:
            self._write_gathered()
            self._parquet.close()
        else:
            self._put(self._encoder.finish(any_rows=self._rows > 0))
            if self._packed is not None:
                self._packed.close()
        self._raw.close()
        descriptor = os.open(self.aside, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def drop(self) -> None:
        """Removes what was written aside."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._raw.close()
        with contextlib.suppress(OSError):
            os.unlink(self.aside)


def _link(file: _File) -> None:
    """Give the file its name, unless there is one that has it."""
    try:
        os.link(file.aside, file.target)
    except FileExistsError as error:
        raise FileTrouble("exists", f'there is a file "{file.target}" already') from error
    os.unlink(file.aside)


@contextlib.contextmanager
def _told(path: str) -> Any:
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
