"""Where PostgreSQL has a limit of how much of something there may be, its error."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.adapter.harness import Client


def listed(count: int, item: Callable[[int], str] = str) -> str:
    return ", ".join([item(number) for number in range(count)])


WIDE = listed(1_600, "c{} int".format)

REFUSED = {
    "columns": (f"create table u ({WIDE}, x int)", "54011", "tables can have at most 1600 columns"),
    "columns of a type": (f"create type u as ({WIDE}, x int)", "54011", "tables can have at most 1600 columns"),
    "columns of a view": (
        f"create view u as select {listed(1_601, '{0} as c{0}'.format)}", "54011",
        "tables can have at most 1600 columns",
    ),
    "columns of a query": (
        f"create table u as select {listed(1_601, '{0} as c{0}'.format)}", "54011",
        "tables can have at most 1600 columns",
    ),
    "SELECT": (f"select {listed(1_665)}", "54011", "target lists can have at most 1664 entries"),
    "VALUES": (f"values ({listed(1_665)})", "54011", "target lists can have at most 1664 entries"),
    "ORDER BY": (
        f"select a from t order by {listed(1_664, 'a + {}'.format)}", "54011",
        "target lists can have at most 1664 entries",
    ),
    "RETURNING": (
        f"insert into t values (1) returning {listed(1_665)}", "54011",
        "number of columns (1665) exceeds limit (1664)",
    ),
    "ROW": (f"select row({listed(1_665)})", "54011", "ROW expressions can have at most 1664 entries"),
    "arguments": (f"select concat({listed(101)})", "54023", "cannot pass more than 100 arguments to a function"),
    "GROUPING": (
        f"select grouping({listed(32, lambda _: 'a')}) from t group by a", "54023",
        "GROUPING must have fewer than 32 arguments",
    ),
    "CUBE": (
        f"select 1 from t group by cube ({listed(13, 'a + {}'.format)})", "54011", "CUBE is limited to 12 elements",
    ),
    "grouping sets": (
        f"select 1 from t group by cube ({listed(11, 'a + {}'.format)}), cube (a, b)", "54001",
        "too many grouping sets present (maximum 4096)",
    ),
    "an index": (
        f"create index on t ({listed(33, lambda _: 'a')})", "54011", "cannot use more than 32 columns in an index",
    ),
    "a key": (
        f"create table u ({listed(33, 'c{} int'.format)}, unique ({listed(33, 'c{}'.format)}))", "54011",
        "cannot use more than 32 columns in an index",
    ),
    "a foreign key": (
        f"create table u (a int, foreign key ({listed(33, lambda _: 'a')}) references t)", "54011",
        "cannot have more than 32 keys in a foreign key",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_too_much(client: Client, name: str) -> None:
    text, sqlstate, message = REFUSED[name]
    await client.run("create table t (a int, b int)")
    error = await client.error(text)
    assert (error.sqlstate, error.message) == (sqlstate, message)


async def test_columns_that_were_dropped_count(client: Client) -> None:
    await client.run(f"create table t ({WIDE})")
    await client.run("alter table t drop c7")
    error = await client.error("alter table t add x int")
    assert (error.sqlstate, error.message) == ("54011", "tables can have at most 1600 columns")


async def test_what_is_just_enough(client: Client) -> None:
    assert len((await client.rows(f"select {listed(1_664)}"))[0]) == 1_664
    assert await client.value(f"select length(concat({listed(100)}))") == 190
