"""A blob store in this process's memory: for tests and simulations; several simulated processes share one.

Nothing survives the process. The engines cannot open its objects, so `uri` raises.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from storage.clock import Clock
from storage.errors import Determinate
from storage.stores.blob import BlobEntry, ByteRange, check_key, check_prefix


class MemoryBlob:
    """`Blob` in a dictionary. `clock`, when given, dates the objects; without one they are dated 0."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._clock = clock

    async def get(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        """See `Blob.get`."""
        check_key(key)
        found = self._objects.get(key)
        if found is None:
            return None
        data = found[0]
        return data if byte_range is None else data[byte_range.start : byte_range.start + byte_range.length]

    async def size(self, key: str) -> int | None:
        """See `Blob.size`."""
        check_key(key)
        found = self._objects.get(key)
        return None if found is None else len(found[0])

    async def put(self, key: str, data: bytes) -> None:
        """See `Blob.put`."""
        check_key(key)
        self._store(key, data)

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See `Blob.put_if_absent`."""
        check_key(key)
        if key in self._objects:
            return False
        self._store(key, data)
        return True

    async def make_durable(self, key: str) -> int | None:
        """See `Blob.make_durable`; an engine cannot have written the object, so this is its size."""
        return await self.size(key)

    async def delete(self, key: str) -> bool:
        """See `Blob.delete`."""
        check_key(key)
        return self._objects.pop(key, None) is not None

    async def list(self, prefix: str = "") -> AsyncIterator[BlobEntry]:
        """See `Blob.list`; the listing is of the moment it began."""
        check_prefix(prefix)
        for key, (data, modified_ms) in sorted(self._objects.items()):
            if key.startswith(prefix):
                yield BlobEntry(key=key, bytes=len(data), modified_ms=modified_ms)

    def uri(self, key: str) -> str:
        """Raises: no engine can open another program's memory."""
        raise Determinate(f"an in-memory blob has no path that an engine could open: {key!r}")

    async def close(self) -> None:
        """Nothing to release; the objects stay, as they would on a disk."""

    def _store(self, key: str, data: bytes) -> None:
        self._objects[key] = (bytes(data), 0 if self._clock is None else self._clock.now_ms())
