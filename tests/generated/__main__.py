"""Generated statements on PostgreSQL and on Tidegate: `make generate`.

Starts PostgreSQL 15 and a server, sends the same random statements to both and writes those that differ, made as small
as they can be, into a page, which keeps what other kinds and engines gave before. Exit status 1 when one differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from tests.generated.changes import Changes
from tests.generated.compare import ask, same, sort
from tests.generated.definitions import Definitions
from tests.generated.functions import Functions
from tests.generated.page import Run, write
from tests.generated.partitioning import counted, partitioned
from tests.generated.queries import Queries
from tests.generated.reduce import reduce
from tests.generated.tables import SCHEMA
from tests.generated.trials import CANCELLED, REFUSED, Trial, different_trials, how
from tests.support.postgres import PostgresServer, start_postgres
from tests.support.server import AS_SHIPPED, run_server

PAGE = Path(__file__).parents[2] / "docs" / "generated-statements.md"
KINDS = ("queries", "pairs", "changes", "functions", "definitions")
SETTINGS = "set timezone = 'UTC'; set statement_timeout = '{}s'"
PATIENCE_S, SPARK_PATIENCE_S = 20, 120
"""A statement that takes longer on one of them is a difference. Spark starts with the first one."""


def oracle(postgres: PostgresServer) -> str:
    """How to connect to a database of PostgreSQL with the locale that ours have; it is made if it is not there."""
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        if not connection.execute("select from pg_database where datname = 'generated'").fetchall():
            connection.execute("create database generated template template0 locale 'C.UTF-8'")
    return postgres.dsn("generated")


def connected(dsn: str, *, engine: str | None = None) -> psycopg.Connection:
    """A connection that sees the tables."""
    connection = psycopg.connect(dsn, autocommit=True)
    connection.execute("set client_min_messages = error")
    connection.execute(SETTINGS.format(SPARK_PATIENCE_S if engine in ("auto", "spark") else PATIENCE_S).encode())
    if engine is not None:
        connection.execute(f"set engine = {engine}".encode())
    connection.execute("set search_path = generated")
    return connection


def different_queries(
    theirs: psycopg.Connection, ours: psycopg.Connection, seed: int, count: int
) -> Iterator[tuple[str, str]]:
    """The queries of `count` on which the servers differ: how, and the smallest text found that still does."""
    queries = Queries(seed)
    for _ in range(count):
        query = queries.query()
        expected, found = ask(theirs, query.text), ask(ours, query.text)
        if found.sqlstate == REFUSED or same(expected, found, ordered=query.ordered):
            continue
        kind = how(expected, found)

        def differs(text: str, kind: str = kind) -> bool:
            expected, found = ask(theirs, text), ask(ours, text)
            return not same(expected, found, ordered=False) and how(expected, found) == kind

        # Each smaller text would take the patience again.
        is_reduced = CANCELLED not in (expected.sqlstate, found.sqlstate)
        yield kind, reduce(query.text, differs) if is_reduced and differs(query.text) else query.text


def broken_pairs(ours: psycopg.Connection, seed: int, count: int) -> Iterator[tuple[str, str]]:
    """The pairs (TLP and NoREC in turn) of `count` whose queries give different rows."""
    queries = Queries(seed)
    for number in range(count):
        pair = (partitioned if number % 2 else counted)(queries)
        first, second = ask(ours, pair.first), ask(ours, pair.second)
        states = {first.sqlstate, second.sqlstate}
        # What a condition complains of depends on the rows for which it is evaluated.
        if "XX000" in states or (states == {None} and sort(first.rows) != sort(second.rows)):
            yield how(first, second), f"{pair.first};\n{pair.second}"


def trials(kind: str, seed: int, count: int) -> Iterator[Trial]:
    """Trials of `kind` that have at least `count` statements together."""
    made = {"changes": Changes, "functions": Functions, "definitions": Definitions}[kind](seed)
    while count > 0:
        trial = made.trial()
        count -= trial.size
        yield trial


def differences(
    kind: str, theirs: psycopg.Connection, ours: psycopg.Connection, seed: int, count: int
) -> Iterator[tuple[str, str]]:
    """What differs among `count` statements of `kind`."""
    if kind == "queries":
        return different_queries(theirs, ours, seed, count)
    if kind == "pairs":
        return broken_pairs(ours, seed, count)
    return different_trials(theirs, ours, trials(kind, seed, count))


def main() -> int:
    """Run what the command line asks for; 0 when nothing differs."""
    parser = argparse.ArgumentParser(
        prog="make generate", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--count", type=int, default=50_000, help="statements (pairs of queries) of each kind")
    parser.add_argument("--engine", choices=["auto", "local", "spark"], default="local")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-page", action="store_true", help="leave the page as it is")
    chosen = parser.parse_args()
    runs = []
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-generated-") as folder,
        start_postgres() as postgres,
        run_server(Path(folder) / "data", arguments=("--spark-start", "lazy"), environment=AS_SHIPPED) as server,
    ):
        for kind in chosen.kinds:
            started = time.monotonic()
            found = []
            for dsn in (oracle(postgres), server.dsn()):
                with psycopg.connect(dsn, autocommit=True) as connection:
                    connection.execute(SCHEMA.encode())
            with connected(oracle(postgres)) as theirs, connected(server.dsn(), engine=chosen.engine) as ours:
                for how_, text in differences(kind, theirs, ours, chosen.seed, chosen.count):
                    found.append((how_, text))
                    print(f"-- {kind}: {how_}\n{text};", flush=True)
            minutes = (time.monotonic() - started) / 60
            runs.append(Run(kind, chosen.engine, chosen.seed, chosen.count, minutes, tuple(found)))
            print(f"-- {chosen.count} {kind}, {minutes:.1f} minutes, {len(found)} differ", flush=True)
            if not chosen.no_page:
                write(PAGE, runs)
    return 1 if any(run.found for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
