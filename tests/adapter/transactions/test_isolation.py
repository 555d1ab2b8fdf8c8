"""What transactions may see of each other, and which of two that cannot both happen fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from planner.errors import SqlError
from tests.adapter.harness import Client, blocked

Another = Callable[[], Awaitable[Client]]


@pytest.fixture
async def pair(client: Client, another: Another) -> tuple[Client, Client]:
    await client.run("create table t (k int, v int); insert into t values (1, 10), (2, 20)")
    return client, await another()


async def test_a_snapshot_stays(pair: tuple[Client, Client]) -> None:
    one, two = pair
    for level in ("serializable", "repeatable read"):
        await one.run(f"begin isolation level {level}")
        before = await one.value("select sum(v) from t")
        await two.run("update t set v = v + 1")
        assert await one.value("select sum(v) from t") == before
        await one.run("commit")


async def test_read_committed_sees_each_commit(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin isolation level read committed")
    assert await one.value("select sum(v) from t") == 30
    await two.run("update t set v = v + 1")
    assert await one.value("select sum(v) from t") == 32
    await one.run("commit")


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
async def test_lost_update(pair: tuple[Client, Client], level: str) -> None:
    one, two = pair
    for who in pair:
        await who.run(f"begin isolation level {level}")
        await who.rows("select v from t where k = 1")
    await one.run("update t set v = 11 where k = 1; commit")
    assert (await two.error("update t set v = 12 where k = 1")).sqlstate == "40001"
    assert two.status == "E"
    assert await two.tag("commit") == "ROLLBACK"
    assert await two.value("select v from t where k = 1") == 11


async def test_write_skew_is_refused_when_serializable(pair: tuple[Client, Client]) -> None:
    one, two = pair
    for who in pair:
        await who.run("begin")
        assert await who.value("select sum(v) from t") == 30
    await one.run("update t set v = 0 where k = 1")
    await two.run("update t set v = 0 where k = 2")
    await one.run("commit")
    assert (await two.error("commit")).sqlstate == "40001"


async def test_write_skew_is_allowed_by_repeatable_read(pair: tuple[Client, Client]) -> None:
    one, two = pair
    for who in pair:
        await who.run("begin isolation level repeatable read")
        await who.value("select sum(v) from t")
    await one.run("update t set v = 0 where k = 1; commit")
    await two.run("update t set v = 0 where k = 2; commit")
    assert await one.value("select sum(v) from t") == 0


async def test_transactions_on_different_rows_do_not_disturb_each_other(pair: tuple[Client, Client]) -> None:
    one, two = pair
    for who, key in ((one, 1), (two, 2)):
        await who.run("begin")
        await who.rows(f"select v from t where k = {key}")
        await who.run(f"update t set v = v + 100 where k = {key}")
    await one.run("commit")
    await two.run("commit")
    assert await one.rows("select v from t order by k") == [(110,), (120,)]


async def test_phantoms_are_refused(pair: tuple[Client, Client]) -> None:
    one, two = pair
    for who in pair:
        await who.run("begin")
        assert await who.value("select count(*) from t where v > 1000") == 0
    await one.run("insert into t values (3, 5000); commit")
    await two.run("insert into t values (4, 6000)")
    assert (await two.error("commit")).sqlstate == "40001"


async def test_a_reader_never_fails(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin")
    await one.rows("select * from t")
    await two.run("update t set v = 0")
    assert await one.tag("commit") == "COMMIT"


async def test_for_update_counts_at_every_level(pair: tuple[Client, Client], stranger: Another) -> None:
    one, two = pair
    await one.run("begin isolation level repeatable read")
    await one.rows("select v from t where k = 1 for update")
    waiting = await blocked(two, "update t set v = 99 where k = 1")
    await one.run("insert into t values (9, 9)")
    assert await one.tag("commit") == "COMMIT"
    await waiting.result()
    await one.run("begin isolation level repeatable read")
    await one.rows("select v from t where k = 1 for update")
    await (await stranger()).run("update t set v = 98 where k = 1")
    await one.run("insert into t values (10, 10)")
    assert (await one.error("commit")).sqlstate == "40001"


async def test_single_statements_are_retried(pair: tuple[Client, Client], another: Another) -> None:
    clients = [*pair, *[await another() for _ in range(4)]]

    async def work(client: Client) -> None:
        for _ in range(5):
            await client.run("update t set v = v + 1 where k = 1")

    await asyncio.gather(*(work(client) for client in clients))
    assert await pair[0].value("select v from t where k = 1") == 10 + 5 * len(clients)


async def test_inserts_never_conflict(pair: tuple[Client, Client], another: Another) -> None:
    clients = [*pair, *[await another() for _ in range(6)]]

    async def work(number: int, client: Client) -> None:
        await client.run("begin")
        for index in range(5):
            await client.run(f"insert into t values ({number}, {index})")
        await client.run("commit")

    await asyncio.gather(*(work(number, client) for number, client in enumerate(clients)))
    assert await pair[0].value("select count(*) from t") == 2 + 5 * len(clients)


async def test_ddl_against_dml_of_another_server(pair: tuple[Client, Client], stranger: Another) -> None:
    one, two = pair[0], await stranger()
    await one.run("begin; insert into t values (5, 5)")
    await two.run("alter table t add column w int")
    with pytest.raises(SqlError) as caught:
        await one.run("commit")
    assert caught.value.sqlstate == "40001"
    await one.run("insert into t values (5, 5, 5)")
    assert await one.value("select count(*) from t where w is not null") == 1


async def test_ddl_waits_for_dml(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; insert into t values (5, 5)")
    waiting = await blocked(two, "alter table t add column w int")
    await one.run("commit")
    await waiting.result()
    await one.run("insert into t values (5, 5, 5)")
    assert await one.value("select count(*) from t where w is not null") == 1
    assert await one.value("select count(*) from t where k = 5") == 2


async def test_concurrent_create_tables_in_blocks(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; create table one (a int)")
    await two.run("begin; create table two (a int)")
    await one.run("commit")
    await two.run("commit")
    assert await one.rows("select * from one, two") == []


async def test_a_view_over_a_table_that_goes_on_another_server(pair: tuple[Client, Client], stranger: Another) -> None:
    one, two = pair[0], await stranger()
    await one.run("begin; create view w as select k from t")
    await two.run("drop table t")
    assert (await one.error("commit")).sqlstate == "40001"


async def test_a_view_keeps_its_table(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; create view w as select k from t")
    waiting = await blocked(two, "drop table t")
    await one.run("commit")
    assert (await waiting.error()).sqlstate == "2BP01"
    assert await two.value("select sum(k) from w") == 3


async def test_a_block_moves_on_when_nothing_that_it_read_has_changed(
    pair: tuple[Client, Client], another: Another
) -> None:
    one, two = pair
    await one.run("create table hot (id int primary key, n int); insert into hot values (1, 0)")
    clients = [one, two, *[await another() for _ in range(4)]]

    async def work(number: int, client: Client) -> None:
        for _ in range(5):
            await client.run("begin isolation level serializable")
            await client.run(f"insert into t values ({number + 10}, 0)")
            assert await client.value("select count(*) from t where k = 999") == 0
            await client.run("update hot set n = n + 1 where id = 1")
            assert await client.tag("commit") == "COMMIT"

    await asyncio.gather(*(work(number, client) for number, client in enumerate(clients)))
    assert await one.value("select n from hot") == 30
    assert await one.value("select count(*) from t where v = 0") == 30


async def test_a_block_that_has_read_what_changed_fails(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("create table hot (id int primary key, n int); insert into hot values (1, 0)")
    reads = ("select * from t where k = 1", "select n from hot", "select pg_current_snapshot()", "select 1 from t")
    for read in reads:
        await two.run("begin isolation level serializable")
        await two.rows(read)
        await one.run("begin; update hot set n = n + 1 where id = 1; update t set v = v + 1 where k = 1")
        waiting = await blocked(two, "update hot set n = n + 10 where id = 1")
        await one.run("commit")
        assert (await waiting.error()).sqlstate == "40001", read
        await two.run("rollback")
    await two.run("begin isolation level repeatable read; select 1 from t where k = 5")
    await one.run("update hot set n = n + 1 where id = 1")
    assert (await two.error("update hot set n = n + 10 where id = 1")).sqlstate == "40001"
    await two.run("rollback; begin isolation level serializable; select 1 from t where k = 5; savepoint s")
    await two.run("update t set v = 0 where k = 2")
    await one.run("update hot set n = n + 1 where id = 1; update t set v = 7 where k = 1")
    await two.run("update hot set n = n + 10 where id = 1")
    # At the newer snapshot, what was not read before is as of then.
    assert await two.rows("select k, v from t order by k") == [(1, 7), (2, 0)]
    await one.run("insert into t values (5, 5)")
    assert (await two.error("commit")).sqlstate == "40001"


AFTER_A_DEFINITION = [
    ("alter table u alter b set statistics 100", "alter table u alter b set statistics 200", "ALTER TABLE", None),
    ("insert into u values (2, 2)", "select count(*) from u", "[(2,)]", None),
    ("create table v (a int)", "select count(*) from v", "[(0,)]", None),
    ("update u set b = 5", "update u set b = b + 1", "UPDATE 1", [(1, 6)]),
    ("update u set b = 5", "select b from u for update", "[(5,)]", None),
    (
        "insert into u values (2, 2)",
        "insert into u values (2, 3) on conflict (a) do update set b = 9",
        "INSERT 0 1",
        None,
    ),
    ("alter table u add c int default 3", "alter table u add d int", "ALTER TABLE", [(1, 1, 3, None)]),
    ("alter table u add c int default 3", "insert into u values (2, 2)", "INSERT 0 1", [(1, 1, 3), (2, 2, 3)]),
    ("insert into u values (3, 3)", "truncate u", "TRUNCATE TABLE", []),
    ("insert into u values (3, 3)", "alter table t add foreign key (k) references u", "23503", None),
    ("insert into u values (3, 1)", "create unique index on u (b)", "23505", None),
    ("create view w as select * from u", "drop table u", "2BP01", None),
    ("drop table u", "select * from u", "42P01", None),
]
"""What another session does beside a block that has defined something, what the block does then, and what PostgreSQL
answers; what is in the table in the end, where that tells more."""


@pytest.mark.parametrize("waits", [False, True], ids=["before", "waiting"])
@pytest.mark.parametrize(("theirs", "text", "wanted", "left"), AFTER_A_DEFINITION)
async def test_read_committed_sees_each_commit_after_definitions_of_its_own(
    pair: tuple[Client, Client], theirs: str, text: str, wanted: str, left: list[object] | None, waits: bool
) -> None:
    one, two = pair
    await one.run("create table u (a int primary key, b int); insert into u values (1, 1)")
    await one.run("begin isolation level read committed; alter table t add w int; savepoint s; create table x ()")
    if waits:
        await two.run(f"begin isolation level read committed; {theirs}")
    else:
        await two.run(theirs)
    await one.run("rollback to s")

    async def outcome() -> str:
        try:
            return str((await one.run(text))[0])
        except SqlError as error:
            return error.sqlstate

    waiting = asyncio.ensure_future(outcome())
    if waits:
        await asyncio.sleep(0.05)
        if waiting.done() and theirs.startswith(("insert", "create")):
            # Rows and tables of who has not committed are not there, and are not waited for.
            await two.run("rollback")
            await one.run("rollback")
            return
        await two.run("commit")
    assert await waiting == wanted
    if one.status == "T":
        await one.run("commit")
        if left is not None:
            assert await one.rows("select * from u order by a") == left
    assert one.status == ("E" if wanted[0].isdigit() else "I")


async def test_definitions_of_a_block_that_begins_again_are_those_of_now(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await two.run("begin; alter table t add w int default 7")
    await one.run("begin isolation level read committed")
    waiting = asyncio.ensure_future(one.run("lock table t in share mode"))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await two.run("commit")
    await waiting
    await one.run("insert into t values (3, 30); commit")
    assert await one.rows("select w from t") == [(7,)] * 3


@pytest.mark.parametrize(
    "theirs",
    [
        "alter table t alter v set statistics 100",
        "alter table t alter v set (n_distinct = 5)",
        "alter schema public owner to current_user",
    ],
)
@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
async def test_what_does_not_matter_to_rows_fails_nobody(pair: tuple[Client, Client], level: str, theirs: str) -> None:
    one, two = pair
    await one.run(f"begin isolation level {level}; select 1 from pg_class; create type shade as enum ('dark')")
    await two.run(theirs)
    await one.run("update t set v = 0 where k = 1; select * from t; commit")
    assert await two.value("select sum(v) from t") == 20
