"""Statements of any size: right, linear, and no burden to other sessions while they are parsed and planned."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from tests.adapter.harness import Client
from tests.support.loop_stalls import watched
from tests.support.python_calls import CountedCalls

LONGEST_STALL = 0.15
"""Seconds of processor time that a step of a large statement takes from the loop: what has to be there once, on a
slow machine."""

ROWS = 20_000


@pytest.fixture
def without_gc() -> Iterator[None]:
    """Python's collector looks at whatever other tests have left."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def listed(count: int, item: Callable[[int], str] = str) -> str:
    return ", ".join([item(number) for number in range(count)])


TEXTS = listed(50_000, "'{}'".format)
PAIRS = listed(20_000, "({0}, 'x{0}')".format)

SELECTS = {
    "integers": (f"select count(*), sum(k) from t where v in ({listed(50_000)})", (20_000, 200_010_000)),
    "integers that are not": (f"select count(*) from t where v not in ({listed(10_000)})", 10_001),
    "integers and a null": (f"select count(*) from t where v not in ({listed(10_000)}, null)", 0),
    "texts": (f"select count(*) from t where w in ({TEXTS})", 20_000),
    "an array": (f"select count(*) from t where v = any ('{{{listed(50_000)}}}')", 20_000),
    "all of an array": (f"select count(*) from t where v <> all ('{{{listed(10_000)}}}')", 10_001),
    "an array with a null": (f"select count(*) from t where (v = any ('{{{listed(10_000)}, null}}')) is null", 10_001),
    "rows": (f"select count(*), sum(a) from (values {PAIRS}) q (a, b)", None),
    "conditions": (f"select count(*) from t where {' or '.join(f'v = {n}' for n in range(5_000))}", 4_999),
    "negated conditions": (f"select count(*) from t where {' and '.join(f'v <> {n}' for n in range(5_000))}", 15_001),
    "conditions with others": (
        "select count(*) from t "
        f"where (w = '7' or {' or '.join(f'v = {n}' for n in range(99))} or v > 19990) and k <> 3",
        107,
    ),
    "elements": (f"select array_length(array[{listed(100_000)}], 1)", 100_000),
    "characters": (f"select length('{'x' * 10_000_000}')", 10_000_000),
    "branches": (f"select sum(case {' '.join(f'when v = {n} then 1' for n in range(1_000))} end) from t", 999),
    "queries": (f"select sum(a) from ({' union all '.join(f'select {n} a' for n in range(1_000))}) q", 499_500),
    "queries of a table": (
        f"select sum(k) from ({' union all '.join(f'select k from t where v = {n}' for n in range(200))}) q",
        19_900,
    ),
    "calls in calls": (f"select {'abs(' * 900}1{')' * 900}", 1),
}


@pytest.fixture
async def rows(client: Client) -> Client:
    """A session, and a table of `ROWS` rows: 1, 1, '1', ..."""
    await client.run("create table t (k int primary key, v int, w text)")
    await client.run(f"insert into t select n, n, n::text from generate_series(1, {ROWS}) n")
    await client.run("select count(*) from t where v in (1, 2) or w = any ('{a}')")
    return client


@pytest.mark.parametrize("name", SELECTS)
async def test_a_large_query(rows: Client, without_gc: None, name: str) -> None:
    text, expected = SELECTS[name]
    with watched() as longest:
        found = await rows.rows(text)
    if expected is not None:
        assert found == [expected if isinstance(expected, tuple) else (expected,)]
    assert longest.seconds < LONGEST_STALL, longest.what


async def test_a_large_insert(rows: Client, without_gc: None) -> None:
    values = ", ".join([f"({n}, {n}, 'x')" for n in range(ROWS + 1, 2 * ROWS + 1)])
    with watched() as longest:
        assert await rows.tag(f"insert into t values {values}") == f"INSERT 0 {ROWS}"
    assert longest.seconds < LONGEST_STALL, longest.what
    error = await rows.error(f"insert into t values {values}")
    assert (error.sqlstate, error.detail) == ("23505", f"Key (k)=({ROWS + 1}) already exists.")


def nested(opening: str, inside: str, closing: str, depth: int = 1_000) -> str:
    return opening * depth + inside + closing * depth


