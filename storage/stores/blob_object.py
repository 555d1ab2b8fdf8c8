"""The blob store on an object store (S3, GCS, Azure, or memory), through the library obstore.

The root is a URL, for example ``s3://bucket/environment``; keys are paths below it. Object stores make a write
durable before they answer it, and put-if-absent is their conditional put (If-None-Match on S3).

An error of a write is *indeterminate* unless it says that the request was refused: the library repeats requests
that got no answer, so one of them may have taken effect. For the same reason `put_if_absent` may return False
because of its own first request; see `storage.stores.blob`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from obstore import exceptions, store

from storage.errors import Determinate, Indeterminate, StoreUnavailable, store_closed
from storage.stores.answering import answered
from storage.stores.blob import BlobEntry, ByteRange, check_key, check_prefix

_T = TypeVar("_T")

ANSWER_LIMIT_S = 120.0
"""How long an operation may take, with all its repetitions; the largest files are some 64 MB."""

_REFUSED = (
    exceptions.PermissionDeniedError,
    exceptions.UnauthenticatedError,
    exceptions.InvalidPathError,
    exceptions.NotSupportedError,
    exceptions.UnknownConfigurationKeyError,
)
"""Answers that say the request was not carried out."""


_CODE = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")

_SAID = {
    "NoSuchBucket": "the bucket does not exist",
    "NotImplemented": "the store has no conditional writes",
}
"""Codes of answers that say the request was not carried out, too, and what they mean."""


class ObjectBlob:
    """`Blob` below the URL `root`. `options` are the store's own (region, endpoint, credentials)."""

    def __init__(self, root: str, options: Mapping[str, Any] | None = None) -> None:
        self.root = root.rstrip("/")
        self._store: Any = store.from_url(root, **(options or {}))
        self._closed = False

    async def get(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        """See `Blob.get`."""
        check_key(key)

        async def work() -> bytes | None:
            if byte_range is None:
                found = await self._store.get_async(key)
                return bytes(await found.bytes_async())
            # Stores refuse a range that begins at or after the end, and an empty one.
            length = (await self._store.head_async(key))["size"]
            wanted = min(byte_range.length, length - byte_range.start)
            if wanted <= 0:
                return b""
            return bytes(await self._store.get_range_async(key, start=byte_range.start, length=wanted))

        return await self._ask(f"read blob {key!r}", work, absent=None, writes=False)

    async def size(self, key: str) -> int | None:
        """See `Blob.size`."""
        check_key(key)

        async def work() -> int | None:
            return int((await self._store.head_async(key))["size"])

        return await self._ask(f"look up blob {key!r}", work, absent=None, writes=False)

    async def put(self, key: str, data: bytes) -> None:
        """See `Blob.put`."""
        check_key(key)

        async def work() -> None:
            await self._store.put_async(key, data)

        await self._ask(f"write blob {key!r}", work, absent=None, writes=True)

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See `Blob.put_if_absent`."""
        check_key(key)

        async def work() -> bool:
            try:
                await self._store.put_async(key, data, mode="create", use_multipart=False)
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                return False
            return True

        return await self._ask(f"write blob {key!r}", work, absent=False, writes=True)

    async def make_durable(self, key: str) -> int | None:
        """See `Blob.make_durable`: an object store's objects are durable once they are there."""
        return await self.size(key)

    async def delete(self, key: str) -> bool:
        """See `Blob.delete`; looks first, since object stores do not say whether there was anything."""
        check_key(key)

        async def work() -> bool:
            await self._store.head_async(key)
            await self._store.delete_async(key)
            return True

        return await self._ask(f"delete blob {key!r}", work, absent=False, writes=True)

    async def list(self, prefix: str = "") -> AsyncIterator[BlobEntry]:
        """See `Blob.list`."""
        check_prefix(prefix)
        # The library's prefix is a whole folder; the rest of ours is filtered here.
        folder = prefix.rpartition("/")[0]
        if self._closed:
            raise store_closed("blob")
        try:
            async for chunk in self._store.list(folder or None):
                for item in chunk:
                    if item["path"].startswith(prefix):
                        modified_ms = int(item["last_modified"].timestamp() * 1000)
                        yield BlobEntry(key=item["path"], bytes=item["size"], modified_ms=modified_ms)
        except exceptions.BaseError as error:
            raise StoreUnavailable(f"could not list blobs at {self.root}: {_reason(error)}") from error

    def uri(self, key: str) -> str:
        """The object's URL. Raises Determinate for a store in memory."""
        check_key(key)
        if self.root.startswith("memory:"):
            raise Determinate(f"an in-memory blob has no path that an engine could open: {key!r}")
        return f"{self.root}/{key}"

    async def close(self) -> None:
        """See `Blob.close`."""
        self._closed = True

    async def _ask(self, what: str, work: Callable[[], Awaitable[_T]], *, absent: _T, writes: bool) -> _T:
        """The result of `work`, `absent` when the object is not there, or our error for the store's."""
        if self._closed:
            raise store_closed("blob")
        try:
            return await answered(work(), store=f"blob store {self.root}", limit_s=ANSWER_LIMIT_S, writes=writes)
        except (exceptions.NotFoundError, FileNotFoundError) as error:
            if writes and "NoSuchBucket" in str(error):
                raise StoreUnavailable(f"could not {what} at {self.root}: {_reason(error)}") from error
            return absent
        except _REFUSED as error:
            raise StoreUnavailable(f"could not {what} at {self.root}: {_reason(error)}") from error
        except exceptions.BaseError as error:
            kind = Indeterminate if writes and not _is_refused(error) else StoreUnavailable
            raise kind(f"could not {what} at {self.root}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """What the store says, in one line: the library's message goes on with the answer and a dump of the request."""
    said = str(error).strip().partition("\n\n")[0]
    code, message = _CODE.search(said), _MESSAGE.search(said)
    if code is not None and code[1] in _SAID:
        return _SAID[code[1]]
    first = said.partition("\n")[0].partition("<")[0].strip().rstrip(":")
    what = "" if code is None else f": {code[1]}" + ("" if message is None else f", {message[1]}")
    return f"{first}{what}"[:400]


def _is_refused(error: BaseException) -> bool:
    code = _CODE.search(str(error))
    return code is not None and code[1] in _SAID
