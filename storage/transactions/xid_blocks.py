"""Xids that are unique in an environment, and which of them run, in whatever process.

A register in the consensus store says which xids have been given out, by whom, and which run. While a process is alone
it reserves xids a block at a time and keeps to itself which of them run. When others join it gives the rest of its
block up and writes down what runs (`share`, before anybody else may begin); from then on every xid is drawn from the
register, one write for those drawn at one moment. So the xids of all processes are in the order of their drawing, and
what is below the register's end and does not run has ended:

    pg_snapshot(C)   xmax = the register's end
                     xip  = what runs and has not committed at or before C, and what committed after C

Commits are told by the txns shard, which keeps the CSNs of the newest ones by xid. SUBTLE: the register is read first
and the txns shard afterwards. An xid that was taken out of the register because it committed is then in what is read
of the txns shard.

That a transaction has ended without a commit reaches the register with the next draw of its process, or with its
keep-alive; until then others take it for running, which changes nothing that they can see of it. The xids of a process
without a lease have ended: it cannot commit any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from storage.clock import Clock
from storage.durable.registers import Register, decode_register
from storage.stores.consensus import Consensus
from storage.stores.round_trips import RoundTrips
from storage.timestamps.csn import Csn
from storage.transactions.xids import FIRST_NORMAL_XID, PgSnapshot, Xid

XID_KEY = "oracle/xid"
WHAT = "the reservation of xids"
BLOCK_XIDS = 4096
"""Xids reserved by one durable write of a process that is alone; at most so many are skipped by a crash."""

SHARED_BLOCK_XIDS = 256
"""Xids that one process draws one after the other from the register and that are remembered as one block."""

MAX_BLOCKS = 512
"""Reservations whose owners are remembered, so that one can say what became of their xids."""


class XidBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Xids from `start` to `end` (exclusive) belong to `process`, which drew none of them before CSN `csn`."""

    start: int
    end: int
    process: str
    csn: Csn


class _Xids(msgspec.Struct, frozen=True, kw_only=True):
    """What the consensus store keeps: xids below `end` are reserved; the newest reservations; the xids that run, of the
    processes that share the register."""

    end: int
    blocks: tuple[XidBlock, ...] = ()
    running: dict[str, tuple[int, ...]] = {}


NONE_GIVEN_OUT = _Xids(end=FIRST_NORMAL_XID)


class RunningXids(Struct, frozen=True, kw_only=True):
    """Xids below `end` have been given out; which of them run, by process."""

    end: Xid
    running: Mapping[str, Collection[int]]


class _Own(Struct):
    """This process's xids: those that run, and those that ended without anybody knowing how."""

    running: set[int] = field(default_factory=set)
    in_doubt: set[int] = field(default_factory=set)
    unsettled: bool = False
    """Whether the register names some that have ended."""


