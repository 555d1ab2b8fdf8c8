"""Views of Iceberg catalogs, in the texts of other engines: IMPORT FOREIGN SCHEMA makes views of them."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.support.iceberg_views import rest_catalog, view_json
from tests.support.server import TidegateServer, run_server

Client = psycopg.Connection[tuple[Any, ...]]
Imported = tuple[Client, list[tuple[str, str]]]

DAY = datetime.date


def _of(columns: Mapping[str, str], dialect: str = "spark", **more: Any) -> Any:
    texts = {name: sql for name, sql in more.items() if name in ("spark", "trino", "duckdb", "postgres", "impala")}
    return view_json(columns, texts, **{name: value for name, value in more.items() if name not in texts})


VIEWS: dict[str, tuple[dict[str, Any], list[tuple[Any, ...]]]] = {
    # name: (metadata, rows in the order of all columns)
    "halves": (
        _of({"id": "int", "half": "double"}, spark="SELECT id, qty / 2 AS half FROM sales WHERE id < 3"),
        [(1, 2.5), (2, None)],
    ),
    "wholes": (
        _of({"id": "int", "half": "int"}, trino="SELECT id, qty / 2 FROM shop.sales WHERE id < 3"),
        [(1, 2), (2, None)],
    ),
    "totals": (
        _of(
            {"label": "string", "total": "decimal(18, 2)", "n": "long"},
            spark="SELECT Label, sum(price) AS total, count(*) AS n FROM `shop`.`Sales` AS s GROUP BY s.label",
        ),
        [("a", Decimal("11.50"), 2), ("b", Decimal("2.25"), 1)],
    ),
    "of_named": (
        _of(
            {"name": "string", "id": "int"},
            spark="SELECT c.name, s.id FROM lake.shop.sales s JOIN lake.shop.customers c ON s.id = c.id",
        ),
        [("Ada", 1), ("Bob", 3)],
    ),
    "of_trino": (
        _of({"name": "string"}, trino='SELECT "name" FROM iceberg.shop.customers WHERE id = 1', catalog="iceberg"),
        [("Ada",)],
    ),
    "qualified": (
        _of({"id": "int"}, spark="SELECT shop.sales.id FROM shop.sales ORDER BY id DESC LIMIT 1"),
        [(3,)],
    ),
    "above": (_of({"n": "long"}, spark="SELECT count(*) FROM totals JOIN halves ON true"), [(4,)]),
    "a_first": (_of({"n": "long"}, spark="WITH sales AS (SELECT 1 AS x) SELECT n FROM above, sales"), [(4,)]),
    "joined": (
        _of({"s": "string"}, spark="SELECT concat(label, '-', name) FROM sales JOIN customers USING (ID)"),
        [("a-Ada",), ("b-Bob",)],
    ),
    "days": (
        _of({"m": "int", "later": "date"}, spark="SELECT month(day), date_add(day, 1) FROM sales WHERE id = 1"),
        [(1, DAY(2024, 2, 1))],
    ),
    "nulls": (
        _of(
            {"label": "string", "r": "int"},
            spark="SELECT id AS label, row_number() OVER (ORDER BY qty) AS r FROM sales",
        ),
        [],  # Refused: an int is no text.
    ),
    "ranked": (
        _of({"id": "int", "r": "int"}, spark="SELECT id, row_number() OVER (ORDER BY qty) AS r FROM sales"),
        [(1, 2), (2, 1), (3, 3)],
    ),
    "own": (
        _of({"id": "int", "x": "double"}, postgres="SELECT id, qty / 2 FROM sales WHERE id = 1", spark="SELECT 0, 0"),
        [(1, 2.0)],
    ),
    "second": (
        _of({"id": "int"}, duckdb="SELECT id FROM sales USING SAMPLE 1", trino="SELECT id FROM sales WHERE qty > 5"),
        [(3,)],
    ),
}

ODD: dict[str, tuple[dict[str, Any], str]] = {
    "of_other": (_of({"id": "int"}, spark="SELECT id FROM other.things"), 'no foreign table is over "other.things"'),
    "of_prod": (_of({"id": "int"}, trino="SELECT id FROM prod.shop.sales"), 'of catalog "prod"'),
    "of_default": (_of({"id": "int"}, spark="SELECT id FROM sales", catalog="prod"), 'of catalog "prod"'),
    "unknown": (_of({"id": "int"}, impala="SELECT id FROM sales"), r"in no known dialect \(impala\)"),
    "texts": (_of({"x": "double"}, spark="SELECT label / 2 AS x FROM sales"), "operands of type text, integer"),
    "lambda": (_of({"id": "int"}, spark="SELECT transform(array(1), x -> x)[0]"), "of spark cannot be translated"),
    "broken": (_of({"id": "int"}, spark="SELECT id FRO sales WHERE"), "syntax error"),
    "change": (_of({"id": "int"}, spark="DELETE FROM sales"), "not one query"),
    "two": (_of({"id": "int"}, spark="SELECT 1; SELECT 2"), "not one query"),
    "wide": (_of({"id": "int"}, spark="SELECT id, qty FROM sales"), "the query has 2 columns, and the view 1"),
    "nulls": (VIEWS["nulls"][0], 'column "label" of the view is of type text, and of the query of type integer'),
    "map": (_of({"id": "int", "m": "nothing"}, spark="SELECT id, id FROM sales"), "could not read the metadata"),
    "circle": (_of({"id": "int"}, spark="SELECT id FROM circles"), 'reads view "circles", which cannot be imported'),
    "circles": (_of({"id": "int"}, spark="SELECT id FROM circle"), "cannot be imported"),
    "above_odd": (_of({"id": "int"}, spark="SELECT id FROM of_other"), 'reads view "of_other"'),
    "catalogs": (_of({"id": "int"}, spark="SELECT oid FROM pg_catalog.pg_class"), 'over "pg_catalog.pg_class"'),
    "acts": (_of({"id": "int"}, postgres="SELECT pg_backend_pid() + random()::int"), "volatile"),
    "changes": (
        _of({"id": "int"}, postgres="WITH d AS (DELETE FROM sales RETURNING id) SELECT id FROM d"), "modif|change"
    ),
    "versionless": ({**view_json({}, {}), "current-version-id": 9}, "lacks its current version"),
    "later": ({**view_json({}, {}), "format-version": 2}, "version 2"),
    "bad": ({"format-version": 1}, "could not read the metadata"),
}  # fmt: skip
del VIEWS["nulls"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, str]]]:
    """Iceberg tables of two namespaces: their folder, and their metadata files."""
    folder = tmp_path_factory.mktemp("views")
    catalog = SqlCatalog("c", uri="sqlite:///:memory:", warehouse=f"file://{folder}/warehouse")
    sales = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int32()),
            "Label": ["a", "a", "b"],
            "price": pa.array([Decimal("1.50"), Decimal("10.00"), Decimal("2.25")], pa.decimal128(8, 2)),
            "qty": pa.array([5, None, 7], pa.int32()),
            "day": pa.array([DAY(2024, 1, 31), DAY(2024, 2, 1), None], pa.date32()),
        }
    )
    customers = pa.table({"id": pa.array([1, 3], pa.int32()), "name": ["Ada", "Bob"]})
    found: dict[str, dict[str, str]] = {}
    for namespace, name, rows in (
        ("shop", "sales", sales),
        ("shop", "customers", customers),
        ("other", "things", customers),
    ):
        catalog.create_namespace_if_not_exists(namespace)
        table = catalog.create_table((namespace, name), schema=rows.schema)
        table.append(rows)
        found.setdefault(namespace, {})[name] = table.metadata_location
    return folder, found


@pytest.fixture(scope="module")
def server(tables: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server that may read the tables."""
    arguments = ("--spark-start", "lazy", "--allow-path", str(tables[0]))
    with run_server(tmp_path_factory.mktemp("data") / "data", arguments=arguments) as running:
        yield running


