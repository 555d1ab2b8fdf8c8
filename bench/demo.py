"""TPC-H from data to checked answers: `make demo`.

Generates the data, starts a server on a fresh data directory (or uses a running one: --port), loads the eight tables
through COPY, runs the 22 queries on each engine over a real connection, and compares every answer with that of a
real PostgreSQL on the same data. Exits with 1 if any answer differs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg

from bench.tpch.load import copy_tables, create_tables, generate, queries
from bench.tpch.oracle import Row, answers, difference
from tests.support.postgres import start_postgres
from tests.support.server import AS_SHIPPED, run_server

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "tpch"


def run_queries(connection: psycopg.Connection, engine: str, expected: dict[int, list[Row]]) -> tuple[int, float]:
    """Runs the 22 queries on `engine` and prints a line for each; returns (how many are right, seconds in all)."""
    connection.execute(f"SET engine = {engine}")
    connection.execute("SELECT count(*) FROM region")
    right, total = 0, 0.0
    print(f"\n{engine}")
    for number, text in queries():
        start = time.monotonic()
        try:
            with connection.cursor() as cursor:
                rows = cursor.execute(text).fetchall()
            problem = difference(rows, expected[number])
        except psycopg.Error as error:
            rows, problem = [], f"{error.sqlstate}: {error}"
        seconds = time.monotonic() - start
        total += seconds
        right += problem is None
        print(
            f"  q{number:02}  {seconds * 1000:9.1f} ms  {len(rows):5} rows  {'right' if problem is None else problem}"
        )
    print(f"  {right} of {len(expected)} right, {total:.1f} s")
    return right, total


def main() -> int:
    """Runs the demo; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--scale-factor", type=float, default=0.1)
    parser.add_argument("--engine", action="append", choices=("spark", "local"), help="default: both")
    parser.add_argument("--port", type=int, help="use the server listening here instead of a fresh one")
    options = parser.parse_args()
    engines: list[str] = options.engine or ["spark", "local"]

    data = CACHE / f"sf{options.scale_factor}"
    print(f"generating TPC-H data at scale factor {options.scale_factor}", file=sys.stderr)
    generate(data, options.scale_factor)
    print("asking PostgreSQL for the answers", file=sys.stderr)
    with start_postgres(settings=("work_mem=256MB",)) as postgres:
        expected = answers(postgres.dsn(), data)

    with ExitStack() as stack:
        if options.port is None:
            folder = Path(tempfile.mkdtemp(prefix="tidegate-demo-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            dsn = stack.enter_context(run_server(folder / "data", environment=AS_SHIPPED)).dsn()
        else:
            dsn = f"host=127.0.0.1 port={options.port} user=postgres dbname=postgres"
        connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        print("loading through COPY", file=sys.stderr)
        create_tables(connection)
        start = time.monotonic()
        counts = copy_tables(connection, data)
        print(f"loaded {sum(counts.values()):,} rows in {time.monotonic() - start:.1f} s")
        outcomes = {engine: run_queries(connection, engine, expected) for engine in engines}
    return 0 if all(right == len(expected) for right, _ in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
