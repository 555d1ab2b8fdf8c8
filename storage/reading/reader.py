"""Reading shards through the txns shard: snapshots and changes, mostly from memory.

To read shard s at T a process needs the txns shard past T, the durable state of s, and the committed writes that the
state lacks. `_View` is the state with those writes applied, kept until the durable state moves.

SUBTLE: a view may be ahead of the data shard and still be exact. The row ids that an append assigns follow from the
state and the write alone, so whoever applies the write later assigns the same. Its part ids do too, unless a compaction
comes first: they are good inside one view only.

A table may have thousands of small parts between two compactions, and every commit makes a new view of it. So a
snapshot, and the changes since the durable state, cost what was added and not what there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from storage.clock import Clock
from storage.errors import MissingBlob, UnknownShard, not_readable
from storage.ids import ShardId
from storage.membership.leases import Leases
from storage.shards.history import Archives
from storage.shards.packed_parts import PackedParts, PartMap
from storage.shards.part_store import PartStore
from storage.shards.parts import Part
from storage.shards.shard import (
    DataShard,
    ShardChanges,
    ShardSnapshot,
    append_of,
    changes_among,
    changes_of,
    snapshot_among,
    snapshot_of,
)
from storage.shards.shard_state import ShardState, apply_op, check
from storage.shards.whole_deletions import remaining
from storage.timestamps.csn import Csn
from storage.transactions.parallel_commit import ParallelCommit
from storage.transactions.shard_handles import ShardHandles
from storage.transactions.txns_shard import TxnsShard
from storage.transactions.txns_state import TxnsState
from storage.unawaited import unawaited

MAX_NEWEST = 256
"""Shards of which `snapshot_now` keeps what it has given last."""

ADVANCE_AFTER_S = 0.05
"""How long a reader waits for the txns upper to pass its CSN by itself before it advances it."""


class _Whole(Struct, frozen=True, kw_only=True):
    """The snapshot of all parts of a view, that of `base` with what was committed since."""

    base: ShardState
    state: ShardState
    snapshot: ShardSnapshot


class _View(Struct, frozen=True, kw_only=True):
    """A data shard's state with every committed write in it. `base` is the durable state it was made from, `whole` what
    was last read of this view or one before."""

    base: ShardState
    state: ShardState
    whole: _Whole | None = None


class _Newest(Struct, frozen=True, kw_only=True):
    """The snapshot that was read last of a shard whose durable state was `state`, with `txns` as the txns shard."""

    txns: TxnsState
    handle: DataShard
    state: ShardState
    snapshot: ShardSnapshot


class ShardReader:
    """What the data shards hold at a CSN. With `validate` every view is checked as a whole (tests)."""

    def __init__(
        self,
        *,
        txns_shard: TxnsShard,
        staging: ParallelCommit,
        handles: ShardHandles,
        parts: PartStore,
        archives: Archives,
        leases: Leases,
        clock: Clock,
        validate: bool,
    ) -> None:
        self._txns_shard = txns_shard
        self._cache = txns_shard.cache
        self._staging = staging
        self._handles = handles
        self._parts = parts
        self._archives = archives
        self._leases = leases
        self._clock = clock
        self._validate = validate
        self._newest: dict[ShardId, _Newest] = {}
        self._views: WeakKeyDictionary[DataShard, _View] = WeakKeyDictionary()

    async def snapshot(self, shard: ShardId, as_of: Csn) -> ShardSnapshot:
        """The parts that make up `shard` at `as_of`.

        Waits until every commit up to `as_of` is decided. Raises UnknownShard when the shard is not registered
        (or was dropped at or before `as_of`), AsOfNotReadable when its history there has been folded.
        """
        await self._decided(as_of)
        await self._leases.ensure()
        handle, view = await self._view(shard, as_of)
        if as_of < view.state.since:
            return await self._past(view.state, as_of)
        if as_of < view.state.upper - 1:
            return snapshot_of(view.state, as_of)
        whole = view.whole
        if whole is not None and whole.state is view.state:
            snapshot = whole.snapshot
            return snapshot if snapshot.as_of == as_of else replace(snapshot, as_of=as_of)
        snapshot = _continued(whole, view, as_of) or snapshot_of(view.state, as_of)
        if self._validate:
            assert snapshot == snapshot_of(view.state, as_of)
        self._views[handle] = replace(view, whole=_Whole(base=view.base, state=view.state, snapshot=snapshot))
        return snapshot

    def snapshot_now(self, shard: ShardId, as_of: Csn) -> ShardSnapshot | None:
        """As `snapshot`, for those who have just made sure of their lease; None when it would have to wait."""
        txns, known = self._cache.state, self._newest.get(shard)
        # One who reads again what nobody has written to since finds it at once.
        if known is not None and known.txns is txns and known.handle.state is known.state:
            if known.snapshot.as_of == as_of:
                return known.snapshot
        elif txns.upper <= as_of:
            return None
        snapshot, handle = unawaited(self.snapshot(shard, as_of)), self._handles.opened(shard)
        if snapshot is not None and handle is not None:
            if len(self._newest) >= MAX_NEWEST:
                self._newest.clear()
            self._newest[shard] = _Newest(txns=txns, handle=handle, state=handle.state, snapshot=snapshot)
        return snapshot

    async def changes(self, shard: ShardId, after: Csn, until: Csn) -> ShardChanges:
        """What was written to `shard` in (`after`, `until`], for the validation of conflicts.

        Raises as `snapshot` does.
        """
        await self._decided(until)
        registration = self._cache.state.registered.get(shard)
        if registration is not None and registration.last_write <= after:
            return ShardChanges(shard=shard, after=after, until=until, inserts=(), deletes=())
        _, view = await self._view(shard, until)
        if after < view.state.since:
            return await self._past_changes(view.state, after, until)
        if after < view.base.upper - 1:
            return changes_of(view.state, after, until)
        parts, end = view.state.parts, view.state.next_part_id
        # Writes are appended in the order of their CSNs: those after `after` are the last ones.
        first = end
        while first > view.base.next_part_id and parts[first - 1].csn > after:
            first -= 1
        changes = changes_among([parts[number] for number in range(first, end)], shard, after, until)
        if self._validate:
            assert changes == changes_of(view.state, after, until)
        return changes

    async def changes_before_drop(self, shard: ShardId, after: Csn, until: Csn) -> ShardChanges:
        """As `changes`, also for a shard that was dropped at `until`."""
        dropped = self._cache.state.forgotten.get(shard)
        if dropped is None or dropped > until:
            return await self.changes(shard, after, until)
        _, view = await self._view(shard, Csn(dropped - 1))
        if after < view.state.since:
            return await self._past_changes(view.state, after, until)
        return changes_of(view.state, after, until)

    async def _past(self, state: ShardState, as_of: Csn) -> ShardSnapshot:
        if state.dropped or not state.schemas:
            raise UnknownShard(f"shard {state.shard} does not exist at {as_of}")
        if as_of < state.earliest:
            raise not_readable(state.shard, as_of, state.earliest)
        return snapshot_among(await self._archives.parts_at(state, as_of), state, as_of)

    async def _past_changes(self, state: ShardState, after: Csn, until: Csn) -> ShardChanges:
        if after < state.earliest:
            raise not_readable(state.shard, after, state.earliest)
        return changes_among(await self._archives.written(state, after, until), state.shard, after, until)

    def last_write(self, shard: ShardId) -> Csn:
        """The latest non-empty write of `shard` that this process has seen committed; of a dropped one whose history is
        kept, when it was dropped. Raises UnknownShard."""
        try:
            return self._cache.last_write(shard)
        except KeyError:
            dropped = self._cache.state.forgotten.get(shard)
        if dropped is None:
            raise UnknownShard(f"shard {shard} does not exist")
        return dropped

    async def read_part(self, part: Part, columns: Sequence[str] | None = None) -> pa.Table:
        """As `PartStore.read`; EnvironmentFenced when a file is gone because the others deposed this process while it
        stood still."""
        try:
            return await self._parts.read(part, columns)
        except MissingBlob:
            await self._leases.renew()
            raise

    async def verify_parts(self, parts: Iterable[Part]) -> None:
        """Check the files of `parts` against their checksums, once each: for engines that read them by themselves.

        Raises as `read_part` does.
        """
        try:
            await self._parts.verify(parts)
        except MissingBlob:
            await self._leases.renew()
            raise

    async def check_links(self, parts: Iterable[Part]) -> None:
        """See `PartStore.check_links`."""
        await self._parts.check_links(parts)

    async def _decided(self, as_of: Csn) -> None:
        """Return once the txns upper is past `as_of`."""
        if self._cache.upper > as_of:
            return
        waiting = asyncio.ensure_future(self._cache.wait_past(as_of))
        try:
            pause = asyncio.ensure_future(self._clock.sleep(ADVANCE_AFTER_S))
            await asyncio.wait({waiting, pause}, return_when=asyncio.FIRST_COMPLETED)
            pause.cancel()
            if not waiting.done():
                await self._cache.durable.refresh()
                await self._txns_shard.advance(Csn(as_of + 1))
        finally:
            waiting.cancel()

    async def _view(self, shard: ShardId, as_of: Csn) -> tuple[DataShard, _View]:
        """The handle of `shard`, and its state with every committed write in it."""
        while (record := self._cache.undecided(shard)) is not None and record.csn <= as_of:
            await self._staging.wait_resolved(record)
        handle = await self._handles.open(shard)
        while not self._cache.covers(shard, handle.state):
            await handle.refresh()
            if shard not in self._cache.state.registered:
                break
        dropped = self._cache.state.forgotten.get(shard)
        if dropped is not None and as_of >= dropped:
            raise UnknownShard(f"shard {shard} was dropped at {dropped}")
        base = handle.state
        known = self._views.get(handle)
        view = known
        if view is None or view.base is not base:
            # A view whose writes are now all in the durable state is what the durable state says.
            view = _View(base=base, state=base, whole=None if view is None else view.whole)
        state = view.state
        for write in self._cache.unapplied(shard, state.upper):
            state = apply_op(state, append_of(state, write))
            if self._validate:
                check(state)
        if state is not view.state:
            view = _View(base=base, state=state, whole=view.whole)
        if view is not known:
            self._views[handle] = view
        return handle, view


def _continued(whole: _Whole | None, view: _View, as_of: Csn) -> ShardSnapshot | None:
    """The snapshot of all parts of `view`, made from that of a view before; None when more than appends lie between."""
    if whole is None:
        return None
    before, state = whole.state, view.state
    added = state.next_part_id - before.next_part_id
    if isinstance(state.parts, PartMap) and not (
        isinstance(before.parts, PartMap) and before.parts.blocks == state.parts.blocks
    ):
        return None
    # NOTE: a compaction takes more parts away than the ids that it uses say.
    if added < 0 or len(state.parts) - len(before.parts) != added or state.dropped or as_of < state.since:
        return None
    new = [state.parts[number] for number in range(before.next_part_id, state.next_part_id)]
    snapshot = whole.snapshot
    inserts = snapshot.inserts
    if whole.base is not view.base:
        # Files may have got key runs; those of the blocks have not, for a block that changes is another.
        if isinstance(inserts, PackedParts):
            inserts = inserts.with_loose(lambda part: part if part.key is None else state.parts[part.id])
        else:
            inserts = tuple([part if part.key is None else state.parts[part.id] for part in inserts])
    inserts += tuple([part for part in new if part.kind == "insert" and part.rows])
    deletes = tuple([part for part in new if part.kind == "delete" and part.rows])
    if deletes:
        inserts, deletes = remaining(inserts, deletes)
    return ShardSnapshot(
        shard=snapshot.shard,
        as_of=as_of,
        schema=snapshot.schema if state.schemas is before.schemas else state.schemas[-1].schema(),
        schemas=state.schemas,
        inserts=inserts,
        deletes=snapshot.deletes + deletes,
    )
