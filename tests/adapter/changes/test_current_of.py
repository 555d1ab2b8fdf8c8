"""WHERE CURRENT OF beside other transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.adapter.harness import Client, blocked

Another = Callable[[], Awaitable[Client]]


async def _two(client: Client, another: Another) -> tuple[Client, Client]:
    await client.run("create table t (k int primary key, v int); insert into t values (1, 10)")
    other = await another()
    for one in (client, other):
        await one.run("set default_transaction_isolation = 'read committed'")
    return client, other


async def test_a_row_that_somebody_has_changed_since_is_the_one_in_its_place(client: Client, another: Another) -> None:
    one, two = await _two(client, another)
    await one.run("begin; declare c cursor for select * from t; fetch 1 from c")
    await two.run("update t set v = v + 1; update t set v = v + 1")
    assert await one.rows("update t set v = v + 100 where current of c returning k, v") == [(1, 112)]
    assert await one.rows("update t set v = v + 100 where current of c returning k, v") == [(1, 212)]
    await one.run("commit")
    assert await two.rows("select * from t") == [(1, 212)]


async def test_a_row_that_somebody_has_deleted_since_is_none(client: Client, another: Another) -> None:
    one, two = await _two(client, another)
    await one.run("begin; declare c cursor for select * from t; fetch 1 from c")
    await two.run("delete from t")
    assert await one.rows("update t set v = 0 where current of c returning k") == []


async def test_a_locking_cursor_keeps_others_from_its_row(client: Client, another: Another) -> None:
    one, two = await _two(client, another)
    await one.run("begin; declare c cursor for select v from t for update; fetch 1 from c")
    second = await blocked(two, "update t set v = v * 2 returning v")
    await one.run("update t set v = v + 1 where current of c; commit")
    assert await second.result() == [[(22,)]]


async def test_a_savepoint_brings_the_row_back(client: Client, another: Another) -> None:
    one, _ = await _two(client, another)
    await one.run("begin; declare c cursor for select * from t; fetch 1 from c; savepoint s")
    await one.run("delete from t where current of c")
    assert await one.rows("update t set v = 0 where current of c returning k") == []
    await one.run("rollback to s")
    assert await one.rows("update t set v = 1 where current of c returning k, v") == [(1, 1)]
