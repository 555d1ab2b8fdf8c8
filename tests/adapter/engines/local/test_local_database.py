"""The local engine's cursors keep plans, and a kept plan is never out of date."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from adapter.engines.local import database as local_database
from adapter.engines.local.database import INVALIDATED, Cursor, LocalDatabase
from adapter.sessions.server import Server
from tests.adapter.harness import connect


@pytest.fixture
def cursor(tmp_path: Path) -> Iterator[Cursor]:
    database = LocalDatabase(directories=(), scratch=tmp_path, memory_limit="256MB")
    cursor = database.acquire()
    cursor.connection.execute("CREATE TABLE t (_part INTEGER, v INTEGER)")
    cursor.connection.execute("INSERT INTO t SELECT 0, range FROM range(10)")
    yield cursor
    database.release(cursor)
    database.close()


def rows(cursor: Cursor, sql: str) -> int:
    count: int = cursor.stream(sql, 8192).read_all().num_rows
    return count


def kept(cursor: Cursor) -> int:
    return len(cursor.connection.execute("SELECT name FROM duckdb_prepared_statements()").fetchall())


def test_a_plan_is_kept_from_the_second_run_on(cursor: Cursor) -> None:
    sql = "SELECT v FROM t WHERE v < 3"
    assert [(rows(cursor, sql), kept(cursor)) for _ in range(3)] == [(3, 0), (3, 1), (3, 1)]


def test_a_condition_that_all_rows_met_still_counts_when_other_rows_have_come(cursor: Cursor) -> None:
    sql = "SELECT v FROM t WHERE _part <= 0"
    assert [rows(cursor, sql) for _ in range(3)] == [10, 10, 10]
    assert kept(cursor) == 1
    cursor.connection.execute("INSERT INTO t SELECT 1, range FROM range(10)")
    assert rows(cursor, sql) == 10


def test_no_more_plans_are_kept_than_allowed(cursor: Cursor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor._prepared, "max_entries", 2)
    for limit in range(5):
        sql = f"SELECT v FROM t WHERE v < {limit}"
        assert [rows(cursor, sql) for _ in range(2)] == [limit, limit]
    assert kept(cursor) == 2


def test_texts_that_carry_data_are_not_kept(cursor: Cursor) -> None:
    sql = f"SELECT v FROM t WHERE v < 3 AND '{'x' * local_database.MAX_PREPARED_CHARS}' <> ''"
    assert [rows(cursor, sql) for _ in range(3)] == [3, 3, 3]
    assert kept(cursor) == 0


def test_rows_that_could_not_be_offered_are_offered_the_next_time(cursor: Cursor) -> None:
    connection = cursor.connection

    class Interrupted:
        """The connection, whose statement is cancelled while rows are made known to it."""

        def register(self, name: str, source: object) -> None:
            raise duckdb.InterruptException("Interrupted!")

    cursor.connection = Interrupted()
    with pytest.raises(duckdb.InterruptException):
        cursor.offer("offered", pa.table({"v": [1, 2]}))
    cursor.connection = connection
    cursor.withdraw("offered")
    cursor.offer("offered", pa.table({"v": [1, 2, 3]}))
    assert rows(cursor, "SELECT v FROM offered") == 3


LOST_COLUMN = """
SELECT 1 FROM (SELECT a.range, b.range FROM range(2) b CROSS JOIN range(2) a) t(c0, c1)
CROSS JOIN LATERAL (
    WITH w(c0) AS NOT MATERIALIZED (
        SELECT 0 FROM range(1) g(c0)
        CROSS JOIN LATERAL (
            SELECT sum(c0), count(DISTINCT c0) FROM range(3) h(c0)
            WHERE t.c1 BETWEEN 1 AND greatest(h.c0, t.c1) AND t.c1 > nullif(t.c1, t.c0)
        ) i(c0, c1)
        WHERE g.c0 IS NULL AND 3 > g.c0
    )
    SELECT y.c0, x.c0 FROM w x CROSS JOIN w y
) l(c0, c1)
"""
"""What DuckDB 2.0.0's optimizer loses a column of."""


def test_what_the_optimizer_fails_on_is_run_without_it(cursor: Cursor) -> None:
    with pytest.raises(duckdb.InternalException):
        cursor.connection.execute(LOST_COLUMN)
    assert rows(cursor, LOST_COLUMN) == 0
    assert cursor.spent


class GivenUp:
    """A connection to a database that the engine has given up."""

    def execute(self, sql: str) -> None:
        raise duckdb.FatalException(f"FATAL Error: Failed: {INVALIDATED} ({sql})")


def test_a_database_that_the_engine_gives_up_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = LocalDatabase(directories=(), scratch=tmp_path, memory_limit="256MB")
    bug = duckdb.InternalException("INTERNAL Error: a column is lost")
    found = [database.is_lost_before(bug), database.is_broken]
    with monkeypatch.context() as broken:
        broken.setattr(database, "_root", GivenUp())
        found += [database.is_lost_before(duckdb.ConversionException("Conversion Error: no number"))]
        found += [database.is_broken]
        # As it comes while a result streams.
        found += [database.is_lost_before(OSError(f"Invalid: {bug}")), database.is_broken]
        found += [database.is_lost_before(duckdb.FatalException(f"FATAL Error: Failed: {INVALIDATED}"))]
    database.close()
    assert found == [False, False, False, False, False, True, True]


def lost(database: LocalDatabase, error: BaseException) -> bool:
    """What `is_lost_before` finds when the engine has given up its database."""
    database.is_broken = True
    return INVALIDATED in str(error)


async def test_another_database_takes_the_place_of_one_that_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect(server)
    await client.run("set engine = local")
    query = "select count(*) from generate_series(1, 10) g order by random()"
    assert await client.value(query) == 10
    before = set(server._scratch.path.glob("local/*"))
    with monkeypatch.context() as broken:
        broken.setattr(Cursor, "_submit", lambda *_: GivenUp().execute("SELECT 1"))
        broken.setattr(LocalDatabase, "is_lost_before", lost)
        assert (await client.error(query)).sqlstate == "XX000"
    assert await client.value(query) == 10
    assert set(server._scratch.path.glob("local/*")) - before


async def test_a_statement_whose_database_another_one_has_taken_runs_in_the_next(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect(server)
    await client.run("set engine = local")
    query = "select count(*) from generate_series(1, 10) g order by random()"
    real, calls = Cursor._submit, []

    def submit(cursor: Cursor, *args: Any) -> Any:
        calls.append(args)
        return GivenUp().execute("SELECT 1") if len(calls) == 1 else real(cursor, *args)

    monkeypatch.setattr(Cursor, "_submit", submit)
    monkeypatch.setattr(LocalDatabase, "is_lost_before", lost)
    assert await client.value(query) == 10
    assert len(calls) == 2
