"""What keeps an environment small, in rounds: compaction, the end of dead processes, and the removal of garbage.

Any process may do any of this at any time; whoever comes second finds it done. A crash loses work, never data.

How far history may be folded: a process reads at its lease's `read_lower` and above. A shard's since may follow the
lowest of all live leases, and stops at the shard's own holds.
"""

from __future__ import annotations

from storage.errors import Determinate, Indeterminate, UnknownShard
from storage.ids import ShardId
from storage.membership.watch import LeaseWatch
from storage.transactions.parallel_commit import ParallelCommit
from storage.upkeep.compactor import Compactor
from storage.upkeep.garbage import GarbageCollector
from storage.upkeep.orphans import OrphanCollector
from storage.upkeep.troubles import Troubles


class Maintenance:
    """The rounds of one process."""

    def __init__(
        self,
        *,
        compactor: Compactor,
        garbage: GarbageCollector,
        orphans: OrphanCollector,
        watch: LeaseWatch,
        staging: ParallelCommit,
        troubles: Troubles,
    ) -> None:
        self.compactor = compactor
        self.garbage = garbage
        self.orphans = orphans
        self.watch = watch
        self._staging = staging
        self._troubles = troubles

    async def run(self, touched: set[ShardId]) -> None:
        """One round: compact what was written to, then remove what has become garbage."""
        for shard in list(touched):
            touched.discard(shard)
            if self.compactor.is_due(shard):
                work = f"compaction of {shard}"
                try:
                    await self.compactor.compact(shard)
                except UnknownShard:
                    self._troubles.succeeded(work)  # Dropped meanwhile.
                except (Determinate, Indeterminate) as error:
                    self._troubles.failed(work, error)
                    touched.add(shard)
                else:
                    self._troubles.succeeded(work)
        await self.watch.bury_dead()
        await self._staging.resolve_overdue()
        await self.garbage.collect()
