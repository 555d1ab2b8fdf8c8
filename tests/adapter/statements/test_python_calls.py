"""The statements that applications send most cost so many calls of Python functions and no more."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.adapter.harness import Client
from tests.support.python_calls import CountedCalls

WARM_UP = 20
RUNS = 15

# A number may go down. Texts are new each time, as applications send them.
MOST_CALLS: dict[str, tuple[Callable[[int], str], int]] = {
    "SELECT": (lambda n: f"select id, n, label from t where id = {n}", 177),
    "range of 100": (lambda n: f"select id, n, label from t where id between {n} and {n} + 99", 248),
    "sum of 100": (lambda n: f"select sum(n) from t where id between {n} and {n + 99}", 245),
    "INSERT": (lambda n: f"insert into t values ({n + 100_000}, 5, 'new')", 557),
    "INSERT, defaults": (lambda n: f"insert into u (label) values ('new {n}')", 590),
    "UPDATE": (lambda n: f"update t set n = n + 1 where id = {n}", 676),
    "DELETE": (lambda n: f"delete from t where id = {n}", 563),
    "ON CONFLICT DO UPDATE": (
        lambda n: f"insert into t values ({n}, 5, 'new') on conflict (id) do update set n = t.n + 1",
        758,
    ),
    "ON CONFLICT DO NOTHING": (lambda n: f"insert into t values ({n}, 5, 'new') on conflict do nothing", 285),
}


@pytest.mark.parametrize("statement", MOST_CALLS)
async def test_a_statement_takes_few_calls(client: Client, statement: str) -> None:
    text_of, most = MOST_CALLS[statement]
    await client.run("create table t (id int primary key, n int, label text)")
    await client.run("create table u (id serial primary key, at timestamptz default now(), label text)")
    await client.run("insert into t select g, 0, 'label' || g from generate_series(1, 1000) g")
    numbers = itertools.count(1)
    for _ in range(WARM_UP):
        await client.run(text_of(next(numbers)))
    counts = []
    for _ in range(RUNS):
        text = text_of(next(numbers))
        with CountedCalls() as count:
            await client.run(text)
        counts.append(count.total)
    # Some runs meet what the server does by itself meanwhile.
    assert min(counts) <= most, sorted(counts)
