"""SELECT ... FOR UPDATE and its like between sessions: who waits, what the rows are, what the commit holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.adapter.harness import Client, Waiting, blocked

Another = Callable[[], Awaitable[Client]]

COMMITTED = "begin isolation level read committed"


@pytest.fixture
async def pair(client: Client, another: Another) -> tuple[Client, Client]:
    await client.run("create table t (k int primary key, v int)")
    await client.run("insert into t values (1, 10), (2, 20), (3, 30), (4, 40)")
    await client.run("create table u (k int, w text); insert into u values (1, 'a'), (2, 'b')")
    return client, await another()


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        ("for update", "for key share", True),
        ("for no key update", "for key share", False),
        ("for no key update", "for share", True),
        ("for share", "for share", False),
        ("for share", "for no key update", True),
        ("for key share", "for no key update", False),
        ("for key share", "for update", True),
    ],
)
async def test_modes(pair: tuple[Client, Client], first: str, second: str, waits: bool) -> None:
    one, two = pair
    await one.run(f"{COMMITTED}; select * from t where k = 1 {first}")
    waiting = Waiting(two, f"select v from t where k = 1 {second}")
    assert await waiting.is_blocked() is waits
    await one.run("commit")
    assert await waiting.result() == [[(10,)]]


@pytest.mark.parametrize(
    ("lock", "change", "waits"),
    [
        ("for key share", "update t set v = 0 where k = 1", False),
        ("for key share", "update t set k = 9 where k = 1", True),
        ("for key share", "delete from t where k = 1", True),
        ("for share", "update t set v = 0 where k = 1", True),
        ("for update", "update t set v = 0 where k = 2", False),
    ],
)
async def test_changes_wait_for_locked_rows(pair: tuple[Client, Client], lock: str, change: str, waits: bool) -> None:
    one, two = pair
    await one.run(f"begin; select * from t where k = 1 {lock}")
    waiting = Waiting(two, change)
    assert await waiting.is_blocked() is waits
    await one.run("commit")
    await waiting.result()


async def test_read_committed_goes_on_with_the_newest_version(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; update t set v = 11 where k = 1; delete from t where k = 2; update t set v = -1 where k = 3")
    waiting = await blocked(two, f"{COMMITTED}; select k, v + 1 from t where v > 0 order by v for update")
    await one.run("commit")
    assert (await waiting.result())[1] == [(1, 12), (4, 41)]
    third = await blocked(one, "delete from t where k = 1")
    await two.run("commit")
    await third.result()


async def test_an_update_that_numbers_rows_goes_on_with_their_newest_version(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("create sequence numbers")
    await one.run(f"{COMMITTED}; update t set v = -1 where k = 2; update t set v = 5 where k = 3")
    waiting = Waiting(two, "update t set v = 100 + nextval('numbers') where v > 0")
    assert await waiting.is_blocked()
    await one.run("commit")
    await waiting.result()
    assert await one.rows("select k from t where v > 100 order by k") == [(1,), (3,), (4,)]
    assert await one.rows("select count(distinct v) from t") == [(4,)]


async def test_limit_counts_the_rows_that_are_locked(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; delete from t where k in (1, 2)")
    waiting = await blocked(two, f"{COMMITTED}; select k from t order by k limit 1 for update")
    await one.run("commit")
    assert (await waiting.result())[1] == [(3,)]
    assert await one.rows("select k from t order by k for update skip locked") == [(4,)]


async def test_rows_keep_those_that_they_are_joined_with(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; update t set v = v + 1, k = case k when 2 then 7 else k end")
    joined = "select t.k, v, w from t left join u on u.k = t.k where v < 40 order by t.k for update of t"
    waiting = await blocked(two, f"{COMMITTED}; {joined}")
    await one.run("commit")
    # Row 2 fits its partner no longer; row 3 has none, as before.
    assert (await waiting.result())[1] == [(1, 11, "a"), (3, 31, None)]


async def test_several_rows_of_one_row_stay_several(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; update t set v = v + 1 where k = 1")
    waiting = await blocked(
        two, f"{COMMITTED}; select v, g from t, generate_series(1, 3) g where k < 3 for update of t"
    )
    await one.run("commit")
    assert sorted((await waiting.result())[1]) == [(11, 1), (11, 2), (11, 3), (20, 1), (20, 2), (20, 3)]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_levels_that_keep_their_snapshot(pair: tuple[Client, Client], level: str) -> None:
    one, two = pair
    await one.run("begin; update t set v = 11 where k = 1")
    waiting = await blocked(two, f"begin isolation level {level}; select * from t for update")
    await one.run("commit")
    error = await waiting.error()
    assert (error.sqlstate, error.message) == ("40001", "could not serialize access due to concurrent update")


async def test_single_statements_begin_again(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; update t set v = 11 where k = 1")
    waiting = await blocked(two, "select v from t where k = 1 for update")
    await one.run("commit")
    assert await waiting.result() == [[(11,)]]


async def test_nowait(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; select * from t where k = 2 for update")
    error = await two.error("select * from t for share nowait")
    assert (error.sqlstate, error.message) == ("55P03", 'could not obtain lock on row in relation "t"')
    assert await two.rows("select k from t where k <> 2 order by k for share nowait") == [(1,), (3,), (4,)]


async def test_a_queue_of_jobs(pair: tuple[Client, Client], another: Another) -> None:
    clients = [*pair, await another(), await another()]
    await clients[0].run("create table jobs (id int primary key, done bool default false)")
    await clients[0].run("insert into jobs select g from generate_series(1, 40) g")
    take = (
        "update jobs set done = true where id = "
        "(select id from jobs where not done order by id limit 1 for update skip locked) returning id"
    )

    async def work(client: Client) -> list[int]:
        taken = []
        while rows := (await client.run(f"{COMMITTED}; {take}"))[1]:
            taken += [id for (id,) in rows]
            await asyncio.sleep(0)
            await client.run("commit")
        await client.run("commit")
        return taken

    taken = [id for ids in await asyncio.gather(*map(work, clients)) for id in ids]
    assert sorted(taken) == list(range(1, 41))


async def test_a_cursor_locks_the_rows_that_are_fetched(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run(f"{COMMITTED}; declare c cursor for select k from t order by k for update")
    assert await one.rows("fetch 2 from c") == [(1,), (2,)]
    assert await two.rows("select k from t order by k for update skip locked") == [(3,), (4,)]


async def test_locks_end_with_the_savepoint(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run(f"{COMMITTED}; savepoint s; select * from t for update; rollback to s")
    assert await two.value("select count(*) from (select 1 from t for update nowait) q") == 4


async def test_views_and_subqueries_lock_their_tables(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("create view big as select k as id from t where v > 20")
    await one.run("begin; select * from (select * from big) q where id > 3 for update")
    assert await two.rows("select k from t order by k for update skip locked") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
async def test_locked_rows_hold_against_other_servers(
    pair: tuple[Client, Client], stranger: Another, level: str
) -> None:
    one, two = pair[0], await stranger()
    await one.run(f"begin isolation level {level}; select * from t where k = 1 for share")
    await two.run("update t set v = 0 where k = 1")
    await one.run("insert into u values (5, 'e')")
    assert (await one.error("commit")).sqlstate == "40001"
    await one.run(f"begin isolation level {level}; select * from t where k = 1 for share")
    await two.run("update t set v = 0 where k = 2; insert into t values (9, 9)")
    await one.run("insert into u values (5, 'e')")
    assert await one.tag("commit") == "COMMIT"


async def test_explain_locks_nothing(pair: tuple[Client, Client]) -> None:
    one, two = pair
    _, plan = await one.run("begin; explain select * from t order by k limit 1 for update")
    assert plan[0][0].startswith("Limit")
    assert len(await two.rows("select * from t for update nowait")) == 4
