"""Wrappers of both primitives that count operations and bytes.

The costs that the storage layer promises per statement are counted, not timed; tests hold them exactly, and
the metrics read the same counters. An operation is counted when it is asked for, whether it succeeds or not.

    before = consensus.counts.copy()
    await session.execute("INSERT ...")
    assert (consensus.counts - before).writes == 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

from storage.stores.blob import Blob, BlobEntry, ByteRange
from storage.stores.consensus import Consensus, SeqNo, VersionedData


class OperationCounts:
    """How often each operation was called, and how many bytes went each way."""

    WRITES = ("put", "put_if_absent", "make_durable", "delete", "compare_and_set", "truncate")
    READS = ("get", "size", "list", "head", "scan", "list_keys")

    def __init__(self, calls: Counter[str] | None = None, bytes_read: int = 0, bytes_written: int = 0) -> None:
        self.calls: Counter[str] = Counter() if calls is None else calls
        self.bytes_read = bytes_read
        self.bytes_written = bytes_written

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
        self.counts.calls["get"] += 1
        data = await self.inner.get(key, byte_range)
        self.counts.bytes_read += 0 if data is None else len(data)
        return data

    async def size(self, key: str) -> int | None:
        """See `Blob.size`."""
        self.counts.calls["size"] += 1
        return await self.inner.size(key)

    async def put(self, key: str, data: bytes) -> None:
        """See `Blob.put`."""
        self.counts.calls["put"] += 1
        self.counts.bytes_written += len(data)
        await self.inner.put(key, data)

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See `Blob.put_if_absent`."""
        self.counts.calls["put_if_absent"] += 1
        self.counts.bytes_written += len(data)
        return await self.inner.put_if_absent(key, data)

    async def make_durable(self, key: str) -> int | None:
        """See `Blob.make_durable`."""
        self.counts.calls["make_durable"] += 1
        return await self.inner.make_durable(key)

    async def delete(self, key: str) -> bool:
        """See `Blob.delete`."""
        self.counts.calls["delete"] += 1
        return await self.inner.delete(key)

    async def list(self, prefix: str = "") -> AsyncIterator[BlobEntry]:
        """See `Blob.list`."""
        self.counts.calls["list"] += 1
        async for entry in self.inner.list(prefix):
            yield entry

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
        self.counts.calls["head"] += 1
        found = await self.inner.head(key)
        self.counts.bytes_read += 0 if found is None else len(found.data)
        return found

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        """See `Consensus.compare_and_set`."""
        self.counts.calls["compare_and_set"] += 1
        self.counts.bytes_written += len(new.data)
        return await self.inner.compare_and_set(key, expected_seqno, new)

    async def scan(self, key: str, from_seqno: SeqNo, limit: int | None = None) -> list[VersionedData]:
        """See `Consensus.scan`."""
        self.counts.calls["scan"] += 1
        diffs = await self.inner.scan(key, from_seqno, limit)
        self.counts.bytes_read += sum(len(diff.data) for diff in diffs)
        return diffs

    async def truncate(self, key: str, seqno: SeqNo) -> int:
        """See `Consensus.truncate`."""
        self.counts.calls["truncate"] += 1
        return await self.inner.truncate(key, seqno)

    async def list_keys(self) -> list[str]:
        """See `Consensus.list_keys`."""
        self.counts.calls["list_keys"] += 1
        return await self.inner.list_keys()

    @property
    def is_low(self) -> bool:
        """See `Consensus.is_low`."""
        return self.inner.is_low

    async def watch(self, key: str, seqno: SeqNo) -> None:
        """See `Consensus.watch`."""
        self.counts.calls["watch"] += 1
        await self.inner.watch(key, seqno)

    async def close(self) -> None:
        """See `Consensus.close`."""
        await self.inner.close()
