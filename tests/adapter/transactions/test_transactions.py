"""Transactions as a client sees them: query strings, blocks, savepoints, states, settings."""

from __future__ import annotations

from tests.adapter.harness import Client

ABORTED = "current transaction is aborted, commands ignored until end of transaction block"


async def test_a_query_string_is_one_transaction(client: Client) -> None:
    await client.run("create table t (a int)")
    error = await client.error("insert into t values (1); select 1/0; insert into t values (2)")
    assert error.sqlstate == "22012"
    assert client.status == "I"
    assert await client.value("select count(*) from t") == 0


async def test_begin_takes_over_the_statements_before_it(client: Client) -> None:
    await client.run("create table t (a int)")
    await client.run("insert into t values (1); begin; insert into t values (2)")
    assert client.status == "T"
    assert client.notices() == []
    await client.run("rollback")
    assert await client.value("select count(*) from t") == 0


async def test_commit_inside_a_query_string(client: Client) -> None:
    await client.run("create table t (a int)")
    error = await client.error("insert into t values (1); commit; insert into t values (2); select 1/0")
    assert error.sqlstate == "22012"
    assert client.notices() == ["WARNING: there is no transaction in progress"]
    assert await client.rows("select a from t") == [(1,)]


async def test_states_and_tags(client: Client) -> None:
    assert await client.tag("begin") == "BEGIN"
    assert client.status == "T"
    assert await client.tag("begin") == "BEGIN"
    assert client.notices() == ["WARNING: there is already a transaction in progress"]
    assert (await client.error("select nope")).sqlstate == "42703"
    assert client.status == "E"
    error = await client.error("select 1")
    assert (error.sqlstate, error.message) == ("25P02", ABORTED)
    assert (await client.error("select from where")).sqlstate == "42601"
    assert await client.tag("commit") == "ROLLBACK"
    assert client.status == "I"
    assert await client.tag("start transaction") == "START TRANSACTION"
    assert await client.tag("end") == "COMMIT"


async def test_savepoints_nest(client: Client) -> None:
    await client.run("create table t (a int)")
    await client.run("begin; insert into t values (1); savepoint a; insert into t values (2); savepoint b")
    await client.run("insert into t values (3); create table u (x int)")
    assert await client.value("select count(*) from t") == 3
    await client.run("rollback to b")
    assert (await client.error("select * from u")).sqlstate == "42P01"
    assert client.status == "E"
    await client.run("rollback to b")
    assert await client.value("select count(*) from t") == 2
    await client.run("rollback to a; insert into t values (9); release a; commit")
    assert await client.rows("select a from t order by a") == [(1,), (9,)]
    assert (await client.error("begin; rollback to nope")).message == 'savepoint "nope" does not exist'


async def test_what_needs_a_block(client: Client) -> None:
    for text in ("savepoint s", "release s", "rollback to s", "declare c cursor for select 1", "lock table pg_class"):
        assert (await client.error(text)).sqlstate == "25P01"
    assert (await client.error("select 1; savepoint s")).sqlstate == "25P01"
    for text in ("begin; vacuum", "select 1; discard all"):
        assert (await client.error(text)).sqlstate == "25001"
        await client.run("rollback")


async def test_own_writes_are_visible_and_nobody_elses(client: Client, another: object) -> None:
    other: Client = await another()  # type: ignore[operator]
    await client.run("create table t (a int, b text); insert into t values (1, 'x'), (2, 'y')")
    await client.run(
        "begin; update t set b = 'z' where a = 1; insert into t values (3, 'w'); delete from t where a = 2"
    )
    assert await client.rows("select * from t order by a") == [(1, "z"), (3, "w")]
    await client.run("update t set b = b || '!'; delete from t where a = 3")
    assert await client.rows("select * from t order by a") == [(1, "z!")]
    assert await other.rows("select * from t order by a") == [(1, "x"), (2, "y")]
    await client.run("commit")
    assert await other.rows("select * from t order by a") == [(1, "z!")]


