"""Transaction ids, PostgreSQL's form of a snapshot, and what became of this process's own transactions.

A transaction that asks for it gets an *xid*, 64 bits, ascending. `XidMap` is of this process's own transactions;
`storage.transactions.xid_blocks` gives out xids that are unique in the environment, knows what runs in its other
processes, and works PostgreSQL's form ``xmin:xmax:xip_list`` of a snapshot out when somebody asks for it. Not
thread-safe: an `XidMap` belongs to one event loop.
"""

from __future__ import annotations

from typing import NewType

from msgspec import Struct

from storage.bounded_map import BoundedMap
from storage.timestamps.csn import Csn

Xid = NewType("Xid", int)

FIRST_NORMAL_XID = Xid(3)
"""PostgreSQL's FirstNormalTransactionId; smaller ones have special meanings."""

REMEMBERED = 1 << 16
"""Transactions that have ended of which a process knows what became. Of others the txns shard is asked."""


class PgSnapshot(Struct, frozen=True, kw_only=True):
    """PostgreSQL's pg_snapshot: what is below `xmin` has finished, `xip` and what is from `xmax` on has not."""

    xmin: Xid
    xmax: Xid
    xip: tuple[Xid, ...]

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.xip))}"

    def visible(self, xid: Xid) -> bool:
        """pg_visible_in_snapshot: whether `xid` had finished when the snapshot was taken."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.xip)


class Finished(Struct, frozen=True, kw_only=True):
    """What became of a transaction: the CSN it committed at, None when it aborted."""

    committed_at: Csn | None


class XidMap:
    """What has become of the recent transactions of this process."""

    def __init__(self, *, remembered: int = REMEMBERED) -> None:
        self._running: set[Xid] = set()
        self._finished: BoundedMap[Xid, Finished] = BoundedMap(max_entries=remembered)

    def begin(self, xid: Xid) -> None:
        """Note that the new `xid` runs."""
        if xid in self._running or self._finished.get(xid) is not None:
            raise ValueError(f"xid {xid} is not new")
        self._running.add(xid)

    def note_committed(self, xid: Xid, csn: Csn) -> None:
        """Note that the running `xid` committed at `csn`."""
        self._finish(xid, Finished(committed_at=csn))

    def note_aborted(self, xid: Xid) -> None:
        """Note that the running `xid` aborted."""
        self._finish(xid, Finished(committed_at=None))

    def forget(self, xid: Xid) -> None:
        """Drop the running `xid`, of which nobody here knows what became: it counts as never seen."""
        self._running.discard(xid)

    def is_running(self, xid: Xid) -> bool:
        """Whether `xid` runs in this process."""
        return xid in self._running

    def finished(self, xid: Xid) -> Finished | None:
        """What became of `xid`; None while it runs, and when this process no longer (or never) knew it."""
        return self._finished.get(xid)

    def _finish(self, xid: Xid, outcome: Finished) -> None:
        if xid not in self._running:
            raise ValueError(f"xid {xid} is not running")
        self._running.remove(xid)
        self._finished.put(xid, outcome)
