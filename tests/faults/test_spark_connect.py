"""A server whose Spark is a server of Spark Connect: the answers are PostgreSQL's, and it may be started again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.faults.test_spark_cluster import QUERIES, STATEMENTS
from tests.support.postgres import start_postgres
from tests.support.server import TidegateServer
from tests.support.spark_connect import SparkConnect, client_packages


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConnect]:
    """A server of Spark Connect."""
    with SparkConnect(tmp_path_factory.mktemp("connect")) as connect:
        yield connect


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, connect: SparkConnect) -> Iterator[TidegateServer]:
    """A server that does all its work there."""
    paths = (str(client_packages()), os.environ.get("PYTHONPATH", ""))
    server = TidegateServer(
        tmp_path_factory.mktemp("server") / "data",
        arguments=("--spark-remote", connect.url, "--set", "engine=spark"),
        environment={"PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
    try:
        server.start()
        yield server
    finally:
        server.kill()


def test_the_answers_are_those_of_postgres(server: TidegateServer) -> None:
    with (
        start_postgres() as oracle,
        psycopg.connect(oracle.dsn(), autocommit=True) as theirs,
        psycopg.connect(server.dsn(), autocommit=True) as ours,
    ):
        for statement in STATEMENTS:
            assert ours.execute(statement).statusmessage == theirs.execute(statement).statusmessage, statement
        for query in QUERIES:
            assert ours.execute(query).fetchall() == theirs.execute(query).fetchall(), query
        ours.execute("SET spark.sql.shuffle.partitions = 3")
        assert ours.execute("SELECT count(*), sum(n) FROM t").fetchall() == (
            theirs.execute("SELECT count(*), sum(n) FROM t").fetchall()
        )


@pytest.mark.parametrize(
    ("settings", "query", "state", "words"),
    [
        ((), "SELECT 1 / (n - 1) FROM numbers", "22012", "division by zero"),
        (
            ("SET spark.scheduler.pool = 'reports'",),
            "SELECT count(*) FROM numbers",
            "0A000",
            "pools of Spark's scheduler cannot be named through Spark Connect",
        ),
        (
            ("SET temp_file_limit = '1MB'",),
            "SELECT count(*) FROM numbers",
            "0A000",
            "temp_file_limit cannot be kept through Spark Connect",
        ),
        (
            ("SET statement_timeout = '2s'",),
            # By a function in Python, whose worker Spark ends: joins within joins ask nobody whether they should go on.
            "SELECT count(*) FROM numbers a, numbers b, numbers c, numbers d WHERE (a.n * b.n * c.n + d.n)::text ~"
            " '^(1\\d)*9$'",
            "57014",
            "canceling statement due to statement timeout",
        ),
    ],
)
def test_what_fails_says_so(
    server: TidegateServer, settings: tuple[str, ...], query: str, state: str, words: str
) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS numbers AS SELECT g AS n FROM generate_series(1, 100) g")
        for setting in settings:
            connection.execute(setting)
        with pytest.raises(psycopg.Error) as raised:
            connection.execute(query)
        assert (raised.value.sqlstate, raised.value.diag.message_primary) == (state, words)
        connection.execute("RESET ALL")
        assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (100,)


def test_a_server_that_is_away_is_named_and_found_again(server: TidegateServer, connect: SparkConnect) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT g AS n FROM generate_series(1, 5000) g")
        assert connection.execute("SELECT sum(n) FROM kept").fetchone() == (12_502_500,)
        connect.kill()
        begun = time.monotonic()
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as raised:
            connection.execute("INSERT INTO kept SELECT n FROM kept")
        assert raised.value.diag.message_primary == "the Spark engine is not available"
        assert connect.url in str(raised.value.diag.message_detail)
        assert "Connection refused" in str(raised.value.diag.message_detail)
        assert time.monotonic() - begun < 60
        connect.start()
        assert connection.execute("INSERT INTO kept SELECT n FROM kept").statusmessage == "INSERT 0 5000"
        assert connection.execute("SELECT count(*), sum(n) FROM kept").fetchone() == (10_000, 25_005_000)
