"""The local engine: DuckDB in this process, for catalog queries and small reads.

`execute` streams: at most a few batches of a result exist at a time, however long the client takes. All work runs on
threads; an execution holds one cursor of the database from its first step to the end of its stream. Cancel interrupts
that cursor.

Each execution has a class (`adapter.admission.classes`), by what its session asks for or its plan is expected to take,
and runs on a database of that class, with its threads and its memory (`databases`). For each step it takes a slot of
the class (`adapter.admission.admission`), or waits for one. What is answered at once (small tables, system relations,
no tables at all) runs on a database with a single thread: to wake others takes longer than such a query, and many of
them run at once. Rows that are only picked out of one small table need no database at all (`Lookup`). An execution that
takes longer than its class allows begins anew in the heavier one while nothing of its result has been given away;
afterwards it counts there from then on.

A database is loaded and opened on a thread too, when it is first needed or (`warm`) before; the executions that need
it wait for it, and nothing else does. When one cannot be opened every execution on it raises 55000, and the server
lives on.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from adapter.admission.admission import Admission, Place, Turn
from adapter.admission.classes import AT_ONCE, Limits, WorkloadClass
from adapter.engines.common.engine import ArrowTable, EngineName, RecordBatch, TableInput, WithoutTasks, WrittenPart
from adapter.engines.common.estimates import workload_class
from adapter.engines.common.lookups import Indexes
from adapter.engines.common.lowered_queries import AskedEngine, KnownQueries, KnownQuery
from adapter.engines.common.part_files import part_writers
from adapter.engines.common.scan_sources import DeletedRows, ScanPlan
from adapter.engines.local.databases import Databases, Held, Opened
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
from adapter.system_catalogs.local_engine import Scope
from adapter.system_catalogs.relations.contents import SystemCatalogs
from adapter.threads import Workers
from planner.common_errors import canceled
from planner.errors import ConfigurationLimitExceeded, DiskFull, OutOfMemory
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Literal as LiteralValue
from planner.ir.nodes import SystemScan
from planner.lowering.engine_errors import translate
from planner.lowering.fragments.sources import ScanSource
from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.layouts.layout import TableLayout
from storage.off_loop import MANY_COLUMNS

if TYPE_CHECKING:
    from adapter.engines.local.database import Cursor

BATCH_ROWS = 8192
"""Rows of a result batch: enough for columnar encoding to pay, little enough that wide rows stay small."""

CHUNK_BYTES = 1 << 20
"""A thread fetches batches up to this size at a time, so that small results take one switch of threads."""

INTERRUPT_AGAIN_SECONDS = 0.05
"""An interrupt that comes between two steps of the engine is lost; it is repeated until the thread is back."""

LEFT_AFTER_SECONDS = 0.4
"""A call of the engine that looks at no interrupt (one that makes a text of a gigabyte, say) is left alone after this
time: whoever cancelled is answered, and the thread ends when the call does."""

T = TypeVar("T")

_extra_names = itertools.count()


class _Execution(Struct, eq=False):
    """One query that has its cursor. `small` when it reads small tables only, and so nothing of the pool; `canceled` is
    set from the event loop and read by the worker thread; `ended` once its cursor has been given back."""

    opened: Opened
    cursor: Cursor
    place: Place | None
    limits: Limits
    workers: Workers
    small: bool
    canceled: bool = False
    moves: bool = False
    """Whether it is to begin anew in the heavier class."""
    has_heavier: bool = False
    """Whether there is a heavier class than the one that it has begun in."""
    spent_s: float = 0.0
    """What its steps have taken."""
    given: bool = False
    """Whether something of its result has been given away."""
    left: bool = False
    """Whether its thread has been left alone, and ends the execution itself."""
    ended: bool = False
    works: bool = False
    """Whether a thread uses the cursor: only then may it be interrupted, since another execution has it afterwards."""
    interrupted: bool = False
    """Whether it has been interrupted in the step that runs."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Of `works` and `interrupted`."""
    scans: dict[int, LocalScan] = field(default_factory=dict)
    resources: ExitStack = field(default_factory=ExitStack)
    files: list[FileRows] = field(default_factory=list)
    scope: Scope | None = None
    reader: Any = None
    step: asyncio.Future[Any] | None = None
    """What a thread does, or did last, for it."""

    def interrupt(self) -> None:
        """Interrupts the step that runs, if one does; from any thread."""
        with self.lock:
            if self.works:
                self.interrupted = True
                self.cursor.interrupt()

    @contextmanager
    def working(self) -> Iterator[None]:
        """A step of it, on a thread."""
        with self.lock:
            self.works, self.interrupted = True, False
        try:
            yield
        finally:
            self.leave_cursor()

    def leave_cursor(self) -> None:
        """The thread that works does not use the cursor any more."""
        with self.lock:
            self.works = False


