"""Changes that several sessions ask for at the same time are carried out together, or each alone when one is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from adapter.sessions.changes_at_once import PAUSE, ChangeAtOnce
from adapter.sessions.server import Server
from planner.errors import SqlError
from tests.adapter.harness import Client, connect, open_server
from tests.support.python_calls import CountedCalls

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


# ---------------------------------------------------------------- UPDATE and DELETE


@pytest.fixture
async def filled(place: Place) -> Place:
    await place.clients[0].run("insert into t select g, g, 'l' || g from generate_series(0, 99) g")
    return place


async def test_updates_commit_at_once(filled: Place) -> None:
    before = filled.commits
    answers = await together(filled.clients, [f"update t set n = n + {n} where id = {n}" for n in range(SESSIONS)])
    assert answers == ["UPDATE 1"] * SESSIONS
    assert filled.commits - before == 2
    rows = await filled.clients[0].rows(f"select id, n, label from t where id < {SESSIONS} order by id")
    assert rows == [(n, 2 * n, f"l{n}") for n in range(SESSIONS)]


async def test_one_row_is_changed_by_one_after_the_other(filled: Place) -> None:
    before = filled.commits
    answers = await together(filled.clients, ["update t set n = n + 1, label = label || 'x' where id = 7"] * SESSIONS)
    assert answers == ["UPDATE 1"] * SESSIONS
    assert filled.commits - before == 2
    assert await filled.clients[0].rows("select n, label from t where id = 7") == [
        (7 + SESSIONS, "l7" + "x" * SESSIONS)
    ]


async def test_each_is_told_of_its_own_rows(filled: Place) -> None:
    texts = [f"update t set n = 5 where id = {(n, n + 1000)[n % 2]}" for n in range(SESSIONS)]
    assert await together(filled.clients, texts) == ["UPDATE 1", "UPDATE 0"] * (SESSIONS // 2)
    texts = [f"delete from t where id = {n // 2}" for n in range(SESSIONS)]
    answers = await together(filled.clients, texts)
    assert sorted(answers) == ["DELETE 0"] * (SESSIONS // 2) + ["DELETE 1"] * (SESSIONS // 2)
    assert await filled.clients[0].value("select count(*) from t") == 100 - SESSIONS // 2


async def test_conditions_hold_for_what_others_have_made_of_a_row(filled: Place) -> None:
    answers = await together(filled.clients, ["update t set n = n + 1 where id = 3 and n < 8"] * SESSIONS)
    assert sorted(answers) == ["UPDATE 0"] * (SESSIONS - 5) + ["UPDATE 1"] * 5
    assert await filled.clients[0].value("select n from t where id = 3") == 8


async def test_keys_that_change(filled: Place) -> None:
    answers = await together(filled.clients, [f"update t set id = {200 + n} where id = {n}" for n in range(SESSIONS)])
    assert answers == ["UPDATE 1"] * SESSIONS
    answers = await together(filled.clients, [f"update t set id = {300 + n} where id = 200" for n in range(SESSIONS)])
    assert sorted(answers) == ["UPDATE 0"] * (SESSIONS - 1) + ["UPDATE 1"]
    answers = await together(filled.clients, [f"update t set id = 99 where id = {20 + n}" for n in range(SESSIONS)])
    assert answers == ['23505 duplicate key value violates unique constraint "t_pkey"'] * SESSIONS


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        ("update t set n = 1000 where id = 5", '23514 new row for relation "t" violates check constraint "t_n_check"'),
        ("update t set n = 3000000000 where id = 5", "22003 integer out of range"),
        (
            "update t set n = null where id = 5",
            '23502 null value in column "n" of relation "t" violates not-null constraint',
        ),
    ],
)
async def test_only_the_wrong_update_fails(filled: Place, wrong: str, answer: str) -> None:
    texts = [f"update t set n = {n + 1} where id = {n}" for n in range(20, 20 + SESSIONS - 1)]
    assert await together(filled.clients, [*texts, wrong]) == ["UPDATE 1"] * (SESSIONS - 1) + [answer]
    rows = await filled.clients[0].rows("select id, n from t where id between 20 and 30 order by id")
    assert rows == [(n, n + 1) for n in range(20, 20 + SESSIONS - 1)]


async def test_parents_are_deleted_with_what_refers_to_them(place: Place) -> None:
    one = place.clients[0]
    await one.run("create table child (id int primary key, p int references parent on delete cascade)")
    await one.run("insert into parent select g from generate_series(10, 40) g")
    await one.run("insert into child select g, g from generate_series(10, 40) g")
    await one.run("insert into t values (1, 1, 'x', 15)")
    answers = await together(place.clients, [f"delete from parent where id = {10 + n}" for n in range(SESSIONS)])
    assert answers[5].startswith("23503")
    assert answers[:5] + answers[6:] == ["DELETE 1"] * (SESSIONS - 1)
    assert await one.rows("select count(*), min(p) filter (where p < 22) from child") == [(20, 15)]


async def test_who_waits_for_a_row_holds_nobody_up(filled: Place) -> None:
    holder, waiter, *others = filled.clients
    await holder.run("begin; update t set n = 0 where id = 50")
    waiting = asyncio.ensure_future(sent(waiter, "update t set n = n + 1 where id = 50"))
    texts = [f"update t set n = n + 1 where id = {n}" for n in range(len(others))]
    assert await asyncio.wait_for(together(others, texts), 10) == ["UPDATE 1"] * len(others)
    assert not waiting.done()
    await holder.run("commit")
    assert await asyncio.wait_for(waiting, 10) == "UPDATE 1"
    assert await holder.value("select n from t where id = 50") == 1


async def test_dates_and_texts_go_through_several_changes(place: Place) -> None:
    one = place.clients[0]
    await one.run(
        "create table v (id int primary key, d date, at timestamp, s text, n numeric(10, 2), f float8, b boolean,"
        " u uuid)"
    )
    await one.run(
        "insert into v values (1, '2024-02-28', '2024-01-01 10:00', 'é', 1.50, 0.1, true,"
        " '00000000-0000-0000-0000-000000000001'), (2, null, null, null, null, null, null, null)"
    )
    text = "update v set n = n + 1, s = s || 'ß' where id = {}"
    answers = await together(place.clients, [text.format(1 + n % 2) for n in range(SESSIONS)])
    assert answers == ["UPDATE 1"] * SESSIONS
    rows = await one.rows("select id, d::text, at::text, s, n::text, f, b, u::text from v order by id")
    assert rows == [
        (
            1,
            "2024-02-28",
            "2024-01-01 10:00:00",
            "é" + "ß" * 6,
            "7.50",
            0.1,
            True,
            "00000000-0000-0000-0000-000000000001",
        ),
        (2, None, None, None, None, None, None, None),
    ]


async def test_blocks_and_statements_of_their_own(filled: Place) -> None:
    """Random transfers, half of them in blocks: sums are kept, and no client sees 40001 outside of a block."""

    async def transfers(client: Client, number: int) -> None:
        for step in range(20):
            row = (number * 7 + step * 3) % 10
            if number % 2:
                await client.run("begin isolation level read committed")
                await client.run(f"update t set n = n + 1 where id = {row}")
                await client.run("commit")
            else:
                assert await sent(client, f"update t set n = n + 1 where id = {row}") == "UPDATE 1"

    await asyncio.wait_for(asyncio.gather(*(transfers(c, n) for n, c in enumerate(filled.clients))), 60)
    assert await filled.clients[0].value("select sum(n) from t where id < 10") == 45 + SESSIONS * 20


# ---------------------------------------------------------------- INSERT ... ON CONFLICT


async def test_upserts_commit_at_once(filled: Place) -> None:
    before = filled.commits
    text = "insert into t values ({}, 5, 'new') on conflict (id) do update set n = t.n + excluded.n + 1"
    keys = [n if n % 2 else 200 + n for n in range(SESSIONS)]
    answers = await together(filled.clients, [text.format(key) for key in keys])
    assert answers == ["INSERT 0 1"] * SESSIONS
    assert filled.commits - before == 2
    rows = await filled.clients[0].rows("select id, n, label from t where id = any(array[1, 3, 200, 202]) order by id")
    assert rows == [(1, 7, "l1"), (3, 9, "l3"), (200, 5, "new"), (202, 5, "new")]


async def test_upserts_of_one_key_come_after_each_other(filled: Place) -> None:
    text = "insert into t values (7, 1, 'new') on conflict (id) do update set n = t.n + 1, label = t.label || 'x'"
    assert await together(filled.clients, [text] * SESSIONS) == ["INSERT 0 1"] * SESSIONS
    assert await filled.clients[0].rows("select n, label from t where id = 7") == [
        (7 + SESSIONS, "l7" + "x" * SESSIONS)
    ]


async def test_parameters_of_do_update_are_each_ones_own(filled: Place) -> None:
    text = "insert into t values ({0}, 1) on conflict (id) do update set n = t.n + {1} where t.n < {2}"
    answers = await together(filled.clients, [text.format(n, n % 3, 4 + n % 2 * 100) for n in range(SESSIONS)])
    assert answers == ["INSERT 0 1" if n % 2 or n < 4 else "INSERT 0 0" for n in range(SESSIONS)]
    rows = await filled.clients[0].rows(f"select id, n from t where id < {SESSIONS} order by id")
    assert rows == [(n, n + n % 3 if n % 2 or n < 4 else n) for n in range(SESSIONS)]


async def test_do_nothing_says_whose_row_is_new(filled: Place) -> None:
    keys = [n if n % 3 else 300 + n for n in range(SESSIONS)]
    answers = await together(filled.clients, [f"insert into t values ({n}, 1) on conflict do nothing" for n in keys])
    assert answers == ["INSERT 0 0" if n % 3 else "INSERT 0 1" for n in range(SESSIONS)]
    answers = await together(filled.clients, ["insert into t values (400, 1) on conflict do nothing"] * SESSIONS)
    assert sorted(answers) == ["INSERT 0 0"] * (SESSIONS - 1) + ["INSERT 0 1"]


@pytest.mark.parametrize(
    "key",
    [
        "unique (a)",
        "unique nulls not distinct (a)",
        "unique (a, b)",
        "exclude using gist (a with =)",
    ],
)
async def test_every_kind_of_key_decides(place: Place, key: str) -> None:
    one = place.clients[0]
    await one.run("create extension if not exists btree_gist")
    await one.run(f"create table k (a int, b int, {key})")
    text = "insert into k values ({}, 1) on conflict do nothing"
    answers = await together(place.clients, [text.format(("null", "5", "6")[n % 3]) for n in range(SESSIONS)])
    nulls = 1 if "not distinct" in key else SESSIONS // 3
    assert answers.count("INSERT 0 1") == 2 + nulls
    assert await one.value("select count(*) from k") == 2 + nulls


async def test_partial_and_computed_keys_decide(place: Place) -> None:
    one = place.clients[0]
    await one.run(
        "create table k (a text, b int); create unique index on k (lower(a)); create unique index on k (b) where b > 5"
    )
    text = "insert into k values ('{}', {}) on conflict do nothing"
    answers = await together(place.clients, [text.format("aAbB"[n % 4], n) for n in range(SESSIONS)])
    assert answers.count("INSERT 0 1") == 2
    assert await one.value("select count(distinct lower(a)) from k") == 2


async def test_who_ran_alone_runs_together_again(place: Place) -> None:
    """A block holds the row that all want, once: afterwards they do not stand in each other's way for ever."""
    one, *others = place.clients
    await one.run("create table hot (id int primary key, n int not null); insert into hot values (1, 0)")
    text = "update hot set n = n + 1 where id = 1"

    async def send_often(client: Client, times: int) -> None:
        for _ in range(times):
            assert await sent(client, text) == "UPDATE 1"

    await one.run("begin; update hot set n = n + 1 where id = 1")
    alone = asyncio.gather(*(send_often(client, 3 * PAUSE // len(others)) for client in others))
    await asyncio.sleep(0.1)
    await one.run("commit")
    await alone
    before = place.commits
    await asyncio.gather(*(send_often(client, 20) for client in others))
    assert await one.value("select n from hot") == 1 + len(others) * (3 * PAUSE // len(others) + 20)
    assert place.commits - before <= 2 * 20 + 2, "each round is two commits at most: one leads, the others follow"


# ---------------------------------------------------------------- what it costs

MOST_CALLS = {
    "insert into t values ({0}, 5, 'new')": 185,
    "update t set n = n + 1 where id = {0}": 208,
    "delete from t where id = {0}": 172,
    "insert into t values ({0}, 5, 'new') on conflict (id) do update set n = t.n + 1": 262,
}


@pytest.mark.parametrize("text", MOST_CALLS)
async def test_a_statement_among_others_takes_few_calls(filled: Place, text: str) -> None:
    counts = []
    await filled.clients[0].run("insert into t select g, 1 from generate_series(1000, 1999) g")
    first = 5000 if text.startswith("insert") and "conflict" not in text else 1000
    for step in range(6):
        texts = [text.format(first + step * SESSIONS + n) for n in range(SESSIONS)]
        with CountedCalls() as count:
            await together(filled.clients, texts)
        counts.append(count.total // SESSIONS)
    assert min(counts) <= MOST_CALLS[text], counts
