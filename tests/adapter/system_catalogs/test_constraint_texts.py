"""Constraints as text: pg_get_constraintdef, its pretty form and conkey are PostgreSQL's for expressions of all kinds
(tests/data/check_expressions.txt), and a text that is bound again means and looks the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.adapter.harness import Client
from tests.support.postgres import PostgresServer

FILE = Path(__file__).parents[2] / "data" / "check_expressions.txt"
CASES = [line.split(" | ", 1) for line in FILE.read_text().splitlines() if not line.startswith("#")]
SHOWN = (
    "select pg_get_constraintdef(oid), pg_get_constraintdef(oid, true), conkey::text from pg_constraint"
    " where conname = 'c' and conrelid = 'x'::regclass"
)


@pytest.mark.parametrize(("columns", "expression"), CASES)
async def test_a_check_is_shown_as_postgresql_shows_it(
    client: Client, postgres: PostgresServer, columns: str, expression: str
) -> None:
    if postgres.major != 15:
        pytest.skip("the texts are PostgreSQL 15's")
    with psycopg.connect(postgres.dsn()) as oracle:
        oracle.execute(f"create table x ({columns}, constraint c check ({expression}))")
        expected = oracle.execute(SHOWN).fetchone()
        oracle.rollback()
    await client.run(f"create table x ({columns}, constraint c check ({expression}))")
    assert await client.rows(SHOWN) == [expected]
    # Bound again from its own text.
    first = '"A b"' if columns.startswith('"') else columns.split()[0]
    await client.run(f"alter table x rename {first} to zz; alter table x rename zz to {first}")
    assert await client.rows(SHOWN) == [expected]


async def shown(client: Client, what: str) -> list[Any]:
    return [row[0] for row in await client.rows(f"select pg_get_constraintdef(oid) from pg_constraint where {what}")]


async def test_what_follows_an_expression(client: Client) -> None:
    await client.run("create table t (a int constraint a check (a > 0) no inherit)")
    await client.run("alter table t add constraint b check (a < 9) no inherit not valid")
    assert await shown(client, "conname = 'a'") == ["CHECK ((a > 0)) NO INHERIT"]
    assert await shown(client, "conname = 'b'") == ["CHECK ((a < 9)) NO INHERIT NOT VALID"]


async def test_constants_mean_what_they_meant(client: Client) -> None:
    """However dates are read when rows are written."""
    await client.run("set datestyle = 'SQL, DMY'; set timezone = 'Asia/Tokyo'")
    await client.run(
        "create table t (d date check (d > '2/1/2020'), z timestamptz check (z > '2020-01-02'), i interval check"
        " (i > '1 2:00'))"
    )
    await client.run("set datestyle = 'ISO, MDY'; set timezone = 'UTC'; set intervalstyle = 'sql_standard'")
    assert await shown(client, "contype = 'c' and connamespace <> 13000 and conrelid > 0 order by conname") == [
        "CHECK ((d > '2020-01-02'::date))",
        "CHECK ((i > '1 2:00:00'::interval))",
        "CHECK ((z > '2020-01-01 15:00:00+00'::timestamp with time zone))",
    ]
    assert (await client.error("insert into t(d) values ('2020-01-02')")).sqlstate == "23514"
    assert (await client.error("insert into t(z) values ('2020-01-01 15:00:00+00')")).sqlstate == "23514"
    await client.run("insert into t values ('2020-01-03', '2020-01-01 15:00:01+00', '1 2:00:01')")
