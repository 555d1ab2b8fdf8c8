"""What a server does by itself costs its clients' statements little: counted in calls of Python functions.

Two kinds of work are told apart. Some follows each group of commits at once. The rest is done in rounds, one a second
at most, so its share is that of a round among the statements of a second: of which eight clients send a few hundred.
"""

from __future__ import annotations

import asyncio

import pytest

from adapter.sessions.server import Server
from tests.adapter.harness import Client, connect
from tests.support.python_calls import CountedCalls

MOST_SHARE = 0.05
CLIENTS = 8
STATEMENTS = 30
"""Of each of them."""

IN_ROUNDS = ("storage-apply", "storage-maintenance", "storage-keep-alive")
AFTER_COMMITS = ("storage-follow", "storage-catalog")

CHANGES = {
    "INSERT": "insert into t values ({n} + 10000, 5, 'new')",
    "UPDATE": "update t set n = n + 1 where id = {n}",
}


@pytest.mark.parametrize("change", CHANGES)
async def test_background_work_has_a_small_share(server: Server, client: Client, change: str) -> None:
    await client.run("create table t (id int primary key, n int, label text)")
    await client.run("insert into t select g, 0, 'label' || g from generate_series(1, 1000) g")
    env = server.services.env
    for task in env.background.tasks:
        if task.get_name() in IN_ROUNDS:
            task.cancel()
    for n in range(20):
        await client.run(CHANGES[change].format(n=n + 1))
    await env.applier.apply_all()
    await env.maintenance.run(env.applier.touched)
    clients = [await connect(server) for _ in range(CLIENTS)]

    async def run(number: int) -> None:
        for n in range(STATEMENTS):
            await clients[number].run(CHANGES[change].format(n=100 + number * STATEMENTS + n))

    with CountedCalls() as during:
        await asyncio.gather(*map(run, range(CLIENTS)))
    statements = during.total
    assert not set(IN_ROUNDS) & set(during.of_tasks)
    after_commits = sum(during.of_tasks[name] for name in AFTER_COMMITS)
    with CountedCalls() as after:
        await env.applier.apply_all()
        await env.maintenance.run(env.applier.touched)
    rounds = after.total
    assert 0 < after_commits + rounds <= MOST_SHARE * statements, (after_commits, rounds, statements)
