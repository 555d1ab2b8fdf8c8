"""Random changes of tables with every kind of constraint give what PostgreSQL gives; more by `make random-changes`."""

from __future__ import annotations

import psycopg
import pytest

from tests.differential.random_constraints import differences
from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer


@pytest.mark.parametrize(("engine", "seed", "count"), [("local", 2, 950), ("local", 3, 300), ("spark", 4, 25)])
def test_random_changes_of_constrained_tables(
    postgres: PostgresServer, server: TidegateServer, engine: str, seed: int, count: int
) -> None:
    with (
        psycopg.connect(postgres.dsn(), autocommit=True) as theirs,
        psycopg.connect(server.dsn(), autocommit=True) as ours,
    ):
        ours.execute(f"set engine = {engine}".encode())
        try:
            found = differences(ours, theirs, seed, count)
            assert not found, "\n".join(found)
        finally:
            for connection in (theirs, ours):
                connection.execute("rollback")
                connection.execute("drop schema if exists random_constraints cascade")
