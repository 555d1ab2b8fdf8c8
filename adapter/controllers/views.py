"""Keeping materialized views fresh: those refreshed ``on commit`` soon after what they read has changed, those
refreshed ``every`` so often when their time has come.

Of all processes of an environment one refreshes a view: the live one whose name and the view's oid give the highest
number, so that views are spread and each process knows its own without asking. While the processes do not agree who is
alive (a killed one counts until its lease has run out), two may refresh a view at once: the rows and the journal's row
are one commit, and only one of two that begin from the same row can make it.

Nobody waits for this. A read of a view refreshed on commit is exact without it; it only gets cheaper.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol

import structlog
from msgspec import Struct

from adapter.access.roles import role_name
from adapter.materialized.freshness import digest_of_inputs, inputs_of
from adapter.materialized.journal import last_refresh
from adapter.materialized.views_read import exact_views, is_behind
from adapter.results import StartupParameters
from planner.errors import SqlError
from planner.syntax.identifiers import quote_identifier
from storage.catalog.model import (
    BOOTSTRAP_SUPERUSER_OID,
    WHOLE,
    CatalogSnapshot,
    Database,
    Relation,
    Schema,
)
from storage.environment.environment import Environment
from storage.errors import StorageError
from storage.timestamps.csn import Csn

log = structlog.get_logger(__name__)

GATHER_S = 0.02
"""How long changes gather before views are looked at."""

IDLE_S = 0.5
"""How often a process without views to keep looks whether there are any now."""

LONGEST_PAUSE_S = 10.0
"""How often views are looked at though nothing has changed: a process may have ended."""

LONGEST_WAIT_S = 5.0
"""How long a view waits for the views that it reads to be refreshed before it."""

MAX_AT_ONCE = 2
"""Refreshes of one process at a time: sessions of users want the machine too."""

FIRST_RETRY_S = 1.0
LAST_RETRY_S = 60.0
"""Pauses before a refresh that has failed is tried again, each twice the one before."""

SETTINGS = (("application_name", "tidegate views"), ("default_transaction_isolation", "repeatable read"))


class Client(Protocol):
    """A session, as far as refreshing needs one."""

    def execute_simple(self, text: str) -> Any:
        """Runs a query string; an asynchronous iterator of results."""
        ...

    async def close(self) -> None:
        """Ends the session."""
        ...


OpenSession = Callable[[StartupParameters], Awaitable[Client]]


class _State(Struct):
    """What this process remembers of a view: not before when it is refreshed again, how often that has failed, and
    since when it is due but waits for views that it reads."""

    not_before: float = 0.0
    failures: int = 0
    waits_since: float | None = None


class ViewKeeper:
    """The refreshing of one process, from `start` to `stop`."""

    def __init__(self, env: Environment, open_session: OpenSession) -> None:
        self._env = env
        self._open_session = open_session
        self._states: dict[int, _State] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(MAX_AT_ONCE)
        self._kept: tuple[CatalogSnapshot, tuple[tuple[CatalogSnapshot, Relation], ...]] | None = None
        self._loop: asyncio.Task[None] | None = None
        self._done = asyncio.Event()

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._loop = asyncio.get_running_loop().create_task(self._keep(), name="materialized-views")

    async def stop(self) -> None:
        """End, and return once nothing is being refreshed any more."""
        tasks = [*self._running.values(), *([] if self._loop is None else [self._loop])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            if not self._views():
                # NOTE: without waiting for commits, which do not pay for views that are not there.
                await self._env.clock.sleep(IDLE_S)
                continue
            pause_s = LONGEST_PAUSE_S
            try:
                pause_s = await self._look()
            except StorageError as error:
                log.warning("materialized views could not be looked at", error=str(error))
            await self._moved(pause_s)

    async def _moved(self, pause_s: float) -> None:
        """Return when something has been committed, when a refresh has ended, or after the pause."""
        waiting = [
            asyncio.ensure_future(work)
            for work in (self._env.cache.changed(), self._done.wait(), self._env.clock.sleep(pause_s))
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
        self._done.clear()
        await self._env.clock.sleep(GATHER_S)

    def _views(self) -> tuple[tuple[CatalogSnapshot, Relation], ...]:
        """The views that servers keep, each with the catalog of its database."""
        whole = self._env.catalog.current()
        if self._kept is None or self._kept[0] is not whole:
            catalogs = [catalog for oid, catalog in whole.databases.items() if oid != WHOLE]
            self._kept = whole, tuple((catalog, view) for catalog in catalogs for view in _kept_views(catalog))
            self._states = {oid: state for oid, state in self._states.items() if oid in whole.records}
        return self._kept[1]

    async def _look(self) -> float:
        """Begin to refresh what is due. Returns how long nothing else will be, as far as is known (seconds)."""
        dead = self._env.leases.is_dead
        living = [p for p in self._env.cache.state.leases if p == self._env.process or not dead(p)]
        pause_s = LONGEST_PAUSE_S
        for catalog, view in self._views():
            if view.oid in self._running or self._env.process != keeper_of(view.oid, living):
                continue
            state = self._states.setdefault(view.oid, _State())
            wait_s = await self._due_in(catalog, view)
            if wait_s is None:
                continue
            if await self._waits(catalog, view, state):
                pause_s = min(pause_s, LONGEST_WAIT_S)
                continue
            wait_s = max(wait_s, state.not_before - self._env.clock.monotonic())
            if wait_s > 0:
                pause_s = min(pause_s, wait_s)
                continue
            refreshing = self._refresh(catalog, view, state)
            self._running[view.oid] = asyncio.get_running_loop().create_task(refreshing, name=f"refresh-{view.oid}")
        return pause_s

    async def _due_in(self, catalog: CatalogSnapshot, view: Relation) -> float | None:
        """In how many seconds the view is to be refreshed; None: not before something changes."""
        how, env = view.materialized, self._env
        assert how is not None
        now = max(Csn(env.cache.upper - 1), catalog.csn)
        found = await last_refresh(env, how.journal, now)
        if found is None:
            return 0.0
        if how.refresh == "every":
            return (found.at_us + how.interval_us) / 1_000_000 - env.clock.now_ms() / 1000
        changed = found.inputs != digest_of_inputs(catalog, view) or any(
            table.shard is not None and env.reader.last_write(table.shard) > found.frontier
            for table in inputs_of(catalog, view)
        )
        return 0.0 if changed else None

    async def _waits(self, catalog: CatalogSnapshot, view: Relation, state: _State) -> bool:
        """Whether views that this one reads are to be refreshed first, from whose changes its own then follows. It does
        not wait for long: their refreshes may fail."""
        how, env = view.materialized, self._env
        assert how is not None
        below = exact_views(catalog, view) if how.refresh == "on commit" else ()
        if below:
            now = max(Csn(env.cache.upper - 1), catalog.csn)
            last = await last_refresh(env, how.journal, now)
            if last is not None and any([await is_behind(env, catalog, each, now, last.frontier) for each in below]):
                clock_s = env.clock.monotonic()
                state.waits_since = clock_s if state.waits_since is None else state.waits_since
                return clock_s < state.waits_since + LONGEST_WAIT_S
        state.waits_since = None
        return False

    async def _refresh(self, catalog: CatalogSnapshot, view: Relation, state: _State) -> None:
        clock = self._env.clock
        began = clock.monotonic()
        try:
            async with self._places:
                began = clock.monotonic()
                await self._run(catalog, view)
        except (SqlError, StorageError) as error:
            state.failures += 1
            pause_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** (state.failures - 1))
            state.not_before = clock.monotonic() + pause_s
            log.warning("a materialized view could not be refreshed", view=view.name, error=str(error), retry_s=pause_s)
        else:
            ended = clock.monotonic()
            # Half of the time at most.
            state.failures, state.not_before = 0, ended + (ended - began)
        finally:
            self._running.pop(view.oid, None)
            self._done.set()

    async def _run(self, catalog: CatalogSnapshot, view: Relation) -> None:
        database, schema = catalog.get(catalog.database), catalog.get(view.schema)
        assert isinstance(database, Database)
        assert isinstance(schema, Schema)
        startup = StartupParameters(
            user=role_name(catalog, BOOTSTRAP_SUPERUSER_OID),
            database=database.name,
            settings=SETTINGS,
            remote_address=None,
        )
        session = await self._open_session(startup)
        try:
            name = f"{quote_identifier(schema.name)}.{quote_identifier(view.name)}"
            async for _ in session.execute_simple(f"REFRESH MATERIALIZED VIEW {name}"):
                pass
        finally:
            with suppress(SqlError):
                await session.close()


def keeper_of(oid: int, living: list[str]) -> str | None:
    """Which of the `living` processes refreshes the view (rendezvous hashing: when one goes, only its views move)."""
    return max(living, key=lambda process: (zlib.crc32(f"{process}/{oid}".encode()), process), default=None)


def _kept_views(catalog: CatalogSnapshot) -> Iterator[Relation]:
    for record in catalog.all():
        how = record.materialized if isinstance(record, Relation) else None
        if isinstance(record, Relation) and how is not None and how.populated and how.is_kept:
            yield record
