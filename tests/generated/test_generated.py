"""Generated queries give PostgreSQL's rows, and agree with themselves; a statement that fails is made small."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.generated.__main__ import broken_pairs, connected, different_queries
from tests.generated.queries import Queries
from tests.generated.reduce import reduce
from tests.generated.tables import SCHEMA
from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer


@pytest.fixture(scope="module")
def schema(postgres: PostgresServer, server: TidegateServer) -> Iterator[None]:
    """The tables on both servers."""
    for dsn in (postgres.dsn(), server.dsn()):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
    yield
    for dsn in (postgres.dsn(), server.dsn()):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("drop schema generated cascade")


@pytest.mark.usefixtures("schema")
@pytest.mark.parametrize(("engine", "seed", "count"), [("local", 1, 250), ("local", 4, 250), ("spark", 3, 15)])
def test_generated_queries_give_postgresqls_rows(
    postgres: PostgresServer, server: TidegateServer, engine: str, seed: int, count: int
) -> None:
    with connected(postgres.dsn()) as theirs, connected(server.dsn(), engine=engine) as ours:
        assert not list(different_queries(theirs, ours, seed, count))


@pytest.mark.usefixtures("schema")
def test_generated_pairs_agree(server: TidegateServer) -> None:
    with connected(server.dsn(), engine="local") as ours:
        assert not list(broken_pairs(ours, 1, 200))


def test_queries_are_the_same_for_the_same_seed() -> None:
    first, second = Queries(7), Queries(7)
    assert [first.query() for _ in range(20)] == [second.query() for _ in range(20)]


def test_a_failing_statement_is_made_small() -> None:
    text = (
        "with w as (select 1) select a + b, count(*) from (select 1 as a, sum(x) as b from t where x > 0) y group by 1"
    )
    assert reduce(text, lambda text: "sum(" in text) == "SELECT FROM (SELECT sum() AS b) y"
