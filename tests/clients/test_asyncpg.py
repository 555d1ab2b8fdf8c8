"""asyncpg against a real server process: everything binary, prepared statements, cursors, COPY, LISTEN."""

from __future__ import annotations

import asyncio
import datetime
import io
import uuid
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import asyncpg
import pytest

from tests.support.server import TidegateServer


async def _connect(server: TidegateServer) -> Any:
    return await asyncpg.connect(host=server.host, port=server.port, user="postgres", database="postgres")


@pytest.fixture
async def connection(server: TidegateServer) -> AsyncIterator[Any]:
    opened = await _connect(server)
    await opened.execute("DROP SCHEMA IF EXISTS asyncpg CASCADE; CREATE SCHEMA asyncpg; SET search_path = asyncpg")
    yield opened
    await opened.close()


async def test_types_go_both_ways(connection: Any) -> None:
    await connection.execute(
        "CREATE TABLE t (a int, b text, c bool, d date, e timestamptz, f float8, g bigint, n numeric, u uuid, y bytea,"
        " i interval, l int[], j jsonb)"
    )
    row = (
        1, "zwei", True, datetime.date(2020, 2, 29), datetime.datetime(2021, 1, 2, 3, 4, 5, 678901, datetime.UTC), 1.5,
        2**40, Decimal("12.345"), uuid.UUID(int=7), b"\x00\xff", datetime.timedelta(days=2, seconds=3), [1, None, 3],
        '{"a": 1}',
    )  # fmt: skip
    marks = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    back = await connection.fetchrow(f"INSERT INTO t VALUES ({marks}) RETURNING *", *row)
    assert tuple(back)[:7] == row[:7]
    assert back["n"] == row[7]
    assert tuple(back)[8:12] == row[8:12]
    nothing = await connection.fetchrow(f"INSERT INTO t VALUES ({marks}) RETURNING *", *[None] * len(row))
    assert set(nothing) == {None}


async def test_prepared_statements(connection: Any) -> None:
    await connection.execute("CREATE TABLE t (a int, b text)")
    await connection.executemany("INSERT INTO t VALUES ($1, $2)", [(n, str(n)) for n in range(50)])
    statement = await connection.prepare("SELECT a, b FROM t WHERE a = ANY($1) ORDER BY a")
    assert [p.name for p in statement.get_parameters()] == ["int4[]"]
    assert [attribute.name for attribute in statement.get_attributes()] == ["a", "b"]
    assert [tuple(r) for r in await statement.fetch([3, 4, 99])] == [(3, "3"), (4, "4")]
    star = await connection.prepare("SELECT * FROM t")
    await connection.execute("ALTER TABLE t ADD COLUMN c int")
    with pytest.raises(asyncpg.InvalidCachedStatementError):
        await star.fetch()


async def test_parameters_are_of_domains_and_records(connection: Any) -> None:
    await connection.execute("CREATE DOMAIN small AS int CHECK (value < 10); CREATE TABLE t (a small, b int)")
    for query in ("SELECT $1::small", "INSERT INTO t (a) VALUES ($1)", "UPDATE t SET a = $1"):
        statement = await connection.prepare(query)
        known = "SELECT parameter_types::text FROM pg_prepared_statements WHERE statement = $1"
        assert await connection.fetchval(known, query) == "{small}"
        await statement.fetch(9)
        with pytest.raises(asyncpg.CheckViolationError):
            await statement.fetch(10)
    assert [p.name for p in (await connection.prepare("SELECT a = $1 FROM t")).get_parameters()] == ["int4"]
    assert [p.name for p in (await connection.prepare("SELECT (1, 'a') = $1")).get_parameters()] == ["record"]
    assert await connection.fetchval("SELECT (1, 'a') = $1", None) is None
    assert await connection.fetchval("SELECT $1::small[]", [1, None]) == [1, None]
    assert await connection.fetchval('SELECT $1::"char"', b"\0") == b"\0"


async def test_explain(connection: Any) -> None:
    await connection.execute("CREATE TABLE t (a int)")
    statement = await connection.prepare("INSERT INTO t SELECT $1::int")
    (plan,) = await statement.explain(1, analyze=True)
    assert (plan["Plan"]["Operation"], plan["Plan"]["Relation Name"]) == ("Insert", "t")
    assert plan["Plan"]["Actual Total Time"] >= plan["Plan"]["Actual Startup Time"] > 0
    assert await connection.fetch("SELECT * FROM t") == []


async def test_cursors(connection: Any) -> None:
    async with connection.transaction():
        seen = [r[0] async for r in connection.cursor("SELECT g FROM generate_series(1, 100) g", prefetch=9)]
        assert seen == list(range(1, 101))
        cursor = await connection.cursor("SELECT g FROM generate_series(1, 100) g")
        assert len(await cursor.fetch(5)) == 5
        assert await cursor.forward(3) == 3
        assert (await cursor.fetchrow())[0] == 9


async def test_copy(connection: Any) -> None:
    await connection.execute("CREATE TABLE t (a int, b text)")
    records = [(n, f"row {n}") for n in range(2000)]
    assert await connection.copy_records_to_table("t", records=records, schema_name="asyncpg") == "COPY 2000"
    out = io.BytesIO()
    assert await connection.copy_from_query("SELECT b FROM t WHERE a < $1 ORDER BY a", 2, output=out) == "COPY 2"
    assert out.getvalue() == b"row 0\nrow 1\n"


async def test_listen(connection: Any, server: TidegateServer) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()
    await connection.add_listener("news", lambda *arguments: heard.put_nowait(arguments[2:]))
    other = await _connect(server)
    await other.execute("NOTIFY news, 'hello'")
    assert await asyncio.wait_for(heard.get(), 10) == ("news", "hello")
    await other.close()
    await connection.reset()


async def test_a_cursor_whose_block_has_failed(connection: Any) -> None:
    async with connection.transaction():
        cursor = await connection.cursor("SELECT pg_sleep(10)")
        with pytest.raises(TimeoutError):
            await cursor.fetch(1, timeout=0.05)
        with pytest.raises(asyncpg.InFailedSQLTransactionError):
            await cursor.fetch(1)


async def test_cancel_by_timeout(connection: Any) -> None:
    with pytest.raises(asyncio.TimeoutError):
        await connection.fetch("SELECT pg_sleep(60)", timeout=0.2)
    assert await connection.fetchval("SELECT 1") == 1
