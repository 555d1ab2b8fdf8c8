"""The controllers of a process: what does the work that follows from the catalog and that no statement does.

Nobody commands a controller. Each subscribes to the catalog and says up to which of its versions it has followed (its
*catalog frontier*); a definition is committed whether or not they have seen it. A statement is planned with the catalog
of a CSN; where it needs what a controller has made of that catalog, it waits for that controller (`caught_up`) and for
no other.

A controller that fails, with whatever error, begins again from the catalog after a pause, each longer than the one
before until it has gone well for a while. That is logged, and shown in `tidegate.controllers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import structlog

from adapter.wall_clock import utc_now
from storage.catalog.store import CatalogDelta, CatalogStore
from storage.clock import Clock
from storage.environment.environment import Environment
from storage.timestamps.csn import Csn, csn_ms

log = structlog.get_logger(__name__)

STATISTICS = "statistics"
"""Whose answer depends on which databases have the extension pg_stat_statements."""

CONTROLLERS = "controllers"
"""What each worker is asked for tidegate.controllers."""

FIRST_PAUSE_S = 0.5
LAST_PAUSE_S = 60.0
MOST_DOUBLINGS = 10

CALM_S = 60.0
"""What goes well for so long has not failed before, as far as its pauses go."""


class Controller:
    """One controller of this process: its loops, its frontier, and what became of it."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.frontier = Csn(0)
        """It has followed the catalog up to here."""
        self.restarts = 0
        self.failures = 0
        """Pieces of its work that failed and are tried again."""
        self.error: str | None = None
        """Of the latest failure."""
        self.failed_at: datetime | None = None
        self.waits = 0
        """Of its loops, those that wait to begin again."""
        self.owned: Callable[[], int] = lambda: 0
        """How many pieces of work are this process's."""
        self._clock = clock
        self._moved = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, *loops: Callable[[], Awaitable[None]]) -> None:
        """Run these from now on, each for ever, however often it fails."""
        running = asyncio.get_running_loop()
        self._tasks += [running.create_task(self._keep(each), name=f"controller-{self.name}") for each in loops]

    async def stop(self) -> None:
        """End them, and return once they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def reached(self, csn: Csn) -> None:
        """It has followed the catalog up to `csn`."""
        if csn > self.frontier:
            self.frontier = csn
            moved, self._moved = self._moved, asyncio.Event()
            moved.set()

    async def caught_up(self, csn: Csn) -> None:
        """Return once it has followed the catalog up to `csn`."""
        while self.frontier < csn:
            await self._moved.wait()

    def failed(self, error: BaseException) -> None:
        """A piece of its work has failed and will be tried again."""
        self.failures += 1
        self.error, self.failed_at = str(error) or type(error).__name__, utc_now()

    async def _keep(self, work: Callable[[], Awaitable[None]]) -> None:
        tries = 0
        while True:
            began = self._clock.monotonic()
            try:
                await work()
                return
            except Exception as error:
                tries = 1 if self._clock.monotonic() - began > CALM_S else tries + 1
                pause_s = min(LAST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(tries - 1, MOST_DOUBLINGS))
                self.failed(error)
                log.error("a controller has failed", controller=self.name, retry_s=pause_s, exc_info=error)
            self.waits += 1
            try:
                await self._clock.sleep(pause_s)
            finally:
                self.waits -= 1
            self.restarts += 1


class Controllers:
    """Those of one process, by name."""

    def __init__(self, env: Environment, worker: int) -> None:
        self._env = env
        self._worker = worker
        self._all: dict[str, Controller] = {}

    def add(self, name: str) -> Controller:
        """A new one."""
        made = self._all[name] = Controller(name, self._env.clock)
        return made

    def all(self) -> Iterator[Controller]:
        """Every one."""
        return iter(self._all.values())

    async def caught_up(self, name: str, csn: Csn) -> None:
        """Return once the controller `name` has followed the catalog up to `csn`; at once when there is none."""
        found = self._all.get(name)
        if found is not None:
            await found.caught_up(csn)

    async def stop(self) -> None:
        """End all of them."""
        await asyncio.gather(*(each.stop() for each in self._all.values()))

    def rows(self) -> list[Mapping[str, Any]]:
        """tidegate.controllers of this process: these, and the storage's own upkeep."""
        env, background = self._env, self._env.background
        rows: list[Mapping[str, Any]] = [
            {
                "controller": each.name,
                "catalog_csn": int(each.frontier),
                "is_running": each.waits == 0,
                "owned": each.owned(),
                "restarts": each.restarts,
                "failures": each.failures,
                "error": each.error,
                "failed_at": each.failed_at,
            }
            for each in self._all.values()
        ]
        trouble = next(iter(env.troubles.all().items()), None)
        rows.append(
            {
                "controller": "storage",
                "catalog_csn": int(background.maintained),
                "is_running": background.waits == 0,
                "owned": len(env.applier.touched),
                "restarts": background.restarts,
                "failures": env.troubles.failures,
                "error": background.error if trouble is None else f"{trouble[0]}: {trouble[1]}",
                "failed_at": None,
            }
        )
        return [
            {"server": env.process, "worker": self._worker, "catalog_time": _moment(row["catalog_csn"]), **row}
            for row in rows
        ]


async def follow(controller: Controller, catalog: CatalogStore, take: Callable[[CatalogDelta, bool], None]) -> None:
    """Give each change of the catalog to `take`, for ever; the first, with True, is all that there is."""
    changes: AsyncIterator[CatalogDelta] = catalog.subscribe_at(catalog.current().csn)
    first = True
    async for delta in changes:
        take(delta, first)
        first = False
        controller.reached(delta.csn)


def _moment(csn: int) -> datetime | None:
    return None if csn <= 0 else datetime.fromtimestamp(csn_ms(Csn(csn)) / 1000, UTC)
