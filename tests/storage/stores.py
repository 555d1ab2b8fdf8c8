"""Every implementation of the two primitives, by name, for the conformance suites."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from storage.blob import Blob
from storage.blob_local import LocalBlob
from storage.blob_memory import MemoryBlob
from storage.clock import SeededRandomness, SystemClock
from storage.consensus import Consensus
from storage.consensus_memory import MemoryConsensus
from storage.consensus_sqlite import SqliteConsensus
from storage.counting import CountingBlob, CountingConsensus
from storage.unreliable import NO_FAULTS, FaultRates, Faults, UnreliableBlob, UnreliableConsensus

BlobFactory = Callable[[], AbstractAsyncContextManager[Blob]]
"""Opens one more handle on the same objects, as another process would."""

ConsensusFactory = Callable[[], AbstractAsyncContextManager[Consensus]]


def faults(seed: int, rates: FaultRates = NO_FAULTS) -> Faults:
    """Faults drawn from `seed`, on the system's clock."""
    return Faults(rates=rates, randomness=SeededRandomness(seed), clock=SystemClock())


def blob_factory(name: str, folder: Path) -> BlobFactory:
    """The factory of the implementation `name`, which keeps its objects in `folder` if it keeps any."""
    shared = MemoryBlob(SystemClock())

    @contextlib.asynccontextmanager
    async def open_blob() -> AsyncIterator[Blob]:
        blob: Blob
        match name:
            case "memory":
                blob = shared
            case "local":
                blob = LocalBlob(folder)
            case "counting":
                blob = CountingBlob(shared)
            case "unreliable":
                blob = UnreliableBlob(shared, faults(1, FaultRates(late=0.5, max_delay_s=0.002)))
            case _:
                raise ValueError(name)
        try:
            yield blob
        finally:
            await blob.close()

    return open_blob


def consensus_factory(name: str, folder: Path) -> ConsensusFactory:
    """The factory of the implementation `name`, which keeps its values in `folder` if it keeps any."""
    shared = MemoryConsensus()

    @contextlib.asynccontextmanager
    async def open_consensus() -> AsyncIterator[Consensus]:
        consensus: Consensus
        match name:
            case "memory":
                consensus = shared
            case "sqlite":
                consensus = await SqliteConsensus.open(folder / "consensus.sqlite")
            case "counting":
                consensus = CountingConsensus(shared)
            case "unreliable":
                rates = FaultRates(late=0.5, max_delay_s=0.002)
                consensus = UnreliableConsensus(shared, faults(1, rates))
            case _:
                raise ValueError(name)
        try:
            yield consensus
        finally:
            await consensus.close()

    return open_consensus


BLOBS = ("memory", "local", "counting", "unreliable")
CONSENSUSES = ("memory", "sqlite", "counting", "unreliable")
