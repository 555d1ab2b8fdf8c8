"""Foreign tables over files of ORC and Avro, on both engines: the same files, the same answers."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import psycopg
import pyarrow as pa
import pyarrow.orc as po
import pytest

from tests.support.server import TidegateServer, run_server

Client = psycopg.Connection[tuple[Any, ...]]
DAY = datetime.date
MOMENT = datetime.datetime

ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int8()),
        "name": ["a", "b", None],
        "price": pa.array([Decimal("1.50"), None, Decimal(-3)], pa.decimal128(10, 2)),
        "tags": pa.array([[1, 2], None, []], pa.list_(pa.int64())),
        "raw": pa.array([b"x", None, b""]),
        "day": [DAY(2020, 2, 29), DAY(1582, 10, 25), None],
        "ratio": pa.array([1.5, None, -0.0], pa.float32()),
        "on": [True, False, None],
    }
)
MOMENTS = pa.table(
    {
        "at": pa.array([1_000_001, -1, 2**60], pa.timestamp("us")).slice(0, 2),
        "there": pa.array([0, None], pa.timestamp("us", "UTC")),
        "fine": pa.array([1_500, -999], pa.timestamp("ns")),
    }
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of ORC, in folders and by themselves."""
    folder = tmp_path_factory.mktemp("sources") / "lake"
    for region in ("east", "west"):
        (folder / f"facts/region={region}").mkdir(parents=True)
        po.write_table(ROWS, str(folder / f"facts/region={region}/x.orc"))
    po.write_table(MOMENTS, str(folder / "moments.orc"))
    po.write_table(pa.table({"id": [7]}), str(folder / "small.orc"))
    po.write_table(pa.table({"day": [DAY(1582, 10, 24)], "id": [1]}), str(folder / "old.orc"))
    whole = (folder / "facts/region=east/x.orc").read_bytes()
    (folder / "cut.orc").write_bytes(whole[:100])
    (folder / "text.orc").write_text("no such thing")
    return folder


