"""Exclusion constraints: between transactions, and what is kept of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from adapter.sessions.server import Server
from storage.catalog.model import Constraint, Index
from tests.adapter.definitions.indexes.test_creation import files_of, table
from tests.adapter.harness import Client

Another = Callable[[], Awaitable[Client]]


async def test_two_that_exclude_each_other(client: Client, stranger: Another) -> None:
    other = await stranger()
    await client.run("create table t (a int, b text, constraint x exclude (lower(b) with =) where (a > 0))")
    await client.run("begin; insert into t values (1, 'k')")
    await other.run("insert into t values (1, 'K')")
    error = await client.error("commit")
    assert (error.sqlstate, error.constraint) == ("23P01", "x")
    assert error.detail == "Key (lower(b))=(k) conflicts with existing key (lower(b))=(k)."


async def test_a_writer_that_does_not_know_of_one_cannot_commit(client: Client, stranger: Another) -> None:
    other = await stranger()
    await client.run("create table t (a int)")
    await client.run("begin; insert into t values (1), (1)")
    await other.run("alter table t add constraint x exclude (a with =)")
    assert (await client.error("commit")).sqlstate == "40001"
    assert (await client.error("insert into t values (2), (2)")).sqlstate == "23P01"


async def test_a_dropped_one_leaves_nothing(server: Server, client: Client) -> None:
    await client.run("create table t (a int, b int, exclude (a with =), constraint x exclude (b with =))")
    await client.run("insert into t select g, g from generate_series(1, 20000) g")
    assert {len(part.runs) for part in await files_of(server, "t")} == {2}
    await client.run("alter table t drop constraint x; alter table t drop column a")
    kept = [r for r in server.env.catalog.current().all() if isinstance(r, (Constraint, Index))]
    assert (kept, table(server, "t").constraints) == ([], ())
    await client.run("insert into t values (5)")
