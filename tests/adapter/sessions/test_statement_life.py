"""Statements that fail: whoever notices it, the transaction has failed when the error arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from adapter.results import CopyIn, Rows
from adapter.sessions.server import Server
from adapter.sessions.session import Session
from adapter.sessions.statement_life import Delivery
from planner.errors import InvalidTextRepresentation, SqlError
from tests.adapter.harness import Client, connect, rows_of


async def _param_types(session: Session) -> None:
    session.statement_param_types("nothing")


async def _formats(session: Session) -> None:
    session.portal_formats("nothing")


CALLS: dict[str, Callable[[Session], Awaitable[Any]]] = {
    "a syntax error": lambda session: session.prepare("", "selec", ()),
    "a name that binding does not find": lambda session: session.prepare("", "select nothing", ()),
    "the parameters of no statement": _param_types,
    "the description of no statement": lambda session: session.describe_statement("nothing"),
    "a portal of no statement": lambda session: session.bind("", "nothing", (), ()),
    "the description of no portal": lambda session: session.describe_portal("nothing"),
    "the formats of no portal": _formats,
    "no portal to execute": lambda session: session.execute_portal("nothing"),
    "a function call that fails": lambda session: session.call_function("select 1/0", ()),
}


async def _consumed(result: Rows) -> list[tuple[Any, ...]]:
    return [row async for row in rows_of(result)]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_that_raises_fails_the_block(client: Client, call: Callable[[Session], Awaitable[Any]]) -> None:
    await client.run("begin")
    with pytest.raises(SqlError):
        await _consumed(await call(client.session))
    assert client.status == "E"
    assert (await client.error("select 1")).sqlstate == "25P02"
    await client.run("rollback")
    assert client.status == "I"


async def test_what_the_frontend_does_itself_fails_the_transaction_too(client: Client) -> None:
    session = client.session
    await client.run("create table t (a int)")
    await session.prepare("", "insert into t values (1)", ())
    await session.bind("", "", (), ())
    await session.execute_portal("")
    with pytest.raises(InvalidTextRepresentation), session.work:
        raise InvalidTextRepresentation('invalid input syntax for type integer: "x"')
    await session.sync()
    assert await client.value("select count(*) from t") == 0
    await client.run("begin")
    with pytest.raises(InvalidTextRepresentation), session.work:
        raise InvalidTextRepresentation('invalid input syntax for type integer: "x"')
    assert client.status == "E"


@pytest.mark.parametrize("rows_before", [0, 1])
async def test_a_result_that_is_left_fails_its_statement(client: Client, rows_before: int) -> None:
    await client.run("begin")
    results: Any = client.session.execute_simple("select g from generate_series(1, 100000) g")
    result = await anext(results)
    assert isinstance(result, Rows)
    assert isinstance(result.batches, Delivery)
    for _ in range(rows_before):
        await anext(result.batches)
    await result.batches.aclose()
    assert client.status == "E"
    await result.batches.aclose()
    assert await _consumed(result) == []
    await results.aclose()
    await client.run("rollback")
    assert await client.value("select 1") == 1


async def test_rows_of_a_portal_that_are_left_undo_what_came_before(client: Client) -> None:
    session = client.session
    await client.run("create table t (a int)")
    await session.prepare("", "insert into t values (1) returning a", ())
    await session.bind("", "", (), ())
    result = await session.execute_portal("")
    assert isinstance(result, Rows)
    assert isinstance(result.batches, Delivery)
    await result.batches.aclose()
    await session.sync()
    assert await client.value("select count(*) from t") == 0


async def test_a_copy_that_is_aborted_fails_its_statement(client: Client) -> None:
    await client.run("create table t (a int); begin")
    results: Any = client.session.execute_simple("copy t from stdin")
    copy = await anext(results)
    assert isinstance(copy, CopyIn)
    await copy.abort(None)
    await results.aclose()
    assert client.status == "E"


async def test_a_session_waits_for_its_client_after_an_error_too(client: Client) -> None:
    await client.run("set idle_session_timeout = '20ms'")
    assert (await client.error("selec")).sqlstate == "42601"
    await asyncio.sleep(0.1)
    assert [error.sqlstate for error in client.terminated] == ["57P05"]


async def test_a_client_that_never_says_anything_is_idle(server: Server, client: Client) -> None:
    silent = await connect(server, idle_session_timeout="20ms")
    await asyncio.sleep(0.1)
    assert [error.sqlstate for error in silent.terminated] == ["57P05"]


async def test_who_goes_on_with_a_portal_is_not_idle(client: Client) -> None:
    await client.run("create sequence s; set idle_in_transaction_session_timeout = '200ms'")
    session = client.session
    await client.run("begin")
    await session.prepare("", "select pg_sleep(0.05) from generate_series(1, 20) g where nextval('s') > 0", ())
    await session.bind("p", "", (), ())
    await session.sync()
    await asyncio.sleep(0.1)
    result = await session.execute_portal("p", 0, sync_follows=True)
    assert isinstance(result, Rows)
    await asyncio.sleep(0.2)  # The client is slow to fetch: it is not the session that waits for it.
    assert len([row async for row in rows_of(result)]) == 20
    await session.sync()
    assert client.terminated == []
