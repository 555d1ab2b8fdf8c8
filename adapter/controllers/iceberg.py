"""Publishing by itself: what a database has to publish follows its commits within `EVERY_S` seconds.

Of all processes of an environment one publishes a database (`adapter.controllers.views.keeper_of`). While they do not
agree who is alive, two may: one of them is overtaken and begins again. Nobody waits for this, and a database without
published tables costs a look at the catalog when that has changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from adapter.controllers.views import keeper_of
from adapter.execution.controllers import Controller
from adapter.publishing.published_tables import published_relations
from adapter.publishing.pushing import Pusher
from adapter.publishing.service import Publishing
from planner.errors import SqlError
from storage.catalog.model import WHOLE, CatalogSnapshot, Database
from storage.environment.environment import Environment
from storage.errors import StorageError
from storage.timestamps.csn import Csn

log = structlog.get_logger(__name__)

EVERY_S = 5.0
"""How often changes are looked for: published tables are behind the commits by that, and by what publishing takes."""

LAST_RETRY_S = 60.0
MOST_DOUBLINGS = 10


class TableKeeper:
    """The publishing of one process, from `start` to `stop`."""

    def __init__(
        self,
        env: Environment,
        publishing: Publishing,
        controller: Controller,
        pusher: Pusher | None = None,
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._env = env
        self._controller = controller
        controller.owned = self._owned
        self._publishing = publishing
        self._pusher = pusher
        self._every_s = every_s
        self._known: tuple[CatalogSnapshot, tuple[int, ...]] | None = None
        self._done: dict[int, tuple[CatalogSnapshot, Csn]] = {}
        """By database: the catalog and the latest write of its tables when they were published."""

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._controller.start(partial(self._keep, self._look, "tables could not be published"))
        if self._pusher is not None:
            push = partial(self._push, self._pusher)
            self._controller.start(
                partial(self._keep, push, "tables and views could not be pushed to the Iceberg catalog")
            )

    async def stop(self) -> None:
        """End, and return once nothing is being published any more."""
        await self._controller.stop()

    async def _keep(self, look: Callable[[], Awaitable[None]], trouble: str) -> None:
        failures = 0
        while True:
            await self._env.clock.sleep(min(self._every_s * 2**failures, LAST_RETRY_S))
            try:
                await look()
            except (SqlError, StorageError) as error:
                failures = min(failures + 1, MOST_DOUBLINGS)
                self._controller.failed(error)
                log.warning(trouble, error=str(error))
            else:
                failures = 0

    async def _databases(self) -> tuple[int, ...]:
        """The databases that have published tables, or had some when this process began."""
        whole = self._env.catalog.current()
        if self._known is None or self._known[0] is not whole:
            before = () if self._known is None else self._known[1]
            found = []
            for oid, catalog in whole.databases.items():
                if oid == WHOLE:
                    continue
                if (
                    oid in before
                    or next(published_relations(catalog), None) is not None
                    or (self._known is None and (await self._publishing.published(oid)).tables)
                ):
                    found.append(oid)
            self._known = whole, tuple(sorted(found))
        self._controller.reached(whole.csn)
        return self._known[1]

    def _keeps(self, database: int) -> bool:
        """Whether it is this process that publishes the database."""
        env = self._env
        living = [p for p in env.cache.state.leases if p == env.process or not env.leases.is_dead(p)]
        return env.process == keeper_of(database, living)

    def _owned(self) -> int:
        """How many databases are this process's to publish."""
        return 0 if self._known is None else sum(map(self._keeps, self._known[1]))

    async def _look(self) -> None:
        for database in await self._databases():
            if self._keeps(database):
                await self._publish(database)

    async def _push(self, pusher: Pusher) -> None:
        for oid, catalog in self._env.catalog.current().databases.items():
            record = catalog.get(oid)
            if isinstance(record, Database) and record.name == pusher.database and self._keeps(oid):
                await pusher.push(catalog)

    async def _publish(self, database: int) -> None:
        env = self._env
        csn = await env.oracle.read_ts("user")
        whole = await env.catalog.snapshot_at(csn)
        catalog = whole.databases.get(database)
        if catalog is None:
            return
        relations = tuple(published_relations(catalog))
        written = max((env.reader.last_write(r.shard) for r in relations if r.shard is not None), default=Csn(0))
        known = self._done.get(database)
        if known is not None and known[0] is catalog and known[1] == written:
            return
        await self._publishing.publish(catalog, max(csn, catalog.csn))
        self._done[database] = catalog, written
