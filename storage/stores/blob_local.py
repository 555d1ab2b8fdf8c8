"""The blob store in a local folder, durable across the death of the process and of the machine.

An object is the file ``root/key``. A write goes to a temporary file in ``root/.tmp``, is fsynced, and only then
gets its name: by `link` for put-if-absent (which fails when the name is taken) or by `rename`; then the folder
is fsynced. A crash before the link leaves a temporary file, which `clear_abandoned` removes a day later; a crash
after it leaves the whole object. Folders are made when first needed, fsynced up to the root, and never removed,
so that no writer finds its folder gone.

All file work runs in the store's own threads. Several processes on one host may share a folder.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import os
import stat
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from storage.clock import Clock, Randomness, SystemClock, SystemRandomness
from storage.errors import Determinate, Indeterminate, StoreFull, StoreUnavailable, store_closed
from storage.stores.answering import answered
from storage.stores.blob import BlobEntry, ByteRange, check_key, check_prefix

MAX_THREADS = 16
"""File operations under way at once: enough to keep a disk's queue full, few enough to be cheap."""

ANSWER_LIMIT_S = 60.0
"""How long an operation may take; a disk or network mount that hangs is an error after it."""

ABANDONED_AFTER_MS = 24 * 3600 * 1000
"""A temporary file older than this belongs to no upload: none takes a day."""

_TEMPORARY = ".tmp"
_P = ParamSpec("_P")
_T = TypeVar("_T")