class XidBlocks:
    """The xids of one process. Belongs to one event loop.

    `process` names it; `upper` is the lowest CSN that can still be committed at; `leases` are the processes that this
    one knows of, and `refresh` brings them up to date. `shared`: other processes draw from the register too.
    """

    def __init__(
        self,
        consensus: Consensus,
        clock: Clock,
        process: str = "",
        upper: Callable[[], Csn] = lambda: Csn(0),
        leases: Callable[[], Collection[str]] = lambda: (),
        refresh: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._register = Register(consensus, clock, XID_KEY, WHAT, _decode)
        self._process = process
        self._upper = upper
        self._leases = leases
        self._refresh = refresh
        self._next = 0
        self._end = 0
        self._known_end: int | None = None
        self._reserved_from: int | None = None
        """While a block is being reserved: where it begins. The register may end above it already, but none of its xids
        has been drawn."""
        self._own = _Own()
        self._reserving = asyncio.Lock()
        self._draws: RoundTrips[None, Xid] = RoundTrips(self._draw_shared)
        self.shared = False

    async def draw(self) -> Xid:
        """An xid above every one drawn here before, and above all others of a register that is shared. It runs until
        `ended`."""
        while not self.shared:
            if self._next < self._end:
                return self._take()
            async with self._reserving:
                if not self.shared:
                    return await self._from_block()
        return await self._draws.ask(None)

    def ended(self, xid: int, *, in_doubt: bool = False) -> None:
        """Note that the transaction `xid` is over. `in_doubt`: it may yet turn out to have committed."""
        if xid in self._own.running:
            self._own.running.discard(xid)
            self._own.unsettled = True
            if in_doubt:
                self._own.in_doubt.add(xid)

    async def share(self) -> None:
        """Give up the rest of the block and write down what runs, before others may draw. Raises as the store does."""
        async with self._reserving:
            self.shared = True
            self._next = self._end = 0
            self._known_end = None
            await self._change(lambda register: register)

    async def keep_to_itself(self) -> None:
        """Nobody else draws any more."""
        async with self._reserving:
            self._known_end = (await self._read()).end
            self.shared = False

    async def settle(self) -> None:
        """Take what has ended out of the register; what was in doubt too.

        After a write of this process to the txns shard, so that an attempt to commit whose answer was lost comes too
        late.
        """
        if self._own.in_doubt:
            self._own.in_doubt.clear()
            self._own.unsettled = True
        if self.shared and self._own.unsettled:
            await self._change(lambda register: register)

    async def look(self) -> RunningXids:
        """Which xids run: of this process as of now, of the others by the register. One read, or none when alone."""
        if not self.shared and self._known_end is not None:
            end = self._next if self._next < self._end else self._known_end
            return RunningXids(end=Xid(end), running={self._process: frozenset(self._own.running | self._own.in_doubt)})
        register = await self._read()
        # NOTE: after the read. What was drawn while it was under way may be below its end.
        own = frozenset(self._own.running | self._own.in_doubt)
        end = self._next if self._next < self._end == register.end else register.end
        if self._reserved_from is not None:
            end = min(end, self._reserved_from)
        return RunningXids(end=Xid(end), running={**register.running, self._process: own})

    async def block_of(self, xid: int) -> XidBlock | None:
        """The reservation that `xid` belongs to; None when it is too old to be known.

        Raises ValueError for an xid that has not been reserved yet.
        """
        register = await self._read()
        if xid >= register.end:
            raise ValueError(f"xid {xid} is in the future")
        return next((block for block in register.blocks if block.start <= xid < block.end), None)

    async def is_over(self, xid: int, process: str) -> bool:
        """Whether `xid`, which the live `process` drew, does not run any more, as far as the register tells."""
        running = (await self._read()).running.get(process)
        return running is not None and xid not in running

    # ------------------------------------------------------------ the register

    def _take(self) -> Xid:
        xid = Xid(self._next)
        self._next += 1
        self._own.running.add(xid)
        return xid

    async def _from_block(self) -> Xid:
        """The next xid of a process that is alone; `_reserving` is held."""
        if self._next >= self._end:
            await self._reserve_block()
        return self._take()

    async def _reserve_block(self) -> None:
        def extend(register: _Xids) -> _Xids:
            start, end = register.end, register.end + BLOCK_XIDS
            self._reserved_from = start
            block = XidBlock(start=start, end=end, process=self._process, csn=self._upper())
            return msgspec.structs.replace(register, end=end, blocks=(*register.blocks, block)[-MAX_BLOCKS:])

        try:
            self._end = self._known_end = (await self._change(extend)).end
            self._next = self._end - BLOCK_XIDS
        finally:
            self._reserved_from = None

    async def _draw_shared(self, requests: Sequence[None]) -> Sequence[Xid]:
        count = len(requests)
        drawn: set[int] = set()

        def extend(register: _Xids) -> _Xids:
            # NOTE: of an attempt whose outcome is not known some xids may stay behind, below the end and not running.
            start, end = register.end, register.end + count
            self._own.running -= drawn
            drawn.clear()
            drawn.update(range(start, end))
            self._own.running |= drawn
            last = register.blocks[-1] if register.blocks else None
            continues = last is not None and last.process == self._process and last.end == start
            if last is not None and continues and end - last.start <= SHARED_BLOCK_XIDS:
                grown = msgspec.structs.replace(last, end=end)
                return msgspec.structs.replace(register, end=end, blocks=(*register.blocks[:-1], grown))
            block = XidBlock(start=start, end=end, process=self._process, csn=self._upper())
            return msgspec.structs.replace(register, end=end, blocks=(*register.blocks, block)[-MAX_BLOCKS:])

        async with self._reserving:
            if not self.shared:
                # SUBTLE: asked for while others drew too, served once they have left. The register now ends above the
                # block that has been reserved since, and an xid from there would be above the end that `look` tells.
                return [await self._from_block() for _ in requests]
            try:
                await self._change(extend)
            except BaseException:
                self._own.running -= drawn
                raise
        return [Xid(xid) for xid in sorted(drawn)]

    async def _read(self) -> _Xids:
        return await self._register.read() or NONE_GIVEN_OUT

    async def _change(self, change: Callable[[_Xids], _Xids]) -> _Xids:
        """Write the register anew, with what runs here. Raises Determinate or Indeterminate when it cannot be."""

        async def propose(xids: _Xids | None) -> _Xids:
            return await self._with_running(change(xids or NONE_GIVEN_OUT))

        try:
            return await self._register.change(propose)
        except BaseException:
            self._own.unsettled = True
            raise

    async def _with_running(self, register: _Xids) -> _Xids:
        """`register` with what runs here, and without processes that are gone."""
        others = [name for name in register.running if name != self._process]
        if self._refresh is not None and any(name not in self._leases() for name in others):
            # NOTE: after the register was read. Who is in it had its lease before.
            await self._refresh()
            others = [name for name in others if name in self._leases()]
        running = {name: register.running[name] for name in others}
        if self.shared:
            running[self._process] = tuple(sorted(self._own.running | self._own.in_doubt))
            self._own.unsettled = False
        return msgspec.structs.replace(register, running=running)


def pg_snapshot(look: RunningXids, csn: Csn, committed: Mapping[int, Csn], alive: Collection[str]) -> PgSnapshot:
    """PostgreSQL's form of a snapshot at `csn`.

    `committed`: CSNs by xid, from the txns shard as it was after `look`; every commit above `csn` is among them.
    `alive`: the processes that have a lease.
    """
    runs = {xid for process, xids in look.running.items() if process in alive for xid in xids}
    open_ = {xid for xid in runs if committed.get(xid, csn + 1) > csn}
    open_ |= {xid for xid, at in committed.items() if at > csn and xid < look.end}
    xip = tuple(Xid(xid) for xid in sorted(open_) if xid < look.end)
    return PgSnapshot(xmin=xip[0] if xip else look.end, xmax=look.end, xip=xip)


def _decode(data: bytes) -> _Xids:
    # The first versions wrote the end alone.
    return _Xids(end=int(data)) if data.isdigit() else decode_register(data, _Xids, WHAT)
