"""Keeping materialized views fresh: those refreshed ``on commit`` soon after what they read has changed, in groups that
are brought to one moment together (`adapter.controllers.view_groups`), those refreshed ``every`` so often when their
time has come.

Of all processes of an environment one refreshes a group: the live one whose name and the oid of the group's first view
give the highest number, so that groups are spread and each process knows its own without asking. While the processes do
not agree who is alive (a killed one counts until its lease has run out), two may refresh a view at once: the rows and
the journal's row are one commit, and only one of two that begin from the same row can make it.

Nobody waits for this. A read of a view refreshed on commit is exact without it; it only gets cheaper.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, Protocol

import structlog
from msgspec import Struct

from adapter.access.roles import role_name
from adapter.controllers.view_groups import Group, groups_of, left_behind
from adapter.execution.controllers import Controller, follow
from adapter.execution.session_state import SessionState
from adapter.materialized.freshness import digest_of_inputs, has_changed, inputs_of
from adapter.materialized.journal import last_refresh
from adapter.materialized.views_read import grows_old, is_exact
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
from storage.catalog.store import CatalogDelta
from storage.environment.environment import Environment
from storage.errors import AsOfNotReadable, StorageError, UnknownShard
from storage.timestamps.csn import Csn

log = structlog.get_logger(__name__)

GATHER_S = 0.02
"""How long changes gather before views are looked at."""

LONGEST_PAUSE_S = 10.0
"""How often views are looked at though nothing has changed: a process may have ended."""

LONGEST_WAIT_S = 5.0
"""How long a view that is left behind waits for those that it reads, before it is computed from the tables."""

MAX_AT_ONCE = 2
"""Refreshes of one process at a time: sessions of users want the machine too."""

FIRST_RETRY_S = 1.0
LAST_RETRY_S = 60.0
"""Pauses before a refresh that has failed is tried again, each twice the one before."""

MOST_DOUBLINGS = 10

SETTINGS = (("application_name", "tidegate views"), ("default_transaction_isolation", "repeatable read"))


class Client(Protocol):
    """A session, as far as refreshing needs one."""

    @property
    def state(self) -> SessionState:
        """What it keeps from its start to its end."""
        ...

    def execute_simple(self, text: str) -> Any:
        """Runs a query string; an asynchronous iterator of results."""
        ...

    async def close(self) -> None:
        """Ends the session."""
        ...


OpenSession = Callable[[StartupParameters], Awaitable[Client]]


class _State(Struct):
    """What this process remembers of a view: not before when it is refreshed again, how often that has failed, and
    since when it has been left behind."""

    not_before: float = 0.0
    failures: int = 0
    left_since: float | None = None


class _Turn:
    """A turn of a group: the moment that its views are brought to, those that were not, and the sessions that it has
    open. They are opened as they are needed, each for one refresh at a time."""

    def __init__(self, group: Group, moment: Csn | None, open_session: OpenSession, ends: AsyncExitStack) -> None:
        self.group = group
        self.moment = moment
        self.missed: set[int] = set()
        self._open_session = open_session
        self._ends = ends
        self._free: list[Client] = []

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Client]:
        """A session that brings views to the turn's moment. Raises as `Server.open_session`."""
        session = self._free.pop() if self._free else await self._opened()
        yield session
        # NOTE: not after a failure. Whatever has happened to the session, nobody else meets it.
        self._free.append(session)

    async def _opened(self) -> Client:
        catalog = self.group.catalog
        database = catalog.get(catalog.database)
        assert isinstance(database, Database)
        startup = StartupParameters(
            user=role_name(catalog, BOOTSTRAP_SUPERUSER_OID),
            database=database.name,
            settings=SETTINGS,
            remote_address=None,
        )
        session = await self._open_session(startup)
        self._ends.push_async_callback(_closed, session)
        session.state.refreshed_to = self.moment
        return session


