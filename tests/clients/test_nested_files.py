"""Structs, maps and lists of such in files: JSON, the same on both engines."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import psycopg
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType, StringType

from tests.support.server import TidegateServer, run_server

Client = psycopg.Connection[tuple[Any, ...]]

AT = datetime.datetime.fromisoformat("2024-01-31T12:00:00.250000")
INNER = pa.struct(
    [
        ("zed", pa.int32()),
        ('a "b" {0}', pa.string()),
        ("flag", pa.bool_()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("price", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("moment", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("list", pa.list_(pa.int64())),
    ]
)
VALUE = {
    "zed": 1, 'a "b" {0}': 'x\ny"\\ü', "flag": True, "real": 0.5, "double": float("nan"), "price": Decimal("1.50"),
    "day": datetime.date(2024, 1, 31), "at": AT, "moment": AT.replace(tzinfo=datetime.UTC), "raw": b"\x00\xff",
    "list": [1, None],
}  # fmt: skip
SHOWN = (
    r'{"zed":1,"a \"b\" {0}":"x\ny\"\\ü","flag":true,"real":0.5,"double":"NaN","price":1.50,"day":"2024-01-31",'
    r'"at":"2024-01-31T12:00:00.25","moment":"2024-01-31T12:00:00.25+00:00","raw":"\\x00ff","list":[1,null]}'
)
NOTHING = SHOWN[:1] + ",".join(f"{json.dumps(field.name)}:null" for field in INNER) + "}"
PLAIN = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int32()),
        "s": pa.array([VALUE, None, dict.fromkeys(VALUE)], INNER),
        "m": pa.array([[("k", 1), ("a", None)], [], None], pa.map_(pa.string(), pa.int64())),
        "n": pa.array([[(1, {"x": 1.5})], None, [(2, None)]], pa.map_(pa.int32(), pa.struct([("x", pa.float64())]))),
        "l": pa.array([[{"x": 1}, None, {"x": None}], [], None], pa.list_(pa.struct([("x", pa.int16())]))),
        "ll": pa.array([[[1, 2], [], None], None, []], pa.list_(pa.list_(pa.int64()))),
    }
)
ROWS = [
    (1, SHOWN, '{"k":1,"a":null}', '{"1":{"x":1.5}}', '[{"x":1},null,{"x":null}]', "[[1,2],[],null]"),
    (2, None, "{}", None, "[]", None),
    (3, NOTHING, None, '{"2":null}', None, "[]"),
]

ODD_TYPE = pa.struct(
    [
        ("ns", pa.timestamp("ns")),
        ("ms", pa.timestamp("ms", "UTC")),
        ("clock", pa.time64("us")),
        ("tiny", pa.uint8()),
        ("huge", pa.uint64()),
        ("large", pa.large_string()),
        ("fixed", pa.binary(2)),
        ("nothing", pa.null()),
        ("inner", pa.struct([("clocks", pa.list_(pa.time32("ms")))])),
    ]
)
ODD = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "o": pa.array(
            [
                {
                    "ns": 1_700_000_000_000_000_500, "ms": 1_700_000_000_123, "clock": 1_000_000, "tiny": 255,
                    "huge": 2**64 - 1, "large": "x", "fixed": b"ab", "nothing": None,
                    "inner": {"clocks": [1000, None]},
                },
                None,
            ],
            ODD_TYPE,
        ),
    }
)  # fmt: skip
ODD_ROWS = [
    (
        1,
        '{"ns":"2023-11-14T22:13:20.000001","ms":"2023-11-14T22:13:20.123+00:00","clock":"00:00:01","tiny":255,'
        '"huge":18446744073709551615,"large":"x","fixed":"\\\\x6162","nothing":null,'
        '"inner":{"clocks":["00:00:01",null]}}',
    ),
    (2, None),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with nested columns."""
    folder = tmp_path_factory.mktemp("nested") / "lake"
    for name in ("plain", "odd", "parts/day=2024-01-31", "parts/day=2024-02-01", "bad"):
        (folder / name).mkdir(parents=True)
    pq.write_table(PLAIN, folder / "plain/a.parquet", row_group_size=2)
    pq.write_table(ODD, folder / "odd/a.parquet")
    pq.write_table(PLAIN, folder / "parts/day=2024-01-31/a.parquet")
    pq.write_table(PLAIN.slice(1), folder / "parts/day=2024-02-01/a.parquet")
    for name, values in (("a", [{"x": 1, "t": "a"}]), ("b", [{"y": [True], "x": 2**40}]), ("c", [None])):
        (folder / "merged").mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": [name], "s": pa.array(values)}), folder / f"merged/{name}.parquet")
    twice = pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"m": twice}), folder / "twice.parquet")
    _write_avro(folder / "a.avro")
    write_deltalake(folder / "delta", PLAIN)
    write_deltalake(folder / "delta", PLAIN.slice(0, 1), mode="append")
    _write_iceberg(folder / "iceberg")
    po.write_table(PLAIN.drop_columns(["s"]), folder / "a.orc")
    unknown = pa.array([{"d": 1}], pa.struct([("d", pa.duration("s"))]))
    pq.write_table(pa.table({"id": [1], "u": unknown}), folder / "bad/a.parquet")
    return folder


