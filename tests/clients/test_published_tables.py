"""Tables published as Iceberg tables, read by pyiceberg: row for row what SELECT ... AS OF the snapshot's CSN says."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import EqualTo
from pyiceberg.table import StaticTable, Table
from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from tests.support.server import TidegateServer, run_server

Client = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server that keeps the past for an hour, as servers do."""
    with run_server(tmp_path_factory.mktemp("published") / "data") as running:
        yield running


@pytest.fixture
def client(server: TidegateServer) -> Iterator[Client]:
    """A session in a database of its own."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute("DROP DATABASE IF EXISTS lake")
        admin.execute("CREATE DATABASE lake")
    with psycopg.connect(server.dsn("lake"), autocommit=True) as connection:
        yield connection


def published(client: Client, table: str = "t") -> Table:
    """The table as others find it, published just now."""
    client.execute(f"CALL tidegate.publish('{table}')")
    found = client.execute(
        "SELECT metadata_location FROM tidegate.iceberg_tables WHERE table_name = %s", (table,)
    ).fetchall()
    ((location,),) = found
    return StaticTable.from_metadata(location)


def csn_of(table: Table) -> int:
    """The CSN of the newest snapshot."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    csn = snapshot.summary["tidegate.csn"]
    assert csn is not None
    return int(csn)


def plain(value: Any) -> Any:
    """A value of Arrow's or of psycopg's in one form."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of an Arrow table, sorted."""
    return sorted(
        (tuple(plain(value) for value in row.values()) for row in table.to_pylist()),
        key=lambda row: [(value is None, str(value)) for value in row],
    )


def selected(client: Client, table: str, csn: int) -> list[tuple[Any, ...]]:
    """The rows that SELECT finds as of `csn`, sorted."""
    found = client.execute(f"SELECT * FROM {table} AS OF {csn}").fetchall()
    return sorted(
        (tuple(plain(value) for value in row) for row in found),
        key=lambda row: [(value is None, str(value)) for value in row],
    )


def agree(client: Client, name: str = "t") -> Table:
    """Publishes the table, and holds what pyiceberg reads against what SELECT finds at that CSN."""
    table = published(client, name)
    assert rows_of(table.scan().to_arrow()) == selected(client, name, csn_of(table))
    return table


def test_schemas_and_databases_publish_their_tables(client: Client) -> None:
    def shown() -> list[str]:
        client.execute("CALL tidegate.publish('marker')")
        found = client.execute("SELECT table_namespace || '.' || table_name FROM tidegate.iceberg_tables ORDER BY 1")
        return [name for (name,) in found.fetchall()]

    client.execute("CREATE TABLE marker (id int) WITH (iceberg = 'on')")
    client.execute("CREATE SCHEMA one; CREATE SCHEMA two; CREATE TYPE mood AS ENUM ('sad')")
    client.execute("CREATE TABLE one.a (id int); CREATE TABLE one.hidden (id int) WITH (iceberg = 'off')")
    client.execute("CREATE TABLE two.b (id int)")
    assert shown() == ["public.marker"]
    client.execute("ALTER SCHEMA one SET (iceberg = 'on')")
    assert shown() == ["one.a", "public.marker"]
    client.execute("CREATE TABLE one.later (id int); CREATE TABLE one.unpublishable (m mood)")
    client.execute("INSERT INTO one.later VALUES (1)")
    assert shown() == ["one.a", "one.later", "public.marker"]
    client.execute("CREATE TEMPORARY TABLE aside (id int)")
    client.execute("ALTER DATABASE lake SET iceberg = 'on'")
    assert shown() == ["one.a", "one.later", "public.marker", "two.b"]
    client.execute("ALTER SCHEMA two SET (iceberg = 'off')")
    assert shown() == ["one.a", "one.later", "public.marker"]
    client.execute("ALTER SCHEMA one RESET (iceberg); ALTER DATABASE lake RESET iceberg")
    assert shown() == ["public.marker"]
    for bad in ("ALTER SCHEMA one SET (iceberg = 'maybe')", "ALTER DATABASE lake SET iceberg = 'maybe'"):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            client.execute(bad)


