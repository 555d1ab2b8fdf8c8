"""pg_stat_statements: what it counts, beside PostgreSQL's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest

from tests.support.postgres import PostgresServer, start_postgres
from tests.support.server import TidegateServer, run_server

WORKERS = ("--spark-start", "lazy", "--workers", "2", "--set", "pg_stat_statements.max=100")

STATEMENTS = """
select 1
select   1
select 'x', 1.5, null, true
select a, -1, 5 from t where b = 'x' and a in (1,2,3) order by 1 limit 5
select interval '1 day', date '2020-01-01', 1::int, '{1}'::int[]
insert into t values (1,'x'),(2,'y')
insert into t values (1,'x')
insert into t values (7,'x')
update t set a = a + 1 where b like 'y%'
select * from t where a = '1'
SELECT * FROM t WHERE a=1 -- the same
select a from t group by a having count(*) > 1
create table u as select 1 as x
begin
select 2
commit
set work_mem = '8MB'
prepare p as select * from t where a = $1 and b = 'k'
execute p(1)
execute p(2)
deallocate p
declare c cursor with hold for select generate_series(1,10)
fetch 5 from c
close c
explain select 1
with x as (select 1 as n) select n + 10 from x
select '2020-01-01'::timestamp at time zone 'utc'
create function f(int) returns int language sql volatile as 'select count(*)::int + $1 from t'
select f(1)
select a from t where a between 1 and 3 union all select 4
values (1,2)
select 'a$1' as "b$2" /* $3 */
merge into t using u on t.a = u.x when matched then update set b = 'm'
delete from t where a = 7
create role mallory password 'secret'
drop role mallory
"""


@pytest.fixture(scope="module")
def oracle() -> Iterator[PostgresServer]:
    with start_postgres(settings=("shared_preload_libraries=pg_stat_statements",)) as running:
        yield running


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    with run_server(tmp_path_factory.mktemp("counting") / "data", arguments=WORKERS) as running:
        yield running


@pytest.fixture
def session(counting: TidegateServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(counting.dsn(), autocommit=True) as connection:
        connection.execute("create extension if not exists pg_stat_statements")
        connection.execute("set pg_stat_statements.track = top")
        connection.execute("select pg_stat_statements_reset()")
        yield connection


def counted(connection: psycopg.Connection[Any], condition: str = "true") -> list[tuple[Any, ...]]:
    asked = f"select query, calls, rows, toplevel from pg_stat_statements where {condition} order by 1"
    return connection.execute(asked.encode()).fetchall()


def test_statements_as_postgresql_counts_them(session: psycopg.Connection[Any], oracle: PostgresServer) -> None:
    shown = []
    with psycopg.connect(oracle.dsn(), autocommit=True) as theirs:
        theirs.execute("create extension pg_stat_statements")
        for connection in (theirs, session):
            connection.execute("create table t (a int, b text)")
            connection.execute("select pg_stat_statements_reset()")
            for statement in STATEMENTS.strip().splitlines():
                connection.execute(statement.encode(), prepare=False)
            shown.append(counted(connection))
        columns = "select * from pg_stat_statements limit 0", "select * from pg_stat_statements_info limit 0"
        for asked in columns:
            ours, other = (each.execute(asked.encode()).description or () for each in (session, theirs))
            assert [(column.name, column.type_code) for column in ours] == [
                (column.name, column.type_code) for column in other
            ]
    hidden = [(query.replace("'secret'", "'********'"), *rest) for query, *rest in shown[0]]
    assert sorted(shown[1]) == sorted(hidden)
    session.execute("drop table t, u")


def test_times_and_ids(session: psycopg.Connection[Any]) -> None:
    for _ in range(3):
        session.execute("select pg_sleep(0.05)")
    row = session.execute(
        "select calls, min_exec_time >= 50, max_exec_time >= mean_exec_time, mean_exec_time >= min_exec_time, "
        "abs(total_exec_time - 3 * mean_exec_time) < 0.001, stddev_exec_time <= max_exec_time - min_exec_time, "
        "userid = 'postgres'::regrole, dbid = (select oid from pg_database where datname = current_database()), "
        "queryid <> 0, plans, wal_bytes from pg_stat_statements where query like '%sleep%' and calls = 3"
    ).fetchone()
    assert row == (3, True, True, True, True, True, True, True, True, 0, 0)
    asked = "select a.query_id = s.queryid from pg_stat_activity a, pg_stat_statements s "
    asked += "where pid = pg_backend_pid() and s.query like '%backend_pid%'"
    assert session.execute(asked.encode()).fetchall() == []
    assert session.execute(asked.encode()).fetchall() == [(True,)]


def test_inside_functions(session: psycopg.Connection[Any]) -> None:
    session.execute("create table k (a int)")
    session.execute(
        "create function add(int) returns bigint language sql volatile as "
        "'insert into k values ($1); select count(*) from k where a > 0'"
    )
    session.execute("select add(1)")
    assert counted(session, "query like '%k%'")[1:] == [
        ("create table k (a int)", 1, 0, True),
    ]
    session.execute("set pg_stat_statements.track = 'all'")
    session.execute("select add(2)")
    session.execute("select add(3)")
    assert counted(session, "not toplevel") == [
        ("insert into k values ($1)", 2, 2, False),
        ("select count(*) from k where a > $1", 2, 2, False),
    ]
    session.execute("set pg_stat_statements.track = 'none'")
    session.execute("select 'not counted', 1, 2, 3, 4")
    session.execute("set pg_stat_statements.track = 'top'")
    session.execute("set pg_stat_statements.track_utility = off")
    session.execute("set work_mem = '16MB'")
    session.execute("reset pg_stat_statements.track_utility")
    assert counted(session, "query like 'select $1, $2, $3, $4, $5' or query like 'set work%'") == []
    session.execute("drop function add; drop table k")


def test_workers_are_added_up_and_reset_together(counting: TidegateServer, session: psycopg.Connection[Any]) -> None:
    others = [psycopg.connect(counting.dsn(), autocommit=True) for _ in range(4)]
    assert {other.info.backend_pid % 2 for other in others} == {0, 1}
    for number, other in enumerate(others):
        other.execute(f"select 'of all', {number}".encode())
    assert counted(session, "query = 'select $1, $2'") == [("select $1, $2", 4, 4, True)]
    since = "select stats_reset from pg_stat_statements_info"
    before = session.execute(since.encode()).fetchone()
    session.execute("select pg_stat_statements_reset(userid, dbid, queryid) from pg_stat_statements "
                    "where query = 'select $1, $2'")  # fmt: skip
    assert counted(session, "query = 'select $1, $2'") == []
    assert session.execute(since.encode()).fetchone() == before
    others[0].execute("select pg_stat_statements_reset()")
    assert [query for query, *_ in counted(others[1])] == ["select pg_stat_statements_reset()"]
    assert session.execute(since.encode()).fetchone() != before
    for other in others:
        other.close()


def test_there_are_never_too_many(session: psycopg.Connection[Any]) -> None:
    for _ in range(20):
        session.execute("select 'often'")
    for number in range(250):
        session.execute(f"select 1 as column_{number}".encode())
    found = counted(session)
    # Two workers, a hundred each.
    assert 90 < len(found) <= 200
    assert any(query == "select $1" and calls >= 20 for query, calls, *_ in found)
    (forgotten,) = session.execute("select dealloc from pg_stat_statements_info").fetchone() or (0,)
    assert forgotten > 0
    large = "select 1 in (" + ", ".join(f"{number}" for number in range(20_000)) + ")"
    session.execute(large.encode())
    for _ in range(100):
        if counted(session, "length(query) = 65536 and calls = 1"):
            break
    else:
        raise AssertionError("a long statement is not counted")


def test_who_may_see_and_reset(counting: TidegateServer, session: psycopg.Connection[Any]) -> None:
    session.execute("create role plain login; create role watcher login in role pg_monitor")
    plain, watcher = (
        psycopg.connect(counting.dsn().replace("user=postgres", f"user={user}"), autocommit=True)
        for user in ("plain", "watcher")
    )
    session.execute("select 'secret', 'x', 'y'")
    plain.execute("select 5, 6")
    assert [query for query, *_ in counted(plain, "query <> '<insufficient privilege>'")] == ["select $1, $2"]
    assert plain.execute("select count(*) > 0 from pg_stat_statements where queryid is null").fetchone() == (True,)
    assert counted(watcher, "query = 'select $1, $2, $3'") == [("select $1, $2, $3", 1, 1, True)]
    assert plain.execute("select count(query) from pg_stat_statements(false)").fetchone() == (0,)
    for refused in (
        "select pg_stat_statements_reset()",
        "select tidegate.reset_statement_statistics(0, 0, 0)",
        "set pg_stat_statements.track = 'none'",
        "create extension pg_stat_statements schema pg_temp",
    ):
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.DuplicateObject)):
            plain.execute(refused.encode())
    session.execute("grant execute on function pg_stat_statements_reset to plain")
    plain.execute("select pg_stat_statements_reset()")
    assert counted(session, "query = 'select $1, $2, $3'") == []
    for setting, state in (
        ("pg_stat_statements.max = 200", psycopg.errors.CantChangeRuntimeParam),
        ("pg_stat_statements.save = on", psycopg.errors.CantChangeRuntimeParam),
        ("pg_stat_statements.track_planning = on", psycopg.errors.FeatureNotSupported),
        ("pg_stat_statements.track = few", psycopg.errors.InvalidParameterValue),
    ):
        with pytest.raises(state):
            session.execute(f"set {setting}".encode())
    plain.close()
    watcher.close()
    session.execute("drop owned by plain")
    session.execute("drop role plain, watcher")


async def test_a_portal_that_is_fetched_in_parts_is_one_call(counting: TidegateServer) -> None:
    connection = await asyncpg.connect(host=counting.host, port=counting.port, user="postgres", database="postgres")
    await connection.execute("create extension if not exists pg_stat_statements")
    await connection.execute("select pg_stat_statements_reset()")
    async with connection.transaction():
        rows = [row async for row in connection.cursor("select g from generate_series(1, 20) g", prefetch=6)]
    assert len(rows) == 20
    found = await connection.fetch("select calls, rows from pg_stat_statements where query like '%generate_series%'")
    assert [tuple(row) for row in found] == [(1, 20)]
    await connection.close()


def test_the_extension_comes_moves_and_goes(counting: TidegateServer, session: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.DependentObjectsStillExist, match="extension pg_stat_statements requires it"):
        session.execute("drop view pg_stat_statements")
    members = (
        "select pg_describe_object(classid, objid, 0) from pg_depend where refobjid = %s and deptype = 'e' order by 1"
    )
    (oid,) = session.execute("select oid from pg_extension where extname = 'pg_stat_statements'").fetchone() or (0,)
    assert [what for (what,) in session.execute(members.encode(), (oid,))] == [
        "function pg_stat_statements(boolean)",
        "function pg_stat_statements_info()",
        "function pg_stat_statements_reset(oid,oid,bigint)",
        "view pg_stat_statements",
        "view pg_stat_statements_info",
    ]
    session.execute("create schema s; create table s.pg_stat_statements_info (a int)")
    with pytest.raises(psycopg.errors.DuplicateTable):
        session.execute("alter extension pg_stat_statements set schema s")
    session.execute("drop table s.pg_stat_statements_info")
    session.execute("alter extension pg_stat_statements set schema s")
    assert session.execute("select count(*) > 0 from s.pg_stat_statements").fetchone() == (True,)
    session.execute("set engine = 'spark'")
    assert session.execute("select calls from s.pg_stat_statements where query like 'alter%'").fetchone() == (1,)
    session.execute("reset engine")
    session.execute("drop extension pg_stat_statements; drop schema s")
    session.execute("select 'nobody', 'wants', 'to', 'know', 1")
    session.execute("create extension pg_stat_statements")
    assert counted(session, "query = 'select $1, $2, $3, $4, $5'") == []
