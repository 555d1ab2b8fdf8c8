"""Queries of one small table that are computed with Python's values give what the engine's database gives."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.admission.classes import WorkloadClass
from adapter.engines.common.lowered_queries import KnownQuery
from adapter.engines.common.row_scans import MAX_PICKED, RowScan
from adapter.engines.local.engine import LocalEngine
from adapter.sessions.server import Server
from tests.adapter.harness import Client

TABLE = """
create table t (id int, n int, big bigint, label text, price numeric(10, 2), day date, at timestamptz, ok boolean);
insert into t select g, nullif(g % 7, 3), g * 3000000000, case when g % 5 = 0 then null else 'label ' || g % 11 end,
    (g % 13) / 4.0, date '2026-01-01' + g % 9, timestamptz '2026-01-01 00:00+00' + g % 4 * interval '1 hour', g % 3 = 0
    from generate_series(1, 200) g;
delete from t where id % 17 = 0;
insert into t (id) values (1000);
"""

QUERIES = (
    "select * from t where n > 3 order by id limit 10",
    "select id, n from t order by n, id desc limit 20 offset 5",
    "select id, label from t order by label nulls first, id limit 30",
    "select id, label from t where id < 60 order by label desc, id",
    "select count(*) from t",
    "select count(*), count(n), count(distinct n) from t where n <> 2",
    "select n, count(*), sum(id), min(label), max(price) from t group by n order by n",
    "select n, sum(big), sum(price) from t where ok group by n order by n desc nulls last",
    "select label, n, count(*) filter (where ok) from t group by label, n order by label, n",
    "select distinct day, ok from t order by day, ok",
    "select id, n + 1, price * 2, n is null from t where id between 10 and 40 order by id",
    "select id from t where n = 2 or label = 'label 3' order by id",
    "select id from t where not (n > 2 and ok) order by id",
    "select day, min(at), max(at) from t where at >= '2026-01-01 02:00+00' group by day order by day",
    "select sum(n), max(n), min(day) from t where id < 0",
    "select n from t where id < 0 group by n",
    "select coalesce(n, -1) as m, count(*) from t group by 1 having count(*) > 5 order by 1",
    "select id from t where price > 1.5 order by price desc, id limit 7",
    "select id from t order by id limit 0",
)


@pytest.fixture
async def asked(client: Client) -> Client:
    await client.run(TABLE)
    return client


@pytest.mark.parametrize("query", QUERIES)
async def test_gives_what_the_database_gives(asked: Client, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[bool] = []
    answer = RowScan.answer

    def seen(*arguments: Any) -> Any:
        result = answer(*arguments)
        answers.append(result is not None)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(RowScan, "answer", seen)
        row_by_row = await asked.rows(query)
    assert answers == [True]
    with monkeypatch.context() as patch:
        patch.setattr(KnownQuery, "row_scan", lambda *_: None)
        assert row_by_row == await asked.rows(query)


async def test_errors_are_the_databases(asked: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "select sum(id), max(big * 9000000000000000) from t"
    row_by_row = await asked.error(query)
    with monkeypatch.context() as patch:
        patch.setattr(KnownQuery, "row_scan", lambda *_: None)
        by_database = await asked.error(query)
    assert (
        (row_by_row.sqlstate, row_by_row.message)
        == (by_database.sqlstate, by_database.message)
        == (
            "22003",
            "bigint out of range",
        )
    )
    assert (await asked.error("select id from t order by id limit -1")).sqlstate == "2201W"


async def test_many_rows_are_the_databases(client: Client, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    await client.run(f"create table t (n int); insert into t select g from generate_series(1, {MAX_PICKED + 1}) g")
    opened: list[WorkloadClass] = []
    run = LocalEngine._run

    def counted(engine: LocalEngine, claim: Any, klass: WorkloadClass, *rest: Any) -> Any:
        opened.append(klass)
        return run(engine, claim, klass, *rest)

    monkeypatch.setattr(LocalEngine, "_run", counted)
    assert await client.rows("select count(*) from t") == [(MAX_PICKED + 1,)]
    assert await client.rows("select max(n) from t where n > 1") == [(MAX_PICKED + 1,)]
    assert opened == []
    assert await client.rows("select max(n) from t") == [(MAX_PICKED + 1,)]
    assert opened == ["point"]


async def test_rows_of_a_change_are_found_like_this(asked: Client) -> None:
    assert await asked.run("update t set n = n + 10 where label = 'label 1' and n > 4") != ["UPDATE 0"]
    changed = await asked.rows("select count(*), min(n) from t where n >= 10")
    assert changed == await asked.rows("select count(*), 15 from t where label = 'label 1' and n > 14")
