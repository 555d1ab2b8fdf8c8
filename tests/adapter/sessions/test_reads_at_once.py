"""Reads by key that are answered at once: the same rows as those of all others, and never where something must wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from adapter.sessions.reads_at_once import ReadAtOnce
from planner.ir.nodes import Literal
from planner.types.types import INT4, SqlType
from tests.adapter.harness import Client

TABLE = "create table t (id int primary key, n int, label text, at date, amount numeric(10, 2))"
ROWS = "insert into t select g, g % 7, 'label' || g, date '2020-01-01' + g, g / 4.0 from generate_series(1, 500) g"

QUERIES = (
    "select * from t where id = 7",
    "select label, id + 1 from t where id = 7 and n = 0",
    "select label from t where id = 7 and n = 1",
    "select id from t where id = 100000",
    "select id, n from t where id between 10 and 20 order by id desc limit 3",
    "select sum(n), count(*) from t where id between 10 and 20",
    "select n, count(*) from t where id < 50 group by n order by n",
    "select id from t where id in (3, 1, 700)",
)


def at_once(client: Client, text: str) -> list[dict[str, Any]] | None:
    """The rows of a query string, if they are answered at once."""
    found = client.session.text_at_once(text)
    if found is None or not isinstance(found[0], ReadAtOnce):
        return None
    rows = found[0].rows(found[1])
    return None if rows is None else list(rows.to_pylist())


@pytest.fixture
async def reader(client: Client) -> Client:
    """A session that has read every row of the table by its key."""
    await client.run(TABLE)
    await client.run(ROWS)
    await client.run("create table other (id int)")
    for text in QUERIES:
        await client.run(text)
    return client


@pytest.mark.parametrize("text", QUERIES)
async def test_the_rows_are_the_same(reader: Client, text: str) -> None:
    rows = await reader.rows(text)
    found = at_once(reader, text)
    assert found is not None
    assert len(found) == len(rows)
    if not rows:
        return
    await reader.run(f"create table seen as {text}")
    await reader.run(f"create table same as {text}")
    assert [tuple(row.values()) for row in found] == rows


async def test_what_was_committed_before_is_seen(reader: Client, another: Callable[[], Awaitable[Client]]) -> None:
    writer = await another()
    for n in range(5):
        await writer.run(f"update t set n = {n} where id = 7")
        await reader.run("select n from t where id = 7")
        assert [list(row.values()) for row in at_once(reader, "select n from t where id = 7") or []] == [[n]]
        await writer.run("insert into other values (1)")
        assert [list(row.values()) for row in at_once(reader, "select n from t where id = 7") or []] == [[n]]


async def test_it_waits_for_a_lock_as_others_do(reader: Client, another: Callable[[], Awaitable[Client]]) -> None:
    text = "select n from t where id = 7"
    locker = await another()
    await locker.run("begin")
    await locker.run("lock table t in access exclusive mode")
    assert at_once(reader, text) is None
    await locker.run("commit")
    assert at_once(reader, text) is not None
    await locker.run("begin")
    await locker.run("lock table t in exclusive mode")
    assert at_once(reader, text) is not None


@pytest.mark.parametrize(
    "before",
    [
        "begin",
        "set engine = 'spark'",
        "set enable_indexscan = off",
        "set default_transaction_isolation = 'read uncommitted'",
        "create temporary table t (id int primary key, n int)",
        "begin; declare c cursor with hold for select 1; commit",
    ],
)
async def test_not_where_anything_is_unusual(reader: Client, before: str) -> None:
    text = "select n from t where id = 7"
    assert at_once(reader, text) is not None
    await reader.run(before)
    assert at_once(reader, text) is None


@pytest.mark.parametrize(
    "text",
    [
        "select 1",
        "select * from other",
        "select id from t where n = 3",
        "select nope from t where id = 7",
        "select random() from t where id = 7",
        "select id from t where id = 7 for update",
        "select id from t where id = 7; select 1",
        "update t set n = 1 where id = 7",
        "select 1 / (n - n) from t where id = 7",
    ],
)
async def test_other_statements_are_left_alone(reader: Client, text: str) -> None:
    before = await reader.rows("select * from t order by id")
    assert at_once(reader, text) is None
    assert reader.status == "I"
    assert await reader.rows("select * from t order by id") == before


async def test_a_prepared_statement_follows_the_catalog(reader: Client) -> None:
    session = reader.session
    await session.prepare("s", "select * from t where id = $1", ())
    found = session.at_once("s")
    assert isinstance(found, ReadAtOnce)
    seven = Literal(value=7, type=SqlType(INT4))
    assert found.rows((seven,)) is not None
    assert found.rows(()) is None
    assert found.rows((seven, seven)) is None
    await reader.run("alter table t add column extra int")
    # It must say that the result has another shape, which the usual way does.
    assert session.at_once("s") is None
    assert found.rows((seven,)) is None
    assert session.at_once("nothing") is None


async def test_the_statement_is_shown_as_the_last_one(reader: Client) -> None:
    text = "select n from t where id = 7"
    await reader.run("select 1")
    assert at_once(reader, text) is not None
    assert reader.session.query_text == text
