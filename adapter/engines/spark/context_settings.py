"""The settings of a Spark context: what its statements count on, and how its executors reach the object store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from adapter.admission.classes import limits_on
from adapter.admission.machine import this_machine
from adapter.engines.spark.cluster.connectors import connector_of, hadoop_settings
from adapter.engines.spark.java.gateway import RunningJava, SparkUnavailable
from adapter.engines.spark.python.functions import DAEMON
from storage.stores.object_place import ObjectPlace

MAX_RESULT_BYTES = 64 << 20
"""spark.driver.maxResultSize: what one collected result may hold of the driver's memory. Larger ones are spooled."""


def is_one_process(master: str) -> bool:
    """Whether the Spark of `master` is one JVM: ``local`` and ``local[...]``, and not ``local-cluster[...]``."""
    return master == "local" or master.startswith("local[")


class SparkSettings(Struct, frozen=True, kw_only=True):
    """How to run Spark. `master`, `remote` and `conf` as spark-submit has them; `directory` is a private scratch
    directory of this process. `shared` is the folder where the workers of a server meet, and `worker` the number of
    this one; a server of one process meets nobody. `place` is the object store that executors use by themselves.
    `tag` names this process's jobs, and `folders` are what else it
    uses for them."""

    directory: Path
    shared: Path | None = None
    worker: int = 0
    tag: str = "tidegate"
    folders: tuple[Path, ...] = ()
    master: str = "local[*]"
    remote: str | None = None
    conf: tuple[tuple[str, str], ...] = ()
    place: ObjectPlace | None = None

    @property
    def memory(self) -> str:
        """The driver's heap: ``spark.driver.memory``, else a quarter of the machine's memory, from 1 to 4 GB."""
        given = dict(self.conf).get("spark.driver.memory")
        if given is not None:
            return given
        quarter = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 22
        return f"{max(1024, min(4096, quarter))}m"

    @property
    def local(self) -> bool:
        """Whether driver and executors are one JVM on this machine."""
        return self.remote is None and is_one_process(self.master)


PARSER_SETTINGS = {
    "spark.sql.parser.manageParserCaches": "true",
    "spark.sql.parser.parserDfaCacheFlushRatio": "10",
}
"""What Spark's parser remembers of the texts it has met is forgotten at a tenth of the driver's memory, in percent. It
never is by default: after some thousand long texts of different forms it is all there is in the heap."""


def _store_settings(place: ObjectPlace | None, jvm: Any) -> dict[str, str]:
    """How executors reach the object store. Raises SparkUnavailable without its classes."""
    if place is None:
        return {}
    connector, utils = connector_of(place), jvm.org.apache.spark.util.Utils
    present = [name for name in connector.classes if utils.classIsLoadable(name)]
    if not present:
        raise SparkUnavailable(
            f"executors read {place.root} through Hadoop's file system for {connector.stores}, which is not there: "
            f"name it with --spark-packages {connector.package}"
        )
    return hadoop_settings(place, present[0])


def session_settings(place: ObjectPlace | None) -> dict[str, str]:
    """Settings that statements count on and that each session may have of its own."""
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.caseSensitive": "true",
        # Exact decimals, and text that is taken as it is.
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
        "spark.sql.variable.substitute": "false",
        # What databases have as char(n) is what their drivers give.
        "spark.sql.readSideCharPadding": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Collecting bounds a batch by its rows alone, and a task holds all of its batches.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1024",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        # Filters that are pushed into files would take a timestamp through the Julian calendar, where -infinity has no
        # place.
        "spark.sql.datetime.java8API.enabled": "true",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        # Each file of a store is asked for over the network.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000" if place is None else "64",
        "spark.sql.broadcastTimeout": "86400",
        # Spark's own limits are 100 levels and a million rows.
        "spark.sql.cteRecursionLevelLimit": "100000",
        "spark.sql.cteRecursionRowLimit": "1000000000",
        # A stage with a union in its code cannot be read by its tasks where a Python function comes after it
        # (Spark 4.3: "cannot assign instance of DefaultSerializationProxy").
        "spark.sql.codegen.wholeStage.union.enabled": "false",
        "spark.sql.pyspark.jvmStacktrace.enabled": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    }


def context_settings(
    java: RunningJava, jvm: Any, *, master: str, local: bool, place: ObjectPlace | None
) -> dict[str, str]:
    """Settings of a new context at `master`; `local`: driver and executors are one JVM. Raises SparkUnavailable."""
    settings = {
        "spark.master": master,
        "spark.app.name": "tidegate",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # What the status listeners keep of finished work; it is of no use without the UI.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "10",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": _pools(java.directory).as_uri(),
        "spark.scheduler.numCancelledJobGroupsToTrack": "10000",
        # Executors of their own are ended when a cancelled task does not stop (see Spark._reap).
        "spark.task.reaper.enabled": "true",
        "spark.task.reaper.killTimeout": "60s",
        "spark.driver.maxResultSize": str(MAX_RESULT_BYTES),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(java.directory / "warehouse"),
        # As the driver's (see `gateway`), before what spark.executor.extraJavaOptions says.
        "spark.executor.defaultJavaOptions": "-Duser.timezone=UTC",
        **PARSER_SETTINGS,
        **session_settings(place),
    }
    if local:
        settings.update(
            {
                "spark.driver.host": "localhost",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.local.dir": str(java.local),
                "spark.python.daemon.module": DAEMON,
            }
        )
    return settings | _store_settings(place, jvm)


def _pools(folder: Path) -> Path:
    """A file that says what each class of statements has of Spark's cores when several want them."""
    limits = limits_on(this_machine())
    pools = [
        f'<pool name="{name}"><schedulingMode>FAIR</schedulingMode><weight>{limit.weight}</weight></pool>'
        for name, limit in limits.items()
    ]
    file = folder / "pools.xml"
    file.write_text(f"<allocations>{''.join(pools)}</allocations>")
    return file
