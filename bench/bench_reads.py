"""Reads against their peers: `make bench NAME=reads`.

The same statements over the same rows on Tidegate (fast path and Spark path), the Spark Thrift Server, plain PySpark
with the settings that Tidegate uses, and PostgreSQL, all running at once and asked in turn.

The small reads are measured twice: as the same text again and again, as dashboards send them, and with constants that
have never been there before, as applications do. Engines keep plans, so the second are dearer.
"""

from __future__ import annotations

import argparse
import io
import itertools
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from bench.peers import plain_pyspark, thrift_server
from bench.report import geometric_mean, interleaved, machine, median_ms, print_json, print_table
from tests.support.postgres import start_postgres
from tests.support.server import AS_SHIPPED, run_server

SMALL_ROWS, GROUPS, FETCHED = 100, 7, 100_000
TABLES = {
    "small": "id int NOT NULL, kind int NOT NULL, label varchar(20) NOT NULL, amount double precision NOT NULL",
    "kinds": "kind int NOT NULL, title varchar(20) NOT NULL",
    "wide": "id bigint NOT NULL, kind int NOT NULL, amount double precision NOT NULL",
    "big": "id bigint NOT NULL, kind int NOT NULL, amount double precision NOT NULL",
}
SMALL_READS = {
    "SELECT 1": "SELECT 1",
    "point read": "SELECT id, label, amount FROM small WHERE id = 42",
    "small aggregate": "SELECT kind, count(*), sum(amount) FROM small GROUP BY kind",
    "small join": "SELECT s.id, k.title FROM small s JOIN kinds k ON s.kind = k.kind WHERE s.id < 20",
}
NEW_CONSTANTS: dict[str, Callable[[int], str]] = {
    "SELECT n": lambda n: f"SELECT {n}",
    "point read, new constants": lambda n: (
        f"SELECT id, label, amount FROM small WHERE id = {n % SMALL_ROWS} AND kind < {n}"
    ),
    "small aggregate, new constants": lambda n: (
        f"SELECT kind, count(*), sum(amount) FROM small WHERE id < {n} GROUP BY kind"
    ),
    "small join, new constants": lambda n: (
        f"SELECT s.id, k.title FROM small s JOIN kinds k ON s.kind = k.kind WHERE s.id < 20 AND s.id <> {n}"
    ),
}
"""The small reads by a number that is new at each run and above all that the tables hold."""

LARGE_AGGREGATE = "SELECT kind, count(*), sum(amount) FROM big GROUP BY kind"
FETCH = "SELECT id, kind, amount FROM wide"
# The settings of Tidegate's Spark path for small inputs, and for large ones.
SMALL_SETTINGS = (("spark.sql.shuffle.partitions", "1"), ("spark.sql.adaptive.enabled", "false"))
SPARK_SETTINGS = (
    *SMALL_SETTINGS,
    ("spark.sql.ansi.enabled", "true"),
    ("spark.sql.session.timeZone", "UTC"),
    ("spark.sql.execution.arrow.pyspark.enabled", "true"),
)


def make_tables(rows: int) -> dict[str, pa.Table]:
    """The benchmark's tables, the same on every run."""

    def facts(count: int) -> pa.Table:
        ids = pa.array(range(count), pa.int64())
        kinds = pc.cast(pc.subtract(ids, pc.multiply(pc.divide(ids, GROUPS), GROUPS)), pa.int32())
        amounts = pc.divide(pc.cast(ids, pa.float64()), 4.0)
        return pa.table({"id": ids, "kind": kinds, "amount": amounts})

    small = facts(SMALL_ROWS)
    labels = pa.array([f"label {number}" for number in range(SMALL_ROWS)])
    small = small.set_column(0, "id", small["id"].cast(pa.int32())).add_column(2, "label", labels)
    kinds = pa.table({"kind": pa.array(range(GROUPS), pa.int32()), "title": [f"kind {kind}" for kind in range(GROUPS)]})
    return {"small": small, "kinds": kinds, "wide": facts(FETCHED), "big": facts(rows)}


def copy_in(connection: psycopg.Connection, tables: dict[str, pa.Table]) -> None:
    """Creates the tables and loads them with COPY."""
    for name, table in tables.items():
        connection.execute(f"CREATE TABLE {name} ({TABLES[name]})")
        with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN (FORMAT csv)") as copy:
            for batch in table.to_batches(max_chunksize=100_000):
                buffer = io.BytesIO()
                csv.write_csv(batch, buffer, csv.WriteOptions(include_header=False))
                copy.write(buffer.getvalue())


def always(text: str) -> Callable[[int], str]:
    """A statement that is the same at each run."""
    return lambda _: text


