"""A process's lease on its environment, and the read holds that it keeps.

One lease per process, in the txns shard, renewed by one write per keep-alive interval however much is read. It
publishes the lowest CSN that the process may still read at (`read_lower`). So a read hold costs no write: it is
noted in memory, and the lease stays below it. Only a hold below what the lease protects already is written into
the shards themselves.

What lies above the lowest of all leases is not folded, in any shard. So that one old reader does not keep the history
of all, a hold that has an owner is moved into the shards which that has used, once it is old (`MOVE_AFTER_MS`). From
then on its owner has to hold whatever it reads besides.

SUBTLE: a lease is judged by the watcher's monotonic clock (no change for `LEASE_MS`) and by its owner's
(`safe`: renewed less than 0.8 of that ago). A process that was paused for longer therefore knows, before it relies
on its lease again, that it has to renew it; then it finds out whether it was deposed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from storage.clock import Clock
from storage.durable.state import Abandon
from storage.errors import AsOfNotReadable, EnvironmentFenced, HoldExpired, UnknownShard, not_readable
from storage.ids import ShardId
from storage.membership.watch import LEASE_MS, LeaseWatch
from storage.shards.shard_state import HOLD_MS, Hold, SetHold, ShardDiff, ShardState
from storage.timestamps.csn import Csn, csn_ms
from storage.transactions.shard_handles import ShardHandles
from storage.transactions.txns_shard import TxnsShard
from storage.transactions.txns_state import Lease
from storage.transactions.xid_blocks import XidBlocks

SAFE_SHARE = 0.8
"""The share of `LEASE_MS` for which a process trusts its own lease: room for clocks that run differently."""

HISTORY_MS = 2_000
"""History kept without any hold, so that a reader can take a timestamp first and the hold after it."""


MOVE_AFTER_MS = 60_000
"""How far behind the newest CSN a hold may be, in the CSNs' own time, before it is moved into the shards."""


class HoldOwner(Protocol):
    """Who reads at a CSN, without having said which shards."""

    def shards_used(self) -> Iterable[ShardId]:
        """The shards that it has read so far, or is about to read by a hold that has not `moved`."""
        ...


@dataclass(slots=True, eq=False)
class ReadHold:
    """Keeps `shards` readable at `at` while open. An async context manager; `release` is idempotent."""

    shards: frozenset[ShardId]
    at: Csn
    _holds: set[ReadHold] = field(repr=False)
    durable_name: str | None = None
    """Its name in the shards' own states, for a hold below what the process's lease protects."""
    owner: HoldOwner | None = None
    moved: bool = False
    """Whether it keeps no more than `shards`: its owner holds by itself what else it reads."""
    expired: bool = False
    released: bool = False

    def release(self) -> None:
        """Let the history go."""
        self.released = True
        if self.durable_name is None:
            self._holds.discard(self)

    def advance(self, at: Csn) -> None:
        """Let the history before `at` go. Raises ValueError when that is lower than it holds now."""
        if at < self.at:
            raise ValueError(f"a hold at {self.at} cannot go back to {at}")
        self.at = at

    async def __aenter__(self) -> ReadHold:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def check(self) -> None:
        """Raise HoldExpired when the lease ran out meanwhile, so that later reads at this CSN may fail.

        What was read is right: a part whose file is gone is an error, never a gap.
        """
        if self.expired:
            raise HoldExpired(f"the hold at {self.at} outlived its lease; its history may be gone")


