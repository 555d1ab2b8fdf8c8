"""`temp_file_limit`: what a statement spills is bounded, and nothing of it stays."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from adapter.engines.local import databases
from adapter.engines.local.database import Error, LocalDatabase
from adapter.sessions.server import Server
from planner.lowering.engine_errors import translate
from tests.adapter.harness import Client

SORTED = "select count(*) from (select i from generate_series(1, 1500000) g(i) order by i % 1009, i::text offset 1) s"


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "LIMITED_MEMORY_KB", 24 * 1024)


def limited_folders(server: Server) -> list[Path]:
    return list(server._scratch.path.glob("local/limited*"))


async def test_beyond_the_limit_a_query_fails_and_the_session_goes_on(server: Server, client: Client) -> None:
    await client.run("set engine = 'local'; set temp_file_limit = '1MB'")
    error = await client.error(SORTED)
    assert (error.sqlstate, error.message) == ("53400", "temporary file size exceeds temp_file_limit (1024kB)")
    assert limited_folders(server) == []
    assert await client.value("select sum(i) from generate_series(1, 1000) g(i)") == 500500


async def test_below_the_limit_it_spills(server: Server, client: Client) -> None:
    await client.run("set engine = 'local'; set temp_file_limit = '1GB'")
    assert await client.value(SORTED) == 1499999
    assert limited_folders(server) == []


async def test_nothing_may_be_spilled_at_zero(client: Client) -> None:
    await client.run("set engine = 'local'; set temp_file_limit = 0")
    error = await client.error(SORTED)
    assert (error.sqlstate, error.message) == ("53400", "temporary file size exceeds temp_file_limit (0kB)")


async def test_a_cancelled_query_leaves_nothing(server: Server, client: Client) -> None:
    await client.run("set engine = 'local'; set temp_file_limit = '10GB'; set statement_timeout = '500ms'")
    error = await client.error("select count(*) from generate_series(1, 100000) a(i), generate_series(1, 1000000) b(j)")
    assert error.sqlstate == "57014"
    for _ in range(100):
        if not limited_folders(server):
            break
        await asyncio.sleep(0.05)
    assert limited_folders(server) == []


def test_without_a_limit_it_is_the_disk_that_is_full(tmp_path: Path) -> None:
    database = LocalDatabase(directories=(), scratch=tmp_path, memory_limit="24MB", scratch_limit="0KiB", threads=1)
    try:
        with pytest.raises(Error) as raised:
            database.run("SELECT count(*) FROM (SELECT i FROM range(3000000) t(i) ORDER BY i::text OFFSET 1)")
    finally:
        database.close()
    assert translate("local", str(raised.value)).sqlstate == "53100"
