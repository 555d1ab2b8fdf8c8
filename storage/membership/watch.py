"""Watching the leases of the other processes, and ending those of the dead.

SUBTLE: no two wall clocks are compared. A lease that has not moved for `LEASE_MS` of this process's monotonic clock
belongs to a process that may be declared dead; `Liveness` may know it sooner.
"""

from __future__ import annotations

import structlog

from storage.clock import Clock
from storage.membership.liveness import Liveness
from storage.transactions.applier import Applier
from storage.transactions.txns_shard import TxnsShard
from storage.transactions.txns_state import Lease

log = structlog.get_logger(__name__)

LEASE_MS = 30_000
"""A process that has not renewed its lease for so long may be declared dead."""


class LeaseWatch:
    """What one process knows of the others' leases."""

    def __init__(
        self, *, txns_shard: TxnsShard, applier: Applier, liveness: Liveness | None, clock: Clock, process: str
    ) -> None:
        self._txns_shard = txns_shard
        self._cache = txns_shard.cache
        self._applier = applier
        self._liveness = liveness
        self._clock = clock
        self._process = process
        self._watched: dict[str, tuple[Lease, float]] = {}
        """By process, its lease as last seen, and since when it has been so (monotonic)."""

    def is_dead(self, process: str) -> bool:
        """Whether `process` has certainly ended, as far as that can be told without waiting for its lease."""
        return self._liveness is not None and self._liveness.is_dead(process)

    def observe(self) -> frozenset[str]:
        """Note which leases have moved. Returns the processes that are dead or have not renewed theirs in time."""
        now = self._clock.monotonic()
        before, self._watched = self._watched, {}
        dead = set()
        for process, lease in self._cache.state.leases.items():
            seen = before.get(process)
            since = seen[1] if seen is not None and seen[0] == lease else now
            self._watched[process] = (lease, since)
            if process != self._process and ((now - since) * 1000 > LEASE_MS or self.is_dead(process)):
                dead.add(process)
        return frozenset(dead)

    async def bury_dead(self) -> frozenset[str]:
        """End the leases of processes that stopped renewing them. Returns the processes."""
        dead = self.observe()
        if dead:
            # Newer beats may be durable already.
            await self._cache.durable.refresh()
            dead = self.observe() & dead
        if dead:
            log.info("ending the leases of dead processes", processes=sorted(dead))
            await self._txns_shard.tidy(expired=dead)
            self._applier.apply_soon()
        return dead
