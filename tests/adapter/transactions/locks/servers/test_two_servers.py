"""Advisory locks of applications that are clients of two servers of one environment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapter.sessions.options import ServerOptions
from adapter.sessions.server import Server
from planner.errors import SqlError
from storage.environment.named_stores import StoreNames
from tests.adapter.harness import Client, Waiting, connect


@pytest.fixture
def options(tmp_path: Path) -> ServerOptions:
    return ServerOptions(stores=StoreNames(data_dir=tmp_path / "data"), warm_spark=False, settings={"engine": "local"})


@pytest.fixture
async def clients(options: ServerOptions) -> AsyncIterator[list[Client]]:
    """Two sessions of one server, then two of another one."""
    first, second = await Server.open(options), await Server.open(options)
    yield [await connect(first), await connect(first), await connect(second), await connect(second)]
    await second.close()
    await first.close()


async def waits(client: Client, text: str) -> Waiting:
    """Begin a statement, which waits for another server."""
    waiting = Waiting(client, text)
    assert not await waiting.is_over(0.2)
    return waiting


async def test_they_exclude_each_other(clients: list[Client]) -> None:
    one, _, two, _ = clients
    await one.run("select pg_advisory_lock(1), pg_advisory_lock_shared(2), pg_advisory_lock(3, 4)")
    asked = "select pg_try_advisory_lock(1), pg_try_advisory_lock(2), pg_try_advisory_lock_shared(2)"
    assert await two.rows(f"{asked}, pg_try_advisory_lock(3, 4), pg_try_advisory_lock(4, 3)") == [
        (False, False, True, False, True)
    ]
    waiting = await waits(two, "select pg_advisory_lock(1)")
    await one.run("select pg_advisory_unlock(1)")
    await waiting.result()
    assert await one.value("select pg_try_advisory_lock(1)") is False
    await two.run("select pg_advisory_unlock_all()")
    assert await one.value("select pg_try_advisory_lock(1)") is True


async def test_a_session_takes_a_lock_as_often_as_it_likes(clients: list[Client]) -> None:
    one, _, two, _ = clients
    await one.run("select pg_advisory_lock(1)")
    waiting = await waits(two, "select pg_advisory_lock(1)")
    await one.run("select pg_advisory_lock(1); select pg_advisory_lock(1)")
    await one.run("select pg_advisory_lock_shared(1)")
    for _ in range(3):
        assert await one.value("select pg_advisory_unlock(1)") is True
        assert not await waiting.is_over(0.05)
    assert await one.value("select pg_advisory_unlock_shared(1)") is True
    await waiting.result()


async def test_locks_of_a_transaction(clients: list[Client]) -> None:
    one, _, two, _ = clients
    await one.run("begin; select pg_advisory_xact_lock(1); savepoint s; select pg_advisory_xact_lock(2)")
    assert await two.rows("select pg_try_advisory_lock(1), pg_try_advisory_lock(2)") == [(False, False)]
    waiting = await waits(two, "select pg_advisory_lock(2)")
    await one.run("rollback to s")
    await waiting.result()
    assert await two.value("select pg_try_advisory_lock(1)") is False
    waiting = await waits(two, "select pg_advisory_lock(1)")
    await one.run("commit")
    await waiting.result()


async def test_who_gives_up_is_in_nobodys_way(clients: list[Client]) -> None:
    one, another, two, _ = clients
    await one.run("select pg_advisory_lock(1)")
    await two.run("set lock_timeout = '100ms'")
    with pytest.raises(SqlError) as caught:
        await two.run("select pg_advisory_lock(1)")
    assert caught.value.sqlstate == "55P03"
    await two.run("begin; savepoint s; set local lock_timeout = 0")
    waiting = await waits(two, "select pg_advisory_xact_lock(1)")
    behind = await waits(another, "select pg_advisory_lock(1)")
    two.session.cancel()
    assert (await waiting.error()).sqlstate == "57014"
    await one.run("select pg_advisory_unlock(1)")
    await behind.result()
    await another.run("select pg_advisory_unlock(1)")
    assert await one.value("select pg_try_advisory_lock(1)") is True


async def test_a_deadlock(clients: list[Client]) -> None:
    """Through rows of each server, too."""
    one, beside_one, two, beside_two = clients
    await one.run("create table t (k int primary key, v int); insert into t values (1, 0), (2, 0)")
    for client in clients:
        await client.run("set deadlock_timeout = '100ms'; begin isolation level read committed")
    await one.run("update t set v = 1 where k = 1")
    await beside_one.run("select pg_advisory_xact_lock(1)")
    await two.run("update t set v = 2 where k = 2")
    await beside_two.run("select pg_advisory_xact_lock(2)")
    rows = [
        await waits(beside_one, "update t set v = 3 where k = 1"),
        await waits(beside_two, "update t set v = 3 where k = 2"),
    ]
    first = Waiting(one, "select pg_advisory_xact_lock(2)")
    second = Waiting(two, "select pg_advisory_xact_lock(1)")
    over = [asyncio.ensure_future(each.is_over(10)) for each in (first, second)]
    await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
    victim, other, who, whose = (first, second, one, 0) if over[0].done() else (second, first, two, 1)
    error = await victim.error()
    assert error.sqlstate == "40P01"
    assert "on advisory lock [" in (error.detail or "")
    await who.run("rollback")
    await rows[whose].result()
    await (beside_one if whose == 0 else beside_two).run("rollback")
    await other.result()
    await (two if whose == 0 else one).run("rollback")
    await rows[1 - whose].result()
    await asyncio.gather(*over)


async def test_what_waits_is_shown(clients: list[Client]) -> None:
    one, _, two, beside = clients
    await one.run("select pg_advisory_lock(1)")
    waiting = await waits(two, "select pg_advisory_lock(1)")
    shown = "select pid, objid, mode, granted from pg_locks where locktype = 'advisory'"
    pid = two.session.state.backend_pid
    assert sorted(await beside.rows(shown)) == [
        (one.session.state.backend_pid, 1, "ExclusiveLock", True),
        (pid, 1, "ExclusiveLock", False),
    ]
    asked = f"select wait_event_type, wait_event from pg_stat_activity where pid = {pid}"
    assert await beside.rows(asked) == [("Lock", "advisory")]
    await one.run("select pg_advisory_unlock(1)")
    await waiting.result()
    assert await beside.rows(shown) == [(pid, 1, "ExclusiveLock", True)]


async def test_what_was_there_before_the_other_server(options: ServerOptions) -> None:
    async with contextlib.AsyncExitStack() as stack:
        first = await Server.open(options)
        stack.push_async_callback(first.close)
        one = await connect(first)
        await one.run("select pg_advisory_lock(1)")
        second = await Server.open(options)
        two = await connect(second)
        assert await two.value("select pg_try_advisory_lock(1)") is False
        await two.run("select pg_advisory_lock(2)")
        waiting = await waits(one, "select pg_advisory_lock(2)")
        # Its session ends with it.
        await second.close()
        await waiting.result()
        await asyncio.sleep(0)
        assert await one.value("select pg_advisory_unlock(1)") is True
