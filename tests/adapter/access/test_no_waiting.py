"""What a role must not do is refused at once, not after waiting for locks, and holds nobody up; GRANT waits for other
definitions of the table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.adapter.harness import Client, blocked, connect, open_server

REFUSED = (
    "truncate t",
    "truncate t, own",
    "alter table t add column b int",
    "alter table t add constraint k unique (a)",
    "alter table t rename to u",
    "alter table t rename column a to b",
    "alter index t_pkey rename to i",
    "drop table t",
    "drop index t_i",
    "drop view v",
    "create index on t (a)",
    "reindex table t",
    "comment on table t is 'x'",
    "create policy p on t",
    "alter sequence s restart",
)


@pytest.fixture
async def clients() -> AsyncIterator[tuple[Client, Client]]:
    """The owner, with all locks on what there is, and another role."""
    async with open_server() as server:
        owner, other = await connect(server), await connect(server)
        await owner.run("create role eve; create schema e authorization eve; create table t (a int primary key)")
        await owner.run("create index t_i on t (a); create view v as select * from t; create sequence s")
        await other.run("set role eve; set search_path = public, e; create table e.own (a int)")
        yield owner, other


@pytest.mark.parametrize("statement", REFUSED)
async def test_what_is_forbidden_waits_for_nothing(clients: tuple[Client, Client], statement: str) -> None:
    owner, other = clients
    await owner.run("begin; lock table t, v in access exclusive mode; alter sequence s increment 2")
    error = await asyncio.wait_for(other.error(statement), 5)
    assert error.sqlstate == "42501", error


@pytest.mark.parametrize("statement", ["vacuum t", "analyze t"])
async def test_what_is_skipped_waits_for_nothing(clients: tuple[Client, Client], statement: str) -> None:
    owner, other = clients
    await owner.run("begin; lock table t in access exclusive mode")
    await asyncio.wait_for(other.run(statement), 5)
    (notice,) = other.notices()
    assert notice.startswith('WARNING: skipping "t"')


async def test_grant_keeps_other_definitions_waiting(clients: tuple[Client, Client]) -> None:
    owner, other = clients
    await other.run("reset role")
    await owner.run("begin; grant select on t to public")
    waiting = await blocked(other, "alter table t add column b int")
    await owner.run("commit")
    assert await waiting.result() == ["ALTER TABLE"]
    assert await owner.value("select has_table_privilege('eve', 't', 'select')")
