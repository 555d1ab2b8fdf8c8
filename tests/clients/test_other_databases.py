"""Foreign tables of databases other than PostgreSQL, by JDBC on Spark: one of Derby's, which comes with Spark."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyspark
import pytest

from adapter.engines.spark.java.gateway import find_java
from tests.support.server import TidegateServer, run_server

Client = psycopg.Connection[tuple[Any, ...]]

THERE = """
CREATE TABLE people (
    id INT NOT NULL PRIMARY KEY, name VARCHAR(20), code CHAR(5), born DATE, moment TIMESTAMP, clock TIME,
    pay DECIMAL(10,2), big DOUBLE, small REAL, few SMALLINT, many BIGINT, raw VARCHAR(10) FOR BIT DATA, ok BOOLEAN,
    words CLOB
);
INSERT INTO people VALUES (1, 'Ada', 'x', '1815-12-10', '2020-03-29 02:30:00.123456', '23:59:59', 12.50, 0.1, 1.5, 7,
    9223372036854775807, X'00ff', TRUE, 'long');
INSERT INTO people VALUES (2, 'ada', NULL, '1500-03-01', '1500-03-01 00:00:00', NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, FALSE, NULL);
CREATE TABLE "mixedCase" ("Id" INT, id INT);
CREATE VIEW names AS SELECT id, name FROM people;
CREATE SCHEMA other;
CREATE TABLE other.documents (id INT, doc XML);
CREATE TABLE other.numbers (n INT, words VARCHAR(10));
INSERT INTO other.numbers VALUES (1, 'one'), (2, 'two'), (3, 'THREE');
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database in it, beside which there is another one."""
    folder = tmp_path_factory.mktemp("lake").resolve() / "lake"
    folder.mkdir()
    for path in (folder / "shop", folder.with_name("outside")):
        script = folder.with_name("script.sql")
        script.write_text(f"CONNECT 'jdbc:derby:{path};create=true;user=app';\n{THERE}")
        jars = Path(pyspark.__file__).parent / "jars"
        command = [str(find_java().executable), "-cp", f"{jars}/*", "-Xmx128m"]
        command += [f"-Dderby.system.home={folder.parent}", "org.apache.derby.tools.ij", str(script)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert "ERROR" not in told, told
    return folder


@pytest.fixture(scope="module")
def server(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server that may read the folder."""
    arguments = ("--spark-master", "local[2]", "--allow-path", str(lake), "--allow-jdbc", "jdbc:derby:memory:free")
    with run_server(tmp_path_factory.mktemp("data") / "data", arguments=arguments) as running:
        with psycopg.connect(running.dsn(), autocommit=True) as admin:
            admin.execute(f"CREATE SERVER there FOREIGN DATA WRAPPER lake OPTIONS (url 'jdbc:derby:{lake}/shop')")
        yield running


