"""Queues: the first rows that nobody else has locked, of a table of any size."""

from __future__ import annotations

import pytest

from adapter.sessions.server import Server
from tests.adapter.harness import Client, blocked, connect

ROWS = 40_000
NEXT = "select id from jobs where state = 'new' order by id limit {} for update skip locked"


@pytest.fixture
async def jobs(server: Server) -> Client:
    client = await connect(server, default_transaction_isolation="read committed")
    await client.run("create table jobs (id int primary key, state text not null, note text)")
    await client.run(f"insert into jobs select g, 'new', 'n' || g from generate_series(1, {ROWS}) g")
    return client


async def test_everybody_gets_other_rows(server: Server, jobs: Client) -> None:
    others = [await connect(server, default_transaction_isolation="read committed") for _ in range(3)]
    await jobs.run("begin")
    assert await jobs.rows(NEXT.format(2)) == [(1,), (2,)]
    taken = []
    for other in others:
        await other.run("begin")
        taken += [row[0] for row in await other.rows(NEXT.format(15))]
    # More are locked than are read at first.
    assert taken == list(range(3, 48))
    await jobs.run("update jobs set state = 'done' where id <= 2; commit")
    for other in others:
        await other.run("rollback")
    assert await jobs.rows(NEXT.format(1)) == [(3,)]
    assert await jobs.rows("select id from jobs order by id desc offset 1 limit 2 for update") == [(39_999,), (39_998,)]


async def test_a_job_is_taken_by_its_key(server: Server, jobs: Client) -> None:
    rows = server.env.keys.sources.rows
    await jobs.run("select 1 from jobs order by id limit 1")
    before = rows.loaded
    for number in range(1, 6):
        taken = await jobs.rows(
            "update jobs set state = 'running' where id = (select id from jobs where state = 'new' "
            "order by id limit 1 for update skip locked) returning id, note"
        )
        assert taken == [(number, f"n{number}")]
    assert rows.loaded == before
    assert await jobs.value("select count(*) from jobs where state = 'running'") == 5


async def test_newest_versions_are_read_where_they_are(server: Server, jobs: Client) -> None:
    """A row that was changed meanwhile is in a file that the change of all rows has written."""
    other = await connect(server, default_transaction_isolation="read committed")
    await jobs.run("alter table jobs add column tries int not null default 1")
    await other.run("begin; select 1 from jobs where id = 7")
    await jobs.run("begin; update jobs set note = note || '!', tries = 2")
    waiting = await blocked(other, "update jobs set state = 'mine' where id in (7, 30000) returning id, note, tries")
    await jobs.run("commit")
    before = server.env.keys.sources.rows.loaded
    assert sorted((await waiting.result())[0]) == [(7, "n7!", 2), (30_000, "n30000!", 2)]
    assert server.env.keys.sources.rows.loaded - before <= 2
    await other.run("commit")
    assert await jobs.value("select count(*) from jobs where state = 'mine' and tries = 2") == 2
