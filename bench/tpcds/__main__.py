"""TPC-DS from data to checked answers: `make tpcds`.

Generates the data, starts a server on a fresh data directory (or uses a running one: --port), loads the 24 tables
through COPY, runs the 99 queries on each engine over a real connection, and compares every answer with that of a real
PostgreSQL on the same data. What PostgreSQL has not answered within --postgres-timeout is compared between the engines.
Prints a table, writes it into its section of docs/tpcds.md (--no-page: not; there is one for each scale factor and
choice of engines and queries), ends with a line of JSON. Exits with 1 if any answer differs.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psycopg

from bench.report import machine, print_table
from bench.tpcds.lines import TIMED_OUT, Line, closing, run, table
from bench.tpcds.load import ROOT, generated, load, queries
from tests.support.postgres import start_postgres
from tests.support.server import AS_SHIPPED, run_server

PAGE = ROOT / "docs" / "tpcds.md"
QUERIES = 99


HEAD = """# TPC-DS

Made by `make tpcds`, each section by one run or several: the 24 tables with primary keys, loaded by COPY. Data and the
99 texts, with their default parameters, are those of DuckDB's extension tpcds (1.5.5). Each answer is compared with
that of PostgreSQL 15 on the same data: names and types of the columns, and all rows in their order; where ORDER BY
leaves the order open and the rows differ, both are asked again with all columns behind its keys. Numbers must be equal
(trailing zeros do not count); those of double precision may differ in their last digits. The times are of one run each,
the first of its text, with up to ten times as much work on the machine as it has cores: they say that nothing is
endless, and no more than that.
"""


def section(lines: Sequence[Line], scale_factor: float, rows: int, postgres_timeout_s: int) -> str:
    """A run's part of the page, from its heading on."""
    engines = " and ".join(lines[0].engines)
    which = "all queries" if len(lines) == QUERIES else f"{len(lines)} queries"
    text = [f"## Scale factor {scale_factor}: {engines}, {which}", "", f"{rows:,} rows, on {machine()}.", ""]
    empty = [line.number for line in lines if not line.postgres.rows and not line.postgres.error]
    if empty:
        text += [f"No rows at this scale, in PostgreSQL either: {', '.join(map(str, empty))}.", ""]
    late = [line.number for line in lines if line.postgres.sqlstate == TIMED_OUT]
    if late:
        text.append(
            f"PostgreSQL had not answered after {postgres_timeout_s} s, so that the first engine's answer is the"
        )
        text += [f"measure of the others: {', '.join(map(str, late))}.", ""]
    return "\n".join([*text, *table(lines)]) + "\n"


def with_section(page: str, made: str) -> str:
    """`page` with the section `made` in place of the one that has its heading, or behind the others."""
    sections = re.split(r"(?m)^(?=## )", page)[1:]
    heading = made.partition("\n")[0]
    if heading in (each.partition("\n")[0] for each in sections):
        sections = [made if each.partition("\n")[0] == heading else each for each in sections]
    else:
        sections.append(made)
    return "\n".join(each.rstrip("\n") + "\n" for each in (HEAD, *sections))


def main() -> int:
    """Runs it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make tpcds", description=__doc__)
    parser.add_argument("--scale-factor", type=float, default=0.1)
    parser.add_argument("--engine", action="append", choices=("spark", "local"), help="default: both")
    parser.add_argument("--query", action="append", type=int, help="default: all")
    parser.add_argument("--port", type=int, help="use the server listening here instead of a fresh one")
    parser.add_argument("--timeout", type=int, default=300, help="seconds that a query may take")
    parser.add_argument("--postgres-timeout", type=int, help="seconds on PostgreSQL; default: --timeout")
    parser.add_argument("--no-page", action="store_true")
    options = parser.parse_args()

    print(f"generating TPC-DS data at scale factor {options.scale_factor}", file=sys.stderr)
    data = generated(options.scale_factor)
    with ExitStack() as stack:
        oracle = stack.enter_context(start_postgres(settings=("work_mem=256MB", "shared_buffers=512MB")))
        postgres = stack.enter_context(psycopg.connect(oracle.dsn(), autocommit=True))
        load(postgres, data)
        if options.port is None:
            folder = Path(tempfile.mkdtemp(prefix="tidegate-tpcds-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            dsn = stack.enter_context(run_server(folder / "data", environment=AS_SHIPPED)).dsn()
        else:
            dsn = f"host=127.0.0.1 port={options.port} user=postgres dbname=postgres"
        ours = {}
        for engine in options.engine or ("local", "spark"):
            ours[engine] = stack.enter_context(psycopg.connect(dsn, autocommit=True))
            ours[engine].execute(f"SET engine = {engine}".encode())
        start = time.monotonic()
        # Whatever engine the queries are to run on: ANALYZE of 24 tables takes minutes on Spark.
        rows = load(stack.enter_context(psycopg.connect(dsn, autocommit=True)), data)
        print(f"loaded {rows:,} rows in {time.monotonic() - start:.1f} s", file=sys.stderr)
        postgres_timeout_s = options.postgres_timeout or options.timeout
        for connection in (postgres, *ours.values()):
            connection.execute("SELECT count(*) FROM reason")
            timeout_s = postgres_timeout_s if connection is postgres else options.timeout
            connection.execute(f"SET statement_timeout = '{timeout_s}s'".encode())
        lines = []
        for number, text in queries(data):
            if not options.query or number in options.query:
                lines.append(run(postgres, ours, number, text))
                print("  ".join(lines[-1].cells()), file=sys.stderr, flush=True)
    print_table([["query", "rows", "PostgreSQL", *ours, "answer"], *(line.cells() for line in lines)])
    if not options.no_page:
        page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        made = section(lines, options.scale_factor, rows, postgres_timeout_s)
        PAGE.write_text(with_section(page, made), encoding="utf-8")
    return 0 if closing("tpcds", lines, scale_factor=options.scale_factor) else 1


if __name__ == "__main__":
    sys.exit(main())
