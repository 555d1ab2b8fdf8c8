"""The local engine's databases, one or several for each class of statements, opened when they are first needed.

Each has the threads and the memory of its class (`adapter.admission.classes`), and spills into a folder of its own, up
to its part of what the disk has free. Of several, an execution gets the one that has the fewest. A statement that runs
under `temp_file_limit` has a database of its own, since the engine counts what is spilled by database; it is closed
with the execution, and its folder removed. Those of a role that has a `role_memory_limit` share one that has so much.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from adapter.admission.classes import CLASSES, Limits, WorkloadClass
from adapter.admission.machine import free_disk
from adapter.engines.local.inline_pool import InlinePool
from adapter.settings.values import number_of
from adapter.system_catalogs.local_engine import LocalCatalog
from adapter.system_catalogs.relations.contents import SystemCatalogs
from adapter.threads import Workers
from planner.errors import ObjectNotInPrerequisiteState
from planner.functions.engines import local as local_udfs

if TYPE_CHECKING:
    from adapter.engines.local.database import LocalDatabase

LIMITED_MEMORY_KB = 128 * 1024
"""What a statement under `temp_file_limit` takes of memory before it spills, in kB, unless `work_mem` is more."""

LEAST_MEMORY_KB = 32 * 1024
"""What a role's statements have of memory whatever its `role_memory_limit`, in kB: a database needs so much."""

SPILL_SHARE = 4
"""A database spills up to one of so many parts of what its disk has free when it is opened."""


SPARE_THREADS = 64
"""Threads of a class beside those that its slots take: for what counts in a heavier one by now, and for what ends."""


class Opened(Struct, frozen=True, kw_only=True):
    """A database and what is in it. `errors`: the classes of what it raises."""

    database: LocalDatabase
    catalog: LocalCatalog
    pool: InlinePool
    errors: tuple[type[Exception], ...]
    workers: Workers
    """The threads of its class."""
    limit_kb: int | None = None
    """What may be spilled, of a database that belongs to one execution."""
    role: str | None = None
    """Whose statements share it, of a database that belongs to a role: there is no more memory for these elsewhere."""
    folder: Path

    @property
    def is_own(self) -> bool:
        """Whether it belongs to one execution or role, for which a heavier class has no other one."""
        return self.limit_kb is not None or self.role is not None

    def drop_unused(self) -> None:
        """Drops the tables that nobody can refer to any more; blocks."""
        cursor = self.database.acquire()
        try:
            self.pool.drop_unused(cursor.connection)
        finally:
            self.database.release(cursor)

    def close(self) -> None:
        """Closes it, and removes what it has spilled; blocks."""
        self.database.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Held(Struct, eq=False):
    """One of the databases of a class, and how many executions have a cursor of it."""

    opening: asyncio.Future[Opened]
    executions: int = 0
    limit_kb: int = -1
    """The memory of a role's database."""
    is_left: bool = False
    """Whether no further execution gets a cursor of it."""


