"""A data shard: durable state plus the I/O to read and to write it.

Writes to a shard that is registered with the txns shard come from applying committed transactions
(`storage.transactions.txns_shard`) and from maintenance; nobody else may append.

`ShardSnapshot` is what a reader gets: immutable, and valid for as long as its reader holds the CSN.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from operator import attrgetter

import pyarrow as pa
from msgspec import Struct

from storage.clock import Clock, Randomness
from storage.durable.state import Abandon, DurableState, Gate
from storage.errors import AsOfNotReadable, UnknownShard, not_readable
from storage.ids import ShardId
from storage.shards.packed_parts import PackedParts, PartMap, PartSequence
from storage.shards.parts import Part
from storage.shards.shard_state import (
    HOLD_MS,
    Append,
    DowngradeSince,
    Hold,
    SchemaVersion,
    SetHold,
    ShardDiff,
    ShardMachine,
    ShardOp,
    ShardState,
)
from storage.shards.whole_deletions import remaining
from storage.shards.writes import Write
from storage.stores.blob import Blob
from storage.stores.consensus import Consensus
from storage.timestamps.csn import Csn


def shard_key(shard: ShardId) -> str:
    """The key of `shard` in consensus."""
    return f"shards/{shard}"


class ShardSnapshot(Struct, frozen=True, kw_only=True):
    """The parts that make up a shard's rows at `as_of`: those of `inserts` whose ids are in no `deletes`.

    `schema` is that of the newest version; `schemas` has every version by number.
    """

    shard: ShardId
    as_of: Csn
    schema: pa.Schema
    schemas: tuple[SchemaVersion, ...]
    inserts: PartSequence
    deletes: tuple[Part, ...]

    @property
    def newest(self) -> Csn:
        """The CSN up to which everything counts, as for `ShardChanges`."""
        return self.as_of

    @property
    def bytes(self) -> int:
        """Stored size of all parts."""
        inserts = self.inserts
        size = inserts.bytes if isinstance(inserts, PackedParts) else sum(part.bytes for part in inserts)
        return size + sum(part.bytes for part in self.deletes)

    @property
    def rows(self) -> int:
        """Rows inserted minus rows deleted: the exact row count at `as_of`."""
        inserts = self.inserts
        rows = inserts.rows if isinstance(inserts, PackedParts) else sum(part.rows for part in inserts)
        return rows - sum(part.rows for part in self.deletes)


class ShardChanges(Struct, frozen=True, kw_only=True):
    """What was written to a shard in (after, until]: parts in the order they were appended."""

    shard: ShardId
    after: Csn
    until: Csn
    inserts: tuple[Part, ...]
    deletes: tuple[Part, ...]

    @property
    def newest(self) -> Csn:
        """The CSN up to which everything counts, as for `ShardSnapshot`."""
        return self.until

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written."""
        return not self.inserts and not self.deletes


def append_of(state: ShardState, write: Write) -> Append:
    """The append that copies the committed `write` into a shard in `state`."""
    return Append(lower=state.upper, csn=write.csn, parts=write.parts, schema=write.schema)


def snapshot_of(state: ShardState, as_of: Csn) -> ShardSnapshot:
    """The snapshot at `as_of`. Raises `AsOfNotReadable` or `UnknownShard`."""
    if state.dropped or not state.schemas:
        raise UnknownShard(f"shard {state.shard} does not exist at {as_of}")
    if as_of < state.since:
        raise not_readable(state.shard, as_of, state.since)
    if isinstance(state.parts, PartMap):
        return _snapshot(*state.parts.visible(as_of), state, as_of)
    visible = sorted([part for part in state.parts.values() if part.csn <= as_of], key=attrgetter("id"))
    return snapshot_among(visible, state, as_of)


def snapshot_among(parts: Sequence[Part], state: ShardState, as_of: Csn) -> ShardSnapshot:
    """The snapshot at `as_of` that `parts`, in the order of their ids, make up."""
    inserts = tuple([part for part in parts if part.kind == "insert" and part.rows])
    deletes = tuple([part for part in parts if part.kind == "delete" and part.rows])
    return _snapshot(inserts, deletes, state, as_of)


