"""Transaction ids and hybrid snapshots: PostgreSQL's view of transactions over CSNs.

A running transaction gets an *xid*, 64 bits, ascending. A ring buffer maps recent xids to what became of them;
those that are still running, or still matter to somebody, when the ring comes round move to a second level.
A snapshot is three numbers, taken in constant time however many sessions there are:

    HybridSnapshot(xmin=103, csn=C, xmax=110)
        xid < 103           finished, and visible if it committed
        xid >= 110          had not begun
        103 <= xid < 110    visible if and only if it committed at a CSN <= C

PostgreSQL's form ``xmin:xmax:xip_list`` is made from it only when asked, by scanning the map between xmin and
xmax. It is stable: a transaction that finishes later gets a finish CSN above every snapshot taken before, so it
stays in the list of those snapshots.

The map is of this process's own transactions; `storage.transactions.xid_blocks` gives out xids that are unique in the
environment, and knows what runs in its other processes. Not thread-safe: an `XidMap` belongs to one event loop.
"""

from __future__ import annotations

from typing import NewType

from msgspec import Struct

from storage.timestamps.csn import Csn

Xid = NewType("Xid", int)

FIRST_NORMAL_XID = Xid(3)
"""PostgreSQL's FirstNormalTransactionId; smaller ones have special meanings."""

RING_SLOTS = 1 << 16

_RUNNING = -1


class HybridSnapshot(Struct, frozen=True, kw_only=True):
    """A snapshot in constant size; see the module."""

    xmin: Xid
    csn: Csn
    xmax: Xid


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

    def __init__(self, *, first: Xid = FIRST_NORMAL_XID, visible: Csn = Csn(0), slots: int = RING_SLOTS) -> None:
        self._slots = slots
        self._ring_xid = [0] * slots
        self._ring_csn = [0] * slots
        self._ring_aborted = bytearray(slots)
        self._old: dict[Xid, tuple[int, bool]] = {}
        """The second level: xid to (finish CSN or _RUNNING, aborted)."""
        self._next = first
        self._oldest = first
        self._visible = visible
        self._horizon = visible

    @property
    def next_xid(self) -> Xid:
        """The xid that no transaction has had yet (PostgreSQL's nextXid)."""
        return self._next

    @property
    def second_level(self) -> int:
        """Transactions that outlived the ring."""
        return len(self._old)

    def begin(self, xid: Xid) -> None:
        """Note that `xid`, at or above `next_xid`, runs. Skipped xids count as finished."""
        if xid < self._next:
            raise ValueError(f"xid {xid} is not new; the next is {self._next}")
        if self._oldest == self._next:
            self._oldest = xid
        slot = xid % self._slots
        self._evict(slot)
        self._ring_xid[slot] = xid
        self._ring_csn[slot] = _RUNNING
        self._ring_aborted[slot] = 0
        self._next = Xid(xid + 1)

    def note_committed(self, xid: Xid, csn: Csn) -> None:
        """Note that the running `xid` committed at `csn`; snapshots see it once `publish` has reached it."""
        self._finish(xid, csn, aborted=False)

    def note_aborted(self, xid: Xid) -> None:
        """Note that the running `xid` aborted."""
        self._finish(xid, Csn(self._visible + 1), aborted=True)

    def forget(self, xid: Xid) -> None:
        """Drop the running `xid`, of which nobody here knows what became: it counts as never seen."""
        slot = xid % self._slots
        self._old.pop(xid, None)
        if self._ring_xid[slot] == xid:
            self._ring_xid[slot] = 0

    def publish(self, csn: Csn) -> None:
        """Let new snapshots see commits up to `csn`."""
        self._visible = max(self._visible, csn)

    def retain(self, horizon: Csn) -> None:
        """Allow forgetting what finished at or below `horizon`: no snapshot older than it is in use."""
        self._horizon = max(self._horizon, horizon)
        for xid, (csn, _) in list(self._old.items()):
            if csn != _RUNNING and csn <= self._horizon:
                del self._old[xid]

    def hybrid_snapshot(self) -> HybridSnapshot:
        """The snapshot of this moment. Its cost is constant, amortized over the transactions that finish."""
        while self._oldest < self._next and self._is_settled(self._oldest):
            self._oldest = Xid(self._oldest + 1)
        return HybridSnapshot(xmin=self._oldest, csn=self._visible, xmax=self._next)

    def to_postgres(self, snapshot: HybridSnapshot) -> PgSnapshot:
        """`snapshot` in PostgreSQL's form; costs a look at each xid between its xmin and xmax."""
        running = tuple(
            xid
            for xid in map(Xid, range(snapshot.xmin, snapshot.xmax))
            if (state := self._state(xid)) is not None and (state[0] == _RUNNING or state[0] > snapshot.csn)
        )
        return PgSnapshot(xmin=running[0] if running else snapshot.xmax, xmax=snapshot.xmax, xip=running)

    def is_running(self, xid: Xid) -> bool:
        """Whether `xid` runs in this process."""
        state = self._state(xid)
        return state is not None and state[0] == _RUNNING

    def finished(self, xid: Xid) -> Finished | None:
        """What became of `xid`; None while it runs, and when this process no longer (or never) knew it."""
        state = self._state(xid)
        if state is None or state[0] == _RUNNING:
            return None
        csn, aborted = state
        return Finished(committed_at=None if aborted else Csn(csn))

    def _state(self, xid: Xid) -> tuple[int, bool] | None:
        slot = xid % self._slots
        if self._ring_xid[slot] == xid:
            return self._ring_csn[slot], bool(self._ring_aborted[slot])
        return self._old.get(xid)

    def _is_settled(self, xid: Xid) -> bool:
        state = self._state(xid)
        return state is None or (state[0] != _RUNNING and state[0] <= self._visible)

    def _finish(self, xid: Xid, csn: Csn, *, aborted: bool) -> None:
        slot = xid % self._slots
        if self._ring_xid[slot] == xid and self._ring_csn[slot] == _RUNNING:
            self._ring_csn[slot] = csn
            self._ring_aborted[slot] = aborted
        elif xid in self._old and self._old[xid][0] == _RUNNING:
            self._old[xid] = (csn, aborted)
        else:
            raise ValueError(f"xid {xid} is not running")

    def _evict(self, slot: int) -> None:
        xid, csn = Xid(self._ring_xid[slot]), self._ring_csn[slot]
        if xid and (csn == _RUNNING or csn > self._horizon):
            self._old[xid] = (csn, bool(self._ring_aborted[slot]))
