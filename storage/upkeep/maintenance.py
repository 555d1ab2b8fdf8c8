"""What keeps an environment small, in rounds: compaction, the end of dead processes, and the removal of garbage.

Any process may do any of this at any time; whoever comes second finds it done. Of those that share memory one does it
for all (`storage.environment.background`), and each looks after the dead. A crash loses work, never data.

How far history may be folded: a process reads at its lease's `read_lower` and above. A shard's since may follow the
lowest of all live leases. What is folded stays readable for as long as the shard's retention says, and for its holds
(`storage.shards.history`, `storage.upkeep.retention`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from storage.errors import CorruptData, Determinate, Indeterminate, UnknownShard
from storage.ids import ShardId
from storage.membership.watch import LeaseWatch
from storage.transactions.parallel_commit import ParallelCommit
from storage.upkeep.compactor import Compactor
from storage.upkeep.garbage import GarbageCollector
from storage.upkeep.indexing import Indexer
from storage.upkeep.orphans import OrphanCollector
from storage.upkeep.troubles import Troubles


class Maintenance:
    """The rounds of one process."""

    def __init__(
        self,
        *,
        compactor: Compactor,
        indexer: Indexer,
        garbage: GarbageCollector,
        orphans: OrphanCollector,
        watch: LeaseWatch,
        staging: ParallelCommit,
        troubles: Troubles,
    ) -> None:
        self.compactor = compactor
        self.indexer = indexer
        self.garbage = garbage
        self.orphans = orphans
        self.watch = watch
        self._staging = staging
        self._troubles = troubles

    async def run(self, touched: set[ShardId], *, by_others: bool = False) -> None:
        """One round: compact what was written to, index that and what has other indexes now, then remove garbage.
        `by_others`: other processes have written to it too, so that this one has to look."""
        for shard in sorted(self.indexer.changed()):
            await self._work(f"key runs of {shard}", self.indexer.index, shard, touched)
        for shard in sorted(touched):
            touched.discard(shard)
            if by_others:
                await self._work(f"the state of {shard}", self.compactor.look, shard, touched)
            if self.compactor.is_due(shard):
                await self._work(f"compaction of {shard}", self.compactor.compact, shard, touched)
                if self.compactor.is_waiting(shard):
                    # NOTE: perhaps nobody writes to it again, which would bring it back.
                    touched.add(shard)
            if self.indexer.is_due(shard):
                await self._work(f"key runs of {shard}", self.indexer.index, shard, touched)
        await self.look_after_the_dead()
        await self.compactor.expire()
        await self.garbage.collect()

    async def look_after_the_dead(self) -> None:
        """End the leases of dead processes, and the transactions that they left undecided."""
        await self.watch.bury_dead()
        await self._staging.resolve_overdue()

    async def _work(
        self, name: str, work: Callable[[ShardId], Awaitable[int]], shard: ShardId, touched: set[ShardId]
    ) -> None:
        try:
            await work(shard)
        except UnknownShard:
            self._troubles.succeeded(name)  # Dropped meanwhile.
        except (Determinate, Indeterminate) as error:
            self._troubles.failed(name, error)
            touched.add(shard)
        except CorruptData as error:
            self._troubles.failed(name, error)
        else:
            self._troubles.succeeded(name)
