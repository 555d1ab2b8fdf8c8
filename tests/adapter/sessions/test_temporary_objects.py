"""Temporary objects belong to one session, and go with it."""

from __future__ import annotations

import pytest

from adapter.sessions.server import Server
from storage.transactions import txn as txn_module
from tests.adapter.harness import Client, connect


async def test_each_session_has_its_own(server: Server) -> None:
    one, other = await connect(server), await connect(server)
    await one.run("create temp table t (a int); insert into t values (1)")
    assert (await other.error("select * from t")).sqlstate == "42P01"
    await other.run("create temp table t (b text); insert into t values ('x')")
    assert await one.rows("select * from t") == [(1,)]
    assert await other.rows("select * from t") == [("x",)]
    schemas = "select nspname from pg_namespace where nspname like 'pg_temp%'"
    assert await one.rows(schemas) == [("pg_temp_1",)]
    assert await other.rows(schemas) == [("pg_temp_2",)]
    await one.session.close()
    assert await other.rows("select * from t") == [("x",)]
    third = await connect(server)
    await third.run("create temp table t (c int)")
    assert await third.rows(schemas) == [("pg_temp_1",)]


async def test_others_never_hear_of_them(server: Server) -> None:
    client = await connect(server)
    before = server.env.catalog.current()
    await client.run("create temp table t (a serial primary key); insert into t default values; analyze t")
    assert server.env.catalog.current() is before


async def test_their_plans_are_not_those_of_others(server: Server) -> None:
    one, other = await connect(server), await connect(server)
    await one.run("create table t (a int); insert into t values (1)")
    for _ in range(3):
        assert await one.rows("select a from t") == [(1,)]
        assert await other.rows("select a from t") == [(1,)]
    await one.run("create temp table t (a text); insert into t values ('own')")
    for _ in range(3):
        assert await one.rows("select a from t") == [("own",)]
        assert await other.rows("select a from t") == [(1,)]
    await one.run("drop table t")
    assert await one.rows("select a from t") == [(1,)]
    assert one.session.state.search_path() == other.session.state.search_path()


async def test_files_of_large_ones_go_with_the_session(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_module, "SPILL_BUDGET_BYTES", 10_000)
    client = await connect(server)
    await client.run("create temp table t (a int)")
    await client.run("insert into t select g from generate_series(1, 20000) g")
    await client.run("insert into t select g from generate_series(1, 20000) g")
    assert await client.rows("select count(*), sum(a) from t") == [(40000, 400020000)]
    await client.run("begin; truncate t; insert into t values (1)")
    await client.run("rollback")
    assert await client.value("select count(*) from t") == 40000
    files = server.env.parts.in_flight
    assert files
    await client.session.close()
    assert not files
    await server.env.maintenance.orphans.collect()
    assert [entry.key async for entry in server.env.blob.list("parts/t")] == []


async def test_a_commit_that_fails_leaves_them_as_they_were(server: Server) -> None:
    one, other = await connect(server), await connect(server)
    await one.run("create table t (a int primary key); insert into t values (1)")
    await one.run("create temp table own (a int); insert into own values (1)")
    await one.run("begin isolation level repeatable read; update own set a = 2; create temp table more (a int)")
    await one.run("select * from t")
    await other.run("update t set a = 5")
    assert (await one.error("update t set a = 6")).sqlstate == "40001"
    await one.run("rollback")
    assert await one.rows("select a from own") == [(1,)]
    assert (await one.error("select * from more")).sqlstate == "42P01"


async def numbers(client: Client) -> list[tuple[int, ...]]:
    return await client.rows("select a from own order by a")


async def test_savepoints(server: Server) -> None:
    client = await connect(server)
    await client.run("begin; savepoint before; create temp table own (a int); insert into own values (1)")
    await client.run("savepoint s; insert into own values (2); savepoint s2; delete from own where a = 1")
    assert await numbers(client) == [(2,)]
    await client.run("rollback to s2")
    assert await numbers(client) == [(1,), (2,)]
    await client.run("release s; insert into own values (3)")
    assert await numbers(client) == [(1,), (2,), (3,)]
    await client.run("commit; begin; savepoint s; drop table own")
    assert (await client.error("select * from own")).sqlstate == "42P01"
    await client.run("rollback to s")
    assert await numbers(client) == [(1,), (2,), (3,)]
    await client.run("insert into own values (4); rollback")
    assert await numbers(client) == [(1,), (2,), (3,)]


PERMANENT_USES = {
    "a domain": "create domain d as tt",
    "a domain over an array": "create domain d as tt[]",
    "a domain over an enum": "create domain d as pg_temp.en",
    "a domain's default": "create domain d as int default nextval('ts')",
    "a composite type": "create type c as (a tt[], b int)",
    "a table": "create table p (a pg_temp.en)",
    "a table as a query": "create table p as select 'a'::pg_temp.en",
    "a default": "create table p (a int default nextval('ts'))",
    "a default that calls": "create table p (a int default pg_temp.pf(1))",
    "a check": "create table p (a text, check (a::pg_temp.en is null))",
    "a check that calls": "create table p (a int, check (pg_temp.pf(a) > 0))",
    "a new column": "alter table kept add column b pg_temp.en",
    "another type": "alter table kept alter column a type pg_temp.dd",
    "another default": "alter table kept alter column a set default nextval('ts')",
    "another check": "alter table kept add check (a::pg_temp.dd > 0)",
    "an index": "create index on kept ((a::pg_temp.dd))",
    "a partial index": "create index on kept (a) where a::pg_temp.dd > 0",
    "a policy": "create policy pol on kept using (a::pg_temp.dd > 0)",
    "a parameter": "create function f(tt) returns int language sql as 'select 1'",
    "a result": "create function f() returns setof tt language sql as 'select null::tt'",
    "a body": "create function f() returns int return pg_temp.pf(1)",
    "a materialized view": "create materialized view m as select 'a'::pg_temp.en",
}


@pytest.mark.parametrize("use", PERMANENT_USES)
async def test_permanent_objects_use_none(client: Client, use: str) -> None:
    await client.run("create table kept (a int)")
    await client.run("create temp table tt (a int); create type pg_temp.en as enum ('a')")
    await client.run("create domain pg_temp.dd as int; create temp sequence ts")
    await client.run("create function pg_temp.pf(int) returns int language sql immutable as 'select 1'")
    before = await client.rows("select relname, relnatts, relchecks from pg_class where oid >= 16384 order by oid")
    error = await client.error(PERMANENT_USES[use])
    assert (error.sqlstate, error.message) == (
        "0A000",
        "permanent objects that use temporary objects are not supported",
    )
    after = await client.rows("select relname, relnatts, relchecks from pg_class where oid >= 16384 order by oid")
    assert after == before


async def test_views_of_temporary_types_are_temporary(server: Server) -> None:
    one, other = await connect(server), await connect(server)
    await one.run("create type pg_temp.en as enum ('a'); create view v as select 'a'::pg_temp.en as e")
    assert await one.rows("select e::text from v") == [("a",)]
    assert (await other.error("select * from v")).sqlstate == "42P01"


async def test_temporary_statistics_of_permanent_tables(server: Server) -> None:
    one, other = await connect(server), await connect(server)
    await one.run("create table t (a int, b int); create statistics pg_temp.s on a, b from t")
    seen = "select stxname from pg_statistic_ext"
    assert (await one.rows(seen), await other.rows(seen)) == ([("s",)], [])
    await other.run("drop table t")
    assert await one.rows(seen) == []
    await one.run("drop statistics pg_temp.s")
