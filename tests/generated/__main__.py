"""Generated statements on PostgreSQL and on Tidegate: `make generate`.

Starts PostgreSQL 15 and a server, sends the same random queries to both and writes those that differ, made as small as
they can be, into a page. Exit status 1 when one differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg

from tests.generated.compare import Result, ask, same, sort
from tests.generated.partitioning import counted, partitioned
from tests.generated.queries import Queries
from tests.generated.reduce import reduce
from tests.generated.tables import SCHEMA
from tests.support.postgres import start_postgres
from tests.support.server import AS_SHIPPED, run_server

PAGE = Path(__file__).parents[2] / "docs" / "generated-statements.md"
SETTINGS = "set timezone = 'UTC'; set statement_timeout = '{}s'"
PATIENCE_S, SPARK_PATIENCE_S = 20, 120
"""A statement that takes longer on one of them is a difference. Spark starts with the first one."""

CANCELLED = "57014"

REFUSED = "0A000"
"""What is refused by name is no difference."""


def connected(dsn: str, *, engine: str | None = None) -> psycopg.Connection:
    """A connection that sees the tables."""
    connection = psycopg.connect(dsn, autocommit=True)
    connection.execute("set client_min_messages = error")
    connection.execute(SETTINGS.format(SPARK_PATIENCE_S if engine == "spark" else PATIENCE_S).encode())
    if engine is not None:
        connection.execute(f"set engine = {engine}".encode())
    connection.execute("set search_path = generated")
    return connection


def how(theirs: Result, ours: Result) -> str:
    """In what they differ."""
    if theirs.sqlstate is not None or ours.sqlstate is not None:
        return (
            f"{theirs.sqlstate or 'rows'} and {ours.sqlstate or 'rows'}: {(ours.message or theirs.message or '')[:60]}"
        )
    return "columns" if theirs.columns != ours.columns else "rows"


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


def main() -> int:
    """Run what the command line asks for; 0 when nothing differs."""
    parser = argparse.ArgumentParser(
        prog="make generate", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=50_000, help="queries for both servers")
    parser.add_argument("--pairs", type=int, default=50_000, help="pairs of queries for us (TLP and NoREC)")
    parser.add_argument("--engine", choices=["local", "spark"], default="local")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    found: list[tuple[str, str, str]] = []
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-generated-") as folder,
        start_postgres() as postgres,
        run_server(Path(folder) / "data", environment=AS_SHIPPED) as server,
    ):
        for dsn in (postgres.dsn(), server.dsn()):
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(SCHEMA.encode())
        with connected(postgres.dsn()) as theirs, connected(server.dsn(), engine=chosen.engine) as ours:
            for kind, text in different_queries(theirs, ours, chosen.seed, chosen.queries):
                found.append(("differs from PostgreSQL", kind, text))
                print(f"{kind}: {text}", flush=True)
            for kind, text in broken_pairs(ours, chosen.seed, chosen.pairs):
                found.append(("differs from itself", kind, text))
                print(f"{kind}: {text}", flush=True)
    PAGE.write_text(page(chosen.queries, chosen.pairs, chosen.engine, chosen.seed, time.monotonic() - started, found))
    return 1 if found else 0


def page(queries: int, pairs: int, engine: str, seed: int, seconds: float, found: list[tuple[str, str, str]]) -> str:
    """The page's text."""
    counts = Counter((where, kind) for where, kind, _ in found)
    lines = [
        "# Generated statements",
        "",
        f"Written by `make generate`: {queries:,} random queries on PostgreSQL 15 and on Tidegate's {engine} engine,",
        f"and {pairs:,} pairs of queries that must agree with each other (ternary logic partitioning and NoREC).",
        f"Seed {seed}, {seconds / 60:.0f} minutes. Names, types and rows are compared; rows in order where the query",
        "orders them by all columns. What is refused by name (0A000) is left out. Statements are made as small as they",
        "can be while they still differ.",
        "",
        "| | difference | statements |",
        "|---|---|---|",
        *[f"| {where} | {kind} | {count} |" for (where, kind), count in counts.most_common()],
        "",
        *[f"```sql\n-- {where}: {kind}\n{text}\n```\n" for where, kind, text in found],
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
