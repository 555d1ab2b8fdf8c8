"""Values of composite types that were stored when the types had other fields."""

from __future__ import annotations

from pathlib import Path

from storage.stores.blob_local import LocalBlob
from tests.adapter.harness import blocked, connect, open_server


async def test_values_in_files_are_read_with_the_fields_of_now(tmp_path: Path) -> None:
    async with open_server(blob=LocalBlob(tmp_path), allow_paths=(tmp_path,)) as server:
        client = await connect(server)
        await client.run("CREATE TYPE f AS (a int, s text); CREATE TYPE g AS (f f, fs f[])")
        await client.run("CREATE TABLE t (i int, x f, y f[], z g, m f[][])")
        await client.run(
            "INSERT INTO t SELECT n, ROW(n, md5(n::text))::f, ARRAY[ROW(n + 1, md5((n + 1)::text))::f, NULL],"
            " ROW(ROW(n, 's'), ARRAY[ROW(n, 'k')::f])::g, ARRAY[ARRAY[ROW(n, 'm')::f]]"
            " FROM generate_series(1, 120000) n"
        )
        await client.run("ALTER TYPE f ADD ATTRIBUTE b numeric")
        sums = "SELECT sum((x).a), count((x).b), sum((y[1]).a), sum(((z).f).a), max(((z).fs[1]).s) FROM t"
        assert await client.rows(sums) == [(7200060000, 0, 7200180000, 7200060000, "k")]
        await client.run("ALTER TYPE f DROP ATTRIBUTE s; ALTER TYPE f DROP ATTRIBUTE a")
        counts = "SELECT count(x), count((x).b), count(y[1]), count((z).f), count((z).fs[1]), count(m[1][1]) FROM t"
        assert await client.rows(counts) == [(120000, 0, 120000, 120000, 120000, 120000)]
        await client.run("UPDATE t SET x.b = 1.5 WHERE i = 77")
        assert await client.rows("SELECT i, (x).b::text FROM t WHERE (x).b IS NOT NULL") == [(77, "1.5")]


async def test_a_temporary_table_follows_what_another_session_does_to_its_type() -> None:
    async with open_server() as server:
        one, two = await connect(server), await connect(server)
        await one.run("CREATE TABLE t (a int); CREATE TEMPORARY TABLE tt (x t); INSERT INTO tt VALUES (ROW(1))")
        assert await one.value("SELECT x::text FROM tt") == "(1)"
        await two.run("ALTER TABLE t ADD COLUMN b int; ALTER TABLE t DROP COLUMN a")
        assert await one.value("SELECT x::text FROM tt") == "()"
        await one.run("INSERT INTO tt VALUES (ROW(2))")
        assert await one.rows("SELECT (x).b FROM tt ORDER BY 1") == [(2,), (None,)]
        await one.run("ALTER TABLE tt ADD COLUMN n int; DROP TABLE tt")


async def test_a_change_of_a_type_waits_for_who_writes_to_its_tables() -> None:
    async with open_server() as server:
        one, two = await connect(server), await connect(server)
        await one.run("CREATE TYPE f AS (a int); CREATE TABLE t (x f)")
        await one.run("BEGIN; INSERT INTO t VALUES (ROW(1))")
        waiting = await blocked(two, "ALTER TYPE f ADD ATTRIBUTE b int")
        await one.run("COMMIT")
        await waiting.result()
        assert await one.value("SELECT x::text FROM t") == "(1,)"