def _snapshot(inserts: PartSequence, deletes: tuple[Part, ...], state: ShardState, as_of: Csn) -> ShardSnapshot:
    inserts, deletes = remaining(inserts, deletes)
    return ShardSnapshot(
        shard=state.shard,
        as_of=as_of,
        schema=state.schemas[-1].schema(),
        schemas=state.schemas,
        inserts=inserts,
        deletes=deletes,
    )


def changes_of(state: ShardState, after: Csn, until: Csn) -> ShardChanges:
    """The parts with a CSN in (after, until]. Raises `AsOfNotReadable` when `after` is before the since."""
    if after < state.since and state.since > 0:
        raise AsOfNotReadable(f"changes of shard {state.shard} after {after} are folded: its since is {state.since}")
    parts = [part for part in written_in(state, after, until) if after < part.csn <= until]
    return changes_among(sorted(parts, key=attrgetter("id")), state.shard, after, until)


def written_in(state: ShardState, after: Csn, until: Csn) -> Iterable[Part]:
    """The parts among which are those with a CSN in (after, until]."""
    if isinstance(state.parts, PartMap):
        return state.parts.among(lambda block: after < block.newest and block.oldest <= until)
    return state.parts.values()


def changes_among(parts: Iterable[Part], shard: ShardId, after: Csn, until: Csn) -> ShardChanges:
    """Those of `parts`, in the order they were appended, with a CSN in (after, until]."""
    found = [part for part in parts if after < part.csn <= until]
    return ShardChanges(
        shard=shard,
        after=after,
        until=until,
        inserts=tuple(part for part in found if part.kind == "insert" and part.rows),
        deletes=tuple(part for part in found if part.kind == "delete" and part.rows),
    )


