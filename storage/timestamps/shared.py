"""The CSN oracles that several server processes of one environment share.

`ConsensusOracle` is the reference: a row per timeline in the consensus store holds the highest CSN issued and the
highest published; every call is a round trip on that row, and the concurrent calls of a process share one.

`TxnsOracle` rides on the txns shard, which every commit passes anyway. Its `write_ts` is a *proposal*,
max(clock, known upper), made without I/O and allocated by the commit's own compare-and-set, which refuses it when
the upper has passed; its `read_ts` is the txns shard's head, read by a round trip that the concurrent readers of a
process share. Since commits become durable and visible in the order of that one register, nothing is left to
publish: a commit costs one round trip in a cluster too.

A crash of a process leaves CSNs issued and never used, which is harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

from storage.clock import Clock
from storage.durable.registers import Register, decode_register
from storage.errors import NewerFormat
from storage.stores.consensus import Consensus
from storage.stores.round_trips import RoundTrips
from storage.timestamps.csn import Csn
from storage.timestamps.hlc import HybridLogicalClock
from storage.timestamps.oracle import TIMELINES, Timeline
from storage.timestamps.visibility import PublishQueue

ROW_FORMAT = 1


class TxnsFrontier(Struct, frozen=True, kw_only=True):
    """How far the txns shard has come: its upper, and the CSN of the catalog's latest write below it."""

    upper: Csn
    catalog: Csn

    def read_ts(self, timeline: Timeline) -> Csn:
        """The newest readable CSN of `timeline`."""
        return self.catalog if timeline == "catalog" else Csn(max(0, self.upper - 1))


class TxnsHead(Protocol):
    """What `TxnsOracle` needs of the txns shard."""

    @property
    def is_told(self) -> bool:
        """Whether this process hears by itself, without asking the store, of all that is acknowledged."""
        ...

    @property
    def is_current(self) -> bool:
        """Whether `known` is known, without I/O, to have all that was acknowledged before the question."""
        ...

    def known(self) -> TxnsFrontier:
        """The frontier last learnt, without I/O; never goes back."""
        ...

    async def refresh(self) -> TxnsFrontier:
        """The frontier as of some moment after the call began: one round trip to the consensus store."""
        ...


class TxnsOracle:
    """`Oracle` that rides on the txns shard."""

    def __init__(self, head: TxnsHead, clock: Clock) -> None:
        self._head = head
        self._hlc = HybridLogicalClock(clock)
        self._reads: RoundTrips[Timeline, Csn] = RoundTrips(self._serve_reads)

    @property
    def round_trips(self) -> int:
        """How often the head was read."""
        return self._reads.trips

    @property
    def asks_store(self) -> bool:
        """Whether a read timestamp always costs a question to the store."""
        return not self._head.is_told

    async def read_ts(self, timeline: Timeline) -> Csn:
        """See `Oracle.read_ts`."""
        if self._head.is_current:
            return self._head.known().read_ts(timeline)
        return await self._reads.ask(timeline)

    async def write_ts(self, timeline: Timeline) -> Csn:
        """A proposal at or above the known upper. The commit's compare-and-set decides whether it holds."""
        self._hlc.observe(Csn(self._head.known().upper - 1))
        return self._hlc.tick()

    async def apply_write(self, timeline: Timeline, ts: Csn, *, wait: bool = True) -> None:
        """See `Oracle.apply_write`: the compare-and-set that allocated `ts` has published it already."""
        self._hlc.observe(ts)

    def abandon_write(self, timeline: Timeline, ts: Csn) -> None:
        """See `Oracle.abandon_write`: a proposal that was not allocated leaves nothing behind."""

    def observe(self, ts: Csn) -> None:
        """See `Oracle.observe`."""
        self._hlc.observe(ts)

    async def close(self) -> None:
        """See `Oracle.close`."""
        await self._reads.close()

    async def _serve_reads(self, timelines: Sequence[Timeline]) -> Sequence[Csn]:
        frontier = await self._head.refresh()
        return [frontier.read_ts(timeline) for timeline in timelines]


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """One timeline: CSNs up to `issued` have been given out, and commits up to `published` are visible."""

    format: int
    issued: int
    published: int


EMPTY_ROW = _Row(format=ROW_FORMAT, issued=0, published=0)


class _Read(msgspec.Struct, frozen=True):
    """Ask for the published CSN."""


class _Write(msgspec.Struct, frozen=True):
    """Ask for a CSN to write at."""


class _Apply(msgspec.Struct, frozen=True):
    """Publish up to `ts`."""

    ts: Csn


_Request: TypeAlias = _Read | _Write | _Apply


