"""An object store whose objects the engines of this machine can open as files.

Engines read and write files. Those of a store that is not a folder are fetched into one before a statement that reads
them (`holding`), and stay there, the least recently used going first, up to `limit_bytes`. They are immutable, so a
copy is never stale. A file that an engine wrote at `uri(key)` becomes an object with `make_durable`.

The folder is this process's own. Its contents are copies: losing them loses nothing that was sealed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

from storage.bounded_map import BoundedMap
from storage.cache_memory import watched
from storage.errors import MissingBlob
from storage.stores.blob import Blob, BlobEntry, ByteRange, check_key

DEFAULT_LIMIT_BYTES = 8 << 30
"""Copies kept beyond those in use."""

FETCHES = 8
"""Objects fetched at once; each is held in memory while it is."""


class BlobFiles:
    """`Blob` over `inner`; see the module's contract."""

    def __init__(self, inner: Blob, folder: Path, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.inner = inner
        self.folder = folder
        self._held: Counter[str] = Counter()
        self._copies: BoundedMap[str, None] = watched(
            "object_copies", BoundedMap(max_bytes=limit_bytes, pinned=lambda key, _: self._held[key] > 0)
        )
        self._fetching: dict[str, asyncio.Task[None]] = {}
        self._removing: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(FETCHES)

    @contextlib.asynccontextmanager
    async def holding(self, keys: Iterable[str]) -> AsyncIterator[None]:
        """The objects `keys` are files at their `uri` inside the context. Raises MissingBlob, and what `get` raises."""
        wanted = list(dict.fromkeys(keys))
        self._held.update(wanted)
        try:
            await asyncio.gather(*(self._provide(key) for key in wanted))
            yield
        finally:
            self._held.subtract(wanted)
            self._held += Counter()
            await self._remove_all(self._copies.trim())

    def uri(self, key: str) -> str:
        """The path of the copy of `key`; there is a file only while it is held."""
        check_key(key)
        return str(self.folder / key)

    async def make_durable(self, key: str) -> int | None:
        """See `Blob.make_durable`: stores the file that an engine wrote at `uri(key)`."""
        path = self.folder / key
        if key not in self._copies and await asyncio.to_thread(path.is_file):
            data = await asyncio.to_thread(path.read_bytes)
            # NOTE: who has prevented the part (`storage.transactions.parallel_commit`) must not be overruled.
            await self.inner.put_if_absent(key, data)
            await self._remove_all(self._copies.put(key, None, len(data)))
        return await self.inner.make_durable(key)

    async def get(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        """See `Blob.get`. What has a copy is read from it: whoever checks a part checks what the engines read."""
        if key in self._copies:
            # NOTE: held before anything is awaited, so that it cannot be evicted meanwhile.
            self._held[key] += 1
            try:
                return await asyncio.to_thread(_read, self.folder / key, byte_range)
            except FileNotFoundError:
                self._copies.pop(key)
            finally:
                self._held[key] -= 1
                self._held += Counter()
        return await self.inner.get(key, byte_range)

    async def size(self, key: str) -> int | None:
        """See `Blob.size`."""
        return await self.inner.size(key)

    async def put(self, key: str, data: bytes) -> None:
        """See `Blob.put`."""
        await self.inner.put(key, data)

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See `Blob.put_if_absent`."""
        return await self.inner.put_if_absent(key, data)

    async def delete(self, key: str) -> bool:
        """See `Blob.delete`. A copy in use stays until it is let go."""
        return await self.inner.delete(key)

    def list(self, prefix: str = "") -> AsyncIterator[BlobEntry]:
        """See `Blob.list`."""
        return self.inner.list(prefix)

    async def close(self) -> None:
        """See `Blob.close`. The folder is left to its owner."""
        await self.inner.close()

    async def _provide(self, key: str) -> None:
        if key in self._removing:
            await asyncio.shield(self._removing[key])
        if key in self._copies:
            self._copies.touch(key)
            self._copies.hits += 1
            return
        self._copies.misses += 1
        task = self._fetching.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._fetch(key))
            self._fetching[key] = task
            task.add_done_callback(lambda _: self._fetching.pop(key, None))
        await asyncio.shield(task)

    async def _fetch(self, key: str) -> None:
        async with self._slots:
            data = await self.inner.get(key)
            if data is None:
                raise MissingBlob(f"blob {key!r} is not in the store")
            await asyncio.to_thread(_write, self.folder / key, data)
        await self._remove_all(self._copies.put(key, None, len(data)))

    async def _remove_all(self, dropped: Sequence[tuple[str, None]]) -> None:
        """Removes the files of the copies that were given up."""
        if dropped:
            gone = [key for key, _ in dropped]
            task = asyncio.get_running_loop().create_task(self._remove(gone))
            self._removing.update(dict.fromkeys(gone, task))
            await asyncio.shield(task)

    async def _remove(self, keys: Sequence[str]) -> None:
        await asyncio.to_thread(_unlink, [self.folder / key for key in keys])
        for key in keys:
            del self._removing[key]


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(data)
    partial.replace(path)


def _read(path: Path, byte_range: ByteRange | None) -> bytes:
    with path.open("rb") as file:
        if byte_range is None:
            return file.read()
        file.seek(byte_range.start)
        return file.read(byte_range.length)


def _unlink(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
