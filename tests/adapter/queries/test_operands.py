"""What is compared with something that has one value in a statement is read as if that were a constant: counted."""

from __future__ import annotations

import pytest

from tests.adapter.harness import Client

DAYS = 5
"""Each day's rows are a file of their own."""


@pytest.fixture
async def days(client: Client) -> Client:
    await client.run("create table days (id int, at timestamptz, d date, s text)")
    for day in range(DAYS):
        await client.run(
            f"insert into days select {day} * 1000 + g, current_date - {day} + interval '1 minute' * g,"
            f" current_date - {day}, 'day {day}' from generate_series(0, 9) g"
        )
    return client


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("at >= current_date", 1),
        ("at > current_date - interval '1 day'", 2),
        ("d >= current_date - 1", 2),
        ("d = date_trunc('day', now())::date - 2", 1),
        ("d between date_trunc('day', now()) - interval '1 day' and now()", 3),
        ("id = 1000 + 5", 1),
        ("id in (1000 + 5, 3 * 1000)", 2),
        ("s = lower('DAY 3')", 1),
        ("s like lower('DAY 3') || '%'", 1),
    ],
)
async def test_files_that_cannot_have_rows_are_left_out(days: Client, engine: str, condition: str, parts: int) -> None:
    await days.run(f"set engine = '{engine}'")
    lines = [row[0] for row in await days.rows(f"explain select * from days where {condition}")]
    (read,) = [line for line in lines if line.startswith("Parts of days")]
    assert read.startswith(f"Parts of days: {parts} of {DAYS} read, ")


@pytest.mark.parametrize("change", ["update days set s = 'x'", "delete from days"])
async def test_what_changes_is_looked_for_in_those_files(days: Client, change: str) -> None:
    lines = [row[0] for row in await days.rows(f"explain {change} where at >= current_date - 1 + 1")]
    assert any(line.startswith(f"Parts of days: 1 of {DAYS} read, ") for line in lines)


async def test_prepared_statements_have_new_values_each_time(days: Client) -> None:
    await days.run("prepare p(int) as select count(*) from days where d >= current_date - $1 * 2")
    assert [await days.value(f"execute p({n})") for n in (0, 1, 2)] == [10, 30, 50]


async def test_indexes_are_read_by_them(client: Client) -> None:
    await client.run("create table t (id int primary key, at timestamptz)")
    await client.run("create index t_at on t (at)")
    await client.run("insert into t select g, now() - interval '1 minute' * g from generate_series(0, 20000) g")
    lines = [row[0] for row in await client.rows("explain select * from t where at > now() - interval '1 hour'")]
    assert lines[:3] == [
        "Index Scan using t_at on t",
        "  Index Cond: (at > (now() - '01:00:00'::interval))",
        "Engine: none (it reads by a key)",
    ]
    assert await client.value("select count(*) from t where at > now() - interval '90 minutes'") == 90
    lines = [row[0] for row in await client.rows("explain delete from t where id = 5 + 1")]
    assert lines[1:3] == ["  ->  Index Scan using t_pkey on t", "        Index Cond: (id = 6)"]


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("ci = 'NAME77'", "(ci = 'NAME77'::citext)"),
        ("nu = 96.25", "(nu = 96.25)"),
        ("nu between 12 and 15", "((nu >= 12) AND (nu <= 15))"),
        ("iv = '120 minutes'", "(iv = '02:00:00'::interval)"),
        ("iv < interval '1 hour' * 2", "(iv < '02:00:00'::interval)"),
        ("en = 'ok'", "(en = 'ok'::mood)"),
        ("ip = '10.0.0.77'", "(ip = '10.0.0.77'::inet)"),
        ("ch = 'c77  '", "(ch = 'c77  '::bpchar)"),
        ("ch > 'c9998' and ch < 'c99990'", "((ch > 'c9998'::bpchar) AND (ch < 'c99990'::bpchar))"),
    ],
)
async def test_keys_that_are_no_values_are_found(client: Client, condition: str, shown: str) -> None:
    await client.run("create extension citext; create type mood as enum ('sad', 'ok')")
    await client.run("create table t (id int, ci citext, nu numeric, iv interval, en mood, ip inet, ch char(8))")
    await client.run("create index on t (ci); create index on t (nu); create index on t (iv)")
    await client.run("create index on t (en); create index on t (ip); create index on t (ch)")
    await client.run(
        "insert into t select g, 'Name' || g, g * 1.250, g * interval '1 minute',"
        " case g % 9999 when 1 then 'ok' else 'sad' end::mood, ('10.0.' || g / 256 || '.' || g % 256)::inet, 'c' || g"
        " from generate_series(1, 20000) g"
    )
    lines = [row[0] for row in await client.rows(f"explain select id from t where {condition}")]
    assert lines[0].startswith("Index Scan using t_")
    assert lines[1] == f"  Index Cond: {shown}"
    await client.run("set enable_indexscan = off")
    expected = await client.rows(f"select id from t where {condition} order by id")
    await client.run("set enable_indexscan = on")
    assert await client.rows(f"select id from t where {condition} order by id") == expected
    assert expected


async def test_order_that_an_index_has_not_is_not_taken_from_it(client: Client) -> None:
    await client.run("create table t (ip inet, j jsonb); create index on t (ip); create index on t (j)")
    await client.run(
        "insert into t select ('10.0.' || g / 256 || '.' || g % 256)::inet, jsonb_build_object('a', g)"
        " from generate_series(1, 20000) g"
    )
    assert str(await client.value("select ip::text from t order by t.ip desc limit 1")) == "10.0.78.32/32"
    assert await client.value("select j::text from t order by t.j desc limit 1") == '{"a": 20000}'
    assert await client.value("select max(ip)::text from t") == "10.0.78.32/32"
