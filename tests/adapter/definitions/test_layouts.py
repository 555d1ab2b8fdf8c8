"""Options of tables that lay out their files: what they may be, what becomes of them, and what is written by them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from adapter.results import CopyIn
from adapter.sessions.server import Server
from storage.catalog.model import Relation
from storage.layouts.definition import layout_of
from tests.adapter.harness import Client

OPTIONS = "SELECT reloptions FROM pg_class WHERE relname = 't'"


@pytest.mark.parametrize(
    ("options", "sqlstate", "message"),
    [
        ("sort_by = 'ts desc'", "22023", 'invalid value for option "sort_by": ts desc'),
        ("sort_by = ' '", "22023", 'invalid value for option "sort_by":  '),
        ("sort_by = 'id, id'", "22023", 'invalid value for option "sort_by": id, id'),
        ("sort_by = 'id,'", "22023", 'invalid value for option "sort_by": id,'),
        ("sort_by = 'id, nowhere'", "42703", 'column "nowhere" named in option "sort_by" does not exist'),
        ("sort_by = 'zorder(id)'", "22023", 'invalid value for option "sort_by": zorder(id)'),
        ("sort_by = 'zorder(id, id)'", "22023", 'invalid value for option "sort_by": zorder(id, id)'),
        ("sort_by = 'zorder(id, ts), id'", "22023", 'invalid value for option "sort_by": zorder(id, ts), id'),
        ("sort_by = 'zorder(id, none)'", "42703", 'column "none" named in option "sort_by" does not exist'),
        ("sort_by = 'zorder(id, doc)'", "42P16", 'column "doc" cannot be in option "sort_by"'),
        ("sort_by = 'doc'", "42P16", 'column "doc" cannot be in option "sort_by"'),
        ("sort_by = 'list'", "42P16", 'column "list" cannot be in option "sort_by"'),
        ("sort_by = 'any_number'", "42P16", 'column "any_number" cannot be in option "sort_by"'),
        ("partition_by = 'week(ts)'", "22023", 'invalid value for option "partition_by": week(ts)'),
        ("partition_by = 'bucket(id)'", "22023", 'invalid value for option "partition_by": bucket(id)'),
        ("partition_by = 'bucket(0, id)'", "22023", 'invalid value for option "partition_by": bucket(0, id)'),
        ("partition_by = 'id, id'", "22023", 'invalid value for option "partition_by": id, id'),
        ("partition_by = 'day(nowhere)'", "42703", 'column "nowhere" named in option "partition_by" does not exist'),
        ("partition_by = 'day(id)'", "42P16", 'column "id" cannot be in option "partition_by" by day'),
        ("partition_by = 'truncate(3, ts)'", "42P16", 'column "ts" cannot be in option "partition_by" by truncate'),
        ("partition_by = 'bucket(3, share)'", "42P16", 'column "share" cannot be in option "partition_by" by bucket'),
        ("partition_by = 'doc'", "42P16", 'column "doc" cannot be in option "partition_by" by identity'),
        ("target_file_size = 'large'", "22023", 'invalid value for option "target_file_size": large'),
        ("target_file_size = '5 TB'", "22023", 'invalid value for option "target_file_size": 5 TB'),
        ("target_file_size = '1kB'", "22023", 'value 1kB out of bounds for option "target_file_size"'),
        ("target_file_size = '5GB'", "22023", 'value 5GB out of bounds for option "target_file_size"'),
    ],
)
async def test_bad_options_are_refused(client: Client, options: str, sqlstate: str, message: str) -> None:
    columns = "id int, ts timestamptz, doc json, list int[], any_number numeric, share float8"
    error = await client.error(f"CREATE TABLE t ({columns}) WITH ({options})")
    assert (error.sqlstate, error.message) == (sqlstate, message)
    await client.run(f"CREATE TABLE t ({columns})")
    error = await client.error(f"ALTER TABLE t SET ({options})")
    assert (error.sqlstate, error.message) == (sqlstate, message)
    assert await client.value(OPTIONS) is None


async def test_options_follow_the_columns(client: Client) -> None:
    await client.run(
        """CREATE TABLE t (id int, "Odd, name" text, ts timestamptz, v int) WITH (sort_by = 'TS,"Odd, name"')"""
    )
    assert await client.value(OPTIONS) == ['sort_by=ts, "Odd, name"']
    await client.run('ALTER TABLE t RENAME ts TO "At"; ALTER TABLE t RENAME COLUMN "Odd, name" TO note')
    assert await client.value(OPTIONS) == ['sort_by="At", note']
    error = await client.error("ALTER TABLE t DROP COLUMN note CASCADE")
    assert error.sqlstate == "42P16"
    assert error.message == 'cannot drop column "note" because option "sort_by" of relation "t" names it'
    error = await client.error("ALTER TABLE t ALTER COLUMN note TYPE json USING to_json(note)")
    assert (error.sqlstate, error.message) == ("42P16", 'column "note" cannot be in option "sort_by"')
    await client.run("ALTER TABLE t ALTER note TYPE varchar(10); ALTER TABLE t DROP COLUMN v")
    await client.run("ALTER TABLE t SET (sort_by = 'id', target_file_size = '1MB')")
    assert await client.value(OPTIONS) == ["sort_by=id", "target_file_size=1MB"]
    await client.run("ALTER TABLE t DROP COLUMN note; ALTER TABLE t RESET (sort_by)")
    assert await client.value(OPTIONS) == ["target_file_size=1MB"]
    await client.run("ALTER TABLE t RESET (target_file_size); ALTER TABLE t DROP COLUMN id")
    assert await client.value(OPTIONS) is None


async def test_partitions_follow_the_columns(client: Client) -> None:
    await client.run("CREATE TABLE t (id int, ts timestamptz, v int) WITH (partition_by = 'DAY(ts),bucket(16 , ID)')")
    assert await client.value(OPTIONS) == ["partition_by=day(ts), bucket(16, id)"]
    await client.run('ALTER TABLE t RENAME ts TO "At"')
    assert await client.value(OPTIONS) == ['partition_by=day("At"), bucket(16, id)']
    error = await client.error("ALTER TABLE t DROP COLUMN id")
    assert error.sqlstate == "42P16"
    assert error.message == 'cannot drop column "id" because option "partition_by" of relation "t" names it'
    error = await client.error('ALTER TABLE t ALTER "At" TYPE int USING 1')
    assert (error.sqlstate, error.message) == ("42P16", 'column "At" cannot be in option "partition_by" by day')
    await client.run("ALTER TABLE t SET (partition_by = 'v'); CREATE TABLE u (LIKE t INCLUDING STORAGE)")
    assert await client.value("SELECT reloptions FROM pg_class WHERE relname = 'u'") == ["partition_by=v"]
    await client.run("ALTER TABLE t RESET (partition_by)")
    assert await client.value(OPTIONS) is None


async def test_tables_like_others_are_laid_out_like_them(client: Client) -> None:
    await client.run("CREATE TABLE s (id int, v int) WITH (sort_by = 'v', fillfactor = 70, target_file_size = '2MB')")
    wanted = ["sort_by=v", "target_file_size=2MB"]
    await client.run("CREATE TABLE t (LIKE s INCLUDING STORAGE)")
    assert await client.value(OPTIONS) == wanted
    await client.run("DROP TABLE t; CREATE TABLE t (LIKE s)")
    assert await client.value(OPTIONS) is None
    await client.run("DROP TABLE t; CREATE TABLE t (LIKE s INCLUDING ALL) WITH (sort_by = 'id')")
    assert await client.value(OPTIONS) == ["sort_by=id", "target_file_size=2MB"]
    await client.run("DROP TABLE t; CALL tidegate.clone_table('s', 't')")
    assert await client.value(OPTIONS) == wanted
    await client.run("DROP TABLE t; CREATE TABLE t WITH (sort_by = 'b') AS SELECT 1 AS a, 2 AS b")
    assert await client.value(OPTIONS) == ["sort_by=b"]
    error = await client.error("CREATE MATERIALIZED VIEW m WITH (sort_by = 'a') AS SELECT 1 AS a")
    assert (error.sqlstate, error.message) == ("22023", 'unrecognized parameter "sort_by"')


# ---------------------------------------------------------------- what is written


async def _parts(server: Server, client: Client, columns: list[str]) -> list[list[tuple[Any, ...]]]:
    """The rows of each part of the table t, as they are stored."""
    oid = await client.value("SELECT oid FROM pg_class WHERE relname = 't'")
    relation = server.env.catalog.current().get(oid)
    assert isinstance(relation, Relation)
    assert relation.shard is not None
    snapshot = await server.env.reader.snapshot(relation.shard, await server.env.oracle.read_ts("user"))
    found = []
    for part in snapshot.inserts:
        table = await server.env.parts.read(part, columns)
        found.append(list(zip(*[column.to_pylist() for column in table.columns], strict=True)))
    return found


def _is_sorted(rows: list[tuple[Any, ...]]) -> bool:
    keys = [tuple((value is None, value) for value in row) for row in rows]
    return keys == sorted(keys)


SOURCE = "SELECT (g * 7919) % 10007 AS id, nullif(g % 13, 5) AS k, repeat(md5(g::text), 4) AS t"


async def test_inserts_come_in_order_of_the_columns(server: Server, client: Client) -> None:
    await client.run("CREATE TABLE t (id int, k int, t text) WITH (sort_by = 'k, id', target_file_size = '256kB')")
    await client.run(f"INSERT INTO t {SOURCE} FROM generate_series(1, 50000) g")
    parts = await _parts(server, client, ["c2", "c1"])
    assert 3 <= len(parts) <= 8
    assert _is_sorted([row for rows in parts for row in rows])
    await client.run("INSERT INTO t VALUES (3, 9, ''), (2, NULL, ''), (1, 7, '')")
    assert (await _parts(server, client, ["c2", "c1"]))[-1] == [(7, 1), (9, 3), (None, 2)]
    plan = "\n".join(line for (line,) in await client.rows("EXPLAIN SELECT t FROM t WHERE k = 12"))
    total = len(parts) + 1
    assert f"of {total} read" in plan
    read = int(plan.split("Parts of t: ")[1].split(" of ")[0])
    assert 1 <= read <= 3


async def test_files_have_rows_of_one_partition(server: Server, client: Client) -> None:
    await client.run(
        "CREATE TABLE t (id int, k int, t text) WITH (partition_by = 'bucket(4, id), truncate(10, k)', sort_by = 'id')"
    )
    await client.run(f"INSERT INTO t {SOURCE} FROM generate_series(1, 50000) g")
    parts = await _parts(server, client, ["c1"])
    assert len(parts) >= 8
    assert all(map(_is_sorted, parts))
    where = [number for number, rows in enumerate(parts) if (4711,) in rows]
    plan = "\n".join(line for (line,) in await client.rows("EXPLAIN SELECT t FROM t WHERE id = 4711 AND k = 3"))
    # In the rows whose k is NULL are those of other buckets, perhaps.
    assert f"of {len(parts)} read" in plan
    assert int(plan.split("Parts of t: ")[1].split(" of ")[0]) <= 2
    found = await client.rows("SELECT id, count(*) FROM t WHERE id IN (4711, 12) GROUP BY 1 ORDER BY 1")
    expected = f"SELECT id, count(*) FROM ({SOURCE} FROM generate_series(1, 50000) g) s WHERE id IN (4711, 12)"
    assert found == await client.rows(expected + " GROUP BY 1 ORDER BY 1")
    assert len(where) >= 1
    await client.run("BEGIN; UPDATE t SET id = id + 1 WHERE k = 3; DELETE FROM t WHERE k IS NULL; COMMIT")
    assert await client.rows("SELECT count(*), sum(id) FROM t") == await client.rows(
        f"SELECT count(*), sum(id + CASE k WHEN 3 THEN 1 ELSE 0 END) FROM ({SOURCE} FROM generate_series(1, 50000) g) s"
        " WHERE k IS NOT NULL"
    )


async def test_what_returning_shows_and_sequences_give_stays_in_the_order_of_the_rows(
    server: Server, client: Client
) -> None:
    await client.run("CREATE TABLE t (id serial, v int, w text) WITH (sort_by = 'v')")
    rows = await client.rows("INSERT INTO t (v) SELECT 10 - g FROM generate_series(1, 5) g RETURNING id, v")
    assert rows == [(1, 9), (2, 8), (3, 7), (4, 6), (5, 5)]
    await client.run("INSERT INTO t (v) SELECT v FROM (VALUES (3), (1), (2)) x (v) ORDER BY v DESC")
    assert await client.rows("SELECT id, v FROM t WHERE id > 5 ORDER BY id") == [(6, 3), (7, 2), (8, 1)]
    assert all(map(_is_sorted, await _parts(server, client, ["c2"])))


async def test_copies_updates_and_rewritten_tables_are_in_order(server: Server, client: Client) -> None:
    await client.run("CREATE TABLE t (id int PRIMARY KEY, v int) WITH (sort_by = 'v, id')")
    async for result in client.session.execute_simple("COPY t FROM STDIN"):
        assert isinstance(result, CopyIn)
        for start in (0, 1000):
            ids = pa.array(range(start, start + 1000), pa.int32())
            values = pa.array([(number * 37) % 101 for number in range(start, start + 1000)], pa.int32())
            await result.write(pa.record_batch([ids, values], names=["id", "v"]))
        assert await result.finish() == 2000
    (rows,) = await _parts(server, client, ["c2", "c1"])
    assert len(rows) == 2000
    assert _is_sorted(rows)
    await client.run("UPDATE t SET v = (id * 31) % 97 WHERE id < 500")
    rows = (await _parts(server, client, ["c2", "c1"]))[-1]
    assert len(rows) == 500
    assert _is_sorted(rows)
    assert await client.value("SELECT count(*) FROM t WHERE v = (id * 31) % 97 AND id < 500") == 500
    await client.run("ALTER TABLE t ALTER v TYPE bigint USING -v")
    assert _is_sorted([row for rows in await _parts(server, client, ["c2", "c1"]) for row in rows])
    await client.run("ALTER TABLE t ADD COLUMN n serial")
    assert _is_sorted([row for rows in await _parts(server, client, ["c2", "c1"]) for row in rows])
    assert await client.value("SELECT count(DISTINCT n) FROM t") == 2000
    with pytest.raises(Exception, match="duplicate key value"):
        await client.run("INSERT INTO t SELECT g, g FROM generate_series(1999, 2001) g")


async def test_other_changes_write_rows_that_are_there(server: Server, client: Client) -> None:
    await client.run("CREATE TABLE t (id int PRIMARY KEY, v int) WITH (sort_by = 'v, id')")
    await client.run("INSERT INTO t SELECT g, -g FROM generate_series(1, 5) g")
    await client.run("INSERT INTO t VALUES (6, 9), (5, 8), (7, 1) ON CONFLICT (id) DO UPDATE SET v = excluded.v")
    await client.run(
        "MERGE INTO t USING (VALUES (7, 3), (8, 2)) s (id, v) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v)"
    )
    await client.run("BEGIN; INSERT INTO t VALUES (10, 2), (9, 1); UPDATE t SET v = v + 1 WHERE id > 8")
    await client.run("DELETE FROM t WHERE id = 10; COMMIT")
    await client.run("WITH a AS (INSERT INTO t VALUES (12, 0), (11, 1) RETURNING id) SELECT count(*) FROM a")
    assert await client.rows("SELECT * FROM t ORDER BY id") == [
        (1, -1), (2, -2), (3, -3), (4, -4), (5, 8), (6, 9), (7, 3), (8, 2), (9, 2), (11, 1), (12, 0),
    ]  # fmt: skip


async def test_a_layout_is_that_of_the_physical_columns(server: Server, client: Client) -> None:
    await client.run("CREATE TABLE t (a int, b int, c int) WITH (sort_by = 'c, a', target_file_size = '3 MB')")
    await client.run("ALTER TABLE t DROP COLUMN b; ALTER TABLE t RENAME c TO b")
    oid = await client.value("SELECT oid FROM pg_class WHERE relname = 't'")
    relation = server.env.catalog.current().get(oid)
    assert isinstance(relation, Relation)
    layout = layout_of(relation)
    assert layout is not None
    assert (layout.sort, layout.target_bytes) == (("c3", "c1"), 3 * 1024**2)
