"""Cancel requests and timeouts, at moments at which no statement runs though the client waits for one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from adapter.execution.notifications import NotificationHub
from adapter.plans import plan_cache
from adapter.results import Rows
from adapter.sessions import statement_life
from adapter.transactions.group_commit import GroupCommitter
from planner.errors import SerializationFailure, SqlError
from tests.adapter.harness import Client, rows_of

LONG = f"select {'1 + ' * 1_000} 1"


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[threading.Event]:
    """A function of the plan cache does not return until this is left; the event tells that it has been called."""
    function = getattr(plan_cache, name)
    entered, go = threading.Event(), threading.Event()

    def slowly(*given: Any) -> Any:
        entered.set()
        go.wait(60)
        return function(*given)

    monkeypatch.setattr(plan_cache, name, slowly)
    try:
        yield entered
    finally:
        go.set()


async def error_of(task: asyncio.Task[Any]) -> SqlError:
    with pytest.raises(SqlError) as raised:
        await asyncio.wait_for(task, 10)
    return raised.value


@pytest.mark.parametrize("name", ["parse_statements", "make_plan"])
async def test_a_cancel_while_a_long_text_is_parsed_or_planned(
    client: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with held(monkeypatch, name) as entered:
        task = asyncio.create_task(client.run(LONG))
        assert await asyncio.to_thread(entered.wait, 60)
        client.session.cancel()
        assert (await error_of(task)).sqlstate == "57014"
    assert await client.value("select 1") == 1


@pytest.mark.parametrize("name", ["parse_statements", "make_plan"])
async def test_a_cancel_while_a_long_text_is_prepared(
    client: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with held(monkeypatch, name) as entered:
        task = asyncio.create_task(client.session.prepare("s", LONG, ()))
        assert await asyncio.to_thread(entered.wait, 60)
        client.session.cancel()
        assert (await error_of(task)).sqlstate == "57014"
    await client.session.sync()
    await client.session.prepare("s", LONG, ())


@pytest.mark.parametrize("name", ["parse_statements", "make_plan"])
async def test_the_timeout_counts_parsing_and_planning(
    client: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    await client.run("set statement_timeout = 100")
    with held(monkeypatch, name):
        error = await error_of(asyncio.create_task(client.run(LONG)))
    assert (error.sqlstate, error.message) == ("57014", "canceling statement due to statement timeout")


async def test_a_cancel_between_two_attempts(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0
    pausing = asyncio.Event()
    sleep = asyncio.sleep

    async def conflict(_: object) -> Any:
        nonlocal attempts
        attempts += 1
        raise SerializationFailure("could not serialize access")

    async def long(_: float) -> None:
        pausing.set()
        await sleep(60)

    await client.value("select 1")
    with monkeypatch.context() as patched:
        patched.setattr(statement_life, "dispatch", conflict)
        patched.setattr(asyncio, "sleep", long)
        task = asyncio.create_task(client.run("select 2"))
        await asyncio.wait_for(pausing.wait(), 10)
        client.session.cancel()
        assert (await error_of(task)).sqlstate == "57014"
    assert attempts == 1
    assert await client.value("select 3") == 3


async def test_a_cancel_of_nothing_does_nothing(client: Client) -> None:
    client.session.cancel()
    assert await client.value("select 1") == 1


async def test_a_cancel_while_a_statement_commits_fails_neither_it_nor_its_rows(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.run("CREATE TABLE raised (id int PRIMARY KEY, n int); INSERT INTO raised VALUES (1, 0)")
    commit = GroupCommitter.commit

    async def cancelled(self: GroupCommitter, request: Any) -> Any:
        found = await commit(self, request)
        asyncio.get_running_loop().call_soon(client.session.cancel)
        # As the committer itself, when the outcome is decided.
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1)
        return found

    monkeypatch.setattr(GroupCommitter, "commit", cancelled)
    assert await client.rows("UPDATE raised SET n = n + 1 WHERE id = 1 RETURNING n") == [(1,)]
    assert await client.tag("UPDATE raised SET n = n + 1 WHERE id = 1") == "UPDATE 1"
    assert await client.rows("SELECT n FROM raised") == [(2,)]


NOTIFYING = (
    "NOTIFY c, '1'",
    "SELECT pg_notify('c', '1')",
    "INSERT INTO told VALUES (1); NOTIFY c, '1'",
    "BEGIN; INSERT INTO told VALUES (1); NOTIFY c, '1'; COMMIT",
    "INSERT INTO told SELECT 1 FROM pg_notify('c', '1')",
    "INSERT INTO told SELECT 1 FROM pg_notify('c', '1') RETURNING a",
    "WITH new AS (INSERT INTO told VALUES (1) RETURNING a) SELECT pg_notify('c', a::text) FROM new",
    "SELECT pg_notify('c', g::text) FROM generate_series(1, 3) g",
    "BEGIN; NOTIFY c, '1'; COMMIT AND CHAIN; ROLLBACK",
)


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("text", NOTIFYING)
async def test_a_cancel_while_what_has_been_committed_is_published(
    client: Client, monkeypatch: pytest.MonkeyPatch, text: str, extended: bool
) -> None:
    await client.run("CREATE TABLE told (a int); LISTEN c")
    publishing, go = asyncio.Event(), asyncio.Event()
    publish = NotificationHub._publish

    async def slowly(self: NotificationHub, *given: Any) -> None:
        publishing.set()
        await go.wait()
        await publish(self, *given)

    monkeypatch.setattr(NotificationHub, "_publish", slowly)

    async def executed() -> None:
        await client.session.prepare("", text, ())
        await client.session.bind("", "", (), ())
        result = await client.session.execute_portal("", 0, True)
        if isinstance(result, Rows):
            async for _ in rows_of(result):
                pass
        await client.session.sync()

    if extended and ";" in text:
        text = "NOTIFY c, '2'"
    task = asyncio.create_task(executed() if extended else client.run(text))
    await asyncio.wait_for(publishing.wait(), 10)
    client.session.cancel()
    await asyncio.wait_for(task, 10)
    go.set()
    await client.session.deliver_notifications()
    for _ in range(10):
        await asyncio.sleep(0)
    assert client.status == "I"
    assert await client.value("SELECT count(*) FROM told") == ("told" in text)
    await client.session.deliver_notifications()
    assert len(client.notified) == (3 if "series" in text else 1)
