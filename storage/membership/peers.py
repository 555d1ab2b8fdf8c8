"""From one process to several: how a process that has an environment to itself makes room for others.

A process that is alone takes timestamps by itself, without I/O; several take them from the txns shard, which costs a
read of it per read timestamp. Which of the two holds is written in the leases:

1. A process that opens the environment and finds no other lease takes its own as ``sole``, atomically with that
   finding.
2. One that finds others takes a lease that is not ``sole``, and waits. It neither reads nor commits yet.
3. The ``sole`` process sees the new lease, switches to the shared oracle *first*, and then renews its own lease
   without ``sole``. Nothing that it served before can be missed: nobody else has committed.
4. When no live lease is ``sole`` any more, the newcomer begins.

5. A process that finds itself without any other lease again claims its own as ``sole``, atomically with that finding,
   brings its oracle up to all that is committed, and switches back. Whoever joins in between waits as in 2.

Processes of one host that share memory (`storage.host_memory`) are as one in this: each tells the others there how far
it has seen the txns shard come, before it uses or answers what it has seen (`TxnsCache.on_seen`). So one whose own copy
is as new as the newest of them has seen all that any of them has acknowledged, and needs to ask the store for nothing,
as long as nobody else can commit. The lease of each is ``sole`` when there are none but theirs, and each of them makes
room by itself; they ask the store (3), and claim again (5), without changing over to an oracle of their own.

SUBTLE: a process that is killed between its compare-and-set and telling has not answered its client. Whoever learns of
its commit from the store tells the others before it uses it; a reader who does not know of it yet has been told of
nothing that follows it.

A ``sole`` process that has died is recognised by `Liveness`, one that stands still by its lease: whoever waits for it
goes on once it has seen the lease unchanged for `LEASE_MS`. A process that takes timestamps by itself therefore renews
its lease first when it has not done so for most of that time, and so learns that it was deposed before it reads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from storage.catalog.store import CatalogStore
from storage.clock import Clock, Randomness
from storage.ids import CATALOG_SHARD
from storage.membership.leases import Leases
from storage.membership.liveness import Liveness
from storage.membership.watch import LEASE_MS
from storage.stores.consensus import Consensus
from storage.timestamps.csn import Csn
from storage.timestamps.in_process import InProcessOracle
from storage.timestamps.oracle import Timeline
from storage.timestamps.shared import TxnsOracle
from storage.timestamps.switching import SwitchingOracle
from storage.transactions.parallel_commit import ParallelCommit
from storage.transactions.txns_shard import TxnsShard
from storage.transactions.txns_state import Lease
from storage.transactions.xid_blocks import XidBlocks

JOIN_POLL_S = 0.02
"""How often a process that joins looks whether the others have made room."""


class Peers:
    """What one process does about the others: joins them, makes room for them, goes on when they have left."""

    def __init__(
        self,
        *,
        txns_shard: TxnsShard,
        staging: ParallelCommit,
        leases: Leases,
        catalog: CatalogStore,
        xids: XidBlocks,
        oracle: SwitchingOracle,
        shared_oracle: TxnsOracle,
        consensus: Consensus,
        clock: Clock,
        random: Randomness,
        process: str,
    ) -> None:
        self._txns_shard = txns_shard
        self._cache = txns_shard.cache
        self._staging = staging
        self._leases = leases
        self._catalog = catalog
        self._xids = xids
        self._oracle = oracle
        self.shared_oracle = shared_oracle
        self._consensus = consensus
        self._clock = clock
        self._random = random
        self._process = process
        self.before_sharing: list[Callable[[], Awaitable[None]]] = []
        """Awaited before others may commit to an environment that this process has had to itself."""
        self._own_oracle: InProcessOracle | None = None
        self._may_be_alone = False
        self._making_room = False

    @property
    def alone(self) -> bool:
        """Whether nobody else can commit."""
        return self._leases.sole and not self._making_room and self._leases.host is None

    @property
    def has_strangers(self) -> bool:
        """Whether processes may be at work, or are about to be, of which this one hears only by asking the store."""
        return not self._leases.sole or self._making_room

    def strangers(self) -> frozenset[str]:
        """The processes with a lease of which this one hears only by asking the store, as far as it knows of them."""
        return frozenset(self._strangers())

    async def living(self, processes: Collection[str]) -> frozenset[str]:
        """Those of `processes` that have a lease and have not certainly ended. Asks the store about those of which this
        process has not heard."""
        if any(name not in self._cache.state.leases for name in processes):
            await self._cache.durable.refresh()
        leases = self._cache.state.leases
        return frozenset(name for name in processes if name in leases and not self._leases.is_dead(name))

    def _strangers(self) -> dict[str, Lease]:
        """The leases of the processes that this one hears of only by asking the store."""
        leases = self._cache.state.leases
        own = leases.get(self._process)
        return {
            name: lease
            for name, lease in leases.items()
            if name != self._process and (own is None or not own.hears_of(lease))
        }

    async def join(self, liveness: Liveness) -> bool:
        """Take the lease, alone if nobody else has one that this process does not hear of. Returns whether it is."""
        self._may_be_alone = True
        liveness.announce(self._process)
        dead = [name for name in self._cache.state.leases if liveness.is_dead(name)]
        await self._txns_shard.tidy(expired=dead)
        await self._leases.claim()
        await self._staging.resolve_overdue()
        seen: dict[str, tuple[int, float]] = {}
        renewed = self._clock.monotonic()
        while not self._leases.sole:
            others = {name: lease.beats for name, lease in self._strangers().items() if lease.sole}
            if not others:
                break
            now = self._clock.monotonic()
            seen = {
                name: known if (known := seen.get(name)) is not None and known[0] == beats else (beats, now)
                for name, beats in others.items()
            }
            dead = [name for name in others if liveness.is_dead(name) or now - seen[name][1] > LEASE_MS / 1000]
            if dead:
                await self._txns_shard.tidy(expired={name: others[name] for name in dead})
            else:
                if now - renewed > LEASE_MS / 3000:
                    await self._leases.renew()
                    renewed = now
                await self._clock.sleep(JOIN_POLL_S)
                await self._cache.durable.refresh()
        return self._leases.sole

    async def own_oracle(self) -> InProcessOracle:
        """The oracle of a process that has the environment to itself, at or above everything committed so far."""
        last_write = self._cache.last_write(CATALOG_SHARD)
        floor: dict[Timeline, Csn] = {"user": Csn(self._cache.upper - 1), "catalog": last_write}
        if self._own_oracle is None:
            self._own_oracle = await InProcessOracle.open(self._consensus, self._clock, self._random, read_floor=floor)
        for timeline, ts in floor.items():
            await self._own_oracle.apply_write(timeline, ts, wait=False)
        return self._own_oracle

    async def react(self) -> None:
        """Do what the leases ask for: make room for who joins, or go on alone when everybody else has left."""
        if self._leases.sole and self._strangers():
            await self.make_room()
        present = self._process in self._cache.state.leases
        if self._may_be_alone and present and not self._strangers() and not self._asks_nobody:
            await self.go_on_alone()

    @property
    def _asks_nobody(self) -> bool:
        return self._leases.sole and (self._leases.host is not None or self._oracle.inner is self._own_oracle)

    async def make_room(self) -> None:
        """Another process is waiting to join: stop taking timestamps in this process, then say so."""
        self._making_room = True
        try:
            for wait in self.before_sharing:
                await wait()
            await self._xids.share()
            self._leases.sole = False
            self._oracle.switch(self.shared_oracle)
            await self._leases.keep_alive()
        finally:
            self._making_room = False

    async def go_on_alone(self) -> None:
        """Everybody else has left: take timestamps in this process again, unless another one comes first."""
        if not await self._leases.claim() or self._leases.host is not None:
            return
        while True:
            upper = self._cache.upper
            await self._catalog.catch_up()
            own = await self.own_oracle()
            await self._xids.keep_to_itself()
            # NOTE: the look and the switch in one step; what this process commits meanwhile must not be missed.
            if self._cache.upper == upper:
                break
        self._oracle.switch(own)
