"""What a server does by itself: loops that apply, keep the lease alive, follow the others, and maintain.

A store that fails is reported once and tried again at the next round; a process that learns that it was deposed says
so, and does nothing more of use. A loop that fails with an error that nobody has expected begins again, from the states
that are durable.

Each applies what it has committed. Of processes that share memory (`storage.host_memory`) the first that lives
maintains for all: it learns which shards were written to as it follows the txns shard. When it ends or is stopped the
next one does it, within seconds; for so long nobody waits, as nothing of it is urgent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import structlog

from storage.catalog.store import CatalogStore
from storage.clock import Clock
from storage.errors import EnvironmentFenced, StorageClosed, StorageError
from storage.host_memory import HostMemory
from storage.membership.leases import Leases
from storage.membership.peers import Peers
from storage.timestamps.csn import Csn
from storage.transactions.applier import Applier
from storage.transactions.txns_cache import TxnsCache
from storage.upkeep.maintenance import Maintenance
from storage.upkeep.troubles import Troubles

log = structlog.get_logger(__name__)

KEEP_ALIVE_S = 10.0
"""Interval of the one write of an idle process; a third of the lease, so that two may fail."""

APPLY_PAUSE_S = 0.25
"""How long commits gather before they are copied into their data shards together: readers do not need that, and each
copying takes a turn of the disk from the commits."""

MAINTENANCE_S = 1.0
"""Pause between rounds of maintenance."""

BEAT_S = 1.0
"""How often a process says in shared memory that it lives."""

ORPHAN_ROUNDS = 120
"""Rounds of maintenance between listings of the blob store for uploads that were never committed."""

FAILURE_PAUSE_S = 1.0
LAST_FAILURE_PAUSE_S = 60.0
"""Pause of a loop whose work has failed; twice as long each time, where nobody has expected that."""


class Background:
    """The loops of one process, from `start` to `stop`."""

    def __init__(
        self,
        *,
        cache: TxnsCache,
        applier: Applier,
        leases: Leases,
        peers: Peers,
        catalog: CatalogStore,
        maintenance: Maintenance,
        troubles: Troubles,
        clock: Clock,
        process: str,
        host: HostMemory | None = None,
        restarting: bool = True,
    ) -> None:
        """`restarting` False: errors that nobody has expected end a loop, so that tests learn of them."""
        self._cache = cache
        self._applier = applier
        self._leases = leases
        self._peers = peers
        self._catalog = catalog
        self._maintenance = maintenance
        self._troubles = troubles
        self._clock = clock
        self._process = process
        self._host = host
        self.tasks: list[asyncio.Task[None]] = []
        """The running loops, each with its name."""
        self.maintained = Csn(0)
        """The version of the catalog that the latest round of maintenance went by."""
        self.restarts = 0
        self.waits = 0
        """Loops that have failed, and wait to begin again."""
        self.error: str | None = None
        """Of the latest loop that has failed."""
        self._restarting = restarting

    def start(self) -> None:
        """Begin; needs a running event loop."""
        loops: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "storage-apply": self._apply,
            "storage-keep-alive": self._keep_alive,
            "storage-follow": self._cache.follow,
            "storage-catalog": self._react,
            "storage-maintenance": self._maintain,
        }
        if self._host is not None:
            # NOTE: at once, so that nobody else begins with the upkeep of all.
            self._host.beat(self._now_ms())
            loops["storage-beat"] = partial(self._beat, self._host)
        loop = asyncio.get_running_loop()
        self.tasks = [loop.create_task(self._kept(name, work), name=name) for name, work in loops.items()]

    async def stop(self) -> None:
        """End every loop, and return once they have ended."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self._host is not None:
            self._host.beat(0)

    async def _kept(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        pause_s = FAILURE_PAUSE_S
        while True:
            began = self._clock.monotonic()
            try:
                await work()
                return
            except Exception as error:
                if not self._restarting or isinstance(error, StorageClosed):
                    raise
                self.error = f"{name}: {error}"
                log.error("storage background work has failed, and begins again", loop=name, exc_info=error)
            if self._clock.monotonic() - began > LAST_FAILURE_PAUSE_S:
                pause_s = FAILURE_PAUSE_S
            self.waits += 1
            try:
                await self._clock.sleep(pause_s)
            finally:
                self.waits -= 1
            pause_s = min(LAST_FAILURE_PAUSE_S, pause_s * 2)
            self.restarts += 1

    async def _apply(self) -> None:
        while True:
            await self._applier.wanted.wait()
            await self._clock.sleep(APPLY_PAUSE_S)
            self._applier.wanted.clear()
            await self._surviving(self._applier.apply_all(), "apply")

    def _does_upkeep(self) -> bool:
        """Whether this process maintains: for itself, or for all that share its memory."""
        return self._host is None or self._host.does_upkeep(self._now_ms())

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    async def _beat(self, host: HostMemory) -> None:
        while True:
            await self._clock.sleep(BEAT_S)
            host.beat(self._now_ms())

    async def _keep_alive(self) -> None:
        while True:
            await self._clock.sleep(KEEP_ALIVE_S)
            await self._surviving(self._leases.keep_alive(), "keep-alive")

    async def _react(self) -> None:
        """React to what the txns shard brings: definitions of other processes, and processes that join."""
        while True:
            if self._catalog.is_behind:
                await self._surviving(self._catalog.catch_up(), "catalog")
            await self._surviving(self._peers.react(), "peers")
            if self._host is not None and self._does_upkeep():
                # What others may have applied.
                self._applier.touched.update(self._cache.state.pending)
            await self._cache.changed()

    async def _maintain(self) -> None:
        rounds = 0
        ours = self._does_upkeep()
        while True:
            await self._clock.sleep(MAINTENANCE_S)
            before, ours = ours, self._does_upkeep()
            if not ours:
                await self._surviving(self._maintenance.look_after_the_dead(), "maintenance")
                continue
            if not before:
                # What another process has applied and not maintained.
                self._applier.touched.update(self._cache.state.registered)
            followed = self._catalog.current().csn
            await self._surviving(
                self._maintenance.run(self._applier.touched, by_others=self._host is not None), "maintenance"
            )
            self.maintained = followed
            rounds += 1
            if rounds % ORPHAN_ROUNDS == 0:
                await self._surviving(self._maintenance.orphans.collect_new(), "orphans")

    async def _surviving(self, work: Coroutine[Any, Any, object], name: str) -> None:
        """Run background work; a failing store is reported and tried again at the next round."""
        try:
            await work
        except EnvironmentFenced as error:
            if self._leases.note_deposed(error):
                log.error("storage process was deposed", process=self._process, error=str(error))
        except StorageClosed:
            return
        except StorageError as error:
            self._troubles.failed(name, error)
            await self._clock.sleep(FAILURE_PAUSE_S)
            self._applier.apply_soon()
        else:
            self._troubles.succeeded(name)
