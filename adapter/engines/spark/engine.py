"""The Spark engine: everything can run here; everything above the fast-path limit does.

A result is collected as Arrow when it is known to be small (`result_size`), and otherwise spooled: the executors write
it as Parquet files, which are streamed in order and deleted. A collected result that outgrows the limit after all
is run again and spooled. Rows written by `write` go from the executors straight to files under the blob root, which
then get the names of parts and are made durable; they never pass this process.

Each execution has a job group named by its token, which `cancel` ends, jobs to come included.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog

from adapter.admission.admission import Admission
from adapter.engines.common.engine import ArrowTable, EngineName, RecordBatch, RowTasks, TableInput, WrittenPart
from adapter.engines.common.estimates import workload_class
from adapter.engines.common.executor_files import reaches_store
from adapter.engines.common.lowered_queries import AskedEngine, KnownQueries
from adapter.engines.common.result_batches import ResultShape
from adapter.engines.common.result_size import generates_rows, size_bound
from adapter.engines.common.scan_sources import DeletedRows
from adapter.engines.spark.cluster.executor_writes import FileSet, WrittenSets
from adapter.engines.spark.cluster.object_store import SIDE_FILES, ClusterStore, file_set, store_in_folder
from adapter.engines.spark.cluster.side_files import FolderFiles, SideFiles, StoredFiles
from adapter.engines.spark.context_settings import SparkSettings
from adapter.engines.spark.folder_writes import (
    clear_abandoned,
    file_rows,
    moved,
    outputs_of,
    write_parquet,
    write_sets,
    written_folders,
)
from adapter.engines.spark.frames import RunningSpark
from adapter.engines.spark.limits.execution import Execution, goes_beyond, limit_of
from adapter.engines.spark.plans import SparkPlans
from adapter.engines.spark.profiles import POOL, STORING, Mode, Profile, profile_for, spark_settings
from adapter.engines.spark.result_spool import ROW_GROUP_BYTES, FolderSpool, SpooledResult, StoredSpool
from adapter.engines.spark.results import ResultTooLarge, SparkStopped, spark_error, told_error, trouble_with
from adapter.engines.spark.runtime import Spark, SparkRuntime
from adapter.engines.spark.statements import Statement, arranged, named
from adapter.engines.spark.views import SparkScan, SparkViews, prepare_scan, spark_columns
from adapter.engines.spark.warming import exercise
from adapter.execution_context import ExecutionContext
from adapter.lake.databases import RemoteRows
from adapter.lake.file_rows import FileRows, kept
from planner.errors import FeatureNotSupported, OutOfMemory, SqlError
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Literal as LiteralValue
from planner.lowering.fragments.sources import ScanSource
from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.lake.places import is_url
from storage.layouts.layout import TableLayout
from storage.stores.object_place import ObjectPlace

log = structlog.get_logger(__name__)

T = TypeVar("T")

FEW_ROWS = 10_000
"""Results of up to so many rows are turned into Arrow in the driver; of more, by the tasks."""

CHUNK_BYTES = 1 << 20
"""A thread reads batches of a spool up to this size at a time."""

CANCEL_AGAIN_SECONDS = 0.5
"""Between two jobs of a statement there is nothing to cancel; cancelling is repeated until its thread is back."""

LEFT_AFTER_SECONDS = 0.4
"""The driver's planning looks at no cancel request: it is left alone after this time, and what it makes is removed."""

_groups = itertools.count(1)


