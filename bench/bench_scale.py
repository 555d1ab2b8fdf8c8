"""Large results through a small server: `make bench NAME=scale`.

Builds a table of 20,000,000 rows with INSERT ... SELECT on Spark, then reads it whole (COPY TO STDOUT, and a cursor
with FETCH 10,000 as psql's FETCH_COUNT does) with a Spark driver of 1 GB, watching the resident memory of the server
process. Exits with 1 when the memory rises by 300 MB or more.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg

from bench.report import machine, print_json, print_table
from tests.support.server import AS_SHIPPED, run_server

LIMIT_MB = 300.0
SAMPLE_S = 0.05


class MemoryWatch:
    """Samples a process's resident memory; `rise_mb` is the highest value seen above the first, in MB."""

    def __init__(self, pid: int) -> None:
        self.process = psutil.Process(pid)
        self.first: int = self.process.memory_info().rss
        self.peak = self.first
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(SAMPLE_S):
            self.peak = max(self.peak, self.process.memory_info().rss)

    @property
    def rise_mb(self) -> float:
        """MB above the first sample."""
        return float(self.peak - self.first) / 1e6


@contextmanager
def watch_memory(pid: int) -> Iterator[MemoryWatch]:
    """Watches the process while the context lasts."""
    watch = MemoryWatch(pid)
    thread = threading.Thread(target=watch.run)
    thread.start()
    try:
        yield watch
    finally:
        watch.ended.set()
        thread.join()


def copy_out(connection: psycopg.Connection) -> int:
    """Reads the table with COPY and returns the number of rows."""
    rows = 0
    with connection.cursor() as cursor, cursor.copy("COPY (SELECT * FROM big) TO STDOUT") as copy:
        for block in copy:
            rows += bytes(block).count(b"\n")
    return rows


def fetch_in_portions(connection: psycopg.Connection) -> int:
    """Reads the table through a cursor, 10,000 rows at a time, and returns the number of rows."""
    rows = 0
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("DECLARE portions NO SCROLL CURSOR FOR SELECT * FROM big")
        while True:
            cursor.execute("FETCH FORWARD 10000 FROM portions")
            assert cursor.pgresult is not None
            if cursor.pgresult.ntuples == 0:
                return rows
            rows += cursor.pgresult.ntuples


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make bench NAME=scale", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-scale-"))
    try:
        with run_server(
            folder / "data", arguments=("--spark-conf", "spark.driver.memory=1g"), environment=AS_SHIPPED
        ) as server:
            assert server.process is not None
            pid = server.process.pid
            table: list[list[str]] = [["", "rows", "seconds", "rows/s", "memory rise (MB)"]]
            rises: dict[str, float] = {}
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                connection.execute("SET engine = spark")
                connection.execute("SELECT 1")

                def step(name: str, run: object, expected: int) -> None:
                    assert callable(run)
                    print(name, file=sys.stderr)
                    with watch_memory(pid) as watch:
                        start = time.perf_counter()
                        rows = run()
                        seconds = time.perf_counter() - start
                    if rows != expected:
                        raise RuntimeError(f"{name}: {rows} rows where {expected} are due")
                    rises[name] = watch.rise_mb
                    table.append(
                        [name, f"{rows:,}", f"{seconds:.1f}", f"{rows / seconds:,.0f}", f"{watch.rise_mb:.0f}"]
                    )

                def write() -> int:
                    connection.execute("CREATE TABLE big (id bigint, amount double precision, label text)")
                    series = f"generate_series(1, {options.rows}) AS g"
                    statement = f"INSERT INTO big SELECT g, g / 4.0, 'label ' || g FROM {series}"
                    return connection.execute(statement).rowcount

                step("INSERT ... SELECT", write, options.rows)
                step("COPY TO STDOUT", lambda: copy_out(connection), options.rows)
                step("cursor, FETCH 10000", lambda: fetch_in_portions(connection), options.rows)
                connection.execute("SET engine = auto")
                step("COPY TO STDOUT, engine auto", lambda: copy_out(connection), options.rows)
        print(f"\nLarge results, Spark driver of 1 GB ({machine()})\n")
        print_table(table)
        print()
        print_json(
            "scale", {}, {"rows": options.rows, **{f"rise_mb {name}": round(rise) for name, rise in rises.items()}}
        )
        return 0 if all(rise < LIMIT_MB for rise in rises.values()) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
