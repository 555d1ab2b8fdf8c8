"""Joins of a few rows to a large table read it by index, and find what a scan finds."""

from __future__ import annotations

import random

import pytest

from tests.adapter.harness import Client

ROWS = 40_000


@pytest.fixture
async def tables(client: Client) -> Client:
    await client.run(
        "create table large (id int primary key, ref bigint, code text unique, n numeric(8, 2)); "
        "create index on large (ref); create index on large (n, ref)"
    )
    await client.run(
        "insert into large select g, case when g % 7 = 0 then null else g % 5000 end, 'c' || g, g % 100 / 4.0 "
        f"from generate_series(1, {ROWS}) g"
    )
    await client.run("create table small (x smallint, y text, z numeric, big int)")
    await client.run(
        "insert into small select g, case when g % 3 = 0 then null else 'c' || g end, g / 4.0, g * 13 "
        "from generate_series(1, 40) g"
    )
    await client.run("delete from large where id % 13 = 5; insert into small values (null, 'none', null, null)")
    return client


async def plan(client: Client, query: str) -> str:
    return "\n".join(row[0] for row in await client.rows(f"explain {query}"))


BY_INDEX = [
    "select s.*, l.* from small s join large l on l.id = s.x",
    "select s.*, l.* from small s left join large l on l.id = s.x",
    "select s.*, l.* from large l right join small s on l.id = s.x and l.n > 3",
    "select s.x, l.id from small s, large l where l.code = s.y and s.x < 20",
    "select s.x, l.id from small s join large l on l.ref = s.x",
    "select s.x, count(l.id) from small s left join large l on l.ref = s.x where s.x > 30 group by 1",
    "select * from large where id in (select x from small where y like 'c%')",
    "select * from large where (n, ref) in (select z, x from small)",
    "select * from large where id = (select max(x) from small)",
    "select * from large l where exists (select 1 from small s where s.x = l.id and s.z > 2)",
    "select * from large l where exists (select 1 from small s where s.x = l.id and s.y = l.code)",
    "select a.id, b.id from large a join large b on b.ref = a.id where a.id in (5, 6, 7)",
    "select s.x, l.id, m.id from small s join large l on l.id = s.big join large m on m.ref = l.ref",
    "select l.id from large l join (values (1, 'c1'), (2, 'c9')) v(a, b) on v.a = l.id where v.b = 'c1'",
    "select l.id from large l join generate_series(5, 9) g on g = l.id",
    "select * from large where ref = 5 and id in (select x from small)",
    "with few as (select x from small where x < 5) select * from large l join few on few.x = l.id",
    "select l.id from small s join large l on l.n = s.z and l.ref = s.x",
    "update large set n = s.x from small s where s.x = large.id returning id, large.n",
    "delete from large using small s where s.y = code returning id",
    "update small set y = l.code from large l where l.id = small.big returning x, y",
]

BY_SCAN = [
    "select * from large l left join small s on l.id = s.x where l.n > 3",
    "select * from large l full join small s on l.id = s.x",
    "select * from large where id not in (select x from small where x is not null)",
    "select * from large where id in (select x from small) or n = 3",
    "select count(*) from large l join large m on m.id = l.ref",
    "select * from large l where exists (select 1 from small s where s.x > l.id)",
    "select * from large l where not exists (select 1 from small s where s.x = l.id)",
    "select l.id from large l join small s on l.id + 1 = s.x",
    "select l.id from large l join small s on l.id = s.x or l.id = s.big",
]


async def test_the_rows_are_those_of_a_scan(tables: Client) -> None:
    for query in (*BY_INDEX, *BY_SCAN):
        assert ("Index Scan" in await plan(tables, query)) == (query in BY_INDEX), query
        outcomes = []
        for setting in ("on", "off"):
            await tables.run(f"begin; set local enable_indexscan = {setting}")
            await tables.run("update large set ref = 3 where id = 33; insert into large values (-1, 4, 'own', 2)")
            await tables.run("delete from large where id = 9")
            outcomes.append(sorted(map(repr, await tables.rows(query))))
            await tables.run("rollback")
        assert outcomes[0] == outcomes[1], query


@pytest.mark.parametrize("seed", range(4))
async def test_random_joins(tables: Client, seed: int) -> None:
    r = random.Random(seed)
    sides = ["small", "large", "(select * from small where x < 9)", "(values (1, 'c1', 2.5, 3)) v"]
    columns = {0: ["x", "y", "z", "big"], 1: ["id", "ref", "code", "n"], 2: ["x", "y", "z", "big"]}
    for _ in range(25):
        first, second = r.sample(range(3), 2)
        third = r.choice([0, 2])
        kind = r.choice(["join", "left join", "right join"])
        keys = [("x", "id"), ("y", "code"), ("big", "id"), ("z", "n"), ("x", "ref")]

        def on(one: int, a: str, other: int, b: str, r: random.Random = r, keys: list[tuple[str, str]] = keys) -> str:
            if 1 not in (one, other):
                return f"{a}.x = {b}.x"
            left, right = r.choice(keys)
            if one == other:
                return f"{a}.id = {b}.ref"
            return f"{a}.{left} = {b}.{right}" if other == 1 else f"{a}.{right} = {b}.{left}"

        query = (
            f"select {', '.join(f'a.{c}' for c in columns[first])}, {', '.join(f'b.{c}' for c in columns[second])} "
            f"from {sides[first]} a {kind} {sides[second]} b on {on(first, 'a', second, 'b')}"
        )
        if r.random() < 0.5:
            query += f" {r.choice(['join', 'left join'])} {sides[third]} c on {on(second, 'b', third, 'c')}"
        if r.random() < 0.5:
            query += f" where a.{columns[first][0]} {r.choice(['<', '=', '>='])} {r.randint(1, 30)}"
        outcomes = []
        for setting in ("on", "off"):
            await tables.run(f"set enable_indexscan = {setting}; set enable_seqscan = {'off' if seed % 2 else 'on'}")
            outcomes.append(sorted(map(repr, await tables.rows(query))))
        assert outcomes[0] == outcomes[1], query


async def test_explain_shows_a_nested_loop(tables: Client) -> None:
    shown = (await plan(tables, "select * from large l right join small s on l.id = s.x and l.n > 3")).split("\n")
    assert shown[:5] == [
        "Nested Loop Left Join",
        "  Join Filter: (n > 3)",
        "  ->  Seq Scan on small",
        "  ->  Index Scan using large_pkey on large",
        "        Index Cond: (id = small.x)",
    ]
    shown = (await plan(tables, "delete from large where id in (3, 4) and n = 5 and code like 'c%'")).split("\n")
    assert shown[:4] == [
        "Delete on large",
        "  ->  Index Scan using large_pkey on large",
        "        Index Cond: (id = ANY ('{3,4}'::integer[]))",
        "        Filter: ((n = 5) AND (code ~~ 'c%'::text))",
    ]


async def test_explain_chooses_an_engine_for_what_an_index_leaves(tables: Client) -> None:
    await tables.run("set engine = auto; set fast_path_limit = '64kB'")
    shown = await plan(tables, "select l.id, s.y from small s join large l on l.id = s.x")
    assert "Engine: local (it reads" in shown
    assert "Engine: spark" in await plan(tables, "select l.id, s.y from small s join large l on l.id % 9 = s.x")