def test_what_publishes_by_itself_knows_the_types_of_users(client: Client) -> None:
    client.execute("CREATE SCHEMA moods; CREATE TYPE moods.mood AS ENUM ('sad')")
    client.execute("CREATE TABLE moods.unpublishable (m moods.mood); CREATE TABLE moods.plain (id int)")
    client.execute("ALTER SCHEMA moods SET (iceberg = 'on')")
    shown = "SELECT table_name FROM tidegate.iceberg_tables WHERE table_namespace = 'moods'"
    deadline = time.monotonic() + 60
    while not (found := client.execute(shown).fetchall()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert found == [("plain",)]


def test_rows_agree_after_every_kind_of_change(client: Client) -> None:
    client.execute("CREATE TABLE t (id int, name text, price numeric(10, 2), at timestamptz) WITH (iceberg = 'on')")
    assert agree(client).scan().to_arrow().num_rows == 0
    client.execute("INSERT INTO t VALUES (1, 'one', 1.5, '2026-01-01 00:00+00'), (2, NULL, NULL, NULL)")
    agree(client)
    client.execute(
        "INSERT INTO t SELECT g, 'row ' || g, g * 1.25, '2026-01-01'::timestamptz + g * interval '1 hour'"
        " FROM generate_series(1, 50000) g"
    )
    first = agree(client)
    client.execute("DELETE FROM t WHERE id % 7 = 0")
    client.execute("UPDATE t SET name = 'changed' WHERE id % 1000 = 1")
    agree(client)
    client.execute("ALTER TABLE t ADD COLUMN flag boolean DEFAULT true")
    client.execute("ALTER TABLE t RENAME COLUMN name TO label")
    client.execute("INSERT INTO t VALUES (60000, 'last', 3, now(), false)")
    second = agree(client)
    assert [field.name for field in second.schema().fields] == ["id", "label", "price", "at", "flag"]
    assert [field.field_id for field in second.schema().fields] == [1, 2, 3, 4, 5]
    client.execute("ALTER TABLE t DROP COLUMN price")
    client.execute("ALTER TABLE t ALTER COLUMN id TYPE bigint")
    agree(client)
    client.execute("DELETE FROM t WHERE id < 40000")
    client.execute("INSERT INTO t SELECT g, 'again', now(), NULL FROM generate_series(1, 500) g")
    third = agree(client)
    # What was read before is read again, by its snapshot.
    snapshot = csn_of(first)
    old = third.scan(snapshot_id=snapshot).to_arrow()
    assert old.num_rows == 50002
    assert rows_of(first.scan().to_arrow()) == selected(client, "t", snapshot)
    client.execute("TRUNCATE t")
    assert agree(client).scan().to_arrow().num_rows == 0


def test_types(client: Client) -> None:
    client.execute(
        "CREATE TABLE t (b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(12, 3), free numeric,"
        " s text, v varchar(10), c char(4), d date, tm time, ts timestamp, tz timestamptz, raw bytea, u uuid,"
        " ints int[], texts text[]) WITH (iceberg = 'on')"
    )
    for _ in range(2):
        client.execute(
            "INSERT INTO t SELECT true, g % 100, g, g * 10000000000, g / 2.0, -g, g * 1.001, g / 3.0, 'é' || g,"
            " 'v', 'x', date '2026-01-01' + g % 1000, time '12:34:56.789', timestamp '2026-02-03 04:05:06.7',"
            " now(), '\\x00ff',"
            " gen_random_uuid(), ARRAY[g, NULL, 2], ARRAY['a', NULL] FROM generate_series(1, 20000) g"
        )
        client.execute("INSERT INTO t (i4) VALUES (NULL)")
    table = published(client)
    read = table.scan().to_arrow()
    there = client.execute(f"SELECT *, free::text, u::text FROM t AS OF {csn_of(table)}").fetchall()
    assert read.num_rows == len(there) == 40002
    names = read.column_names
    expected = [dict(zip([*names, "free_text", "u_text"], row, strict=True)) for row in there]
    for row in expected:
        row["free"], row["u"] = row.pop("free_text"), row.pop("u_text")
    key = str
    assert sorted(key([plain(v) for v in row.values()]) for row in read.to_pylist()) == sorted(
        key([plain(row[name]) for name in names]) for row in expected
    )
    # Bounds of files leave nothing out that is there.
    for condition, number in (
        ("i4 = 17", 2), ("n = 17.017", 2), ("s = 'é19999'", 2), ("d < '2026-01-03'", 80), ("f8 = -20000", 2),
        ("i8 = 170000000000", 2), ("i4 IS NULL", 2), ("tm = '12:34:56.789000'", 40000), ("b = true", 40000),
    ):  # fmt: skip
        assert table.scan(row_filter=condition).to_arrow().num_rows == number, condition
    assert isinstance(read.column("n")[0].as_py(), Decimal | None)


def test_several_tables_are_of_one_moment(client: Client) -> None:
    client.execute("CREATE TABLE a (v int) WITH (iceberg)")
    client.execute("CREATE TABLE b (v int) WITH (iceberg = true)")
    client.execute("CREATE TABLE other (v int)")
    for number in range(3):
        with client.transaction():
            client.execute("INSERT INTO a VALUES (%s)", (number,))
            client.execute("INSERT INTO b VALUES (%s)", (number,))
        table = published(client, "a")
        ((location,),) = client.execute(
            "SELECT metadata_location FROM tidegate.iceberg_tables WHERE table_name = 'b'"
        ).fetchall()
        twin = StaticTable.from_metadata(location)
        assert csn_of(table) == csn_of(twin)
        assert rows_of(table.scan().to_arrow()) == rows_of(twin.scan().to_arrow())
    shown = client.execute(
        "SELECT catalog_name, table_namespace, table_name, iceberg_type FROM tidegate.iceberg_tables ORDER BY 3"
    ).fetchall()
    assert shown == [("lake", "public", "a", "TABLE"), ("lake", "public", "b", "TABLE")]
    assert client.execute("SELECT * FROM tidegate.iceberg_namespace_properties").fetchall() == [
        ("lake", "public", "exists", "true")
    ]
    client.execute("ALTER TABLE a SET (iceberg = 'off')")
    assert client.execute("SELECT table_name FROM tidegate.iceberg_tables").fetchall() == [("b",)]
    client.execute("DROP TABLE b")
    assert client.execute("SELECT table_name FROM tidegate.iceberg_tables").fetchall() == []
    assert client.execute("SELECT reloptions FROM pg_class WHERE relname = 'a'").fetchone() == (["iceberg=off"],)


def test_what_cannot_be_published_is_refused_by_name(client: Client) -> None:
    client.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    client.execute("CREATE TABLE plain (v int)")

    def refused(statement: str, state: str, *, detail: str | None = None) -> str:
        with pytest.raises(psycopg.Error) as caught:
            client.execute(statement)
        assert caught.value.sqlstate == state
        if detail is not None:
            assert caught.value.diag.message_detail == detail
        return str(caught.value.diag.message_primary)

    for type_ in ("interval", "int4range", "mood", "interval[]"):
        detail = f'Iceberg has no type for column "c" of type {type_}.' if type_ != "int4range" else None
        message = refused(f"CREATE TABLE x (c {type_}) WITH (iceberg = 'on')", "0A000", detail=detail)
        assert message == 'table "x" cannot be published as an Iceberg table'
        assert client.execute("SELECT count(*) FROM pg_class WHERE relname = 'x'").fetchone() == (0,)
    refused("CREATE TABLE x () WITH (iceberg = 'on')", "0A000", detail="It has no columns.")
    refused("CREATE TEMP TABLE x (v int) WITH (iceberg = 'on')", "0A000")
    refused("CREATE TABLE x (v int) WITH (iceberg = 'perhaps')", "22023")
    assert "is not published" in refused("CALL tidegate.publish('plain')", "55000")
    refused("CALL tidegate.publish('nothing')", "42P01")
    client.execute("CREATE VIEW v AS SELECT 1 AS a; CREATE MATERIALIZED VIEW m AS SELECT 1 AS a")
    for name in ("v", "m"):
        assert refused(f"CALL tidegate.publish('{name}')", "42809") == f'"{name}" is not a table'
    refused("CALL tidegate.publish()", "42883")
    refused("CALL tidegate.publish(1)", "0A000")
    client.execute("ALTER TABLE plain SET (iceberg = 'on')")
    refused("ALTER TABLE plain ADD COLUMN m mood", "0A000")
    agree(client, "plain")
    with pytest.raises(psycopg.errors.ActiveSqlTransaction), client.transaction():
        client.execute("CALL tidegate.publish('plain')")
    client.execute("CREATE ROLE nobody_special")
    try:
        client.execute("SET ROLE nobody_special")
        assert refused("CALL tidegate.publish('plain')", "42501") == "must be owner of table plain"
    finally:
        client.execute("RESET ROLE")
        client.execute("DROP ROLE nobody_special")


def test_the_catalog_of_pyiceberg_finds_the_tables(server: TidegateServer, client: Client) -> None:
    client.execute("CREATE SCHEMA sales")
    client.execute("CREATE TABLE sales.orders (id int, item text) WITH (iceberg = 'on')")
    client.execute("INSERT INTO sales.orders VALUES (1, 'tide'), (2, 'gate')")
    client.execute("CALL tidegate.publish('sales.orders')")
    url = URL.create(
        "postgresql+psycopg", "postgres", host=server.host, port=server.port, database="lake",
        query={"options": "-csearch_path=tidegate"},
    )  # fmt: skip
    catalog = SqlCatalog("lake", uri=url.render_as_string())
    assert catalog.list_namespaces() == [("sales",)]
    assert catalog.list_tables("sales") == [("sales", "orders")]
    table = catalog.load_table("sales.orders")
    assert rows_of(table.scan(row_filter="id > 1").to_arrow()) == [(2, "gate")]
    client.execute("DELETE FROM sales.orders WHERE id = 2")
    client.execute("CALL tidegate.publish('sales.orders')")
    assert rows_of(table.refresh().scan().to_arrow()) == [(1, "tide")]
    with pytest.raises(NoSuchTableError):
        catalog.load_table("sales.nothing")
    # Our tables are written through us.
    with pytest.raises(DBAPIError):
        table.append(pa.table({"id": pa.array([3], pa.int32()), "item": ["x"]}))
    with pytest.raises(DBAPIError):
        catalog.drop_table("sales.orders")
    assert rows_of(catalog.load_table("sales.orders").scan().to_arrow()) == [(1, "tide")]
    catalog.close()


def newest(client: Client, name: str) -> Table:
    """The table as it is published by now."""
    ((location,),) = client.execute(
        "SELECT metadata_location FROM tidegate.iceberg_tables WHERE table_name = %s", (name,)
    ).fetchall()
    return StaticTable.from_metadata(location)


def until_published(client: Client, name: str, csn: int, *, within_s: float = 30.0) -> Table:
    """The table once a server has published it by itself as of `csn` or later."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        shown = client.execute("SELECT 1 FROM tidegate.iceberg_tables WHERE table_name = %s", (name,)).fetchall()
        if shown and csn_of(table := newest(client, name)) >= csn:
            return table
        time.sleep(0.2)
    raise AssertionError(f"{name} was not published within {within_s} s")


def test_servers_publish_by_themselves_and_go_on_after_a_crash(tmp_path: Path) -> None:
    with run_server(tmp_path / "data") as server:
        with psycopg.connect(server.dsn(), autocommit=True) as client:
            client.execute("CREATE TABLE t (id int PRIMARY KEY, name text) WITH (iceberg = 'on')")
            client.execute("INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 30000) g")
            table = until_published(client, "t", current_csn(client))
            assert rows_of(table.scan().to_arrow()) == selected(client, "t", csn_of(table))
            client.execute("DELETE FROM t WHERE id % 2 = 0")
        server.kill()
        server.start()
        with psycopg.connect(server.dsn(), autocommit=True) as client:
            client.execute("UPDATE t SET name = 'after' WHERE id = 1")
            table = until_published(client, "t", current_csn(client))
            assert rows_of(table.scan().to_arrow()) == selected(client, "t", csn_of(table))
            client.execute("DROP TABLE t")
            deadline = time.monotonic() + 30
            folder = tmp_path / "data" / "blob" / "iceberg"
            while time.monotonic() < deadline and any(path.is_file() for path in folder.rglob("*")):
                time.sleep(0.2)
            assert not [path for path in folder.rglob("*") if path.is_file()]


def current_csn(client: Client) -> int:
    """The CSN up to which everything has been committed."""
    row = client.execute("SELECT tidegate.current_csn()").fetchone()
    assert row is not None
    return int(row[0])


def test_rows_agree_while_files_are_compacted(client: Client) -> None:
    client.execute("CREATE TABLE t (id int, name text) WITH (iceberg = 'on')")
    before = None
    for number in range(24):
        client.execute(
            "INSERT INTO t SELECT g, 'row ' || g || md5(g::text) FROM generate_series(%s::int, %s::int) g",
            (number * 4000, number * 4000 + 3999),
        )
        client.execute("DELETE FROM t WHERE id %% 5 = %s AND id >= %s", (number % 5, (number - 2) * 4000))
        if number % 6 == 5:
            time.sleep(2.5)  # Maintenance comes every second.
            client.execute("DELETE FROM t WHERE id %% 11 = %s", (number % 11,))
            table = agree(client)
            if before is not None:
                assert rows_of(before.scan().to_arrow()) == selected(client, "t", csn_of(before))
            before = table
    # Some files are those of a compaction that keeps row ids in a column, with deletes on them.
    files = list(table.scan().plan_files())
    assert len(files) < 24
    stored = [pq.read_schema(file.file.file_path.removeprefix("file://")).names for file in files if file.delete_files]
    assert any("_row_id" in names for names in stored)


SOURCE = (
    "SELECT g::int AS id, date '2026-01-01' + (g % 3) AS day, (g % 2 + 0.5)::numeric(12, 3) AS share,"
    " g % 5 = 0 AS flag, nullif('key' || g % 3, 'key2') AS key,"
    " timestamptz '2026-01-01 00:30+00' + (g % 2) * interval '1 h' AS at, decode(md5((g % 2)::text), 'hex') AS raw,"
    " md5(g::text) || md5((-g)::text) AS note FROM generate_series(1, 12000) g"
)


@pytest.mark.parametrize(
    ("partition", "spec"),
    [
        ("day", "identity"), ("share", "identity"), ("flag", "identity"), ("key", "identity"), ("raw", "identity"),
        ("day(at)", "day"), ("hour(at)", "hour"), ("month(day)", "month"), ("year(day)", "year"),
        ("truncate(5000, id)", "truncate[5000]"), ("truncate(4, key)", "truncate[4]"),
        ("truncate(1, raw)", "truncate[1]"),
        ("truncate(700, share)", "truncate[700]"), ("bucket(3, id)", "bucket[3]"), ("bucket(3, share)", "bucket[3]"),
        ("bucket(4, day)", "bucket[4]"), ("bucket(4, at)", "bucket[4]"), ("bucket(4, key)", "bucket[4]"),
        ("bucket(4, raw)", "bucket[4]"),
    ],
)  # fmt: skip
def test_partitions_are_published(client: Client, partition: str, spec: str) -> None:
    client.execute(f"CREATE TABLE t WITH (iceberg = 'on', partition_by = '{partition}', sort_by = 'id') AS {SOURCE}")
    client.execute("DELETE FROM t WHERE id % 100 = 7")
    table = agree(client)
    (field,) = table.spec().fields
    assert str(field.transform) == spec
    assert [order.source_id for order in table.sort_order().fields] == [1]
    files = [task.file for task in table.scan().plan_files()]
    assert {file.spec_id for file in files} == {table.spec().spec_id}
    partitions = {file.partition[0] for file in files}
    assert len(partitions) == len(files)
    # The library computes the partition of a value by itself, and finds the rows in the files that it leaves.
    column = table.schema().find_column_name(field.source_id)
    assert column is not None
    shown = client.execute(f"SELECT DISTINCT {column} FROM t WHERE {column} IS NOT NULL ORDER BY 1 LIMIT 3").fetchall()
    for (value,) in shown:
        scan = table.scan(row_filter=EqualTo(column, plain(value)))  # type: ignore[call-arg,arg-type]
        expected = client.execute(f"SELECT count(*) FROM t WHERE {column} = %s", (value,)).fetchone()
        assert scan.to_arrow().num_rows == (expected or (0,))[0]
        assert len(list(scan.plan_files())) == 1


def test_partition_specs_come_and_go(client: Client) -> None:
    client.execute(f"CREATE TABLE t WITH (iceberg = 'on', partition_by = 'bucket(2, id), day') AS {SOURCE}")
    first = agree(client)
    assert [field.name for field in first.spec().fields] == ["id_bucket_2", "day"]
    client.execute("ALTER TABLE t SET (partition_by = 'bucket(3, id)')")
    client.execute(f"INSERT INTO t {SOURCE}")
    client.execute("DELETE FROM t WHERE id < 500")
    second = agree(client)
    assert len({task.file.spec_id for task in second.scan().plan_files()}) == 2
    client.execute("ALTER TABLE t SET (partition_by = 'day, bucket(2, id)')")
    client.execute("ALTER TABLE t RENAME day TO month")
    client.execute("DELETE FROM t WHERE id > 11000")
    third = agree(client)
    ids = {field.field_id for spec in third.specs().values() for field in spec.fields}
    assert ids == {1000, 1001, 1002}
    client.execute("ALTER TABLE t RESET (partition_by)")
    fourth = agree(client)
    assert fourth.spec().is_unpartitioned()
    # The files that were partitioned by it are there, and are not any more.
    client.execute("ALTER TABLE t DROP COLUMN month")
    client.execute("DELETE FROM t WHERE id < 700")
    fifth = agree(client)
    assert {task.file.spec_id for task in fifth.scan().plan_files()} <= {0, second.spec().spec_id}
    assert rows_of(second.scan().to_arrow()) != rows_of(fifth.scan().to_arrow())


def test_a_role_sees_the_published_tables_that_it_may_read(client: Client) -> None:
    client.execute("DROP ROLE IF EXISTS iceberg_reader")
    client.execute("CREATE ROLE iceberg_reader")
    for name in ("one", "two"):
        client.execute(f"CREATE TABLE {name} (a int) WITH (iceberg = 'on')")
        published(client, name)
    client.execute("GRANT SELECT ON one TO iceberg_reader")
    names = "SELECT table_name FROM tidegate.iceberg_tables ORDER BY 1"
    assert client.execute(names).fetchall() == [("one",), ("two",)]
    client.execute("SET ROLE iceberg_reader")
    assert client.execute(names).fetchall() == [("one",)]
    namespaces = "SELECT namespace FROM tidegate.iceberg_namespace_properties"
    assert client.execute(namespaces).fetchall() == [("public",)]
