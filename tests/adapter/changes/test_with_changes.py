"""Statements whose WITH changes rows, beside other transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from planner.errors import SqlError
from tests.adapter.harness import Client, blocked

Another = Callable[[], Awaitable[Client]]


@pytest.fixture
async def clients(client: Client, another: Another) -> list[Client]:
    """Two sessions, and two tables."""
    await client.run("create table t (k int, v int); insert into t values (1, 10), (2, 20)")
    await client.run("create table log (k int, v int)")
    return [client, await another()]


@pytest.mark.parametrize("level", ["read committed", "serializable"])
async def test_a_part_that_waited_goes_on_with_what_is_there(clients: list[Client], level: str) -> None:
    one, two = clients
    await two.run(f"set default_transaction_isolation = '{level}'")
    await one.run("begin; update t set v = v + 1 where k = 1")
    second = await blocked(
        two,
        "with l as (insert into log values (0, 0) returning k), u as (update t set v = v * 2 from l where t.k = 1 "
        "returning t.k, v) insert into log select * from u returning k, v",
    )
    await one.run("commit")
    assert await second.result() == [[(1, 22)]]
    assert sorted(await one.rows("select k, v from log")) == [(0, 0), (1, 22)]


async def test_what_was_written_before_a_conflict_is_taken_back(clients: list[Client]) -> None:
    one, two = clients
    await two.run("begin isolation level repeatable read; select * from t; insert into log values (5, 5)")
    await one.run("update t set v = 11 where k = 1")
    with pytest.raises(SqlError) as raised:
        await two.run("with l as (insert into log values (0, 0) returning k) update t set v = 0 from l where t.k = 1")
    assert raised.value.sqlstate == "40001"
    await two.run("rollback")
    assert await one.rows("select * from log") == []
    assert sorted(await one.rows("select * from t")) == [(1, 11), (2, 20)]


async def test_later_statements_of_a_block_see_what_it_changed(clients: list[Client]) -> None:
    one, _ = clients
    await one.run("begin")
    rows = await one.rows("with d as (delete from t where k = 1 returning k) select count(*), (select k from d) from t")
    assert rows == [(2, 1)]
    assert await one.rows("select k from t") == [(2,)]
    await one.run("savepoint s")
    await one.run("with d as (delete from t) insert into log select k, v from t")
    assert await one.rows("select count(*) from t") == [(0,)]
    await one.run("rollback to s; commit")
    assert await one.rows("select k from t") == [(2,)]
    assert await one.rows("select * from log") == []


# ------------------------------------------------------------ MERGE


@pytest.mark.parametrize("level", ["read committed", "serializable"])
async def test_a_merge_that_waited_finds_out_anew_what_matches(clients: list[Client], level: str) -> None:
    one, two = clients
    await two.run(f"set default_transaction_isolation = '{level}'")
    await one.run("begin; update t set k = 3 where k = 1")
    merged = await blocked(
        two,
        "merge into t using (values (1), (3)) q (k) on t.k = q.k when matched then update set v = v + 1 "
        "when not matched then insert values (q.k, 0) returning merge_action(), t.k, v",
    )
    await one.run("commit")
    (rows,) = await merged.result()
    assert sorted(rows) == [("INSERT", 1, 0), ("UPDATE", 3, 11)]
    assert sorted(await one.rows("select k, v from t")) == [(1, 0), (2, 20), (3, 11)]


async def test_a_merge_locks_what_it_changes(clients: list[Client]) -> None:
    one, two = clients
    await one.run("begin; merge into t using (values (1)) q (k) on t.k = q.k when matched then delete")
    second = await blocked(two, "update t set v = 0")
    await one.run("commit")
    assert await second.result() == ["UPDATE 1"]
