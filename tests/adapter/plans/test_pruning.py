"""What SELECT leaves out by statistics: the parts that it reads, and the answer of a query that reads all."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from tests.adapter.harness import Client, connect, open_server

DAYS = 24
TABLE = """
create table t (
    id int, at timestamp, tz timestamptz, d date, n int, f float8, x numeric(9, 2), s text, b boolean
)"""


async def filled(client: Client, *, infinite: bool) -> None:
    """A part for each half month from 2024-01-01 on, one for what is infinite, one of NULLs."""
    await client.run(TABLE)
    for part in range(DAYS):
        await client.run(
            "insert into t select i, m, m at time zone 'America/New_York', m::date, i % 7 + 10 * p, i / 8.0,"
            " i / 4.0, chr(97 + p) || i, i % 2 = 0 from (select i, p, timestamp '2024-01-01' + i * interval '7 h' as m"
            f" from generate_series({part} * 50, {part} * 50 + 49) i, (values ({part})) v (p)) q"
        )
    # extract(year) is none of infinite ones.
    if infinite:
        await client.run(_INFINITE)
    await client.run("insert into t (id) values (9003), (9004)")


_INFINITE = (
    "insert into t values (9001, 'infinity', '-infinity', 'infinity', null, 'nan', null, '', null),"
    " (9002, '-infinity', 'infinity', '-infinity', 2147483647, 'infinity', -1, '\U0001f600', false)"
)


READ = {
    "at::date = '2024-03-01'": 2,
    "'2024-03-01' = at::date": 2,
    "at::date in ('2024-03-01', '2024-06-01')": 3,
    "at::date < '2024-01-03'": 2,
    "not at::date >= '2024-01-03'": 2,
    "date_trunc('month', at) = '2024-03-01'": 4,
    "date_trunc('month', at) = '2024-03-02'": 2,
    "date_trunc('day', tz) = '2024-03-01 05:00+00'": 2,
    "date_trunc('day', tz, 'America/New_York') = '2024-03-01 05:00+00'": 2,
    "tz::date = '2024-03-01'": 2,
    "(tz at time zone 'America/New_York')::date = '2024-03-02'": 2,
    "extract(year from at) = 2025": 1,
    "extract(year from d) < 2024": 1,
    "date_part('year', tz) = 2024.5": 1,
    "date_trunc('month', d) = '2024-03-01'": 4,
    "d::timestamp = '2024-03-01'": 2,
    "d::timestamp = '2024-03-01 01:00'": 2,
    "n = 3 or n = 234": 2,
    "n = 3 or s = 'b51'": 3,
    "n = 3 and d < '2024-02-01' or s >= 'y'": 2,
    "(n in (1, 2, 3) or n between 41 and 42) and b": 2,
    "not (n > 5 and d > '2024-02-01')": 4,
    "n not between 10 and 1000": 2,
    "n is null or n = 5": 3,
    "n is null or id = -1": 2,
    "f > 149.5": 2,
    "f > 149.5 or n = 1": 3,
    "n = 1 or id + 0 = 3": 26,
}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A session on a server that leaves the parts as they are written."""
    async with open_server(background=False) as server:
        yield await connect(server)


# One of them is nearly always that of the infinite values.
async def test_parts_read(client: Client) -> None:
    await filled(client, infinite=True)
    for condition, wanted in READ.items():
        lines = await client.rows(f"explain select * from t where {condition}")
        (line,) = [line for (line,) in lines if "Parts of t" in line]
        read, total = int(line.split()[3]), int(line.split()[5])
        assert (read, total) == (wanted, DAYS + 2), condition
        if "year" not in condition:
            await _compare(client, condition)


async def _compare(client: Client, condition: str) -> None:
    query = f"select id from {{}} where {condition} order by id"
    wanted = await client.rows(query.format("(select * from t limit 100000) t"))
    assert await client.rows(query.format("t")) == wanted, condition


ZONES = ["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "Etc/GMT+12"]
DATES = ["2024-01-01", "2024-03-10", "2024-03-11", "2024-06-30", "2024-11-03", "2024-12-31", "2025-01-01"]


def _condition(source: random.Random, depth: int = 0, *, years: bool) -> str:
    chance = source.random()
    if depth < 3 and chance < 0.45:
        parts = [_condition(source, depth + 1, years=years) for _ in range(source.randrange(2, 4))]
        return "(" + source.choice([" and ", " or "]).join(parts) + ")"
    if depth < 3 and chance < 0.55:
        return f"not {_condition(source, depth + 1, years=years)}"
    op = source.choice(["=", "<>", "<", "<=", ">", ">="])
    day = source.choice(DATES)
    clock = f"{day} {source.randrange(24):02}:{source.choice(['00', '30'])}"
    column = source.choice(["at", "tz", "d"])
    unit = source.choice(["hour", "day", "week", "month", "quarter", "year"])
    number = source.randrange(-5, 260)
    year = source.choice([f"extract(year from {column})", f"date_part('year', {column})"]) if years else "n"
    return source.choice(
        [
            f"{column}::date {op} '{day}'",
            f"{column}::date in ('{day}', '2024-05-05', null)",
            f"date_trunc('{unit}', {column}) {op} '{clock}'",
            f"date_trunc('{unit}', {column}) {op} date_trunc('{unit}', timestamp '{clock}')",
            f"{year} {op} {source.choice(['2023', '2024', '2024.5', '2025'])}",
            f"{column}::timestamp {op} '{clock}'",
            f"n {op} {number}",
            f"n {source.choice(['in', 'not in'])} ({number}, {number + 30}, {source.choice(['null', '4'])})",
            f"n {source.choice(['between', 'not between'])} {number} and {number + 40}",
            f"f {op} {source.choice(['12.5', chr(39) + 'nan' + chr(39), chr(39) + 'infinity' + chr(39), '100'])}",
            f"x {op} {number}.25",
            f"s {op} '{chr(97 + number % 26)}'",
            f"s like '{chr(97 + number % 26)}%'",
            f"{source.choice(['at', 'n', 'f', 's', 'b'])} is {source.choice(['', 'not '])}null",
            "b",
        ]
    )


@pytest.mark.parametrize("seed", range(4))
async def test_answers_are_those_of_all_parts(client: Client, seed: int) -> None:
    """Each part that a query leaves out is read for this too: the harness audits all of them."""
    await filled(client, infinite=seed % 2 == 0)
    source = random.Random(seed)
    for number in range(60):
        if number % 15 == 0:
            await client.run(f"set timezone = '{source.choice(ZONES)}'")
        condition = _condition(source, years=seed % 2 == 1)
        await _compare(client, condition)
        outer = (
            "select v.v, t.id from (values (1), (120), (9003)) v (v) left join {} t on t.n = v.v"
            f" where {condition.replace('f ', 't.f ')} order by 1, 2"
        )
        wanted = await client.rows(outer.format("(select * from t limit 100000)"))
        assert await client.rows(outer.format("t")) == wanted, condition
