"""SELECT ... AS OF: one statement reads a moment of the past, with the catalog of then."""

from __future__ import annotations

import pytest

from adapter.sessions.server import Server
from tests.adapter.harness import Client, blocked, connect, open_server

HOUR_MS = 3_600_000


async def _history(server: Server) -> tuple[Client, int, int]:
    """A session, the CSN before a column of its table `t` was dropped, and the CSN before the table was."""
    client = await connect(server)
    await client.run("CREATE TABLE t (id int PRIMARY KEY, old text)")
    await client.run("INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 5) g")
    then = await client.value("SELECT tidegate.current_csn()")
    await client.run("ALTER TABLE t DROP COLUMN old")
    await client.run("DELETE FROM t WHERE id > 2")
    gone = await client.value("SELECT tidegate.current_csn()")
    await client.run("DROP TABLE t")
    return client, then, gone


async def test_a_statement_reads_the_moment_that_it_names() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client, then, gone = await _history(server)
        assert await client.rows(f"SELECT * FROM t WHERE id = 4 AS OF {then}") == [(4, "row 4")]
        assert await client.rows(f"TABLE t ORDER BY id AS OF {gone}") == [(1,), (2,)]
        assert await client.value(f"SELECT count(*) FROM t AS OF '{then}'") == 5
        assert await client.value(f"SELECT tidegate.current_csn() AS OF {then} - 0") == then
        assert await client.value(f"SELECT sum(id) FROM t a JOIN t b USING (id) AS OF ({then})") == 15
        assert await client.run(f"SELECT 1 AS of; SELECT count(*) FROM t AS OF {then}; SELECT 2") == [
            [(1,)],
            [(5,)],
            [(2,)],
        ]
        assert (await client.error("SELECT * FROM t")).sqlstate == "42P01"


async def test_a_moment_is_a_time_or_an_expression() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int)")
        await client.run("INSERT INTO t VALUES (1)")
        await client.run("SELECT pg_sleep(1)")
        await client.run("DELETE FROM t")
        await client.run("SELECT pg_sleep(0.01)")
        assert await client.rows("SELECT * FROM t AS OF now() - interval '500 milliseconds'") == [(1,)]
        assert await client.rows("SELECT * FROM t") == []
        for expression, sqlstate in (
            ("'2999-01-01'", "22023"),
            ("now() + interval '1 day'", "22023"),
            ("NULL::bigint", "22023"),
            ("'never'", "22023"),
            ("true", "42804"),
            ("(SELECT max(id) FROM t)", "0A000"),
            ("1, 2", "0A000"),
            ("nothing", "42703"),
        ):
            assert (await client.error(f"SELECT * FROM t AS OF {expression}")).sqlstate == sqlstate, expression


async def test_explain_cursors_and_prepared_statements_look_back() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client, then, gone = await _history(server)
        assert await client.rows(f"EXPLAIN SELECT * FROM t AS OF {then}")
        await client.run(f"BEGIN; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id AS OF {then}")
        assert await client.rows("FETCH 2 FROM c") == [(1,), (2,)]
        assert await client.rows(f"SELECT count(*) FROM t AS OF {gone}") == [(2,)]
        assert await client.rows("FETCH ALL FROM c") == [(3,), (4,), (5,)]
        await client.run("CREATE TABLE u (id int); INSERT INTO u VALUES (1)")
        assert (await client.error(f"SELECT * FROM t AS OF {then}")).sqlstate == "25001"
        await client.run("ROLLBACK")
        await client.run("CREATE TABLE u (id int)")
        now = await client.value("SELECT tidegate.current_csn()")
        await client.run("INSERT INTO u VALUES (1)")
        await client.run("PREPARE p (bigint) AS SELECT count(*) FROM u AS OF $1")
        assert await client.rows(f"EXECUTE p ({now})") == [(0,)]
        assert await client.rows("EXECUTE p (tidegate.current_csn())") == [(1,)]
        assert await client.rows("SELECT * FROM u AS OF tidegate.current_csn()") == [(1,)]


async def test_a_block_goes_on_in_the_present() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client, then, _ = await _history(server)
        await client.run("CREATE TABLE u (id int)")
        await client.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert await client.rows("SELECT * FROM u") == []
        assert await client.value(f"SELECT count(*) FROM t AS OF {then}") == 5
        assert (await client.tag("INSERT INTO u VALUES (1)")) == "INSERT 0 1"
        await client.run("COMMIT")
        assert await client.rows("SELECT * FROM u") == [(1,)]


