"""Columns of JSON files that no plain type holds, on both engines: they are jsonb."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.server import TidegateServer, run_server

Client = psycopg.Connection[tuple[Any, ...]]

LINES = (
    '{"a": 1, "b": "1", "c": {"x": [1, "y"]}, "d": [1, "2", null], "e": [1, 2], "g": ["2026-01-01"], "f": [[1], [2]]}\n'
    '{"a": "x", "b": null, "c": null, "d": [], "e": [3]}\n'
    '\n{"a": "7", "c": {"x": 12345678901234567890.10}, "d": null}\n'
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of which one alone would have plain columns."""
    folder = tmp_path_factory.mktemp("sources") / "lake"
    for name, lines in (("mixed", LINES), ("other", '{"b": 2, "e": "none"}\n')):
        (folder / name).mkdir(parents=True)
        (folder / name / "a.jsonl").write_text(lines)
    (folder / "days").mkdir()
    for name, lines in (
        ("a", '{"d": "2026-01-01"}\n{}\n'),
        ("b", '{"d": "2026-02-30"}\n'),
        ("c", '{"d": "2026-01-02 10:30"}\n'),
    ):
        (folder / "days" / f"{name}.jsonl").write_text(lines)
    (folder / "days/v.csv").write_text("v\n1\nNA\n")
    (folder / "cut.jsonl").write_text('{"a": {}}\n{"a": [1')
    return folder


@pytest.fixture(scope="module")
def server(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server with both engines."""
    arguments = ("--spark-master", "local[2]", "--spark-start", "lazy", "--allow-path", str(lake))
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


MIXED = [
    ("1", "1", '{"x": [1, "y"]}', '[1, "2", null]', [1, 2], "[[1], [2]]"),
    ('"x"', None, None, "[]", [3], None),
    ('"7"', None, '{"x": 12345678901234567890.10}', None, None, None),
]


def test_values_of_several_kinds_are_jsonb(client: Client, lake: Path) -> None:
    items = "a::text, b, c::text, d::text, e, f::text"
    assert client.execute(f"SELECT {items} FROM read_json('{lake}/mixed')").fetchall() == MIXED
    found = client.execute(f"SELECT c -> 'x' ->> 1 FROM read_json('{lake}/mixed') WHERE jsonb_typeof(a) = 'number'")
    assert found.fetchall() == [("y",)]
    client.execute("CREATE FOREIGN TABLE inferred () SERVER files OPTIONS (path 'mixed', format 'json')")
    client.execute(f"CREATE TABLE own () WITH (load_from = '{lake}/mixed', format = 'json')")
    for table in ("inferred", "own"):
        assert client.execute(f"SELECT {items} FROM {table} ORDER BY e DESC NULLS LAST").fetchall() == [
            MIXED[1], MIXED[0], MIXED[2],
        ]  # fmt: skip
        types = client.execute(
            "SELECT string_agg(format_type(atttypid, atttypmod), ',' ORDER BY attnum) FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attnum > 0", (table,)
        )  # fmt: skip
        assert types.fetchall() == [("jsonb,text,jsonb,jsonb,bigint[],timestamp without time zone[],jsonb",)]


def test_declared_json_keeps_the_quotes_of_texts_and_declared_text_does_not(client: Client) -> None:
    client.execute(
        "CREATE FOREIGN TABLE declared (a jsonb, b json, c text, d jsonb)"
        " SERVER files OPTIONS (path 'mixed', format 'json')"
    )
    assert client.execute("SELECT a::text, b::text, c, d::text FROM declared").fetchall() == [
        ("1", '"1"', '{"x": [1, "y"]}', '[1, "2", null]'),
        ('"x"', None, None, "[]"),
        ('"7"', None, '{"x": 12345678901234567890.10}', None),
    ]
    client.execute("CREATE FOREIGN TABLE texts (a text) SERVER files OPTIONS (path 'mixed', format 'json')")
    assert client.execute("SELECT a FROM texts").fetchall() == [("1",), ("x",), ("7",)]


def test_arrays_of_plain_values_are_arrays(client: Client) -> None:
    client.execute("CREATE FOREIGN TABLE arrays (e int[], g date[]) SERVER files OPTIONS (path 'mixed', format 'json')")
    assert client.execute("SELECT e, g FROM arrays WHERE e[1] > 0").fetchall() == [
        ([1, 2], [datetime.date(2026, 1, 1)]),
        ([3], None),
    ]


def test_days_are_dates_where_all_are_days(client: Client, lake: Path) -> None:
    read = f"SELECT pg_typeof(d), d::text FROM read_json('{lake}/days/%s.jsonl') ORDER BY d"
    assert client.execute(read % "a").fetchall() == [("date", "2026-01-01"), ("date", None)]
    assert client.execute(read % "b").fetchall() == [("text", "2026-02-30")]
    moments = ("2026-01-01 00:00:00", "2026-01-02 10:30:00", None)
    found = client.execute(read % "[ac]").fetchall()
    assert found == [("timestamp without time zone", moment) for moment in moments]
    quoted = f"""SELECT v FROM read_csv('{lake}/days/v.csv', "null" => 'NA')"""
    assert client.execute(quoted).fetchall() == [(1,), (None,)]


def test_files_that_differ_make_a_column_jsonb(client: Client, lake: Path) -> None:
    text = f"SELECT b::text, e::text FROM read_json('{lake}/[mo]*/*.jsonl') ORDER BY b NULLS FIRST, e LIMIT 4"
    assert client.execute(text).fetchall()[2:] == [('"1"', "[1, 2]"), ("2", '"none"')]


def test_a_cut_file_is_named(client: Client, lake: Path) -> None:
    with pytest.raises(psycopg.Error) as failed:
        client.execute(f"SELECT * FROM read_json('{lake}/cut.jsonl')")
    assert (failed.value.sqlstate, f'"{lake}/cut.jsonl"' in str(failed.value)) == ("22P04", True)
