"""Consensus in this process's memory: for tests and simulations; several simulated processes share one."""

from __future__ import annotations

from storage.stores.consensus import SeqNo, VersionedData, check_key, check_set, check_truncate
from storage.stores.watchers import Watchers


class MemoryConsensus:
    """`Consensus` in dictionaries. Every operation takes effect at once, without yielding to other tasks."""

    is_low = False
    """See `Consensus.is_low`."""

    def __init__(self) -> None:
        self._diffs: dict[str, list[VersionedData]] = {}
        self._watchers = Watchers()

    async def head(self, key: str) -> VersionedData | None:
        """See `Consensus.head`."""
        check_key(key)
        diffs = self._diffs.get(key)
        return diffs[-1] if diffs else None

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        """See `Consensus.compare_and_set`."""
        check_set(key, expected_seqno, new)
        diffs = self._diffs.get(key)
        current = diffs[-1].seqno if diffs else None
        if current != expected_seqno:
            return False
        self._diffs.setdefault(key, []).append(new)
        self._watchers.moved(key, new.seqno)
        return True

    async def scan(self, key: str, from_seqno: SeqNo, limit: int | None = None) -> list[VersionedData]:
        """See `Consensus.scan`."""
        check_key(key)
        diffs = self._diffs.get(key)
        if not diffs:
            return []
        start = max(0, from_seqno - diffs[0].seqno)
        return diffs[start:] if limit is None else diffs[start : start + limit]

    async def truncate(self, key: str, seqno: SeqNo) -> int:
        """See `Consensus.truncate`."""
        check_key(key)
        diffs = self._diffs.get(key, [])
        check_truncate(key, seqno, diffs[-1].seqno if diffs else None)
        removed = max(0, seqno - diffs[0].seqno)
        del diffs[:removed]
        return removed

    async def list_keys(self) -> list[str]:
        """See `Consensus.list_keys`."""
        return sorted(self._diffs)

    async def watch(self, key: str, seqno: SeqNo) -> None:
        """See `Consensus.watch`."""
        check_key(key)
        await self._watchers.wait(key, seqno)

    async def close(self) -> None:
        """Nothing to release; the values stay, as they would on a disk."""
