"""The engines of a server, and which of them runs a query.

The local engine is there from the start. Spark's is made when the first query is routed, and its process starts when a
query needs it, or behind, once `warm` has been called: a query that needs it before it is up waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from adapter.engines.common.engine import Engine, TableInput
from adapter.engines.local.engine import LocalEngine
from adapter.engines.local.row_values import RowValues
from adapter.engines.router import choose
from adapter.engines.with_files import EngineWithFiles
from adapter.settings.values import number_of
from planner.errors import SqlError
from planner.ir.bound import BoundQuery
from storage.environment.environment import Environment
from storage.stores.blob_files import BlobFiles

if TYPE_CHECKING:
    from adapter.engines.spark.engine import SparkEngine

log = structlog.get_logger(__name__)


class Engines:
    """See the module's contract. `blob_root` is the folder where engines find the blob store's files, None when they
    are in memory; `scratch` is a private folder of this server."""

    def __init__(
        self,
        env: Environment,
        *,
        blob_root: Path | None,
        scratch: Path,
        spark_master: str,
        spark_remote: str | None,
        spark_conf: Sequence[tuple[str, str]],
    ) -> None:
        self._env = env
        self._files = env.blob if isinstance(env.blob, BlobFiles) else None
        self._scratch = scratch
        self._spark_master = spark_master
        self._spark_remote = spark_remote
        self._spark_conf = spark_conf
        self._spark_engine: SparkEngine | None = None
        self._warming: asyncio.Task[None] | None = None
        self._local_engine = LocalEngine(env, blob_root=blob_root, directory=scratch / "local")
        self.local = self.with_files(self._local_engine)
        self.catalogs = self._local_engine.catalogs
        """The contents of the system relations."""
        self.row_values = RowValues(scratch / "values")
        """What computes the keys of indexes over expressions."""

    def choose_engine(
        self, query: BoundQuery, tables: Mapping[int, TableInput], values: Mapping[str, str]
    ) -> tuple[Engine, str]:
        """The engine that runs `query` with these settings, and why. Raises 0A000 when none can."""
        route = choose(
            query,
            tables,
            engine=values["engine"],
            fast_path_limit=number_of("fast_path_limit", values["fast_path_limit"]) * 1024,
            spark=self.with_files(self.spark()),
            local=self.local,
        )
        return route.engine, route.reason

    def with_files(self, engine: Engine) -> Engine:
        """`engine`, with the objects that it reads fetched first where they are not files anyway."""
        return engine if self._files is None else EngineWithFiles(engine, self._files)

    def spark(self) -> SparkEngine:
        """Spark's engine, made when first asked for; that does not start Spark."""
        if self._spark_engine is None:
            # NOTE: imported here, so that a server which never needs Spark does not load it.
            from adapter.engines.spark.engine import SparkEngine

            self._spark_engine = SparkEngine(
                self._env,
                master=self._spark_master,
                remote=self._spark_remote,
                conf=self._spark_conf,
                directory=self._scratch / "spark",
            )
        return self._spark_engine

    def warm(self, *, spark: bool) -> None:
        """Start to load behind what the first queries would wait for; with `spark`, also Spark."""
        self._local_engine.warm()
        if spark and self._warming is None:
            self._warming = asyncio.get_running_loop().create_task(self.warm_spark(), name="warm-spark")

    async def warm_spark(self) -> None:
        """Start Spark. A failure is logged, and raised again by the first query that needs Spark."""
        try:
            await self.spark().warm()
        except SqlError as error:
            log.warning("Spark could not be started", error=error.message)

    async def close(self) -> None:
        """Stop both engines."""
        if self._warming is not None:
            self._warming.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._warming
        await self.local.close()
        await asyncio.to_thread(self.row_values.close)
        if self._spark_engine is not None:
            await self._spark_engine.close()
