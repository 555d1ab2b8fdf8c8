"""Queries by keys and ranges of keys give without an engine what they give with one."""

from __future__ import annotations

import random

import pytest

from adapter.queries import one_key
from planner.errors import SqlError
from tests.adapter.harness import Client

ROWS = 300

KEYS = (
    "id = {a}",
    "id in ({a}, {b}, {c}, null)",
    "id = {a} or id = {b}",
    "id between {a} and {a} + 20",
    "id > {a} and id <= {b} and id < {c} + 100",
    "{b} >= id",
    "k = {small}",
    "k = {small} and at >= timestamp '2024-01-01' + interval '0 day'",
    "k = {small} and at < '2024-03-01'",
    "k between {small} and 5 and id >= {a}",
    "d > '2024-02-01' and d <= '2024-05-01'",
    "num >= {small} and num < {small} + 1.5",
    "t > 'b' and t < 'x'",
    "u = md5('{a}')::uuid",
    "id > null",
    "k = {small} and id is not null",
)
TESTS = (
    "",
    "and k <> 3",
    "and t is null",
    "and (v > 'm' or num < 2)",
    "and not (k = 2 and t is not null)",
    "and coalesce(t, 'none') <> 'none'",
    "and at > '2024-02-01'",
    "and num = 2.50",
)
SELECTED = (
    "*",
    "id, num + 1, k * 2, coalesce(t, v), at, d",
    "k, num * num, t || v, id > 100",
    "count(*), sum(k), sum(id), min(t), max(at), min(d), count(distinct k), sum(num), max(num)",
    "count(t), sum(distinct k), max(v) filter (where k > 2), coalesce(sum(num), 0) + 1",
    "distinct k",
    "distinct t, k",
)
ORDERS = (
    "",
    "order by id",
    "order by id desc limit 7",
    "order by k desc, id limit 5 offset 3",
    "order by t nulls first, id",
    "order by at desc, id limit 4",
    "order by num, d desc, id",
)
GROUPED = (
    "select k, count(*), sum(num) from s where {where} group by k having count(*) > 1 order by 1",
    "select t, max(id) from s where {where} group by t order by t nulls first limit 3",
    "select x.k from (select k, id from s where {where} order by id limit 10) x where x.k > 2 order by x.id",
)


async def fill(client: Client) -> None:
    await client.run(
        "create table s (id bigint primary key, k int, t text, v varchar(20) not null, num numeric(8,2), at timestamp,"
        " d date, u uuid unique);"
        "create index on s (k, at desc); create index on s (d); create index on s (num); create index on s (t)"
    )
    await client.run(
        "insert into s select g, nullif(g % 7, 6), case when g % 5 > 0 then chr(97 + g % 26) || g end, 'v' || g % 31,"
        " (g % 9) * 0.75, case when g % 11 > 0 then timestamp '2024-01-01' + g * interval '9 hours' end,"
        f" date '2024-01-01' + g, md5(g::text)::uuid from generate_series(1, {ROWS}) g"
    )


async def result(client: Client, sql: str) -> object:
    try:
        rows = await client.rows(sql)
    except SqlError as error:
        return error.sqlstate, str(error)
    return rows if "order by" in sql else sorted(rows, key=repr)


def queries(chance: random.Random, count: int) -> list[str]:
    found = []
    for _ in range(count):
        values = {
            "a": chance.randint(-5, ROWS),
            "b": chance.randint(1, ROWS),
            "c": chance.randint(1, 9),
            "small": chance.randint(0, 6),
        }
        where = f"{chance.choice(KEYS)} {chance.choice(TESTS)}".format(**values)
        if chance.random() < 0.2:
            found.append(chance.choice(GROUPED).format(where=where))
            continue
        selected = chance.choice(SELECTED)
        order = "" if "(" in selected.split(",")[0] or "distinct" in selected else chance.choice(ORDERS)
        found.append(f"select {selected} from s where {where} {order}")
    return found


@pytest.mark.parametrize("seed", range(4))
async def test_an_engine_says_the_same(client: Client, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    await fill(client)
    answered = 0
    here = one_key.rows_of_key

    async def counted(*given: object) -> object:
        nonlocal answered
        rows = await here(*given)  # type: ignore[arg-type]
        answered += rows is not None
        return rows

    monkeypatch.setattr("adapter.queries.read.rows_of_key", counted)
    asked = queries(random.Random(seed), 120)
    for sql in asked:
        without = await result(client, sql)
        await client.run("set enable_indexscan = off")
        with_engine = await result(client, sql)
        await client.run("set enable_indexscan = on")
        assert without == with_engine, sql
    assert answered > 0.6 * len(asked)


async def test_rows_of_the_transaction_are_among_them(client: Client) -> None:
    await fill(client)
    await client.run(
        "begin; delete from s where id = 11; insert into s values (15000, 1, 'x', 'y');"
        " update s set k = 9 where id = 12"
    )
    assert await client.rows("select id, k from s where id between 10 and 13 order by id") == [
        (10, 3),
        (12, 9),
        (13, None),
    ]
    assert await client.rows("select max(id), count(*) from s where id > 298") == [(15000, 3)]
    assert await client.rows("select id from s order by id desc limit 2") == [(15000,), (300,)]
    await client.run("rollback")
    assert await client.rows("select count(*), sum(k) from s where id between 10 and 13") == [(4, 12)]


async def test_a_range_is_changed_as_by_an_engine(client: Client) -> None:
    await fill(client)
    tag = await client.tag("update s set num = num + id, t = 'new' where id between 20 and 29 and k <> 2")
    assert tag == "UPDATE 7"
    assert await client.value("select count(*) from s where t = 'new'") == 7
    assert await client.tag("delete from s where id >= 25 and id < 35") == "DELETE 10"
    assert await client.rows("select count(*), min(num) from s where id between 20 and 40") == [(11, 0)]


async def test_a_large_range_is_an_engine_s(client: Client) -> None:
    await client.run("create table many (id int primary key, n int)")
    await client.run("insert into many select g, 1 from generate_series(1, 5000) g")
    assert await client.rows("select sum(n), count(*) from many where id > 100") == [(4900, 4900)]
    assert await client.rows("select id from many where id > 4000 order by id limit 2") == [(4001,), (4002,)]


async def test_a_range_is_held_against_what_others_write(client: Client, another: object) -> None:
    other: Client = await another()  # type: ignore[operator]
    await fill(client)
    await client.run("begin isolation level serializable")
    assert await client.value("select count(*) from s where id between 1 and 20 + 3") == 23
    await other.run("delete from s where id = 23")
    await client.run("insert into s (id, v) values (15001, 'x')")
    assert (await client.error("commit")).sqlstate == "40001"


async def test_what_is_beside_a_range_is_not_held(client: Client, another: object) -> None:
    other: Client = await another()  # type: ignore[operator]
    await fill(client)
    await client.run("begin isolation level serializable")
    assert await client.value("select count(*) from s where id between 1 and 20 + 3") == 23
    await other.run("delete from s where id = 24")
    await client.run("insert into s (id, v) values (15001, 'x')")
    assert await client.tag("commit") == "COMMIT"