def _write_avro(path: Path) -> None:
    point = {"type": "record", "name": "point", "fields": [{"name": "x", "type": ["null", "int"]}]}
    moment = {"type": "long", "logicalType": "timestamp-micros"}
    fields = [
        {"name": "id", "type": "int"},
        {"name": "r", "type": ["null", {"type": "record", "name": "pair", "namespace": "n", "fields": [
            {"name": "at", "type": moment}, {"name": "points", "type": {"type": "array", "items": point}},
            {"name": "last", "type": "point"},
        ]}]},
        {"name": "m", "type": {"type": "map", "values": ["null", "double"]}},
        {"name": "tree", "type": {"type": "record", "name": "tree", "fields": [
            {"name": "below", "type": {"type": "array", "items": "tree"}},
        ]}},
    ]  # fmt: skip
    first = {"at": AT.replace(tzinfo=datetime.UTC), "points": [{"x": 1}, {"x": None}], "last": {"x": 2}}
    records = [
        {"id": 1, "r": first, "m": {"a": 1.5, "b": None}, "tree": {"below": []}},
        {"id": 2, "r": None, "m": {}, "tree": {"below": []}},
    ]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, records)


def _write_iceberg(folder: Path) -> None:
    """A table whose struct has got a field and a wider one, and a second one with a field that was renamed."""
    folder.mkdir()
    catalog = SqlCatalog("mine", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("n")
    rows = pa.table({"id": pa.array([1], pa.int32()), "s": pa.array([{"x": 1}], pa.struct([("x", pa.int32())]))})
    for name in ("grown", "renamed"):
        table = catalog.create_table(f"n.{name}", rows.schema)
        table.append(rows)
        with table.update_schema() as update:
            if name == "renamed":
                update.rename_column("s.x", "z")
            else:
                update.add_column(("s", "y"), StringType())
                update.update_column("s.x", LongType())
        if name == "grown":
            more = pa.array([{"x": 2**40, "y": "b"}], pa.struct([("x", pa.int64()), ("y", pa.string())]))
            table.append(pa.table({"id": pa.array([2], pa.int32()), "s": more}))


@pytest.fixture(scope="module")
def server(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server with both engines."""
    arguments = ("--spark-master", "local[2]", "--allow-path", str(lake))
    with run_server(tmp_path_factory.mktemp("data") / "data", arguments=arguments) as running:
        with psycopg.connect(running.dsn(), autocommit=True) as admin:
            admin.execute(f"CREATE SERVER files FOREIGN DATA WRAPPER lake OPTIONS (path '{lake}')")
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


def types_of(client: Client, table: str) -> list[str]:
    """The types of a table's columns."""
    text = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
    return [type for (type,) in client.execute(text + " ORDER BY attnum", (table,)).fetchall()]


def test_they_are_json_texts(client: Client) -> None:
    client.execute(
        "CREATE FOREIGN TABLE t (id int, s json, m text, n json, l json, ll json) SERVER files"
        " OPTIONS (path 'plain', format 'parquet')"
    )
    shown = "SELECT id, s::text, m, n::text, l::text, ll::text FROM t ORDER BY id"
    assert rows(client, shown) == ROWS


def test_they_are_jsonb_for_who_declares_no_type(client: Client, lake: Path) -> None:
    client.execute("CREATE FOREIGN TABLE t () SERVER files OPTIONS (path 'plain', format 'parquet')")
    assert types_of(client, "t") == ["integer", *["jsonb"] * 5]
    for source in ("t", f"read_parquet('{lake}/plain')"):
        text = f"SELECT id, s->>'a \"b\" {{0}}', s->'price', m, l->0->'x', ll FROM {source} WHERE s IS NOT NULL"
        assert rows(client, f"{text} ORDER BY id") == [
            (1, 'x\ny"\\ü', 1.5, {"a": None, "k": 1}, 1, [[1, 2], [], None]),
            (3, None, None, None, None, []),
        ]
    assert rows(client, "SELECT s::text FROM t WHERE id = 1")[0][0].startswith('{"at": "2024-01-31T12:00:00.25", "day"')
    assert rows(client, "SELECT count(*), sum(id) FROM t") == [(3, 6)]


def test_all_that_files_have_is_in_them(client: Client) -> None:
    client.execute("CREATE FOREIGN TABLE t (id int8, o json) SERVER files OPTIONS (path 'odd', format 'parquet')")
    assert rows(client, "SELECT id, o::text FROM t ORDER BY id") == ODD_ROWS


def test_files_in_folders(client: Client) -> None:
    client.execute(
        "CREATE FOREIGN TABLE t (id int, day date, s json, l text) SERVER files"
        " OPTIONS (path 'parts', format 'parquet')"
    )
    text = "SELECT id, s::text, l FROM t WHERE day = '2024-02-01' ORDER BY id"
    assert rows(client, text) == [(2, None, "[]"), (3, NOTHING, None)]
    assert rows(client, "SELECT count(*), count(s) FROM t") == [(5, 3)]


def test_they_are_loaded(client: Client, lake: Path) -> None:
    client.execute(f"CREATE TABLE t () WITH (load_from = '{lake}/plain/a.parquet')")
    assert types_of(client, "t") == ["integer", *["jsonb"] * 5]
    client.execute("CREATE TABLE u (id int, s json, m jsonb, n text, l jsonb, ll jsonb)")
    client.execute(f"COPY u FROM '{lake}/plain' (FORMAT parquet)")
    shown = [(row[1] and json.loads(row[1]), _spaced(row[3])) for row in ROWS]
    assert rows(client, "SELECT s, n FROM u ORDER BY id") == shown
    assert rows(client, "SELECT m, l FROM t ORDER BY id") == rows(client, "SELECT m, l FROM u ORDER BY id")
    client.execute(f"CREATE TABLE v AS SELECT id, m FROM read_parquet('{lake}/plain')")
    assert rows(client, "SELECT m FROM v WHERE id = 1") == [({"a": None, "k": 1},)]
    client.execute('IMPORT FOREIGN SCHEMA "." LIMIT TO (plain, parts) FROM SERVER files INTO mine')
    assert rows(client, "SELECT m->'k' FROM plain WHERE id = 1") == [(1,)]


def test_orc_files(client: Client, lake: Path) -> None:
    text = f"SELECT id, m::text, n::text, l::text, ll::text FROM read_orc('{lake}/a.orc') ORDER BY id"
    spaced = [tuple(_spaced(value) for value in (*row[:1], *row[2:])) for row in ROWS]
    assert rows(client, text) == [
        (row[0], '{"a": null, "k": 1}' if row[0] == 1 else row[1], *row[2:]) for row in spaced
    ]


def _spaced(value: Any) -> Any:
    return json.dumps(json.loads(value)) if isinstance(value, str) else value


def test_avro_files(client: Client, lake: Path) -> None:
    client.execute("CREATE FOREIGN TABLE t (id int, r json, m json) SERVER files OPTIONS (path 'a.avro')")
    moment = '"at":"2024-01-31T12:00:00.25+00:00"'
    assert rows(client, "SELECT id, r::text, m::text FROM t ORDER BY id") == [
        (1, f'{{{moment},"points":[{{"x":1}},{{"x":null}}],"last":{{"x":2}}}}', '{"a":1.5,"b":null}'),
        (2, None, "{}"),
    ]
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=r'column "tree.below.element"'):
        client.execute(f"SELECT * FROM read_avro('{lake}/a.avro')")


def test_fields_of_several_files_are_one_struct(client: Client) -> None:
    client.execute("CREATE FOREIGN TABLE t (id text, s json) SERVER files OPTIONS (path 'merged', format 'parquet')")
    assert rows(client, "SELECT id, s::text FROM t ORDER BY id") == [
        ("a", '{"x":1,"t":"a","y":null}'),
        ("b", '{"x":1099511627776,"t":null,"y":[true]}'),
        ("c", None),
    ]


def test_a_map_with_a_key_twice(client: Client, lake: Path) -> None:
    client.execute("CREATE FOREIGN TABLE t (m json) SERVER files OPTIONS (path 'twice.parquet')")
    assert rows(client, "SELECT m::text, m::jsonb FROM t") == [('{"k":1,"k":2}', {"k": 2})]


def test_tables_of_delta(client: Client) -> None:
    client.execute(
        "CREATE FOREIGN TABLE t (id int, s json, m text, n json, l json, ll json) SERVER files"
        " OPTIONS (path 'delta', format 'delta')"
    )
    shown = "SELECT id, s::text, m, n::text, l::text, ll::text FROM t ORDER BY id"
    assert rows(client, shown) == [ROWS[0], *ROWS]


def test_tables_of_iceberg(client: Client, lake: Path) -> None:
    for name in ("grown", "renamed"):
        path = next(path for path in (lake / "iceberg").glob(f"**/{name}/metadata")).parent.relative_to(lake)
        client.execute(f"CREATE FOREIGN TABLE {name} () SERVER files OPTIONS (path '{path}', format 'iceberg')")
    assert rows(client, "SELECT id, s::text FROM grown ORDER BY id") == [
        (1, '{"x": 1, "y": null}'),
        (2, '{"x": 1099511627776, "y": "b"}'),
    ]
    with pytest.raises(psycopg.errors.FeatureNotSupported, match='column "s" has fields that were renamed'):
        client.execute("SELECT * FROM renamed")
    client.execute("ALTER FOREIGN TABLE renamed DROP COLUMN s")
    assert rows(client, "SELECT * FROM renamed") == [(1,)]


def test_what_no_json_holds_is_refused_by_name(client: Client, lake: Path) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=r'column "u.d" of file ".*/bad/a.parquet" has type'):
        client.execute(f"SELECT * FROM read_parquet('{lake}/bad/a.parquet')")
    client.execute("CREATE FOREIGN TABLE t (id int8) SERVER files OPTIONS (path 'bad', format 'parquet')")
    assert rows(client, "SELECT id FROM t") == [(1,)]


def test_only_what_a_query_needs_is_read(client: Client, lake: Path) -> None:
    data = bytearray((lake / "plain/a.parquet").read_bytes())
    group = pq.ParquetFile(lake / "plain/a.parquet").metadata.row_group(0)
    for number in range(1, group.num_columns):
        chunk = group.column(number)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        data[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    (lake / "damaged.parquet").write_bytes(data)
    client.execute("CREATE FOREIGN TABLE t () SERVER files OPTIONS (path 'damaged.parquet')")
    assert rows(client, "SELECT id FROM t WHERE id > 1 ORDER BY id") == [(2,), (3,)]
    with pytest.raises(psycopg.Error):
        client.execute("SELECT l FROM t")
