"""Wrappers of both primitives that count operations, bytes and failures.

The costs that the storage layer promises per statement are counted, not timed; tests hold them exactly, and
the metrics read the same counters. An operation is counted when it is asked for, whether it succeeds or not.

    before = consensus.counts.copy()
    await session.execute("INSERT ...")
    assert (consensus.counts - before).writes == 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

from storage.errors import StorageError
from storage.stores.blob import Blob, BlobEntry, ByteRange
from storage.stores.consensus import Consensus, SeqNo, VersionedData

T = TypeVar("T")


class OperationCounts:
    """How often each operation was called and how often it failed, and how many bytes went each way."""

    WRITES = ("put", "put_if_absent", "make_durable", "delete", "compare_and_set", "truncate")
    READS = ("get", "size", "list", "head", "scan", "list_keys")

    def __init__(self, calls: Counter[str] | None = None, bytes_read: int = 0, bytes_written: int = 0) -> None:
        self.calls: Counter[str] = Counter() if calls is None else calls
        self.bytes_read = bytes_read
        self.bytes_written = bytes_written
        self.failures: Counter[str] = Counter()

    async def counted(self, name: str, operation: Awaitable[T]) -> T:
        """What `operation`, of the kind `name`, gives."""
        self.calls[name] += 1
        try:
            return await operation
        except StorageError:
            self.failures[name] += 1
            raise

    @property
    def writes(self) -> int:
        """Operations that may change the store."""
        return sum(self.calls[name] for name in self.WRITES)

    @property
    def reads(self) -> int:
        """Operations that only look; `watch` is not one, since it may wait for ever without asking."""
        return sum(self.calls[name] for name in self.READS)

    @property
    def total(self) -> int:
        """Reads and writes."""
        return self.reads + self.writes

    def __getitem__(self, operation: str) -> int:
        return self.calls[operation]

    def copy(self) -> OperationCounts:
        """The counts of this moment."""
        return OperationCounts(Counter(self.calls), self.bytes_read, self.bytes_written)

    def __sub__(self, earlier: OperationCounts) -> OperationCounts:
        difference = Counter({name: n - earlier.calls[name] for name, n in self.calls.items()})
        return OperationCounts(
            +difference, self.bytes_read - earlier.bytes_read, self.bytes_written - earlier.bytes_written
        )

    def __repr__(self) -> str:
        calls = ", ".join(f"{name}={n}" for name, n in sorted(self.calls.items()) if n)
        return f"OperationCounts({calls}; read {self.bytes_read} B, written {self.bytes_written} B)"


class CountingBlob:
    """A `Blob` that counts, in `counts`, what is asked of `inner`."""

    def __init__(self, inner: Blob) -> None:
        self.inner = inner
        self.counts = OperationCounts()

    async def get(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        """See `Blob.get`."""
        data = await self.counts.counted("get", self.inner.get(key, byte_range))
        self.counts.bytes_read += 0 if data is None else len(data)
        return data

    async def size(self, key: str) -> int | None:
        """See `Blob.size`."""
        return await self.counts.counted("size", self.inner.size(key))

    async def put(self, key: str, data: bytes) -> None:
        """See `Blob.put`."""
        self.counts.bytes_written += len(data)
        await self.counts.counted("put", self.inner.put(key, data))

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See `Blob.put_if_absent`."""
        self.counts.bytes_written += len(data)
        return await self.counts.counted("put_if_absent", self.inner.put_if_absent(key, data))

    async def make_durable(self, key: str) -> int | None:
        """See `Blob.make_durable`."""
        return await self.counts.counted("make_durable", self.inner.make_durable(key))

    async def delete(self, key: str) -> bool:
        """See `Blob.delete`."""
        return await self.counts.counted("delete", self.inner.delete(key))

    async def list(self, prefix: str = "") -> AsyncIterator[BlobEntry]:
        """See `Blob.list`."""
        self.counts.calls["list"] += 1
        try:
            async for entry in self.inner.list(prefix):
                yield entry
        except StorageError:
            self.counts.failures["list"] += 1
            raise

    def uri(self, key: str) -> str:
        """See `Blob.uri`; not counted, since it asks nothing of the store."""
        return self.inner.uri(key)

    async def close(self) -> None:
        """See `Blob.close`."""
        await self.inner.close()


class CountingConsensus:
    """A `Consensus` that counts, in `counts`, what is asked of `inner`."""

    def __init__(self, inner: Consensus) -> None:
        self.inner = inner
        self.counts = OperationCounts()

    async def head(self, key: str) -> VersionedData | None:
        """See `Consensus.head`."""
        found = await self.counts.counted("head", self.inner.head(key))
        self.counts.bytes_read += 0 if found is None else len(found.data)
        return found

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        """See `Consensus.compare_and_set`."""
        self.counts.bytes_written += len(new.data)
        return await self.counts.counted("compare_and_set", self.inner.compare_and_set(key, expected_seqno, new))

    async def scan(self, key: str, from_seqno: SeqNo, limit: int | None = None) -> list[VersionedData]:
        """See `Consensus.scan`."""
        diffs = await self.counts.counted("scan", self.inner.scan(key, from_seqno, limit))
        self.counts.bytes_read += sum(len(diff.data) for diff in diffs)
        return diffs

    async def truncate(self, key: str, seqno: SeqNo) -> int:
        """See `Consensus.truncate`."""
        return await self.counts.counted("truncate", self.inner.truncate(key, seqno))

    async def list_keys(self) -> list[str]:
        """See `Consensus.list_keys`."""
        return await self.counts.counted("list_keys", self.inner.list_keys())

    @property
    def is_low(self) -> bool:
        """See `Consensus.is_low`."""
        return self.inner.is_low

    async def watch(self, key: str, seqno: SeqNo) -> None:
        """See `Consensus.watch`."""
        await self.counts.counted("watch", self.inner.watch(key, seqno))

    async def close(self) -> None:
        """See `Consensus.close`."""
        await self.inner.close()
