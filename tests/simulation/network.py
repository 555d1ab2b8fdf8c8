"""The two primitives behind a simulated network.

A call is a message to the store and one back. Both take a drawn time, and either may be lost: then the caller
gets an error, determinate if it can know that nothing happened. A message under way belongs to nobody: it arrives
even when its sender has been killed meanwhile, as it would in a real network.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from storage.doubles.clock import SeededRandomness
from storage.errors import StorageError, StoreTimeout, StoreUnavailable
from storage.stores.blob import Blob, BlobEntry, ByteRange
from storage.stores.consensus import Consensus, SeqNo, VersionedData
from tests.simulation.loop import NETWORK, SimulatedLoop, current_process

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the network does to a message: probabilities, and delays in seconds."""

    fail_before: float = 0.0
    unknown_before: float = 0.0
    unknown_after: float = 0.0
    slow: float = 0.0
    min_delay_s: float = 0.0005
    max_delay_s: float = 0.005
    max_slow_delay_s: float = 2.0


CALM = Conditions()
STORMY = Conditions(fail_before=0.03, unknown_before=0.02, unknown_after=0.03, slow=0.02)


class Network:
    """Carries messages under `conditions`, which may change at any time."""

    def __init__(self, loop: SimulatedLoop, seed: int, conditions: Conditions = CALM) -> None:
        self.loop = loop
        self.conditions = conditions
        self.faults = 0
        self._randomness = SeededRandomness(seed)
        self._context = contextvars.copy_context()
        """Whose messages are under way: nobody's."""
        self._context.run(current_process.set, NETWORK)

    def _delay_s(self) -> float:
        drawn = self._randomness.random()
        conditions = self.conditions
        if self._randomness.random() < conditions.slow:
            return drawn * conditions.max_slow_delay_s
        return conditions.min_delay_s + drawn * (conditions.max_delay_s - conditions.min_delay_s)

    async def call(self, what: str, operation: Callable[[], Awaitable[_T]], *, writes: bool) -> _T:
        """Carry out `operation` at the store and bring its result back, if the network lets it."""
        answer: asyncio.Future[_T] = self.loop.create_future()
        message = f"{current_process.get().name} {what}"
        conditions, draw = self.conditions, self._randomness.random()

        def arrive() -> None:
            error: StorageError | None = None
            result: _T | None = None
            if draw < conditions.fail_before:
                error = StoreUnavailable(f"{message}: refused")
            elif draw < conditions.fail_before + conditions.unknown_before:
                lost = StoreTimeout if writes else StoreUnavailable
                error = lost(f"{message}: lost on the way")
            else:
                try:
                    result = _at_once(operation())
                except StorageError as raised:
                    error = raised
                if draw >= 1.0 - conditions.unknown_after:
                    lost = StoreTimeout if writes else StoreUnavailable
                    error = lost(f"{message}: answer lost")
            if error is not None:
                self.faults += 1
            self.loop.note(f"store {message} -> {error or _brief(result)}")
            self.loop.call_later(self._delay_s(), bring_back, result, error, context=self._context)

        def bring_back(result: _T | None, error: StorageError | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]

        self.loop.call_later(self._delay_s(), arrive, context=self._context)
        return await answer


def _at_once(operation: Awaitable[_T]) -> _T:
    """The result of an operation of a store in memory, which never waits."""
    steps = operation.__await__()
    try:
        next(steps)
    except StopIteration as done:
        value: _T = done.value
        return value
    raise RuntimeError("a store in memory has nothing to wait for")


class NetworkBlob:
    """A process's connection to the shared `Blob`."""

    def __init__(self, inner: Blob, network: Network) -> None:
        self._inner = inner
        self._network = network

    async def get(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        """See `Blob.get`."""
        return await self._network.call(f"get {key}", lambda: self._inner.get(key, byte_range), writes=False)

    async def size(self, key: str) -> int | None:
        """See `Blob.size`."""
        return await self._network.call(f"size {key}", lambda: self._inner.size(key), writes=False)

    async def put(self, key: str, data: bytes) -> None:
        """See `Blob.put`."""
        await self._network.call(f"put {key}", lambda: self._inner.put(key, data), writes=True)

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See `Blob.put_if_absent`."""
        return await self._network.call(
            f"put_if_absent {key}", lambda: self._inner.put_if_absent(key, data), writes=True
        )

    async def make_durable(self, key: str) -> int | None:
        """See `Blob.make_durable`."""
        return await self._network.call(f"make durable {key}", lambda: self._inner.make_durable(key), writes=True)

    async def delete(self, key: str) -> bool:
        """See `Blob.delete`."""
        return await self._network.call(f"delete {key}", lambda: self._inner.delete(key), writes=True)

    async def list(self, prefix: str = "") -> AsyncIterator[BlobEntry]:
        """See `Blob.list`."""

        async def entries() -> tuple[BlobEntry, ...]:
            return tuple([entry async for entry in self._inner.list(prefix)])

        for entry in await self._network.call(f"list {prefix}", entries, writes=False):
            yield entry

    def uri(self, key: str) -> str:
        """See `Blob.uri`."""
        return self._inner.uri(key)

    async def close(self) -> None:
        """The shared store stays."""


class NetworkConsensus:
    """A process's connection to the shared `Consensus`."""

    def __init__(self, inner: Consensus, network: Network) -> None:
        self._inner = inner
        self._network = network

    async def head(self, key: str) -> VersionedData | None:
        """See `Consensus.head`."""
        return await self._network.call(f"head {key}", lambda: self._inner.head(key), writes=False)

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        """See `Consensus.compare_and_set`."""
        return await self._network.call(
            f"compare_and_set {key} {new.seqno}",
            lambda: self._inner.compare_and_set(key, expected_seqno, new),
            writes=True,
        )

    async def scan(self, key: str, from_seqno: SeqNo, limit: int | None = None) -> list[VersionedData]:
        """See `Consensus.scan`."""
        return await self._network.call(
            f"scan {key} {from_seqno}", lambda: self._inner.scan(key, from_seqno, limit), writes=False
        )

    async def truncate(self, key: str, seqno: SeqNo) -> int:
        """See `Consensus.truncate`."""
        return await self._network.call(
            f"truncate {key} {seqno}", lambda: self._inner.truncate(key, seqno), writes=True
        )

    async def list_keys(self) -> list[str]:
        """See `Consensus.list_keys`."""
        return await self._network.call("list_keys", self._inner.list_keys, writes=False)

    @property
    def is_low(self) -> bool:
        """See `Consensus.is_low`."""
        return self._inner.is_low

    async def watch(self, key: str, seqno: SeqNo) -> None:
        """See `Consensus.watch`."""
        await self._inner.watch(key, seqno)
        await asyncio.sleep(self._network.conditions.min_delay_s)

    async def close(self) -> None:
        """The shared store stays."""


def _brief(result: object) -> str:
    match result:
        case bytes():
            return f"{len(result)} bytes"
        case VersionedData():
            return f"seqno {result.seqno}, {len(result.data)} bytes"
        case list() | tuple():
            return f"{len(result)} items"
        case _:
            return repr(result)