class DataShard:
    """This process's handle of one data shard."""

    def __init__(
        self,
        shard: ShardId,
        *,
        consensus: Consensus,
        blob: Blob,
        clock: Clock,
        random: Randomness,
        writer: str,
        gate: Gate | None = None,
    ) -> None:
        self.shard = shard
        self.durable: DurableState[ShardState, ShardDiff] = DurableState(
            shard_key(shard),
            ShardMachine(shard),
            consensus=consensus,
            blob=blob,
            clock=clock,
            random=random,
            writer=writer,
            gate=gate,
        )
        self._clock = clock
        self._consensus = consensus
        self._renewals: dict[str, tuple[Hold, float]] = {}
        """By name, each hold as it was last seen, and since when (monotonic)."""

    @property
    def state(self) -> ShardState:
        """The state as last seen."""
        return self.durable.state

    async def refresh(self) -> ShardState:
        """The state as it is now."""
        return await self.durable.refresh()

    async def compare_and_append(
        self, parts: Iterable[Part], *, expected_upper: Csn, new_upper: Csn, schema: bytes | None = None
    ) -> Csn | None:
        """Append `parts` at ``new_upper - 1`` if the upper is `expected_upper`.

        Returns None when it is done, or the actual upper when that is another and nothing was written.
        """
        append = Append(lower=expected_upper, csn=Csn(new_upper - 1), parts=tuple(parts), schema=schema)

        def propose(state: ShardState) -> ShardDiff | Abandon[Csn]:
            if state.upper != expected_upper:
                return Abandon(state.upper)
            return ShardDiff((append,))

        # A handle that has not seen the shard yet would see a mismatch that is not there.
        if self.state.upper != expected_upper:
            await self.refresh()
        result = await self.durable.update(propose)
        return result.value if isinstance(result, Abandon) else None

    async def apply(self, writes: Iterable[Write]) -> ShardState:
        """Copy committed `writes` (in CSN order) into the shard; those below its upper are there already."""
        pending = tuple(writes)

        def propose(state: ShardState) -> ShardDiff | Abandon[None]:
            ops: list[ShardOp] = []
            upper = state.upper
            for write in pending:
                if write.csn < upper or state.dropped:
                    continue
                # NOTE: a dropped shard keeps its parts until nobody can read at a CSN before the drop.
                ops.append(Append(lower=upper, csn=write.csn, parts=write.parts, schema=write.schema))
                upper = Csn(write.csn + 1)
            return ShardDiff(tuple(ops)) if ops else Abandon(None)

        await self.durable.update(propose)
        return self.state

    async def fill(self, upper: Csn) -> ShardState:
        """Advance the physical upper to at least `upper` with an empty append.

        The caller knows that nothing was committed to the shard below `upper` that is not in it.
        """

        def propose(state: ShardState) -> ShardDiff | Abandon[None]:
            if state.upper >= upper or state.dropped:
                return Abandon(None)
            return ShardDiff((Append(lower=state.upper, csn=Csn(upper - 1)),))

        await self.durable.update(propose)
        return self.state

    async def downgrade_since(self, since: Csn, earliest: Csn | None = None) -> Csn:
        """Let history before `since` be folded, and that before `earliest` (None: the same) go, which is as far as the
        shard's holds allow. Returns the since that is in force."""

        def propose(state: ShardState) -> ShardDiff | Abandon[None]:
            live = self._live_holds(state)
            ops: list[ShardOp] = [SetHold(name=name, hold=None) for name in sorted(state.holds) if name not in live]
            held = [hold.at for hold in live.values()]
            if earliest is None:
                target = min([since, *held])
                if target > state.since and target < state.upper:
                    ops.append(DowngradeSince(since=target))
            elif since < state.upper:
                kept = min([earliest, since, *held])
                over = any(archive.until <= kept for archive in state.history.values())
                # NOTE: a diff for nothing but a later beginning would be one a second for each shard.
                if since > state.since or over:
                    ops.append(DowngradeSince(since=since, earliest=kept))
            return ShardDiff(tuple(ops)) if ops else Abandon(None)

        await self.durable.update(propose)
        return self.state.since

    def live_holds(self) -> dict[str, Hold]:
        """The holds in the state as last seen that have not expired, as far as this process has watched them."""
        return self._live_holds(self.state)

    def _live_holds(self, state: ShardState) -> dict[str, Hold]:
        now = self._clock.monotonic()
        before, self._renewals = self._renewals, {}
        live = {}
        for name, hold in state.holds.items():
            seen, at = before.get(name, (hold, now))
            self._renewals[name] = (hold, at if seen == hold else now)
            if hold.expires_ms is None or (now - self._renewals[name][1]) * 1000 <= HOLD_MS:
                live[name] = hold
        return live

    async def update(self, propose: Callable[[ShardState], ShardDiff | Abandon[None]]) -> bool:
        """Append what `propose` builds; False when it declined."""
        return not isinstance(await self.durable.update(propose), Abandon)

    def physical_snapshot(self, as_of: Csn) -> ShardSnapshot:
        """The snapshot at `as_of` from the state as last seen, without the txns shard.

        Raises `AsOfNotReadable` also when `as_of` is at or past the physical upper.
        """
        if as_of >= self.state.upper:
            raise AsOfNotReadable(
                f"shard {self.shard} is written up to {self.state.upper}, and cannot be read at {as_of}"
            )
        return snapshot_of(self.state, as_of)

    async def listen(self, as_of: Csn) -> AsyncIterator[tuple[Csn, tuple[Part, ...]]]:
        """Every later write that reaches the shard: its CSN and parts, in CSN order. Endless."""
        seen = Csn(as_of + 1)
        while True:
            state = self.state
            if state.upper > seen:
                by_csn: dict[Csn, list[Part]] = {}
                for part in sorted(written_in(state, Csn(seen - 1), state.upper), key=attrgetter("id")):
                    if part.csn >= seen:
                        by_csn.setdefault(part.csn, []).append(part)
                seen = state.upper
                for csn in sorted(by_csn):
                    yield csn, tuple(by_csn[csn])
            else:
                await self._consensus.watch(self.durable.key, self.durable.seqno)
                await self.refresh()
