"""Iceberg and Delta tables of others as foreign tables over a real connection, on both engines."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DecimalType,
    FixedType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
    UUIDType,
)

from tests.support.server import TidegateServer, run_server

Client = psycopg.Connection[tuple[Any, ...]]

MIDNIGHT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


def _sales(first: int, last: int) -> pa.Table:
    ids = range(first, last)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "kind": [("even", "odd")[n % 2] for n in ids],
            "at": pa.array([MIDNIGHT + n * HOUR for n in ids], pa.timestamp("us", "UTC")),
            "price": pa.array([Decimal(n) / 4 for n in ids], pa.decimal128(10, 2)),
            "n": pa.array([None if n % 5 == 0 else n for n in ids], pa.int32()),
        }
    )


def _iceberg(lake: Path) -> None:
    """A table of three states: 20 rows; without 5 to 7; with a renamed and widened column, one whose name had been
    another's, and a row more."""
    catalog = SqlCatalog("mine", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}/warehouse")
    catalog.create_namespace("shop")
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "kind", StringType()), NestedField(3, "at", TimestamptzType()),
        NestedField(4, "price", DecimalType(10, 2)), NestedField(5, "n", IntegerType()),
    )  # fmt: skip
    by_kind = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "kind"))
    table = catalog.create_table("shop.sales", schema, partition_spec=by_kind)
    table.append(_sales(0, 10))
    table.append(_sales(10, 20))
    table.delete("id >= 5 and id < 8")
    with table.update_schema() as update:
        update.rename_column("n", "count")
        update.delete_column("price")
    with table.update_schema() as update:
        update.update_column("count", LongType())
        update.add_column("price", StringType())
    table.append(
        pa.table(
            {
                "id": pa.array([100], pa.int64()),
                "kind": ["even"],
                "at": pa.array([MIDNIGHT], pa.timestamp("us", "UTC")),
                "count": pa.array([2**40], pa.int64()),
                "price": ["dear"],
            }
        )
    )  # fmt: skip
    unnamed = catalog.create_table(
        "shop.empty", Schema(NestedField(1, "id", LongType()), NestedField(2, "u", UUIDType()))
    )
    assert unnamed.current_snapshot() is None


def _delta(lake: Path) -> None:
    """A table of three versions, and one of folders."""
    first = pa.table({"id": [1, 2, 3], "x": [1.5, None, float("nan")]})
    write_deltalake(f"{lake}/delta/plain", first)
    write_deltalake(f"{lake}/delta/plain", pa.table({"id": [4], "x": [9.5]}), mode="append")
    DeltaTable(f"{lake}/delta/plain").delete("id = 2")
    day = datetime.date(2026, 1, 1)
    folders = {
        "id": [1, 2, 3, 4],
        "kind": ["a b", "b=1", "a b", None],
        "day": pa.array([day, day, day + 24 * HOUR, day + 24 * HOUR]),
        "price": pa.array([Decimal("1.50"), None, Decimal("2.25"), Decimal(0)], pa.decimal128(9, 2)),
    }
    write_deltalake(f"{lake}/delta/folders", pa.table(folders), partition_by=["kind", "day"])


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tables."""
    folder = tmp_path_factory.mktemp("formats") / "lake"
    folder.mkdir()
    _iceberg(folder)
    _delta(folder)
    return folder


@pytest.fixture(scope="module")
def server(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server with both engines, which publishes a table of its own."""
    data = tmp_path_factory.mktemp("data") / "data"
    arguments = ("--spark-master", "local[2]", "--allow-path", str(lake), "--allow-path", str(data))
    with run_server(data, arguments=arguments) as running:
        with psycopg.connect(running.dsn(), autocommit=True) as admin:
            admin.execute(f"CREATE SERVER files FOREIGN DATA WRAPPER lake OPTIONS (path '{lake}')")
            admin.execute(f"CREATE SERVER own FOREIGN DATA WRAPPER lake OPTIONS (path '{data}')")
            made = "CREATE FOREIGN TABLE {} () SERVER files OPTIONS (path '{}', format '{}')"
            admin.execute(made.format("sales", "warehouse/shop/sales", "iceberg"))
            admin.execute(made.format("plain", "delta/plain", "delta"))
            admin.execute(made.format("folders", "delta/folders", "delta"))
        yield running


