"""Rows of a large table that are picked by a whole key are read by that key, without an engine."""

from __future__ import annotations

import datetime

import pytest

from tests.adapter.harness import Client

ROWS = 20_000


@pytest.fixture
async def large(client: Client) -> Client:
    await client.run("create table t (id int primary key, code text unique, at date, n float8, unique (at, n))")
    await client.run(
        f"insert into t select g, 'c' || g, date '2024-01-01' + g % 100, g from generate_series(1, {ROWS}) g"
    )
    return client


async def plan(client: Client, query: str) -> str:
    return "\n".join(str(row[0]) for row in await client.rows(f"explain {query}"))


async def test_explain_names_the_index(large: Client) -> None:
    shown = await plan(large, "select n from t where id = 5")
    assert "Index Scan using t_pkey on t" in shown
    assert "Engine: none (it reads by a key)" in shown
    assert "Index Scan using t_code_key on t" in await plan(large, "select * from t where code = 'c7' and id > 3")
    for query in (
        "select sum(n) from t where id = 5",
        "select n from t where at = date '2024-01-02'",
        "select n from t where id = 5 or id = 6",
    ):
        assert "Index Scan" in await plan(large, query)
    for query in ("select n from t where id > 5", "select id from t where n = 5", "select id from t where id <> 5"):
        assert "Index Scan" not in await plan(large, query)
    await large.run("set engine = local")
    assert "Index Scan" in await plan(large, "select n from t where id = 5")


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("id = 5", [5]),
        ("id = 5 and code = 'c5'", [5]),
        ("id = 5 and code = 'c6'", []),
        ("id = 5 and n < 4", []),
        ("code = 'c19999'", [19999]),
        ("code = 'nobody'", []),
        ("id = 3000000000", []),
        ("id = null", []),
        ("id = -1", []),
        ("code is not null and id = 20000", [20000]),
    ],
)
async def test_the_rows_are_those_that_an_engine_finds(large: Client, condition: str, found: list[int]) -> None:
    assert await large.rows(f"select id from t where {condition}") == [(id_,) for id_ in found]
    assert await large.rows(f"select 'x', id, 7 from t where {condition}") == [("x", id_, 7) for id_ in found]
    assert await large.value(f"select count(*) from (select * from t where {condition}) s") == len(found)


async def test_changes_are_seen(large: Client) -> None:
    await large.run("update t set n = -1 where id = 5")
    await large.run("delete from t where id = 6")
    assert await large.rows("select at, n from t where id = 5") == [(datetime.date(2024, 1, 6), -1.0)]
    assert await large.rows("select n from t where id = 6") == []
    await large.run("begin; insert into t values (0, 'own'); delete from t where id = 7")
    await large.run("update t set id = -8 where id = 8")
    assert await large.rows("select code from t where id = 0") == [("own",)]
    assert await large.rows("select code from t where id = 7") == []
    assert await large.rows("select code from t where id = -8") == [("c8",)]
    await large.run("rollback")
    assert await large.rows("select id from t where id = 7") == [(7,)]
    await large.run("alter table t add column late int default 9")
    assert await large.rows("select late from t where id = 9") == [(9,)]
