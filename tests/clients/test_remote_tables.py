"""Foreign tables of another database, by JDBC on Spark: what a real PostgreSQL 15 has, as it has it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer, run_server

DRIVER = Path("/usr/share/java/postgresql.jar")
Client = psycopg.Connection[tuple[Any, ...]]

THERE = """
CREATE ROLE reader LOGIN PASSWORD 'hushed';
CREATE SCHEMA shop;
CREATE TYPE shop.mood AS ENUM ('good', 'bad');
CREATE TABLE shop.every (
    id serial PRIMARY KEY, exact numeric, price numeric(12, 2), day date, at timestamp, there timestamptz, clock time,
    who uuid, doc jsonb, numbers int[], raw bytea, small real, large float8, name varchar(10), code char(5),
    few int2, many int8, "On" bool, words text, mood shop.mood, span interval
);
INSERT INTO shop.every (exact, price, day, at, there, clock, who, doc, numbers, raw, small, large, name, code, few,
    many, "On", words, mood, span)
VALUES (1e-20, 1.5, '2020-02-29', '2020-03-29 02:30:00.123456', '2020-03-29 02:30:00.123456+00', '23:59:59.999999',
    '12345678-1234-5678-1234-567812345678', '{"a": 1}', '{1,NULL}', '\\x00ff', 1.5, 'NaN', 'abc', 'x', 7,
    4611686018427387904, true, 'B', 'bad', '1 mon 2 days 03:04:05'),
  (NULL, NULL, '0044-03-15 BC', '1500-03-01 00:00:00', '0001-01-01 00:00:00+00', NULL, NULL, NULL, NULL, NULL, NULL,
    'Infinity', NULL, NULL, NULL, NULL, NULL, 'a', NULL, NULL),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    false, E'\\u00e9', NULL, NULL);
CREATE VIEW shop.names AS SELECT id, words FROM shop.every;
CREATE TABLE shop.numbers AS SELECT g AS n, g % 10 AS ten, g::text AS words FROM generate_series(1, 20000) g;
GRANT USAGE ON SCHEMA shop TO reader;
GRANT SELECT ON shop.numbers, shop.names, shop.every TO reader;
CREATE TABLE shop.hidden (x int);
"""


@pytest.fixture(scope="module")
def source(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A PostgreSQL with a database to read."""
    with psycopg.connect(postgres.dsn(), autocommit=True) as admin:
        admin.execute("CREATE DATABASE source")
        with psycopg.connect(postgres.dsn("source"), autocommit=True) as there:
            there.execute(THERE)
        yield postgres
        admin.execute("DROP DATABASE source WITH (FORCE)")
        admin.execute("DROP ROLE reader")


@pytest.fixture(scope="module")
def server(source: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server whose Spark has the driver."""
    if not DRIVER.exists():
        message = f"JDBC cannot be tried: missing {DRIVER}"
        assert not os.environ.get("CI"), message
        pytest.skip(message)
    arguments = ("--spark-master", "local[2]", "--spark-conf", f"spark.jars={DRIVER}")
    with run_server(tmp_path_factory.mktemp("data") / "data", arguments=arguments) as running:
        with psycopg.connect(running.dsn(), autocommit=True) as admin:
            url = f"jdbc:postgresql://{source.host}:{source.port}/source"
            admin.execute(f"CREATE SERVER there FOREIGN DATA WRAPPER lake OPTIONS (url '{url}')")
            admin.execute("CREATE USER MAPPING FOR postgres SERVER there OPTIONS (user 'reader', password 'hushed')")
            admin.execute("CREATE ROLE plain LOGIN")
            admin.execute("GRANT USAGE ON FOREIGN SERVER there TO plain")
            admin.execute("GRANT CREATE ON SCHEMA public TO plain")
        yield running


@pytest.fixture
def client(server: TidegateServer) -> Iterator[Client]:
    """A session in a schema of its own."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS mine CASCADE; CREATE SCHEMA mine; SET search_path = mine, public")
        connection.execute("SET timezone = 'UTC'")
        yield connection


