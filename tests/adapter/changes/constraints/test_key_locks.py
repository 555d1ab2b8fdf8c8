"""Who writes a key, or refers to one, waits for others who do, and goes on with what is there then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from planner.errors import SqlError
from tests.adapter.harness import Client, Waiting, blocked

Another = Callable[[], Awaitable[Client]]

LEVELS = ["read committed", "repeatable read", "serializable"]


@pytest.fixture
async def pair(client: Client, another: Another) -> tuple[Client, Client]:
    await client.run("create table t (k int primary key, v text); insert into t values (1, 'one')")
    await client.run("create table c (id int, k int references t on delete cascade)")
    await client.run("create table n (id int, k int references t)")
    return client, await another()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("end", "fails"), [("commit", True), ("rollback", False)])
async def test_a_second_insert_of_a_key_waits(pair: tuple[Client, Client], level: str, end: str, fails: bool) -> None:
    one, two = pair
    await one.run("begin; insert into t values (7, 'first')")
    waiting = await blocked(two, f"begin isolation level {level}; insert into t values (7, 'second')")
    await one.run(end)
    if fails:
        error = await waiting.error()
        assert (error.sqlstate, error.constraint) == ("23505", "t_pkey")
    else:
        await waiting.result()
        assert await two.tag("commit") == "COMMIT"
    assert await one.value("select count(*) from t where k = 7") == 1


async def test_a_single_insert_waits_and_fails(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; insert into t values (7, 'first')")
    waiting = await blocked(two, "insert into t values (7, 'second')")
    await one.run("commit")
    assert (await waiting.error()).sqlstate == "23505"


async def test_other_keys_do_not_wait(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; insert into t values (7, 'first')")
    assert not await Waiting(two, "insert into t values (8, 'second')").is_blocked()
    await one.run("commit")


async def test_a_key_that_somebody_is_deleting(pair: tuple[Client, Client]) -> None:
    one, two = pair
    for end, fails in (("rollback", True), ("commit", False)):
        await one.run("begin; delete from t where k = 1")
        waiting = await blocked(two, "insert into t values (1, 'again')")
        await one.run(end)
        if fails:
            assert (await waiting.error()).sqlstate == "23505"
        else:
            await waiting.result()
    assert await one.rows("select v from t") == [("again",)]


async def test_a_rolled_back_savepoint_lets_go_of_its_keys(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; savepoint s; insert into t values (7, 'first'); rollback to s")
    await two.run("insert into t values (7, 'second')")
    await one.run("commit")
    assert await one.value("select v from t where k = 7") == "second"


async def test_keys_and_rows_close_a_deadlock(pair: tuple[Client, Client]) -> None:
    one, two = pair
    for who in pair:
        await who.run("begin isolation level read committed; set local deadlock_timeout = '50ms'")
    await one.run("insert into t values (7, 'first')")
    await two.run("update t set v = 'x' where k = 1")
    first = await blocked(one, "update t set v = 'y' where k = 1")
    second = Waiting(two, "insert into t values (7, 'second')")
    outcomes = await asyncio.gather(first.result(), second.result(), return_exceptions=True)
    assert "40P01" in [outcome.sqlstate for outcome in outcomes if isinstance(outcome, SqlError)]


async def test_read_committed_commits_though_others_were_first(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin isolation level read committed; insert into t values (5, 'five')")
    await two.run("insert into t values (7, 'first')")
    assert (await one.error("insert into t values (7, 'second')")).sqlstate == "23505"
    await one.run("rollback; begin isolation level read committed; insert into t values (8, 'eight')")
    await two.run("delete from t where k = 7")
    await one.run("insert into t values (7, 'third')")
    assert await one.tag("commit") == "COMMIT"


@pytest.mark.parametrize("level", LEVELS)
async def test_do_nothing_waits(pair: tuple[Client, Client], level: str) -> None:
    one, two = pair
    await one.run("begin; insert into t values (7, 'first')")
    insert = "insert into t values (7, 'second') on conflict do nothing returning v"
    waiting = await blocked(two, f"begin isolation level {level}; {insert}")
    await one.run("commit")
    if level == "read committed":
        assert (await waiting.result())[1] == []
        assert await two.tag("commit") == "COMMIT"
    else:
        assert (await waiting.error()).sqlstate == "40001"


async def test_do_update_goes_on_with_the_newest_row(pair: tuple[Client, Client]) -> None:
    one, two = pair
    upsert = "insert into t values (7, 'c') on conflict (k) do update set v = t.v || excluded.v returning v"
    await one.run("begin; insert into t values (7, 'a')")
    waiting = await blocked(two, f"begin isolation level read committed; {upsert}")
    await one.run("commit")
    assert (await waiting.result())[1] == [("ac",)]
    third = await blocked(one, upsert)
    assert await two.tag("commit") == "COMMIT"
    assert await third.result() == [[("acc",)]]


async def test_an_upsert_counts_what_all_have_added(pair: tuple[Client, Client], another: Another) -> None:
    clients = [*pair, *[await another() for _ in range(4)]]
    await clients[0].run("create table counts (k int primary key, n int)")
    upsert = "insert into counts values ({}, 1) on conflict (k) do update set n = counts.n + 1"

    async def work(client: Client) -> None:
        for number in range(12):
            await client.run("begin isolation level read committed")
            await client.run(upsert.format(number % 3))
            assert await client.tag("commit") == "COMMIT"

    await asyncio.gather(*map(work, clients))
    assert await clients[0].rows("select k, n from counts order by k") == [(0, 24), (1, 24), (2, 24)]


async def test_a_parent_waits_for_its_child(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; insert into n values (1, 1)")
    update = Waiting(two, "update t set v = 'x' where k = 1")
    assert not await update.is_blocked()
    await update.result()
    waiting = await blocked(two, "begin isolation level read committed; delete from t where k = 1")
    await one.run("commit")
    assert (await waiting.error()).sqlstate == "23503"


@pytest.mark.parametrize(("end", "fails"), [("commit", True), ("rollback", False)])
async def test_a_child_waits_for_its_parent(pair: tuple[Client, Client], end: str, fails: bool) -> None:
    one, two = pair
    await one.run("begin; delete from t where k = 1")
    waiting = await blocked(two, "begin isolation level read committed; insert into n values (1, 1)")
    await one.run(end)
    if fails:
        assert (await waiting.error()).sqlstate == "23503"
    else:
        await waiting.result()
        assert await two.tag("commit") == "COMMIT"


async def test_a_cascade_takes_what_came_while_it_waited(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; insert into c values (1, 1), (2, 1)")
    waiting = await blocked(two, "begin isolation level read committed; delete from t where k = 1")
    await one.run("commit")
    await waiting.result()
    assert await two.tag("commit") == "COMMIT"
    assert await one.value("select count(*) from c") == 0


async def test_a_cascade_waits_for_the_rows_that_follow(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("insert into c values (1, 1)")
    await one.run("begin; update c set id = 2")
    waiting = await blocked(two, "begin isolation level read committed; delete from t where k = 1")
    await one.run("commit")
    await waiting.result()
    assert await two.tag("commit") == "COMMIT"
    assert await one.value("select count(*) from c") == 0


async def test_an_own_new_version_goes_only_if_nobody_refers_to_it(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; insert into n values (1, 1)")
    await two.run("begin isolation level read committed; update t set v = 'x' where k = 1")
    waiting = await blocked(two, "delete from t where k = 1")
    await one.run("rollback")
    await waiting.result()
    assert await two.tag("commit") == "COMMIT"


async def test_many_keys_are_locked_too(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; insert into t select g, 'x' from generate_series(10, 3000) g")
    waiting = await blocked(two, "insert into t select g, 'y' from generate_series(3000, 6000) g")
    await one.run("rollback")
    await waiting.result()
    assert await one.value("select count(*) from t") == 3002