@pytest.fixture(params=["local", "spark"])
def client(server: TidegateServer, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A session that runs everything on one engine."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"SET engine = '{request.param}'")
        connection.execute("DROP SCHEMA IF EXISTS mine CASCADE; CREATE SCHEMA mine")
        connection.execute("SET search_path = mine, public")
        yield connection


def rows(client: Client, text: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return client.execute(text).fetchall()


def test_columns_are_known_by_their_ids_and_deleted_rows_are_gone(client: Client) -> None:
    assert rows(client, "SELECT * FROM sales WHERE id IN (4, 6, 10, 11, 100) ORDER BY id") == [
        (4, "even", MIDNIGHT + 4 * HOUR, 4, None),
        (10, "even", MIDNIGHT + 10 * HOUR, None, None),
        (11, "odd", MIDNIGHT + 11 * HOUR, 11, None),
        (100, "even", MIDNIGHT, 2**40, "dear"),
    ]
    assert rows(client, "SELECT kind, count(*), sum(count) FROM sales GROUP BY kind ORDER BY kind") == [
        ("even", 10, Decimal(2**40 + sum(n for n in range(0, 20, 2) if n % 5 and n != 6))),
        ("odd", 8, Decimal(sum(n for n in range(1, 20, 2) if n % 5 and n != 7))),
    ]
    assert rows(client, "SELECT count(*) FROM sales a JOIN sales b ON a.id = b.id + 1") == [(15,)]


def test_what_it_was_can_be_read(client: Client, lake: Path) -> None:
    catalog = SqlCatalog("mine", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}/warehouse")
    first, second, *_ = catalog.load_table("shop.sales").snapshots()
    for number, (option, value, count) in enumerate(
        [
            ("snapshot_id", str(first.snapshot_id), 10),
            ("snapshot_id", str(second.snapshot_id), 20),
            ("as_of", datetime.datetime.fromtimestamp(second.timestamp_ms / 1000, datetime.UTC).isoformat(), 20),
        ]
    ):
        options = f"path 'warehouse/shop/sales', format 'iceberg', {option} '{value}'"
        client.execute(f"CREATE FOREIGN TABLE t{number} () SERVER files OPTIONS ({options})")
        assert rows(client, f"SELECT count(*), max(price) FROM t{number}") == [(count, Decimal(count - 1) / 4)]
    client.execute(
        "CREATE FOREIGN TABLE d () SERVER files OPTIONS (path 'delta/plain', format 'delta', snapshot_id '0')"
    )
    assert rows(client, "SELECT id FROM d ORDER BY id") == [(1,), (2,), (3,)]


def test_values_of_folders_are_columns_of_delta_tables(client: Client) -> None:
    assert rows(client, "SELECT id, x::text FROM plain ORDER BY id") == [(1, "1.5"), (3, "NaN"), (4, "9.5")]
    day = datetime.date(2026, 1, 1)
    assert rows(client, "SELECT * FROM folders ORDER BY id") == [
        (1, "a b", day, Decimal("1.50")),
        (2, "b=1", day, None),
        (3, "a b", day + 24 * HOUR, Decimal("2.25")),
        (4, None, day + 24 * HOUR, Decimal("0.00")),
    ]


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("sales WHERE kind = 'odd' AND id > 12", "1 of 5"),
        ("sales WHERE at >= '2026-01-01 15:00+00'", "2 of 5"),
        ("sales WHERE id = 100", "1 of 5"),
        ("sales WHERE price IS NOT NULL", "5 of 5"),  # Files that lack a column say nothing of it.
        ("folders WHERE kind IS NULL", "1 of 4"),
        ("folders WHERE day = '2026-01-02' AND kind = 'a b'", "1 of 4"),
        ("plain WHERE id = 4", "1 of 2"),
        ("plain WHERE x > 1000", "2 of 2"),  # NaN is above all numbers, and in no statistics.
    ],
)
def test_files_that_conditions_exclude_are_not_opened(server: TidegateServer, query: str, read: str) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        plan = "\n".join(line for (line,) in rows(connection, f"EXPLAIN SELECT * FROM {query}"))
    assert f"{read} read" in plan


def test_tables_that_this_server_publishes_are_read_back(server: TidegateServer, client: Client) -> None:
    name = f"own_{uuid.uuid4().hex[:8]}"
    client.execute(f"CREATE TABLE public.{name} (id int, at timestamptz, label text) WITH (iceberg = 'on')")
    client.execute(f"INSERT INTO {name} SELECT n, now(), 'row ' || n FROM generate_series(1, 1000) n")
    client.execute(f"DELETE FROM {name} WHERE id % 7 = 0")
    client.execute(f"ALTER TABLE {name} RENAME COLUMN label TO words")
    client.execute(f"UPDATE {name} SET words = 'changed' WHERE id < 10")
    client.execute(f"CALL tidegate.publish('{name}')")
    ((location,),) = rows(client, f"SELECT metadata_location FROM tidegate.iceberg_tables WHERE table_name = '{name}'")
    client.execute(f"CREATE FOREIGN TABLE back () SERVER own OPTIONS (path '{location}', format 'iceberg')")
    assert rows(client, f"SELECT count(*) FROM {name}") == [(858,)]
    assert rows(client, f"TABLE back EXCEPT TABLE {name}") == []
    assert rows(client, f"TABLE {name} EXCEPT TABLE back") == []


