"""Keys hold between transactions that do not see each other: in one commit group, on one server and on several."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from adapter.changes.constraints import key_checks, key_locks, statement_keys
from adapter.execution.statement import Running
from adapter.sessions.options import ServerOptions
from adapter.sessions.server import Server
from adapter.transactions import validation
from planner.errors import SqlError
from storage.environment.named_stores import StoreNames
from storage.timestamps.csn import Csn
from tests.adapter.harness import Client, connect

CLIENTS = 8
ROUNDS = 12


@pytest.fixture(params=[1, 2], ids=["one server", "two servers"])
async def clients(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[Client]]:
    """Sessions on one server, or in turn on two of one environment."""
    options = ServerOptions(
        stores=StoreNames(data_dir=tmp_path / "data"), warm_spark=False, settings={"engine": "local"}
    )
    async with AsyncExitStack() as stack:
        servers = []
        for _ in range(request.param):
            server = await Server.open(options)
            stack.push_async_callback(server.close)
            servers.append(server)
        yield [await connect(servers[number % len(servers)]) for number in range(CLIENTS)]


async def attempt(client: Client, text: str) -> str:
    """Run a query string; the SQLSTATE that it ended with."""
    try:
        await client.run(text)
    except SqlError as error:
        if client.status != "I":
            await client.run("rollback")
        return error.sqlstate
    return "00000"


async def test_of_many_who_write_a_key_one_does(clients: list[Client]) -> None:
    await clients[0].run("create table t (k int primary key, who int)")
    for key in range(ROUNDS):
        states = await asyncio.gather(
            *(attempt(client, f"insert into t values ({key}, {who})") for who, client in enumerate(clients))
        )
        assert sorted(states) == ["00000"] + ["23505"] * (CLIENTS - 1)
    assert await clients[0].value("select count(*) from t") == ROUNDS


async def test_blocks_that_write_the_same_key(clients: list[Client]) -> None:
    one, two = clients[:2]
    await one.run("create table t (k int primary key)")
    for key, level in enumerate(["read committed", "repeatable read", "serializable"]):
        await two.run(f"begin isolation level {level}")
        await two.run(f"insert into t values ({key + 100})")
        await one.run(f"insert into t values ({key})")
        assert await attempt(two, f"insert into t values ({key}); commit") == "23505"
    assert await one.rows("select k from t order by k") == [(0,), (1,), (2,)]


async def test_a_key_that_moves(clients: list[Client]) -> None:
    """Updates that give a key away and take another: none is ever in two rows."""
    await clients[0].run("create table t (k int unique, id int primary key)")
    await clients[0].run("insert into t select g, g from generate_series(1, 8) g")
    chance = random.Random(5)

    async def move(client: Client) -> None:
        await client.run("set deadlock_timeout = '20ms'")
        for _ in range(ROUNDS):
            text = f"update t set k = {chance.randint(1, 12)} where id = {chance.randint(1, 8)}"
            # Two that take each other's key wait for each other, in PostgreSQL as well.
            assert await attempt(client, text) in ("00000", "23505", "40P01")

    await asyncio.gather(*(move(client) for client in clients))
    assert await clients[0].value("select count(*) from t") == 8
    assert await clients[0].value("select count(distinct k) from t") == 8


async def test_no_row_refers_to_nothing(clients: list[Client]) -> None:
    await clients[0].run("create table p (id int primary key)")
    await clients[0].run("create table c (p int references p, q int references p on delete cascade)")
    chance = random.Random(7)

    async def change(client: Client) -> None:
        for _ in range(ROUNDS):
            key = chance.randint(1, 5)
            text = chance.choice(
                [
                    f"insert into p values ({key})",
                    f"delete from p where id = {key}",
                    f"insert into c(p) values ({key})",
                    f"insert into c(q) values ({key})",
                    f"delete from c where p = {key}",
                    f"update p set id = {key + 1} where id = {key}",
                    f"begin; insert into p values ({key}); insert into c values ({key}, {key}); commit",
                ]
            )
            assert await attempt(client, text) in ("00000", "23505", "23503", "40001")

    for _ in range(3):
        await asyncio.gather(*(change(client) for client in clients))
        lost = "select count(*) from c where p is not null and p not in (select id from p)"
        assert await clients[0].value(lost) == 0
        assert await clients[0].value(lost.replace("p is", "q is").replace("and p", "and q")) == 0
    assert await clients[0].value("select count(*) - count(distinct id) from p") == 0


@pytest.mark.parametrize("action", ["cascade", "set null", "set default"])
async def test_a_row_that_is_to_follow_comes_just_before_the_commit(tmp_path: Path, action: str) -> None:
    """On another server, which does not see who deletes what it refers to: the statement is run again and has the row
    follow, or its block is told to begin again; nobody is told of a row that was to follow anyway."""
    options = ServerOptions(
        stores=StoreNames(data_dir=tmp_path / "data"), warm_spark=False, settings={"engine": "local"}
    )
    first, second = await Server.open(options), await Server.open(options)
    try:
        one, two = await connect(first), await connect(second)
        await one.run("create table p (id int primary key); insert into p values (0), (1), (2), (3)")
        await one.run(f"create table c (id int, p int default 0 references p on delete {action})")
        for key, level in enumerate(["read committed", "serializable"], 1):
            await one.run(f"begin isolation level {level}")
            await one.run(f"delete from p where id = {key}")
            await two.run(f"insert into c values ({key}, {key})")
            assert await attempt(one, "commit") == "40001"
            assert await one.rows(f"select p from c where id = {key}") == [(key,)]
        gate = asyncio.Event()
        arrived = asyncio.Event()
        claim_unreferenced = key_checks.claim_unreferenced

        async def claim_and_wait(running: Running, *arguments: Any) -> None:
            await claim_unreferenced(running, *arguments)
            arrived.set()
            await gate.wait()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(statement_keys, "claim_unreferenced", claim_and_wait)
            deleting = asyncio.ensure_future(one.run("delete from p where id = 3"))
            await arrived.wait()
            await two.run("insert into c values (3, 3)")
            # Known to the server of the deletion as well, whose checks from here on see it.
            assert await (await connect(first)).rows("select p from c where id = 3") == [(3,)]
            gate.set()
            await deleting
        left = {"cascade": [], "set null": [(None,)], "set default": [(0,)]}[action]
        assert await one.rows("select p from c where id = 3") == left
    finally:
        await second.close()
        await first.close()


async def test_upserts_count_what_was_done(clients: list[Client]) -> None:
    """Every upsert either inserts or adds: nobody is told of a conflict, and nothing is lost."""
    await clients[0].run("create table t (k int primary key, n int)")

    async def count(client: Client, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(ROUNDS):
            key = chance.randint(1, 3)
            await client.run(f"insert into t values ({key}, 1) on conflict (k) do update set n = t.n + excluded.n")

    await asyncio.gather(*(count(client, seed) for seed, client in enumerate(clients)))
    assert await clients[0].value("select sum(n) from t") == CLIENTS * ROUNDS
    assert await clients[0].value("select count(*) from t") == 3


async def test_who_locks_a_row_and_writes_nothing_learns_that_it_is_gone(tmp_path: Path) -> None:
    """Another server does not see the lock; a worker of a queue must not take the job for its own."""
    options = ServerOptions(
        stores=StoreNames(data_dir=tmp_path / "data"), warm_spark=False, settings={"engine": "local"}
    )
    async with AsyncExitStack() as stack:
        sessions = []
        for _ in range(2):
            server = await Server.open(options)
            stack.push_async_callback(server.close)
            sessions.append(await connect(server))
        one, two = sessions
        await one.run("create table t (id int primary key)")
        await one.run("insert into t values (1), (2)")
        await one.run("begin isolation level read committed")
        assert await one.value("select id from t order by id limit 1 for update skip locked") == 1
        await two.run("delete from t where id = 1")
        await one.run("delete from t where id = 1")
        assert await attempt(one, "commit") == "40001"
        await one.run("begin isolation level read committed")
        assert await one.value("select id from t order by id limit 1 for update skip locked") == 2
        assert await attempt(one, "commit") == "00000"


async def test_a_build_that_does_not_look_at_others_is_noticed(
    clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what the commit holds against others, and the locks before it, two of them write one key: so the tests
    above can fail."""

    async def nothing(*_: object) -> None:
        return None

    def snapshot(running: Running) -> Csn:
        assert running.transaction.snapshot is not None
        return running.transaction.snapshot.csn

    monkeypatch.setattr(validation, "broken", nothing)
    monkeypatch.setattr(key_checks, "lock_keys", nothing)
    monkeypatch.setattr(key_locks, "newest", snapshot)
    monkeypatch.setattr(key_checks, "newest", snapshot)
    one, two = clients[:2]
    await one.run("create table t (k int primary key)")
    await two.run("begin isolation level repeatable read; insert into t values (2)")
    await one.run("insert into t values (1)")
    await two.run("insert into t values (1); commit")
    assert await one.value("select count(*) from t where k = 1") == 2


