"""Sessions that look back: each moment reads as it was, with the catalog of then, and nothing is written."""

from __future__ import annotations

import random
from typing import Any

import pytest

from adapter.sessions.server import Server
from planner.types import types as t
from storage.ids import CATALOG_SHARD
from tests.adapter.harness import Client, connect, open_server, rows_of

HOUR_MS = 3_600_000


async def fold(server: Server) -> None:
    """Let everything be folded that nobody reads."""
    env = server.env
    await env.applier.apply_all()
    for shard in list(env.cache.state.registered):
        await env.maintenance.compactor.compact(shard)
    await env.maintenance.garbage.collect()


async def contents(client: Client) -> dict[str, Any]:
    """What the session sees: the tables, their columns, their rows, and what an aggregate and a key find."""
    found: dict[str, Any] = {}
    names = await client.rows("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 't%' ORDER BY 1")
    for (name,) in names:
        columns = await client.rows(
            f"SELECT attname FROM pg_attribute WHERE attrelid = '{name}'::regclass AND attnum > 0 ORDER BY attnum"
        )
        rows = sorted(await client.rows(f"SELECT * FROM {name}"), key=repr)
        by_key = await client.rows(f"SELECT * FROM {name} WHERE id = 3")
        found[name] = (columns, rows, by_key, await client.rows(f"SELECT count(*), sum(n) FROM {name}"))
    return found


async def change(client: Client, chance: random.Random, step: int) -> None:
    """A random change of definitions or rows."""
    tables = [n for (n,) in await client.rows("SELECT relname FROM pg_class WHERE relkind='r' AND relname LIKE 't%'")]
    name = chance.choice(tables) if tables else None
    action = chance.random()
    if name is None or (action < 0.06 and len(tables) < 3):
        await client.run(f"CREATE TABLE t{step} (id int PRIMARY KEY, n int)")
    elif action < 0.10:
        await client.run(f"ALTER TABLE {name} ADD COLUMN c{step} int DEFAULT {step}")
    elif action < 0.13:
        await client.run(f"ALTER TABLE {name} RENAME TO t{step}")
    elif action < 0.16:
        await client.run(f"TRUNCATE {name}")
    elif action < 0.19:
        await client.run(f"DROP TABLE {name}")
    elif action < 0.60:
        await client.run(f"INSERT INTO {name} (id, n) VALUES ({chance.randint(0, 40)}, {step}) ON CONFLICT DO NOTHING")
    elif action < 0.85:
        await client.run(f"UPDATE {name} SET n = n + {step} WHERE id % 3 = {chance.randint(0, 2)}")
    else:
        await client.run(f"DELETE FROM {name} WHERE id % 5 = {chance.randint(0, 4)}")


@pytest.mark.parametrize("seed", range(4))
async def test_every_moment_reads_as_it_was(seed: int) -> None:
    chance = random.Random(seed)
    async with open_server(retain_ms=HOUR_MS, background=False) as server:
        writer, reader = await connect(server), await connect(server)
        recorded: dict[int, dict[str, Any]] = {}
        for step in range(90):
            await change(writer, chance, step)
            recorded[await writer.value("SELECT tidegate.current_csn()")] = await contents(writer)
            if chance.random() < 0.2:
                await server.env.leases.keep_alive()
                await fold(server)
        for csn in chance.sample(sorted(recorded), 40):
            await reader.run(f"SET tidegate.as_of = {csn}")
            assert await contents(reader) == recorded[csn]
            assert await reader.value("SELECT tidegate.current_csn()") == csn


