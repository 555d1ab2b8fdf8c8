"""CALL tidegate.restore_table: a table's rows become those of a moment, in a transaction like any other."""

from __future__ import annotations

import random

import pytest

from tests.adapter.harness import Client, connect, open_server
from tests.adapter.transactions.test_looking_back import fold

HOUR_MS = 3_600_000


async def _csn(client: Client) -> int:
    found = await client.value("SELECT tidegate.current_csn()")
    assert isinstance(found, int)
    return found


async def test_rows_are_those_of_then_and_those_that_are_the_same_stay() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run(
            "CREATE TABLE t (id int PRIMARY KEY, n numeric, j json, was text,"
            " twice int GENERATED ALWAYS AS (id * 2) STORED)"
        )
        await client.run("INSERT INTO t VALUES (1, 1.0, '{\"a\": 1}', 'x'), (2, 2, NULL, 'y'), (3, 3, NULL, 'z')")
        await client.run("CREATE TABLE child (t int REFERENCES t ON DELETE CASCADE); INSERT INTO child VALUES (1), (2)")
        then = await _csn(client)
        await client.run("ALTER TABLE t RENAME was TO seen; ALTER TABLE t ADD COLUMN new text DEFAULT 'new'")
        await client.run('ALTER TABLE t RENAME TO "T t"; CREATE TABLE t (id int)')
        await client.run('UPDATE "T t" SET n = 1.00 WHERE id = 1; DELETE FROM "T t" WHERE id = 3')
        await client.run('INSERT INTO "T t" (id) VALUES (4); INSERT INTO child VALUES (4)')
        before = await _csn(client)
        assert await client.tag(f"CALL tidegate.restore_table('\"T t\"', {then})") == "CALL"
        assert await client.rows('SELECT id, n::text, j::text, seen, twice, new FROM "T t" ORDER BY id') == [
            (1, "1.0", '{"a": 1}', "x", 2, "new"),
            (2, "2", None, "y", 4, "new"),
            (3, "3", None, "z", 6, "new"),
        ]
        assert await client.rows("SELECT t FROM child ORDER BY 1") == [(1,), (2,)]
        changes = (
            f"SELECT id, tidegate_diff FROM tidegate.changes('\"T t\"', {before}, {await _csn(client)}) ORDER BY 1, 2"
        )
        assert await client.rows(changes) == [(1, -1), (1, 1), (3, 1), (4, -1)]
        # What was restored can be undone in its turn.
        await client.run(f"CALL tidegate.restore_table('public.\"T t\"', '{before}')")
        assert await client.rows('SELECT id FROM "T t" ORDER BY id') == [(1,), (2,), (4,)]


async def test_a_table_without_a_key_and_one_without_columns() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'x'), (1, 'x'), (NULL, NULL)")
        await client.run("CREATE TABLE u (); INSERT INTO u DEFAULT VALUES")
        then = await _csn(client)
        await client.run("DELETE FROM t WHERE a = 1; INSERT INTO u DEFAULT VALUES; INSERT INTO u DEFAULT VALUES")
        await client.run(f"CALL tidegate.restore_table('t', {then}); CALL tidegate.restore_table('u', {then})")
        assert await client.rows("SELECT * FROM t ORDER BY a") == [(1, "x"), (1, "x"), (None, None)]
        assert await client.value("SELECT count(*) FROM u") == 1


async def test_it_is_part_of_its_transaction() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client, other = await connect(server), await connect(server)
        await client.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
        then = await _csn(client)
        await client.run("DELETE FROM t")
        for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
            await client.run(f"BEGIN ISOLATION LEVEL {level}; INSERT INTO t VALUES (2)")
            await client.run(f"CALL tidegate.restore_table('t', {then})")
            assert await client.rows("SELECT * FROM t") == [(1,)]
            assert await other.rows("SELECT * FROM t") == []
            await client.run("ROLLBACK")
        await client.run("SELECT pg_sleep(0.02)")
        await client.run("CALL tidegate.restore_table('t', now() - interval '5 milliseconds')")
        assert await client.rows("SELECT * FROM t") == []
        await client.run("BEGIN READ ONLY")
        assert (await client.error(f"CALL tidegate.restore_table('t', {then})")).sqlstate == "25006"
        await client.run("ROLLBACK")


