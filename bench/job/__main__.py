"""The Join Order Benchmark's shape from data to checked answers: `make job`.

Makes the data, starts a server on a fresh data directory, loads the 21 tables through COPY, runs a query of each of the
33 families on both engines, and compares every answer with that of a real PostgreSQL on the same data. Prints a table,
writes it into docs/join-order.md (--no-page: not), ends with a line of JSON. Exits with 1 if any answer differs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import psycopg

from bench.job.load import HERE, load, queries
from bench.report import machine, print_table
from bench.tpcds.lines import closing, run, table
from tests.support.postgres import start_postgres
from tests.support.server import AS_SHIPPED, run_server

PAGE = HERE.parents[1] / "docs" / "join-order.md"


def main() -> int:
    """Runs it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make job", description=__doc__)
    parser.add_argument("--movies", type=int, default=50_000)
    parser.add_argument("--engine", action="append", choices=("spark", "local"), help="default: both")
    parser.add_argument("--timeout", type=int, default=300, help="seconds that a query may take")
    parser.add_argument("--no-page", action="store_true")
    options = parser.parse_args()

    with ExitStack() as stack:
        oracle = stack.enter_context(start_postgres(settings=("work_mem=256MB", "shared_buffers=512MB")))
        postgres = stack.enter_context(psycopg.connect(oracle.dsn(), autocommit=True))
        load(postgres, options.movies, indexes=True)
        folder = Path(tempfile.mkdtemp(prefix="tidegate-job-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        dsn = stack.enter_context(run_server(folder / "data", environment=AS_SHIPPED)).dsn()
        ours = {}
        for engine in options.engine or ("local", "spark"):
            ours[engine] = stack.enter_context(psycopg.connect(dsn, autocommit=True))
            ours[engine].execute(f"SET engine = {engine}".encode())
        rows = load(next(iter(ours.values())), options.movies, indexes=False)
        for connection in (postgres, *ours.values()):
            connection.execute("SELECT count(*) FROM kind_type")
            connection.execute(f"SET statement_timeout = '{options.timeout}s'".encode())
        lines = []
        for number, query in queries():
            lines.append(run(postgres, ours, number, query))
            print("  ".join(lines[-1].cells()), file=sys.stderr, flush=True)
    print_table([["query", "rows", "PostgreSQL", *ours, "answer"], *(line.cells() for line in lines)])
    if not options.no_page:
        text = [
            "# Join orders",
            "",
            "Made by `make job`: the shape of the Join Order Benchmark. Its 21 tables, with data of a seeded generator",
            f"({options.movies:,} movies, {rows:,} rows) that are skewed and correlated as the real ones are, and a",
            "query of ours for each of its 33 families, of 4 to 17 tables. Each answer is compared with that of",
            "PostgreSQL 15, which has indexes on its foreign keys. The times are of one run each, the first of its",
            "text, while others worked on the machine: they say what is slow out of all proportion, and no more.",
            "",
            f"On {machine()}:",
            "",
            *table(lines),
        ]
        PAGE.write_text("\n".join(text) + "\n", encoding="utf-8")
    return 0 if closing("job", lines, movies=options.movies) else 1


if __name__ == "__main__":
    sys.exit(main())
