"""Who cannot be bound for a definition that another session has not committed waits for that, and is bound then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from adapter.sessions.server import Server
from planner.errors import SqlError
from tests.adapter.harness import Client, connect, open_server

CASES = [
    ("alter table t add b int", "insert into t (a, b) values (1, 2)", "INSERT 0 1"),
    ("alter table t add b int", "update t set b = 1", "UPDATE 1"),
    ("alter table t add b int", "select a from t where b is null", "[(5,)]"),
    ("alter table t rename a to b", "select b from t", "[(5,)]"),
    ("alter table t rename a to b", "delete from s.t where b = 5", "DELETE 1"),
    ("alter table t add b int", "select c from t", "42703"),
    ("drop table t", "select c from t", "42P01"),
]
"""What is not committed yet, a statement, and what becomes of it."""


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with open_server() as server:
        yield server


async def outcome(client: Client, text: str, *, prepared: bool) -> str:
    try:
        if prepared:
            await client.session.prepare("p", text, ())
            return "prepared"
        return str((await client.run(text))[0])
    except SqlError as error:
        return error.sqlstate


@pytest.mark.parametrize("prepared", [False, True], ids=["simple", "prepared"])
@pytest.mark.parametrize(("definition", "text", "wanted"), CASES)
async def test_it_is_bound_to_what_is_committed(
    server: Server, definition: str, text: str, wanted: str, prepared: bool
) -> None:
    one, other = await connect(server), await connect(server)
    await one.run("create schema s; create table s.t (a int); insert into s.t values (5)")
    for client in (one, other):
        await client.run("set search_path = s")
    await one.run("begin")
    await one.run(definition)
    waiting = asyncio.ensure_future(outcome(other, text, prepared=prepared))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await one.run("commit")
    found = await waiting
    assert found == ("prepared" if prepared and not wanted.startswith("42") else wanted)


async def test_what_another_will_have_made_is_not_waited_for(server: Server) -> None:
    one, other = await connect(server), await connect(server)
    await one.run("begin; create table made (a int)")
    assert await outcome(other, "select * from made", prepared=False) == "42P01"
    await one.run("create table t (a int)")
    await one.run("commit; begin; alter table t rename to u")
    assert await outcome(other, "select * from u", prepared=True) == "42P01"


@pytest.mark.parametrize("prepared", [False, True], ids=["simple", "prepared"])
async def test_waiting_can_be_cancelled(server: Server, prepared: bool) -> None:
    one, other = await connect(server), await connect(server)
    await one.run("create table t (a int)")
    await one.run("begin; alter table t add b int")
    waiting = asyncio.ensure_future(outcome(other, "select b from t", prepared=prepared))
    await asyncio.sleep(0.1)
    other.session.cancel()
    assert await asyncio.wait_for(waiting, 5) == "57014"
    await other.run("set lock_timeout = '50ms'")
    assert await outcome(other, "select b from t", prepared=prepared) == "55P03"
    await one.run("rollback")
    assert await outcome(other, "select b from t", prepared=prepared) == "42703"
    assert await other.value("select count(*) from pg_locks where relation = 't'::regclass") == 0
