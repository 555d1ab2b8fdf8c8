"""This process's copy of the txns shard: what has committed, without asking anybody.

The cache holds every commit below its `upper`, in order, so a read at a CSN below the upper needs no I/O here.
Own commits enter it at once; a follower task brings in those of other processes.

What a reader of shard s at T asks of it: has everything up to T been decided (`wait_past`), which writes may not have
been copied into s yet (`unapplied`), and how new its copy of the data shard's state must be (`covers`).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter

from storage.clock import Clock
from storage.durable.state import DurableState
from storage.errors import Determinate, Indeterminate
from storage.ids import ShardId
from storage.shards.shard_state import ShardState
from storage.shards.writes import Write
from storage.stores.consensus import Consensus
from storage.timestamps.csn import Csn
from storage.transactions import txns_state
from storage.transactions.txns_state import Staged, TxnsDiff, TxnsState

FOLLOW_RETRY_S = 0.2
"""Pause of the follower after the store failed it."""

_csn_of = attrgetter("csn")


class TxnsCache:
    """See the module's contract. `validate` checks the whole structure after every change (tests)."""

    def __init__(
        self,
        durable: DurableState[TxnsState, TxnsDiff],
        consensus: Consensus,
        clock: Clock,
        *,
        validate: bool = False,
    ) -> None:
        self.durable = durable
        self._consensus = consensus
        self._clock = clock
        self._validate = validate
        self._moved = asyncio.Event()
        self.implicit: set[str] = set()
        """Staged transactions that this process knows to be committed: every promised part is present."""
        self.on_seen: Callable[[int], None] | None = None
        """Called with the number of the newest entry seen, whenever the copy moves and before anybody uses it."""
        self.on_prepared: Callable[[], None] | None = None
        """Called when a transaction has been prepared, or a prepared one has ended."""
        durable.on_change = self._changed

    @property
    def state(self) -> TxnsState:
        """The txns shard as last seen."""
        return self.durable.state

    @property
    def upper(self) -> Csn:
        """Every commit below has been seen."""
        return self.durable.state.upper

    def _changed(self, before: TxnsState, after: TxnsState) -> None:
        if self.on_seen is not None:
            self.on_seen(self.durable.seqno)
        if self._validate:
            txns_state.check(after)
            assert before.upper <= after.upper
        if self.implicit and after.staged is not before.staged:
            self.implicit.intersection_update(after.staged)
        if self.on_prepared is not None and after.prepared is not before.prepared:
            self.on_prepared()
        self.wake()

    def wake(self) -> None:
        """Let everybody who waits for a change look again."""
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def changed(self) -> None:
        """Return at the next change of the txns shard that this process sees."""
        await self._moved.wait()

    async def wait_past(self, csn: Csn) -> None:
        """Return once the upper is past `csn`. Needs the follower, or commits of this process, to ever return."""
        while self.upper <= csn:
            await self._moved.wait()

    async def follow(self) -> None:
        """Bring in what other processes commit, for ever. Costs no consensus read while only we commit."""
        while True:
            seen = self.durable.seqno
            try:
                await self._consensus.watch(self.durable.key, seen)
                if not await self.durable.settled_past(seen):
                    await self.durable.refresh()
            except (Determinate, Indeterminate):
                await self._clock.sleep(FOLLOW_RETRY_S)

    def last_write(self, shard: ShardId) -> Csn:
        """The latest non-empty write of the registered `shard` below the upper. Raises KeyError when it is not."""
        return self.state.registered[shard].last_write

    def unapplied(self, shard: ShardId, upper: Csn) -> tuple[Write, ...]:
        """The committed writes that a data shard with that physical upper lacks, in CSN order.

        Stops before the first staged transaction whose outcome is not known here.
        """
        writes = self.state.pending.get(shard, ())
        if self.state.staged:
            known = [
                write for txid in self.implicit for write in self.state.staged[txid].writes if write.shard == shard
            ]
            if known:
                writes = tuple(sorted((*writes, *known), key=lambda write: write.csn))
            undecided = self.undecided(shard)
            if undecided is not None:
                writes = tuple(write for write in writes if write.csn < undecided.csn)
        if not writes or writes[0].csn >= upper:
            return writes
        return writes[bisect_left(writes, upper, key=_csn_of) :]

    def undecided(self, shard: ShardId) -> Staged | None:
        """The oldest staged transaction on `shard` of which this process does not know that it committed."""
        found = [
            record
            for txid, record in self.state.staged.items()
            if txid not in self.implicit and any(write.shard == shard for write in record.writes)
        ]
        return min(found, key=lambda record: record.csn) if found else None

    def first_staged(self, shard: ShardId) -> Csn | None:
        """The CSN of the oldest staged transaction on `shard`, whether or not its outcome is known here."""
        return min(
            (
                record.csn
                for record in self.state.staged.values()
                if any(write.shard == shard for write in record.writes)
            ),
            default=None,
        )

    def covers(self, shard: ShardId, state: ShardState) -> bool:
        """Whether `state` plus `unapplied` is all of the shard: nothing retracted is missing from it."""
        registration = self.state.registered.get(shard)
        if registration is None:
            return shard not in self.state.forgotten
        if registration.applied and state.upper <= registration.applied:
            return False
        return state.transitions >= registration.transitions