async def test_what_is_refused_changes_nothing() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        owner = await connect(server)
        await owner.run("CREATE TABLE parent (id int PRIMARY KEY); INSERT INTO parent VALUES (1)")
        await owner.run("CREATE TABLE t (id int PRIMARY KEY, p int REFERENCES parent, v text)")
        await owner.run("INSERT INTO t VALUES (1, 1, 'a'); CREATE VIEW v AS TABLE t; CREATE ROLE eve LOGIN")
        await owner.run("GRANT ALL ON t TO eve")
        then = await _csn(owner)
        await owner.run("DELETE FROM t; DELETE FROM parent; INSERT INTO t VALUES (2, NULL, 'b')")
        await owner.run("CREATE TABLE later (id int)")
        eve = await connect(server, user="eve")
        assert (await eve.error(f"CALL tidegate.restore_table('t', {then})")).sqlstate == "42501"
        for call, sqlstate in (
            (f"restore_table('t', {then})", "23503"),
            (f"restore_table('later', {then})", "42P01"),
            (f"restore_table('nothing', {then})", "42P01"),
            (f"restore_table('v', {then})", "42809"),
            ("restore_table('t', '2999-01-01')", "22023"),
            ("restore_table('t')", "42883"),
            ("restore_table('a.b.c', 5)", "0A000"),
            ("nothing('t')", "42883"),
        ):
            assert (await owner.error(f"CALL tidegate.{call}")).sqlstate == sqlstate, call
        assert await owner.rows("SELECT * FROM t") == [(2, None, "b")]


@pytest.mark.parametrize("seed", range(3))
async def test_the_past_stays_as_it_was_whatever_is_restored(seed: int) -> None:
    chance = random.Random(seed)
    async with open_server(retain_ms=HOUR_MS, background=False) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int PRIMARY KEY, n int, v text)")
        recorded: dict[int, list[tuple[object, ...]]] = {}
        for step in range(60):
            action = chance.random()
            if action < 0.35:
                await client.run(
                    f"INSERT INTO t (id, n) SELECT g, {step} FROM generate_series({step}, {step + 5}) g"
                    " ON CONFLICT DO NOTHING"
                )
            elif action < 0.55:
                await client.run(f"UPDATE t SET n = {step} WHERE id % 3 = {chance.randint(0, 2)}")
            elif action < 0.7:
                await client.run(f"DELETE FROM t WHERE id % 4 = {chance.randint(0, 3)}")
            elif action < 0.75:
                await client.run("TRUNCATE t")
            elif action < 0.8:
                await client.run(
                    f"ALTER TABLE t ADD COLUMN c{step} int DEFAULT {step}; ALTER TABLE t DROP COLUMN c{step}"
                )
            elif recorded:
                moment = chance.choice(sorted(recorded))
                await client.run(f"CALL tidegate.restore_table('t', {moment})")
                assert await client.rows("SELECT id, n, v FROM t ORDER BY id") == recorded[moment]
            recorded[await _csn(client)] = await client.rows("SELECT id, n, v FROM t ORDER BY id")
            if chance.random() < 0.2:
                server.env.leases._marks.clear()
                await server.env.leases.keep_alive()
                await fold(server)
        for moment, rows in recorded.items():
            assert await client.rows(f"SELECT id, n, v FROM tidegate.as_of('t', {moment}) ORDER BY id") == rows
            assert await client.rows(f"SELECT id, n, v FROM t ORDER BY id AS OF {moment}") == rows
