"""Makes the archive of Spark's loaded classes that each later start of its JVM maps instead of loading them anew.

A JVM that starts Spark loads some twenty thousand classes from jars, which takes it longer than all else that it does
before the first answer. Java's application class-data sharing (JEP 350) writes at the end of one JVM what it has
loaded; another of the same Java build with the same class path maps the file, and several share the memory. One that
finds the file unfit (another build, other jars) ignores it.

``python -m adapter.engines.spark.java.class_archive`` makes it; setting up an installation does.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from adapter.engines.spark.java.gateway import (
    GatewayOptions,
    SparkGateway,
    class_archive,
    find_java,
    is_running,
    launch,
)

WRITE_TIMEOUT_SECONDS = 300.0
"""How long a JVM may take to end, which writes the archive."""

_STATEMENTS = (
    "SELECT 1",
    "CREATE TEMPORARY VIEW rows AS SELECT id, CAST(id AS STRING) AS text, id / 4 AS part FROM range(100)",
    "SELECT text, count(*), sum(part) FROM rows WHERE id > 5 GROUP BY text ORDER BY 2 DESC NULLS FIRST LIMIT 3",
    "SELECT a.text, row_number() OVER (ORDER BY a.id) FROM rows AS a JOIN rows AS b ON a.id = b.id + 1",
    "SELECT max(CAST(id AS DECIMAL(38, 2))), to_date('2020-02-03') FROM rows",
    "SELECT explode(array(1, 2)), CAST(CAST('2020-02-03 04:05:06' AS TIMESTAMP) AS STRING)",
    "SELECT id FROM rows WHERE id IN (SELECT max(id) FROM rows) UNION ALL SELECT 3",
)


def make() -> Path | None:
    """Starts Spark, runs statements of the usual shapes, and returns the archive that its end has written; None when
    this Java writes none. Raises `SparkUnavailable` when Spark does not start, `TimeoutError` when it does not end."""
    file = class_archive(find_java())
    file.parent.mkdir(parents=True, exist_ok=True)
    written = file.with_suffix(f".{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory(prefix="tidegate-classes-") as folder:
            gateway = launch(
                GatewayOptions(
                    master="local[1]",
                    memory="1g",
                    conf=(("spark.ui.enabled", "false"),),
                    directory=Path(folder),
                    java_options=(f"-XX:ArchiveClassesAtExit={written}",),
                )
            )
            try:
                _exercise(gateway.gateway, Path(folder))
            finally:
                _end(gateway)
        if not written.exists():
            return None
        written.replace(file)
        return file
    finally:
        written.unlink(missing_ok=True)


def _exercise(gateway: Any, folder: Path) -> None:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext(
        conf=SparkConf(loadDefaults=False, _jvm=gateway.jvm).setMaster("local[1]").setAppName("classes"),
        gateway=gateway,
    )
    try:
        session = SparkSession(context)
        for statement in _STATEMENTS:
            session.sql(statement).toArrow()
        session.table("rows").write.parquet(str(folder / "rows"))
        session.read.parquet(str(folder / "rows")).where("id > 5").toArrow()
    finally:
        context.stop()


def _end(gateway: SparkGateway) -> None:
    """Lets the JVM end by itself: one that is killed writes nothing."""
    gateway.leave()
    deadline = time.monotonic() + WRITE_TIMEOUT_SECONDS
    while is_running(gateway.java):
        if time.monotonic() > deadline:
            gateway.kill()
            raise TimeoutError(f"Java has not ended within {WRITE_TIMEOUT_SECONDS:.0f} s")
        time.sleep(0.1)


if __name__ == "__main__":
    made = make()
    sys.stderr.write(f"Spark's classes: {made}\n" if made else "This Java archives no classes: Spark starts slower.\n")