@pytest.fixture
def client(server: TidegateServer) -> Iterator[Client]:
    """A session with an empty schema `here`."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS here, there CASCADE")
        connection.execute("CREATE SCHEMA here")
        yield connection


def _server_at(
    client: Client, uri: str, folder: Path, more: str = "catalog_name 'lake, iceberg'"
) -> list[tuple[str, str]]:
    """Makes the foreign server `cat`; gives where warnings are gathered."""
    client.execute("DROP SERVER IF EXISTS cat CASCADE")
    client.execute(
        f"CREATE SERVER cat FOREIGN DATA WRAPPER lake OPTIONS (path '{folder}', catalog 'rest', uri '{uri}', {more})"
    )
    warnings: list[tuple[str, str]] = []
    client.add_notice_handler(
        lambda each: warnings.append((str(each.message_primary), f"{each.severity}: {each.message_detail}"))
    )
    return warnings


@pytest.fixture(scope="module")
def imported(server: TidegateServer, tables: tuple[Path, Any]) -> Iterator[tuple[Client, dict[str, str]]]:
    """All views of the catalog imported into the schema `views`; and why some were not, by name."""
    folder, files = tables
    views = {name: view for name, (view, _) in {**VIEWS, **ODD}.items()}
    with psycopg.connect(server.dsn(), autocommit=True) as client, rest_catalog(files, {"shop": views}) as uri:
        warnings = _server_at(client, uri, folder)
        client.execute("CREATE SCHEMA views")
        client.execute("IMPORT FOREIGN SCHEMA shop FROM SERVER cat INTO views")
        reasons = {message.split('"')[1]: why for message, why in warnings}
        yield client, reasons


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_gives_what_it_gives_elsewhere(imported: tuple[Client, dict[str, str]], name: str) -> None:
    client, reasons = imported
    assert f"shop.{name}" not in reasons, reasons
    view, rows = VIEWS[name]
    result = client.execute(f"SELECT * FROM views.{name} v ORDER BY v")
    assert result.fetchall() == rows
    assert [each.name for each in result.description or ()] == [f["name"] for f in view["schemas"][0]["fields"]]
    types = client.execute(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
        " ORDER BY attnum",
        (f"views.{name}",),
    ).fetchall()
    of = {"int": "integer", "long": "bigint", "double": "double precision", "string": "text", "date": "date"}
    assert [type for (type,) in types] == [
        of.get(field["type"], field["type"].replace("decimal", "numeric").replace(" ", ""))
        for field in view["schemas"][0]["fields"]
    ]


@pytest.mark.parametrize("name", ODD)
def test_an_odd_view_is_left_out_with_a_warning(imported: tuple[Client, dict[str, str]], name: str) -> None:
    client, reasons = imported
    assert re.search(ODD[name][1], reasons[f"shop.{name}"], re.IGNORECASE), reasons[f"shop.{name}"]
    assert reasons[f"shop.{name}"].startswith("WARNING")
    assert client.execute("SELECT to_regclass(%s)", (f"views.{name}",)).fetchone() == (None,)


def test_limit_to_and_except_name_views_too(client: Client, tables: tuple[Path, Any]) -> None:
    folder, files = tables
    views = {name: VIEWS[name][0] for name in ("halves", "totals")} | {"of_other": ODD["of_other"][0]}
    with rest_catalog(files, {"shop": views}) as uri:
        warnings = _server_at(client, uri, folder)
        client.execute("IMPORT FOREIGN SCHEMA shop LIMIT TO (sales, halves) FROM SERVER cat INTO here")
        found = client.execute(
            "SELECT relname, relkind FROM pg_class WHERE relnamespace = 'here'::regnamespace ORDER BY 1"
        )
        assert found.fetchall() == [("halves", "v"), ("sales", "f")]
        # Its table was imported before.
        client.execute("IMPORT FOREIGN SCHEMA shop LIMIT TO (totals) FROM SERVER cat INTO here")
        assert client.execute("SELECT count(*) FROM here.totals").fetchone() == (2,)
        with pytest.raises(
            psycopg.errors.FeatureNotSupported, match=r'view "shop\.of_other" cannot be imported'
        ) as raised:
            client.execute("IMPORT FOREIGN SCHEMA shop LIMIT TO (of_other) FROM SERVER cat INTO here")
        assert "Import the table first" in (raised.value.diag.message_hint or "")
        client.execute("CREATE SCHEMA there")
        client.execute("IMPORT FOREIGN SCHEMA other FROM SERVER cat INTO there")
        client.execute("IMPORT FOREIGN SCHEMA shop LIMIT TO (of_other) FROM SERVER cat INTO here")
        assert client.execute("SELECT count(*) FROM here.of_other").fetchone() == (2,)
        assert "there.things" in str(client.execute("SELECT pg_get_viewdef('here.of_other'::regclass)").fetchone())
        client.execute("DROP SCHEMA here CASCADE")
        client.execute("CREATE SCHEMA here")
        client.execute("IMPORT FOREIGN SCHEMA shop EXCEPT (customers, halves) FROM SERVER cat INTO here")
        found = client.execute("SELECT relname FROM pg_class WHERE relnamespace = 'here'::regnamespace ORDER BY 1")
        assert found.fetchall() == [("of_other",), ("sales",), ("totals",)]
        assert not [why for _, why in warnings if why.startswith("WARNING")]


def test_a_name_that_is_taken_stops_the_import(client: Client, tables: tuple[Path, Any]) -> None:
    folder, files = tables
    with rest_catalog(files, {"shop": {"halves": VIEWS["halves"][0]}}) as uri:
        _server_at(client, uri, folder)
        client.execute("CREATE TABLE here.halves (x int)")
        with pytest.raises(psycopg.errors.DuplicateTable):
            client.execute("IMPORT FOREIGN SCHEMA shop FROM SERVER cat INTO here")
        assert client.execute("SELECT to_regclass('here.sales')").fetchone() == (None,)


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ({"overrides": {"prefix": "p"}}, 2),
        ({"overrides": {"prefix": "p"}, "endpoints": ["GET /v1/{prefix}/namespaces"]}, 2),
        ({"overrides": {"prefix": "p", "view-endpoints-supported": "true"}}, 3),
    ],
)
def test_catalogs_say_whether_they_know_views(
    client: Client, tables: tuple[Path, Any], config: dict[str, Any], count: int
) -> None:
    folder, files = tables
    with rest_catalog(files, {"shop": {"halves": VIEWS["halves"][0]}}, config) as uri:
        _server_at(client, uri, folder)
        client.execute("IMPORT FOREIGN SCHEMA shop FROM SERVER cat INTO here")
        found = client.execute("SELECT count(*) FROM pg_class WHERE relnamespace = 'here'::regnamespace").fetchone()
        assert found == (count,)


def test_views_of_a_jdbc_catalog(client: Client, server: TidegateServer, tables: tuple[Path, Any]) -> None:
    folder, files = tables
    location = folder / "warehouse" / "halves.metadata.json"
    location.write_text(json.dumps(VIEWS["halves"][0]))
    client.execute("DROP TABLE IF EXISTS iceberg_tables, iceberg_namespace_properties")
    client.execute(
        "CREATE TABLE iceberg_tables (catalog_name text, table_namespace text, table_name text, metadata_location text,"
        " iceberg_type text)"
    )
    client.execute("CREATE TABLE iceberg_namespace_properties (catalog_name text, namespace text)")
    for name, where, kind in (("sales", files["shop"]["sales"], "TABLE"), ("halves", f"file://{location}", "VIEW")):
        client.execute("INSERT INTO iceberg_tables VALUES ('lake', 'shop', %s, %s, %s)", (name, where, kind))
    uri = f"postgresql://{client.info.host}:{client.info.port}/postgres"
    client.execute("DROP SERVER IF EXISTS cat CASCADE")
    client.execute(
        f"CREATE SERVER cat FOREIGN DATA WRAPPER lake OPTIONS (path '{folder}', catalog 'postgresql', uri '{uri}',"
        " catalog_name 'lake')"
    )
    client.execute("CREATE USER MAPPING FOR postgres SERVER cat OPTIONS (user 'postgres')")
    client.execute("IMPORT FOREIGN SCHEMA shop FROM SERVER cat INTO here")
    assert client.execute("SELECT * FROM here.halves ORDER BY id").fetchall() == VIEWS["halves"][1]
