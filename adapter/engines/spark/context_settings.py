"""The settings of a Spark context: what its statements count on, and how its executors reach the object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapter.admission.classes import limits_on
from adapter.admission.machine import this_machine
from adapter.engines.spark.cluster.connectors import connector_of, hadoop_settings
from adapter.engines.spark.gateway import RunningJava, SparkUnavailable
from storage.stores.object_place import ObjectPlace

MAX_RESULT_BYTES = 64 << 20
"""spark.driver.maxResultSize: what one collected result may hold of the driver's memory. Larger ones are spooled."""


def _store_settings(place: ObjectPlace | None, jvm: Any) -> dict[str, str]:
    """How executors reach the object store. Raises SparkUnavailable without its classes."""
    if place is None:
        return {}
    connector, utils = connector_of(place), jvm.org.apache.spark.util.Utils
    present = [name for name in connector.classes if utils.classIsLoadable(name)]
    if not present:
        raise SparkUnavailable(
            f"executors read {place.root} through Hadoop's file system for {connector.stores}, which is not there: "
            f"name it with --spark-conf spark.jars.packages={connector.package}"
        )
    return hadoop_settings(place, present[0])


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
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.caseSensitive": "true",
        # Exact decimals, and text that is taken as it is.
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
        "spark.sql.variable.substitute": "false",
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
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
        "spark.sql.broadcastTimeout": "86400",
        "spark.sql.pyspark.jvmStacktrace.enabled": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    }
    if place is not None:
        # Each file is asked for over the network.
        settings["spark.sql.sources.parallelPartitionDiscovery.threshold"] = "64"
    if local:
        settings.update(
            {
                "spark.driver.host": "localhost",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.local.dir": str(java.local),
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
