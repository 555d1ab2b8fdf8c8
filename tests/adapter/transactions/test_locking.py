"""Locks as SQL shows them: LOCK TABLE, advisory locks, what definitions and changes wait for, pg_locks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.adapter.harness import Client, Waiting, blocked

Another = Callable[[], Awaitable[Client]]


@pytest.fixture
async def pair(client: Client, another: Another) -> tuple[Client, Client]:
    await client.run("create table t (k int, v int); insert into t values (1, 10), (2, 20)")
    other = await another()
    for who in (client, other):
        await who.run("set default_transaction_isolation = 'read committed'")
    return client, other


# ------------------------------------------------------------ LOCK TABLE


async def test_lock_table_keeps_readers_waiting(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; lock table t")
    waiting = await blocked(two, "select sum(v) from t")
    await one.run("insert into t values (3, 30); commit")
    assert await waiting.result() == [[(60,)]]


@pytest.mark.parametrize(
    ("mode", "statement", "waits"),
    [
        ("access share", "select * from t", False),
        ("row exclusive", "insert into t values (3, 3)", False),
        ("share", "select * from t", False),
        ("share", "insert into t values (3, 3)", True),
        ("share", "delete from t", True),
        ("share row exclusive", "lock table t in share mode", True),
        ("exclusive", "select * from t", False),
        ("exclusive", "select * from t for share", True),
        ("access exclusive", "copy t to stdout", True),
        ("share update exclusive", "analyze t", True),
        ("access share", "alter table t add column w int", True),
        ("access share", "drop table t", True),
        ("access share", "truncate t", True),
        ("row exclusive", "create index on t (k)", True),
        ("share", "create index on t (k)", False),
        ("row exclusive", "comment on table t is 'x'", False),
        ("access exclusive", "explain select * from t", True),
        ("access exclusive", "create table u as select * from t", True),
        ("access exclusive", "declare c cursor for select * from t", True),
    ],
)
async def test_what_waits_for_what(pair: tuple[Client, Client], mode: str, statement: str, waits: bool) -> None:
    one, two = pair
    await one.run(f"begin; lock table t in {mode} mode")
    if statement.startswith(("lock", "declare")):
        await two.run("begin")
    waiting = Waiting(two, statement)
    assert await waiting.is_blocked() is waits
    await one.run("commit")
    await waiting.result()


async def test_lock_table_nowait(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; lock table t in share mode")
    error = await two.error("begin; lock table t in row exclusive mode nowait")
    assert (error.sqlstate, error.message) == ("55P03", 'could not obtain lock on relation "t"')


async def test_lock_table_of_a_view_locks_what_it_reads(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("create view w as select k from t; create view v as select * from w")
    await one.run("begin; lock table v in exclusive mode")
    waiting = await blocked(two, "insert into t values (5, 5)")
    await one.run("rollback")
    await waiting.result()


async def test_lock_table_errors(pair: tuple[Client, Client]) -> None:
    one, _ = pair
    assert (await one.error("lock table t")).sqlstate == "25P01"
    assert (await one.error("begin; lock table absent")).sqlstate == "42P01"
    await one.run("rollback; create sequence s")
    error = await one.error("begin; lock table s")
    assert (error.sqlstate, error.message) == ("42809", 'cannot lock relation "s"')


async def test_lock_table_comes_before_the_snapshot(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin isolation level repeatable read; lock table t in share mode")
    await one.run("commit; begin isolation level repeatable read; lock table t in access share mode")
    await two.run("insert into t values (3, 30)")
    assert await one.value("select count(*) from t") == 3
    await one.run("commit")


async def test_a_definition_is_seen_by_who_waited_for_it(pair: tuple[Client, Client]) -> None:
    one, two = pair
    for level in ("read committed", "serializable"):
        await one.run("begin; alter table t add column w int default 7")
        await two.run(f"begin isolation level {level}")
        waiting = await blocked(two, "select * from t order by k limit 1")
        await one.run("commit")
        assert await waiting.result() == [[(1, 10, 7)]]
        await two.run("commit")
        await one.run("alter table t drop column w")


async def test_a_definition_waits_for_a_block_and_fails_neither(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; insert into t values (5, 5)")
    waiting = await blocked(two, "alter table t add column w int")
    await one.run("insert into t values (6, 6); commit")
    await waiting.result()
    assert await two.value("select count(*) from t where w is null") == 4


async def test_waiting_for_a_table_that_is_dropped(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; drop table t")
    waiting = await blocked(two, "insert into t values (1, 1)")
    await one.run("commit")
    assert (await waiting.error()).sqlstate == "42P01"


async def test_locks_end_with_the_statement_outside_of_blocks(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("select * from t; insert into t values (3, 3); update t set v = 0")
    await two.run("drop table t")


async def test_a_failed_block_keeps_no_locks(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; lock table t")
    await one.error("select 1 / 0")
    assert await two.value("select count(*) from t") == 2
    await one.run("rollback")


async def test_a_failure_keeps_what_came_before_the_savepoint(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("create table u (a int)")
    await one.run("begin; lock table t; savepoint s; lock table u")
    await one.error("select 1 / 0")
    assert await two.value("select count(*) from u") == 0
    waiting = await blocked(two, "select count(*) from t")
    await one.run("rollback to s; commit")
    await waiting.result()


async def test_rollback_to_savepoint_lets_go(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; savepoint s; lock table t; rollback to s")
    assert await two.value("select count(*) from t") == 2
    await one.run("lock table t; release s")
    waiting = await blocked(two, "select count(*) from t")
    await one.run("commit")
    await waiting.result()


async def test_a_session_that_ends_lets_go(pair: tuple[Client, Client], another: Another) -> None:
    one, two = pair
    third = await another()
    await third.run("begin; lock table t")
    waiting = await blocked(two, "select count(*) from t")
    await third.session.close()
    await waiting.result()
    await one.run("select 1")


# ------------------------------------------------------------ how a wait ends


async def test_lock_timeout(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; lock table t")
    await two.run("set lock_timeout = '20ms'")
    error = await two.error("select * from t")
    assert (error.sqlstate, error.message) == ("55P03", "canceling statement due to lock timeout")
    assert two.status == "I"


async def test_statement_timeout_while_waiting(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; lock table t")
    await two.run("set statement_timeout = '20ms'")
    error = await two.error("select * from t")
    assert (error.sqlstate, error.message) == ("57014", "canceling statement due to statement timeout")


async def test_cancel_while_waiting(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; lock table t in share mode")
    waiting = await blocked(two, "insert into t values (9, 9)")
    two.session.cancel()
    assert (await waiting.error()).sqlstate == "57014"
    await one.run("lock table t; commit")
    assert await two.value("select count(*) from t") == 2


async def test_deadlock(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("create table u (a int); set deadlock_timeout = '20ms'")
    await two.run("set deadlock_timeout = '100s'")
    await one.run("begin; lock table t")
    await two.run("begin; lock table u")
    waiting = await blocked(two, "lock table t")
    error = await one.error("lock table u")
    assert (error.sqlstate, error.message) == ("40P01", "deadlock detected")
    assert error.detail is not None
    first, second = error.detail.splitlines()
    mine, other = one.session.backend_pid, two.session.backend_pid
    assert first.startswith(f"Process {mine} waits for AccessExclusiveLock on relation ")
    assert first.endswith(f"; blocked by process {other}.")
    assert second.startswith(f"Process {other} waits for AccessExclusiveLock on relation ")
    assert error.hint == "See server log for query details."
    await waiting.result()
    await two.run("commit")


# ------------------------------------------------------------ advisory locks


async def test_advisory_locks_of_sessions(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; select pg_advisory_lock(7); rollback; select pg_advisory_lock(7)")
    assert await two.value("select pg_try_advisory_lock(7)") is False
    assert await two.value("select pg_try_advisory_lock_shared(7)") is False
    assert await two.value("select pg_try_advisory_lock(0, 7)") is True
    waiting = await blocked(two, "select pg_advisory_lock(7)")
    assert await one.value("select pg_advisory_unlock(7)") is True
    assert await waiting.is_blocked()
    assert await one.value("select pg_advisory_unlock(7)") is True
    await waiting.result()
    assert await one.value("select pg_advisory_unlock(7)") is False
    assert one.notices() == ["WARNING: you don't own a lock of type ExclusiveLock"]
    await two.run("select pg_advisory_unlock_all()")
    assert await one.value("select pg_try_advisory_lock(7)") is True


async def test_advisory_locks_of_transactions(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; select pg_advisory_xact_lock(-1), pg_advisory_xact_lock_shared(1, -2)")
    assert await two.value("select pg_try_advisory_xact_lock(-1)") is False
    assert await two.value("select pg_try_advisory_xact_lock_shared(1, -2)") is True
    waiting = await blocked(two, "select pg_advisory_xact_lock(1, -2)")
    await one.run("commit")
    await waiting.result()
    assert await one.value("select pg_try_advisory_lock(1, -2)") is True


async def test_advisory_locks_row_by_row(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("select pg_advisory_lock(k) from t")
    assert await two.rows("select k, pg_try_advisory_lock(k) from t order by k") == [(1, False), (2, False)]


async def test_discard_all_lets_go_of_advisory_locks(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("select pg_advisory_lock(1)")
    await one.run("discard all")
    assert await two.value("select pg_try_advisory_lock(1)") is True


async def test_cancelling_the_wait_for_an_advisory_lock(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("select pg_advisory_lock(1)")
    waiting = await blocked(two, "select pg_advisory_lock(1)")
    two.session.cancel()
    assert (await waiting.error()).sqlstate == "57014"
    await one.run("select pg_advisory_unlock(1)")
    assert await one.value("select pg_try_advisory_lock(1)") is True


# ------------------------------------------------------------ who waits for whom


async def test_pg_locks(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; lock table t in share mode; select pg_advisory_lock(4294967298), pg_advisory_lock(-1, 3)")
    waiting = await blocked(two, "insert into t values (9, 9)")
    shown = await one.rows(
        "select locktype, relation::regclass::text, classid, objid, objsubid, mode, granted, waitstart is not null"
        " from pg_locks where locktype in ('relation', 'advisory') order by locktype, granted desc, objsubid"
    )
    assert shown == [
        ("advisory", None, 1, 2, 1, "ExclusiveLock", True, False),
        ("advisory", None, 4294967295, 3, 2, "ExclusiveLock", True, False),
        ("relation", "t", None, None, None, "ShareLock", True, False),
        ("relation", "t", None, None, None, "RowExclusiveLock", False, True),
    ]
    mine, other = one.session.backend_pid, two.session.backend_pid
    assert await one.rows(f"select pg_blocking_pids({other}), pg_blocking_pids({mine})") == [([mine], [])]
    asked = f"select pg_isolation_test_session_is_blocked({other}, array[{mine}]),"
    asked += f" pg_isolation_test_session_is_blocked({other}, array[{other}])"
    assert await one.rows(asked) == [(True, False)]
    activity = "select wait_event_type, wait_event, state from pg_stat_activity where pid = "
    assert await one.rows(f"{activity}{other}") == [("Lock", "relation", "active")]
    assert await one.rows(f"{activity}{mine}") == [(None, None, "active")]
    await one.run("commit")
    await waiting.result()
    assert await one.rows(f"{activity}{other}") == [("Client", "ClientRead", "idle")]
    assert await one.value("select count(*) from pg_locks where locktype = 'relation'") == 0
    own = "select locktype, mode, virtualxid = virtualtransaction from pg_locks where locktype = 'virtualxid'"
    assert await one.rows(own) == [("virtualxid", "ExclusiveLock", True)]


# ------------------------------------------------------------ what goes on beside others


async def test_a_shared_row_is_had_beside_those_who_wait_for_it_alone(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("create table j (id int primary key); insert into j values (1)")
    await one.run("begin; select * from j for share")
    waiting = await blocked(two, "begin; select * from j for update")
    assert await one.run("select * from j for key share") == [[(1,)]]
    await one.run("rollback")
    assert await waiting.result() == ["BEGIN", [(1,)]]


async def test_key_share_shows_the_row_that_the_statement_found(client: Client, another: Another) -> None:
    two = await another()
    await client.run("create table j (id int primary key, v int); insert into j values (1, 1)")
    await client.run("begin isolation level repeatable read; select 1 from j")
    await two.run("update j set v = 2")
    assert await client.run("select * from j for key share") == [[(1, 1)]]
    error = await client.error("select * from j for share")
    assert error.sqlstate == "40001"


async def test_key_share_of_a_key_that_has_changed(client: Client, another: Another) -> None:
    two = await another()
    await client.run("create table j (id int primary key, v int); insert into j values (1, 1)")
    await client.run("begin isolation level repeatable read; select 1 from j")
    await two.run("update j set id = 2")
    error = await client.error("select * from j for key share")
    assert error.sqlstate == "40001"


async def test_nextval_and_alter_sequence_wait_for_each_other(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("create sequence s")
    await one.run("begin; alter sequence s restart with 7")
    waiting = await blocked(two, "begin; select nextval('s')")
    await one.run("commit")
    assert await waiting.result() == ["BEGIN", [(7,)]]
    altering = await blocked(one, "alter sequence s maxvalue 8")
    await two.run("commit")
    await altering.result()
    assert await one.run("select nextval('s')") == [[(8,)]]


async def test_who_has_read_a_table_writes_to_it_beside_a_new_foreign_key(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("create table p (id int primary key); create table c (p int); insert into p values (1)")
    await two.run("begin; select * from c")
    await one.run("alter table c add constraint f foreign key (p) references p not valid")
    await two.run("insert into c values (1); commit")
    await two.run("begin; insert into c values (1)")
    validating = Waiting(one, "alter table c validate constraint f")
    assert not await validating.is_blocked()
    await validating.result()
    await two.run("commit")


async def test_a_broken_row_keeps_a_constraint_from_being_validated(pair: tuple[Client, Client]) -> None:
    one, _ = pair
    await one.run("create table c (p int); insert into c values (-1)")
    await one.run("alter table c add constraint positive check (p > 0) not valid")
    assert (await one.error("alter table c validate constraint positive")).sqlstate == "23514"


@pytest.mark.parametrize("level", ["read committed", "serializable"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("drop table t cascade", "drop table u cascade"),
        ("drop view joined cascade", "drop table u cascade"),
        ("drop schema s cascade", "drop table u cascade"),
        ("drop table u cascade", "drop schema s cascade"),
        ("alter table names_u add column w int", "drop table u cascade"),
    ],
)
async def test_dropping_what_depends_waits_for_it(
    pair: tuple[Client, Client], level: str, first: str, second: str
) -> None:
    one, two = pair
    await one.run(
        "create schema s; create table u (k int primary key); create view joined as select t.k from t, u;"
        "create view s.beyond as select k from joined; create table names_u (k int references u)"
    )
    await one.run(f"begin; {first}")
    await two.run(f"begin isolation level {level}")
    waiting = await blocked(two, second)
    await one.run("commit")
    await waiting.result()
    await two.run("create table again (k int); commit")
    assert await two.value("select count(*) from pg_class where relname in ('beyond', 'again')") == 1
    await two.run("drop table again")


@pytest.mark.parametrize("level", ["read committed", "serializable"])
@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("create schema made", "42P06"),
        ("create schema if not exists made", ""),
        ("create table made (k int)", "42P07"),
        ("create table if not exists made (k serial)", ""),
        ("create table made as select 1 as k", "42P07"),
        ("create view made as select 1 as k", "42P07"),
        ("create or replace view made as select 1 as k", ""),
        ("create sequence made", "42P07"),
        ("create type made as enum ('x')", "42710"),
        ("create domain made as int", "42710"),
        ("create index made on t (k)", "42P07"),
        ("create index if not exists made on t (k)", ""),
        ("create role made", "42710"),
        ("alter table public.made_before rename to made", "42P01"),
    ],
)
async def test_a_name_is_given_once(pair: tuple[Client, Client], level: str, statement: str, sqlstate: str) -> None:
    one, two = pair
    await one.run("create table made_before (k int)")
    await one.run(f"begin; {statement}")
    await two.run(f"begin isolation level {level}")
    waiting = await blocked(two, statement)
    assert await one.value("select count(*) from pg_locks where locktype = 'object' and not granted") == 1
    await one.run("commit")
    if sqlstate:
        assert (await waiting.error()).sqlstate == sqlstate
    else:
        await waiting.result()
    await two.run("commit")


async def test_a_name_is_free_when_its_maker_rolls_back(pair: tuple[Client, Client]) -> None:
    one, two = pair
    await one.run("begin; create table made (k int)")
    waiting = await blocked(two, "create table made (k text)")
    await one.run("rollback")
    await waiting.result()
    assert await one.rows("select * from made") == []