class _TimelineRow:
    """The row of one timeline: serves batches of requests, each batch with one round trip if nobody interferes."""

    def __init__(self, timeline: Timeline, consensus: Consensus, clock: Clock, hlc: HybridLogicalClock) -> None:
        what = f"the oracle's row of timeline {timeline}"
        self._register = Register(consensus, clock, f"oracle/{timeline}", what, lambda data: _decode(what, data))
        self._hlc = hlc
        self.trips: RoundTrips[_Request, Csn] = RoundTrips(self._serve)

    async def _serve(self, requests: Sequence[_Request]) -> Sequence[Csn]:
        writes = sum(isinstance(request, _Write) for request in requests)
        applied = max((request.ts for request in requests if isinstance(request, _Apply)), default=Csn(0))
        if not writes and not applied:
            read = await self._register.read() or EMPTY_ROW
            return [Csn(read.published)] * len(requests)
        issued: list[Csn] = []

        async def serve(row: _Row | None) -> _Row:
            # NOTE: may be made again after a write whose outcome is not known. CSNs that nobody got are skipped, and
            # publishing is idempotent.
            row = row or EMPTY_ROW
            published = max(row.published, applied)
            self._hlc.observe(Csn(max(row.issued, published)))
            issued[:] = [self._hlc.tick() for _ in range(writes)]
            return _Row(format=ROW_FORMAT, issued=max([row.issued, published, *issued]), published=published)

        published = (await self._register.change(serve, from_seen=True)).published
        remaining = iter(issued)
        return [next(remaining) if isinstance(request, _Write) else Csn(published) for request in requests]


class ConsensusOracle:
    """`Oracle` in the consensus store: a row per timeline."""

    def __init__(self, consensus: Consensus, clock: Clock) -> None:
        self._hlc = HybridLogicalClock(clock)
        self._rows = {timeline: _TimelineRow(timeline, consensus, clock, self._hlc) for timeline in TIMELINES}
        self._queues = {timeline: PublishQueue(Csn(0)) for timeline in TIMELINES}
        self._publishing: set[asyncio.Task[Csn]] = set()

    @property
    def round_trips(self) -> int:
        """How many batches were served."""
        return sum(row.trips.trips for row in self._rows.values())

    async def read_ts(self, timeline: Timeline) -> Csn:
        """See `Oracle.read_ts`."""
        return await self._rows[timeline].trips.ask(_Read())

    async def write_ts(self, timeline: Timeline) -> Csn:
        """See `Oracle.write_ts`."""
        queue = self._queues[timeline]
        while True:
            ts = await self._rows[timeline].trips.ask(_Write())
            if ts > queue.visible:
                break
            # A higher commit, made with a CSN of the other timeline, became visible in the meantime.
            self._hlc.observe(queue.visible)
        queue.acquire(ts)
        return ts

    async def apply_write(self, timeline: Timeline, ts: Csn, *, wait: bool = True) -> None:
        """See `Oracle.apply_write`: in CSN order within the process, then in the row for all of them."""
        self._hlc.observe(ts)
        queue = self._queues[timeline]
        waiter = queue.publish(ts)
        if waiter is not None and wait:
            await waiter
        publishing = asyncio.get_running_loop().create_task(self._publish(timeline, ts, waiter))
        self._publishing.add(publishing)
        publishing.add_done_callback(self._published)
        if wait:
            await asyncio.shield(publishing)

    def abandon_write(self, timeline: Timeline, ts: Csn) -> None:
        """See `Oracle.abandon_write`."""
        self._queues[timeline].abandon(ts)

    def observe(self, ts: Csn) -> None:
        """See `Oracle.observe`."""
        self._hlc.observe(ts)

    async def close(self) -> None:
        """See `Oracle.close`; waits for what is being published."""
        if self._publishing:
            await asyncio.wait(self._publishing)
        for row in self._rows.values():
            await row.trips.close()

    async def _publish(self, timeline: Timeline, ts: Csn, waiter: asyncio.Future[None] | None) -> Csn:
        if waiter is not None:
            await waiter
        return await self._rows[timeline].trips.ask(_Apply(ts))

    def _published(self, task: asyncio.Task[Csn]) -> None:
        self._publishing.discard(task)
        if not task.cancelled():
            # Taken note of, so that a failure nobody waits for is not reported as lost: the commit itself is
            # durable, and the next one publishes it too.
            task.exception()


def _decode(what: str, data: bytes) -> _Row:
    row = decode_register(data, _Row, what)
    if row.format > ROW_FORMAT:
        raise NewerFormat(f"{what} has format {row.format}; this version knows {ROW_FORMAT}")
    return row
