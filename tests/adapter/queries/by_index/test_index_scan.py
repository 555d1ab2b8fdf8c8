"""What an index finds is what a scan finds: random conditions, over files, inline parts, deletes and own rows."""

from __future__ import annotations

import random

import pytest

from planner.errors import SqlError
from tests.adapter.harness import Client

ROWS = 12_000
COLUMNS = {
    "id": ["1", "7", "11999", "12000", "12001", "-3", "null", "3000000000"],
    "k": ["0", "3", "39", "40", "null"],
    "s": ["'s7'", "'s70'", "'S'", "''", "'ä'", "'sü'", "'s~'", "null"],
    "b": ["1", "500", "-1", "8999999999"],
    "n": ["0", "1.5", "1.50", "-7.25", "99.99"],
    "f": ["0", "'-0'", "2.5", "'Infinity'", "1e300"],
    "d": ["'2024-01-05'", "'2024-02-01'", "'infinity'", "null"],
    "u": ["'00000000-0000-0000-0000-000000000007'", "'FFFFFFFF-0000-0000-0000-000000000000'"],
}
SHOWN = ["id", "k", "s", "b", "n", "f", "u"]
PATTERNS = ["s7%", "s_7", "s7", "%7", "", "%", "s7\\%", "ä%", "s12_", "s\U0010ffff%"]


@pytest.fixture
async def large(client: Client) -> Client:
    await client.run(
        "create table t (id int primary key, k smallint, s varchar(20), b bigint, n numeric(8, 2), f float8, d date, "
        "u uuid, unique (k, s, b), unique (s), unique (n, id), unique (f, k, id), unique (d, k, id), unique (u), "
        "unique (b, d, id))"
    )
    await client.run(
        "insert into t select g, nullif(g % 40, 13), case when g % 50 = 1 then null else 's' || g end, g % 9000, "
        "(g % 300) / 4.0, case g % 7 when 0 then float8 'NaN' when 1 then null else (g % 100) / 2.0 end, "
        "case when g % 90 = 5 then null else date '2024-01-01' + g % 120 end, "
        f"(lpad(g::text, 8, '0') || '-0000-0000-0000-000000000000')::uuid from generate_series(1, {ROWS}) g"
    )
    await client.run(
        "insert into t values (-3, 3, 'ä', null, 0, '-1', 'infinity', null), "
        "(-4, null, 'sü', 1, null, null, null, null)"
    )
    await client.run("delete from t where id % 11 = 3; update t set k = 3, s = s || 'x' where id % 100 = 7")
    return client


def condition(r: random.Random, depth: int = 2) -> str:
    if depth and r.random() < 0.4:
        inner = [condition(r, depth - 1) for _ in range(r.randint(1, 3))]
        return f"(not {inner[0]})" if len(inner) == 1 else f"({r.choice([' and ', ' and ', ' or ']).join(inner)})"
    column = r.choice(list(COLUMNS))
    values = COLUMNS[column]
    ops = ["=", "=", "<", "<=", ">", ">=", "<>"]
    match r.randrange(8):
        case 0:
            return f"{column} is {r.choice(['', 'not '])}null"
        case 1:
            return f"{column} in ({', '.join(r.choices(values, k=r.randint(1, 5)))})"
        case 2:
            return f"{column} between {r.choice(values)} and {r.choice(values)}"
        case 3:
            return f"s like '{r.choice(PATTERNS)}'"
        case 4:
            pair = r.choice([("k", "s", "b"), ("n", "id"), ("f", "k"), ("d", "k", "id"), ("s", "k")])
            row = ", ".join(r.choice(COLUMNS[name]) for name in pair)
            return f"({', '.join(pair)}) {r.choice(['<', '<=', '>', '>='])} ({row})"
        case 5:
            first, second = r.choice([("k", "s"), ("n", "id"), ("d", "k"), ("b", "d")])
            op = r.choice(ops)
            return f"({first} = {r.choice(COLUMNS[first])} and {second} {op} {r.choice(COLUMNS[second])})"
        case 6:
            return f"id = any (array[{', '.join(r.choices(values, k=3)) if column == 'id' else '5, 6, null'}])"
        case _:
            return f"{column} {r.choice(ops)} {r.choice(values)}"