class LocalBlob:
    """`Blob` in the folder `root`, which is created when missing."""

    def __init__(self, root: Path, *, clock: Clock | None = None, randomness: Randomness | None = None) -> None:
        self.root = root.absolute()
        self._clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="blob")
        self._durable_folders: set[Path] = set()
        self._closed = False

    async def get(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        """See `Blob.get`."""
        check_key(key)
        return await self._run(False, self._get, key, byte_range)

    async def size(self, key: str) -> int | None:
        """See `Blob.size`."""
        check_key(key)
        return await self._run(False, self._size, key)

    async def put(self, key: str, data: bytes) -> None:
        """See `Blob.put`."""
        check_key(key)
        await self._run(True, self._write, key, data, True)

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See `Blob.put_if_absent`."""
        check_key(key)
        return await self._run(True, self._write, key, data, False)

    async def make_durable(self, key: str) -> int | None:
        """See `Blob.make_durable`: fsyncs the file and its folder."""
        check_key(key)
        return await self._run(True, self._make_durable, key)

    async def delete(self, key: str) -> bool:
        """See `Blob.delete`."""
        check_key(key)
        return await self._run(True, self._delete, key)

    async def list(self, prefix: str = "") -> AsyncIterator[BlobEntry]:
        """See `Blob.list`."""
        check_prefix(prefix)
        folder = self.root / prefix.rpartition("/")[0]
        pending = [folder]
        while pending:
            entries, folders = await self._run(False, self._list_folder, pending.pop(), prefix)
            pending.extend(folders)
            for entry in entries:
                yield entry

    def uri(self, key: str) -> str:
        """The file's absolute path. Its folder exists once anything was written there; engines make it."""
        check_key(key)
        return str(self.root / key)

    async def close(self) -> None:
        """See `Blob.close`; waits for what is under way."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)

    async def clear_abandoned(self) -> int:
        """Remove temporary files that a crash left more than a day ago; returns how many."""
        return await self._run(True, self._clear_abandoned)

    async def _run(self, writes: bool, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if self._closed:
            raise store_closed("blob")
        loop = asyncio.get_running_loop()
        working = loop.run_in_executor(self._threads, lambda: work(*args, **kwargs))
        return await answered(working, store=f"blob store {self.root}", limit_s=ANSWER_LIMIT_S, writes=writes)

    def _get(self, key: str, byte_range: ByteRange | None) -> bytes | None:
        try:
            with open(self.root / key, "rb", buffering=0) as file:
                if byte_range is None:
                    return file.readall()
                file.seek(byte_range.start)
                pieces = []
                missing = byte_range.length
                while missing > 0 and (piece := file.read(missing)):
                    pieces.append(piece)
                    missing -= len(piece)
                return b"".join(pieces)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise StoreUnavailable(f"could not read blob {key!r}: {error.strerror}") from error

    def _size(self, key: str) -> int | None:
        try:
            found = os.stat(self.root / key)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StoreUnavailable(f"could not look up blob {key!r}: {error.strerror}") from error
        return None if stat.S_ISDIR(found.st_mode) else found.st_size

    def _write(self, key: str, data: bytes, replace: bool) -> bool:
        target = self.root / key
        name = base64.b32encode(self._randomness.randbytes(15)).decode().lower()
        temporary = self.root / _TEMPORARY / name
        try:
            self._make_durable_folder(target.parent)
            self._make_durable_folder(temporary.parent)
            _write_synced(temporary, data)
        except OSError as error:
            _discard(temporary)
            raise _not_written(key, error) from error
        try:
            if replace:
                os.rename(temporary, target)
                stored = True
            else:
                stored = _link(temporary, target)
                _discard(temporary)
        except OSError as error:
            _discard(temporary)
            raise _not_written(key, error) from error
        try:
            _sync_folder(target.parent)
        except OSError as error:
            raise Indeterminate(f"could not make blob {key!r} durable in {target.parent}: {error.strerror}") from error
        return stored

    def _make_durable(self, key: str) -> int | None:
        target = self.root / key
        try:
            with open(target, "rb") as file:
                os.fsync(file.fileno())
                length = os.fstat(file.fileno()).st_size
            self._make_durable_folder(target.parent)
            _sync_folder(target.parent)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Indeterminate(f"could not make blob {key!r} durable: {error.strerror}") from error
        return length

    def _delete(self, key: str) -> bool:
        target = self.root / key
        try:
            os.unlink(target)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise Determinate(f"could not delete blob {key!r}: {error.strerror}") from error
        # Hadoop's local file system, through which Spark writes, keeps a checksum file beside each file.
        _discard(target.with_name(f".{target.name}.crc"))
        return True

    def _list_folder(self, folder: Path, prefix: str) -> tuple[Sequence[BlobEntry], Sequence[Path]]:
        entries: list[BlobEntry] = []
        folders: list[Path] = []
        try:
            with os.scandir(folder) as found:
                for item in found:
                    if item.name.startswith((".", "_")):
                        continue
                    key = str((folder / item.name).relative_to(self.root))
                    if item.is_dir(follow_symlinks=False):
                        if f"{key}/".startswith(prefix) or prefix.startswith(f"{key}/"):
                            folders.append(folder / item.name)
                    elif key.startswith(prefix):
                        with contextlib.suppress(FileNotFoundError):
                            status = item.stat()
                            modified_ms = status.st_mtime_ns // 1_000_000
                            entries.append(BlobEntry(key=key, bytes=status.st_size, modified_ms=modified_ms))
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        except OSError as error:
            raise StoreUnavailable(f"could not list {folder}: {error.strerror}") from error
        return entries, folders

    def _make_durable_folder(self, folder: Path) -> None:
        """Make `folder` and have its name, and those of the folders above it up to the root, on disk.

        SUBTLE: that the folder exists does not show that it is durable: another process may have made it a
        moment ago. So each process fsyncs the way to a folder once.
        """
        if folder in self._durable_folders:
            return
        folder.mkdir(parents=True, exist_ok=True)
        step = folder
        while True:
            _sync_folder(step.parent)
            if step == self.root or step.parent == step:
                break
            step = step.parent
        self._durable_folders.add(folder)

    def _clear_abandoned(self) -> int:
        removed = 0
        limit_ms = self._clock.now_ms() - ABANDONED_AFTER_MS
        folder = self.root / _TEMPORARY
        if not folder.is_dir():
            return 0
        with os.scandir(folder) as found:
            for item in found:
                with contextlib.suppress(FileNotFoundError):
                    if item.stat().st_mtime_ns // 1_000_000 < limit_ms:
                        os.unlink(item.path)
                        removed += 1
        return removed


def _write_synced(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        view = memoryview(data)
        while len(view) > 0:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    return True


def _discard(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _not_written(key: str, error: OSError) -> Determinate:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"could not write blob {key!r}: {error.strerror}")
    return StoreUnavailable(f"could not write blob {key!r}: {error.strerror}")
