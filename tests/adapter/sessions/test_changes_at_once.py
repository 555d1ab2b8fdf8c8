"""Changes that several sessions ask for at the same time are carried out together, or each alone when one is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from adapter.sessions.changes_at_once import ChangeAtOnce
from adapter.sessions.server import Server
from planner.errors import SqlError
from tests.adapter.harness import Client, connect, open_server

SESSIONS = 12

SETUP = (
    "create table parent (id int primary key)",
    "insert into parent values (1), (2)",
    """create table t (
        id int primary key, n int not null check (n < 1000), label text default 'none', parent int references parent
    )""",
    "create table u (id serial primary key, n int)",
    "create table plain (a int, b text)",
)


class Place:
    """A server and sessions of it."""

    def __init__(self, server: Server, clients: list[Client]) -> None:
        self.server = server
        self.clients = clients

    @property
    def commits(self) -> int:
        """Transactions that have committed."""
        return self.server.services.committer.committed


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with open_server() as server:
        clients = [await connect(server) for _ in range(SESSIONS)]
        for text in SETUP:
            await clients[0].run(text)
        yield Place(server, clients)


async def sent(client: Client, text: str) -> str:
    """What becomes of a statement that a connection sends: its tag, or SQLSTATE and message."""
    try:
        found = client.session.text_at_once(text)
        if found is not None and isinstance(found[0], ChangeAtOnce):
            tag = await found[0].tag(found[1])
            if tag is not None:
                return tag
        return str((await client.run(text))[0])
    except SqlError as error:
        return f"{error.sqlstate} {error}"


async def together(clients: Sequence[Client], texts: Sequence[str]) -> list[str]:
    """What becomes of statements that are sent at the same time."""
    return await asyncio.gather(*(sent(client, text) for client, text in zip(clients, texts, strict=True)))


async def test_they_commit_at_once(place: Place) -> None:
    before = place.commits
    answers = await together(place.clients, [f"insert into t values ({n}, {n * n})" for n in range(SESSIONS)])
    assert answers == ["INSERT 0 1"] * SESSIONS
    # The first one runs alone, the others together.
    assert place.commits - before == 2
    rows = await place.clients[0].rows("select id, n, label from t order by id")
    assert rows == [(n, n * n, "none") for n in range(SESSIONS)]


async def test_rows_of_several_are_counted_for_each(place: Place) -> None:
    answers = await together(
        place.clients, [f"insert into plain values ({n}, 'a'), ({n}, null)" for n in range(SESSIONS)]
    )
    assert answers == ["INSERT 0 2"] * SESSIONS
    assert await place.clients[0].rows("select count(*), count(b), sum(a) from plain") == [(24, 12, 132)]


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        ("insert into t values (3, 1)", '23505 duplicate key value violates unique constraint "t_pkey"'),
        (
            "insert into t values (50, null)",
            '23502 null value in column "n" of relation "t" violates not-null constraint',
        ),
        ("insert into t values (50, 1000)", '23514 new row for relation "t" violates check constraint "t_n_check"'),
        ("insert into t values (50, 3000000000)", "22003 integer out of range"),
        (
            "insert into t values (50, 1, 'x', 3)",
            '23503 insert or update on table "t" violates foreign key constraint "t_parent_fkey"',
        ),
    ],
)
async def test_only_what_is_wrong_fails(place: Place, wrong: str, answer: str) -> None:
    given = wrong.count(",")
    texts = [
        f"insert into t values ({n}, 1)" if given == 1 else f"insert into t values ({n}, 1, 'y', 2)"
        for n in range(SESSIONS - 1)
    ]
    answers = await together(place.clients, [*texts, wrong])
    assert answers == [*["INSERT 0 1"] * (SESSIONS - 1), answer]
    assert await place.clients[0].value("select count(*) from t") == SESSIONS - 1
    # And again, while the statement is left alone, and afterwards.
    for n in range(20, 180, 20):
        texts = [f"insert into t values ({100 * n + k}, 1)" for k in range(SESSIONS)]
        assert await together(place.clients, texts) == ["INSERT 0 1"] * SESSIONS


async def test_each_of_two_with_one_key(place: Place) -> None:
    texts = [f"insert into t values ({n // 2}, {n})" for n in range(SESSIONS)]
    answers = await together(place.clients, texts)
    assert answers.count("INSERT 0 1") == SESSIONS // 2
    assert await place.clients[0].rows("select count(*), sum(id) from t") == [(6, 15)]


async def test_who_waits_for_a_lock_holds_nobody_up(place: Place) -> None:
    holder, waiter, *others = place.clients
    await holder.run("begin; insert into t values (1, 1)")
    # First in line, and in the middle of it.
    for first in (True, False):
        texts = [f"insert into t values ({(100 if first else 200) + n}, 1)" for n in range(len(others))]
        waiting = asyncio.ensure_future(sent(waiter, "insert into t values (1, 2)")) if first else None
        await asyncio.sleep(0)
        task = asyncio.ensure_future(together(others, texts))
        if not first:
            waiting = asyncio.ensure_future(sent(waiter, "insert into t values (1, 2)"))
        assert await asyncio.wait_for(task, 10) == ["INSERT 0 1"] * len(others)
        assert waiting is not None
        await asyncio.sleep(0.05)
        assert not waiting.done()
        if first:
            waiter.session.cancel()
            assert await waiting == "57014 canceling statement due to user request"
    assert waiting is not None
    await holder.run("rollback")
    assert await asyncio.wait_for(waiting, 10) == "INSERT 0 1"


async def test_a_locked_table_is_waited_for(place: Place) -> None:
    holder, *others = place.clients
    await holder.run("begin; lock table t in share mode")
    task = asyncio.ensure_future(together(others, [f"insert into t values ({n}, 1)" for n in range(len(others))]))
    await asyncio.sleep(0.05)
    assert not task.done()
    assert await holder.value("select count(*) from t") == 0
    await holder.run("commit")
    assert await asyncio.wait_for(task, 10) == ["INSERT 0 1"] * len(others)


async def test_one_that_is_cancelled_is_not_there(place: Place) -> None:
    leader, canceled, *others = place.clients
    tasks = [
        asyncio.ensure_future(sent(client, f"insert into t values ({n}, 1)"))
        for n, client in enumerate([leader, canceled, *others])
    ]
    await asyncio.sleep(0)
    canceled.session.cancel()
    answers = [await asyncio.wait_for(task, 10) for task in tasks]
    assert answers[1] == "57014 canceling statement due to user request"
    assert answers[:1] + answers[2:] == ["INSERT 0 1"] * (SESSIONS - 1)
    assert await leader.rows("select count(*), min(id) filter (where id = 1) from t") == [(SESSIONS - 1, None)]


async def test_a_session_that_ends_takes_nobody_along(place: Place) -> None:
    tasks = [
        asyncio.ensure_future(sent(client, f"insert into t values ({n}, 1)")) for n, client in enumerate(place.clients)
    ]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[1].cancel()
    answers = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
    assert answers[2:] == ["INSERT 0 1"] * (SESSIONS - 2)
    there = await place.clients[5].value("select count(*) from t")
    assert there >= SESSIONS - 2
    assert await sent(place.clients[3], "insert into t values (100, 1)") == "INSERT 0 1"


async def test_numbers_are_each_sessions_own(place: Place) -> None:
    for _ in range(3):
        answers = await together(place.clients, [f"insert into u (n) values ({n})" for n in range(SESSIONS)])
        assert answers == ["INSERT 0 1"] * SESSIONS
    for n, client in enumerate(place.clients):
        own = await client.value("select lastval()")
        assert await client.value(f"select max(id) from u where n = {n}") == own
        assert await client.value("select currval('u_id_seq')") == own


async def test_settings_that_differ_are_not_mixed(place: Place) -> None:
    one, *others = place.clients
    await one.run("set default_transaction_isolation = 'read committed'; set timezone = 'Asia/Tokyo'")
    await one.run("create table moments (id int, at timestamptz)")
    texts = [f"insert into moments values ({n}, '2024-01-01 00:00')" for n in range(SESSIONS)]
    assert await together([one, *others], texts) == ["INSERT 0 1"] * SESSIONS
    rows = await others[0].rows("select id, at at time zone 'UTC' = '2023-12-31 15:00' from moments order by id")
    assert [shifted for _, shifted in rows] == [True] + [False] * (SESSIONS - 1)


async def test_roles_are_not_mixed(place: Place) -> None:
    one, two, *others = place.clients
    await one.run("create role eve; grant insert (a) on plain to eve")
    await two.run("set role eve")
    answers = await together([one, two, *others], ["insert into plain values (1, 'x')"] * SESSIONS)
    assert answers[1] == "42501 permission denied for table plain"
    assert answers[:1] + answers[2:] == ["INSERT 0 1"] * (SESSIONS - 1)
    assert await one.value("select count(*) from plain") == SESSIONS - 1


async def test_they_see_definitions_change(place: Place) -> None:
    definer, *others = place.clients
    tasks = [
        asyncio.ensure_future(sent(client, f"insert into plain values ({n}, 'x')")) for n, client in enumerate(others)
    ]
    await asyncio.sleep(0)
    await definer.run("alter table plain add column c int default 7")
    assert {await task for task in tasks} == {"INSERT 0 1"}
    assert await definer.rows("select count(*), count(c) from plain") == [(SESSIONS - 1, SESSIONS - 1)]
    answers = await together(others, [f"insert into plain values ({n}, 'x', 8)" for n in range(len(others))])
    assert set(answers) == {"INSERT 0 1"}


async def test_deferred_constraints_are_checked_for_each(place: Place) -> None:
    await place.clients[0].run(
        "create table d (id int unique deferrable initially deferred,"
        " p int references parent deferrable initially deferred)"
    )
    texts = [f"insert into d values ({n}, 1)" for n in range(SESSIONS - 2)]
    answers = await together(place.clients, [*texts, "insert into d values (0, 1)", "insert into d values (90, 9)"])
    assert answers[-1].startswith("23503")
    assert sorted(answers[:-1])[:1] == ['23505 duplicate key value violates unique constraint "d_id_key"']
    assert await place.clients[0].value("select count(*) from d") == SESSIONS - 2


async def test_what_waits_is_active(place: Place) -> None:
    holder, *others = place.clients
    await holder.run("begin; lock table t in share mode")
    task = asyncio.ensure_future(together(others, [f"insert into t values ({n}, 1)" for n in range(len(others))]))
    await asyncio.sleep(0.05)
    active = "select count(*) from pg_stat_activity where state = 'active' and query like 'insert into t values (%'"
    assert await holder.value(active) == len(others)
    await holder.run("commit")
    await task
