"""A store that can be held up, fail, and lose answers."""

from __future__ import annotations

import asyncio

from storage.doubles.memory_consensus import MemoryConsensus
from storage.errors import Indeterminate, StoreFull
from storage.stores.consensus import SeqNo, VersionedData


class Stalling(MemoryConsensus):
    """A store whose writes wait while `gate` is closed, and fail while `failing`."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.failing = 0
        self.lost_answers = 0

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        """See `Consensus.compare_and_set`."""
        await self.gate.wait()
        if self.failing:
            self.failing -= 1
            raise StoreFull("the disk is full")
        done = await super().compare_and_set(key, expected_seqno, new)
        if self.lost_answers:
            self.lost_answers -= 1
            raise Indeterminate("the answer was lost")
        return done


class NobodyElse:
    """`Liveness` of the only process there is."""

    def announce(self, process: str) -> None:
        """Nobody to tell."""

    def is_dead(self, process: str) -> bool:
        """Nobody has died."""
        return False