def rows(client: Client, text: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return client.execute(text).fetchall()


def refused(client: Client, text: str) -> tuple[str | None, str]:
    """How a statement fails: its SQLSTATE, and its message with the detail."""
    with pytest.raises(psycopg.Error) as failed:
        client.execute(text)
    diagnostics = failed.value.diag
    return failed.value.sqlstate, f"{diagnostics.message_primary} {diagnostics.message_detail or ''}"


def test_a_schema_is_imported_and_its_values_are_those_that_are_there(client: Client, source: PostgresServer) -> None:
    client.execute("IMPORT FOREIGN SCHEMA shop EXCEPT (hidden) FROM SERVER there INTO mine")
    assert rows(client, "SELECT relname FROM pg_class WHERE relkind = 'f' AND relnamespace = 'mine'::regnamespace"
                " ORDER BY 1") == [("every",), ("names",), ("numbers",)]  # fmt: skip
    types = (
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
        " WHERE attrelid = '{}'::regclass AND attnum > 0 AND attname NOT IN ('mood') ORDER BY attnum"
    )
    as_text = (
        'SELECT id, exact::text, price, day::text, "at"::text, there::text, clock::text, who::text, doc::text,'
        ' numbers::text, raw::text, small, large::text, name, code::text, few, many, "On", words, mood::text,'
        " span::text"
        " FROM {} ORDER BY id"
    )
    with psycopg.connect(source.dsn("source") + " options='-c timezone=UTC'", autocommit=True) as there:
        assert rows(client, types.format("every")) == rows(there, types.format("shop.every"))
        assert rows(client, as_text.format("every")) == rows(there, as_text.format("shop.every"))
    # Texts are compared by their bytes, also there.
    assert rows(client, "SELECT words FROM names WHERE words < 'a' OR words > 'z' ORDER BY words") == [("B",), ("é",)]


def test_conditions_are_asked_there(client: Client) -> None:
    client.execute("CREATE FOREIGN TABLE n (n int, ten bigint, words text)"
                   " SERVER there OPTIONS (schema_name 'shop', table_name 'numbers')")  # fmt: skip
    assert rows(client, "SELECT count(*), sum(n), min(words), max(words) FROM n WHERE ten = 3") == [
        (2000, 20_000_000 - 4000, "10003", "9993")
    ]
    client.execute("CREATE TABLE own (n int, name text)")
    client.execute("INSERT INTO own VALUES (5, 'five'), (20000, 'last'), (20001, 'none')")
    assert rows(client, "SELECT name, words FROM own LEFT JOIN n USING (n) ORDER BY own.n") == [
        ("five", "5"), ("last", "20000"), ("none", None),
    ]  # fmt: skip
    client.execute("CREATE TABLE copied AS SELECT * FROM n WHERE n <= 100")
    assert rows(client, "SELECT count(*) FROM copied") == [(100,)]
    plan = "\n".join(row[0] for row in rows(client, "EXPLAIN SELECT * FROM n WHERE n = 1"))
    assert "Engine: spark (it reads a table of another database)" in plan
    assert "FROM shop.numbers" in plan
    assert "hushed" not in plan


def test_queries_are_tables(client: Client) -> None:
    client.execute(
        "CREATE FOREIGN TABLE q () SERVER there OPTIONS (query"
        " 'SELECT ten, avg(n) AS mean, max(words) AS \"Most\" FROM shop.numbers GROUP BY ten -- by the last digit')"
    )
    assert rows(client, 'SELECT ten, mean, "Most" FROM q WHERE ten < 2 ORDER BY ten') == [
        (0, 10005, "9990"), (1, 9996, "9991"),
    ]  # fmt: skip
    client.execute("CREATE FOREIGN TABLE c (\"number\" int OPTIONS (column_name 'n'))"
                   " SERVER there OPTIONS (schema_name 'shop', table_name 'numbers')")  # fmt: skip
    assert rows(client, 'SELECT max("number") FROM c') == [(20000,)]
    client.execute(
        "CREATE FOREIGN TABLE ends (first date, last timestamp) SERVER there OPTIONS (query"
        " 'SELECT ''-infinity''::date AS first, ''infinity''::timestamp AS last')"
    )
    assert rows(client, "SELECT first::text, last::text FROM ends") == [("-infinity", "infinity")]


@pytest.mark.parametrize(
    ("columns", "options", "sqlstate", "said"),
    [
        ("x int", "schema_name 'shop', table_name 'nope'", "42P01", 'relation "shop.nope" does not exist'),
        ("x int", "schema_name 'shop', table_name 'hidden'", "42501", "permission denied for table hidden"),
        ("nope int", "schema_name 'shop', table_name 'numbers'", "42703", '"nope"'),
        ("words int", "query 'SELECT ''x'' AS words'", "22P02", 'invalid input syntax for type integer: "x"'),
        ("x int", "query 'SELECT 1 / (n - 1) AS x FROM shop.numbers'", "22012", "division by zero"),
        ("x int", "query 'DELETE FROM shop.numbers'", "42601", "syntax error"),
    ],
)
def test_errors_are_those_of_the_other_database(
    client: Client, columns: str, options: str, sqlstate: str, said: str
) -> None:
    client.execute(f"CREATE FOREIGN TABLE t ({columns}) SERVER there OPTIONS ({options})")
    found = refused(client, "SELECT * FROM t")
    assert (found[0], said in found[1], "hushed" in found[1]) == (sqlstate, True, False), found


@pytest.mark.parametrize(
    ("statement", "sqlstate", "said"),
    [
        ("CREATE SERVER s FOREIGN DATA WRAPPER lake OPTIONS (url 'jdbc:trino://x/y')", "0A000", "jdbc:trino"),
        ("CREATE SERVER s FOREIGN DATA WRAPPER lake OPTIONS (url 'jdbc:postgresql://x/y?user=a&password=b')",
         "22023", "must not say the user"),
        ("CREATE SERVER s FOREIGN DATA WRAPPER lake OPTIONS (url 'jdbc:postgresql://x/y?socketFactory=a.B')",
         "22023", 'invalid parameter "socketFactory"'),
        ("CREATE SERVER s FOREIGN DATA WRAPPER lake OPTIONS (url 'jdbc:postgresql://x/y', path '/z')", "HV00D", "path"),
        ("CREATE SERVER s FOREIGN DATA WRAPPER lake OPTIONS (url 'jdbc:postgresql://x/y', fetch_size '0')",
         "22023", "fetch_size"),
        ("CREATE FOREIGN TABLE t (x int) SERVER there OPTIONS (path 'x.csv')", "HV00D", "path"),
        ("CREATE FOREIGN TABLE t (x int) SERVER there", "22023", "table_name"),
        ("CREATE FOREIGN TABLE t (x int) SERVER there OPTIONS (table_name 'a', query 'b')", "22023", "query"),
        ("IMPORT FOREIGN SCHEMA nope FROM SERVER there INTO mine", "HV00Q",
         'schema "nope" is not present on foreign server "there"'),
    ],
)  # fmt: skip
def test_what_is_refused(client: Client, statement: str, sqlstate: str, said: str) -> None:
    found = refused(client, statement)
    assert (found[0], said in found[1]) == (sqlstate, True), found


def test_tables_there_are_only_read_and_only_on_spark(client: Client) -> None:
    client.execute("CREATE FOREIGN TABLE t (n int) SERVER there OPTIONS (schema_name 'shop', table_name 'numbers')")
    assert refused(client, "INSERT INTO t VALUES (1)")[0] == "0A000"
    client.execute("SET engine = 'local'")
    found = refused(client, "SELECT * FROM t")
    assert (found[0], "only the spark engine reads" in found[1]) == ("0A000", True), found


def test_who_reads(client: Client, server: TidegateServer) -> None:
    client.execute("CREATE FOREIGN TABLE public.shared (n int)"
                   " SERVER there OPTIONS (schema_name 'shop', table_name 'numbers')")  # fmt: skip
    client.execute("GRANT SELECT ON public.shared TO plain")
    with psycopg.connect(server.dsn() + " user=plain", autocommit=True) as plain:
        assert refused(plain, "SELECT * FROM shared")[0] == "42704"
        plain.execute("CREATE USER MAPPING FOR plain SERVER there OPTIONS (user 'reader')")
        assert refused(plain, "SELECT * FROM shared")[0] == "2F003"
        plain.execute("ALTER USER MAPPING FOR plain SERVER there OPTIONS (ADD password 'hushed')")
        assert rows(plain, "SELECT count(*) FROM shared") == [(20_000,)]
        shown = "SELECT umoptions FROM pg_user_mappings WHERE usename <> current_user"
        assert rows(plain, shown) == [(None,)]
        plain.execute("DROP USER MAPPING FOR plain SERVER there")
    client.execute("DROP FOREIGN TABLE public.shared")


def test_a_database_that_is_not_there(client: Client) -> None:
    client.execute("CREATE SERVER gone FOREIGN DATA WRAPPER lake OPTIONS (url 'jdbc:postgresql://127.0.0.1:1/x')")
    client.execute("CREATE USER MAPPING FOR postgres SERVER gone OPTIONS (user 'reader', password 'hushed')")
    client.execute("CREATE FOREIGN TABLE t (n int) SERVER gone OPTIONS (table_name 'numbers')")
    for statement in ("SELECT * FROM t", "CREATE FOREIGN TABLE u () SERVER gone OPTIONS (table_name 'numbers')"):
        found = refused(client, statement)
        assert (found[0], found[1].startswith('could not connect to server "gone"')) == ("08001", True), found
    client.execute("DROP SERVER gone CASCADE")
