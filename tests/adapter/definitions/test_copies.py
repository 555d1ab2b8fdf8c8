"""CALL tidegate.clone_table and tidegate.undrop_table: tables that get the files of others."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from adapter.sessions.server import Server
from storage.clock import SystemClock
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.offline.admin import Inspector
from storage.offline.fsck import fsck
from tests.adapter.harness import Client, connect, open_server
from tests.adapter.transactions.test_looking_back import fold

HOUR_MS = 3_600_000
LONG = "repeat(md5(n::text), 20)"
"""Texts of which a few hundred make a file."""


async def _files(blob: MemoryBlob) -> set[str]:
    return {entry.key async for entry in blob.list("parts/") if entry.key.endswith(".parquet")}


async def _collect(server: Server) -> None:
    """Let everything go that nobody needs."""
    for _ in range(6):
        await asyncio.sleep(0.01)
        server.env.leases._marks.clear()
        await server.env.leases.renew()
        await fold(server)


async def _rows(client: Client, table: str) -> list[tuple[object, ...]]:
    return await client.rows(f"SELECT id, md5(t) FROM {table} ORDER BY id")


@pytest.mark.parametrize("folded", [False, True])
async def test_a_clone_has_the_rows_and_shares_the_files(folded: bool) -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    inspector = Inspector(blob=blob, consensus=consensus, clock=SystemClock(), random=SeededRandomness(2))
    async with open_server(blob=blob, consensus=consensus, retain_ms=0) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (gone int, id int PRIMARY KEY, t text, n int DEFAULT 7 CHECK (n > 0))")
        await client.run("ALTER TABLE t DROP COLUMN gone; CREATE INDEX ON t (n); COMMENT ON COLUMN t.n IS 'number'")
        await client.run(f"INSERT INTO t SELECT n, {LONG} FROM generate_series(1, 3000) n")
        await client.run("DELETE FROM t WHERE id % 10 = 0; UPDATE t SET t = 'x' WHERE id = 7")
        if folded:
            await fold(server)
            await client.run("DELETE FROM t WHERE id % 10 = 1")
        await client.run("INSERT INTO t VALUES (5000, 'small')")
        expected, before = await _rows(client, "t"), await _files(blob)
        assert await client.tag("CALL tidegate.clone_table('t', 'c')") == "CALL"
        # What had been deleted and not compacted yet is written anew, nothing else.
        assert len(await _files(blob) - before) <= 1
        assert await _rows(client, "c") == expected
        assert await client.rows("SELECT t FROM c WHERE id = 7") == [("x",)]
        # What is done to one of them is not seen in the other one.
        await client.run("DELETE FROM c WHERE id < 100; INSERT INTO t (id, t) VALUES (6000, 'in t')")
        assert await client.value("SELECT count(*) FROM c WHERE id < 100 OR id = 6000") == 0
        assert (await client.error("INSERT INTO c (id) VALUES (5000)")).sqlstate == "23505"
        assert (await client.error("INSERT INTO c (id, n) VALUES (5001, 0)")).sqlstate == "23514"
        await client.run("INSERT INTO c (id) VALUES (5001)")
        assert await client.value("SELECT n FROM c WHERE id = 5001") == 7
        assert (
            await client.value(
                "SELECT col_description('c'::regclass, attnum) FROM pg_attribute"
                " WHERE attrelid = 'c'::regclass AND attname = 'n'"
            )
            == "number"
        )
        # Whoever goes, the others keep what they have.
        kept = await _rows(client, "c")
        await client.run("CALL tidegate.clone_table('c', 'd'); DROP TABLE t")
        await _collect(server)
        assert await _rows(client, "c") == kept == await _rows(client, "d")
        assert (await fsck(inspector)).problems == ()
        await client.run("DROP TABLE c")
        await _collect(server)
        assert (await fsck(inspector)).problems == ()
        assert await _rows(client, "d") == kept
        await client.run("DROP TABLE d")
        deadline = time.monotonic() + 30
        while await _files(blob):
            # A file that was being compacted when its table went is an orphan.
            assert time.monotonic() < deadline
            await _collect(server)
            await server.env.maintenance.orphans.collect()


async def test_identity_columns_go_on() -> None:
    async with open_server() as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, t text)")
        await client.run("INSERT INTO t (t) VALUES ('a'), ('b')")
        await client.run("CALL tidegate.clone_table('t', 'c')")
        await client.run("INSERT INTO c (t) VALUES ('c'); INSERT INTO t (t) VALUES ('other')")
        assert await client.rows("SELECT id, t FROM c ORDER BY id") == [(1, "a"), (2, "b"), (3, "c")]
        assert await client.value("SELECT max(id) FROM t") == 3


async def test_a_clone_is_part_of_its_transaction() -> None:
    async with open_server() as server:
        client, other = await connect(server), await connect(server)
        await client.run(f"CREATE TABLE t AS SELECT n id, {LONG} t FROM generate_series(1, 500) n")
        await client.run("BEGIN; CALL tidegate.clone_table('t', 'c'); DELETE FROM c WHERE id > 3")
        assert await client.value("SELECT count(*) FROM c") == 3
        assert (await other.error("SELECT * FROM c")).sqlstate == "42P01"
        await client.run("ROLLBACK; BEGIN; SAVEPOINT s; CALL tidegate.clone_table('t', 'c'); ROLLBACK TO s; COMMIT")
        assert (await client.error("SELECT * FROM c")).sqlstate == "42P01"
        await client.run("BEGIN; CALL tidegate.clone_table('t', 'c'); UPDATE c SET t = 'x' WHERE id = 1; COMMIT")
        assert await other.rows("SELECT t FROM c WHERE id < 2") == [("x",)]
        assert await other.value("SELECT count(*) FROM c") == 500


async def test_tables_are_cloned_and_brought_back_beside_another_server_and_prepared() -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    settings = {"engine": "local", "max_prepared_transactions": "3"}
    given: Any = {"blob": blob, "consensus": consensus, "shared": True, "retain_ms": HOUR_MS, "settings": settings}
    async with open_server(**given) as one, open_server(**given) as two:
        client, other = await connect(one), await connect(two)
        await client.run(f"CREATE TABLE t AS SELECT n id, {LONG} t FROM generate_series(1, 500) n")
        await other.run("CALL tidegate.clone_table('t', 'c')")
        await client.run("BEGIN; CALL tidegate.clone_table('t', 'd'); INSERT INTO d VALUES (0, 'x')")
        await client.run("PREPARE TRANSACTION 'clone'")
        await other.run("COMMIT PREPARED 'clone'")
        await other.run("DROP TABLE t")
        await _collect(one)
        await client.run("BEGIN; CALL tidegate.undrop_table('t'); PREPARE TRANSACTION 'undrop'")
        await other.run("ROLLBACK PREPARED 'undrop'")
        await other.run("CALL tidegate.undrop_table('t')")
        for name, rows in (("c", 500), ("d", 501), ("t", 500)):
            assert await client.value(f"SELECT count(*) FROM {name} WHERE t <> ''") == rows


async def test_what_cannot_be_cloned() -> None:
    async with open_server() as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (a int); CREATE VIEW v AS TABLE t; CREATE TEMP TABLE tt (a int)")
        await client.run("CREATE ROLE r; GRANT CREATE ON SCHEMA public TO r")
        for text, state in (
            ("CALL tidegate.clone_table('missing', 'c')", "42P01"),
            ("CALL tidegate.clone_table('v', 'c')", "42809"),
            ("CALL tidegate.clone_table('tt', 'c')", "0A000"),
            ("CALL tidegate.clone_table('t', 't')", "42P07"),
            ("CALL tidegate.clone_table('t', 'nowhere.c')", "3F000"),
            ("CALL tidegate.clone_table('t')", "42883"),
            ("CALL tidegate.clone_table(1, 'c')", "0A000"),
            ("SET ROLE r; CALL tidegate.clone_table('t', 'c')", "42501"),
            ("RESET ROLE; BEGIN; INSERT INTO t VALUES (1); CALL tidegate.clone_table('t', 'c')", "55000"),
            ("ROLLBACK; BEGIN READ ONLY; CALL tidegate.clone_table('t', 'c')", "25006"),
        ):
            assert (await client.error(text)).sqlstate == state, text
        await client.run("ROLLBACK; ALTER TABLE t ENABLE ROW LEVEL SECURITY; GRANT SELECT ON t TO r")
        assert (await client.error("SET ROLE r; CALL tidegate.clone_table('t', 'c')")).sqlstate == "42501"


async def test_a_dropped_table_comes_back() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client, other = await connect(server), await connect(server)
        await client.run("CREATE ROLE reader; CREATE TABLE parent (id int PRIMARY KEY)")
        await client.run(
            "CREATE TABLE t (id serial PRIMARY KEY, t text CHECK (t <> ''), p int REFERENCES parent,"
            " k int GENERATED BY DEFAULT AS IDENTITY, UNIQUE (t))"
        )
        await client.run("COMMENT ON TABLE t IS 'a table'; GRANT SELECT ON t TO reader; CREATE INDEX i ON t (k)")
        await client.run(f"INSERT INTO t (t) SELECT n || {LONG} FROM generate_series(1, 500) n")
        await client.run("DELETE FROM t WHERE id = 3; CREATE VIEW v AS SELECT id FROM t")
        expected = await _rows(client, "t")
        oid = await client.value("SELECT 't'::regclass::oid")
        await client.run("DROP TABLE t CASCADE")
        await fold(server)
        assert await client.tag("CALL tidegate.undrop_table('t')") == "CALL"
        assert await _rows(client, "t") == expected == await _rows(other, "t")
        assert await client.value("SELECT 't'::regclass::oid") == oid
        assert await client.rows("INSERT INTO t (t) VALUES ('new') RETURNING id, k") == [(501, 501)]
        assert (await client.error("INSERT INTO t (t) VALUES ('new')")).sqlstate == "23505"
        assert (await client.error("INSERT INTO t (t) VALUES ('')")).sqlstate == "23514"
        assert await client.value("SELECT obj_description('t'::regclass)") == "a table"
        assert await client.value("SELECT has_table_privilege('reader', 't', 'SELECT')") is True
        assert await client.value("SELECT count(*) FROM pg_constraint WHERE conrelid = 't'::regclass") == 3
        assert (await client.error("CALL tidegate.undrop_table('t')")).sqlstate == "42P01"
        # Dropped once more, under another name; what it was before is found by that name no more.
        await client.run("ALTER TABLE t RENAME TO u")
        await client.run("DROP TABLE u")
        await client.run("CREATE TABLE u (x int)")
        assert (await client.error("CALL tidegate.undrop_table('u')")).sqlstate == "42P07"
        await client.run("ALTER TABLE u RENAME TO t; CALL tidegate.undrop_table('u')")
        assert await client.value("SELECT count(*) FROM u") == 500
        await client.run("CREATE ROLE somebody; GRANT CREATE ON SCHEMA public TO somebody; DROP TABLE u")
        assert (await client.error("SET ROLE somebody; CALL tidegate.undrop_table('u')")).sqlstate == "42501"
        assert (await client.error("RESET ROLE; CALL tidegate.undrop_table('never')")).sqlstate == "42P01"
        await client.run("CREATE TYPE mood AS ENUM ('ok'); CREATE TABLE m (m mood)")
        await client.run("DROP TABLE m; DROP TYPE mood")
        assert (await client.error("CALL tidegate.undrop_table('m')")).sqlstate == "55000"
        await client.run("BEGIN; CALL tidegate.undrop_table('u'); SELECT count(*) FROM u; ROLLBACK")
        assert (await client.error("SELECT * FROM u")).sqlstate == "42P01"