@pytest.fixture
def client(server: TidegateServer) -> Iterator[Client]:
    """A session in a schema of its own."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS mine CASCADE; CREATE SCHEMA mine; SET search_path = mine, public")
        connection.execute("SET timezone = 'Europe/Berlin'")
        yield connection


def rows(client: Client, text: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return client.execute(text).fetchall()


def refused(client: Client, text: str) -> tuple[str | None, str]:
    """How a statement fails: its SQLSTATE, and its message with detail and hint."""
    with pytest.raises(psycopg.Error) as failed:
        client.execute(text)
    diagnostics = failed.value.diag
    said = (diagnostics.message_primary, diagnostics.message_detail, diagnostics.message_hint)
    return failed.value.sqlstate, " ".join(part for part in said if part)


def test_a_schema_is_imported_and_its_values_are_those_that_are_there(client: Client) -> None:
    client.execute("IMPORT FOREIGN SCHEMA app FROM SERVER there INTO mine")
    client.execute('IMPORT FOREIGN SCHEMA "OTHER" LIMIT TO (numbers) FROM SERVER there INTO mine')
    assert rows(client, "SELECT relname FROM pg_class WHERE relkind = 'f' AND relnamespace = 'mine'::regnamespace"
                " ORDER BY 1") == [("mixedCase",), ("names",), ("numbers",), ("people",)]  # fmt: skip
    types = (
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull, attfdwoptions FROM pg_attribute"
        " WHERE attrelid = '{}'::regclass AND attnum > 0 ORDER BY attnum"
    )
    assert [row[:3] for row in rows(client, types.format("people"))] == [
        ("id", "integer", True), ("name", "character varying(20)", False), ("code", "character(5)", False),
        ("born", "date", False), ("moment", "timestamp without time zone", False),
        ("clock", "time without time zone", False), ("pay", "numeric(10,2)", False),
        ("big", "double precision", False), ("small", "real", False), ("few", "integer", False),
        ("many", "bigint", False), ("raw", "bytea", False), ("ok", "boolean", False), ("words", "text", False),
    ]  # fmt: skip
    assert [(row[0], row[3]) for row in rows(client, types.format('"mixedCase"'))] == [
        ("Id", None), ("id", ["column_name=ID"]),
    ]  # fmt: skip
    as_text = "SELECT id, name, code::text, born::text, moment::text, clock::text, pay, big, small, few, many,"
    assert rows(client, f"{as_text} raw::text, ok, words FROM people ORDER BY id") == [
        (1, "Ada", "x", "1815-12-10", "2020-03-29 02:30:00.123456", "23:59:59", rows(client, "SELECT 12.50")[0][0], 0.1,
         1.5, 7, 9223372036854775807, "\\x00ff", True, "long"),
        (2, "ada", None, "1500-03-01", "1500-03-01 00:00:00", None, None, None, None, None, None, None, False, None),
    ]  # fmt: skip
    assert rows(client, "SELECT words FROM numbers WHERE words > 'P' ORDER BY words") == [
        ("THREE",), ("one",), ("two",),
    ]  # fmt: skip
    assert rows(client, "SELECT count(*) FROM numbers WHERE n BETWEEN 2 AND 3 AND words <> 'two'") == [(1,)]


def test_columns_are_found_whatever_their_case(client: Client) -> None:
    client.execute("CREATE FOREIGN TABLE p (id bigint, name text, pay text, big numeric(4, 2), ok text)"
                   " SERVER there OPTIONS (schema_name 'APP', table_name 'PEOPLE')")  # fmt: skip
    assert rows(client, "SELECT id, name, pay, big::text, ok FROM p WHERE id = 1") == [
        (1, "Ada", "12.50", "0.10", "true")
    ]
    client.execute("CREATE FOREIGN TABLE q () SERVER there OPTIONS"
                   " (query 'SELECT ok, count(*) AS many FROM app.people GROUP BY ok -- all')")  # fmt: skip
    assert rows(client, "SELECT ok, many FROM q ORDER BY ok") == [(False, 1), (True, 1)]
    client.execute("CREATE TABLE own (id int, v text); INSERT INTO own VALUES (2, 'two')")
    assert rows(client, "SELECT v, name FROM own JOIN p USING (id)") == [("two", "ada")]
    client.execute("CREATE TABLE copied AS SELECT * FROM p")
    assert rows(client, "SELECT count(*) FROM copied") == [(2,)]
    plan = "\n".join(row[0] for row in rows(client, "EXPLAIN SELECT * FROM p WHERE id = 1"))
    assert "Engine: spark (it reads a table of another database)" in plan
    assert 'FROM "APP"."PEOPLE"' in plan


@pytest.mark.parametrize(
    ("columns", "options", "sqlstate", "said"),
    [
        ("x int", "table_name 'NOPE'", "42P01", "'APP.NOPE' does not exist"),
        ("nope int", "table_name 'PEOPLE'", "42703", 'column "nope" of foreign table "t" does not exist'),
        ("name int", "table_name 'PEOPLE'", "22P02", 'invalid input syntax for type integer: "Ada"'),
        ("many int", "table_name 'PEOPLE'", "22003", "out of range"),
        ("born int", "table_name 'PEOPLE'", "42804", 'column "born" of foreign table "t" cannot be read as integer'),
        ("x int", "query 'SELECT 1 / (n - 1) AS x FROM other.numbers'", "22012", "divide by zero"),
        ("x int", "query 'DELETE FROM other.numbers'", "42601", "Syntax error"),
    ],
)
def test_errors(client: Client, columns: str, options: str, sqlstate: str, said: str) -> None:
    schema = "schema_name 'APP', " if "table_name" in options else ""
    client.execute(f"CREATE FOREIGN TABLE t ({columns}) SERVER there OPTIONS ({schema}{options})")
    found = refused(client, "SELECT * FROM t")
    assert (found[0], said in found[1]) == (sqlstate, True), found


@pytest.mark.parametrize(
    ("options", "sqlstate", "said"),
    [
        ("url 'jdbc:derby:{lake}/new;create=true'", "22023", 'invalid parameter "create"'),
        ("url 'jdbc:derby:{lake}/../outside'", "42501", "permission denied for path"),
        ("url 'jdbc:derby:memory:x'", "42501", "permission denied for a database of this host"),
        ("url 'jdbc:trino://x/y'", "0A000", "jdbc:trino://x/y"),
        ("url 'jdbc:derby:memory:freely;create=true;user=me'", "22023", "must not say"),
        ("url 'jdbc:derby:{lake}/shop', driver 'a b'", "22023", "driver"),
    ],
)
def test_servers_that_are_refused(client: Client, lake: Path, options: str, sqlstate: str, said: str) -> None:
    text = f"CREATE SERVER s FOREIGN DATA WRAPPER lake OPTIONS ({options.format(lake=lake)})"
    found = refused(client, text)
    assert (found[0], said in found[1]) == (sqlstate, True), found


def test_what_is_refused_when_it_is_read(client: Client, lake: Path) -> None:
    for name, options, sqlstate, said in (
        ("none", f"url 'jdbc:derby:{lake}/none'", "58P01", f'there is no database "{lake}/none"'),
        ("missing", "url 'jdbc:mysql://127.0.0.1:1/x'", "55000", "com.mysql.cj.jdbc.Driver or org.mariadb.jdbc.Driver"),
        ("string", "url 'jdbc:mysql://127.0.0.1:1/x', driver 'java.lang.String'", "22023", "is no JDBC driver"),
        ("other", "url 'jdbc:mysql://127.0.0.1:1/x', driver 'no.such.Driver'", "55000", "no.such.Driver"),
    ):
        client.execute(f"CREATE SERVER {name} FOREIGN DATA WRAPPER lake OPTIONS ({options})")
        client.execute(f"CREATE USER MAPPING FOR postgres SERVER {name} OPTIONS (user 'a', password 'hushed')")
        client.execute(f"CREATE FOREIGN TABLE t (x int) SERVER {name} OPTIONS (table_name 'x')")
        found = refused(client, "SELECT * FROM t")
        assert (found[0], said in found[1], "hushed" in found[1]) == (sqlstate, True, False), found
        client.execute(f"DROP SERVER {name} CASCADE")
    found = refused(client, "IMPORT FOREIGN SCHEMA nope FROM SERVER there INTO mine")
    assert found == ("HV00Q", 'schema "nope" is not present on foreign server "there"')
    found = refused(client, "IMPORT FOREIGN SCHEMA other FROM SERVER there INTO mine")
    assert (found[0], "XML values are not allowed" in found[1]) == ("42Z71", True), found
    client.execute("CREATE FOREIGN TABLE p (id int) SERVER there OPTIONS (schema_name 'APP', table_name 'PEOPLE')")
    assert refused(client, "INSERT INTO p VALUES (1)")[0] == "0A000"
    client.execute("SET engine = 'local'")
    found = refused(client, "SELECT * FROM p")
    assert (found[0], "only the spark engine reads" in found[1]) == ("0A000", True), found


def test_code_in_a_database_is_for_superusers_to_open(client: Client, lake: Path) -> None:
    client.execute("CREATE ROLE filer; GRANT pg_read_server_files TO filer")
    client.execute("GRANT USAGE ON FOREIGN DATA WRAPPER lake TO filer; SET ROLE filer")
    found = refused(client, f"CREATE SERVER s FOREIGN DATA WRAPPER lake OPTIONS (url 'jdbc:derby:{lake}/shop')")
    assert (found[0], "must be superuser" in found[1]) == ("42501", True), found


def test_what_the_operator_allows_is_taken_as_it_is(client: Client) -> None:
    options = "url 'jdbc:derby:memory:free;create=true', driver 'org.apache.derby.jdbc.EmbeddedDriver'"
    client.execute(f"CREATE SERVER free FOREIGN DATA WRAPPER lake OPTIONS ({options})")
    client.execute("CREATE USER MAPPING FOR postgres SERVER free OPTIONS (user 'a', password 'b')")
    client.execute("CREATE FOREIGN TABLE one () SERVER free OPTIONS (query 'SELECT 1 AS x FROM sysibm.sysdummy1')")
    assert rows(client, "SELECT x FROM one") == [(1,)]
    client.execute("DROP SERVER free CASCADE")
