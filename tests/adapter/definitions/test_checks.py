"""CHECK constraints: what their errors say, and writers that do not know of them yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import product

from tests.adapter.harness import Client

Another = Callable[[], Awaitable[Client]]


async def test_the_failing_row_is_shown(client: Client) -> None:
    await client.run(
        "create schema s; create table s.t"
        " (a int constraint positive check (a > 0), n numeric, m numeric(5, 2), d date, b text, na numeric[])"
    )
    error = await client.error("insert into s.t values (-1, 1.50, 1.5, '2020-01-02', null, '{1.10, null}')")
    assert (error.sqlstate, error.schema, error.table, error.constraint) == ("23514", "s", "t", "positive")
    assert error.message == 'new row for relation "t" violates check constraint "positive"'
    assert error.detail == "Failing row contains (-1, 1.50, 1.50, 2020-01-02, null, {1.10,NULL})."
    error = await client.error(f"insert into s.t (a, b) values (-1, '{'xä' * 40}')")
    assert error.detail == f"Failing row contains (-1, null, null, null, {'xä' * 21}x..., null)."


async def test_of_several_rows_the_first_is_shown(client: Client) -> None:
    await client.run("create table t (a int not null check (a > 0), b float8 check (b * 2 < 10))")
    error = await client.error("insert into t values (1, 1), (2, 9), (-1, 1), (null, 0)")
    assert error.detail == "Failing row contains (2, 9)."
    error = await client.error("insert into t values (1, 1), (-1, 9), (-1, 1), (null, 0)")
    assert (error.constraint, error.detail) == ("t_a_check", "Failing row contains (-1, 9).")
    error = await client.error("insert into t values (1, 1), (null, 9), (-1, 1)")
    assert (error.sqlstate, error.detail) == ("23502", "Failing row contains (null, 9).")


async def test_nothing_is_written_of_a_statement_that_fails(client: Client) -> None:
    await client.run("create table t (a int check (a <> 20000))")
    await client.error("insert into t select g from generate_series(1, 30000) g")
    assert await client.value("select count(*) from t") == 0
    await client.run("begin; insert into t values (1); savepoint s")
    await client.error("insert into t values (20000)")
    await client.run("rollback to s; commit")
    assert await client.rows("select * from t") == [(1,)]


async def test_a_writer_that_does_not_know_a_check_cannot_commit(client: Client, stranger: Another) -> None:
    other = await stranger()
    await client.run("create table t (a int)")
    await client.run("begin; insert into t values (-1)")
    await other.run("alter table t add check (a > 0)")
    assert (await client.error("commit")).sqlstate == "40001"
    await client.run("begin; insert into t values (1)")
    await other.run("alter table t drop constraint t_a_check; alter table t add constraint t_a_check check (a > 1)")
    assert (await client.error("commit")).sqlstate == "40001"
    assert await client.rows("select * from t") == []


async def test_a_rule_is_no_rule_when_a_row_comes_in_the_meantime(client: Client, stranger: Another) -> None:
    other = await stranger()
    rules = ("add check (a > 0)", "alter a set not null", "add b int not null", "add primary key (a)")
    for rule, level in product(rules, ("read committed", "serializable")):
        await client.run("drop table if exists t; create table t (a int); insert into t values (1)")
        if rule.startswith("add b"):
            await client.run("delete from t")
        await client.run(f"begin isolation level {level}; alter table t {rule}")
        await other.run(f"insert into t values ({'-1' if 'check' in rule else 'null'})")
        assert (await client.error("commit")).sqlstate == "40001", rule
    await client.run("drop table t; create table t (a int); insert into t values (1)")
    await client.run("begin; alter table t add check (a > 0)")
    await other.run("insert into t values (2)")
    await client.run("commit")
    assert (await other.error("insert into t values (0)")).sqlstate == "23514"


async def test_rows_that_come_while_a_table_is_rewritten_are_not_lost(client: Client, stranger: Another) -> None:
    other = await stranger()
    await client.run("create table t (a int); insert into t values (1)")
    await client.run("begin isolation level read committed; alter table t alter a type text using a || '!'")
    await other.run("insert into t values (2)")
    assert (await client.error("commit")).sqlstate == "40001"
    assert await client.rows("select a from t order by a") == [(1,), (2,)]


async def test_a_constraint_goes_with_its_comment(client: Client) -> None:
    await client.run("create table t (a int constraint c check (a > 0), b int, constraint d check (b > 0))")
    await client.run("comment on constraint c on t is 'x'; comment on constraint d on t is 'y'")
    assert await client.value("select count(*) from pg_description where classoid = 'pg_constraint'::regclass") == 2
    await client.run("alter table t drop constraint c; alter table t drop column b")
    assert await client.value("select count(*) from pg_description where classoid = 'pg_constraint'::regclass") == 0