async def test_definitions_and_rows_are_those_of_then_after_folding() -> None:
    async with open_server(retain_ms=HOUR_MS, background=False) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int PRIMARY KEY, old text)")
        await client.run("INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 40) g")
        then = await client.value("SELECT tidegate.current_csn()")
        await client.run("ALTER TABLE t DROP COLUMN old")
        for n in range(20):
            await client.run(f"UPDATE t SET id = id + 100 WHERE id % 20 = {n}")
        gone = await client.value("SELECT tidegate.current_csn()")
        await client.run("DROP TABLE t")
        # A lease promises two seconds of the past; beyond that only archives have it.
        server.env.leases._marks.clear()
        await server.env.leases.keep_alive()
        await fold(server)
        assert any(handle.state.history for handle in server.env.handles.all_opened())
        await client.run(f"SET tidegate.as_of = {then}")
        assert await client.rows("SELECT * FROM t WHERE id = 7") == [(7, "row 7")]
        assert await client.value("SELECT count(*) FROM t") == 40
        await client.run(f"SET tidegate.as_of = {gone}")
        assert await client.rows("SELECT min(id), count(*) FROM t") == [(101, 40)]
        await client.run("RESET tidegate.as_of")
        assert (await client.error("SELECT * FROM t")).sqlstate == "42P01"
        assert CATALOG_SHARD in server.env.cache.state.registered


async def test_nothing_is_written_while_looking_back() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int)")
        csn = await client.value("SELECT tidegate.current_csn()")
        await client.run(f"SET tidegate.as_of = {csn}")
        for text in (
            "INSERT INTO t VALUES (1)",
            "INSERT INTO t SELECT 1",
            "UPDATE t SET id = 2",
            "DELETE FROM t",
            "CREATE TABLE u (id int)",
            "DROP TABLE t",
            "TRUNCATE t",
            "SELECT * FROM t FOR UPDATE",
            "WITH w AS (INSERT INTO t VALUES (1) RETURNING id) SELECT * FROM w",
        ):
            assert (await client.error(text)).sqlstate == "25006", text
        await client.run("RESET tidegate.as_of")
        assert await client.tag("INSERT INTO t VALUES (1)") == "INSERT 0 1"


async def test_a_transaction_looks_back_and_ahead_again() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client, other = await connect(server), await connect(server)
        await client.run("CREATE TABLE t (id int)")
        then = await client.value("SELECT tidegate.current_csn()")
        await client.run("INSERT INTO t VALUES (1)")
        await client.run("BEGIN ISOLATION LEVEL SERIALIZABLE")
        await client.run(f"SET LOCAL tidegate.as_of = {then}")
        assert await client.value("SELECT count(*) FROM t") == 0
        await other.run("INSERT INTO t VALUES (2)")
        await client.run("SET LOCAL tidegate.as_of = ''")
        assert await client.value("SELECT count(*) FROM t") == 2
        await client.run("INSERT INTO t VALUES (3)")
        await client.run(f"SET LOCAL tidegate.as_of = {then}")
        assert (await client.error("SELECT count(*) FROM t")).sqlstate == "25001"
        await client.run("ROLLBACK")
        assert await client.value("SHOW tidegate.as_of") == ""
        assert await client.value("SELECT count(*) FROM t") == 2


async def test_moments_that_cannot_be_read() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("SET tidegate.as_of = '2999-01-01'")
        assert (await client.error("SELECT 1")).sqlstate == "22023"
        await client.run("SET tidegate.as_of = '1999-01-01'")
        error = await client.error("SELECT 1")
        assert error.sqlstate in ("72000", "3D000")
        assert (await client.error("SET tidegate.as_of = 'never'")).sqlstate == "22023"
        settings: dict[str, Any] = {"tidegate.as_of": "2999-01-01"}
        late = await connect(server, **settings)
        assert (await late.error("SELECT 1")).sqlstate == "22023"


async def test_a_point_in_time_is_everything_committed_by_then() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("SET TimeZone = 'Asia/Tokyo'")
        await client.run("CREATE TABLE t (id int)")
        await client.run("INSERT INTO t VALUES (1)")
        await client.run("SELECT pg_sleep(0.01)")
        then = await client.value("SELECT clock_timestamp()::text")
        await client.run("SELECT pg_sleep(0.01)")
        await client.run("DELETE FROM t")
        await client.run(f"SET tidegate.as_of = '{then}'")
        assert await client.rows("SELECT * FROM t") == [(1,)]