QUERIES = (
    "select {columns} from t where {condition}",
    "select id + 1, k - id, s, 5, n from t where {condition}",
    "select count(*), sum(id), max(s) from t where {condition}",
    "select a.id, a.n, c.s from (select * from t where {condition}) a "
    "left join (values (3, 'x'), (5, null)) c(k, s) on c.k = a.k where a.id < 300",
    "select id, (select count(*) from t i where i.id in (5, 6, 40) and i.k < o.k) from t o where {condition}",
)


@pytest.mark.parametrize("seed", range(6))
async def test_the_rows_are_those_of_a_scan(large: Client, seed: int) -> None:
    r = random.Random(seed)
    if seed % 2:
        await large.run(
            "begin; insert into t values (20000, 3, 'own', 1), (20001, null, 's7y', null); delete from t where id = 1"
        )
        await large.run("update t set s = 'S' where id = 500; update t set id = 20007 where id = 7")
    await large.run("set enable_seqscan = off")
    by_index = 0
    for _ in range(60):
        where = condition(r)
        query = r.choice(QUERIES).format(columns=", ".join(r.sample(SHOWN, 3)), condition=where)
        (shown,) = await large.run(f"explain {query}")
        by_index += any("Index Scan" in row[0] for row in shown)
        found = sorted(map(repr, await large.rows(query)))
        await large.run("set enable_indexscan = off")
        scanned = sorted(map(repr, await large.rows(query)))
        await large.run("set enable_indexscan = on")
        assert found == scanned, query
    assert by_index > 20


@pytest.mark.parametrize("seed", range(3))
async def test_changes_by_index_are_those_by_a_scan(large: Client, seed: int) -> None:
    r = random.Random(100 + seed)
    await large.run("set enable_seqscan = off")
    for _ in range(12):
        where = condition(r)
        change = r.choice(
            [
                f"update t set b = b + 1, f = f / 2 where {where} returning id, s, f, u",
                f"update t set k = 5 - k where {where} returning id, k",
                f"delete from t where {where} returning id, s",
                f"update t set n = x from (values (1, 2.5), (3, 7)) v(y, x) where k = y and {where} returning id, n",
            ]
        )
        outcomes = []
        for setting in ("on", "off"):
            await large.run(f"begin; set local enable_indexscan = {setting}")
            try:
                changed = sorted(map(repr, await large.rows(change)))
                state = await large.rows("select count(*), sum(id), sum(k), sum(b), sum(n) from t")
                outcomes.append((changed, state))
            except SqlError as error:
                outcomes.append(([str(error)], []))
            await large.run("rollback")
        assert outcomes[0] == outcomes[1], change