class Databases:
    """See the module. `directory` is a private scratch directory; `folders` are those whose files SQL can
    reach. Classes that have the same `limits` share their databases, and their threads."""

    def __init__(
        self,
        limits: Mapping[WorkloadClass, Limits],
        catalogs: SystemCatalogs,
        *,
        folders: Sequence[Path],
        directory: Path,
    ) -> None:
        self._limits = limits
        self._catalogs = catalogs
        self._folders = folders
        self._directory = directory
        self._numbers = itertools.count()
        self._held: dict[WorkloadClass, list[Held]] = {}
        self._of_roles: dict[str, Held] = {}
        self._workers: dict[WorkloadClass, Workers] = {}
        for name in CLASSES:
            same = next((other for other in self._held if limits[other] is limits[name]), None)
            self._held[name] = [] if same is None else self._held[same]
            limit = limits[name]
            self._workers[name] = (
                Workers(limit.slots + SPARE_THREADS, f"local-{name}", nice=limit.nice)
                if same is None
                else self._workers[same]
            )

    def workers(self, name: WorkloadClass) -> Workers:
        """The threads of a class."""
        return self._workers[name]

    def spilled_bytes(self) -> int:
        """Bytes of what executions keep on disk at present, beyond their memory: a look at the names of its files."""
        sizes = 0
        for path in self._directory.glob("*/*"):
            with contextlib.suppress(OSError):  # It may be gone by now.
                sizes += path.stat().st_size
        return sizes

    def warm(self) -> None:
        """Opens the database for small reads before one needs it."""
        self._pick("point")

    async def acquire(
        self, name: WorkloadClass, user: str = "", settings: Mapping[str, str] | None = None
    ) -> tuple[Opened, Held]:
        """The database for an execution (of a session of `user` that has these `settings`), once it is open; it counts
        there until `release`. Raises 55000 when it cannot be opened."""
        limit_kb = -1 if settings is None else role_limit_kb(settings)
        held = self._pick(name) if limit_kb < 0 else self._of_role(user, limit_kb)
        held.executions += 1
        try:
            opening = held.opening
            opened = opening.result() if opening.done() else await asyncio.shield(opening)
            return (opened if limit_kb < 0 else replace(opened, workers=self._workers[name])), held
        except Exception as error:
            self.release(held)
            raise _unavailable(error) from error
        except BaseException:
            self.release(held)
            raise

    def release(self, held: Held) -> None:
        """An execution that had `acquire`d a database does not use it any more."""
        held.executions -= 1
        is_left = held.is_left or (held.limit_kb >= 0 and held not in self._of_roles.values())
        if is_left and not held.executions:
            held.opening.add_done_callback(_close_unused)

    def _of_role(self, user: str, limit_kb: int) -> Held:
        """The database of a role; another one once its limit is another. What works in the one before ends there."""
        found = self._of_roles.get(user)
        if found is not None and found.limit_kb == limit_kb and not _is_unusable(found.opening):
            return found
        memory = max(limit_kb, LEAST_MEMORY_KB) << 10
        folder = f"role{next(self._numbers)}"
        opening = self._workers["interactive"].run(lambda: self._open(folder, "interactive", memory, role=user))
        self._of_roles[user] = Held(opening, limit_kb=limit_kb)
        if found is not None and not found.executions:
            found.opening.add_done_callback(_close_unused)
        return self._of_roles[user]

    async def limited(self, name: WorkloadClass, settings: Mapping[str, str]) -> Opened:
        """A database for one execution, which spills up to `temp_file_limit`. Raises 55000 when it cannot be opened."""
        limit_kb = number_of("temp_file_limit", settings["temp_file_limit"])
        memory_kb = max(LIMITED_MEMORY_KB, number_of("work_mem", settings["work_mem"]))
        if role_limit_kb(settings) >= 0:
            memory_kb = min(memory_kb, max(role_limit_kb(settings), LEAST_MEMORY_KB))
        folder = f"limited{next(self._numbers)}"
        opening = self._workers[name].run(lambda: self._open(folder, name, memory_kb << 10, limit_kb))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unused)
            raise
        except Exception as error:
            raise _unavailable(error) from error

    def opened(self) -> list[tuple[Opened, Workers]]:
        """The databases that are open now, with the threads of their class."""
        found: list[tuple[Opened, Workers]] = []
        for name, several in self._distinct():
            for held in several:
                opening = held.opening
                if opening.done() and not _has_failed(opening):
                    found.append((opening.result(), self._workers[name]))
        return found

    async def close(self) -> None:
        """Closes all, once no thread works in them any more."""
        for name, _ in self._distinct():
            await asyncio.to_thread(self._workers[name].close)
        for _, several in self._distinct():
            for held in several:
                await asyncio.wait([held.opening])
                if held.opening.exception() is None:
                    await asyncio.to_thread(held.opening.result().database.close)

    def _distinct(self) -> list[tuple[WorkloadClass, list[Held]]]:
        """A class for each list of databases, those of roles among them."""
        of_classes = {id(several): (name, several) for name, several in self._held.items()}
        return [*of_classes.values(), ("interactive", list(self._of_roles.values()))]

    def _pick(self, name: WorkloadClass) -> Held:
        limit, several = self._limits[name], self._held[name]
        for held in [held for held in several if _is_broken(held.opening)]:
            several.remove(held)
            held.is_left = True
            if not held.executions:
                held.opening.add_done_callback(_close_unused)
        if not several or (len(several) < limit.databases and all(held.executions for held in several)):
            folder = f"{name}{next(self._numbers)}"
            opening = self._workers[name].run(lambda: self._open(folder, name, limit.memory))
            several.append(Held(opening))
            return several[-1]
        return min(several, key=lambda held: held.executions)

    def _open(
        self, folder: str, name: WorkloadClass, memory: int, limit_kb: int | None = None, role: str | None = None
    ) -> Opened:
        """Opens a database, which spills up to `limit_kb`; blocks. Its own threads give way as the calling one does."""
        from adapter.engines.local import database as local_database

        made: list[LocalCatalog] = []
        scratch = self._directory / folder
        spilled_kb = free_disk(scratch) // SPILL_SHARE // 1024 if limit_kb is None else limit_kb
        database = local_database.LocalDatabase(
            directories=self._folders,
            scratch=scratch,
            memory_limit=f"{memory // 1024}KiB",
            scratch_limit=f"{spilled_kb}KiB",
            threads=self._limits[name].threads,
            register=(local_udfs.register, lambda connection: made.append(LocalCatalog(connection, self._catalogs))),
        )
        return Opened(
            database=database,
            catalog=made[0],
            pool=InlinePool(database),
            errors=(local_database.Error, pa.ArrowException, OSError),
            workers=self._workers[name],
            limit_kb=limit_kb,
            role=role,
            folder=scratch,
        )


def role_limit_kb(settings: Mapping[str, str]) -> int:
    """`role_memory_limit` in kB, -1 for none."""
    text = settings.get("role_memory_limit", "-1")
    return -1 if text == "-1" else int(number_of("role_memory_limit", text))


def _has_failed(opening: asyncio.Future[Opened]) -> bool:
    """Whether a database could not be opened."""
    return opening.done() and (opening.cancelled() or opening.exception() is not None)


def _is_broken(opening: asyncio.Future[Opened]) -> bool:
    """Whether a database runs nothing any more."""
    return opening.done() and not _has_failed(opening) and opening.result().database.is_broken


def _is_unusable(opening: asyncio.Future[Opened]) -> bool:
    return _has_failed(opening) or _is_broken(opening)


def _close_unused(opening: asyncio.Future[Opened]) -> None:
    """Closes a database that nobody uses any more, or whose execution has been cancelled before it was open."""
    if not opening.cancelled() and opening.exception() is None:
        asyncio.get_running_loop().run_in_executor(None, opening.result().close)


def _unavailable(error: Exception) -> ObjectNotInPrerequisiteState:
    return ObjectNotInPrerequisiteState(
        f"the local engine is not available: {error}", hint="Mend what is wrong and restart the server."
    )