async def test_an_old_transaction_goes_on_reading_and_keeps_no_more_than_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("storage.membership.leases.MOVE_AFTER_MS", 20)
    async with open_server(retain_ms=HOUR_MS, background=False) as server:
        old, writer = await connect(server), await connect(server)
        await writer.run("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
        await writer.run("INSERT INTO a VALUES (1), (2); INSERT INTO b VALUES (1), (2)")
        await old.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert await old.value("SELECT count(*) FROM a") == 2
        for number in range(3, 40):
            await writer.run(f"INSERT INTO a VALUES ({number}); INSERT INTO b VALUES ({number})")
        await writer.run("DELETE FROM a WHERE id = 1; DELETE FROM b WHERE id = 1; SELECT pg_sleep(0.05)")
        await writer.run("INSERT INTO b VALUES (100)")
        env = server.env
        for _ in range(2):
            env.leases._marks.clear()
            await env.leases.keep_alive()
        assert env.leases.since_limit() > min(hold.at for hold in env.leases.holds)
        await fold(server)
        held = {shard: set(env.handles.opened(shard).state.holds) for shard in env.cache.state.registered}  # type: ignore[union-attr]
        assert sum(map(len, held.values())) == 1
        assert await old.rows("SELECT id FROM a ORDER BY id") == [(1,), (2,)]
        # It has not read this one before: what retention keeps is there.
        assert await old.rows("SELECT id FROM b ORDER BY id") == [(1,), (2,)]
        assert await old.rows("SELECT id FROM b WHERE id = 1") == [(1,)]
        await old.run("INSERT INTO a VALUES (200)")
        await old.run("COMMIT")
        assert await old.value("SELECT count(*) FROM a") == 39
        await env.leases.keep_alive()
        assert not env.leases.holds


@pytest.mark.parametrize(
    ("text", "declared", "types"),
    [
        ("SELECT * FROM t AS OF $1", (), [t.TEXT]),
        ("SELECT * FROM t AS OF $1", (0,), [t.TEXT]),
        ("SELECT * FROM t AS OF $1", (t.INT8,), [t.INT8]),
        ("SELECT * FROM t WHERE id = $2 AS OF $1", (), [t.TEXT, t.INT4]),
        ("SELECT * FROM t WHERE id = $1 AS OF now() - $2::interval", (0, 0), [t.INT4, t.INTERVAL]),
        ("EXPLAIN SELECT * FROM t WHERE id = $1 AS OF $2", (), [t.INT4, t.TEXT]),
        ("COPY (SUBSCRIBE (SELECT * FROM t WHERE id = $1) AS OF $3 UP TO $2) TO STDOUT", (), [t.INT4, t.TEXT, t.TEXT]),
        ("COPY (SUBSCRIBE (SELECT * FROM gone WHERE id = $1) AS OF $2) TO STDOUT", (t.INT4, t.INT8), [t.INT4, t.INT8]),
    ],
)
async def test_moments_that_are_parameters_have_types(text: str, declared: tuple[int, ...], types: list[int]) -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int)")
        await client.session.prepare("s", text, declared)
        found = (await client.session.describe_statement("s")).param_types
        assert [type_.oid for type_ in found] == types


async def test_prepared_statements_look_back() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int); INSERT INTO t VALUES (1), (2)")
        then = await client.value("SELECT tidegate.current_csn()")
        await client.run("DELETE FROM t")
        await client.run("PREPARE one AS SELECT id FROM t WHERE id > $2 AS OF $1")
        assert await client.rows(f"EXECUTE one({then}, 1)") == [(2,)]
        assert await client.rows("EXECUTE one(now(), 1)") == []
        await client.run("PREPARE two(bigint) AS SELECT id FROM t ORDER BY id AS OF $1")
        assert await client.rows(f"EXECUTE two({then})") == [(1,), (2,)]


async def test_what_was_there_is_copied_out() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int); INSERT INTO t VALUES (1), (2)")
        then = await client.value("SELECT tidegate.current_csn()")
        await client.run("DROP TABLE t; CREATE TABLE u (id int); INSERT INTO u VALUES (3)")
        for text, rows in (
            (f"COPY (SELECT id FROM t ORDER BY id AS OF {then}) TO STDOUT", [(1,), (2,)]),
            ("COPY (SELECT id FROM u as of) TO STDOUT", [(3,)]),
        ):
            stream: Any = client.session.execute_simple(text)
            assert [row async for result in stream async for row in rows_of(result)] == rows
