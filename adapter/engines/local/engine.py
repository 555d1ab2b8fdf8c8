"""The local engine: DuckDB in this process, for catalog queries and small reads.

`execute` streams: at most a few batches of a result exist at a time, however long the client takes. All work runs on
threads; an execution holds one cursor of the database from its first step to the end of its stream. Cancel interrupts
that cursor.

There are two databases. What reads small tables, system relations or no tables at all runs on one with a single thread:
to wake others takes longer than such a query, and many of them run at once. What reads larger tables runs on one with
a thread for each core. Rows that are only picked out of one small table need no database at all (`Lookup`).

A database is loaded and opened on a thread too, when it is first needed or (`warm`) before; the executions that need
it wait for it, and nothing else does. A statement that runs under `temp_file_limit` has a database of its own, since
the engine counts what is spilled by database; it is closed with the execution, and its folder removed. When one cannot
be opened every execution on it raises 55000, and the server lives on.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from msgspec import Struct, field

from adapter.engines.common.engine import ArrowTable, EngineName, RecordBatch, TableInput, WrittenPart
from adapter.engines.common.lookups import Indexes
from adapter.engines.common.lowered_queries import KnownQueries, KnownQuery
from adapter.engines.common.part_files import PartFileWriter
from adapter.engines.common.scan_sources import DeletedRows, ScanPlan
from adapter.engines.local.inline_pool import InlinePool
from adapter.engines.local.scans import (
    ConstantColumns,
    LocalScan,
    is_small,
    large_scan,
    plan_local,
    release_scan,
    small_scan,
)
from adapter.engines.local.small_tables import SmallTables
from adapter.execution_context import ExecutionContext
from adapter.lake.file_rows import FileRows
from adapter.settings.values import number_of
from adapter.system_catalogs.local_engine import LocalCatalog, Scope
from adapter.system_catalogs.relations.contents import SystemCatalogs
from adapter.threads import Workers
from planner.common_errors import canceled
from planner.errors import ConfigurationLimitExceeded, DiskFull, ObjectNotInPrerequisiteState
from planner.functions.engines import local as local_udfs
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Literal as LiteralValue
from planner.ir.nodes import SystemScan
from planner.lowering.engine_errors import translate
from planner.lowering.fragments.sources import ScanSource
from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.off_loop import MANY_COLUMNS

if TYPE_CHECKING:
    from adapter.engines.local.database import Cursor, LocalDatabase

BATCH_ROWS = 8192
"""Rows of a result batch: enough for columnar encoding to pay, little enough that wide rows stay small."""

CHUNK_BYTES = 1 << 20
"""A thread fetches batches up to this size at a time, so that small results take one switch of threads."""

LIMITED_MEMORY_KB = 128 * 1024
"""What a statement under `temp_file_limit` takes of memory before it spills, in kB, unless `work_mem` is more."""

MAX_THREADS = 64
"""Statements that run at once; more wait. Each may hold a thread for as long as its query computes."""

INTERRUPT_AGAIN_SECONDS = 0.05
"""An interrupt that comes between two steps of the engine is lost; it is repeated until the thread is back."""

LEFT_AFTER_SECONDS = 0.4
"""A call of the engine that looks at no interrupt (one that makes a text of a gigabyte, say) is left alone after this
time: whoever cancelled is answered, and the thread ends when the call does."""

T = TypeVar("T")

_extra_names = itertools.count()


class _Opened(Struct, frozen=True, kw_only=True):
    """The database and what is in it. `errors`: the classes of what it raises."""

    database: LocalDatabase
    catalog: LocalCatalog
    pool: InlinePool
    errors: tuple[type[Exception], ...]
    limit_kb: int | None = None
    """What may be spilled, of a database that belongs to one execution."""
    folder: Path


class _Execution(Struct, eq=False):
    """One query that has its cursor. `small` when it reads small tables only, and so nothing of the pool; `canceled` is
    set from the event loop and read by the worker thread; `ended` once its cursor has been given back."""

    opened: _Opened
    cursor: Cursor
    small: bool
    canceled: bool = False
    left: bool = False
    """Whether its thread has been left alone, and ends the execution itself."""
    ended: bool = False
    scans: dict[int, LocalScan] = field(default_factory=dict)
    resources: ExitStack = field(default_factory=ExitStack)
    files: list[FileRows] = field(default_factory=list)
    scope: Scope | None = None
    reader: Any = None
    step: asyncio.Future[Any] | None = None
    """What a thread does, or did last, for it."""


class _Claim(Struct, eq=False):
    """What `cancel` finds of a query from its first moment on: its execution once it has one."""

    canceled: bool = False
    execution: _Execution | None = None


class LocalEngine:
    """`Engine` on DuckDB. `directory` is a private scratch directory; `blob_root` the blob store's folder, where files
    are read, or None when it is not on this machine; `folders` are those of files of others that tables have
    (`storage.shards.links`). `memory_limit` is a size such as ``1GB``."""

    name: EngineName = "local"

    def __init__(
        self,
        env: Environment,
        *,
        blob_root: Path | None,
        directory: Path,
        memory_limit: str = "1GB",
        threads: int | None = None,
        catalogs: SystemCatalogs | None = None,
        folders: Sequence[Path] = (),
    ) -> None:
        self._env = env
        self.catalogs = catalogs if catalogs is not None else SystemCatalogs()
        """The system relations' contents, shared with whoever names catalog objects."""
        self._folders = (*(() if blob_root is None else (blob_root,)), *folders)
        self._directory = directory
        self._memory_limit = memory_limit
        self._threads = threads
        self._deleted = DeletedRows(env.reader)
        self._small = SmallTables(env.reader, self._deleted)
        self._constant_columns = ConstantColumns()
        self._indexes = Indexes()
        self._known = KnownQueries("local")
        self._workers = Workers(MAX_THREADS, "local-engine")
        self._running: dict[str, set[_Claim]] = {}
        self._numbers = itertools.count()
        """Of the databases that belong to one execution."""
        self._leaving: set[asyncio.Task[None]] = set()
        """Those that interrupt executions which have been cancelled, or left alone, until their threads are back."""
        self._serial: asyncio.Future[_Opened] | None = None
        self._parallel: asyncio.Future[_Opened] | None = None

    def warm(self) -> None:
        """Opens the database for small reads before one needs it."""
        if self._serial is None:
            self._serial = self._workers.run(lambda: self._open("serial", 1))

    def _open(
        self, name: str, threads: int | None, memory_limit: str | None = None, limit_kb: int | None = None
    ) -> _Opened:
        """Opens a database with `threads` threads (None: one for each core), which spills up to `limit_kb`; blocks."""
        from adapter.engines.local import database as local_database

        made: list[LocalCatalog] = []
        database = local_database.LocalDatabase(
            directories=self._folders,
            scratch=self._directory / name,
            memory_limit=self._memory_limit if memory_limit is None else memory_limit,
            scratch_limit=None if limit_kb is None else f"{limit_kb}KiB",
            threads=threads,
            register=(local_udfs.register, lambda connection: made.append(LocalCatalog(connection, self.catalogs))),
        )
        return _Opened(
            database=database,
            catalog=made[0],
            pool=InlinePool(database),
            errors=(local_database.Error, pa.ArrowException, OSError),
            limit_kb=limit_kb,
            folder=self._directory / name,
        )

    def unsupported(self, query: BoundQuery) -> str | None:
        """See `Engine.unsupported`."""
        known = self._known.of(query)
        return None if known.lookup is not None and known.lookup.is_certain else known.unsupported

    def knows(self, query: BoundQuery) -> bool:
        """See `Engine.knows`."""
        return self._known.has(query)

    async def execute(
        self,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[LiteralValue],
        context: ExecutionContext,
        *,
        extra: Mapping[int, ArrowTable] | None = None,
    ) -> AsyncGenerator[RecordBatch, None]:
        """See `Engine.execute`."""
        known = self._known.of(query)
        shape = known.shape
        plans = {oid: plan_local(tables[oid], row_ids=row_ids) for oid, row_ids in known.needs.tables.items()}
        small = all(map(is_small, plans.values())) and not query.files
        if small and len(plans) == 1:
            answer = await self._answer(known, tables, plans, params)
            if answer is not None:
                yield shape.conform(answer)
                return
        running = self._running.setdefault(context.token, set())
        claim = _Claim()
        running.add(claim)
        execution: _Execution | None = None
        try:
            spilled = context.settings.get("temp_file_limit", "-1")
            opened = await (self._opened(small) if spilled == "-1" else self._limited(small, context.settings))
            execution = claim.execution = _Execution(opened=opened, cursor=opened.database.acquire(), small=small)
            if claim.canceled:
                raise canceled()
            for oid, plan in plans.items():
                execution.scans[oid] = (
                    await small_scan(oid, tables[oid], plan, self._small)
                    if is_small(plan)
                    else await large_scan(
                        tables[oid], plan, reader=self._env.reader, pool=opened.pool, deleted=self._deleted
                    )
                )
            batches, more = await self._step(execution, lambda: self._begin(execution, known, params, context, extra))
            while True:
                for batch in batches:
                    yield shape.conform(batch)
                if not more:
                    return
                batches, more = await self._step(execution, lambda: self._fetch(execution))
        finally:
            running.discard(claim)
            if not running:
                self._running.pop(context.token, None)
            if execution is not None and not execution.ended and not execution.left:
                await asyncio.shield(self._workers.run(lambda: self._end(execution)))

    async def _answer(
        self,
        known: KnownQuery,
        tables: Mapping[int, TableInput],
        plans: Mapping[int, ScanPlan],
        params: Sequence[LiteralValue],
    ) -> RecordBatch | None:
        """The result of a query of one small table, without a database; None when it takes one."""
        ((oid, plan),) = plans.items()
        relation = tables[oid].relation
        is_wide = len(known.query.rel.fields) > MANY_COLUMNS
        if is_wide and known.lookup is None:
            await self._workers.run(lambda: known.row_scan(relation))
        source = known.lookup or known.row_scan(relation)
        if source is None:
            return None
        rows, indexes = tables[oid].picked, Indexes()
        if rows is None:
            rows, indexes = await self._small.rows(plan.columns, plan.inline, plan.deletes), self._indexes
        if is_wide:
            answer = source.answer
            return await self._workers.run(lambda: answer(rows, params, Indexes()))
        return source.answer(rows, params, indexes)

    async def write(
        self,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[LiteralValue],
        context: ExecutionContext,
        *,
        shard: ShardId,
        columns: Sequence[tuple[int, ...]],
        names: Sequence[Sequence[str]],
    ) -> Sequence[Sequence[WrittenPart]]:
        """See `Engine.write`."""
        writers = [PartFileWriter(self._env, shard, *pair) for pair in zip(columns, names, strict=True)]
        async with aclosing(self.execute(query, tables, params, context)) as batches:
            async for batch in batches:
                for writer in writers:
                    await writer.write(batch)
        return [await writer.finish() for writer in writers]

    async def cancel(self, token: str) -> None:
        """See `Engine.cancel`."""
        for claim in self._running.get(token, ()):
            claim.canceled = True
            execution = claim.execution
            if execution is not None:
                execution.canceled = True
                if execution.step is not None:
                    self._keep(_interrupted(execution, execution.step, None), "cancelled-execution")

    async def drop_unused(self) -> None:
        """Drops the tables of the databases that nobody can refer to any more."""
        for opening in (self._serial, self._parallel):
            if opening is not None and opening.done() and not opening.cancelled() and opening.exception() is None:
                opened = opening.result()
                if opened.pool.has_unused:
                    await self._workers.run(partial(_drop_unused, opened))

    async def close(self) -> None:
        """See `Engine.close`; running statements are interrupted."""
        for token in list(self._running):
            await self.cancel(token)
        await asyncio.gather(*self._leaving)
        await asyncio.to_thread(self._workers.close)
        for opening in (self._serial, self._parallel):
            if opening is not None:
                await asyncio.wait([opening])
                if opening.exception() is None:
                    await asyncio.to_thread(opening.result().database.close)

    async def _opened(self, small: bool) -> _Opened:
        """The database for reads of small tables, or that for others, once it is open. Raises 55000 when it cannot be
        opened."""
        if small:
            self.warm()
        elif self._parallel is None:
            self._parallel = self._workers.run(lambda: self._open("parallel", self._threads))
        opening = self._serial if small else self._parallel
        assert opening is not None
        try:
            return opening.result() if opening.done() else await asyncio.shield(opening)
        except Exception as error:
            raise _unavailable(error) from error

    async def _limited(self, small: bool, settings: Mapping[str, str]) -> _Opened:
        """A database for one execution, which spills up to `temp_file_limit`. Raises 55000 when it cannot be
        opened."""
        limit_kb = number_of("temp_file_limit", settings["temp_file_limit"])
        memory_kb = max(LIMITED_MEMORY_KB, number_of("work_mem", settings["work_mem"]))
        name, threads = f"limited{next(self._numbers)}", 1 if small else self._threads
        opening = self._workers.run(lambda: self._open(name, threads, f"{memory_kb}KiB", limit_kb))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._keep(self._close_unused(opening), "unused-database")
            raise
        except Exception as error:
            raise _unavailable(error) from error

    async def _close_unused(self, opening: asyncio.Future[_Opened]) -> None:
        """Closes a database whose execution has been cancelled before it was open."""
        await asyncio.wait([opening])
        if opening.exception() is None:
            await self._workers.run(partial(_close, opening.result()))

    async def _step(self, execution: _Execution, work: Callable[[], T]) -> T:
        """Runs `work` on a thread. When the caller is cancelled the cursor is interrupted; this returns when the thread
        has left `work`, or has been left alone with it."""
        future = execution.step = self._workers.run(work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            execution.canceled = True
            await _interrupted(execution, future, LEFT_AFTER_SECONDS)
            if not future.done():
                execution.left = True
                self._keep(self._end_left(execution, future), "left-execution")
            raise

    def _keep(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Let `work` go on in a task that `close` waits for."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _end_left(self, execution: _Execution, future: asyncio.Future[Any]) -> None:
        """Ends an execution that has been left alone once its thread has left what it does."""
        await _interrupted(execution, future, None)
        if not execution.ended:
            await self._workers.run(lambda: self._end(execution))

    def _begin(
        self,
        execution: _Execution,
        known: KnownQuery,
        params: Sequence[LiteralValue],
        context: ExecutionContext,
        extra: Mapping[int, ArrowTable] | None,
    ) -> tuple[list[RecordBatch], bool]:
        cursor = execution.cursor.connection
        with self._translated(execution):
            if not execution.small:
                execution.opened.pool.drop_unused(cursor)
            tables = {oid: scan.source(execution.cursor, self._env.blob) for oid, scan in execution.scans.items()}
            system = known.needs.system
            if system:
                tables.update(self._entered(execution, context, system).sources)
            for key, rows in (extra or {}).items():
                name = f"extra{next(_extra_names)}"
                if isinstance(rows, FileRows):
                    execution.files.append(rows)
                    pieces = [(f"{name}_{number}", piece) for number, piece in enumerate(rows.pieces())]
                    for source, piece in pieces:
                        cursor.register(source, piece.source)
                        execution.resources.callback(cursor.unregister, source)
                    tables[key] = ScanSource(rows.local_select(pieces))
                    continue
                cursor.register(name, rows.rename_columns([f"c{index + 1}" for index in range(rows.num_columns)]))
                execution.resources.callback(cursor.unregister, name)
                tables[key] = ScanSource(name)
            text = known.text(tables, params, context)
            if text.names_execution and not system:
                self._entered(execution, context, {})
            for oid, scan in execution.scans.items():
                scan.offer(execution.cursor, self._constant_columns, text.constants.get(oid, ()))
            execution.reader = execution.cursor.stream(text.sql, BATCH_ROWS, text.values)
            return self._next_batches(execution)

    @staticmethod
    def _entered(
        execution: _Execution, context: ExecutionContext, system: Mapping[int, tuple[SystemScan, bool]]
    ) -> Scope:
        """Makes the relations of `system` and, for catalog functions, `context` known until the execution ends."""
        entering = execution.opened.catalog.entered(system, context, execution.cursor.connection)
        execution.scope = execution.resources.enter_context(entering)
        return execution.scope

    def _fetch(self, execution: _Execution) -> tuple[list[RecordBatch], bool]:
        """The next batches, and whether there may be more; without more the execution has ended."""
        with self._translated(execution):
            return self._next_batches(execution)

    def _next_batches(self, execution: _Execution) -> tuple[list[RecordBatch], bool]:
        batches: list[RecordBatch] = []
        size = 0
        while size < CHUNK_BYTES:
            try:
                batch = execution.reader.read_next_batch()
            except StopIteration:
                for rows in execution.files:
                    rows.check()
                self._end(execution)
                return batches, False
            batches.append(batch)
            size += batch.nbytes
        return batches, True

    @staticmethod
    def _end(execution: _Execution) -> None:
        execution.ended = True
        if execution.reader is not None:
            execution.reader.close()
            execution.reader = None
        execution.resources.close()
        for scan in execution.scans.values():
            scan.unregister(execution.cursor)
            release_scan(scan, execution.opened.pool)
        execution.opened.database.release(execution.cursor)
        if execution.opened.limit_kb is not None:
            _close(execution.opened)

    @contextmanager
    def _translated(self, execution: _Execution) -> Iterator[None]:
        """Turns the engine's errors into ours. While a result streams, pyarrow wraps them."""
        if execution.canceled:
            raise canceled()
        try:
            yield
        except execution.opened.errors as error:
            if execution.canceled:
                raise canceled() from error
            if execution.scope is not None and execution.scope.context.error is not None:
                raise execution.scope.context.error from error
            for rows in execution.files:
                trouble = rows.trouble(error)
                if trouble is not None:
                    raise trouble from error
            translated = translate("local", str(error))
            limit_kb = execution.opened.limit_kb
            if limit_kb is not None and isinstance(translated, DiskFull):
                raise ConfigurationLimitExceeded(
                    f"temporary file size exceeds temp_file_limit ({limit_kb}kB)"
                ) from error
            raise translated from error


def _unavailable(error: Exception) -> ObjectNotInPrerequisiteState:
    return ObjectNotInPrerequisiteState(
        f"the local engine is not available: {error}", hint="Mend what is wrong and restart the server."
    )


def _close(opened: _Opened) -> None:
    """Closes a database that belonged to one execution, and removes what it has spilled; blocks."""
    opened.database.close()
    shutil.rmtree(opened.folder, ignore_errors=True)


async def _interrupted(execution: _Execution, future: asyncio.Future[Any], patience_s: float | None) -> None:
    """Interrupts the cursor until `future` is done, for so long at most (None: as long as it takes)."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not future.done() and (patience_s is None or loop.time() < began + patience_s):
        execution.cursor.interrupt()
        await asyncio.wait([future], timeout=INTERRUPT_AGAIN_SECONDS)
    if future.done() and not future.cancelled():
        future.exception()


def _drop_unused(opened: _Opened) -> None:
    """Runs on a thread."""
    cursor = opened.database.acquire()
    try:
        opened.pool.drop_unused(cursor.connection)
    finally:
        opened.database.release(cursor)
