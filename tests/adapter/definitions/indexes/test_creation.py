"""CREATE INDEX: the key runs that files get of it, and writers that do not know of a unique one yet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from adapter.plans.key_indexes import usable_indexes
from adapter.sessions.server import Server
from storage.catalog.model import Relation
from storage.shards.parts import Part
from tests.adapter.harness import Client

Another = Callable[[], Awaitable[Client]]


def table(server: Server, name: str) -> Relation:
    """The table called `name`."""
    found = [r for r in server.env.catalog.current().all() if isinstance(r, Relation) and r.name == name]
    return found[0]


async def files_of(server: Server, name: str) -> list[Part]:
    """The files of a table as they are now."""
    shard = table(server, name).shard
    assert shard is not None
    snapshot = await server.env.reader.snapshot(shard, await server.env.oracle.read_ts("user"))
    return [part for part in snapshot.inserts if part.key is not None]


async def until_runs(server: Server, count: int) -> None:
    """Wait until the server has given every file of ``t`` so many runs."""
    for _ in range(600):
        if {len(part.runs) for part in await files_of(server, "t")} == {count}:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"no {count} runs in half a minute")


async def test_new_files_and_those_that_are_there_get_runs(server: Server, client: Client) -> None:
    await client.run("create table t (id int, code text)")
    await client.run("insert into t select g, 'code ' || g from generate_series(1, 20000) g")
    await server.env.applier.apply_all()
    await client.run("create index by_code on t (code desc, id); create unique index by_id on t (id)")
    await client.run("insert into t select g, 'code ' || g from generate_series(20001, 40000) g")
    assert max(len(part.runs) for part in await files_of(server, "t")) == 2
    # Nothing has been written since: that the indexes have changed is enough.
    await until_runs(server, 2)
    indexes = {index.record.oid: index for index in usable_indexes(server.env.catalog.current(), table(server, "t"))}
    for part in await files_of(server, "t"):
        assert set(part.runs) == set(indexes)
        assert all(part.runs[oid].fingerprint == index.definition.fingerprint for oid, index in indexes.items())
    bytes_of = {oid: sum(part.runs[oid].bytes for part in await files_of(server, "t")) for oid in indexes}
    for oid, size in bytes_of.items():
        assert await client.value(f"select pg_relation_size({oid})") == size
    assert await client.value("select pg_indexes_size('t')") == sum(bytes_of.values())
    assert await client.value("select pg_total_relation_size('t') - pg_table_size('t')") == sum(bytes_of.values())
    await client.run("drop index by_code")
    await until_runs(server, 1)


async def test_what_an_index_can_be_used_for(server: Server, client: Client) -> None:
    await client.run(
        "create table t (id int primary key, code text, n numeric);"
        "create index i1 on t (code desc, n) include (id); create index i2 on t using hash (n);"
        "create unique index i3 on t (n nulls first) nulls not distinct"
    )
    found = usable_indexes(server.env.catalog.current(), table(server, "t"))
    assert [index.record.name for index in found] == ["t_pkey", "i1", "i2", "i3"]
    assert [index.record.columns for index in found] == [(1,), (2, 3), (3,), (3,)]
    assert [index.record.unique for index in found] == [True, False, False, True]
    orders = [[(column.descending, column.nulls_first) for column in index.definition.columns] for index in found]
    assert orders == [[(False, False)], [(True, True), (False, False)], [(False, False)], [(False, True)]]
    assert [index.definition.ordered for index in found] == [True, True, False, True]


async def test_a_writer_that_does_not_know_a_unique_index_cannot_commit(client: Client, stranger: Another) -> None:
    other = await stranger()
    await client.run("create table t (a int)")
    await client.run("begin; insert into t values (1), (1)")
    await other.run("create unique index u on t (a)")
    assert (await client.error("commit")).sqlstate == "40001"
    await other.run("insert into t values (1)")
    error = await client.error("insert into t values (1)")
    assert (error.sqlstate, error.constraint) == ("23505", "u")
    await other.run("drop index u")
    await client.run("insert into t values (1)")


async def test_two_that_write_one_key(client: Client, stranger: Another) -> None:
    other = await stranger()
    await client.run("create table t (a int, b text); create unique index u on t (b, a desc)")
    await client.run("begin; insert into t values (1, 'x')")
    await other.run("insert into t values (1, 'x')")
    error = await client.error("commit")
    assert (error.sqlstate, error.detail) == ("23505", "Key (b, a)=(x, 1) already exists.")


async def test_a_table_that_is_written_anew_keeps_its_unique_indexes(client: Client) -> None:
    await client.run("create table t (a numeric, b int); create unique index u on t (a)")
    await client.run("insert into t values (1.2, 1), (1.4, 2)")
    error = await client.error("alter table t alter a type int")
    assert (error.sqlstate, error.message) == ("23505", 'could not create unique index "u"')
    await client.run("delete from t where b = 2; alter table t alter a type int")
    assert (await client.error("insert into t values (1, 3)")).sqlstate == "23505"


async def test_files_have_runs_of_unique_expressions(server: Server, client: Client) -> None:
    await client.run("create table t (id int, email text, gone boolean)")
    await client.run("create unique index u on t (lower(email)) where not gone")
    await client.run("insert into t select g, 'User' || g || '@X.org', g % 2 = 0 from generate_series(1, 20000) g")
    (part,) = await files_of(server, "t")
    (run,) = part.runs.values()
    before = server.env.keys.sources.runs.made
    error = await client.error("insert into t values (-1, 'USER777@x.org', false)")
    assert (error.sqlstate, error.detail) == ("23505", "Key (lower(email))=(user777@x.org) already exists.")
    await client.run("insert into t values (-1, 'USER776@x.org', false)")
    error = await client.error("update t set gone = false where id = 776")
    assert (error.sqlstate, error.constraint) == ("23505", "u")
    assert server.env.keys.sources.runs.made == before
    assert run.bytes < part.rows * 24 / 2 + 16384


async def test_two_that_write_one_expression(client: Client, stranger: Another) -> None:
    other = await stranger()
    await client.run("create table t (a int, b text); create unique index u on t (upper(b)) where a > 0")
    await client.run("begin; insert into t values (1, 'x')")
    await other.run("insert into t values (0, 'X')")
    await client.run("commit; begin; insert into t values (2, 'y')")
    await other.run("insert into t values (1, 'Y')")
    error = await client.error("commit")
    assert (error.sqlstate, error.detail) == ("23505", "Key (upper(b))=(Y) already exists.")


async def test_an_expression_that_fails_fails_the_statement(client: Client) -> None:
    await client.run("create table t (a int, b int); create unique index u on t ((a / b)) where b <> 7")
    assert (await client.error("insert into t values (1, 1), (1, 0)")).sqlstate == "22012"
    assert await client.value("select count(*) from t") == 0
    await client.run(
        "drop index u; create unique index u on t ((a / b)) where b <> 0; insert into t values (1, 0), (2, 0)"
    )
    await client.run("insert into t select g, 1 from generate_series(10, 20000) g")
    assert (await client.error("insert into t values (40, 2)")).detail == "Key ((a / b))=(20) already exists."