async def test_only_queries_look_back() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client, then, _ = await _history(server)
        await client.run("CREATE TABLE u (id int)")
        for refused in ("UPDATE u SET id = 1", "DELETE FROM u", "INSERT INTO u VALUES (1)", "CREATE VIEW v AS TABLE u"):
            assert (await client.error(f"{refused} AS OF {then}")).sqlstate == "0A000", refused
        error = await client.error(f"CREATE MATERIALIZED VIEW m AS SELECT id FROM t AS OF {then}")
        assert (error.sqlstate, "CREATE MATERIALIZED VIEW" in error.message) == ("0A000", True)
        assert (await client.error(f"SELECT id FROM t FOR UPDATE AS OF {then}")).sqlstate == "25006"
        assert await client.rows("SELECT * FROM u AS OF") == []
        assert (await client.error("SELECT * FROM u AS OF 1 2")).sqlstate == "42601"
        # What comes behind the moment would be the moment's, and lost.
        for rest in ("LIMIT 1", "UNION ALL SELECT 1", "ORDER BY 1", "FROM t", "WHERE true", "FOR UPDATE"):
            assert (await client.error(f"SELECT id FROM t AS OF {then} {rest}")).sqlstate == "42601", rest


async def test_a_described_statement_has_the_columns_of_then() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client, then, _ = await _history(server)
        await client.session.prepare("p", f"SELECT * FROM t ORDER BY id AS OF {then}", ())
        description = await client.session.describe_statement("p")
        assert description.columns is not None
        assert [column.name for column in description.columns] == ["id", "old"]


async def test_what_was_revoked_since_is_not_to_be_had_by_a_date() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        owner = await connect(server)
        await owner.run("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        await owner.run("CREATE TABLE own (id int); INSERT INTO own VALUES (1)")
        await owner.run("CREATE VIEW w AS SELECT id FROM t")
        await owner.run("CREATE ROLE eve LOGIN; GRANT SELECT ON t, own, w TO eve")
        then = await owner.value("SELECT tidegate.current_csn()")
        eve = await connect(server, user="eve")
        looks = (
            f"SELECT * FROM t AS OF {then}",
            f"SELECT v FROM t WHERE id = 1 AS OF {then}",
            f"SET tidegate.as_of = '{then}'; SELECT * FROM t",
            f"SET tidegate.as_of = '{then}'; COPY t TO STDOUT",
            f"SET tidegate.as_of = '{then}'; COPY (SELECT v FROM t) TO STDOUT",
            f"SET tidegate.as_of = '{then}'; BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH ALL FROM c",
        )
        for text in looks:
            await eve.run(text)
            await eve.run("ROLLBACK; RESET tidegate.as_of")
        await owner.run("REVOKE SELECT ON t FROM eve")
        for text in looks:
            assert (await eve.error(text)).message == "permission denied for table t", text
            await eve.run("ROLLBACK; RESET tidegate.as_of")
        # A view shows its owner's rows.
        assert await eve.rows(f"SELECT id FROM w ORDER BY 1 AS OF {then}") == [(1,), (2,)]
        await owner.run("DROP TABLE own")
        assert await eve.value(f"SELECT id FROM own AS OF {then}") == 1


async def test_rows_that_were_hidden_since_are_not_to_be_had_by_a_date() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        owner = await connect(server)
        await owner.run("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        await owner.run("CREATE ROLE eve LOGIN; GRANT SELECT ON t TO eve")
        then = await owner.value("SELECT tidegate.current_csn()")
        eve = await connect(server, user="eve")
        assert len(await eve.rows(f"SELECT * FROM t AS OF {then}")) == 2
        await owner.run("ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (id = 1)")
        since = await owner.value("SELECT tidegate.current_csn()")
        assert await eve.rows("SELECT * FROM t") == [(1, "a")]
        error = await eve.error(f"SELECT * FROM t AS OF {then}")
        assert (error.sqlstate, error.message) == ("42501", 'the row-level security of table "t" has changed since')
        assert await eve.rows(f"SELECT * FROM t AS OF {since}") == [(1, "a")]
        assert len(await owner.rows(f"SELECT * FROM t AS OF {then}")) == 2


async def test_who_waits_for_a_lock_reads_the_moment_all_the_same() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client, other = await connect(server), await connect(server)
        await client.run("CREATE TABLE t (id int); INSERT INTO t VALUES (1)")
        then = await client.value("SELECT tidegate.current_csn()")
        for before in ("", "BEGIN;", "BEGIN ISOLATION LEVEL SERIALIZABLE;"):
            await client.run("BEGIN; LOCK TABLE t; INSERT INTO t VALUES (2)")
            waiting = await blocked(other, f"{before} SELECT id FROM t AS OF {then}; COMMIT")
            await client.run("COMMIT")
            assert [(1,)] in await waiting.result()


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "SERIALIZABLE"])
async def test_what_is_written_is_of_now_and_what_it_reads_of_then(isolation: str) -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client, then, gone = await _history(server)
        await client.run("CREATE TABLE u (id int PRIMARY KEY, v text)")
        await client.run(f"BEGIN ISOLATION LEVEL {isolation}; INSERT INTO u VALUES (9, 'own')")
        assert await client.tag(f"INSERT INTO u SELECT id, old FROM t AS OF {then}") == "INSERT 0 5"
        insert = "INSERT INTO u AS o SELECT id FROM t ON CONFLICT (id) DO UPDATE SET v = o.v || '!' RETURNING id, v"
        assert await client.rows(f"{insert} AS OF {gone}") == [(1, "row 1!"), (2, "row 2!")]
        await client.run(f"WITH w AS (SELECT max(id) FROM t) INSERT INTO u SELECT max + 100 FROM w AS OF {then}")
        await client.run("COMMIT")
        assert await client.value("SELECT sum(id) FROM u") == 15 + 9 + 105
        assert await client.tag(f"CREATE TABLE whole AS SELECT * FROM t AS OF {then}") == "SELECT 5"
        assert await client.tag(f"SELECT count(*) AS n INTO counted FROM t AS OF {gone}") == "SELECT 1"
        assert await client.rows("SELECT n, old FROM counted, whole WHERE id = 3") == [(2, "row 3")]