def test_folders_of_tables_are_imported_as_what_they_are(client: Client) -> None:
    client.execute("IMPORT FOREIGN SCHEMA delta FROM SERVER files INTO mine")
    client.execute('IMPORT FOREIGN SCHEMA "warehouse/shop" EXCEPT (empty) FROM SERVER files INTO mine')
    found = "SELECT relname FROM pg_class WHERE relkind = 'f' AND relnamespace = 'mine'::regnamespace ORDER BY 1"
    assert rows(client, found) == [("folders",), ("plain",), ("sales",)]
    assert rows(client, "SELECT count(*) FROM mine.plain") == [(3,)]
    assert rows(client, "SELECT count(*) FROM mine.sales") == [(18,)]


def test_columns_of_bytes_and_arrays_are_read_as_such(client: Client, lake: Path) -> None:
    held = pa.table({"id": [1, 2], "raw": pa.array([b"\x00x", None]), "tags": [[1, 2], None]})
    write_deltalake(f"{lake}/of_bytes/t", held, mode="overwrite")
    client.execute("CREATE FOREIGN TABLE t () SERVER files OPTIONS (path 'of_bytes/t', format 'delta')")
    assert rows(client, "SELECT * FROM t ORDER BY id") == [(1, b"\x00x", [1, 2]), (2, None, None)]


def test_adopted_files_call_columns_as_the_table_says(client: Client, lake: Path) -> None:
    """Files without field ids: what was called so when they were adopted may be called otherwise today."""
    name = f"adopted_{uuid.uuid4().hex[:8]}"
    catalog = SqlCatalog("mine", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}/warehouse")
    table = catalog.create_table(
        f"shop.{name}", Schema(NestedField(1, "id", LongType()), NestedField(2, "word", StringType()))
    )
    pq.write_table(pa.table({"id": [1, 2], "word": ["a", "b"]}), lake / f"{name}.parquet")
    table.add_files([f"file://{lake}/{name}.parquet"])
    with table.update_schema() as update:
        update.rename_column("id", "number")
        update.rename_column("word", "label")
    table.append(pa.table({"number": [3], "label": ["c"]}))
    client.execute(f"CREATE FOREIGN TABLE t () SERVER files OPTIONS (path 'warehouse/shop/{name}', format 'iceberg')")
    assert rows(client, "SELECT * FROM t ORDER BY number") == [(1, "a"), (2, "b"), (3, "c")]
    assert rows(client, "SELECT number FROM t WHERE label = 'b'") == [(2,)]


