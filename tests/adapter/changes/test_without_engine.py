"""Changes of few rows compute what they need without an engine: ON CONFLICT, RETURNING, generated columns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from adapter.engines.local.engine import LocalEngine
from tests.adapter.harness import Client

TABLE = (
    "create table c (id int primary key, n smallint not null, label varchar(5), amount numeric(6,2),"
    " at timestamptz default now(), double numeric generated always as (amount * 2) stored, check (n < 100))"
)


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> AsyncIterator[Any]:
        raise AssertionError("an engine was asked")

    monkeypatch.setattr(LocalEngine, "execute", refuse)


@pytest.mark.usefixtures("no_engine")
async def test_no_engine_is_asked(client: Client) -> None:
    await client.run(TABLE)
    upsert = (
        "insert into c values (1, {n}, 'a', 2.5) on conflict (id) do update set n = c.n + excluded.n,"
        " label = c.label || excluded.label where c.n < 5 returning id, n * 2, label, double, at = now()"
    )
    assert await client.rows(upsert.format(n=3)) == [(1, 6, "a", 5, True)]
    assert await client.rows(upsert.format(n=4)) == [(1, 14, "aa", 5, False)]
    assert await client.run(upsert.format(n=4)) == [[]]
    assert await client.run("insert into c values (1, 1) on conflict do nothing") == ["INSERT 0 0"]
    assert await client.rows("update c set amount = amount + 1 where id = 1 returning double - 1, n") == [(6, 7)]
    assert await client.rows("delete from c where id between 0 and 3 returning label || '!', n is null") == [
        ("aa!", False)
    ]


async def test_what_goes_wrong_is_told_as_ever(client: Client) -> None:
    await client.run(TABLE)
    await client.run("insert into c values (1, 99, 'abcde', 9999.99)")
    upsert = "insert into c values (1, 0) on conflict (id) do update set {} where {}"
    for assigned, sqlstate in (
        ("label = c.label || 'f'", "22001"),
        ("n = c.n + 1", "23514"),
        ("n = c.n + 32767::smallint", "22003"),
        ("amount = c.amount * 2", "22003"),
        ("n = null", "23502"),
    ):
        assert (await client.error(upsert.format(assigned, "true"))).sqlstate == sqlstate, assigned
        assert await client.tag(upsert.format(assigned, "c.n < 5")) == "INSERT 0 0", assigned
    assert await client.rows("select n, label, amount from c") == [(99, "abcde", Decimal("9999.99"))]
