"""Sessions of two servers of one environment, as each sees those of the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapter.sessions.options import ServerOptions
from adapter.sessions.server import Server
from adapter.workers import questions
from adapter.workers.colleagues import SERVER_PIDS
from storage.environment.named_stores import StoreNames
from tests.adapter.harness import Client, Waiting, connect


@pytest.fixture
def options(tmp_path: Path) -> ServerOptions:
    return ServerOptions(stores=StoreNames(data_dir=tmp_path / "data"), warm_spark=False, settings={"engine": "local"})


@pytest.fixture
async def servers(options: ServerOptions) -> AsyncIterator[tuple[Server, Server]]:
    first, second = await Server.open(options), await Server.open(options)
    yield first, second
    await second.close()
    await first.close()


def pid_of(client: Client) -> int:
    return client.session.state.backend_pid


async def cancelled(client: Client) -> Waiting:
    """Begin a statement that is to be cancelled."""
    waiting = Waiting(client, "select pg_sleep(30)")
    assert not await waiting.is_over(0.1)
    return waiting


async def test_each_sees_the_sessions_of_both(servers: tuple[Server, Server]) -> None:
    one, two = [await connect(server, application_name=name) for server, name in zip(servers, "ab", strict=True)]
    assert pid_of(one) < SERVER_PIDS < pid_of(two)
    for client in (one, two):
        asked = "select pid, application_name from pg_stat_activity where application_name in ('a', 'b') order by pid"
        assert await client.rows(asked) == [(pid_of(one), "a"), (pid_of(two), "b")]
        asked = """select s.pid, s.is_this from (select pid, is_this from tidegate.sessions join tidegate.servers
            on server = process where application_name in ('a', 'b')) s order by pid"""
        assert await client.rows(asked) == [(pid_of(one), client is one), (pid_of(two), client is two)]
    assert await one.value("select numbackends from pg_stat_database where datname = 'postgres'") == 2
    assert await two.value("select count(*) from pg_stat_ssl") == 2
    columns = "select count(*) from information_schema.columns where table_name = 'pg_stat_activity'"
    assert await one.value(columns) == 22


async def test_statements_and_sessions_of_the_other_are_ended(servers: tuple[Server, Server]) -> None:
    one, two = [await connect(server) for server in servers]
    for here, there in ((one, two), (two, one)):
        waiting = await cancelled(there)
        assert await here.value(f"select pg_cancel_backend({pid_of(there)})") is True
        assert (await waiting.error()).sqlstate == "57014"
    waiting = await cancelled(two)
    # For each row, too.
    asked = f"select pg_terminate_backend(pid) from pg_stat_activity where pid = {pid_of(two)}"
    assert await one.rows(asked) == [(True,)]
    assert (await waiting.error()).sqlstate == "57P01"
    assert [error.sqlstate for error in two.terminated] == ["57P01"]
    # Its client has not gone yet.
    assert await one.value(f"select pg_terminate_backend({pid_of(two)}, 150)") is False
    assert one.notices() == [f"WARNING: backend with PID {pid_of(two)} did not terminate within 150 milliseconds"]
    ending = Waiting(one, f"select pg_terminate_backend({pid_of(two)}, 10000)")
    while len(two.terminated) < 3:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)
    await two.session.close()
    assert await ending.result() == [[(True,)]]
    for number in (pid_of(two), SERVER_PIDS + 77, 5 * SERVER_PIDS, 2**31 - 1, 0, -1):
        assert await one.rows(f"select pg_cancel_backend({number}), pg_terminate_backend({number})") == [(False, False)]
        assert one.notices() == [f"WARNING: PID {number} is not a PostgreSQL backend process"] * 2
    assert (await one.error("select pg_terminate_backend(1, -1)")).sqlstate == "22003"


async def test_who_may_end_what_the_other_runs(servers: tuple[Server, Server]) -> None:
    here, there = servers
    await (await connect(here)).run("create role a login; create role b login; create role s login in role a, b;"
                                    "create role g login; grant pg_signal_backend to g")  # fmt: skip
    postgres, owner = await connect(there), await connect(there, user="a")
    refused = [
        ("a", postgres, "must be a superuser to cancel superuser query"),
        ("g", postgres, "must be a superuser to cancel superuser query"),
        ("b", owner, "must be a member of the role whose query is being canceled or member of pg_signal_backend"),
    ]
    for user, target, message in refused:
        error = await (await connect(here, user=user)).error(f"select pg_cancel_backend({pid_of(target)})")
        assert (error.sqlstate, error.message) == ("42501", message)
    for user in ("a", "s", "g", "postgres"):
        waiting = await cancelled(owner)
        assert await (await connect(here, user=user)).value(f"select pg_cancel_backend({pid_of(owner)})") is True
        assert (await waiting.error()).sqlstate == "57014"
    # Of others' sessions they see who they are.
    shown = f"select usename, query from pg_stat_activity where pid = {pid_of(owner)}"
    assert await (await connect(here, user="b")).rows(shown) == [("a", "<insufficient privilege>")]
    assert await (await connect(here, user="s")).rows(shown) == [("a", "select pg_sleep(30)")]


async def test_what_counts_sessions_counts_those_of_both(servers: tuple[Server, Server]) -> None:
    one, two = [await connect(server) for server in servers]
    await one.run("create database d")
    await one.run("create role r login connection limit 1")
    there = await connect(servers[1], database="d")
    error = await one.error("drop database d")
    assert (error.sqlstate, error.detail) == ("55006", "There is 1 other session using the database.")
    await there.session.close()
    ended = await connect(servers[1], database="d")
    dropping = Waiting(one, "drop database d with (force)")
    while not ended.terminated:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)
    await ended.session.close()
    await dropping.result()
    await connect(servers[1], user="r")
    with pytest.raises(Exception, match='too many connections for role "r"'):
        await connect(servers[0], user="r")
    assert await two.value("select count(*) from pg_stat_activity where usename = 'r'") == 1


async def test_long_answers_come_in_pieces(
    servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(questions, "PIECE_BYTES", 300)
    one, two = [await connect(server) for server in servers]
    text = f"select 'x' as {'y' * 60}, '{'z' * 800}'"
    await two.run(text)
    clients = [one, *[await connect(servers[0]) for _ in range(4)]]
    asked = [each.rows(f"select query from pg_stat_activity where pid = {pid_of(two)}") for each in clients]
    assert await asyncio.gather(*asked) == [[(text,)]] * 5


async def test_one_that_has_gone_and_one_that_comes(options: ServerOptions) -> None:
    first = await Server.open(options)
    second = await Server.open(options)
    one = await connect(first)
    assert await one.value("select count(*) from tidegate.sessions") == 1
    await first.close()
    two = await connect(second)
    assert await two.value("select count(*) from tidegate.sessions") == 1
    third = await Server.open(options)
    three = await connect(third)
    # It has the range of the one that has gone, and not that of the one that stays.
    assert pid_of(three) < SERVER_PIDS < pid_of(two)
    assert await two.value("select count(*) from tidegate.sessions") == 2
    await third.close()
    await second.close()


async def test_one_that_does_not_answer_is_not_waited_for_long(
    servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(questions, "ANSWER_S", 0.2)
    one, two = [await connect(server) for server in servers]
    assert servers[1].colleagues.servers is not None
    monkeypatch.setattr(servers[1].colleagues.servers, "_hear", lambda data: None)
    monkeypatch.setattr(servers[1].colleagues.servers._following, "_hand_on", lambda data: None)
    assert await one.rows("select pid from pg_stat_activity") == [(pid_of(one),)]
    assert await one.value(f"select pg_cancel_backend({pid_of(two)})") is False