NESTED = {
    "parentheses": (f"select {nested('(', '1', ')')}", 1),
    "sums": (f"select {nested('1+(', '1', ')')}", 1_001),
    "calls": (f"select {nested('abs(', '1', ')')}", 1),
    "cases": (f"select {nested('case when true then ', '1', ' end')}", 1),
    "cases in else": (f"select {nested('case when false then 0 else ', '1', ' end')}", 1),
    "alternatives": (f"select {nested('coalesce(null, ', '1', ')')}", 1),
    "conditions": (f"select {nested('(true and ', 'true', ')')}", True),
    "negations": (f"select {nested('not (', 'true', ')')}", True),
    "casts": (f"select 1{'::int::bigint' * 1_000}", 1),
    "texts": (f"select length({'||'.join(['repeat($$a$$, 1)'] * 1_000)})", 1_000),
    "FROM": (f"select * from {nested('(select * from ', '(select 1 a) q', ') q')}", 1),
    "WHERE": (f"select 1 where 1 in ({nested('select 1 where 1 in (', 'select 1', ')', 500)})", 1),
    "EXISTS": (f"select 1 where {nested('exists (select 1 where ', 'true', ')', 500)}", 1),
    "scalar subqueries": (f"select {nested('(select ', '1', ')', 500)}", 1),
    "UNION": (" union ".join(["select 1"] * 1_000), 1),
    "UNION in UNION": (f"select count(*) from ({nested('(select 1 union ', 'select 2', ')')}) q", 2),
    "WITH": (
        "with c0 as (select 1 a)"
        f"{''.join(f', c{n} as (select a + 1 a from c{n - 1})' for n in range(1, 1_000))} select * from c999",
        1_000,
    ),
    "WITH in WITH": (f"{nested('with q as (', 'select 1 a', ') select * from q')}", 1),
    "JSON arrays": (f"select length('{nested('[', '', ']')}'::jsonb::text)", 2_000),
    "JSON objects": (f"""select length('{nested('{"a":', "1", "}")}'::json::text)""", 6_001),
    "rows": (f"select length(({nested('row(', '1', ')', 10)})::text)", 1_043),
}


@pytest.mark.parametrize("name", NESTED)
async def test_what_nests_a_thousand_times(client: Client, without_gc: None, name: str) -> None:
    text, expected = NESTED[name]
    await client.run("select abs(1)")
    with watched() as longest:
        assert await client.value(text) == expected
    assert longest.seconds < LONGEST_STALL, longest.what


async def test_views_over_views(client: Client) -> None:
    await client.run("create view v0 as select 1 a, 2 b")
    for number in range(1, 200):
        await client.run(f"create view v{number} as select a, b from v{number - 1} where a > 0")
    assert await client.rows("select * from v199") == [(1, 2)]


async def test_a_view_over_many_views_is_defined_by_the_next_one_alone(client: Client) -> None:
    await client.run("create view v0 as select 1 a, 2 b")
    for number in range(1, 60):
        await client.run(f"create view v{number} as select a, b from v{number - 1} where a > 0")

    async def calls(below: int) -> int:
        counts = []
        for attempt in range(5):
            with CountedCalls() as count:
                await client.run(f"create view w{below}_{attempt} as select a, b from v{below} where a > 0")
            counts.append(count.total)
        # Some runs meet what the server does by itself meanwhile.
        return min(counts)

    # All relations below are locked and checked, with few calls each, but only the next view is planned.
    first = await calls(29)
    second = await calls(59)
    assert second < 1.5 * first


async def test_rows_that_would_double_with_each_level(client: Client) -> None:
    assert (await client.error(f"select {nested('row(', '1', ')', 30)}")).sqlstate == "54000"


UNNAMED = {
    "many": f"select * from {', '.join(['(select 1)'] * 300)}",
    "nested": f"select * from {nested('(select * from ', '(select 1)', ')', 100)}",
}


@pytest.mark.parametrize("name", UNNAMED)
async def test_subqueries_without_aliases(client: Client, without_gc: None, name: str) -> None:
    await client.run("select abs(1)")
    with watched() as longest:
        error = await client.error(UNNAMED[name])
    assert (error.sqlstate, error.message) == ("42601", "subquery in FROM must have an alias")
    assert longest.seconds < LONGEST_STALL, longest.what


@pytest.mark.parametrize("modifier", ["9" * 5_000, f"'{'9' * 5_000}'", f"'-{'9' * 5_000}'"])
async def test_modifiers_of_types_of_any_length(client: Client, modifier: str) -> None:
    assert (await client.error(f"select 1::numeric({modifier})")).sqlstate == "22003"


@pytest.mark.parametrize(
    "text",
    [
        f"select {'+'.join(['1'] * 50_000)}",
        f"select {'not ' * 5_000}true",
        "select " + "||".join(["'a'"] * 20_000),
        f"select {'abs(' * 6_000}1{')' * 6_000}",
        f"select {'case when true then ' * 6_000}1{' end' * 6_000}",
        f"select * from {'(select * from ' * 2_000}(select 1) q{') q' * 2_000}",
        f"{' union '.join(['select 1'] * 20_000)}",
        f"select '{'[' * 50_000}{']' * 50_000}'::jsonb",
    ],
    ids=["sums", "negations", "texts", "calls", "cases", "subqueries", "unions", "arrays"],
)
async def test_what_nests_too_deep_is_refused(client: Client, text: str) -> None:
    # PostgreSQL's grammar has a limit of its own ("memory exhausted").
    assert (await client.error(text)).sqlstate in ("54001", "42601")
    assert await client.value("select 1") == 1
