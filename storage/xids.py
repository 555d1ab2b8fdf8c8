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

Xids are unique across the processes of an environment: each process draws them from blocks that it reserves in
the consensus store. The map is of this process's own transactions: those of others count as finished when below
its xmin and as not begun when above its xmax. Not thread-safe: an `XidMap` belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NewType

import msgspec

from storage.clock import Clock
from storage.consensus import Consensus, SeqNo, VersionedData
from storage.csn import Csn
from storage.errors import CorruptState, Determinate, Indeterminate

Xid = NewType("Xid", int)

FIRST_NORMAL_XID = Xid(3)
"""PostgreSQL's FirstNormalTransactionId; smaller ones have special meanings."""

RING_SLOTS = 1 << 16
XID_KEY = "oracle/xid"
BLOCK_XIDS = 4096
"""Xids reserved by one durable write; at most so many are skipped by a crash."""

MAX_BLOCKS = 512
"""Reservations whose owners are remembered, so that one can say what became of their xids."""

MAX_ATTEMPTS = 10
RETRY_DELAY_S = 0.01
TRUNCATE_EVERY = 64

_RUNNING = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridSnapshot:
    """A snapshot in constant size; see the module."""

    xmin: Xid
    csn: Csn
    xmax: Xid


@dataclass(frozen=True, slots=True, kw_only=True)
class PgSnapshot:
    """PostgreSQL's pg_snapshot: what is below `xmin` has finished, `xip` and what is from `xmax` on has not."""

    xmin: Xid
    xmax: Xid
    xip: tuple[Xid, ...]

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.xip))}"

    def visible(self, xid: Xid) -> bool:
        """pg_visible_in_snapshot: whether `xid` had finished when the snapshot was taken."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.xip)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
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

    def commit(self, xid: Xid, csn: Csn) -> None:
        """Note that the running `xid` committed at `csn`; snapshots see it once `publish` has reached it."""
        self._finish(xid, csn, aborted=False)

    def abort(self, xid: Xid) -> None:
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

    def snapshot(self) -> HybridSnapshot:
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


class XidBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Xids from `start` to `end` (exclusive) belong to `process`, which drew none of them before CSN `csn`."""

    start: int
    end: int
    process: str
    csn: Csn


class _Register(msgspec.Struct, frozen=True, kw_only=True):
    """What the consensus store keeps: xids below `end` are reserved; the newest reservations."""

    end: int
    blocks: tuple[XidBlock, ...] = ()


class XidBlocks:
    """Draws xids that no other process of the environment draws, and knows who drew which.

    `process` names the owner of the blocks; `upper` is the lowest CSN that can still be committed at.
    """

    def __init__(
        self, consensus: Consensus, clock: Clock, process: str = "", upper: Callable[[], Csn] = lambda: Csn(0)
    ) -> None:
        self._consensus = consensus
        self._clock = clock
        self._process = process
        self._upper = upper
        self._next = 0
        self._end = 0
        self._reserving = asyncio.Lock()

    async def draw(self) -> Xid:
        """An xid above every one drawn here before; reserves a new block when this one is used up."""
        while self._next >= self._end:
            async with self._reserving:
                if self._next >= self._end:
                    await self._reserve()
        xid = Xid(self._next)
        self._next += 1
        return xid

    async def block_of(self, xid: int) -> XidBlock | None:
        """The reservation that `xid` belongs to; None when it is too old to be known.

        Raises ValueError for an xid that has not been reserved yet.
        """
        head = await self._consensus.head(XID_KEY)
        register = _Register(end=FIRST_NORMAL_XID) if head is None else _decode(head.data)
        if xid >= register.end:
            raise ValueError(f"xid {xid} is in the future")
        return next((block for block in register.blocks if block.start <= xid < block.end), None)

    async def _reserve(self) -> None:
        for attempt in range(MAX_ATTEMPTS):
            try:
                head = await self._consensus.head(XID_KEY)
                register = _Register(end=FIRST_NORMAL_XID) if head is None else _decode(head.data)
                seqno = SeqNo(1 if head is None else head.seqno + 1)
                start, end = register.end, register.end + BLOCK_XIDS
                block = XidBlock(start=start, end=end, process=self._process, csn=self._upper())
                after = _Register(end=end, blocks=(*register.blocks, block)[-MAX_BLOCKS:])
                new = VersionedData(seqno=seqno, data=msgspec.json.encode(after))
                if not await self._consensus.compare_and_set(XID_KEY, None if head is None else head.seqno, new):
                    continue
                if seqno % TRUNCATE_EVERY == 0:
                    await self._truncate(seqno)
            except (Determinate, Indeterminate):
                # A block whose reservation may have happened is skipped: nobody draws from it.
                if attempt == MAX_ATTEMPTS - 1:
                    raise
                await self._clock.sleep(RETRY_DELAY_S)
            else:
                self._next, self._end = start, end
                return
        raise Determinate("could not reserve transaction ids: other processes were always faster")

    async def _truncate(self, seqno: SeqNo) -> None:
        try:
            await self._consensus.truncate(XID_KEY, seqno)
        except (Determinate, Indeterminate):
            return  # Only room is at stake; a later reservation truncates.


def _decode(data: bytes) -> _Register:
    try:
        # Earlier versions wrote the end alone.
        return _Register(end=int(data)) if data.isdigit() else msgspec.json.decode(data, type=_Register)
    except msgspec.MsgspecError as error:
        raise CorruptState(f"the xid reservation cannot be read: {data[:40]!r}") from error