def over_the_wire(connection: psycopg.Connection) -> Callable[[str], int]:
    """Runs a statement through psycopg and returns how many rows came."""

    def run(statement: str) -> int:
        return len(connection.execute(statement).fetchall())

    return run


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make bench NAME=reads", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--in-a-row", type=int, default=1, help="runs of one system before the next has its turn")
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the large table")
    options = parser.parse_args()

    tables = make_tables(options.rows)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    samples: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        for name, table in tables.items():
            pq.write_table(table, folder / f"{name}.parquet")

        print("starting the peers", file=sys.stderr)
        ours = stack.enter_context(run_server(folder / "data", environment=AS_SHIPPED))
        postgres = stack.enter_context(start_postgres(settings=("shared_buffers=512MB",)))
        thrift = stack.enter_context(thrift_server())
        spark = stack.enter_context(plain_pyspark(SPARK_SETTINGS))

        connections = {
            name: stack.enter_context(psycopg.connect(dsn, autocommit=True))
            for name, dsn in (("local", ours.dsn()), ("spark", ours.dsn()), ("postgres", postgres.dsn()))
        }
        print("loading", file=sys.stderr)
        copy_in(connections["local"], tables)
        copy_in(connections["postgres"], tables)
        connections["postgres"].execute("ANALYZE")
        for name in TABLES:
            path = folder / f"{name}.parquet"
            thrift.execute(f"CREATE TEMPORARY VIEW {name} USING parquet OPTIONS (path '{path}')")
            spark.read.parquet(str(path)).createOrReplaceTempView(name)
        connections["local"].execute("SET engine = local")
        connections["spark"].execute("SET engine = spark")

        def run_thrift(statement: str) -> int:
            thrift.execute(statement)
            return len(thrift.fetchall())

        def run_pyspark(statement: str) -> int:
            rows: int = spark.sql(statement).toArrow().num_rows
            return rows

        systems: dict[str, Callable[[str], int]] = {
            "Tidegate, fast path": over_the_wire(connections["local"]),
            "Tidegate, Spark": over_the_wire(connections["spark"]),
            "Spark Thrift Server": run_thrift,
            "PySpark": run_pyspark,
            "PostgreSQL": over_the_wire(connections["postgres"]),
        }
        statements = {
            **{what: always(text) for what, text in SMALL_READS.items()},
            **NEW_CONSTANTS,
            f"aggregate over {options.rows:,} rows": always(LARGE_AGGREGATE),
            "fetch 100,000 rows": always(FETCH),
        }
        numbers = itertools.count(1_000)

        def asking(run: Callable[[str], int], statement: Callable[[int], str]) -> Callable[[], int]:
            return lambda: run(statement(next(numbers)))

        for what, statement in statements.items():
            print(f"measuring: {what}", file=sys.stderr)
            if statement(0) == LARGE_AGGREGATE:
                for name, value in (("spark.sql.shuffle.partitions", "2"), ("spark.sql.adaptive.enabled", "true")):
                    spark.conf.set(name, value)
            runs = {name: asking(run, statement) for name, run in systems.items()}
            counts = {name: run() for name, run in runs.items()}
            if len(set(counts.values())) != 1:
                raise RuntimeError(f"{what}: the systems disagree on the number of rows: {counts}")
            samples[what] = interleaved(runs, rounds=options.rounds, in_a_row=options.in_a_row)
            for name, value in SMALL_SETTINGS:
                spark.conf.set(name, value)

        p50 = {what: {name: median_ms(times) for name, times in by.items()} for what, by in samples.items()}
        print(f"\nReads, p50 in milliseconds ({machine()})\n")
        table_rows: list[list[str]] = [["", *systems]]
        for what, by_name in p50.items():
            table_rows.append([what, *(f"{by_name[name]:.2f}" for name in systems)])
        print_table(table_rows)
        print()

        def times_better(peer: str, own: str, statements_: list[str]) -> float:
            return geometric_mean([p50[what][peer] / p50[what][own] for what in statements_])

        small, new = list(SMALL_READS), list(NEW_CONSTANTS)
        large = [what for what in p50 if what.startswith("aggregate over")]
        fast, on_spark = "Tidegate, fast path", "Tidegate, Spark"
        ratios: dict[str, Any] = {
            "fast_path_vs_thrift": times_better("Spark Thrift Server", fast, small),
            "fast_path_vs_thrift_new_constants": times_better("Spark Thrift Server", fast, new),
            "spark_vs_thrift": times_better("Spark Thrift Server", on_spark, small),
            "spark_vs_thrift_new_constants": times_better("Spark Thrift Server", on_spark, new),
            "spark_vs_pyspark": times_better("PySpark", on_spark, small),
            "spark_vs_pyspark_5m": times_better("PySpark", on_spark, large),
            "fetch_vs_postgres": times_better("PostgreSQL", fast, ["fetch 100,000 rows"]),
        }
        print_json("reads", ratios, {"rounds": options.rounds, "in_a_row": options.in_a_row, "rows": options.rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
