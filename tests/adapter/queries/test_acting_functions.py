"""Functions that act on the session, called for each row of a query."""

from __future__ import annotations

import pytest

from tests.adapter.harness import Client


async def test_nextval_for_each_row_in_order(client: Client) -> None:
    await client.tag("CREATE SEQUENCE numbers")
    assert await client.rows("SELECT nextval('numbers'), g FROM generate_series(7, 9) g") == [(1, 7), (2, 8), (3, 9)]
    assert await client.value("SELECT nextval('numbers')") == 4


async def test_a_call_that_a_construct_needs_twice_is_made_once(client: Client) -> None:
    await client.tag("CREATE SEQUENCE numbers")
    assert await client.value("SELECT CASE nextval('numbers') WHEN 2 THEN 'two' WHEN 1 THEN 'one' END") == "one"
    assert await client.value("SELECT nullif(nextval('numbers'), 3)") == 2
    rows = await client.rows(
        "SELECT CASE nextval('numbers') WHEN 4 THEN 'four' WHEN 3 THEN 'three' END FROM generate_series(1, 3)"
    )
    assert rows == [("three",), ("four",), (None,)]
    assert await client.value("SELECT nextval('numbers')") == 6


async def test_limit_stops_the_calls(client: Client) -> None:
    await client.tag("CREATE SEQUENCE numbers")
    assert await client.rows("SELECT nextval('numbers') FROM generate_series(1, 5) LIMIT 2") == [(1,), (2,)]
    assert await client.value("SELECT nextval('numbers')") == 3


async def test_setval_to_a_computed_value(client: Client) -> None:
    await client.tag("CREATE SEQUENCE numbers")
    assert await client.value("SELECT setval('numbers', max(g)) FROM generate_series(1, 20) g") == 20
    assert await client.value("SELECT nextval('numbers')") == 21


async def test_no_rows_no_calls(client: Client) -> None:
    await client.tag("CREATE SEQUENCE numbers")
    assert await client.rows("SELECT nextval('numbers') FROM pg_class WHERE relname = 'nosuch'") == []
    assert await client.value("SELECT nextval('numbers')") == 1


async def test_settings_by_query(client: Client) -> None:
    rows = await client.rows("SELECT set_config(name, 'Asia/Tokyo', false) FROM pg_settings WHERE name = 'TimeZone'")
    assert rows == [("Asia/Tokyo",)]
    assert await client.value("SHOW TimeZone") == "Asia/Tokyo"


async def test_in_where_it_is_called_for_each_row(client: Client) -> None:
    await client.tag("CREATE SEQUENCE numbers")
    rows = await client.rows("SELECT g FROM generate_series(1, 9) g WHERE nextval('numbers') > 1 AND g % 3 = 0")
    assert rows == [(6,), (9,)]
    assert await client.value("SELECT nextval('numbers')") == 4


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM generate_series(1, 3) a LEFT JOIN generate_series(1, 3) b ON a = b AND nextval('numbers') > 1",
        "SELECT g FROM generate_series(1, 3) g WHERE g IN (SELECT nextval('numbers') FROM generate_series(1, g))",
    ],
)
async def test_elsewhere_it_is_refused(client: Client, query: str) -> None:
    await client.tag("CREATE SEQUENCE numbers")
    assert (await client.error(query)).sqlstate == "0A000"
    assert await client.value("SELECT nextval('numbers')") == 1


async def test_lateral_queries_call_for_each_row(client: Client) -> None:
    await client.tag("CREATE SEQUENCE numbers")
    query = "SELECT * FROM generate_series(1, 3) g CROSS JOIN LATERAL (SELECT nextval('numbers') + g AS n) l"
    assert await client.rows(query) == [(1, 2), (2, 4), (3, 6)]
    query = "SELECT * FROM generate_series(1, 2) g, LATERAL (SELECT nextval('numbers') FROM generate_series(1, g)) l"
    assert await client.rows(query) == [(1, 4), (2, 5), (2, 6)]


async def test_branches_that_are_not_taken_call_nothing(client: Client) -> None:
    await client.tag("CREATE SEQUENCE numbers")
    query = "SELECT CASE WHEN g = 2 THEN setval('numbers', 100 / (g - 1)) END FROM generate_series(1, 3) g"
    assert await client.rows(query) == [(None,), (100,), (None,)]
    assert await client.rows("SELECT coalesce(g, nextval('numbers')) FROM generate_series(1, 2) g") == [(1,), (2,)]
    assert await client.value("SELECT nextval('numbers')") == 101


async def test_a_sequence_is_a_table_of_one_row(client: Client) -> None:
    await client.tag("CREATE SEQUENCE numbers START 5")
    assert await client.rows("SELECT last_value, is_called FROM numbers") == [(5, False)]
    await client.value("SELECT nextval('numbers')")
    assert await client.rows("SELECT * FROM public.numbers AS n") == [(5, 0, True)]


async def test_calls_in_from(client: Client) -> None:
    await client.tag("CREATE SEQUENCE numbers")
    assert await client.rows("SELECT * FROM nextval('numbers') n") == [(1,)]
    rows = await client.rows("SELECT g, n FROM generate_series(1, 2) g, nextval('numbers') n WHERE n < 10")
    assert rows == [(1, 2), (2, 2)]
    await client.tag("CREATE TABLE t (a int)")
    assert await client.tag("INSERT INTO t SELECT 7 FROM pg_sleep(0.01)") == "INSERT 0 1"


async def test_calls_in_subqueries_without_from(client: Client) -> None:
    await client.tag("CREATE SEQUENCE numbers")
    rows = await client.rows("SELECT g, (SELECT nextval('numbers') + g) FROM generate_series(7, 9) g")
    assert rows == [(7, 8), (8, 10), (9, 12)]
    once = "SELECT g, (SELECT nextval('numbers')) FROM generate_series(1, 2) g"
    assert await client.rows(once) == [(1, 4), (2, 4)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT (SELECT a WHERE nextval('numbers') > 0) FROM generate_series(1, 3) a",
        "SELECT EXISTS (SELECT a WHERE nextval('numbers') > 0) FROM generate_series(1, 3) a",
        "SELECT ARRAY(SELECT a WHERE nextval('numbers') > 0) FROM generate_series(1, 3) a",
        "SELECT a FROM generate_series(1, 3) a WHERE a IN (SELECT a WHERE nextval('numbers') > 0)",
        "SELECT a FROM generate_series(1, 3) a, LATERAL (SELECT a AS b WHERE nextval('numbers') <> 2) c",
        "SELECT a FROM generate_series(1, 3) a JOIN generate_series(1, 3) b "
        "ON a = ANY (SELECT b WHERE nextval('numbers') > 2)",
    ],
)
async def test_calls_in_conditions_of_each_row_are_refused(client: Client, query: str) -> None:
    await client.tag("CREATE SEQUENCE numbers")
    assert (await client.error(query)).sqlstate == "0A000"
    assert await client.value("SELECT nextval('numbers')") == 1


async def test_conditions_of_one_query_are_asked_once(client: Client) -> None:
    await client.tag("CREATE SEQUENCE numbers")
    query = "SELECT a FROM generate_series(1, 3) a, (SELECT 1 AS b WHERE nextval('numbers') = 1) c"
    assert await client.rows(query) == [(1,), (2,), (3,)]
    assert await client.value("SELECT nextval('numbers')") == 2
