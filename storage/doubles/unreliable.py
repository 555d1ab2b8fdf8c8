"""Wrappers of both primitives that fail as real stores do, by seed.

Each call draws one fate: it works; it fails *before* taking effect (a `Determinate` error, or an `Indeterminate`
one, since a caller that hears nothing cannot know that nothing happened); it fails *after* taking effect (always
`Indeterminate`); or it is late. The probabilities can be changed while running, so that a test can let faults
stop and see the system recover. With the same seed and the same order of calls, the same calls fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from storage.clock import Clock, Randomness
from storage.errors import StoreTimeout, StoreUnavailable
from storage.stores.blob import Blob, BlobEntry, ByteRange
from storage.stores.consensus import Consensus, SeqNo, VersionedData

_T = TypeVar("_T")


class FaultRates(Struct, frozen=True, kw_only=True):
    """Probabilities from 0 to 1 of each fate of a call, and the longest delay in seconds."""

    fail_before: float = 0.0
    """Determinate: nothing happened, and the caller is told so."""
    unknown_before: float = 0.0
    """Indeterminate: nothing happened, but the caller cannot know."""
    unknown_after: float = 0.0
    """Indeterminate: it happened, and the caller is not told."""
    late: float = 0.0
    """The call takes effect at a random moment of up to `max_delay_s`, and returns after another one."""
    max_delay_s: float = 0.0

    def __post_init__(self) -> None:
        total = self.fail_before + self.unknown_before + self.unknown_after
        if not 0.0 <= total <= 1.0 or not 0.0 <= self.late <= 1.0 or self.max_delay_s < 0:
            raise ValueError(f"fault rates are not probabilities: {self}")


NO_FAULTS = FaultRates()


class Faults:
    """Decides the fate of each call; `rates` may be replaced at any time. `injected` counts what was done."""

    def __init__(self, *, rates: FaultRates, randomness: Randomness, clock: Clock) -> None:
        self.rates = rates
        self.injected: Counter[str] = Counter()
        self._randomness = randomness
        self._clock = clock

    async def call(self, what: str, operation: Callable[[], Awaitable[_T]], *, writes: bool) -> _T:
        """Run `operation` under a drawn fate. A call that does not write fails determinately only."""
        rates = self.rates
        draw = self._randomness.random()
        late = self._randomness.random() < rates.late
        if late:
            self.injected["late"] += 1
            await self._clock.sleep(self._randomness.random() * rates.max_delay_s)
        if draw < rates.fail_before:
            self.injected["fail_before"] += 1
            raise StoreUnavailable(f"injected failure before {what}")
        draw -= rates.fail_before
        if draw < rates.unknown_before:
            self.injected["unknown_before"] += 1
            if writes:
                raise StoreTimeout(f"injected timeout, {what} did not happen")
            raise StoreUnavailable(f"injected failure before {what}")
        result = await operation()
        if late:
            await self._clock.sleep(self._randomness.random() * rates.max_delay_s)
        if draw - rates.unknown_before < rates.unknown_after:
            self.injected["unknown_after"] += 1
            if writes:
                raise StoreTimeout(f"injected timeout, {what} happened")
            raise StoreUnavailable(f"injected failure after {what}")
        return result


class UnreliableBlob:
    """A `Blob` whose calls suffer `faults`."""

    def __init__(self, inner: Blob, faults: Faults) -> None:
        self.inner = inner
        self.faults = faults

    async def get(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        """See `Blob.get`."""
        return await self.faults.call(f"get {key}", lambda: self.inner.get(key, byte_range), writes=False)

    async def size(self, key: str) -> int | None:
        """See `Blob.size`."""
        return await self.faults.call(f"size {key}", lambda: self.inner.size(key), writes=False)

    async def put(self, key: str, data: bytes) -> None:
        """See `Blob.put`."""
        await self.faults.call(f"put {key}", lambda: self.inner.put(key, data), writes=True)

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See `Blob.put_if_absent`."""
        return await self.faults.call(f"put_if_absent {key}", lambda: self.inner.put_if_absent(key, data), writes=True)

    async def make_durable(self, key: str) -> int | None:
        """See `Blob.make_durable`."""
        return await self.faults.call(f"make durable {key}", lambda: self.inner.make_durable(key), writes=True)

    async def delete(self, key: str) -> bool:
        """See `Blob.delete`."""
        return await self.faults.call(f"delete {key}", lambda: self.inner.delete(key), writes=True)

    async def list(self, prefix: str = "") -> AsyncIterator[BlobEntry]:
        """See `Blob.list`; fails, if it does, before the first entry."""

        async def begin() -> None:
            return None

        await self.faults.call(f"list {prefix}", begin, writes=False)
        async for entry in self.inner.list(prefix):
            yield entry

    def uri(self, key: str) -> str:
        """See `Blob.uri`."""
        return self.inner.uri(key)

    async def close(self) -> None:
        """See `Blob.close`; never fails."""
        await self.inner.close()


class UnreliableConsensus:
    """A `Consensus` whose calls suffer `faults`. `watch` may also return late, but never fails."""

    def __init__(self, inner: Consensus, faults: Faults) -> None:
        self.inner = inner
        self.faults = faults

    async def head(self, key: str) -> VersionedData | None:
        """See `Consensus.head`."""
        return await self.faults.call(f"head {key}", lambda: self.inner.head(key), writes=False)

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        """See `Consensus.compare_and_set`."""
        return await self.faults.call(
            f"compare_and_set {key} to {new.seqno}",
            lambda: self.inner.compare_and_set(key, expected_seqno, new),
            writes=True,
        )

    async def scan(self, key: str, from_seqno: SeqNo, limit: int | None = None) -> list[VersionedData]:
        """See `Consensus.scan`."""
        return await self.faults.call(f"scan {key}", lambda: self.inner.scan(key, from_seqno, limit), writes=False)

    async def truncate(self, key: str, seqno: SeqNo) -> int:
        """See `Consensus.truncate`."""
        return await self.faults.call(f"truncate {key}", lambda: self.inner.truncate(key, seqno), writes=True)

    async def list_keys(self) -> list[str]:
        """See `Consensus.list_keys`."""
        return await self.faults.call("list_keys", self.inner.list_keys, writes=False)

    @property
    def is_low(self) -> bool:
        """See `Consensus.is_low`."""
        return self.inner.is_low

    async def watch(self, key: str, seqno: SeqNo) -> None:
        """See `Consensus.watch`."""
        await self.inner.watch(key, seqno)

    async def close(self) -> None:
        """See `Consensus.close`; never fails."""
        await self.inner.close()
