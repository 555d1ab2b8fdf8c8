"""Atomic commits over any number of shards: the writing side of the txns shard.

- **commit**: one compare-and-set on the txns shard makes a whole transaction durable and advances the logical
  upper of every registered shard. The diff carries the parts themselves (inline) or pointers to their files.
- **apply**: copies committed writes into their data shards, in CSN order. Anybody may, any number of times.
- **tidy**: retracts what is applied, bundled into the next commit or keep-alive.

What a crash leaves: after a commit, unapplied writes, which the next process applies and which readers see
meanwhile; after an apply, writes to retract, which the next process finds applied.

SUBTLE: retraction may only follow application, and a data shard's physical upper may only pass a CSN when every
write of the shard up to it has been copied. `fill` therefore first waits for the txns upper and applies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from storage.durable.state import Abandon, DurableState
from storage.errors import (
    CatalogConflict,
    Determinate,
    EnvironmentFenced,
    NotPrepared,
    PreparedAlready,
    unknown_shard,
)
from storage.ids import CATALOG_SHARD, ShardId
from storage.shards.writes import PromisedPart, ShardWrites, Write
from storage.timestamps.csn import Csn
from storage.timestamps.oracle import Oracle, acquired
from storage.transactions.shard_handles import ShardHandles
from storage.transactions.txn import SealedTxn
from storage.transactions.txns_cache import TxnsCache
from storage.transactions.txns_state import (
    Applied,
    Lease,
    Prepared,
    RequireTransitions,
    Resolve,
    SetLease,
    Staged,
    TxnsDiff,
    TxnsState,
)


class Committed(Struct, frozen=True, kw_only=True):
    """The transaction is durable at `ts`; `shards` are those it wrote to."""

    ts: Csn
    shards: frozenset[ShardId]


class UpperMismatch(Struct, frozen=True, kw_only=True):
    """Nothing happened. The same transaction may be committed at `least_committable` or above."""

    least_committable: Csn


CommitResult: TypeAlias = Committed | UpperMismatch


class _Unregistered(Struct, frozen=True):
    shard: ShardId


class _Fenced(Struct, frozen=True):
    pass


class _Conflict(Struct, frozen=True):
    actual: Csn


class _NotPrepared(Struct, frozen=True):
    gid: str


class _PreparedAlready(Struct, frozen=True):
    gid: str


_Phase: TypeAlias = _NotPrepared | _PreparedAlready


class Phase(Struct, frozen=True, kw_only=True):
    """What a commit does for two-phase commit.

    `prepare`: it is not committed, but prepared under this name with this note. `ends`: it is the second phase of the
    transaction with this name. `known`: how many transactions have been prepared that it was validated against.
    """

    prepare: tuple[str, bytes] | None = None
    ends: str | None = None
    known: int | None = None


ONE_PHASE = Phase()
"""A commit that nobody has prepared, and that was not validated against prepared ones."""


MAX_ROUNDS = 32
"""Attempts to catch up with a shard that others keep writing to."""

FENCED = (
    "this process did not renew its lease in time and was deposed by the others; its uncommitted work is lost, "
    "start it again"
)


class TxnsShard:
    """The handle through which one process changes the txns shard."""

    def __init__(
        self,
        cache: TxnsCache,
        handles: ShardHandles,
        process: str,
    ) -> None:
        self._handles = handles
        self.cache = cache
        self._durable: DurableState[TxnsState, TxnsDiff] = cache.durable
        self._process = process
        self._applied: dict[ShardId, Csn] = {}
        self.leased = False
        """Whether this process has taken its lease; from then on a missing lease means that it was deposed."""

    async def commit_at(
        self,
        sealed: SealedTxn,
        *,
        ts: Csn,
        catalog: ShardWrites | None = None,
        validated: Csn | None = None,
        shards: Collection[ShardId] = (),
        promised: tuple[PromisedPart, ...] = (),
        txid: str = "",
        owners: frozenset[str] = frozenset(),
        phase: Phase = ONE_PHASE,
    ) -> CommitResult:
        """Commit `sealed` at `ts`, with `catalog` as what its catalog updates come to; or prepare it, as `phase` says.

        With `promised` parts the transaction is staged as `txid` instead, which commits it once they are present.
        `owners` are the other processes that wrote files of it; while they have leases, the files stay.

        `validated`: the caller has checked its reads and writes against every commit below this CSN; the commit
        fails with `UpperMismatch` when one of `shards` has been written at or above it. Raises UnknownShard
        when a shard is not registered (any more), CatalogConflict when the catalog has changed since
        `sealed.catalog_expected`, NotPrepared and PreparedAlready, Determinate when nothing happened, Indeterminate
        when that is not known.
        """
        writes = [*sealed.shards, *([] if catalog is None else [catalog])]
        refreshed = False

        def propose(
            state: TxnsState,
        ) -> TxnsDiff | Abandon[Committed | UpperMismatch | _Unregistered | _Conflict | _Fenced | _Phase]:
            done = next((state.outcomes[xid] for xid in sealed.xids if xid in state.outcomes), None)
            if done is not None:
                # An attempt whose answer was lost did commit.
                return Abandon(Committed(ts=done, shards=frozenset(item.shard for item in writes)))
            if self._is_fenced(state):
                return Abandon(_Fenced())
            if phase.ends is not None and phase.ends not in state.prepared:
                return Abandon(_NotPrepared(phase.ends))
            if phase.prepare is not None and phase.prepare[0] in state.prepared:
                return Abandon(_PreparedAlready(phase.prepare[0]))
            gone = next((owner for owner in owners if owner not in state.leases), None)
            if gone is not None:
                raise Determinate(f"process {gone}, which wrote files of this transaction, is gone, and so are they")
            if catalog is not None and sealed.catalog_expected is not None:
                last = state.registered[CATALOG_SHARD].last_write
                if last > sealed.catalog_expected:
                    return Abandon(_Conflict(last))
            for item in writes:
                if item.create and (item.shard in state.registered or item.shard in state.forgotten):
                    raise ValueError(f"shard {item.shard} exists")
                if not item.create and item.shard not in state.registered and _does_something(item):
                    return Abandon(_Unregistered(item.shard))
            if ts < state.upper or phase.known not in (None, state.prepares):
                return Abandon(UpperMismatch(least_committable=state.upper))
            if validated is not None:
                for shard in shards:
                    registration = state.registered.get(shard)
                    if registration is not None and registration.last_write >= validated:
                        return Abandon(UpperMismatch(least_committable=state.upper))
            if phase.prepare is not None:
                return self._prepare_diff(state, sealed, ts, *phase.prepare)
            return self._commit_diff(state, writes, ts, sealed.xids, promised, txid, phase.ends)

        while True:
            result = await self._durable.update(propose)
            if not isinstance(result, Abandon):
                return Committed(ts=ts, shards=frozenset(w.shard for w in writes if _does_something(w)))
            if isinstance(result.value, UpperMismatch | Committed):
                return result.value
            if isinstance(result.value, _Fenced):
                raise EnvironmentFenced(FENCED)
            if isinstance(result.value, _NotPrepared):
                raise NotPrepared(result.value.gid)
            if isinstance(result.value, _PreparedAlready):
                raise PreparedAlready(result.value.gid)
            if isinstance(result.value, _Conflict):
                raise CatalogConflict(f"the catalog changed at {result.value.actual}")
            if refreshed:
                raise unknown_shard(result.value.shard)
            # Another process may have registered it a moment ago.
            await self._durable.refresh()
            refreshed = True

    def _is_fenced(self, state: TxnsState) -> bool:
        """Whether others have declared this process dead; its uploads may be gone already."""
        return self.leased and self._process not in state.leases

    def _commit_diff(
        self,
        state: TxnsState,
        items: Iterable[ShardWrites],
        ts: Csn,
        xids: tuple[int, ...],
        promised: tuple[PromisedPart, ...],
        txid: str,
        ends: str | None,
    ) -> TxnsDiff:
        kept = [item for item in items if _does_something(item)]
        writes = tuple(
            Write(shard=item.shard, csn=ts, parts=item.parts, schema=item.schema, drop=item.drop) for item in kept
        )
        applied, resolves = self._retractions(state), self._resolutions(state)
        if promised:
            record = Staged(txid=txid, csn=ts, process=self._process, writes=writes, promised=promised, xids=xids)
            return TxnsDiff(csn=ts, stages=(record,), applied=applied, resolves=resolves)
        return TxnsDiff(
            csn=ts,
            registers=tuple(item.shard for item in kept if item.create),
            writes=writes,
            forgets=tuple(item.shard for item in kept if item.drop),
            ends=() if ends is None else (ends,),
            xids=xids,
            applied=applied,
            resolves=resolves,
        )

    def _prepare_diff(self, state: TxnsState, sealed: SealedTxn, ts: Csn, gid: str, note: bytes) -> TxnsDiff:
        (xid,) = sealed.xids
        record = Prepared(
            gid=gid,
            csn=ts,
            xid=xid,
            writes=tuple(item for item in sealed.shards if _does_something(item)),
            catalog_updates=sealed.catalog_updates,
            note=note,
        )
        return TxnsDiff(csn=ts, prepares=(record,), applied=self._retractions(state), resolves=self._resolutions(state))

    async def forget_prepared(self, gid: str) -> Prepared:
        """Roll the prepared transaction `gid` back; what it would have been. Raises NotPrepared."""

        def propose(state: TxnsState) -> TxnsDiff | Abandon[None]:
            if gid not in state.prepared:
                return Abandon(None)
            found.append(state.prepared[gid])
            return TxnsDiff(ends=(gid,))

        found: list[Prepared] = []
        if isinstance(await self._durable.update(propose), Abandon):
            raise NotPrepared(gid)
        return found[-1]

    def _resolutions(self, state: TxnsState) -> tuple[Resolve, ...]:
        """The explicit commits of the staged transactions that this process knows to be committed."""
        known = (state.staged.get(txid) for txid in sorted(self.cache.implicit))
        return tuple(Resolve(record.txid, record.csn, True) for record in known if record is not None)

    async def make_explicit(self) -> None:
        """Write down the outcome of every implicitly committed transaction of this process."""

        def propose(state: TxnsState) -> TxnsDiff | Abandon[None]:
            resolves = self._resolutions(state)
            if not resolves:
                return Abandon(None)
            return TxnsDiff(resolves=resolves, applied=self._retractions(state))

        if self.cache.implicit:
            await self._durable.update(propose)

    async def resolve(self, record: Staged, committed: bool) -> bool:
        """Make the verdict on `record` explicit. False when the record has been resolved or moved already."""

        def propose(state: TxnsState) -> TxnsDiff | Abandon[None]:
            present = state.staged.get(record.txid)
            if present is None or present.csn != record.csn:
                return Abandon(None)
            return TxnsDiff(resolves=(Resolve(record.txid, record.csn, committed),))

        return not isinstance(await self._durable.update(propose), Abandon)

    def _retractions(self, state: TxnsState) -> tuple[Applied, ...]:
        found: list[Applied] = []
        for shard, csn in self._applied.items():
            writes = state.pending.get(shard)
            if writes and writes[0].csn <= csn:
                found.append(Applied(shard, csn))
        return tuple(found)

    async def advance(self, upper: Csn) -> None:
        """Make everything below `upper` definite: with no commit there yet, none will ever be."""

        def propose(state: TxnsState) -> TxnsDiff | Abandon[None]:
            if state.upper >= upper:
                return Abandon(None)
            return TxnsDiff(csn=Csn(upper - 1), applied=self._retractions(state), resolves=self._resolutions(state))

        await self._durable.update(propose)
        self._forget_retracted()

    async def advance_to_now(self, oracle: Oracle) -> Csn:
        """An empty commit at a fresh CSN: moves every reader on while nothing else is committed."""
        async with acquired(oracle, "user") as ts:
            await self.advance(Csn(ts + 1))
            await oracle.apply_write("user", ts)
        return ts

    async def register(self, shard: ShardId, ts: Csn) -> CommitResult:
        """Add a shard that has a schema already. Idempotent: a registered shard is left alone.

        The shard's physical upper must be at or below `ts`, as nothing is committed to it before.
        """
        if shard in self.cache.state.registered:
            return Committed(ts=self.cache.state.registered[shard].at, shards=frozenset())
        handle = self._handles.detached(shard)
        await handle.refresh()
        handle.state.schema()
        if handle.state.upper > ts:
            return UpperMismatch(least_committable=handle.state.upper)

        def propose(state: TxnsState) -> TxnsDiff | Abandon[CommitResult]:
            if shard in state.registered:
                return Abandon(Committed(ts=state.registered[shard].at, shards=frozenset()))
            if ts < state.upper:
                return Abandon(UpperMismatch(least_committable=state.upper))
            # NOTE: readers may have seen the shard before, and must not go by what they remember.
            require = RequireTransitions(shard, handle.state.transitions)
            return TxnsDiff(csn=ts, registers=(shard,), requires=(require,), applied=self._retractions(state))

        result = await self._durable.update(propose)
        return result.value if isinstance(result, Abandon) else Committed(ts=ts, shards=frozenset({shard}))

    async def unregister(self, shard: ShardId, ts: Csn) -> CommitResult:
        """Take `shard` out of the txns shard at `ts`, keeping its data: it can be read and written on its own then.

        First applies everything that is committed to it; idempotent. Raises Determinate while a transaction is
        staged on it.
        """
        for _ in range(MAX_ROUNDS):
            await self.apply([shard])

            def propose(state: TxnsState) -> TxnsDiff | Abandon[CommitResult | None]:
                if shard not in state.registered:
                    return Abandon(Committed(ts=ts, shards=frozenset()))
                if any(write.shard == shard for record in state.staged.values() for write in record.writes):
                    raise Determinate(f"a transaction is staged on shard {shard}; resolve it first")
                if ts < state.upper:
                    return Abandon(UpperMismatch(least_committable=state.upper))
                retractions = self._retractions(state)
                done = next((item.csn for item in retractions if item.shard == shard), Csn(0))
                if any(write.csn > done for write in state.pending.get(shard, ())):
                    return Abandon(None)
                return TxnsDiff(csn=ts, unregisters=(shard,), applied=retractions)

            result = await self._durable.update(propose)
            if not isinstance(result, Abandon):
                # NOTE: after it. Nothing can be committed to the shard at or below `ts` any more.
                handle = await self._handles.open(shard)
                await handle.fill(Csn(ts + 1))
                return Committed(ts=ts, shards=frozenset({shard}))
            if result.value is not None:
                return result.value
        raise Determinate(f"shard {shard} is written to faster than it can be applied")

    async def apply(self, shards: Iterable[ShardId] | None = None) -> int:
        """Copy every committed write of `shards` (None: of all) into its data shard. Returns how many.

        Idempotent, and safe while others do the same.
        """
        copied = 0
        for shard in sorted(self.cache.state.pending if shards is None else shards):
            writes = self.cache.state.pending.get(shard, ())
            # NOTE: never past a staged transaction, even a committed one, until it is explicit: its write would
            # enter the pending ones below what is already applied.
            barrier = self.cache.first_staged(shard)
            fresh = tuple(
                write
                for write in writes
                if write.csn > self._applied.get(shard, Csn(0)) and (barrier is None or write.csn < barrier)
            )
            if not fresh:
                continue
            handle = await self._handles.open(shard)
            await handle.apply(fresh)
            self._applied[shard] = max(self._applied.get(shard, Csn(0)), fresh[-1].csn)
            copied += len(fresh)
        return copied

    async def tidy(
        self,
        *,
        lease: Lease | None = None,
        requires: tuple[RequireTransitions, ...] = (),
        removed: tuple[ShardId, ...] = (),
        release: bool = False,
        joining: bool = False,
        expired: Collection[str] | Mapping[str, int] = (),
    ) -> None:
        """Retract what this process has applied, and renew its lease, in one append; nothing when idle.

        `release` gives the lease up. With `joining` a ``sole`` lease is so only if it may be. `expired`
        names dead processes whose leases end; with the beat at which each was judged, a lease that has been renewed
        since is left alone. Raises EnvironmentFenced when this process's own lease was ended by
        others.
        """

        def propose(state: TxnsState) -> TxnsDiff | Abandon[bool]:
            if self._is_fenced(state):
                return Abandon(True)
            retracted = self._retractions(state)
            leases = []
            if lease is not None:
                # NOTE: decided here, together with the write: alone is who finds no other lease but of processes that
                # it hears of. Later renewals leave it to the process, which has to switch its oracle first.
                alone = all(name == self._process or lease.hears_of(other) for name, other in state.leases.items())
                sole = lease.sole and (alone or not joining)
                leases.append(SetLease(self._process, msgspec.structs.replace(lease, sole=sole)))
            if release and self._process in state.leases:
                leases.append(SetLease(self._process, None))
            for name in expired:
                held = state.leases.get(name)
                judged = expired[name] if isinstance(expired, Mapping) else None
                if held is not None and judged in (None, held.beats):
                    leases.append(SetLease(name, None))
            if not (retracted or leases or requires or removed):
                return Abandon(False)
            return TxnsDiff(
                applied=retracted,
                leases=tuple(leases),
                requires=requires,
                removed=removed,
                since=self._new_since(state, retracted),
            )

        result = await self._durable.update(propose)
        if isinstance(result, Abandon) and result.value:
            raise EnvironmentFenced(FENCED)
        self.leased = not release and (self.leased or lease is not None)
        self._forget_retracted()

    def _new_since(self, state: TxnsState, retracted: tuple[Applied, ...]) -> Csn:
        """The since that may be once `retracted` is: not past any write that has to be applied yet."""
        upto = {item.shard: item.csn for item in retracted}
        left = [
            write.csn
            for shard, writes in state.pending.items()
            for write in writes
            if write.csn > upto.get(shard, Csn(0))
        ]
        left.extend(record.csn for record in state.staged.values())
        return max(state.since, min([state.upper, *left]))

    def _forget_retracted(self) -> None:
        pending = self.cache.state.pending
        for shard in [shard for shard in self._applied if shard not in pending]:
            del self._applied[shard]

    async def fill(self, shard: ShardId, as_of: Csn) -> None:
        """Advance the physical upper of `shard` past `as_of`, for a reader that does without the txns shard.

        Raises UnknownShard when it is not registered. The txns upper must be past `as_of` (see `advance`).
        """
        if shard not in self.cache.state.registered:
            raise unknown_shard(shard)
        if self.cache.upper <= as_of:
            raise ValueError(f"{as_of} is not decided yet: the txns upper is {self.cache.upper}")
        barrier = self.cache.first_staged(shard)
        if barrier is not None and barrier <= as_of:
            raise ValueError(f"{as_of} is not decided yet for {shard}: a transaction is staged at {barrier}")
        handle = await self._handles.open(shard)
        await handle.apply(self.cache.unapplied(shard, handle.state.upper))
        # NOTE: only up to what is decided, or a commit under way there would look applied and be lost.
        await handle.fill(Csn(as_of + 1))


def _does_something(item: ShardWrites) -> bool:
    return item.create or item.drop or item.schema is not None or bool(item.parts)
