"""The engines of a server, and which of them runs a query.

Each is loaded and made when it is first needed, so that a server answers what needs none as soon as it listens; the
local one also behind, once `warm` has been called. Spark's process starts when a query needs it, or behind: a query
that needs it before it is up waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from adapter.admission.admission import Admission
from adapter.engines.common.engine import Engine, TableInput
from adapter.engines.common.estimates import Estimate, estimate
from adapter.engines.router import Route, choose
from adapter.engines.with_files import EngineWithFiles
from adapter.settings.values import number_of
from adapter.workers.colleagues import WorkerPlace
from planner.errors import SqlError
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Literal
from storage.environment.environment import Environment
from storage.stores.blob_files import BlobFiles
from storage.stores.object_place import ObjectPlace

if TYPE_CHECKING:
    from adapter.engines.local.engine import LocalEngine
    from adapter.engines.local.row_values import RowValues
    from adapter.engines.spark.engine import SparkEngine
    from adapter.system_catalogs.relations.contents import SystemCatalogs

log = structlog.get_logger(__name__)


class Engines:
    """See the module's contract. `blob_root` is the folder where engines find the blob store's files, None when they
    are in memory; `scratch` is a private folder of this process, and `worker` its place among those that share Spark
    with it. `place` is the object store that Spark's executors read and write by themselves; `folders` are those
    of files of others that tables may have."""

    def __init__(
        self,
        env: Environment,
        *,
        blob_root: Path | None,
        scratch: Path,
        spark_master: str,
        spark_remote: str | None,
        spark_conf: Sequence[tuple[str, str]],
        worker: WorkerPlace | None = None,
        place: ObjectPlace | None = None,
        folders: Sequence[Path] = (),
        admission: Admission | None = None,
    ) -> None:
        self._env = env
        self._files = env.blob if isinstance(env.blob, BlobFiles) else None
        self._scratch = scratch
        self._spark_master = spark_master
        self._spark_remote = spark_remote
        self._spark_conf = spark_conf
        self._worker = worker
        self._place = place
        self._admission = Admission() if admission is None else admission
        self._spark_engine: SparkEngine | None = None
        self._warming: asyncio.Task[None] | None = None
        self._blob_root = blob_root
        self._folders = folders

    # NOTE: imported in the functions, so that a server loads an engine when the first query needs it.

    @cached_property
    def _local_engine(self) -> LocalEngine:
        from adapter.engines.local.engine import LocalEngine

        return LocalEngine(
            self._env,
            blob_root=self._blob_root,
            directory=self._scratch / "local",
            folders=self._folders,
            admission=self._admission,
        )

    @cached_property
    def local(self) -> Engine:
        """The local engine."""
        return self.with_files(self._local_engine)

    @property
    def catalogs(self) -> SystemCatalogs:
        """The contents of the system relations."""
        return self._local_engine.catalogs

    @cached_property
    def row_values(self) -> RowValues:
        """What computes the keys of indexes over expressions."""
        from adapter.engines.local.row_values import RowValues

        return RowValues(self._scratch / "values")

    def choose_engine(
        self,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[Literal],
        values: Mapping[str, str],
    ) -> Route:
        """The engine that runs `query` with these parameters and settings, and why. Raises 0A000 when none can."""
        limit_kb = number_of("fast_path_limit", values["fast_path_limit"])
        return choose(
            query,
            tables,
            engine=values["engine"],
            fast_path_limit=None if limit_kb < 0 else limit_kb * 1024,
            expected=lambda: self.estimate(query, tables, params),
            spark=self.spark_in_rounds if self._place is not None else self.with_files(self.spark_in_rounds),
            local=self.local,
        )

    def estimate(self, query: BoundQuery, tables: Mapping[int, TableInput], params: Sequence[Literal]) -> Estimate:
        """What `query` is expected to take on either engine."""
        cores = self._admission.machine.cores
        return estimate(query, tables, params, cores=cores, is_spark_up=self.is_spark_started)

    def with_files(self, engine: Engine) -> Engine:
        """`engine`, with the objects that it reads fetched first where they are not files anyway."""
        return engine if self._files is None else EngineWithFiles(engine, self._files)

    def spark(self) -> SparkEngine:
        """Spark's engine, made when first asked for; that does not start Spark."""
        if self._spark_engine is None:
            from adapter.engines.spark.engine import SparkEngine

            if self._spark_remote is None:
                from adapter.engines.spark.runtime import SparkRuntime as Runtime
            else:
                from adapter.engines.spark.connect.runtime import ConnectRuntime as Runtime
            shared = None if self._worker is None else self._worker.folder / "spark"
            self._spark_engine = SparkEngine(
                self._env,
                master=self._spark_master,
                remote=self._spark_remote,
                conf=self._spark_conf,
                directory=self._scratch / "spark" if shared is None else shared / self._scratch.name,
                shared=shared,
                place=self._place,
                admission=self._admission,
                worker=0 if self._worker is None else self._worker.memory.own,
                new_runtime=Runtime,
            )
        return self._spark_engine

    @cached_property
    def spark_in_rounds(self) -> Engine:
        """Spark's engine for all queries."""
        from adapter.engines.recursion.engine import EngineInRounds

        return EngineInRounds(self.spark(), self._scratch / "rounds")

    @property
    def is_spark_started(self) -> bool:
        """Whether Spark runs for this process."""
        return self._spark_engine is not None and self._spark_engine.is_started

    def warm(self, *, spark: bool) -> None:
        """Start to load behind what the first queries would wait for; with `spark`, also Spark."""
        if self._warming is None:
            self._warming = asyncio.get_running_loop().create_task(self._warm(spark=spark), name="warm-engines")

    async def _warm(self, *, spark: bool) -> None:
        await asyncio.to_thread(load_local_engine)
        self._local_engine.warm()
        # NOTE: also where Spark is started on demand: the first statement asks both engines, on the loop, where loading
        # their code would hold up its own statement_timeout.
        await asyncio.to_thread(load_for_statements)
        if self._worker is not None:
            await self.spark().take_over()
        if spark:
            await self.warm_spark()

    async def warm_spark(self) -> None:
        """Start Spark. A failure is logged, and raised again by the first query that needs Spark."""
        try:
            await self.spark().warm()
        except SqlError as error:
            log.warning("Spark could not be started", error=error.message)

    def spilled_bytes(self) -> int:
        """Bytes that statements of the local engine keep on disk at present, beyond their memory."""
        return self._local_engine.spilled_bytes() if "_local_engine" in vars(self) else 0

    async def drop_unused(self) -> None:
        """Drop what the local engine keeps of tables that nobody reads now."""
        if "_local_engine" in vars(self):
            await self._local_engine.drop_unused()

    async def close(self) -> None:
        """Stop both engines."""
        if self._warming is not None:
            self._warming.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._warming
        made = vars(self)
        if "_local_engine" in made:
            await self.local.close()
        if "row_values" in made:
            await asyncio.to_thread(self.row_values.close)
        if self._spark_engine is not None:
            await self._spark_engine.close()


def load_local_engine() -> None:
    """Load the local engine's code, which takes a fifth of a second."""
    from adapter.engines.local import engine as _  # noqa: F401 - loaded, not used


def load_for_statements() -> None:
    """Load what the first statement needs besides: the functions, and the code of Spark's engine (nothing of PySpark),
    which takes seconds where the files come from a cold disk."""
    from adapter.engines.recursion.engine import EngineInRounds  # noqa: F401 - loaded, not used
    from adapter.engines.spark.engine import SparkEngine  # noqa: F401 - loaded, not used
    from planner.functions import of_extensions, registry

    registry.functions("now")
    of_extensions.forms()
