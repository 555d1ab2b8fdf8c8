"""Iceberg in Spark as a peer: a process of its own, with the Spark that Iceberg's runtime is made for.

    python bench/iceberg_spark.py FOLDER WAREHOUSE [--memory 4g]

makes Iceberg tables of the Parquet files in FOLDER, each called as its file, says so, and then answers each line of
JSON (a query's text) with how many rows it has. It imports nothing of the project: the runtime is made for an older
Spark than ours (`requirements-iceberg.lock`; `scripts/setup.sh iceberg`), and comes from Maven.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".cache" / "iceberg" / "bin" / "python"
RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"


class IcebergInSpark:
    """The process, from outside. Its first answer takes as long as the tables take to be written."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ready(self) -> None:
        """Waits until the tables are there."""
        self._answer()

    def count(self, text: str) -> int:
        """Runs a query; how many rows it has."""
        stdin = self._pipe(self.process.stdin)
        stdin.write(json.dumps(text) + "\n")
        stdin.flush()
        return self._answer()

    def _answer(self) -> int:
        line = self._pipe(self.process.stdout).readline()
        if not line:
            raise RuntimeError("Iceberg in Spark has ended")
        return int(json.loads(line))

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def is_installed() -> bool:
    """Whether `scripts/setup.sh iceberg` has been run."""
    return PYTHON.exists()


@contextmanager
def iceberg_in_spark(folder: Path, warehouse: Path, memory: str) -> Iterator[IcebergInSpark]:
    """A process over Iceberg tables of the files in `folder`, which it writes to `warehouse`."""
    command = [str(PYTHON), str(Path(__file__)), str(folder), str(warehouse), "--memory", memory]
    with (warehouse.parent / "iceberg.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            peer = IcebergInSpark(process)
            peer.ready()
            yield peer
        finally:
            process.kill()
            process.wait()


def main() -> int:
    """The process that `iceberg_in_spark` starts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("warehouse", type=Path)
    parser.add_argument("--memory", default="4g")
    options = parser.parse_args()
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": options.memory,
        "spark.jars.packages": RUNTIME,
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(options.warehouse),
        "spark.sql.defaultCatalog": "lake",
    }
    session = SparkSession.builder.master("local[*]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.sql("CREATE NAMESPACE IF NOT EXISTS tpch")
    session.sql("USE tpch")
    for path in sorted(options.folder.glob("*.parquet")):
        session.read.parquet(str(path)).writeTo(path.stem).using("iceberg").create()
    print(0, flush=True)
    for line in sys.stdin:
        print(len(session.sql(json.loads(line)).collect()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