class Leases:
    """The lease and the holds of one process."""

    def __init__(
        self,
        *,
        txns_shard: TxnsShard,
        handles: ShardHandles,
        watch: LeaseWatch,
        xids: XidBlocks,
        clock: Clock,
        process: str,
        host: str | None = None,
    ) -> None:
        self.host = host
        """As its lease says (`Lease.host`)."""
        self._txns_shard = txns_shard
        self._cache = txns_shard.cache
        self._handles = handles
        self._watch = watch
        self._xids = xids
        self._clock = clock
        self._process = process
        self.holds: set[ReadHold] = set()
        self.sole = False
        """Whether the lease tells others that this process does not ask the store for timestamps
        (`storage.membership.peers`)."""
        self._renewing = asyncio.Lock()
        self._beats = 0
        self._floor = Csn(0)
        self._deadline = 0.0
        self._named = 0
        self._marks: deque[tuple[float, Csn]] = deque()
        """Newest CSNs by monotonic time; the first is of at least `HISTORY_MS` ago, or of the start."""
        self.deposed = asyncio.Event()
        """Set once this process has learnt that the others took it for dead: it must stop."""
        self._deposed_by: EnvironmentFenced | None = None

    def note_deposed(self, error: EnvironmentFenced) -> bool:
        """Note that the others have deposed this process. Returns whether that is news."""
        if self._deposed_by is not None:
            return False
        self._deposed_by = error
        self.deposed.set()
        return True

    def check_not_deposed(self) -> None:
        """Raise EnvironmentFenced once this process is known to be deposed."""
        if self._deposed_by is not None:
            raise self._deposed_by

    def read_lower(self) -> Csn:
        """The lowest CSN that this process may still read at without holds in the shards."""
        held = min([self._history(), *(hold.at for hold in self.holds if hold.durable_name is None)])
        return max(held, self._floor)

    def is_dead(self, process: str) -> bool:
        """Whether `process` has certainly ended, though its lease may be there still."""
        return self._watch.is_dead(process)

    def since_limit(self) -> Csn:
        """The lowest CSN that any live process may read at, as far as this process knows."""
        leases = self._cache.state.leases
        others = [lease.read_lower for process, lease in leases.items() if process != self._process]
        return min([self.read_lower(), *others])

    def _history(self) -> Csn:
        """The newest CSN that was readable `HISTORY_MS` ago; no reader has a lower one and no hold yet.

        NOTE: by the monotonic clock. CSNs stand still for as long as a wall clock had jumped ahead.
        """
        now = self._clock.monotonic()
        self._marks.append((now, Csn(max(self._cache.upper - 1, 0))))
        while len(self._marks) > 1 and now - self._marks[1][0] >= HISTORY_MS / 1000:
            self._marks.popleft()
        return self._marks[0][1]

    async def claim(self) -> bool:
        """Renew the lease, as ``sole`` if it may be. Returns whether it is; `sole` says so from then on."""
        await self.renew(claim=True)
        return self.sole

    async def renew(self, *, claim: bool = False) -> None:
        """Renew the lease and retract what this process has applied, in one write. EnvironmentFenced when deposed."""
        # NOTE: one at a time. A renewal that began before a claim must not take it back.
        async with self._renewing:
            await self._renew(claim)

    async def keep_alive(self) -> None:
        """Renew the lease and retract what this process has applied, in one write; the xids that have ended leave
        their register."""
        await self.renew()
        await self._xids.settle()

    async def _renew(self, claim: bool) -> None:
        started = self._clock.monotonic()
        lapsed = self._beats > 0 and started > self._deadline
        # NOTE: before the write. A hold taken meanwhile must see that it will be too low for the lease.
        self._floor = self.read_lower()
        self._beats += 1
        sole = self.sole or claim
        lease = Lease(
            read_lower=self._floor, beats=self._beats, renewed_ms=self._clock.now_ms(), sole=sole, host=self.host
        )
        await self._txns_shard.tidy(lease=lease, joining=claim or self._beats == 1)
        if claim:
            self.sole = self._cache.state.leases[self._process].sole
        self._deadline = started + LEASE_MS * SAFE_SHARE / 1000
        if lapsed:
            # Nobody has deposed us, but others were free to; what the holds protected may be gone.
            for hold in [hold for hold in self.holds if hold.durable_name is None]:
                hold.expired = True
                self.holds.discard(hold)
        durable = [(hold.durable_name, hold) for hold in self.holds if hold.durable_name is not None]
        for _, hold in sorted(durable, key=lambda named: named[0]):
            for shard in sorted(hold.shards):
                try:
                    await self._write(shard, hold)
                except (AsOfNotReadable, UnknownShard):
                    # This process stood still for so long that the hold expired, and the history has gone; the lease
                    # is no worse for that.
                    hold.expired = hold.released = True
            if hold.released:
                self.holds.discard(hold)
        # NOTE: after the lease, which must not wait for it.
        await self._move_old()
        self._watch.observe()

    async def _move_old(self) -> None:
        """Move old holds from the lease into the shards that their owners have used."""
        newest_ms = csn_ms(self._cache.upper)
        for hold in tuple(self.holds):
            if hold.owner is None or hold.durable_name is not None or newest_ms - csn_ms(hold.at) < MOVE_AFTER_MS:
                continue
            # NOTE: in this order. What is read from here on is held by its reader; the lease keeps the others until
            # their shards do.
            hold.moved = True
            hold.shards |= frozenset(hold.owner.shards_used())
            self._named += 1
            name = f"{self._process}/{self._named}"
            until_ms = self._clock.now_ms() + HOLD_MS
            for shard in sorted(hold.shards):
                try:
                    await self._set_hold(shard, name, Hold(at=hold.at, expires_ms=until_ms, reason=self._process))
                except UnknownShard:
                    hold.shards -= {shard}  # It was made by a transaction that came to nothing.
            hold.durable_name = name
            if hold.released:
                # NOTE: it took itself for one that is not in the shards, and is renewed no more.
                self.holds.add(hold)

    async def ensure(self) -> None:
        """Return when this process can be sure that it has not been deposed; EnvironmentFenced when it was."""
        if self._clock.monotonic() > self._deadline:
            await self.renew()

    async def hold(self, shards: Iterable[ShardId], at: Csn, owner: HoldOwner | None = None) -> ReadHold:
        """Keep `shards` readable at `at` until the hold is released; with an `owner`, also what that uses, and all
        others for `MOVE_AFTER_MS`.

        Costs no write while `at` is at or above what this process's lease protects anyway; below, the hold is
        written into the shards. Raises AsOfNotReadable when the history there is gone.
        """
        hold = ReadHold(frozenset(shards), at, self.holds, owner=owner)
        # NOTE: registered before anything is awaited; from here on no renewal of the lease passes `at`.
        self.holds.add(hold)
        try:
            await self.ensure()
            if at < self._floor:
                # Others may already go past `at`; only the shards themselves can still stop them.
                self._named += 1
                hold.durable_name = f"{self._process}/{self._named}"
                for shard in sorted(hold.shards):
                    await self._write(shard, hold)
            for shard in hold.shards:
                known = self._handles.opened(shard)
                if known is not None and known.state.earliest > at:
                    raise not_readable(shard, at, known.state.earliest)
        except BaseException:
            hold.release()
            self.holds.discard(hold)
            raise
        return hold

    async def critical_hold(self, shard: ShardId, name: str, at: Csn) -> Hold:
        """Keep `shard` readable at `at` until `release_critical_hold`, across restarts. Renewing moves it.

        Raises AsOfNotReadable when the history there is gone.
        """
        hold = Hold(at=at, reason=name)
        await self._set_hold(shard, f"critical/{name}", hold)
        return hold

    async def release_critical_hold(self, shard: ShardId, name: str) -> None:
        """End the critical hold `name`. Idempotent."""
        await self._set_hold(shard, f"critical/{name}", None)

    async def _write(self, shard: ShardId, hold: ReadHold) -> None:
        """Install, renew or remove `hold` in the state of `shard`."""
        assert hold.durable_name is not None
        until_ms = self._clock.now_ms() + HOLD_MS
        value = None if hold.released else Hold(at=hold.at, expires_ms=until_ms, reason=self._process)
        await self._set_hold(shard, hold.durable_name, value)

    async def _set_hold(self, shard: ShardId, name: str, value: Hold | None) -> None:
        """Set the hold `name` in the state of `shard`. AsOfNotReadable when the history there is gone."""

        def propose(state: ShardState) -> ShardDiff | Abandon[Csn]:
            if value is not None and (value.at < state.earliest or state.dropped):
                return Abandon(state.upper if state.dropped else state.earliest)
            return ShardDiff((SetHold(name=name, hold=value),))

        handle = await self._handles.open(shard)
        result = await handle.durable.update(propose)
        if isinstance(result, Abandon) and value is not None:
            raise not_readable(shard, value.at, result.value)