class _Claim(Struct, eq=False):
    """What `cancel` finds of a query from its first moment on: its execution once it has one."""

    canceled: bool = False
    execution: _Execution | None = None


class _Moves(Exception):
    """The execution is to begin anew in the heavier class."""


class _Lost(Exception):
    """The execution is to begin anew in another database: an error of another one has taken its own."""


class LocalEngine(AskedEngine, WithoutTasks):
    """`Engine` on DuckDB. `directory` is a private scratch directory; `blob_root` the blob store's folder, where files
    are read, or None when it is not on this machine; `folders` are those of files of others that tables have
    (`storage.shards.links`)."""

    name: EngineName = "local"

    def __init__(
        self,
        env: Environment,
        *,
        blob_root: Path | None,
        directory: Path,
        admission: Admission | None = None,
        catalogs: SystemCatalogs | None = None,
        folders: Sequence[Path] = (),
    ) -> None:
        self._env = env
        self.catalogs = catalogs if catalogs is not None else SystemCatalogs()
        """The system relations' contents, shared with whoever names catalog objects."""
        self._admission = Admission() if admission is None else admission
        known = (*(() if blob_root is None else (blob_root,)), *folders)
        self._databases = Databases(self._admission.limits, self.catalogs, folders=known, directory=directory)
        self._at_once: Opened | None = None
        """The database for what is answered at once, when it is open."""
        self._deleted = DeletedRows(env.reader)
        self._small = SmallTables(env.reader, self._deleted)
        self._constant_columns = ConstantColumns()
        self._indexes = Indexes()
        self._known = KnownQueries("local")
        self._running: dict[str, set[_Claim]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        """Those that interrupt executions which have been cancelled, or left alone, until their threads are back."""

    def warm(self) -> None:
        """Opens the database for small reads before one needs it."""
        self._databases.warm()

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
        klass: WorkloadClass = "point"
        if not (small and known.is_short and context.settings.get("workload_class", "auto") == "auto"):
            klass = workload_class(query, tables, params, context, cores=self._admission.machine.cores, is_small=small)
            known.is_short = klass in AT_ONCE
        has_lost = False
        try:
            while True:
                try:
                    async with aclosing(
                        self._run(claim, klass, known, tables, plans, params, context, extra)
                    ) as batches:
                        async for batch in batches:
                            yield shape.conform(batch)
                    return
                except _Moves:
                    self._admission.moved += 1
                    klass = self._admission.limits[klass].heavier or klass
                except _Lost as error:
                    if has_lost:
                        raise translate("local", str(error.__cause__)) from error.__cause__
                    has_lost = True
        finally:
            running.discard(claim)
            if not running:
                self._running.pop(context.token, None)

    async def _run(
        self,
        claim: _Claim,
        klass: WorkloadClass,
        known: KnownQuery,
        tables: Mapping[int, TableInput],
        plans: Mapping[int, ScanPlan],
        params: Sequence[LiteralValue],
        context: ExecutionContext,
        extra: Mapping[int, ArrowTable] | None,
    ) -> AsyncGenerator[RecordBatch, None]:
        """The batches of one execution in a class. Raises _Moves and _Lost before the first one. What is answered at
        once takes no slots, since nobody would have to wait for one."""
        execution: _Execution | None = None
        held: Held | None = None
        with ExitStack() as places:
            place = None
            if klass not in AT_ONCE:
                place = places.enter_context(self._admission.place(context.token, context.user, klass))
            try:
                # NOTE: who asks for a class cannot get out of the limit of a role by that.
                small = klass in AT_ONCE and (
                    context.settings.get("role_memory_limit", "-1") == "-1"
                    or context.settings.get("workload_class", "auto") == "auto"
                )
                if context.settings.get("temp_file_limit", "-1") != "-1":
                    opened = await self._databases.limited(klass, context.settings)
                elif small and self._at_once is not None and not self._at_once.database.is_broken:
                    opened = self._at_once
                else:
                    asked = None if small else context.settings
                    opened, held = await self._databases.acquire(klass, context.user, asked)
                    if small:
                        self._at_once = opened
                execution = claim.execution = _Execution(
                    opened=opened,
                    cursor=opened.database.acquire(),
                    place=place,
                    limits=self._admission.limits[klass],
                    has_heavier=self._admission.limits[klass].heavier is not None,
                    workers=opened.workers,
                    small=all(map(is_small, plans.values())),
                )
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
                # Bound now: the loop variable of a closure would be the last one.
                begun = execution
                batches, more = await self._step(begun, lambda: self._begin(begun, known, params, context, extra))
                begun.given = True
                while True:
                    for batch in batches:
                        yield batch
                    if not more:
                        return
                    batches, more = await self._step(begun, lambda: self._fetch(begun))
            finally:
                if execution is not None and not execution.ended and not execution.left:
                    await asyncio.shield(execution.workers.run(partial(self._end, execution)))
                if execution is not None and execution.opened.limit_kb is not None and not execution.left:
                    await asyncio.shield(execution.workers.run(execution.opened.close))
                if held is not None:
                    self._databases.release(held)

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
            await self._databases.workers("point").run(lambda: known.row_scan(relation))
        source = known.lookup or known.row_scan(relation)
        if source is None:
            return None
        rows, indexes = tables[oid].picked, Indexes()
        if rows is None:
            rows, indexes = await self._small.rows(plan.columns, plan.inline, plan.deletes), self._indexes
        if is_wide:
            answer = source.answer
            return await self._databases.workers("point").run(lambda: answer(rows, params, Indexes()))
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
        layout: TableLayout | None = None,
        is_ordered: bool = False,
        extra: Mapping[int, ArrowTable],
    ) -> Sequence[Sequence[WrittenPart]]:
        """See `Engine.write`."""
        writers = part_writers(self._env, shard, columns, names, layout, is_ordered)
        async with aclosing(self.execute(query, tables, params, context, extra=extra)) as batches:
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
        for opened, workers in self._databases.opened():
            if opened.pool.has_unused:
                await workers.run(opened.drop_unused)

    def spilled_bytes(self) -> int:
        """Bytes that executions keep on disk at present, beyond their memory."""
        return self._databases.spilled_bytes()

    async def close(self) -> None:
        """See `Engine.close`; running statements are interrupted."""
        for token in list(self._running):
            await self.cancel(token)
        await asyncio.gather(*self._leaving)
        await self._databases.close()

    async def _step(self, execution: _Execution, work: Callable[[], T]) -> T:
        """Runs `work` on a thread, once there is a slot for it. When the caller is cancelled the cursor is interrupted;
        this returns when the thread has left `work`, or has been left alone with it. Raises _Moves and _Lost."""
        turn = None
        if execution.place is not None:
            turn = await self._admission.turn(self._admission.local, execution.place)
        loop = asyncio.get_running_loop()
        future = execution.step = execution.workers.run(work)
        began = loop.time()

        def leave(_: object) -> None:
            execution.spent_s += loop.time() - began
            if turn is not None:
                turn.leave()

        future.add_done_callback(leave)
        allowed_s = execution.limits.allowed_s
        late = None
        if allowed_s is not None:
            late = loop.call_later(max(0.0, allowed_s - execution.spent_s), self._late, execution, turn, future)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            execution.canceled = True
            await _interrupted(execution, future, LEFT_AFTER_SECONDS)
            if not future.done():
                execution.left = True
                self._keep(self._end_left(execution, future), "left-execution")
            raise
        finally:
            if late is not None:
                late.cancel()

    def _late(self, execution: _Execution, turn: Turn | None, step: asyncio.Future[Any]) -> None:
        """A step takes longer than its class allows: it counts in the heavier one from now on. What has given nothing
        away yet begins anew there, where that brings it more threads, or where it has to wait for its turn."""
        limits = execution.limits
        if limits.heavier is None or step.done() or execution.canceled:
            return
        lane, threads = self._admission.local[limits.heavier], self._admission.limits[limits.heavier].threads
        may_begin_anew = not execution.given and not execution.opened.is_own
        if may_begin_anew and (lane.is_full or threads > limits.threads):
            execution.moves = True
            self._keep(_interrupted(execution, step, None), "moving-execution")
            return
        if turn is not None:
            self._admission.move(self._admission.local, turn)
            execution.limits = self._admission.limits[turn.place.klass]

    def _keep(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Let `work` go on in a task that `close` waits for."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _end_left(self, execution: _Execution, future: asyncio.Future[Any]) -> None:
        """Ends an execution that has been left alone once its thread has left what it does."""
        await _interrupted(execution, future, None)
        if not execution.ended:
            await execution.workers.run(lambda: self._end(execution))
        if execution.opened.limit_kb is not None:
            await execution.workers.run(execution.opened.close)

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
        # NOTE: first, for what follows must be done in any case, and at its end others have the cursor.
        execution.leave_cursor()
        if execution.reader is not None:
            execution.reader.close()
            execution.reader = None
        execution.resources.close()
        for scan in execution.scans.values():
            scan.unregister(execution.cursor)
            release_scan(scan, execution.opened.pool)
        execution.opened.database.release(execution.cursor)

    @contextmanager
    def _translated(self, execution: _Execution) -> Iterator[None]:
        """Turns the engine's errors into ours. While a result streams, pyarrow wraps them."""
        if execution.canceled:
            raise canceled()
        try:
            with execution.working():
                yield
            if execution.interrupted and not execution.ended:
                # SUBTLE: it came when the engine had done this step. The engine would fail at the next one, when rows
                # have been given away, and what begins anew would give them again.
                raise canceled() if execution.canceled else _Moves
        except execution.opened.errors as error:
            # NOTE: first, for whatever becomes of this execution, others would begin there.
            lost = execution.opened.database.is_lost_before(error)
            if execution.canceled:
                raise canceled() from error
            if execution.moves:
                raise _Moves from error
            if execution.scope is not None and execution.scope.context.error is not None:
                raise execution.scope.context.error from error
            for rows in execution.files:
                trouble = rows.trouble(error)
                if trouble is not None:
                    raise trouble from error
            if lost and not execution.given:
                raise _Lost from error
            translated = translate("local", str(error))
            limit_kb = execution.opened.limit_kb
            if limit_kb is not None and isinstance(translated, DiskFull):
                raise ConfigurationLimitExceeded(
                    f"temporary file size exceeds temp_file_limit ({limit_kb}kB)"
                ) from error
            if execution.opened.role is not None and isinstance(translated, OutOfMemory):
                together = f'The statements of role "{execution.opened.role}" have role_memory_limit together.'
                raise OutOfMemory(translated.message, detail=together) from error
            begins_anew = execution.has_heavier and not execution.given and not execution.opened.is_own
            if begins_anew and isinstance(translated, OutOfMemory):
                # What is there may be taken by others of its class. In the heavier one it has memory of its own.
                raise _Moves from error
            raise translated from error


async def _interrupted(execution: _Execution, future: asyncio.Future[Any], patience_s: float | None) -> None:
    """Interrupts the cursor until `future` is done, for so long at most (None: as long as it takes)."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not future.done() and (patience_s is None or loop.time() < began + patience_s):
        execution.interrupt()
        await asyncio.wait([future], timeout=INTERRUPT_AGAIN_SECONDS)
    if future.done() and not future.cancelled():
        future.exception()
