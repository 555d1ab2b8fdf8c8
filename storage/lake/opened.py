"""Listed files as a file system of Arrow's: each is opened only while it is the file that was listed.

Counts the files opened and, of objects, the bytes read.

Arrow reads with threads of its own. An exception of Python's that one of them meets can stop every thread of Python: it
takes the interpreter's lock to say what it is, under a lock of its own (arrow::util::AsyncTaskScheduler). So to Arrow a
file that cannot be opened or read is one that ends; `trouble` says why, and who reads asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import fs

from storage.lake.formats import UNPACKED, FileFormat, real_path, unpacked
from storage.lake.in_utf8 import InUtf8, WithLineEnd
from storage.lake.places import LakeFile, Places, is_url
from storage.lake.quotes import QuotedFile
from storage.lake.troubles import FileTrouble, trouble_of, trouble_of_store


class OpenedFiles(fs.FileSystemHandler):  # type: ignore[misc]
    """The file system of `files`, by path. Thread-safe."""

    def __init__(self, places: Places, files: Mapping[str, LakeFile], followed: FileFormat | None = None) -> None:
        self._places = places
        self._followed = followed
        self._files = files
        self.opened: set[str] = set()
        """The paths of the files that have been opened."""
        self.bytes_read = 0
        """Bytes asked of object stores."""
        self.trouble: FileTrouble | None = None
        """The first that a read has run into. Rows that were read are not all there are then."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def get_type_name(self) -> str:
        """See FileSystemHandler."""
        return "listed"

    def normalize_path(self, path: str) -> str:
        """See FileSystemHandler."""
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """See FileSystemHandler."""
        known = [self._files.get(real_path(path)) for path in paths]
        return [
            fs.FileInfo(path, fs.FileType.NotFound)
            if file is None
            else fs.FileInfo(path, fs.FileType.File, size=file.size)
            for path, file in zip(paths, known, strict=True)
        ]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """See FileSystemHandler."""
        inside = selector.base_dir.rstrip("/") + "/"
        return self.get_file_info([path for path in self._files if path.startswith(inside)])

    def open_input_stream(self, path: str) -> Any:
        """See FileSystemHandler."""
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> Any:
        """See FileSystemHandler. Raises nothing: see `trouble`."""
        real, format = real_path(path), self._followed
        try:
            with self.noted():
                if format is None or not path.endswith(UNPACKED):
                    return self._open(real, ends_in_trouble=True)
                stream = unpacked(real, self._open(real, ends_in_trouble=True))
                if format.encoding != "utf-8":
                    stream = InUtf8(real, stream, format.encoding, self.note)
                stream = WithLineEnd(stream)
                if format.quoted:
                    stream = QuotedFile(real, format, stream, self.note)
                return pa.PythonFile(stream, mode="r")
        except FileTrouble:
            return pa.BufferReader(b"")

    def open(self, path: str) -> Any:
        """A file to be read by who is asked for it. Raises FileTrouble, as its reads do."""
        with self.noted():
            return self._open(path, ends_in_trouble=False)

    def note(self, trouble: FileTrouble) -> None:
        """Remembers a FileTrouble."""
        self.trouble = self.trouble or trouble

    def check(self) -> None:
        """Raises the FileTrouble that a read has run into."""
        if self.trouble is not None:
            raise self.trouble

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Remembers a FileTrouble that is raised inside."""
        try:
            yield
        except FileTrouble as trouble:
            self.trouble = self.trouble or trouble
            raise

    def _open(self, path: str, *, ends_in_trouble: bool) -> Any:
        file = self._files[path]
        self.opened.add(path)
        if is_url(path):
            store, key = self._places.store(path)
            return pa.PythonFile(_Object(self, store, key, file, ends_in_trouble=ends_in_trouble), mode="r")
        try:
            opened = pa.OSFile(path)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise FileTrouble("missing", f'file "{path}" has vanished while it was read') from error
            raise trouble_of(path, error) from error
        found = os.fstat(opened.fileno())
        version = file.version and f"{found.st_mtime_ns}-{found.st_ino}"
        if version != file.version or found.st_size != file.size:
            opened.close()
            raise changed(path)
        return opened

    def _read_only(self, *_: object, **__: object) -> Any:
        raise NotImplementedError

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _read_only
    move = copy_file = open_output_stream = open_append_stream = _read_only


def changed(path: str) -> FileTrouble:
    """The file at `path` is not the one that was listed."""
    return FileTrouble("changed", f'file "{path}" has changed while it was read')


class _Object:
    """An object as a file of Python's, read in ranges of one version."""

    def __init__(self, counts: OpenedFiles, store: Any, key: str, file: LakeFile, *, ends_in_trouble: bool) -> None:
        self._ends_in_trouble = ends_in_trouble
        self._counts = counts
        self._store = store
        self._key = key
        self._file = file
        self._place = 0
        self.closed = False
        self.mode = "rb"

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def size(self) -> int:
        return self._file.size

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = 0) -> int:
        self._place = offset + (0, self._place, self._file.size)[whence]
        return self._place

    def read(self, length: int = -1) -> bytes:
        left = self._file.size - self._place
        length = left if length is None or length < 0 else min(length, left)
        if length <= 0:
            return b""
        try:
            with self._counts.noted():
                data = self._range(self._place, length)
        except FileTrouble:
            if not self._ends_in_trouble:
                raise
            return b""
        self._place += len(data)
        self._counts.bytes_read += len(data)
        return data

    def _range(self, start: int, length: int) -> bytes:
        from obstore import exceptions

        options: dict[str, Any] = {"range": (start, start + length)}
        if self._file.version.startswith('"'):
            options["if_match"] = self._file.version
        path = self._file.path
        try:
            return bytes(self._store.get(self._key, options=options).bytes())
        except exceptions.PreconditionError as error:
            raise changed(path) from error
        except (FileNotFoundError, exceptions.NotFoundError) as error:
            raise FileTrouble("missing", f'file "{path}" has vanished while it was read') from error
        except Exception as error:
            raise trouble_of_store(path, error, "could not read object") from error

    def close(self) -> None:
        self.closed = True

    def flush(self) -> None:
        pass