async def test_prepared_statements_read_the_moment_of_each_execution() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client, then, gone = await _history(server)
        await client.run("CREATE TABLE t (id int, old text); CREATE TABLE u (id int)")
        await client.run("PREPARE fill (bigint) AS INSERT INTO u SELECT id FROM t AS OF $1")
        assert [await client.tag(f"EXECUTE fill ({moment})") for moment in (then, gone, then)] == [
            "INSERT 0 5",
            "INSERT 0 2",
            "INSERT 0 5",
        ]
        await client.run(f"PREPARE read AS SELECT id FROM t AS OF {then}")
        assert len(await client.rows("EXECUTE read")) == 5
        assert await client.tag("CREATE TABLE copied AS EXECUTE read") == "SELECT 5"
        assert len(await client.rows("EXECUTE read")) == 5


async def test_what_a_write_reads_of_the_past_conflicts_with_nothing() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client, other = await connect(server), await connect(server)
        await client.run("CREATE TABLE t (id int); CREATE TABLE u (id int); INSERT INTO t VALUES (1), (2)")
        then = await client.value("SELECT tidegate.current_csn()")
        await client.run("BEGIN ISOLATION LEVEL SERIALIZABLE")
        await client.run(f"INSERT INTO u SELECT sum(id) FROM t AS OF {then}")
        await other.run("ALTER TABLE t ADD COLUMN v text; DELETE FROM t")
        await client.run("COMMIT")
        assert await client.rows("SELECT * FROM u") == [(3,)]


async def test_a_write_reads_views_as_they_were() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int, v int); INSERT INTO t VALUES (1, 10), (2, 20)")
        await client.run("CREATE MATERIALIZED VIEW m WITH (refresh = 'on commit') AS SELECT sum(v) AS s FROM t")
        await client.run("CREATE VIEW w AS SELECT s + 1 AS s FROM m; INSERT INTO t VALUES (3, 30)")
        then = await client.value("SELECT tidegate.current_csn()")
        await client.run("DROP VIEW w; DELETE FROM t")
        await client.run(f"CREATE TABLE u AS SELECT w.s AS w, m.s AS m FROM w, m AS OF {then}")
        assert await client.rows("SELECT * FROM u") == [(61, 60)]
        await client.run("CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT 1; SELECT count(*) FROM t'")
        now = await client.value("SELECT tidegate.current_csn()")
        assert (await client.error(f"INSERT INTO u SELECT f(), 1 AS OF {now}")).sqlstate == "0A000"
        assert (await client.error(f"INSERT INTO u SELECT oid, 1 FROM pg_class AS OF {now}")).sqlstate == "0A000"


async def test_what_was_revoked_since_is_not_written_by_a_date() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        owner = await connect(server)
        await owner.run(
            "CREATE TABLE t (id int); INSERT INTO t VALUES (1); CREATE ROLE eve LOGIN; GRANT SELECT ON t TO eve"
        )
        await owner.run("GRANT CREATE ON SCHEMA public TO eve")
        then = await owner.value("SELECT tidegate.current_csn()")
        eve = await connect(server, user="eve")
        await eve.run(f"CREATE TABLE mine AS SELECT id FROM t AS OF {then}")
        await owner.run("ALTER TABLE t ENABLE ROW LEVEL SECURITY")
        assert (await eve.error(f"INSERT INTO mine SELECT id FROM t AS OF {then}")).sqlstate == "42501"
        await owner.run("ALTER TABLE t DISABLE ROW LEVEL SECURITY; REVOKE SELECT ON t FROM eve")
        for text in ("INSERT INTO mine SELECT id FROM t", "CREATE TABLE more AS SELECT id FROM t"):
            assert (await eve.error(f"{text} AS OF {then}")).sqlstate == "42501", text