class ViewKeeper:
    """The refreshing of one process, from `start` to `stop`."""

    def __init__(self, env: Environment, open_session: OpenSession, controller: Controller) -> None:
        self._env = env
        self._open_session = open_session
        self._controller = controller
        controller.owned = self._owned
        self._states: dict[int, _State] = {}
        self._rests: dict[int, float] = {}
        """By group, until when it leaves the machine to others."""
        self._running: dict[int, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(MAX_AT_ONCE)
        self._groups: Mapping[int, tuple[CatalogSnapshot, tuple[Group, ...]]] = {}
        """By database, with the catalog that they are of: the views that servers keep."""
        self._defined = asyncio.Event()
        """Set when there are other groups than there were."""
        self._done = asyncio.Event()

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._controller.start(partial(follow, self._controller, self._env.catalog, self._follow), self._keep)

    async def stop(self) -> None:
        """End, and return once nothing is being refreshed any more."""
        await self._controller.stop()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            if not any(groups for _, groups in self._groups.values()):
                # NOTE: without waiting for commits, which do not pay for views that are not there.
                self._defined.clear()
                await self._defined.wait()
                continue
            pause_s = LONGEST_PAUSE_S
            try:
                pause_s = await self._look()
            except StorageError as error:
                self._controller.failed(error)
                log.warning("materialized views could not be looked at", error=str(error))
            await self._moved(pause_s)

    async def _moved(self, pause_s: float) -> None:
        """Return when something has been committed, when a turn has ended, or after the pause."""
        waiting = [
            asyncio.ensure_future(work)
            for work in (
                self._env.cache.changed(),
                self._done.wait(),
                self._defined.wait(),
                self._env.clock.sleep(pause_s),
            )
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
        self._done.clear()
        self._defined.clear()
        await self._env.clock.sleep(GATHER_S)

    def _follow(self, delta: CatalogDelta, is_first: bool) -> None:
        """The catalog has changed, or (`is_first`) is this: the groups of the databases that it changes are others."""
        whole, known = delta.snapshot, {} if is_first else self._groups
        found: dict[int, tuple[CatalogSnapshot, tuple[Group, ...]]] = {}
        for oid, catalog in whole.databases.items():
            if oid != WHOLE:
                before = known.get(oid)
                is_same = before is not None and before[0] is catalog
                found[oid] = before if is_same and before is not None else (catalog, groups_of(catalog))
        self._groups = found
        self._states = {oid: state for oid, state in self._states.items() if oid in whole.records}
        self._rests = {oid: rest for oid, rest in self._rests.items() if oid in whole.records}
        self._defined.set()

    def _all_groups(self) -> Iterator[Group]:
        return (group for _, groups in self._groups.values() for group in groups)

    def _living(self) -> list[str]:
        """The processes that share the work."""
        env = self._env
        return [p for p in env.cache.state.leases if p == env.process or not env.leases.is_dead(p)]

    def _owned(self) -> int:
        """How many views are this process's to refresh."""
        living = self._living()
        groups = (group for group in self._all_groups() if keeper_of(group.key, living) == self._env.process)
        return sum(len(group.below) for group in groups)

    async def _look(self) -> float:
        """Begin the turns that are due. Returns how long no other will be, as far as is known (seconds)."""
        env = self._env
        living = self._living()
        pause_s = LONGEST_PAUSE_S
        for group in self._all_groups():
            if group.key in self._running or env.process != keeper_of(group.key, living):
                continue
            now = max(Csn(env.cache.upper - 1), group.catalog.csn)
            waits_s = [
                wait_s for view in group.views() if (wait_s := await self._turn_in(group, view, now)) is not None
            ]
            if not waits_s:
                continue
            wait_s = max(min(waits_s), self._rests.get(group.key, 0.0) - env.clock.monotonic())
            if wait_s > 0:
                pause_s = min(pause_s, wait_s)
                continue
            turn = asyncio.get_running_loop().create_task(self._turn(group), name=f"refresh-{group.key}")
            self._running[group.key] = turn
        return pause_s

    async def _turn_in(self, group: Group, view: Relation, now: Csn) -> float | None:
        """In how many seconds the view needs a turn of its group; None: not before something changes."""
        wait_s = await self._due_in(group.catalog, view, now)
        if wait_s is None:
            return None
        clock_s, state = self._env.clock.monotonic(), self._states.setdefault(view.oid, _State())
        # When those that it reads are tried again, or it is computed without them.
        below = max((self._states[oid].not_before for oid in group.below[view.oid] if oid in self._states), default=0.0)
        if state.left_since is not None:
            below = min(below, state.left_since + LONGEST_WAIT_S)
        return max(wait_s, state.not_before - clock_s, below - clock_s)

    async def _due_in(self, catalog: CatalogSnapshot, view: Relation, at: Csn) -> float | None:
        """In how many seconds the view is to be refreshed, by what was committed up to `at`; None: not before something
        changes."""
        how, env = view.materialized, self._env
        assert how is not None
        found = await last_refresh(env, how.journal, at)
        if found is None:
            return 0.0
        if how.refresh == "every":
            return (found.at_us + how.interval_us) / 1_000_000 - env.clock.now_ms() / 1000
        if found.inputs != digest_of_inputs(catalog, view):
            return 0.0
        for table in inputs_of(catalog, view):
            shard = table.shard
            try:
                if shard is None or env.reader.last_write(shard) <= found.frontier:
                    continue
                if found.frontier < at and await has_changed(env, shard, found.frontier, at):
                    return 0.0
            except (AsOfNotReadable, UnknownShard):
                return 0.0
        return 0.0 if grows_old(env, catalog, view, found, at) else None

    async def _turn(self, group: Group) -> None:
        """Bring the views of the group that are due to one moment, level by level."""
        env = self._env
        began = env.clock.monotonic()
        try:
            async with AsyncExitStack() as ends:
                moment: Csn | None = None
                if any(map(is_exact, group.views())):
                    moment = await env.oracle.read_ts("user")
                    await ends.enter_async_context(await env.leases.hold((), moment))
                turn = _Turn(group, moment, self._open_session, ends)
                for level in group.levels:
                    async with asyncio.TaskGroup() as tasks:
                        for view in level:
                            tasks.create_task(self._bring(turn, view))
        except StorageError as error:
            self._controller.failed(error)
            log.warning("materialized views could not be refreshed", error=str(error))
        except Exception as error:
            self._controller.failed(error)
            log.error("materialized views could not be refreshed", exc_info=error)
            for view in group.views():
                self._try_later(view)
        finally:
            ended = env.clock.monotonic()
            # Half of the time at most.
            self._rests[group.key] = ended + (ended - began)
            self._running.pop(group.key, None)
            self._done.set()

    async def _bring(self, turn: _Turn, view: Relation) -> None:
        """Refresh the view if it is due and need not wait."""
        group = turn.group
        state = self._states.setdefault(view.oid, _State())
        at = max(Csn(self._env.cache.upper - 1), group.catalog.csn) if turn.moment is None else turn.moment
        try:
            wait_s = await self._due_in(group.catalog, view, at)
            if wait_s is None or wait_s > 0:
                state.left_since = None
                return
            if self._must_wait(turn, view, state):
                turn.missed.add(view.oid)
                return
            async with self._places, turn.session() as session:
                await _refresh(session, group.catalog, view)
        except Exception as error:
            turn.missed.add(view.oid)
            pause_s = self._try_later(view)
            self._controller.failed(error)
            expected = isinstance(error, SqlError | StorageError)
            log.warning(
                "a materialized view could not be refreshed",
                view=view.name,
                error=str(error),
                retry_s=pause_s,
                exc_info=None if expected else error,
            )
        else:
            state.failures, state.not_before, state.left_since = 0, 0.0, None

    def _try_later(self, view: Relation) -> float:
        """The view's refresh has failed; returns after how long it is tried again (seconds)."""
        state = self._states.setdefault(view.oid, _State())
        state.failures += 1
        pause_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(state.failures - 1, MOST_DOUBLINGS))
        state.not_before = self._env.clock.monotonic() + pause_s
        return pause_s

    def _must_wait(self, turn: _Turn, view: Relation, state: _State) -> bool:
        """Whether the view, which is due, is not brought to the turn's moment."""
        now = self._env.clock.monotonic()
        if state.not_before > now:
            return True
        if not left_behind(turn.group, view, turn.missed):
            return False
        state.left_since = now if state.left_since is None else state.left_since
        return now < state.left_since + LONGEST_WAIT_S


async def _refresh(session: Client, catalog: CatalogSnapshot, view: Relation) -> None:
    schema = catalog.get(view.schema)
    assert isinstance(schema, Schema)
    name = f"{quote_identifier(schema.name)}.{quote_identifier(view.name)}"
    async for _ in session.execute_simple(f"REFRESH MATERIALIZED VIEW {name}"):
        pass


async def _closed(session: Client) -> None:
    with suppress(SqlError):
        await session.close()


def keeper_of(oid: int, living: list[str]) -> str | None:
    """Which of the `living` processes does what is known by `oid` (rendezvous hashing: when one goes, only its work
    moves)."""
    return max(living, key=lambda process: (zlib.crc32(f"{process}/{oid}".encode()), process), default=None)
