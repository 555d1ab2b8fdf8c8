"""Statements of many rows within a small `work_mem`: their keys are in files, and are checked as those of few."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest

from adapter.sessions.server import Server
from tests.adapter.harness import Client

Another = Callable[[], Awaitable[Client]]

ROWS = 40_000
NUMBERS = f"select n, 'the key of row ' || n from generate_series(1, {ROWS}) n"
STATISTICS = "select temp_files, temp_bytes from pg_stat_database where datname = current_database()"


@pytest.fixture
async def small(client: Client) -> Client:
    """A session of little memory, with a table of two keys."""
    await client.run("set work_mem = '64kB'; create table t (n int primary key, k text unique)")
    return client


async def files_of(server: Server) -> int:
    """What the only session has in files, once what has ended is gone; of errors the collector has to find it."""
    (backend,) = server.sessions.all()
    await asyncio.sleep(0.01)
    gc.collect()
    return backend.state.temporary_files.used


async def test_keys_are_in_files_until_the_commit(server: Server, small: Client) -> None:
    assert await small.rows(STATISTICS) == [(0, 0)]
    await small.run(f"begin; insert into t {NUMBERS}")
    # Numbers of four bytes, and texts of twenty with their places.
    assert await files_of(server) > ROWS * 20
    await small.run("commit")
    assert await files_of(server) == 0
    ((files, size),) = await small.rows(STATISTICS)
    assert files >= 5
    assert size > ROWS * 20
    assert await small.value("select count(*) from t") == ROWS


async def test_a_key_that_comes_again_much_later(server: Server, small: Client) -> None:
    for twice in ("n", "k"):
        own = {"n": "7, 'another'", "k": f"{ROWS + 7}, 'the key of row 7'"}[twice]
        error = await small.error(f"insert into t {NUMBERS} union all select {own}")
        assert (error.sqlstate, error.constraint) == ("23505", {"n": "t_pkey", "k": "t_k_key"}[twice])
        assert (
            error.detail
            == {"n": "Key (n)=(7) already exists.", "k": "Key (k)=(the key of row 7) already exists."}[twice]
        )

        del error
        assert await files_of(server) == 0
    assert await small.value("select count(*) from t") == 0


async def test_a_key_that_is_there_already(small: Client) -> None:
    await small.run(f"insert into t values ({ROWS - 3}, 'x')")
    error = await small.error(f"insert into t {NUMBERS}")
    assert (error.sqlstate, error.detail) == ("23505", f"Key (n)=({ROWS - 3}) already exists.")
    await small.run(f"delete from t; insert into t {NUMBERS}")
    error = await small.error(
        f"update t set k = 'the key of row 5' where n > {ROWS - 5000} and n < {ROWS - 4998} or n = 5"
    )
    assert (error.sqlstate, error.detail) == ("23505", "Key (k)=(the key of row 5) already exists.")
    await small.run("update t set n = n + 1, k = k || '.'")
    assert await small.value("select sum(n) from t where k like '%.'") == sum(range(2, ROWS + 2))


async def test_who_else_adds_one_of_the_keys(small: Client, another: Another) -> None:
    await small.run("create table many (n int primary key deferrable initially deferred)")
    await small.run(
        f"begin isolation level read committed; insert into many select n from generate_series(1, {ROWS}) n"
    )
    other = await another()
    await other.run(f"begin; insert into many values ({ROWS - 1})")
    await other.run("commit")
    error = await small.error("commit")
    assert (error.sqlstate, error.detail) == ("23505", f"Key (n)=({ROWS - 1}) already exists.")


@pytest.mark.parametrize("deferred", ["", "deferrable initially deferred"])
async def test_foreign_keys(server: Server, small: Client, deferred: str) -> None:
    await small.run(f"insert into t {NUMBERS}; create table c (k text references t (k) {deferred})")
    await small.run("insert into c select k from t")
    assert await files_of(server) == 0
    error = await small.error("insert into c select k || case when n = 39000 then '?' else '' end from t")
    assert (error.sqlstate, error.detail) == ("23503", 'Key (k)=(the key of row 39000?) is not present in table "t".')
    error = await small.error("delete from t")
    assert (error.sqlstate, error.message) == (
        "23503",
        'update or delete on table "t" violates foreign key constraint "c_k_fkey" on table "c"',
    )
    await small.run("delete from c where k <> 'the key of row 17'; delete from t where n <> 17")
    assert await small.rows("select * from t") == [(17, "the key of row 17")]


async def test_what_follows_many_keys(small: Client) -> None:
    await small.run(f"insert into t {NUMBERS}")
    await small.run("create table c (n int references t on update cascade on delete cascade)")
    await small.run("insert into c select n from t; update t set n = n + 1")
    assert await small.value("select sum(n) from c") == sum(range(2, ROWS + 2))
    await small.run("delete from t where n > 2")
    assert await small.rows("select n from c") == [(2,)]


async def test_conflicts_within_a_statement(server: Server, small: Client) -> None:
    twice = f"{NUMBERS} union all {NUMBERS}"
    assert await small.tag(f"insert into t {twice} on conflict do nothing") == f"INSERT 0 {ROWS}"
    assert await files_of(server) == 0
    assert await small.value("select sum(n) from t") == ROWS * (ROWS + 1) // 2
    changed = "on conflict (n) do update set k = excluded.k || '.'"
    assert await small.tag(f"insert into t {NUMBERS} {changed}") == f"INSERT 0 {ROWS}"
    error = await small.error(f"insert into t {twice} {changed}")
    assert (error.sqlstate, error.message) == (
        "21000",
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
    )
    assert await small.value("select count(*) from t where k like '%.'") == ROWS


async def test_the_limit_of_files(server: Server, small: Client) -> None:
    await small.run("set temp_file_limit = '256kB'")
    error = await small.error(f"insert into t {NUMBERS}")
    assert (error.sqlstate, error.message) == ("53400", "temporary file size exceeds temp_file_limit (256kB)")
    del error
    assert await files_of(server) == 0
    assert await small.value("select count(*) from t") == 0
    await small.run("set temp_file_limit = '20MB'")
    await small.run(f"insert into t {NUMBERS}")
    assert await small.value("select count(*) from t") == ROWS


async def test_returned_rows_and_cursors(server: Server, small: Client) -> None:
    rows = await small.rows(f"insert into t {NUMBERS} returning n")
    assert [n for (n,) in rows] == list(range(1, ROWS + 1))
    await small.run("begin; declare c scroll cursor with hold for select * from t order by n; commit")
    assert await files_of(server) > ROWS * 20
    assert await small.rows("fetch absolute 39999 from c") == [(39999, "the key of row 39999")]
    assert await small.rows("fetch backward 1 from c") == [(39998, "the key of row 39998")]
    await small.run("close c")
    assert await files_of(server) == 0


async def test_sessions_of_databases_are_counted(client: Client, another: Another) -> None:
    numbers = "select numbackends from pg_stat_database where datname = current_database()"
    assert await client.value(numbers) == 1
    await another()
    assert await client.value(numbers) == 2
    assert await client.rows("select datid, numbackends from pg_stat_database where datname is null") == [(0, None)]