def test_columns_that_files_lack_have_their_first_default(client: Client, lake: Path) -> None:
    """Format version 3: a column that was added with a default has it in all rows that were there."""
    name = f"defaults_{uuid.uuid4().hex[:8]}"
    catalog = SqlCatalog("mine", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}/warehouse")
    table = catalog.create_table(f"shop.{name}", Schema(NestedField(1, "id", LongType())))
    table.append(pa.table({"id": [1, 2]}))
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    added = {
        "word": ("string", "so"), "day": ("date", "2020-02-03"), "price": ("decimal(9, 2)", "1.50"),
        "at": ("timestamptz", "2026-01-01T00:00:00.000000+00:00"),
    }  # fmt: skip
    fields = [
        {"id": number, "name": column, "type": type, "required": False, "initial-default": value}
        for number, (column, (type, value)) in enumerate(added.items(), 2)
    ]
    (schema,) = metadata["schemas"]
    metadata["schemas"].append({**schema, "schema-id": 1, "fields": schema["fields"] + fields})
    for snapshot in metadata["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 2}
    metadata |= {"format-version": 3, "next-row-id": 2, "last-column-id": 5, "current-schema-id": 1}
    (lake / "warehouse" / "shop" / name / "metadata" / "00009-x.metadata.json").write_text(json.dumps(metadata))
    client.execute(f"CREATE FOREIGN TABLE t () SERVER files OPTIONS (path 'warehouse/shop/{name}', format 'iceberg')")
    values = ("so", datetime.date(2020, 2, 3), Decimal("1.50"), MIDNIGHT)
    assert rows(client, "SELECT * FROM t ORDER BY id") == [(1, *values), (2, *values)]
    assert rows(client, "SELECT count(*) FROM t WHERE word = 'so' AND day < '2021-01-01'") == [(2,)]
    assert rows(client, "SELECT count(*) FROM t WHERE word IS NULL OR price > 2") == [(0,)]


def test_fixed_bytes_and_uuids_that_are_all_null_are_read(client: Client, lake: Path) -> None:
    name = f"fixed_{uuid.uuid4().hex[:8]}"
    catalog = SqlCatalog("mine", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}/warehouse")
    schema = Schema(NestedField(1, "raw", FixedType(2)), NestedField(2, "u", UUIDType()))
    table = catalog.create_table(f"shop.{name}", schema)
    table.append(pa.table({"raw": pa.array([b"ab", b"cd"], pa.binary(2)), "u": pa.nulls(2, pa.uuid())}))
    client.execute(f"CREATE FOREIGN TABLE t () SERVER files OPTIONS (path 'warehouse/shop/{name}', format 'iceberg')")
    assert rows(client, "SELECT * FROM t WHERE raw > 'aa' ORDER BY raw") == [(b"ab", None), (b"cd", None)]


@pytest.mark.parametrize(
    ("options", "sqlstate", "message"),
    [
        ("path 'delta', format 'iceberg'", "58P01", "is no Iceberg table"),
        ("path 'warehouse', format 'delta'", "58P01", "is no Delta table"),
        ("path 'delta/plain', format 'delta', snapshot_id '99'", "58P01", "has no version 99"),
        ("path 'delta/plain', format 'delta', as_of '2020-01-01'", "58P01", "has no version of 2020-01-01"),
        ("path 'warehouse/shop/sales', format 'iceberg', snapshot_id '99'", "58P01", "has no snapshot 99"),
        ("path 'warehouse/shop/sales', format 'iceberg', as_of '2020-01-01'", "58P01", "has no snapshot of 2020-01-01"),
        ("path 'delta/plain', format 'delta', as_of 'yesterday'", "22023", 'invalid value for option "as_of"'),
        ("path 'delta/plain', format 'delta', snapshot_id 'x'", "22023", 'invalid value for option "snapshot_id"'),
        ("path 'delta/plain', format 'parquet', snapshot_id '1'", "22023", 'option "snapshot_id" is for'),
        ("path 'delta/plain', format 'delta', delimiter ';'", "22023", 'option "delimiter" is not for'),
        ("path '../other', format 'iceberg'", "42501", "permission denied for path"),
    ],
)
def test_what_is_no_table_is_refused(server: TidegateServer, options: str, sqlstate: str, message: str) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection, pytest.raises(psycopg.Error) as raised:
        connection.execute(f"CREATE FOREIGN TABLE bad () SERVER files OPTIONS ({options})")
    assert (raised.value.sqlstate, message in str(raised.value)) == (sqlstate, True)


def test_a_file_that_has_vanished_is_named(client: Client, lake: Path) -> None:
    write_deltalake(f"{lake}/vanishing", pa.table({"id": [1, 2]}), mode="overwrite")
    client.execute("CREATE FOREIGN TABLE gone () SERVER files OPTIONS (path 'vanishing', format 'delta')")
    (path,) = [lake / "vanishing" / name for name in DeltaTable(f"{lake}/vanishing").file_uris()]
    path.unlink()
    # Again and again: Arrow's threads must never meet an exception of Python's.
    for _ in range(20):
        with pytest.raises(psycopg.Error) as raised:
            client.execute("SELECT * FROM gone")
        assert raised.value.sqlstate == "58P01"
        assert path.name in str(raised.value)


def test_damaged_files_are_named(client: Client, lake: Path) -> None:
    """Of a table with deleted rows, which are read another way, too."""
    for name, delete in (("damaged", ""), ("damaged_deleted", "id = 1")):
        folder = lake / f"{name}_{uuid.uuid4().hex[:8]}"
        write_deltalake(str(folder), pa.table({"id": [1, 2]}))
        if delete:
            DeltaTable(str(folder)).delete(delete)
        (path,) = [folder / name for name in DeltaTable(str(folder)).file_uris()]
        path.write_bytes(b"x" * path.stat().st_size)
        client.execute(f"CREATE FOREIGN TABLE {name} () SERVER files OPTIONS (path '{folder.name}', format 'delta')")
        for _ in range(5):
            with pytest.raises(psycopg.Error) as raised:
                client.execute(f"SELECT * FROM {name}")
            assert (raised.value.sqlstate, path.name in str(raised.value)) == ("22P04", True)


def test_they_are_not_written(client: Client) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        client.execute("INSERT INTO plain VALUES (1, 2)")
