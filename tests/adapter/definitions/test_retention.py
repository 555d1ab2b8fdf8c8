"""retain_history of tables, schemas and databases: what is kept of the past, and what is not."""

from __future__ import annotations

import pytest

from adapter.sessions.server import Server
from tests.adapter.harness import Client, connect, open_server
from tests.adapter.transactions.test_looking_back import fold


async def _csn(client: Client) -> int:
    found = await client.value("SELECT tidegate.current_csn()")
    assert isinstance(found, int)
    return found


async def _forget(server: Server, client: Client) -> None:
    """Let everything go that no retention keeps, some time after what was done last."""
    # A dropped table goes in the round after the one in which everybody has learnt of it.
    for _ in range(2):
        await client.run("SELECT pg_sleep(0.05)")
        await server.env.txns_shard.advance_to_now(server.env.oracle)
        server.env.leases._marks.clear()
        await server.env.leases.keep_alive()
        await fold(server)
        await server.env.maintenance.compactor.expire()


async def _filled(client: Client, table: str) -> None:
    await client.run(f"INSERT INTO {table} SELECT g FROM generate_series(1, 5) g")
    for number in range(1, 4):
        await client.run(f"DELETE FROM {table} WHERE id = {number}")


async def test_the_nearest_of_table_schema_and_database_counts() -> None:
    async with open_server(retain_ms=10, background=False) as server:
        client = await connect(server)
        await client.run("CREATE SCHEMA s; ALTER SCHEMA s SET (retain_history = '1 day')")
        await client.run("CREATE TABLE plain (id int); CREATE TABLE own (id int) WITH (retain_history = '7 days')")
        await client.run("CREATE TABLE s.inherited (id int)")
        await client.run("CREATE TABLE s.less (id int) WITH (retain_history = '10 milliseconds', fillfactor = 70)")
        tables = ("plain", "own", "s.inherited", "s.less")
        for table in tables:
            await _filled(client, table)
        then = await _csn(client)
        for table in tables:
            await client.run(f"DELETE FROM {table}")
        await _forget(server, client)
        for table in ("own", "s.inherited"):
            assert await client.rows(f"SELECT id FROM tidegate.as_of('{table}', {then}) ORDER BY 1") == [(4,), (5,)]
        for table in ("plain", "s.less"):
            error = await client.error(f"SELECT * FROM tidegate.as_of('{table}', {then})")
            assert error.sqlstate == "72000"
            assert "The earliest moment that can be read is" in (error.detail or "")
            error = await client.error(f"SELECT * FROM {table} AS OF {then}")
            assert error.sqlstate == "72000"
        options = "SELECT reloptions FROM pg_class WHERE relname = 'less'"
        assert await client.value(options) == ["retain_history=10 milliseconds", "fillfactor=70"]
        await client.run("ALTER TABLE s.less RESET (retain_history)")
        assert await client.value(options) == ["fillfactor=70"]
        await client.run("ALTER SCHEMA s RESET (retain_history); ALTER TABLE own SET (retain_history = '10 ms')")
        await _forget(server, client)
        for table in ("own", "s.inherited"):
            assert (await client.error(f"SELECT * FROM tidegate.as_of('{table}', {then})")).sqlstate == "72000"


async def test_a_database_says_what_its_tables_keep() -> None:
    async with open_server(retain_ms=10, background=False) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int)")
        assert await client.tag("ALTER DATABASE postgres SET retain_history = '2 hours'") == "ALTER DATABASE"
        await _filled(client, "t")
        then = await _csn(client)
        await client.run("DROP TABLE t")
        await _forget(server, client)
        assert await client.value(f"SELECT count(*) FROM t AS OF {then}") == 2
        # What was said when it was dropped counts.
        await client.run("ALTER DATABASE postgres RESET retain_history")
        await _forget(server, client)
        assert await client.value(f"SELECT count(*) FROM t AS OF {then}") == 2


async def test_a_dropped_table_is_kept_as_long_as_it_said() -> None:
    async with open_server(retain_ms=10, background=False) as server:
        client = await connect(server)
        await client.run("CREATE TABLE long (id int) WITH (retain_history = '1 day'); CREATE TABLE short (id int)")
        await _filled(client, "long")
        await _filled(client, "short")
        then = await _csn(client)
        await client.run("DROP TABLE long; DROP TABLE short")
        await _forget(server, client)
        assert await client.value(f"SELECT count(*) FROM tidegate.as_of('long', {then})") == 2
        assert (await client.error(f"SELECT count(*) FROM tidegate.as_of('short', {then})")).sqlstate == "72000"


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("CREATE TABLE u (id int) WITH (retain_history = 'soon')", "22023"),
        ("CREATE TABLE u (id int) WITH (retain_history = '-1 day')", "22023"),
        ("CREATE TABLE u (id int) WITH (retain_history = '1 day', retain_history = '1 day')", "22023"),
        ("CREATE TABLE u (id int) WITH (nothing = 1)", "22023"),
        ("CREATE TABLE u (id int) WITH (fillfactor = 5)", "22023"),
        ("CREATE TABLE u (id int) WITH (autovacuum_vacuum_scale_factor = 101)", "22023"),
        ("CREATE TABLE u WITH (nothing = 1) AS SELECT 1", "22023"),
        ("ALTER TABLE t SET (retain_history = '1000 years')", "22023"),
        ("ALTER SCHEMA public SET (fillfactor = 70)", "22023"),
        ("ALTER SCHEMA nothing SET (retain_history = '1 day')", "3F000"),
        ("ALTER SCHEMA public SET (retain_history = '1 day'", "42601"),
        ("ALTER SCHEMA public SET retain_history = '1 day'", "42601"),
        ("ALTER DATABASE postgres SET retain_history = 'soon'", "22023"),
        ("ALTER DATABASE nothing SET retain_history = '1 day'", "3D000"),
        ("ALTER ROLE postgres SET retain_history = '1 day'", "42704"),
        ("SET retain_history = '1 day'", "42704"),
    ],
)
async def test_what_is_refused(text: str, sqlstate: str) -> None:
    async with open_server() as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int)")
        assert (await client.error(text)).sqlstate == sqlstate


async def test_owners_say_how_much_is_kept() -> None:
    async with open_server() as server:
        owner = await connect(server)
        await owner.run("CREATE TABLE t (id int); CREATE SCHEMA s; CREATE ROLE eve LOGIN")
        eve = await connect(server, user="eve")
        for text in (
            "ALTER TABLE t SET (retain_history = '1 day')",
            "ALTER SCHEMA s SET (retain_history = '1 day')",
            "ALTER DATABASE postgres SET retain_history = '1 day'",
        ):
            assert (await eve.error(text)).sqlstate == "42501", text
            await owner.run(text)
        assert await owner.tag("ALTER SCHEMA s SET (retain_history = '1 day')") == "ALTER SCHEMA"
