"""PREPARE TRANSACTION and what comes after it: on one server, after its end, and on another server meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from adapter.sessions.options import ServerOptions
from adapter.sessions.server import Server
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.named_stores import StoreNames
from tests.adapter.harness import Client, Waiting, blocked, connect, open_server

SETTINGS = {"engine": "local", "max_prepared_transactions": "3", "default_transaction_isolation": "read committed"}

TABLES = (
    "create table p (id int primary key, v int); create table c (id int primary key, p int references p); "
    "insert into p values (1, 1), (2, 2), (3, 3); insert into c values (1, 1)"
)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with open_server(settings=SETTINGS) as opened:
        yield opened


@pytest.fixture
async def one(server: Server) -> Client:
    client = await connect(server)
    await client.run(TABLES)
    return client


@pytest.fixture
async def two(server: Server) -> Client:
    return await connect(server)


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[list[Server]]:
    """Two servers on one data directory."""
    options = ServerOptions(stores=StoreNames(data_dir=tmp_path / "data"), warm_spark=False, settings=SETTINGS)
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(2):
            server = await Server.open(options)
            stack.push_async_callback(server.close)
            opened.append(server)
        yield opened


async def test_nobody_sees_it_before_it_is_committed(one: Client, two: Client) -> None:
    await one.run("begin; update p set v = 10 where id = 1; insert into p values (4, 4); prepare transaction 'x'")
    assert await two.rows("select * from p order by id") == [(1, 1), (2, 2), (3, 3)]
    assert await two.rows("select gid, owner, database from pg_prepared_xacts") == [("x", "postgres", "postgres")]
    await two.run("commit prepared 'x'")
    assert await one.rows("select * from p order by id") == [(1, 10), (2, 2), (3, 3), (4, 4)]
    assert await one.rows("select * from pg_prepared_xacts") == []


async def test_its_rows_are_waited_for(one: Client, two: Client) -> None:
    await one.run("begin; update p set v = 10 where id = 1; prepare transaction 'x'")
    waiting = await blocked(two, "update p set v = v + 1 where id = 1")
    await one.run("rollback prepared 'x'")
    await waiting.result()
    assert await one.rows("select v from p where id = 1") == [(2,)]


async def test_its_id_runs_until_it_ends(one: Client, two: Client) -> None:
    await one.run("begin; insert into p values (4, 4)")
    xid = await one.value("select pg_current_xact_id()")
    await one.run("prepare transaction 'x'")
    assert await two.value(f"select pg_xact_status('{xid}')") == "in progress"
    await two.run("commit prepared 'x'")
    assert await two.value(f"select pg_xact_status('{xid}')") == "committed"


async def test_no_more_than_the_setting_says(one: Client) -> None:
    for number in range(3):
        await one.run(f"begin; prepare transaction '{number}'")
    await one.run("begin")
    error = await one.error("prepare transaction 'more'")
    assert (error.sqlstate, error.message) == ("53200", "maximum number of prepared transactions reached")
    await one.run("commit prepared '1'")
    await one.run("begin; prepare transaction 'more'")


async def test_only_who_prepared_it_or_a_superuser_ends_it(server: Server, one: Client) -> None:
    await one.run("create role clerk login")
    clerk = await connect(server, user="clerk")
    await one.run("begin; prepare transaction 'x'")
    error = await clerk.error("commit prepared 'x'")
    assert (error.sqlstate, error.hint) == ("42501", "Must be superuser or the user that prepared the transaction.")
    await clerk.run("begin; prepare transaction 'y'")
    await one.run("rollback prepared 'y'")


async def test_it_outlives_its_server() -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    async with open_server(blob=blob, consensus=consensus, settings=SETTINGS) as server:
        client = await connect(server)
        await client.run(TABLES)
        await client.run("begin; delete from c; update p set v = 10 where id = 1; insert into p values (4, 4)")
        await client.run("create table made (a int); insert into made select g from generate_series(1, 20000) g")
        await client.run("select * from p where id = 2 for update; prepare transaction 'x'")
    async with open_server(blob=blob, consensus=consensus, settings=SETTINGS) as server:
        one, two = await connect(server), await connect(server)
        await server.env.maintenance.orphans.collect()
        assert await one.rows("select gid from pg_prepared_xacts") == [("x",)]
        for statement in (
            "update p set v = 0 where id = 1", "update p set v = 0 where id = 2", "delete from c", "drop table c",
        ):  # fmt: skip
            assert (await one.error(f"set lock_timeout = '100ms'; {statement}")).sqlstate == "55P03"
        await one.run("update p set v = 30 where id = 3")
        locked = "select count(*) > 0 from pg_locks where pid is null and mode = 'RowExclusiveLock'"
        assert await two.value(locked)
        await two.run("commit prepared 'x'")
        assert await one.rows("select * from p order by id") == [(1, 10), (2, 2), (3, 30), (4, 4)]
        assert await one.value("select count(*) from made") == 20000
        assert await one.rows("select * from c") == []
        await one.run("update p set v = 0 where id = 2")


@pytest.mark.parametrize(
    ("prepared", "beside"),
    [
        ("update p set v = 10 where id = 1", "update p set v = 20 where id = 1"),
        ("insert into p values (4, 4)", "insert into p values (4, 5)"),
        ("insert into c values (2, 2)", "delete from p where id = 2"),
        ("delete from p where id = 3", "insert into c values (3, 3)"),
        ("select * from p where id = 2 for update", "update p set v = 20 where id = 2"),
        ("insert into p values (4, 4)", "alter table p add column w int"),
        ("create table made (a int)", "create table made (b int)"),
        ("alter table p add check (v < 100)", "insert into p values (5, 500)"),
    ],
)
async def test_a_commit_that_knew_nothing_of_it_waits(one: Client, server: Server, prepared: str, beside: str) -> None:
    """Of another server, say, which has locked what it writes before it heard."""
    stranger = await connect(server, shares_locks=False)
    await one.run(f"begin; {prepared}; prepare transaction 'x'")
    assert server.services.prepared.all()
    waiting = Waiting(stranger, beside)
    assert not await waiting.is_over(0.3)
    await one.run("rollback prepared 'x'")
    await waiting.result()


async def test_what_it_has_read_does_not_change(one: Client, two: Client) -> None:
    await one.run("begin isolation level serializable; select sum(v) from p where id < 3")
    await one.run("insert into p values (10, 10); prepare transaction 'x'")
    await two.run("update p set v = 30 where id = 3")
    waiting = Waiting(two, "update p set v = 20 where id = 2")
    assert not await waiting.is_over(0.3)
    await one.run("commit prepared 'x'")
    await waiting.result()
    assert await one.rows("select * from p order by id") == [(1, 1), (2, 20), (3, 30), (10, 10)]


async def test_another_server_waits_and_ends_it(servers: list[Server]) -> None:
    here, there, third = [await connect(servers[0]), await connect(servers[1]), await connect(servers[1])]
    await here.run(TABLES)
    await here.run("begin; update p set v = 10 where id = 1; insert into p values (4, 4); prepare transaction 'x'")
    assert await there.rows("select gid from pg_prepared_xacts") == [("x",)]
    row, key = Waiting(there, "update p set v = v + 1 where id = 1"), Waiting(third, "insert into p values (4, 5)")
    assert not await row.is_over(0.3)
    assert not await key.is_over(0.1)
    await (await connect(servers[1])).run("commit prepared 'x'")
    await row.result()
    assert (await key.error()).sqlstate == "23505"
    assert await here.rows("select * from p where id in (1, 4) order by id") == [(1, 11), (4, 4)]
    assert (await here.error("commit prepared 'x'")).sqlstate == "42704"


async def test_two_that_do_not_fit_cannot_both_be_prepared(one: Client, two: Client) -> None:
    for client, row in ((one, 1), (two, 2)):
        await client.run(
            f"begin isolation level serializable; select sum(v) from p; update p set v = 0 where id = {row}"
        )
    await one.run("prepare transaction 'x'")
    error = await two.error("prepare transaction 'y'")
    assert (error.sqlstate, two.status) == ("40001", "I")
    await two.run("commit prepared 'x'")
