"""Generated statements give PostgreSQL's rows, and queries agree with themselves; what fails is made small."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.generated.__main__ import broken_pairs, connected, differences, different_queries, oracle
from tests.generated.queries import Queries
from tests.generated.reduce import reduce
from tests.generated.tables import SCHEMA
from tests.generated.trials import smaller
from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer


def own_database(server: TidegateServer) -> str:
    """A database of its own: what other tests have left in theirs would be in the catalogs that are compared."""
    return make_conninfo(server.dsn(), dbname="generated")


@pytest.fixture(scope="module")
def schema(postgres: PostgresServer, server: TidegateServer) -> Iterator[None]:
    """The tables on both servers."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("create database generated")
    for dsn in (oracle(postgres), own_database(server)):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
    yield
    with psycopg.connect(oracle(postgres), autocommit=True) as connection:
        connection.execute("drop schema generated cascade")
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("drop database generated")


@pytest.mark.usefixtures("schema")
@pytest.mark.parametrize(("engine", "seed", "count"), [("local", 33, 200), ("local", 34, 90), ("spark", 33, 12)])
def test_generated_queries_give_postgresqls_rows(
    postgres: PostgresServer, server: TidegateServer, engine: str, seed: int, count: int
) -> None:
    with connected(oracle(postgres)) as theirs, connected(own_database(server), engine=engine) as ours:
        assert not list(different_queries(theirs, ours, seed, count))


@pytest.mark.usefixtures("schema")
def test_generated_pairs_agree(server: TidegateServer) -> None:
    with connected(own_database(server), engine="local") as ours:
        assert not list(broken_pairs(ours, 1, 120))


@pytest.mark.usefixtures("schema")
@pytest.mark.parametrize(
    ("kind", "engine", "seed", "count"),
    [
        ("changes", "local", 1, 100),
        ("functions", "local", 2, 100),
        ("definitions", "local", 3, 96),
    ],
)
def test_generated_trials_give_what_postgresql_gives(
    postgres: PostgresServer, server: TidegateServer, kind: str, engine: str, seed: int, count: int
) -> None:
    with connected(oracle(postgres)) as theirs, connected(own_database(server), engine=engine) as ours:
        assert not list(differences(kind, theirs, ours, seed, count))


def test_queries_are_the_same_for_the_same_seed() -> None:
    first, second = Queries(7), Queries(7)
    assert [first.query() for _ in range(20)] == [second.query() for _ in range(20)]


def test_a_failing_statement_is_made_small() -> None:
    text = (
        "with w as (select 1) select a + b, count(*) from (select 1 as a, sum(x) as b from t where x > 0) y group by 1"
    )
    assert reduce(text, lambda text: "sum(" in text) == "SELECT FROM (SELECT sum() AS b) y"


def test_a_failing_trial_is_made_small() -> None:
    statements = ("create table a (x int)", "create table b (y int)", "select 1", "select x + 1, 2 from a where x > 0")
    fixed = frozenset({"create table a (x int)"})

    def differs(some: object) -> bool:
        texts = list(some)  # type: ignore[call-overload]
        return "create table a (x int)" in texts and "x + 1" in texts[-1]

    assert smaller(statements, fixed, differs) == ("create table a (x int)", "SELECT x + 1")
