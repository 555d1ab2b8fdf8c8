"""tidegate.as_of and tidegate.changes in FROM: one table as it was, beside others as they are."""

from __future__ import annotations

import random

import pytest

from planner.errors import InsufficientPrivilege
from tests.adapter.harness import Client, connect, open_server
from tests.adapter.transactions.test_looking_back import fold

HOUR_MS = 3_600_000


async def csn(client: Client) -> int:
    """The CSN up to which everything has been committed."""
    found = await client.value("SELECT tidegate.current_csn()")
    assert isinstance(found, int)
    return found


async def test_one_table_is_read_as_it_was() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int PRIMARY KEY, old text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        then = await csn(client)
        await client.run("DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (3, 'c'); ALTER TABLE t RENAME old TO new")
        gone = await csn(client)
        assert await client.rows(f"SELECT * FROM tidegate.as_of('t', {then}) ORDER BY 1") == [(1, "a"), (2, "b")]
        assert await client.rows(f"SELECT o.old FROM tidegate.as_of('public.t', '{then}') AS o WHERE o.id = 2") == [
            ("b",)
        ]
        lost = f"SELECT o.id, o.old, t.new FROM tidegate.as_of('t', {then}) o FULL JOIN t USING (id) ORDER BY id"
        assert await client.rows(lost.replace("o.id", "id")) == [(1, "a", "a"), (2, "b", None), (3, None, "c")]
        both = f"SELECT count(*) FROM tidegate.as_of('t', {then}) a, tidegate.as_of('t', {gone}) b WHERE a.id = b.id"
        assert await client.value(both) == 1
        assert await client.rows(f"SELECT x, y FROM tidegate.as_of('t', {then}) AS q (x, y) WHERE x = 1") == [(1, "a")]
        await client.run("DROP TABLE t")
        assert await client.value(f"SELECT count(*) FROM tidegate.as_of('t', {then})") == 2
        await client.run(f"CREATE TABLE t AS SELECT * FROM tidegate.as_of('t', {gone})")
        assert await client.rows("SELECT * FROM t ORDER BY 1") == [(1, "a"), (3, "c")]
        plan = await client.rows(f"EXPLAIN SELECT * FROM tidegate.as_of('t', {then})")
        assert plan[0] == ("Seq Scan on t",)


async def test_a_block_reads_the_past_after_it_has_written() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 10), (2, 20)")
        then = await csn(client)
        for level in ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
            await client.run(f"BEGIN ISOLATION LEVEL {level}")
            await client.run("UPDATE t SET n = 0; DELETE FROM t WHERE id = 2")
            await client.run(
                f"INSERT INTO t SELECT id, n FROM tidegate.as_of('t', {then})"
                " ON CONFLICT (id) DO UPDATE SET n = excluded.n"
            )
            assert await client.rows("SELECT * FROM t ORDER BY 1") == [(1, 10), (2, 20)], level
            await client.run("COMMIT")
        await client.run("UPDATE t SET n = -1")
        await client.run(f"UPDATE t SET n = o.n FROM tidegate.as_of('t', {then}) o WHERE o.id = t.id")
        assert await client.rows("SELECT * FROM t ORDER BY 1") == [(1, 10), (2, 20)]


async def test_moments_are_expressions_and_parameters() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int); INSERT INTO t VALUES (1)")
        then = await csn(client)
        await client.run("SELECT pg_sleep(0.02)")
        # Nothing has been committed since, and yet the moment has passed.
        assert await client.value("SELECT count(*) FROM tidegate.as_of('t', now() - interval '5 milliseconds')") == 1
        await client.run("DELETE FROM t")
        assert await client.value(f"SELECT count(*) FROM tidegate.as_of('t', {then} + 0)") == 1
        await client.run("PREPARE p (bigint) AS SELECT count(*) FROM tidegate.as_of('t', $1)")
        assert await client.rows(f"EXECUTE p ({then})") == [(1,)]
        assert await client.rows(f"EXECUTE p ({await csn(client)})") == [(0,)]
        await client.run("PREPARE q AS SELECT sum(tidegate_diff) FROM tidegate.changes('t', $1, $2)")
        assert await client.value(f"EXECUTE q ('{then}', '{await csn(client)}')") == -1
        await client.session.prepare("s", f"SELECT *, 1 FROM tidegate.as_of('t', {then})", ())
        described = await client.session.describe_statement("s")
        assert [column.name for column in described.columns or ()] == ["id", "?column?"]


@pytest.mark.parametrize(
    ("source", "sqlstate"),
    [
        ("tidegate.as_of('nothing', 5)", "3D000"),
        ("tidegate.as_of('nothing', tidegate.current_csn())", "42P01"),
        ("tidegate.as_of('c', tidegate.current_csn())", "0A000"),
        ("tidegate.changes('c', tidegate.current_csn() - 1, tidegate.current_csn())", "0A000"),
        ("tidegate.as_of('m', tidegate.current_csn())", "55000"),
        ("tidegate.as_of('s', tidegate.current_csn())", "42809"),
        ("tidegate.as_of('pg_class', tidegate.current_csn())", "42P01"),
        ("tidegate.as_of('t')", "42883"),
        ("tidegate.changes('t', 5)", "42883"),
        ("tidegate.as_of(1, 5)", "22023"),
        ("tidegate.as_of('t' || '', 5)", "0A000"),
        ("tidegate.as_of('a.b.c', tidegate.current_csn())", "0A000"),
        ("tidegate.as_of('t', '2999-01-01')", "22023"),
        ("tidegate.as_of('t', NULL)", "22023"),
        ("tidegate.as_of('t', NULL::bigint)", "22023"),
        ("tidegate.as_of('t', true)", "42804"),
        ("tidegate.as_of('t', 'never')", "22023"),
        ("tidegate.as_of('t', (SELECT max(id) FROM t))", "0A000"),
        ("tidegate.changes('t', tidegate.current_csn(), 5)", "3D000"),
        ("tidegate.changes('t', tidegate.current_csn() + 1, tidegate.current_csn())", "22023"),
    ],
)
async def test_what_cannot_be_read(source: str, sqlstate: str) -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int); CREATE VIEW v AS TABLE t; CREATE SEQUENCE s")
        await client.run("CREATE VIEW c AS SELECT relname FROM pg_class")
        await client.run("CREATE MATERIALIZED VIEW m AS TABLE t WITH NO DATA")
        assert (await client.error(f"SELECT * FROM {source}")).sqlstate == sqlstate
        assert (await client.error(f"SELECT 1 FROM t, {source} AS q")).sqlstate == sqlstate


