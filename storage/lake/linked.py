"""A blob store that follows links: for the key of a link (`storage.shards.links`) it gives the bytes of the file that
is meant, wherever that lies.

The file has to be the one that was taken over: whoever reads or asks for its size gets a FileTrouble that names it when
it has vanished or changed. Nothing is ever written to it. It is removed under `links.target_key` alone, and only when
the link owns it, no other link is to it, and it is still the same.

Several tables may have a file, so each link claims its file (`links.claim_key`) before it is stored. Who is about to
remove a file gives up his own claim first and looks for those of others then: of two who do so at one time, one at
least finds no other. A crash leaves at most a claim whose link there is not, which counts for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Literal, Protocol

import msgspec

from storage.bounded_map import BoundedMap
from storage.errors import CorruptData
from storage.lake.places import LakeFile, Places, is_url
from storage.lake.troubles import FileTrouble, trouble_of, trouble_of_store
from storage.shards.links import LinkTarget, claim_key, claiming_link, claims_of, is_link, linked_by
from storage.stores.blob import Blob, BlobEntry, ByteRange
from storage.stores.blob_files import BlobFiles

MAX_TARGETS = 20_000
"""Links that are remembered: they never change."""


class TargetFiles(Protocol):
    """The files that links are to."""

    async def read(self, target: LinkTarget, byte_range: ByteRange | None) -> bytes:
        """Bytes of the file. Raises FileTrouble when it is not the one that was taken over."""
        ...

    async def check(self, target: LinkTarget) -> None:
        """Raises FileTrouble unless the file is there as it was."""
        ...

    async def remove(self, target: LinkTarget) -> None:
        """Remove the file if it is there as it was."""
        ...


class LinkedBlob:
    """`Blob` over `inner`; see the module's contract."""

    def __init__(self, inner: Blob, files: TargetFiles) -> None:
        self.inner = inner
        self._files = files
        self._targets: BoundedMap[str, LinkTarget] = BoundedMap(max_entries=MAX_TARGETS)

    async def get(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        """See `Blob.get`."""
        if not is_link(key):
            return await self.inner.get(key, byte_range)
        target = await self._target(key)
        return None if target is None else await self._files.read(target, byte_range)

    async def size(self, key: str) -> int | None:
        """See `Blob.size`."""
        if not is_link(key):
            return await self.inner.size(key)
        target = await self._target(key)
        if target is None:
            return None
        await self._files.check(target)
        return target.bytes

    async def put(self, key: str, data: bytes) -> None:
        """See `Blob.put`."""
        await self._claim(key, data)
        await self.inner.put(key, data)

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See `Blob.put_if_absent`."""
        await self._claim(key, data)
        return await self.inner.put_if_absent(key, data)

    async def make_durable(self, key: str) -> int | None:
        """See `Blob.make_durable`."""
        return await self.inner.make_durable(key)

    async def delete(self, key: str) -> bool:
        """See `Blob.delete`: of a link it takes the link alone."""
        link = linked_by(key)
        if link is None:
            await self._give_up(key)
            return await self.inner.delete(key)
        target = await self._target(link)
        if target is None or not target.owned:
            return False
        await self.inner.delete(claim_key(target.path, link))
        if await self._is_claimed(target, link):
            return False
        await self._files.remove(target)
        return True

    def list(self, prefix: str = "") -> AsyncIterator[BlobEntry]:
        """See `Blob.list`."""
        return self.inner.list(prefix)

    def uri(self, key: str) -> str:
        """See `Blob.uri`. Of a link that is no file which engines open by themselves, see `links.file_of`."""
        return self.inner.uri(key)

    async def close(self) -> None:
        """See `Blob.close`."""
        await self.inner.close()

    async def _claim(self, key: str, data: bytes) -> None:
        """Claim the file of the link `key`, which is about to be stored. NOTE: `data` may be a tombstone."""
        if is_link(key):
            with contextlib.suppress(msgspec.MsgspecError):
                await self.inner.put(claim_key(msgspec.json.decode(data, type=LinkTarget).path, key), key.encode())

    async def _give_up(self, key: str) -> None:
        """Take back what `_claim` did, if `key` is that of a link."""
        if is_link(key):
            with contextlib.suppress(CorruptData):
                target = await self._target(key)
                if target is not None:
                    await self.inner.delete(claim_key(target.path, key))

    async def _is_claimed(self, target: LinkTarget, link: str) -> bool:
        """Whether another link than `link` is to the same file."""
        async for entry in self.inner.list(claims_of(target.path)):
            other = claiming_link(entry.key)
            if other is not None and other != link and await self.inner.size(other) is not None:
                return True
        return False

    async def _target(self, key: str) -> LinkTarget | None:
        found = self._targets.get(key)
        if found is None:
            data = await self.inner.get(key)
            if data is None:
                return None
            try:
                found = msgspec.json.decode(data, type=LinkTarget)
            except msgspec.MsgspecError as error:
                raise CorruptData(f"the link {key} cannot be decoded: {error}") from error
            self._targets.put(key, found)
        return found


def links_to(blob: Blob) -> Literal["files", "objects"] | None:
    """What the links of `blob` may be to: files of this host, where it is a folder, or objects; None where it follows
    none."""
    if isinstance(blob, BlobFiles):
        return "objects" if isinstance(blob.inner, LinkedBlob) else None
    return "files" if isinstance(blob, LinkedBlob) else None


class PlaceFiles:
    """`TargetFiles` in the places that the operator allows."""

    def __init__(self, places: Places) -> None:
        self._places = places

    async def read(self, target: LinkTarget, byte_range: ByteRange | None) -> bytes:
        """See `TargetFiles.read`."""
        return await asyncio.to_thread(self._read, target, byte_range)

    async def check(self, target: LinkTarget) -> None:
        """See `TargetFiles.check`."""
        await asyncio.to_thread(self._check, target)

    async def remove(self, target: LinkTarget) -> None:
        """See `TargetFiles.remove`."""
        await asyncio.to_thread(self._remove, target)

    def _check(self, target: LinkTarget) -> None:
        """Raises what `check` does; of a file that is not there or is another one, that it cannot be read."""
        try:
            now = self._places.now(LakeFile(path=target.path, size=target.bytes, version=target.version))
        except FileTrouble as trouble:
            raise (_vanished(target) if trouble.kind == "missing" else trouble) from trouble
        if now.size != target.bytes or now.version != target.version:
            raise _changed(target)

    def _read(self, target: LinkTarget, byte_range: ByteRange | None) -> bytes:
        start, length = (0, target.bytes) if byte_range is None else (byte_range.start, byte_range.length)
        length = max(0, min(length, target.bytes - start))
        self._check(target)
        if not length:
            return b""
        if is_url(target.path):
            store, key = self._places.store(target.path)
            try:
                return bytes(store.get_range(key, start=start, length=length))
            except FileNotFoundError as error:
                raise _vanished(target) from error
            except Exception as error:
                raise trouble_of_store(target.path, error, "could not read object") from error
        try:
            with open(target.path, "rb") as file:
                file.seek(start)
                data = file.read(length)
        except FileNotFoundError as error:
            raise _vanished(target) from error
        except OSError as error:
            raise trouble_of(target.path, error) from error
        if len(data) != length:
            raise _changed(target)
        return data

    def _remove(self, target: LinkTarget) -> None:
        try:
            self._check(target)
        except FileTrouble as trouble:
            if trouble.kind == "unreadable":
                return  # Somebody else has removed it, or put another one in its place.
            raise
        if is_url(target.path):
            store, key = self._places.store(target.path)
            try:
                store.delete(key)
            except Exception as error:
                raise trouble_of_store(target.path, error, "could not remove object") from error
            return
        try:
            os.unlink(target.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise trouble_of(target.path, error) from error


def _vanished(target: LinkTarget) -> FileTrouble:
    return FileTrouble("unreadable", f'file "{target.path}", which was added to a table, has vanished')


def _changed(target: LinkTarget) -> FileTrouble:
    return FileTrouble("unreadable", f'file "{target.path}", which was added to a table, has changed')