async def test_rows_that_a_transaction_inserts_and_deletes_are_gone(client: Client) -> None:
    await client.run("create table t (a text)")
    await client.run("begin; insert into t values ('p'); delete from t; insert into t values ('q')")
    await client.run("update t set a = 'r'; insert into t values ('s'); delete from t where a = 's'")
    assert await client.rows("select a from t") == [("r",)]
    await client.run("commit")
    assert await client.rows("select a from t") == [("r",)]
    await client.run("insert into t values ('z'); update t set a = a || '!'; commit")
    assert await client.rows("select a from t order by a") == [("r!",), ("z!",)]


async def test_read_only_transactions(client: Client) -> None:
    await client.run("create table t (a int)")
    for text in ("insert into t values (1)", "update t set a = 1", "delete from t", "create table u (a int)",
                 "drop table t", "truncate t", "copy t from stdin", "create table u as select 1"):  # fmt: skip
        await client.run("begin read only")
        error = await client.error(text)
        assert error.sqlstate == "25006"
        assert error.message.startswith("cannot execute ")
        await client.run("rollback")


async def test_settings_follow_the_transaction(client: Client) -> None:
    await client.run("begin; set work_mem = '2MB'; rollback")
    assert await client.rows("show work_mem") == [("4MB",)]
    await client.run("begin; set work_mem = '2MB'; savepoint s; set work_mem = '3MB'; rollback to s; commit")
    assert await client.rows("show work_mem") == [("2MB",)]
    await client.run("begin; set local work_mem = '9MB'; select 1; commit")
    assert await client.rows("show work_mem") == [("2MB",)]
    await client.run("set local work_mem = '8MB'")
    assert client.notices() == ["WARNING: SET LOCAL can only be used in transaction blocks"]
    await client.run("reset work_mem")
    assert await client.rows("show work_mem") == [("4MB",)]


async def test_reported_settings(client: Client) -> None:
    first = dict(client.session.take_parameter_changes())
    assert first["server_version"].startswith("15.")
    assert first["client_encoding"] == "UTF8"
    assert client.session.take_parameter_changes() == []
    await client.run("set datestyle = 'german'; set timezone = 'Europe/Rome'; set timezone = 'Europe/Oslo'")
    assert dict(client.session.take_parameter_changes()) == {"DateStyle": "German, DMY", "TimeZone": "Europe/Oslo"}
    await client.run("begin; set timezone = 'UTC'")
    assert client.session.take_parameter_changes() == [("TimeZone", "UTC")]
    await client.run("rollback")
    assert client.session.take_parameter_changes() == [("TimeZone", "Europe/Oslo")]


async def test_ddl_is_transactional(client: Client, another: object) -> None:
    other: Client = await another()  # type: ignore[operator]
    await client.run("begin; create table t (a int); insert into t values (1); alter table t add b int default 5")
    assert await client.rows("select * from t") == [(1, 5)]
    assert (await other.error("select * from t")).sqlstate == "42P01"
    await client.run("rollback")
    assert (await client.error("select * from t")).sqlstate == "42P01"
    await client.run("begin; create table t as select 7 as a; create view v as select a + 1 as b from t; commit")
    assert await other.rows("select b from v") == [(8,)]


async def test_notifications(client: Client, another: object) -> None:
    other: Client = await another()  # type: ignore[operator]
    await client.run("listen c")
    pid = other.session.backend_pid
    await other.run("begin; notify c, 'a'; notify c, 'a'; notify c, 'b'; commit")
    await other.run("begin; notify c, 'never'; rollback")
    assert client.notified == [(pid, "c", "a"), (pid, "c", "b")]
    await client.run("begin")
    await other.run("notify c, 'later'")
    assert len(client.notified) == 2
    await client.run("commit")
    await client.session.deliver_notifications()
    assert client.notified[-1] == (pid, "c", "later")
    await client.run("unlisten *")
    await other.run("notify c")
    assert len(client.notified) == 3