@pytest.fixture(scope="module")
def server(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server with both engines."""
    arguments = ("--spark-master", "local[2]", "--allow-path", str(lake))
    with run_server(tmp_path_factory.mktemp("data") / "data", arguments=arguments) as running:
        with psycopg.connect(running.dsn(), autocommit=True) as admin:
            admin.execute(f"CREATE SERVER files FOREIGN DATA WRAPPER lake OPTIONS (path '{lake}')")
            admin.execute("CREATE FOREIGN TABLE facts () SERVER files OPTIONS (path 'facts', format 'orc')")
        yield running


@pytest.fixture(params=["local", "spark"])
def client(server: TidegateServer, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A session that runs everything on one engine."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"SET engine = '{request.param}'")
        connection.execute("DROP SCHEMA IF EXISTS mine CASCADE")
        connection.execute("CREATE SCHEMA mine")
        connection.execute("SET search_path = mine, public")
        yield connection


def rows(client: Client, text: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return client.execute(text).fetchall()


def refused(client: Client, text: str) -> tuple[str | None, str]:
    """How a statement fails: its SQLSTATE and message."""
    with pytest.raises(psycopg.Error) as failed:
        client.execute(text)
    return failed.value.sqlstate, failed.value.diag.message_primary or ""


def test_columns_of_orc_files_are_inferred(client: Client) -> None:
    types = (
        "SELECT string_agg(format_type(atttypid, atttypmod), ',' ORDER BY attnum) FROM pg_attribute"
        " WHERE attrelid = 'facts'::regclass AND attnum > 0"
    )
    assert rows(client, types) == [("smallint,text,numeric(10,2),bigint[],bytea,date,real,boolean,text",)]
    assert rows(client, "SELECT * FROM facts WHERE region = 'west' ORDER BY id") == [
        (1, "a", Decimal("1.50"), [1, 2], b"x", DAY(2020, 2, 29), 1.5, True, "west"),
        (2, "b", None, None, None, DAY(1582, 10, 25), None, False, "west"),
        (None, None, Decimal("-3.00"), [], b"", None, -0.0, None, "west"),
    ]
    text = "SELECT region, sum(price), count(*) FROM facts WHERE day > '2000-01-01' OR price < 0 GROUP BY 1 ORDER BY 1"
    assert rows(client, text) == [("east", Decimal("-1.50"), 2), ("west", Decimal("-1.50"), 2)]


def test_orc_files_are_read_as_declared(client: Client) -> None:
    client.execute(
        "CREATE FOREIGN TABLE t (key bigint OPTIONS (column_name 'id'), name char(3), price numeric, day date)"
        " SERVER files OPTIONS (path 'facts/region=e*/*.orc')"
    )
    assert rows(client, "SELECT * FROM t WHERE key = 1") == [(1, "a  ", Decimal("1.50"), DAY(2020, 2, 29))]
    client.execute("CREATE TABLE own () WITH (load_from = '" + _lake(client) + "/small.orc')")
    assert rows(client, "SELECT own.id, read.id FROM own, read_orc('" + _lake(client) + "/s*.orc') AS read(id)"
                " WHERE read.id = 7") == [(7, 7)]  # fmt: skip


def _lake(client: Client) -> str:
    ((options,),) = rows(client, "SELECT srvoptions FROM pg_foreign_server WHERE srvname = 'files'")
    return str(options[0].removeprefix("path="))


def test_moments_of_orc_files_are_rounded_alike(client: Client) -> None:
    client.execute("CREATE FOREIGN TABLE t () SERVER files OPTIONS (path 'moments.orc')")
    assert rows(client, "SELECT at::text, there AT TIME ZONE 'UTC', fine::text FROM t ORDER BY at DESC") == [
        ("1970-01-01 00:00:01.000001", MOMENT(1970, 1, 1), "1970-01-01 00:00:00.000002"),
        ("1969-12-31 23:59:59.999999", None, "1969-12-31 23:59:59.999999"),
    ]


def test_days_of_two_calendars_are_refused(client: Client) -> None:
    client.execute("CREATE FOREIGN TABLE t () SERVER files OPTIONS (path 'old.orc')")
    assert rows(client, "SELECT id FROM t") == [(1,)]
    assert refused(client, "SELECT day FROM t") == ("0A000", "dates before 1582-10-25 in ORC files are not supported")


@pytest.mark.parametrize(
    ("columns", "path", "sqlstate", "said"),
    [
        ("id int, nope int", "facts/**/*.orc", "42703", '"nope"'),
        ("id date", "facts/**/*.orc", "42804", "x.orc"),
        ("price numeric(9, 1)", "facts/**/*.orc", "42804", "x.orc"),
        ("id int", "none.orc", "58P01", "none.orc"),
        ("id int", "text.orc", "22P04", "text.orc"),
        ("id int", "cut.orc", "22P04", "cut.orc"),
    ],
)
def test_what_cannot_be_read_names_the_file(client: Client, columns: str, path: str, sqlstate: str, said: str) -> None:
    client.execute(f"CREATE FOREIGN TABLE t ({columns}) SERVER files OPTIONS (path '{path}')")
    found = refused(client, "SELECT * FROM t")
    assert (found[0], said in found[1]) == (sqlstate, True), found


def test_orc_tables_are_not_written(client: Client) -> None:
    assert refused(client, "INSERT INTO facts (id) VALUES (1)")[0] == "0A000"
    options = "(path 'small.orc', header 'true')"
    assert refused(client, f"CREATE FOREIGN TABLE t () SERVER files OPTIONS {options}")[0] == "22023"


# ---------------------------------------------------------------- Avro

AVRO = {
    "type": "record",
    "name": "Fact",
    "fields": [
        {"name": "id", "type": ["null", "int"]},
        {"name": "name", "type": ["null", "string"]},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]},
        {"name": "tags", "type": ["null", {"type": "array", "items": "long"}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "who", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "attributes", "type": {"type": "map", "values": "string"}},
    ],
}
WHO = uuid.UUID("12345678-1234-5678-1234-567812345678")


def _write_avro(path: Path, rows: list[dict[str, Any]], schema: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, codec="snappy")


@pytest.fixture(scope="module")
def avro(lake: Path) -> Path:
    """The folder of the files, those of Avro among them."""
    row = {"at": MOMENT(1969, 12, 31, 23, 59, 59, 1000, datetime.UTC), "day": DAY(1500, 3, 1), "who": WHO}
    for region, number in (("east", 1), ("west", 2)):
        rows = [
            {**row, "id": number, "name": "a", "price": Decimal("1.50"), "tags": [1, 2], "kind": "A", "attributes": {}},
            {**row, "id": None, "name": None, "price": None, "tags": None, "kind": "B", "attributes": {"k": "v"}},
        ]
        _write_avro(lake / f"avro/region={region}/x.avro", rows, AVRO)
    flat = {"type": "record", "name": "Flat", "fields": [{"name": "id", "type": "int"}]}
    _write_avro(lake / "flat/x.avro", [{"id": 7}], flat)
    wider = {"type": "record", "name": "Flat", "fields": [{"name": "id", "type": "long"}, {"name": "x", "type": "int"}]}
    _write_avro(lake / "flat/y.avro", [{"id": 2**40, "x": 1}], wider)
    (lake / "cut.avro").write_bytes((lake / "avro/region=east/x.avro").read_bytes()[:-20])
    return lake


def test_avro_files_are_read_as_declared(client: Client, avro: Path) -> None:
    client.execute(
        "CREATE FOREIGN TABLE t (id bigint, name text, price numeric(12, 2), tags bigint[], at timestamptz, day date,"
        " who uuid, kind text, region text) SERVER files OPTIONS (path 'avro', format 'avro')"
    )
    at, day = MOMENT(1969, 12, 31, 23, 59, 59, 1000, datetime.UTC), DAY(1500, 3, 1)
    assert rows(client, "SELECT * FROM t WHERE region = 'west' ORDER BY id") == [
        (2, "a", Decimal("1.50"), [1, 2], at, day, WHO, "A", "west"),
        (None, None, None, None, at, day, WHO, "B", "west"),
    ]
    assert rows(client, "SELECT region, sum(price), count(*) FROM t GROUP BY 1 ORDER BY 1") == [
        ("east", Decimal("1.50"), 2), ("west", Decimal("1.50"), 2),
    ]  # fmt: skip
    # Folders that a condition excludes are not opened.
    ((plan,),) = rows(client, "EXPLAIN (FORMAT json) SELECT * FROM t WHERE region = 'west'")
    assert "'Files': 1, 'Files Pruned': 1" in str(plan)


def test_avro_files_are_loaded_and_imported(client: Client, avro: Path) -> None:
    assert rows(client, f"SELECT * FROM read_avro('{avro}/flat') ORDER BY id") == [(7, None), (2**40, 1)]
    client.execute(f"CREATE TABLE own () WITH (load_from = '{avro}/flat', format = 'avro')")
    assert rows(client, "SELECT id, x FROM own ORDER BY id") == [(7, None), (2**40, 1)]
    client.execute('IMPORT FOREIGN SCHEMA "." LIMIT TO (flat) FROM SERVER files INTO mine')
    assert rows(client, "SELECT sum(id) FROM flat") == [(2**40 + 7,)]


def test_avro_files_that_cannot_be_read_are_named(client: Client, avro: Path) -> None:
    mixed = {"type": "record", "name": "r", "fields": [{"name": "mixed", "type": ["int", "string"]}]}
    _write_avro(avro / "mixed.avro", [{"mixed": 1}, {"mixed": "a"}], mixed)
    found = refused(client, f"SELECT * FROM read_avro('{avro}/mixed.avro')")
    assert (found[0], "mixed" in found[1]) == ("0A000", True), found
    client.execute("CREATE FOREIGN TABLE cut (id int) SERVER files OPTIONS (path 'cut.avro')")
    found = refused(client, "SELECT * FROM cut")
    assert (found[0], "cut.avro" in found[1]) == ("22P04", True), found
    assert refused(client, "INSERT INTO cut VALUES (1)")[0] == "0A000"
    client.execute("CREATE FOREIGN TABLE t (kind int) SERVER files OPTIONS (path 'avro', format 'avro')")
    assert refused(client, "SELECT * FROM t")[0] == "42804"
