"""The Spark of the server: started in the background, one set of sessions, restarted when its JVM dies.

Workers of one server share a JVM and the Spark context in it (`sharing`), and each has sessions of its own there.

PySpark is imported only here and below, and only in a thread. All calls into the JVM run on the runtime's own threads;
py4j pins each to a Java thread, so thread-bound properties (job group, pool) belong to one statement.

Sessions differ in settings only, and never change them: a statement picks one by the size of what it reads
(`Profile`), so that statements that run at the same time need no lock.

Errors: `ready` raises `ObjectNotInPrerequisiteState` (55000) when Spark is not available; the server lives on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import structlog

from adapter.engines.common.engine import RecordBatch
from adapter.engines.spark.cluster.archive import write_archive
from adapter.engines.spark.context_settings import SparkSettings, context_settings
from adapter.engines.spark.frames import RunningSpark
from adapter.engines.spark.java import gateway as spark_gateway
from adapter.engines.spark.java.gateway import GatewayOptions, SparkGateway, SparkUnavailable, kill
from adapter.engines.spark.java.sharing import JavaFolder, JavaUse, User, is_worn, unused, wear_out
from adapter.engines.spark.profiles import Mode, Profile, check_modes, profile_settings
from adapter.engines.spark.python.functions import PYTHON_PATH, define
from adapter.engines.spark.results import collect
from planner.errors import ObjectNotInPrerequisiteState
from planner.functions.engines.spark import used

log = structlog.get_logger(__name__)

T = TypeVar("T")

MAX_THREADS = 32
"""Statements inside Spark at once; more wait. Spark shares its cores among them (FAIR)."""

STUCK_SECONDS = 15.0
REAP_SECONDS = 0.5
SETTLE_LOOKS = 6
"""How long the tasks of a cancelled job may go on, how often they are looked at, and how often at least."""

LEAVE_SECONDS = 10.0
"""How long a worker that stops waits for another one that starts Spark or ends it."""

ARCHIVE = "tidegate.zip"
ARCHIVE_FOLDER = "tidegate-code"
"""The archive of this code, and what executors unpack it as."""

LAUNCH_SETTINGS = ("spark.jars", "spark.driver.", "spark.yarn.", "spark.kubernetes.", "spark.submit.", "spark.archives")
"""Prefixes of settings that the launch of the JVM needs; the others are given to the context."""


class Spark:
    """A running Spark: the JVM, the context and a session for each mode of statements, which `new_session` makes."""

    def __init__(
        self, gateway: SparkGateway, use: JavaUse, tag: str, context: Any, new_session: Callable[[Mode], Any]
    ) -> None:
        self.gateway = gateway
        self.use = use
        self.context = context
        self._new_session = new_session
        self._sessions: dict[Mode, Any] = {}
        self._sessions_lock = threading.Lock()
        # Looked up once: each name on the way to a Java class or static method is a call.
        jvm = gateway.gateway.jvm
        self._scala_context = context._jsc.sc()
        self._activate = jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession
        self._no_properties = jvm.java.util.Properties()
        self._tag = tag
        self._properties: dict[Mode, Any] = {}
        self._lock = threading.Lock()
        self._statements = 0
        self._reaping = False
        self._defined: dict[Mode, set[str]] = {}
        for profile in Profile:
            self.session(Mode(profile))

    @property
    def jvm(self) -> Any:
        """py4j's view of the JVM."""
        return self.gateway.gateway.jvm

    @property
    def alive(self) -> bool:
        """Whether the JVM still runs."""
        return self.gateway.alive

    def session(self, mode: Mode) -> Any:
        """PySpark's session for statements of `mode`; blocks. Raises 53400 when there are too many modes."""
        with self._sessions_lock:
            if mode not in self._sessions:
                check_modes(len(self._sessions))
                session = self._new_session(mode)
                self._properties[mode] = _job_properties(self.jvm, session, self._tag)
                self._defined[mode] = set()
                self._sessions[mode] = session
            return self._sessions[mode]

    def enter(
        self, mode: Mode, group: str, *, pool: str | None = None, klass: str | None = None, limited: bool = False
    ) -> None:
        """See `RunningSpark.enter`: the session of `mode` is the active one, the jobs that the thread starts belong to
        `group`, and their tasks see the session's settings."""
        session = self.session(mode)
        with self._lock:
            if not self._statements:
                self.use.begin()
            self._statements += 1
        properties = self._properties[mode].clone()
        properties.setProperty("spark.jobGroup.id", group)
        pool = pool or klass
        if pool is not None:
            properties.setProperty("spark.scheduler.pool", pool)
        self._scala_context.setLocalProperties(properties)
        self._activate(session._jsparkSession)

    def define(self, mode: Mode, sql: str) -> None:
        """Defines the functions in Python that `sql` calls, in the session of `mode`; blocks."""
        names = used(sql) - self._defined[mode]
        if names:
            from pyspark.sql.functions import udf

            define(self.session(mode), names, udf)
            self._defined[mode] |= names

    def frame(self, mode: Mode, sql: str) -> Any:
        """See `RunningSpark.frame`."""
        from pyspark.sql.classic.dataframe import DataFrame

        session = self.session(mode)
        # NOTE: not PySpark's own `sql`, which takes each text for one with parameters.
        return DataFrame(session._jsparkSession.sql(sql), session)

    most_relation_bytes = sys.maxsize

    def relation(self, mode: Mode, rows: pa.Table, ddl: str) -> Any:
        """See `RunningSpark.relation`."""
        from pyspark.sql.classic.dataframe import DataFrame
        from pyspark.sql.pandas.serializers import ArrowStreamSerializer

        jvm, session = self.jvm, self.session(mode)
        schema = jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl).json()
        iterator = self.context._serialize_to_jvm(
            rows.to_batches(),
            ArrowStreamSerializer(),
            lambda path: jvm.PythonSQLUtils.readArrowStreamFromFile(path),
            lambda: jvm.ArrowIteratorServer(),
        )
        return DataFrame(jvm.PythonSQLUtils.toDataFrame(iterator, schema, session._jsparkSession), session)

    def collect(self, frame: Any) -> list[RecordBatch]:
        """See `RunningSpark.collect`."""
        return collect(frame._jdf)

    def run_tasks(self, mode: Mode, frame: Any, task: Callable[..., Any], answers: str) -> list[RecordBatch]:
        """See `RunningSpark.run_tasks`."""
        from pyspark.sql.udf import UserDefinedFunction
        from pyspark.util import PythonEvalType

        # NOTE: what DataFrame.mapInArrow does, which asks for pandas and makes no use of it.
        udf = UserDefinedFunction(task, returnType=answers, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
        call = udf(*[frame[name] for name in frame.columns])._jc
        return collect(frame._jdf.mapInArrow(call, False, None))

    def shown_path(self, location: str) -> str:
        """See `RunningSpark.shown_path`."""
        return str(self.jvm.org.apache.hadoop.fs.Path(location).toUri().toString())

    def check_databases(self) -> None:
        """See `RunningSpark.check_databases`: the JVM reads them."""

    def leave(self) -> None:
        """Ends `enter`; also when the JVM is gone."""
        try:
            if self.alive:
                self._scala_context.setLocalProperties(self._no_properties.clone())
        finally:
            with self._lock:
                self._statements -= 1
                if not self._statements:
                    self.use.end()
            if is_worn(self.gateway.java):
                self.give_up_if_unused("a worker that used it was killed")

    def give_up_if_unused(self, reason: str) -> bool:
        """End the JVM unless a statement runs in it, of this worker or of another one; whether that was done."""
        with unused(self.gateway.java) as free:
            if free:
                log.warning("spark.restarted", reason=reason)
                self.gateway.kill()
        return free

    def cancel_tag(self, tag: str) -> None:
        """Ends the jobs of another process, which is gone; blocks."""
        self._scala_context.cancelJobsWithTag(tag)

    def cancel_group(self, group: str) -> None:
        """Ends the jobs of `group`, and those that it would still start; blocks. A JVM that is gone runs none."""
        from py4j.protocol import Py4JError

        try:
            self._scala_context.cancelJobGroupAndFutureJobs(group)
        except (Py4JError, OSError) as error:
            log.warning("spark.not_cancelled", group=group, reason=_first_line(error))
            return
        with self._lock:
            if self._reaping:
                return
            self._reaping = True
        threading.Thread(target=self._reap, name="spark-reaper", daemon=True).start()

    def temporary_bytes(self, group: str) -> Mapping[int, int]:
        """What the stages of a job group have spilled and written for shuffles, as far as it is known; blocks. A JVM
        that is gone writes nothing."""
        from py4j.protocol import Py4JError

        found: dict[int, int] = {}
        java = self.context._jsc
        if java is None:
            return found
        try:
            tracker, store = java.statusTracker(), self._scala_context.statusStore()
            for job in tracker.getJobIdsForGroup(group):
                info = tracker.getJobInfo(job)
                for stage in () if info is None else info.stageIds():
                    if tracker.getStageInfo(stage) is not None:
                        data = store.lastStageAttempt(stage)
                        found[int(stage)] = int(data.shuffleWriteBytes()) + int(data.diskBytesSpilled())
        except (Py4JError, OSError) as error:
            log.warning("spark.not_measured", group=group, reason=_first_line(error))
        return found

    def stuck_tasks(self) -> int:
        """How many tasks still run whose jobs have ended; blocks. None in a context that was stopped meanwhile."""
        java = self.context._jsc
        if java is None:
            return 0
        tracker = java.statusTracker()
        running = sum(executor.numRunningTasks() for executor in tracker.getExecutorInfos())
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        active = sum(stage.numActiveTasks() for stage in stages if stage is not None)
        return max(0, int(running) - int(active))

    def _reap(self) -> None:
        """Waits until the tasks of cancelled jobs have ended. A task ends only where its code asks whether it should:
        joins within joins may not ask for hours. Within one JVM nothing else ends it, so the JVM is given up once no
        statement runs in it."""
        from py4j.protocol import Py4JError

        try:
            looks = 0
            # Cancelling takes a moment: until then the job's tasks do not count as left over.
            while self.alive and (self.stuck_tasks() or looks < SETTLE_LOOKS):
                long = looks >= STUCK_SECONDS / REAP_SECONDS and looks >= SETTLE_LOOKS
                if long and self.give_up_if_unused("a cancelled statement did not stop"):
                    return
                looks += 1
                time.sleep(REAP_SECONDS)
        except (Py4JError, OSError) as error:
            log.warning("spark.not_watched", reason=_first_line(error))
        finally:
            with self._lock:
                self._reaping = False

    def give_up_if_broken(self) -> bool:
        """Whether Spark can run no more statements: its JVM is gone, or the context in it has stopped (after running
        out of memory in the wrong place). What is left of it is ended; the next statement starts a new one."""
        from py4j.protocol import Py4JError

        if not self.alive:
            return True
        try:
            stopped = bool(self._scala_context.isStopped())
        except (Py4JError, OSError):
            stopped = True
        if stopped:
            self.gateway.kill()
        return stopped


class SparkRuntime:
    """Starts Spark in the background and keeps it. `start` is called once, from any thread."""

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self._folder = JavaFolder(settings.shared or settings.directory, settings.worker)
        self.progress = "not started"
        self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="spark-engine")
        self._lock = threading.Lock()
        self._starting: Future[RunningSpark] | None = None
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Future[RunningSpark]:
        """Begins to start Spark, unless it runs or starts already; the future gives it or says why not."""
        with self._lock:
            current = self._starting
            if current is not None and not _is_over(current):
                return current
            if self._closed:
                raise ObjectNotInPrerequisiteState("the Spark engine is stopped")
            self._starting = self._threads.submit(self._start)
            return self._starting

    async def ready(self) -> RunningSpark:
        """Waits until Spark runs. Raises 55000 when it cannot."""
        try:
            return await asyncio.shield(asyncio.wrap_future(self.start()))
        except SparkUnavailable as error:
            raise ObjectNotInPrerequisiteState(
                "the Spark engine is not available",
                detail=str(error),
                hint="Small reads and catalog queries run without it (SET engine = local).",
            ) from error

    def current(self) -> RunningSpark | None:
        """The Spark that runs, if one does."""
        starting = self._starting
        if starting is None or not starting.done() or starting.cancelled() or starting.exception() is not None:
            return None
        return starting.result()

    async def run(self, work: Callable[[], T]) -> T:
        """Runs `work` on a thread of the runtime, in the caller's context. A cancelled caller does not stop it."""
        inside = partial(copy_context().run, work)
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._threads, inside))

    def close(self) -> None:
        """Stops Spark and its JVM; blocks. A start that is under way is given up."""
        with self._lock:
            self._closed = True
            current = self._starting
            process = self._process
        if current is not None and not current.cancel():
            if not current.done() and process is not None:
                # The start waits for the JVM, and fails when it is gone.
                process.kill()
            error = current.exception()
            if error is None:
                self._stop(current.result())
        self._threads.shutdown(wait=True)

    def _launched(self, process: subprocess.Popen[bytes]) -> None:
        """Notes the JVM that a start waits for. Raises SparkUnavailable once the runtime is closed."""
        with self._lock:
            self._process = process
            if self._closed:
                raise SparkUnavailable("the server stops")

    def take_over(self) -> None:
        """End what the process that had this worker's place before has left in Spark; blocks."""
        if not self._folder.path.exists():
            return
        with self._folder.starting(lambda: self._closed):
            java = self._folder.running()
            left = None if java is None else self._folder.predecessor(java)
            if java is None or left is None:
                return
            wear_out(java)
            with unused(java) as free:
                if free:
                    log.warning("spark.restarted", reason="a worker that used it was killed")
                    kill(java)
        if not free:
            self._cancel_left(left)
        for folder in left.folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _cancel_left(self, left: User) -> None:
        """End the jobs of `left` while statements of others go on. Between two jobs of one statement there is nothing
        to cancel, so this is repeated for a while."""
        from py4j.protocol import Py4JError

        try:
            spark = self.start().result()
            assert isinstance(spark, Spark)
            until = time.monotonic() + STUCK_SECONDS
            while time.monotonic() < until and spark.alive and not self._closed:
                spark.cancel_tag(left.tag)
                time.sleep(REAP_SECONDS)
        except (SparkUnavailable, Py4JError, OSError) as error:
            log.warning("spark.not_cancelled", tag=left.tag, reason=_first_line(error))

    def _start(self) -> RunningSpark:
        try:
            spark = self._begin()
        except Exception as error:
            self.progress = f"not available: {error}"
            if self._closed:
                raise SparkUnavailable("the server stops") from error
            log.error("spark.unavailable", reason=_first_line(error), error=type(error).__name__)
            if isinstance(error, SparkUnavailable):
                raise
            raise SparkUnavailable(_first_line(error)) from error
        self.progress = "ready"
        return spark

    def _begin(self) -> RunningSpark:
        self.progress = "starting the Java process"
        with self._folder.starting(lambda: self._closed):
            spark = self._attached() or self._launch()
        log.info("spark.ready", master=self.settings.master, java=spark.gateway.java.pid)
        return spark

    def _attached(self) -> Spark | None:
        """The Spark that another worker has started, if it runs."""
        java = self._folder.running()
        gateway = None if java is None else spark_gateway.attach(java)
        if gateway is None:
            return None
        self.progress = "attaching to the Spark context"
        try:
            companion = getattr(gateway.gateway.jvm.org.apache.spark, "SparkContext$")
            context = getattr(companion, "MODULE$").getActive()
            if context.isEmpty():
                # It has stopped by itself, and nobody has noticed yet.
                gateway.kill()
                gateway.leave()
                return None
            return self._connect(gateway, context.get())
        except Exception:
            ended = not gateway.alive
            gateway.leave()
            if ended:
                return None  # While it was attached to.
            raise

    def _launch(self) -> Spark:
        self.settings.directory.mkdir(parents=True, exist_ok=True)
        gateway = spark_gateway.launch(
            GatewayOptions(
                master=self.settings.master,
                memory=self.settings.memory,
                conf=tuple(pair for pair in self.settings.conf if pair[0].startswith(LAUNCH_SETTINGS)),
                directory=self._folder.path,
            ),
            self._launched,
        )
        try:
            spark = self._connect(gateway, None)
        except BaseException:
            gateway.stop()
            raise
        self._folder.announce(gateway.java)
        return spark

    def _connect(self, gateway: SparkGateway, existing: Any) -> Spark:
        """Spark in the JVM of `gateway`, with its context `existing` (Scala) or a new one."""
        self.progress = "creating the Spark context"
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        # PySpark logs each failed query's stack trace as JSON; the error goes to the client.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
        # A context of an earlier JVM that died is of no use, and PySpark allows one at a time.
        forget_context(SparkContext)
        given = dict(self.settings.conf)
        jvm = gateway.gateway.jvm
        if existing is None:
            # What the launch was given, and what it resolved (packages), is in the JVM's properties.
            conf, java_context = SparkConf(_jvm=jvm), None
            master, local, place = self.settings.master, self.settings.local, self.settings.place
            settings = context_settings(gateway.java, jvm, master=master, local=local, place=place)
            for name, value in {**settings, **given}.items():
                if name not in given or not name.startswith(LAUNCH_SETTINGS):
                    conf.set(name, value)
        else:
            java_context = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(existing)
            conf = SparkConf(_jconf=existing.getConf())
        context = SparkContext(conf=conf, gateway=gateway.gateway, jsc=java_context, environment=self._environment())
        self._prepare_workers(context)
        root = SparkSession(context)
        cores = int(context.defaultParallelism)

        def new_session(mode: Mode) -> Any:
            session = root.newSession()
            chosen = {name: v for name, v in profile_settings(mode, cores).items() if name not in given}
            for name, value in {**chosen, **dict(mode.settings)}.items():
                session.conf.set(name, value)
            return session

        folders = tuple(map(str, (self.settings.directory, *self.settings.folders)))
        use = self._folder.use(gateway.java, User(tag=self.settings.tag, folders=folders))
        return Spark(gateway, use, self.settings.tag, context, new_session)

    def _environment(self) -> dict[str, str]:
        """Variables of Python workers: where they find this code. Elsewhere that is a folder beside their own."""
        return {"PYTHONPATH": PYTHON_PATH if self.settings.local else ARCHIVE_FOLDER}

    def _prepare_workers(self, context: Any) -> None:
        """Let Python workers find Python, and this code."""
        if self.settings.local:
            context.pythonExec = sys.executable
            return
        context.pythonExec = context.getConf().get("spark.pyspark.python") or os.environ.get(
            "PYSPARK_PYTHON", "python3"
        )
        archive = self._folder.path / ARCHIVE
        if not archive.exists():
            write_archive(archive.with_suffix(".new"))
            archive.with_suffix(".new").rename(archive)
        context.addArchive(f"{archive}#{ARCHIVE_FOLDER}")

    def _stop(self, spark: RunningSpark) -> None:
        """Use `spark` no more, and end it when no other worker uses it."""
        assert isinstance(spark, Spark)
        self.progress = "stopped"
        deadline = time.monotonic() + LEAVE_SECONDS
        with self._folder.starting(lambda: time.monotonic() > deadline):
            shared = spark.alive and spark.use.is_shared()
            spark.use.close()
            if shared:
                spark.gateway.leave()
                return
            if spark.alive:
                spark.context.stop()
            spark.gateway.stop()
            self._folder.running()


def _job_properties(jvm: Any, session: Any, tag: str) -> Any:
    """The local properties (java.util.Properties) of jobs that `session` starts, but for their group: Spark hands a
    session's settings to the tasks in them. `tag` says whose jobs they are."""
    properties = jvm.java.util.Properties()
    for name, value in session.conf.getAll.items():
        properties.setProperty(name, value)
    properties.setProperty("spark.job.tags", tag)
    properties.setProperty("spark.job.description", "statement")
    properties.setProperty("spark.job.interruptOnCancel", "true")
    return properties


def _is_over(starting: Future[RunningSpark]) -> bool:
    """Whether a start has failed, or the Spark that it gave has died."""
    if not starting.done():
        return False
    return starting.cancelled() or starting.exception() is not None or not starting.result().alive


def forget_context(context_class: Any) -> None:
    """Lets PySpark forget a context whose JVM is gone; `stop` would try to reach it."""
    from pyspark.sql import SparkSession

    with context_class._lock:
        context_class._active_spark_context = None
        context_class._gateway = None
        context_class._jvm = None
    SparkSession._instantiatedSession = None


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0] or type(error).__name__