class SparkEngine(AskedEngine):
    """`Engine` on Spark. `start` begins to start it in the background; the first statement waits for it.

    `master` and `conf` as spark-submit has them (``spark.driver.memory`` is the JVM's heap); `directory` is a private
    scratch directory of this process. `shared` is the folder where the workers of a server meet that share a JVM, and
    `worker` the number of this one. `place` is the object store that executors read and write by themselves; without
    it they use the blob store's folder. Several engines may share a `runtime`; it is then given instead.
    """

    name: EngineName = "spark"

    def __init__(
        self,
        env: Environment,
        *,
        directory: Path,
        master: str = "local[*]",
        remote: str | None = None,
        conf: Sequence[tuple[str, str]] = (),
        shared: Path | None = None,
        worker: int = 0,
        runtime: SparkRuntime | None = None,
        new_runtime: Callable[[SparkSettings], SparkRuntime] = SparkRuntime,
        place: ObjectPlace | None = None,
        admission: Admission | None = None,
    ) -> None:
        self._env = env
        self._admission = Admission() if admission is None else admission
        self._numbers = itertools.count(1)
        settings = SparkSettings(
            directory=directory.absolute(),
            shared=shared,
            worker=worker,
            tag=f"process-{env.process}",
            folders=written_folders(env),
            master=master,
            remote=remote,
            conf=tuple(conf),
            place=place,
        )
        self._runtime = new_runtime(settings) if runtime is None else runtime
        self._settings = self._runtime.settings
        self._store = None if self._settings.place is None else ClusterStore(self._settings.place, env.parts)
        self._folder_store = store_in_folder(env.blob, env.parts) if self._store is None else None
        self._deleted = DeletedRows(env.reader)
        self._known = KnownQueries("spark")
        self._kept_lock = threading.Lock()
        self._kept: tuple[RunningSpark, SparkViews, SparkPlans | None] | None = None
        self._running: dict[str, set[Execution]] = {}
        self._leaving: set[asyncio.Future[None]] = set()
        self._closing = False

    @property
    def is_started(self) -> bool:
        """Whether Spark runs."""
        return self._runtime.current() is not None

    @property
    def progress(self) -> str:
        """How far the start has come, in words."""
        return self._runtime.progress

    def start(self) -> None:
        """Begins to start Spark; returns at once."""
        self._runtime.start()

    async def take_over(self) -> None:
        """Ends what an earlier process in this worker's place has left in Spark."""
        await self._runtime.run(self._runtime.take_over)

    async def warm(self) -> None:
        """Starts Spark, and exercises it while nobody else uses it. Raises 55000 when it cannot be started."""
        await asyncio.to_thread(clear_abandoned, self._env)
        spark = await self._runtime.ready()
        views, plans = self._prepared(spark)

        def run() -> None:
            try:
                if isinstance(spark, Spark) and plans is not None:
                    exercise(spark, views, plans, idle=lambda: not self._running, ended=lambda: self._closing)
            except Exception as error:
                if not self._closing and spark.alive:
                    raise spark_error(error) from error

        await self._runtime.run(run)

    async def ask(self, question: Callable[[Any], T]) -> T:
        """What `question` answers, of the JVM. It blocks, on a thread of its own. Raises 55000 without a JVM."""
        spark = await self._runtime.ready()
        if not isinstance(spark, Spark):
            raise FeatureNotSupported("other databases cannot be looked at through Spark Connect")
        return await self._runtime.run(lambda: question(spark.jvm))

    def unsupported(self, query: BoundQuery) -> str | None:
        """See `Engine.unsupported`."""
        if query.system:
            return "a system catalog cannot be read on the spark engine"
        return self._known.of(query).unsupported

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
        shape = ResultShape(query.rel.fields)
        with self._execution(query, tables, params, context) as execution:
            bound = size_bound(query, tables, params)
            few = bound.grouped or (bound.rows is not None and bound.rows <= FEW_ROWS)

            def run(spark: RunningSpark, scans: Mapping[int, SparkScan]) -> list[RecordBatch] | SpooledResult:
                with self._statement(spark, execution, scans, query, params, context, extra) as statement:
                    if bound.collectable:
                        try:
                            return statement.rows(few=few, keep=not extra and context.token not in statement.sql)
                        except ResultTooLarge:
                            log.info("spark.spooled", token=context.token)
                    return self._spool(statement, query)

            result = await self._carry_out(execution, query, tables, run)
            if isinstance(result, SpooledResult):
                try:
                    more = True
                    while more:
                        # Not on the runtime's threads: they may all be waiting for jobs.
                        batches, more = await asyncio.to_thread(result.read, CHUNK_BYTES)
                        for batch in batches:
                            yield shape.conform(batch)
                finally:
                    await asyncio.shield(asyncio.to_thread(result.remove))
            else:
                while result:
                    yield shape.conform(result.pop(0))

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
        store = self._store
        if store is None and layout is not None and layout.partition:
            store = self._folder_store  # Spark's own writer knows none of these transforms.
        if store is not None:
            sets = [file_set(query, *pair, layout, is_ordered) for pair in zip(columns, names, strict=True)]
            return await self._write_stored(store, query, tables, params, context, shard, sets, is_ordered, extra)
        scratch = self._blob_scratch() / str(next(self._numbers))
        outputs = [outputs_of(query, *pair) for pair in zip(columns, names, strict=True)]
        with self._execution(query, tables, params, context) as execution:

            def run(spark: RunningSpark, scans: Mapping[int, SparkScan]) -> list[Path]:
                shutil.rmtree(scratch, ignore_errors=True)
                with (
                    kept(extra),
                    self._statement(spark, execution, scans, query, params, context, extra, stores=True) as statement,
                ):
                    return write_sets(statement.frame(), scratch, outputs, layout, is_ordered)

            try:
                folders = await self._carry_out(execution, query, tables, run)
                return [await self._adopt(folder, shard) for folder in folders]
            finally:
                await asyncio.shield(asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True))

    async def _write_stored(
        self,
        store: ClusterStore,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[LiteralValue],
        context: ExecutionContext,
        shard: ShardId,
        sets: Sequence[FileSet],
        is_ordered: bool,
        extra: Mapping[int, ArrowTable] | None,
    ) -> Sequence[Sequence[WrittenPart]]:
        """`write` by executors that reach `store` by themselves."""
        with self._execution(query, tables, params, context) as execution:

            def run(spark: RunningSpark, scans: Mapping[int, SparkScan]) -> WrittenSets:
                with (
                    kept(extra),
                    self._statement(spark, execution, scans, query, params, context, extra, stores=True) as statement,
                ):
                    return self._stored(store, statement, sets, shard, is_ordered)

            written = await self._carry_out(execution, query, tables, run)
        return [
            [
                WrittenPart(key=f.key, rows=f.row_count, bytes=f.byte_count, checksum=f.checksum, footer=f.footer)
                for f in files
            ]
            for files in written.sets
        ]

    def reaches(self, path: str, options: Mapping[str, str]) -> bool:
        """See `Engine.reaches`."""
        if not is_url(path):
            return self._store is None
        return self._settings.local or reaches_store(path, options, self._settings.place)

    async def hand_over(
        self,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[LiteralValue],
        context: ExecutionContext,
        *,
        tasks: RowTasks,
        extra: Mapping[int, ArrowTable],
    ) -> Sequence[RecordBatch]:
        """See `Engine.hand_over`."""
        with self._execution(query, tables, params, context) as execution:

            def run(spark: RunningSpark, scans: Mapping[int, SparkScan]) -> list[RecordBatch]:
                with (
                    kept(extra),
                    self._statement(spark, execution, scans, query, params, context, extra, stores=True) as statement,
                ):
                    task = named(partial(tasks.task, next(self._numbers)))
                    return spark.run_tasks(
                        statement.mode, arranged(statement.frame(), query, tasks), task, tasks.answers
                    )

            return await self._carry_out(execution, query, tables, run)

    def _stored(
        self, store: ClusterStore, statement: Statement, sets: Sequence[FileSet], shard: ShardId, ordered: bool = False
    ) -> WrittenSets:
        """What executors write to `store` of a statement's rows."""
        needed = dict.fromkeys(name for file_set in sets for name in file_set.columns)
        frame = statement.frame().selectExpr(*needed)
        order = sets[0].order if len(sets) == 1 and not ordered else ()
        frame = frame.sort(*order) if order else frame
        return store.write(sets, shard, partial(statement.spark.run_tasks, statement.mode, frame))

    async def cancel(self, token: str) -> None:
        """See `Engine.cancel`."""
        for execution in list(self._running.get(token, ())):
            await self._cancel(execution)

    async def close(self) -> None:
        """See `Engine.close`; running statements are cancelled."""
        self._closing = True
        for token in list(self._running):
            await self.cancel(token)
        await asyncio.to_thread(self._runtime.close)
        await asyncio.gather(*self._leaving, return_exceptions=True)
        for folder in (self._settings.directory, *written_folders(self._env)):
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    # ------------------------------------------------------------ one execution

    @contextmanager
    def _execution(
        self,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[LiteralValue],
        context: ExecutionContext,
    ) -> Iterator[Execution]:
        cores = self._admission.machine.cores
        klass = workload_class(query, tables, params, context, cores=cores, is_small=False, on_spark=True)
        # NOTE: never the same name twice on one Spark: what a cancelled group would still start is cancelled too.
        group = f"{context.token}-{next(_groups)}"
        with self._admission.place(context.token, context.user, klass) as place:
            limit_kb = limit_of(context.settings)
            yield from self._registered(context, Execution(group=group, place=place, limit_kb=limit_kb))

    def _registered(self, context: ExecutionContext, execution: Execution) -> Iterator[Execution]:
        """The one execution, known to `cancel` until the generator ends."""
        running = self._running.setdefault(context.token, set())
        running.add(execution)
        try:
            yield execution
        finally:
            running.discard(execution)
            if not running:
                self._running.pop(context.token, None)

    async def _scans(self, query: BoundQuery, tables: Mapping[int, TableInput]) -> dict[int, SparkScan]:
        needs = self._known.of(query).needs
        return {
            oid: await prepare_scan(tables[oid], row_ids=row_ids, reader=self._env.reader, deleted=self._deleted)
            for oid, row_ids in needs.tables.items()
        }

    async def _carry_out(
        self,
        execution: Execution,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        work: Callable[[RunningSpark, Mapping[int, SparkScan]], T],
    ) -> T:
        """What `work` gives, inside Spark. It is done again, once, when Spark ended under it, or its tasks have run out
        of memory: nobody has seen anything of it, and what its tasks have written has names that nothing refers to."""
        spark = await self._runtime.ready()
        scans = await self._scans(query, tables)
        try:
            return await self._step(execution, lambda: work(spark, scans))
        except SparkStopped:
            log.warning("spark.carried_out_again", group=execution.group)
        except OutOfMemory:
            if self._runtime.current() is not spark:
                raise
            log.warning("spark.carried_out_frugally", group=execution.group)
            execution.frugal = True
        again = await self._runtime.ready()
        return await self._step(execution, lambda: work(again, scans))

    async def _step(self, execution: Execution, work: Callable[[], T]) -> T:
        """Runs `work` on a thread, once there is a slot. Who is cancelled takes nothing: what it makes is removed."""
        lanes, place = self._admission.spark, execution.place
        turn = await self._admission.turn(lanes, place)
        task = asyncio.ensure_future(self._runtime.run(work))
        task.add_done_callback(turn.leave)
        allowed_s = self._admission.limits[place.klass].allowed_s
        if allowed_s is not None:
            late = asyncio.get_running_loop().call_later(allowed_s, self._admission.move, lanes, turn)
            task.add_done_callback(lambda _: late.cancel())
        try:
            if execution.limit_kb is not None and await goes_beyond(execution, task, partial(self._written, execution)):
                execution.over_limit = True
                await self._end(execution, task)
                raise execution.ended()
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._leaving.add(ending := asyncio.ensure_future(self._end(execution, task)))
            ending.add_done_callback(self._leaving.discard)
            await asyncio.wait([ending], timeout=LEFT_AFTER_SECONDS)
            raise

    async def _end(self, execution: Execution, task: asyncio.Future[Any]) -> None:
        while not task.done():
            await self._cancel(execution)
            await asyncio.wait([task], timeout=CANCEL_AGAIN_SECONDS)
        if not task.cancelled() and task.exception() is None:
            await asyncio.to_thread(self._undo, task.result())

    def _undo(self, made: object) -> None:
        """Removes what a step has made that nobody takes."""
        match made:
            case SpooledResult():
                made.remove()
            case [Path() as folder, *_]:
                shutil.rmtree(folder.parent, ignore_errors=True)
            case WrittenSets():
                store = self._store or self._folder_store
                assert store is not None
                store.remove(file.key for files in made.sets for file in files)

    def _written(self, execution: Execution) -> Mapping[int, int]:
        spark = self._runtime.current()
        return {} if spark is None else spark.temporary_bytes(execution.group)

    async def _cancel(self, execution: Execution) -> None:
        execution.canceled.set()
        spark = self._runtime.current()
        if spark is not None:
            # The runtime's own threads may all be waiting for jobs.
            await asyncio.to_thread(spark.cancel_group, execution.group)

    @contextmanager
    def _statement(
        self,
        spark: RunningSpark,
        execution: Execution,
        scans: Mapping[int, SparkScan],
        query: BoundQuery,
        params: Sequence[LiteralValue],
        context: ExecutionContext,
        extra: Mapping[int, ArrowTable] | None,
        *,
        stores: bool = False,
    ) -> Iterator[Statement]:
        """Inside, the statement may run on this thread; blocks. `stores`: its tasks write the rows."""
        read = [part for scan in scans.values() for part in scan.inserts]
        size = sum(part.bytes for part in read) + sum(table.bytes for table in query.files.values())
        profile = profile_for(size, sum(part.rows for part in read), generates=generates_rows(query.rel))
        profile = Profile.FRUGAL if execution.frugal else profile
        mode = Mode(profile, spark_settings(context.settings), stores=stores and profile in STORING)
        views, plans = self._prepared(spark)
        single = profile is Profile.TINY and not self._folds(query, scans)
        registered: list[str] = []
        scratch = self._file_scratch() / f"files-{next(self._numbers)}" if query.files else None
        try:
            spark.enter(
                mode, execution.group, pool=context.settings.get(POOL), klass=execution.place.klass,
                limited=execution.limit_kb is not None,
            )  # fmt: skip
            try:
                sources = {oid: ScanSource(views.view(scan, mode, single=single)) for oid, scan in scans.items()}
                for key, rows in (extra or {}).items():
                    if isinstance(rows, FileRows | RemoteRows):
                        name = views.register_files(rows, mode, scratch)
                    else:
                        name = views.register(rows, spark_columns(rows), mode)
                    registered.append(name)
                    sources[key] = ScanSource(name)
                sql = self._known.of(query).text(sources, params, context).sql
                spark.define(mode, sql)
                size = sum(scan.inline.nbytes for scan in scans.values())
                yield Statement(spark=spark, plans=plans, execution=execution, mode=mode, sql=sql, read_bytes=size)
            finally:
                for name in registered:
                    views.drop(name, mode)
                if scratch is not None:
                    shutil.rmtree(scratch, ignore_errors=True)
                spark.leave()
        except (SqlError, ResultTooLarge):
            raise
        except Exception as error:
            if execution.canceled.is_set():
                raise execution.ended() from error
            for rows in (extra or {}).values():
                trouble = trouble_with(rows, error)
                if trouble is not None:
                    raise trouble from error
            # NOTE: asked before the JVM is given up, which knows what was wrong.
            told, broken = told_error(error), spark.give_up_if_broken()
            if told is None or (broken and not isinstance(told, OutOfMemory)):
                raise SparkStopped(
                    "the Spark engine stopped while it ran the statement",
                    detail="It was started again, and stopped again.",
                    hint="Spark's log says why.",
                ) from error
            raise told from error

    def _prepared(self, spark: RunningSpark) -> tuple[SparkViews, SparkPlans | None]:
        """The views and plans kept in `spark`."""
        with self._kept_lock:
            if self._kept is None or self._kept[0] is not spark:
                views = SparkViews(spark, self._uri, self._url, self._side_files())
                self._kept = (spark, views, SparkPlans(spark) if isinstance(spark, Spark) else None)
            return self._kept[1:]

    def _folds(self, query: BoundQuery, scans: Mapping[int, SparkScan]) -> bool:
        """Whether the optimiser evaluates `query` over local relations by itself, as long as no other operator is
        between them."""
        return self._known.of(query).folds and not any(scan.plan.files for scan in scans.values())

    def _spool(self, statement: Statement, query: BoundQuery) -> SpooledResult:
        if self._store is not None:
            count = len(query.rel.fields)
            everything = file_set(query, tuple(range(count)), [f"c{number}" for number in range(1, count + 1)])
            (files,) = self._stored(self._store, statement, [everything], SIDE_FILES).sets
            return SpooledResult(StoredSpool(self._store, [file.key for file in files]))
        directory = self._shared_scratch() / f"spool-{next(self._numbers)}"
        spool = SpooledResult(FolderSpool(directory))
        try:
            write_parquet(statement.frame(), directory, "snappy", ROW_GROUP_BYTES)
        except BaseException:
            spool.remove()
            raise
        return spool

    def _file_scratch(self) -> Path:
        """A folder for copies of files that a statement names. The executors see it, unless they use an object store,
        to which what they need is sent."""
        return self._shared_scratch() if self._store is None else self._settings.directory

    def _uri(self, key: str) -> str:
        """What executors open to read an object of the blob store."""
        return self._env.blob.uri(key) if self._store is None else self._store.uri(key)

    def _url(self, url: str) -> str:
        """What executors open to read an object that is named by its URL."""
        return url if self._store is None else self._store.url(url)

    def _side_files(self) -> SideFiles:
        return FolderFiles(self._shared_scratch()) if self._store is None else StoredFiles(self._store)

    # ------------------------------------------------------------ written parts

    def _shared_scratch(self) -> Path:
        """A folder that this process and the executors share."""
        return self._settings.directory if self._settings.local else self._blob_scratch()

    def _blob_scratch(self) -> Path:
        """A folder of this process on the blob store's file system."""
        folders = written_folders(self._env)
        if not folders:
            raise FeatureNotSupported("Spark can write parts only to a blob store that is a folder")
        return folders[0]

    async def _adopt(self, folder: Path, shard: ShardId) -> list[WrittenPart]:
        """Makes the files that executors wrote to `folder` objects of the blob store, which the commit promises."""
        parts = []
        for path, rows in await self._runtime.run(lambda: file_rows(folder)):
            key = self._env.parts.new_key(shard)
            target = Path(self._env.blob.uri(key))
            size, check, footer = await self._runtime.run(lambda path=path, target=target: moved(path, target))  # type: ignore[misc]
            parts.append(WrittenPart(key=key, rows=rows, bytes=size, checksum=check, footer=footer))
        return parts