ORDERS = [
    "id", "id desc", "k, s, b", "k desc, s desc, b desc", "k desc nulls last, s", "s desc", "s nulls first", "n, id",
    "n desc, id desc", "f, k, id", "f desc, k desc, id desc", "d, k", "d desc nulls last", "id, s desc", "b, d, id",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
async def test_first_rows_are_those_of_a_sort(large: Client, seed: int) -> None:
    r = random.Random(seed)
    if seed % 2:
        await large.run(
            "begin; insert into t values (0, 3, 's', 0), (20001, null, 's7y', null); delete from t where id < 30"
        )
    by_index = 0
    for _ in range(40):
        order = r.choice(ORDERS)
        names = [part.split()[0] for part in order.split(", ")]
        where = f" where {condition(r, 1)}" if r.random() < 0.7 else ""
        cut = f"limit {r.choice([0, 1, 5, 100, 3000])}" + r.choice(["", " offset 3", " offset 13000"])
        query = r.choice(
            [
                f"select {', '.join(name for name in names if name != 'd') or 1} from t{where} order by {order} {cut}",
                f"select max({names[0]})::text, min({names[0]})::text from t{where}",
                f"select count(*), max(id), min(id) from (select * from t{where} order by {order}, id {cut}) q",
                f"select max({names[0]})::text from t{where}",
                f"select id from (select * from t{where} order by {order}, id limit 20) q order by -id",
            ]
        )
        shown = await large.rows(f"explain {query}")
        by_index += any("Index Scan" in row[0] for row in shown)
        found = await large.rows(query)
        await large.run("set enable_indexscan = off")
        scanned = await large.rows(query)
        await large.run("set enable_indexscan = on")
        assert list(map(repr, found)) == list(map(repr, scanned)), query
    assert by_index > 10


async def test_first_rows_are_read_by_their_index(large: Client) -> None:
    async def plan(query: str) -> list[str]:
        return [row[0] for row in await large.rows(f"explain {query}")]

    assert (await plan("select id from t order by id desc limit 3"))[:4] == [
        "Limit",
        "  Count: 3",
        "  ->  Index Scan Backward using t_pkey on t",
        "Engine: none (it reads by a key)",
    ]
    shown = await plan("select id from t where (k, s) > (3, 's7') and b > 5 order by k, s limit 3")
    assert shown[2:5] == [
        "  ->  Index Scan using t_k_s_b_key on t",
        "        Index Cond: (ROW(k, s) > ROW(3, 's7'::text))",
        "        Filter: (b > 5)",
    ]
    assert "  ->  Index Scan using t_s_key on t" in await plan("select max(id) from t where s like 's1234%'")
    assert not any("Index" in line for line in await plan("select id from t order by id + 1 limit 3"))


async def test_indexes_over_expressions_are_read_and_say_so(client: Client) -> None:
    await client.run("create table p (id int primary key, name text, k int, active boolean)")
    await client.run("insert into p select g, 'Name' || g % 5000, g % 13, g % 3 = 0 from generate_series(1, 20000) g")
    await client.run("create index p_low on p (lower(name))")
    await client.run("create index p_part on p (upper(name), k desc) where active")
    await client.run("create index p_sum on p ((id + k))")
    by_low = ["Index Scan using p_low on p", "  Index Cond: (lower(name) = 'name17'::text)"]
    shown = {
        "select id from p where lower(name) = 'name17'": by_low,
        "select id from p where lower(name) in ('name17', 'x')": [
            by_low[0],
            "  Index Cond: (lower(name) = ANY ('{name17,x}'::text[]))",
        ],
        "select id from p where lower(name) > 'name17' and lower(name) < 'name171' and k = 2": [
            by_low[0],
            "  Index Cond: ((lower(name) > 'name17'::text) AND (lower(name) < 'name171'::text))",
            "  Filter: (k = 2)",
        ],
        "select name from p order by lower(name) limit 3": ["Limit", "  Count: 3", "  ->  Index Scan using p_low on p"],
        "select id from p where upper(name) = 'NAME3' and active and k = 5": [
            "Index Scan using p_part on p",
            "  Index Cond: ((upper(name) = 'NAME3'::text) AND (k = 5))",
            "  Filter: active",
        ],
        "update p set k = 1 where lower(name) = 'name17'": ["Update on p", *(f"  {line}" for line in by_low)],
        "select max(lower(name)) from p": ["Aggregate", "  ->  Index Scan Backward using p_low on p"],
        # It has not every row; and a sum may be out of range, which no row of this index would tell.
        "select id from p where upper(name) = 'NAME3' and k = 5": ["Seq Scan on p"],
        "select id from p where id + k = 7": ["Seq Scan on p"],
    }
    for query, expected in shown.items():
        lines = [row[0].strip(" ->") for row in await client.rows(f"explain {query}")]
        assert lines[: len(expected)] == [line.strip(" ->") for line in expected], query
    assert await client.rows("select id from p where lower(name) = 'name17' and id < 9000") == [(17,), (5017,)]
    assert await client.rows("select lower(name) from p order by lower(name) desc limit 1") == [("name999",)]
