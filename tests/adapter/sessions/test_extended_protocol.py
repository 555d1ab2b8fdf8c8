"""Prepared statements and portals as the extended protocol uses them."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from adapter.results import Command, Empty, Rows
from planner.errors import SqlError
from planner.ir.nodes import Literal
from planner.types import types as t
from planner.types.types import SqlType
from tests.adapter.harness import Client, rows_of


def _int(value: int) -> Literal:
    return Literal(value=value, type=SqlType(t.INT4))


async def _execute(client: Client, portal: str = "", max_rows: int = 0, *, sync: bool = False) -> Any:
    result = await client.session.execute_portal(portal, max_rows, sync)
    if isinstance(result, Rows):
        rows = [row async for row in rows_of(result)]
        return rows, result.tag(len(rows)), result.suspended()
    assert isinstance(result, (Command, Empty))
    return result.tag if isinstance(result, Command) else ""


async def _bound(client: Client, text: str, *params: Literal, portal: str = "") -> None:
    await client.session.prepare("", text, ())
    await client.session.bind(portal, "", params, ())


async def test_describe_without_executing(client: Client) -> None:
    session = client.session
    await client.run("create table t (a int, b varchar(10))")
    await session.prepare("s", "select a, b || $2 as x from t where a = $1", ())
    description = await session.describe_statement("s")
    assert [type_.oid for type_ in description.param_types] == [t.INT4, t.TEXT]
    assert description.columns is not None
    assert [(column.name, column.type.oid) for column in description.columns] == [("a", t.INT4), ("x", t.TEXT)]
    assert description.columns[0].origin is not None
    for text, names in (
        ("insert into t values ($1, $2)", None),
        ("insert into t values ($1, $2) returning b", ["b"]),
        ("show timezone", ["TimeZone"]),
        ("explain select 1", ["QUERY PLAN"]),
        ("begin", None),
        ("set work_mem = '1MB'", None),
    ):
        await session.prepare("", text, ())
        columns = (await session.describe_statement("")).columns
        assert (None if columns is None else [column.name for column in columns]) == names


async def test_portals_suspend_and_go_on(client: Client) -> None:
    session = client.session
    await session.prepare("s", "select g from generate_series(1, 5) g", ())
    await session.bind("p", "s", (), ())
    assert await _execute(client, "p", 2) == ([(1,), (2,)], "SELECT 2", True)
    assert await _execute(client, "p", 3) == ([(3,), (4,), (5,)], "SELECT 3", True)
    assert await _execute(client, "p", 3) == ([], "SELECT 0", False)
    assert await _execute(client, "p", 0) == ([], "SELECT 0", False)
    await session.sync()
    with pytest.raises(SqlError) as caught:
        await _execute(client, "p")
    assert (caught.value.sqlstate, caught.value.message) == ("34000", 'portal "p" does not exist')


async def test_portals_live_as_long_as_the_block(client: Client) -> None:
    session = client.session
    await client.run("begin")
    await _bound(client, "select g from generate_series(1, 4) g", portal="p")
    assert (await _execute(client, "p", 1))[0] == [(1,)]
    await session.sync()
    assert session.transaction_status == "T"
    assert (await _execute(client, "p", 1))[0] == [(2,)]
    assert (await client.rows("fetch 1 from p")) == [(3,)]
    await client.run("commit")
    with pytest.raises(SqlError):
        await _execute(client, "p")


async def test_a_finished_command_cannot_run_again(client: Client) -> None:
    await client.run("create table t (a int)")
    await _bound(client, "insert into t values (1)")
    assert await _execute(client) == "INSERT 0 1"
    with pytest.raises(SqlError) as caught:
        await _execute(client)
    assert (caught.value.sqlstate, caught.value.message) == ("55000", 'portal "" cannot be run')
    await client.session.sync()
    assert await client.value("select count(*) from t") == 0


async def test_returning_is_fed_drop_by_drop(client: Client) -> None:
    await client.run("create table t (a int)")
    await _bound(client, "insert into t select g from generate_series(1, 3) g returning a")
    assert await _execute(client, "", 2) == ([(1,), (2,)], "INSERT 0 2", True)
    assert await _execute(client, "", 2) == ([(3,)], "INSERT 0 1", False)
    await client.session.sync()
    assert await client.value("select count(*) from t") == 3


async def test_sync_ends_the_implicit_transaction(client: Client) -> None:
    await client.run("create table t (a int)")
    for value in (1, 2):
        await _bound(client, "insert into t values ($1)", _int(value))
        await _execute(client)
    await client.session.sync()
    await _bound(client, "insert into t values (3)")
    await _execute(client)
    with pytest.raises(SqlError):
        await _bound(client, "select nope")
    await client.session.sync()
    assert await client.rows("select a from t order by a") == [(1,), (2,)]


async def test_a_statement_before_sync_commits_at_once(client: Client) -> None:
    await client.run("create table t (a int)")
    await _bound(client, "insert into t values (1) returning a")
    assert await _execute(client, sync=True) == ([(1,)], "INSERT 0 1", False)
    assert client.session.state.transaction is None


async def test_errors_of_bind_and_parse(client: Client) -> None:
    session = client.session
    cases: list[tuple[Any, str, str]] = [
        (session.bind("", "nope", (), ()), "26000", 'prepared statement "nope" does not exist'),
        (session.prepare("", "select 1; select 2", ()), "42601",
         "cannot insert multiple commands into a prepared statement"),
        (session.prepare("", "selec 1", ()), "42601", 'syntax error at or near "selec"'),
        (session.prepare("", "select $2", ()), "42P18", "could not determine data type of parameter $1"),
    ]  # fmt: skip
    for call, sqlstate, message in cases:
        with pytest.raises(SqlError) as caught:
            await call
        assert (caught.value.sqlstate, caught.value.message) == (sqlstate, message)
    await session.prepare("s", "select $1::int", ())
    with pytest.raises(SqlError) as caught:
        await session.prepare("s", "select 1", ())
    assert caught.value.sqlstate == "42P05"
    with pytest.raises(SqlError) as caught:
        await session.bind("", "s", (), ())
    assert caught.value.message == 'bind message supplies 0 parameters, but prepared statement "s" requires 1'
    with pytest.raises(SqlError) as caught:
        await session.bind("", "s", (_int(1),), (0, 1))
    assert caught.value.message == "bind message has 2 result formats but query has 1 columns"
    await session.bind("p", "s", (_int(1),), ())
    with pytest.raises(SqlError) as caught:
        await session.bind("p", "s", (_int(1),), ())
    assert (caught.value.sqlstate, caught.value.message) == ("42P03", 'cursor "p" already exists')


async def test_changed_columns_invalidate_a_statement(client: Client) -> None:
    session = client.session
    await client.run("create table t (a int)")
    await session.prepare("s", "select * from t", ())
    await client.run("alter table t add b int")
    for call in (session.bind("", "s", (), ()), session.describe_statement("s")):
        with pytest.raises(SqlError) as caught:
            await call
        assert (caught.value.sqlstate, caught.value.routine) == ("0A000", "RevalidateCachedQuery")
    await client.run("drop table t")
    with pytest.raises(SqlError) as caught:
        await session.bind("", "s", (), ())
    assert caught.value.sqlstate == "42P01"


async def test_errors_after_which_drivers_prepare_again_name_postgresqls_routine(client: Client) -> None:
    session = client.session
    with pytest.raises(SqlError) as caught:
        await session.bind("", "gone", (), ())
    assert (caught.value.sqlstate, caught.value.routine) == ("26000", "FetchPreparedStatement")
    await client.run("create table t (a int)")
    with pytest.raises(SqlError) as caught:
        await session.prepare("s", "insert into t values (date '2024-01-01')", ())
    assert (caught.value.sqlstate, caught.value.routine) == ("42804", "transformAssignedExpr")


async def test_a_statement_follows_the_data_types_of_unchanged_columns(client: Client) -> None:
    await client.run("create table t (a int); insert into t values (1)")
    await client.session.prepare("s", "select a from t where a = $1", ())
    await client.run("alter table t add b int default 4")
    await client.session.bind("", "s", (_int(1),), ())
    assert (await _execute(client))[0] == [(1,)]


async def test_failed_transactions(client: Client) -> None:
    session = client.session
    await session.prepare("query", "select 1", ())
    await session.prepare("end", "rollback", ())
    await client.run("begin")
    await client.error("select 1/0")
    with pytest.raises(SqlError) as caught:
        await session.bind("", "query", (), ())
    assert caught.value.sqlstate == "25P02"
    await session.bind("", "end", (), ())
    assert await _execute(client) == "ROLLBACK"
    assert session.transaction_status == "I"


async def test_empty_statements(client: Client) -> None:
    await client.session.prepare("", "  ; ", ())
    assert (await client.session.describe_statement("")).columns is None
    await client.session.bind("", "", (), ())
    assert await _execute(client) == ""


async def test_sql_and_protocol_share_their_names(client: Client) -> None:
    session = client.session
    await client.run("prepare s (int) as select $1 + 1 as x")
    await session.bind("", "s", (_int(4),), ())
    assert (await _execute(client))[0] == [(5,)]
    await session.prepare("t", "select 7 as y", ())
    assert await client.rows("execute t") == [(7,)]
    assert await client.rows("select name from pg_prepared_statements order by name") == [("s",), ("t",)]
    await client.run("deallocate t")
    with pytest.raises(SqlError):
        await session.bind("", "t", (), ())
    await client.run("begin; declare c cursor for select g from generate_series(1, 3) g")
    assert [column.name for column in await session.describe_portal("c") or ()] == ["g"]
    assert await _execute(client, "c", 2) == ([(1,), (2,)], "SELECT 2", True)
    await client.run("rollback")


async def test_fetch_tells_of_a_binary_cursor(client: Client) -> None:
    await client.run("begin")
    for name, binary in (("b", True), ("c", False)):
        await client.run(f"declare {name} {'binary' if binary else ''} cursor for select 1 as one")
        stream: Any = client.session.execute_simple(f"fetch {name}")
        async with aclosing(stream) as results:
            (result,) = [(each.binary, [row async for row in rows_of(each)]) async for each in results]
        assert result == (binary, [(1,)])
