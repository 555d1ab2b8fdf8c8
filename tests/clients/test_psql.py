"""psql: the way of a user at a terminal. Everything here is compared with what psql shows of PostgreSQL itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer, bundled_binaries
from tests.support.server import TidegateServer


def find_psql() -> str:
    """psql from PATH (CI installs Debian's, version 15), or the one that comes with the development dependencies."""
    found = shutil.which("psql")
    if found is None and (binaries := bundled_binaries()) is not None:
        found = str(binaries / "psql")
    assert found is not None, "psql is missing"
    return found


def psql(server: TidegateServer | PostgresServer, script: str, *arguments: str) -> str:
    """What psql prints (standard output, then standard error) for `script`, without psqlrc."""
    environment = {**os.environ, "PGOPTIONS": "", "LC_ALL": "C.UTF-8", "PSQLRC": "/dev/null"}
    result = subprocess.run(
        [find_psql(), "-X", "-d", server.dsn(), *arguments],
        input=script,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=300,
    )
    return result.stdout + result.stderr


SCHEMA = """
CREATE SCHEMA psql_tour;
SET search_path = psql_tour;
CREATE TABLE customer (id int NOT NULL, name varchar(40) NOT NULL, credit numeric(10,2) DEFAULT 0, born date);
CREATE TABLE orders (id bigint NOT NULL, customer int, placed timestamptz DEFAULT now(), total numeric);
CREATE VIEW rich AS SELECT id, name FROM customer WHERE credit > 100;
"""
CLEAN = "DROP SCHEMA psql_tour CASCADE;"


@pytest.fixture(scope="module")
def both(server: TidegateServer, postgres: PostgresServer) -> tuple[TidegateServer, PostgresServer]:
    for target in (server, postgres):
        psql(target, SCHEMA)
    return server, postgres


COMPARED = [
    "\\d",
    "\\d customer",
    "\\d orders",
    "\\d rich",
    "\\dt",
    "\\dv",
    "\\dn psql*",
    "\\dt psql_tour.*",
    "\\d nothing",
    "\\df no_such_function",
    "\\df abs",
    "\\dT+ int4",
    "INSERT INTO customer VALUES (1, 'a', 1.5, '2024-02-29'), (2, 'b', NULL, NULL) RETURNING *;",
    "SELECT * FROM customer ORDER BY id;",
    "\\x\nSELECT * FROM customer ORDER BY id;",
    "SELECT 1/0;",
    "SELECT nope FROM customer;",
    "SELECT * FROM nope;",
    "SELEC 1;",
    "SELECT 1; SELECT 2; SELECT 1/0; SELECT 3;",
    "BEGIN; SELECT 1; SELECT 1/0; SELECT 2; COMMIT;",
    "\\set FETCH_COUNT 2\nSELECT * FROM generate_series(1, 5) AS g;",
    "SELECT 1 AS one, 'x' AS two \\gdesc",
    "\\copy (SELECT id, name FROM customer ORDER BY id) TO STDOUT CSV HEADER",
    "UPDATE customer SET credit = credit + 1 WHERE id = 1; DELETE FROM customer WHERE id = 2; TABLE customer;",
    "SHOW server_encoding; SHOW standard_conforming_strings; SHOW DateStyle;",
    "PREPARE p (int) AS SELECT $1 + 1; EXECUTE p(41); DEALLOCATE p;",
    "CREATE TABLE IF NOT EXISTS customer (id int);",
    "DROP TABLE IF EXISTS nothing;",
    "COMMENT ON TABLE customer IS 'who pays'; \\dt+ nothing",
]


@pytest.mark.parametrize("script", COMPARED)
def test_psql_shows_what_it_shows_of_postgresql(both: tuple[TidegateServer, PostgresServer], script: str) -> None:
    ours, theirs = (psql(target, f"SET search_path = psql_tour;\n{script}\n") for target in both)
    assert ours == theirs


def test_lists_of_databases_functions_and_roles(both: tuple[TidegateServer, PostgresServer]) -> None:
    server, _ = both
    assert "postgres" in psql(server, "\\l")
    assert "postgres" in psql(server, "\\du")
    functions = psql(server, "\\df *.lower")
    assert "pg_catalog | lower" in functions


def test_tab_completion_queries(both: tuple[TidegateServer, PostgresServer]) -> None:
    """The catalog queries that psql 15 sends on TAB, as recorded, give what PostgreSQL gives for our schema."""
    cases = Path(__file__).parent / "psql_tab_completion.sql"
    for query in cases.read_text().split("\n;\n"):
        if query.strip():
            ours, theirs = (psql(target, f"SET search_path = psql_tour;\n{query};\n", "-At") for target in both)
            assert sorted(ours.splitlines()) == sorted(theirs.splitlines()), query


def test_bad_input_leaves_the_session_alive(server: TidegateServer) -> None:
    output = psql(
        server, "SELECT 'abc'::int;\nSELECT 2147483647 + 1;\nSELECT 1::nope;\nSELECT 'still here' AS here;\n", "-At"
    )
    assert "still here" in output
    assert 'invalid input syntax for type integer: "abc"' in output
    assert "integer out of range" in output
    assert 'type "nope" does not exist' in output