async def test_a_member_that_deletes_its_own_rows_from_files(
    client: Client, another: Callable[[], Awaitable[Client]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members of one commit group, of which the first has written and deleted more than it buffers."""
    monkeypatch.setattr("storage.transactions.txn.SPILL_BUDGET_BYTES", 0)
    await client.run("create table t (k int primary key, v text)")
    others = [await another() for _ in range(3)]
    await client.run("begin; insert into t select n, 'x' from generate_series(1, 100) n; delete from t where k > 50")
    first = asyncio.ensure_future(client.run("commit"))
    states = await asyncio.gather(
        *[
            attempt(other, f"insert into t values ({key}, 'y')")
            for other, key in zip(others, (200, 51, 50), strict=True)
        ]
    )
    assert await first == ["COMMIT"]
    assert states == ["00000", "00000", "23505"]
    assert await client.rows("select count(*), max(k) from t") == [(52, 200)]


async def test_a_lock_that_is_forgotten_makes_no_answer_wrong(
    clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(key_checks, "lock_keys", nothing)
    one, two = clients[:2]
    await one.run("create table t (k int primary key)")
    await two.run("begin isolation level repeatable read; insert into t values (1)")
    await one.run("insert into t values (1)")
    assert await attempt(two, "commit") == "23505"
    assert await one.value("select count(*) from t where k = 1") == 1
