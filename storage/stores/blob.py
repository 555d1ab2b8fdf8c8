"""The blob store: immutable objects under string keys; one of the two primitives durability stands on.

Keys are relative paths such as ``parts/s3k2.../p7f1.parquet``: segments of ``[A-Za-z0-9._=-]`` joined by
``/``, never empty, and never beginning with ``.`` or ``_`` (Spark takes such files for hidden). They are
valid on every store, and in Spark and DuckDB paths.

Contract (one conformance suite, `tests/storage/stores/test_blob_conformance.py`, holds all implementations to it):

- An object appears whole or not at all; nobody ever reads half of one.
- Once `put` or `put_if_absent` has returned, the object survives a crash of the process and of the machine.
- Of several concurrent `put_if_absent` on one key exactly one returns True, and its bytes are the object.
- `get`, `size` and `list` see every write and delete that returned before they began.
- Errors are `Determinate` or `Indeterminate` (see `storage.errors`); a cancelled write is indeterminate.
- When `put_if_absent` has returned False, the object that is there is durable too. A `get` or `size` may see an
  object a moment before it is durable, so a verdict that must last is reached through `put_if_absent`.

SUBTLE: a retried `put_if_absent` whose first attempt was indeterminate may return False because of its own
first attempt. The caller compares the bytes (or their checksum) before it concludes that somebody else won.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from storage.errors import InvalidKey

MAX_KEY_CHARS = 512
"""Object stores allow 1,024 bytes including a prefix; half of it leaves room for the prefix."""

_SEGMENT = r"[A-Za-z0-9=-][A-Za-z0-9._=-]*"
_KEY = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")
_PREFIX = re.compile(rf"(?:{_SEGMENT}/)*(?:{_SEGMENT})?")


class ByteRange(Struct, frozen=True, kw_only=True):
    """The bytes [start, start + length) of an object; the part beyond its end is left off."""

    start: int
    length: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.length < 0:
            raise ValueError(f"byte range {self.start}+{self.length} is negative")


class BlobEntry(Struct, frozen=True, kw_only=True):
    """One object in a listing. `modified_ms` is the store's own Unix time of the last write."""

    key: str
    bytes: int
    modified_ms: int


class Blob(Protocol):
    """A store of immutable objects. See the module's contract."""

    async def get(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        """The object's bytes, or those in `byte_range`; None when there is no such object."""
        ...

    async def size(self, key: str) -> int | None:
        """The object's length in bytes, without reading it; None when there is no such object."""
        ...

    async def put(self, key: str, data: bytes) -> None:
        """Store `data` durably under `key`, replacing what is there."""
        ...

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """Store `data` durably under `key` unless the key is taken; True when this call stored it."""
        ...

    async def make_durable(self, key: str) -> int | None:
        """Make durable an object that an engine wrote to `uri(key)`; its length in bytes, None when absent."""
        ...

    async def delete(self, key: str) -> bool:
        """Remove the object; False when there was none."""
        ...

    def list(self, prefix: str = "") -> AsyncIterator[BlobEntry]:
        """The objects whose key starts with `prefix` (a plain string prefix), in no particular order.

        Objects written or removed while the listing runs may or may not be in it.
        """
        ...

    def uri(self, key: str) -> str:
        """What Spark and DuckDB open to read (or write) the object. Raises Determinate when they cannot."""
        ...

    async def close(self) -> None:
        """Release threads and connections; later calls raise `StorageClosed`."""
        ...


def check_key(key: str) -> None:
    """Raise `InvalidKey` unless `key` is portable."""
    if len(key) > MAX_KEY_CHARS or _KEY.fullmatch(key) is None:
        raise InvalidKey(f"invalid blob key: {key[:MAX_KEY_CHARS]!r}")


def check_prefix(prefix: str) -> None:
    """Raise `InvalidKey` unless `prefix` can begin a portable key."""
    if len(prefix) > MAX_KEY_CHARS or _PREFIX.fullmatch(prefix) is None:
        raise InvalidKey(f"invalid blob key prefix: {prefix[:MAX_KEY_CHARS]!r}")
