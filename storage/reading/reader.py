"""Reading shards through the txns shard: snapshots and changes, mostly from memory.

To read shard s at T a process needs the txns shard past T, the durable state of s, and the committed writes that the
state lacks. `_View` is the state with those writes applied, kept until the durable state moves.

SUBTLE: a view may be ahead of the data shard and still be exact. What an append assigns (row ids, part ids) follows
from the state and the write alone, so whoever applies the write later assigns the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from storage.clock import Clock
from storage.errors import UnknownShard
from storage.ids import ShardId
from storage.membership.leases import Leases
from storage.shards.shard import DataShard, ShardChanges, ShardSnapshot, append_of, changes_of, snapshot_of
from storage.shards.shard_state import ShardState, apply_op, check
from storage.timestamps.csn import Csn
from storage.transactions.parallel_commit import ParallelCommit
from storage.transactions.txns import Txns
from storage.transactions.txns_cache import TxnsCache

ADVANCE_AFTER_S = 0.05
"""How long a reader waits for the txns upper to pass its CSN by itself before it advances it."""


class _View(Struct, frozen=True, kw_only=True):
    """A data shard's state with every committed write in it. `base` is the durable state it was made from."""

    base: ShardState
    state: ShardState
    snapshot: ShardSnapshot | None = None


class ShardReader:
    """The open data shards of a process, and what they hold at a CSN."""

    def __init__(
        self,
        *,
        cache: TxnsCache,
        txns: Txns,
        staging: ParallelCommit,
        leases: Leases,
        clock: Clock,
        make_handle: Callable[[ShardId], DataShard],
        validate: bool,
    ) -> None:
        self.cache = cache
        self.txns = txns
        self.staging = staging
        self.leases = leases
        self.clock = clock
        self._make_handle = make_handle
        self._validate = validate
        self._shards: dict[ShardId, DataShard] = {}
        self._loading: dict[ShardId, asyncio.Lock] = {}
        self._views: dict[ShardId, _View] = {}

    async def snapshot(self, shard: ShardId, as_of: Csn) -> ShardSnapshot:
        """The parts that make up `shard` at `as_of`.

        Waits until every commit up to `as_of` is decided. Raises UnknownShard when the shard is not registered
        (or was dropped at or before `as_of`), AsOfNotReadable when its history there has been folded.
        """
        await self._decided(as_of)
        await self.leases.ensure()
        view = await self._view(shard, as_of)
        known = view.snapshot
        last = Csn(view.state.upper - 1)
        if known is not None and known.as_of >= last and as_of >= last:
            return known if known.as_of == as_of else replace(known, as_of=as_of)
        snapshot = snapshot_of(view.state, as_of)
        if as_of >= last:
            self._views[shard] = replace(view, snapshot=snapshot)
        return snapshot

    async def changes(self, shard: ShardId, after: Csn, until: Csn) -> ShardChanges:
        """What was written to `shard` in (`after`, `until`], for the validation of conflicts.

        Raises as `snapshot` does.
        """
        await self._decided(until)
        registration = self.cache.state.registered.get(shard)
        if registration is not None and registration.last_write <= after:
            return ShardChanges(shard=shard, after=after, until=until, inserts=(), deletes=())
        return changes_of((await self._view(shard, until)).state, after, until)

    async def changes_before_drop(self, shard: ShardId, after: Csn, until: Csn) -> ShardChanges:
        """As `changes`, also for a shard that was dropped at `until`."""
        dropped = self.cache.state.forgotten.get(shard)
        if dropped is None or dropped > until:
            return await self.changes(shard, after, until)
        return changes_of((await self._view(shard, Csn(dropped - 1))).state, after, until)

    async def _decided(self, as_of: Csn) -> None:
        """Return once the txns upper is past `as_of`."""
        if self.cache.upper > as_of:
            return
        waiting = asyncio.ensure_future(self.cache.wait_past(as_of))
        try:
            pause = asyncio.ensure_future(self.clock.sleep(ADVANCE_AFTER_S))
            await asyncio.wait({waiting, pause}, return_when=asyncio.FIRST_COMPLETED)
            pause.cancel()
            if not waiting.done():
                await self.cache.durable.refresh()
                await self.txns.advance(Csn(as_of + 1))
        finally:
            waiting.cancel()

    async def _view(self, shard: ShardId, as_of: Csn) -> _View:
        """The state of `shard` with every committed write in it."""
        while (record := self.cache.undecided(shard)) is not None and record.csn <= as_of:
            await self.staging.wait_resolved(record)
        handle = await self.open_shard(shard)
        while not self.cache.covers(shard, handle.state):
            await handle.refresh()
            if shard not in self.cache.state.registered:
                break
        dropped = self.cache.state.forgotten.get(shard)
        if dropped is not None and as_of >= dropped:
            raise UnknownShard(f"shard {shard} was dropped at {dropped}")
        base = handle.state
        view = self._views.get(shard)
        if view is None or view.base is not base:
            # A view whose writes are now all in the durable state is what the durable state says.
            view = _View(base=base, state=base)
        state = view.state
        for write in self.cache.unapplied(shard, state.upper):
            state = apply_op(state, append_of(state, write))
            if self._validate:
                check(state)
        if state is not view.state or shard not in self._views:
            view = _View(base=base, state=state)
        self._views[shard] = view
        return view

    async def open_shard(self, shard: ShardId) -> DataShard:
        """The handle of `shard`, loaded. Raises UnknownShard when it is neither registered nor dropped."""
        handle = self._shards.get(shard)
        if handle is not None:
            return handle
        async with self._loading.setdefault(shard, asyncio.Lock()):
            handle = self._shards.get(shard)
            if handle is None:
                known = shard in self.cache.state.registered or shard in self.cache.state.forgotten
                if not known and shard not in self.cache.state.pending:
                    raise UnknownShard(f"shard {shard} is not registered")
                handle = self._make_handle(shard)
                await handle.refresh()
                self._shards[shard] = handle
        self._loading.pop(shard, None)
        return handle

    def known_shard(self, shard: ShardId) -> DataShard | None:
        """The handle of `shard` when it is open."""
        return self._shards.get(shard)

    def known_shards(self) -> tuple[DataShard, ...]:
        """The handles that are open."""
        return tuple(self._shards.values())

    def created(self, shard: ShardId) -> None:
        """Note that this process has just committed the creation of `shard`: there is nothing to load."""
        self._shards.setdefault(shard, self._make_handle(shard))

    def close_shard(self, shard: ShardId) -> None:
        """Forget what is in memory of `shard`."""
        self._shards.pop(shard, None)
        self._views.pop(shard, None)
