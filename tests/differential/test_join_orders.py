"""The Join Order Benchmark's shape on few movies: 4 to 17 tables, on the local engine all, on Spark some.

`make job` has more movies, and all on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from bench.job.load import load, queries
from bench.tpcds.answers import ask, difference
from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer

MOVIES = 1500
ON_SPARK = (7, 33)
"""The tables of people, and two of most others each."""

LONGEST_S = 30.0
"""A plan is out of all proportion where it takes longer on these few rows, on a machine however busy."""


@pytest.fixture(scope="module")
def connections(
    server: TidegateServer, postgres: PostgresServer
) -> Iterator[tuple[psycopg.Connection[Any], psycopg.Connection[Any]]]:
    """A session here and one on PostgreSQL, with the tables."""
    with ExitStack() as stack:
        both = []
        for dsn in (server.dsn(), postgres.dsn()):
            connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))
            connection.execute("DROP SCHEMA IF EXISTS job CASCADE")
            connection.execute("CREATE SCHEMA job")
            connection.execute("SET search_path = job")
            stack.callback(connection.execute, "DROP SCHEMA job CASCADE")
            load(connection, MOVIES, indexes=dsn == postgres.dsn())
            both.append(connection)
        yield both[0], both[1]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_answers_are_postgresqls(
    connections: tuple[psycopg.Connection[Any], psycopg.Connection[Any]], engine: str
) -> None:
    """Each family's query: rows, names and types."""
    ours, theirs = connections
    ours.execute(f"SET engine = {engine}".encode())
    found, asked = {}, 0
    for number, text in queries():
        if engine == "local" or number in ON_SPARK:
            answer, asked = ask(ours, text), asked + 1
            problem = difference(text, (ours, answer), (theirs, ask(theirs, text)))
            if problem or (engine == "local" and answer.seconds > LONGEST_S):
                found[number] = problem or f"{answer.seconds:.1f} s"
    ours.execute("RESET engine")
    assert (asked, found) == (33 if engine == "local" else len(ON_SPARK), {})