async def test_no_definition_keeps_a_moment() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int)")
        then = await csn(client)
        query = f"SELECT * FROM tidegate.as_of('t', {then})"
        for text in (
            f"CREATE VIEW w AS {query}",
            f"CREATE MATERIALIZED VIEW w AS {query}",
            f"CREATE FUNCTION f() RETURNS SETOF int LANGUAGE sql BEGIN ATOMIC {query}; END",
            f"{query} AS q FOR UPDATE OF q",
        ):
            assert (await client.error(text)).sqlstate == "0A000", text
        assert await client.rows(f"{query} FOR UPDATE") == []


async def test_privileges_of_then_and_of_today_count() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        owner = await connect(server)
        await owner.run("CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, 'a'); CREATE ROLE eve LOGIN")
        never = await csn(owner)
        await owner.run("GRANT SELECT (id) ON t TO eve")
        some = await csn(owner)
        await owner.run("GRANT SELECT ON t TO eve")
        whole = await csn(owner)
        eve = await connect(server, user="eve")

        async def answer(moment: int, columns: str = "*", function: str = "as_of") -> object:
            since = "" if function == "as_of" else f"{moment}, "
            text = f"SELECT {columns} FROM tidegate.{function}('t', {since}{moment})"
            try:
                return await eve.rows(text)
            except InsufficientPrivilege as error:
                return str(error)

        denied = "permission denied for table t"
        assert denied in str(await answer(never))
        assert denied in str(await answer(never, "id"))
        assert await answer(some, "id") == [(1,)]
        assert denied in str(await answer(some))
        assert await answer(whole) == [(1, "a")]
        assert await answer(whole, "*", "changes") == []
        await owner.run("REVOKE SELECT ON t FROM eve; GRANT SELECT (id) ON t TO eve")
        assert denied in str(await answer(whole))
        assert await answer(whole, "id") == [(1,)]
        assert denied in str(await answer(whole, "v", "changes"))
        await owner.run("DROP TABLE t")
        assert await answer(whole) == [(1, "a")]
        assert denied in str(await answer(some))


async def test_rows_that_are_hidden_stay_hidden() -> None:
    async with open_server(retain_ms=HOUR_MS) as server:
        owner = await connect(server)
        await owner.run(
            "CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b'); CREATE ROLE eve LOGIN"
        )
        await owner.run("GRANT SELECT ON t TO eve")
        before = await csn(owner)
        await owner.run("ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (id = 1)")
        since = await csn(owner)
        await owner.run("DELETE FROM t")
        eve = await connect(server, user="eve")
        assert (await eve.error(f"SELECT * FROM tidegate.as_of('t', {before})")).sqlstate == "42501"
        assert await eve.rows(f"SELECT * FROM tidegate.as_of('t', {since})") == [(1, "a")]
        changes = f"SELECT * FROM tidegate.changes('t', {since}, tidegate.current_csn())"
        assert (await eve.error(changes)).sqlstate == "42501"
        assert len(await owner.rows(changes)) == 2


@pytest.mark.parametrize("seed", range(3))
async def test_changes_add_up_to_the_difference(seed: int) -> None:
    chance = random.Random(seed)
    async with open_server(retain_ms=HOUR_MS, background=False) as server:
        client = await connect(server)
        await client.run("CREATE TABLE t (id int, n int)")
        moments = [await csn(client)]
        for step in range(40):
            action = chance.random()
            if action < 0.5:
                many = 1 if chance.random() < 0.8 else 30_000
                await client.run(f"INSERT INTO t SELECT g, {step} FROM generate_series(1, {many}) g")
            elif action < 0.7:
                await client.run(f"UPDATE t SET n = n + 1 WHERE id % 7 = {chance.randint(0, 6)}")
            elif action < 0.85:
                await client.run(f"DELETE FROM t WHERE id % 5 = {chance.randint(0, 4)}")
            elif action < 0.9:
                await client.run("TRUNCATE t")
            else:
                server.env.leases._marks.clear()
                await server.env.leases.keep_alive()
                await fold(server)
            moments.append(await csn(client))
        for _ in range(8):
            since, until = sorted(chance.sample(moments, 2))
            rows = await client.rows(f"""
                SELECT id, n, sum(d) FROM (
                    SELECT id, n, tidegate_diff AS d FROM tidegate.changes('t', {since}, {until})
                    UNION ALL SELECT id, n, 1 FROM tidegate.as_of('t', {since})
                    UNION ALL SELECT id, n, -1 FROM tidegate.as_of('t', {until})) q
                GROUP BY id, n HAVING sum(d) <> 0""")
            assert rows == []
            by_csn = f"SELECT min(tidegate_csn), max(tidegate_csn) FROM tidegate.changes('t', {since}, {until})"
            ((low, high),) = await client.rows(by_csn)
            assert low is None or since < low <= high <= until
