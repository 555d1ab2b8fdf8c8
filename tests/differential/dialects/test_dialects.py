"""Sessions with ``SET dialect``: statements of other dialects give what they give at home, or are refused.

`statements/common.txt` holds for every dialect; the other files hold what one dialect's own engine, or its
documentation, answers: ``statement => rows as JSON``, or ``=> refused``, or ``=> "SQLSTATE"`` of an error. A line more
is a case more. Spark's answers and DuckDB's are their own (`record`).
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.tpch.load import queries
from planner.syntax.dialects.functions import FAMILIES
from planner.syntax.dialects.reading import read
from tests.support.server import TidegateServer

STATEMENTS = Path(__file__).with_name("statements")
DIALECTS = FAMILIES["all"]
OWN = {"databricks": "spark"}
"""Whose file a dialect has, where it has not its own."""


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, but for the last digits of floating-point numbers."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool) or isinstance(one, str) or one is None or other is None:
        return bool(one == other)
    return bool(abs(one - other) <= 1e-9 * max(1, abs(one), abs(other)))


def cases(name: str) -> list[tuple[str, Any]]:
    """The statements of a file and what each gives."""
    found = []
    for line in (STATEMENTS / f"{name}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            statement, _, answer = line.rpartition(" => ")
            found.append((statement, answer if answer == "refused" else json.loads(answer)))
    return found


@pytest.fixture(scope="module")
def connection(server: TidegateServer) -> Iterator[psycopg.Connection[Any]]:
    """A session with the tables."""
    with psycopg.connect(server.dsn(), autocommit=True, prepare_threshold=None) as connected:
        connected.execute("SET timezone = 'UTC'")
        connected.execute("DROP SCHEMA IF EXISTS dialects CASCADE")
        connected.execute("CREATE SCHEMA dialects")
        connected.execute("SET search_path = dialects")
        connected.execute((STATEMENTS / "setup.sql").read_bytes())
        yield connected
        connected.execute("SET dialect = 'postgres'; DROP SCHEMA dialects CASCADE")


def differing(connection: psycopg.Connection[Any], wanted: list[tuple[str, Any]]) -> list[str]:
    """The statements that do not give what they should."""
    found = []
    for statement, answer in wanted:
        given: Any
        try:
            given = [plain(row) for row in connection.execute(statement.encode()).fetchall()]
        except psycopg.errors.FeatureNotSupported:
            given = "refused"
        except psycopg.Error as error:
            given = error.sqlstate if isinstance(answer, str) else str(error)
        right = given == answer if isinstance(given, str) or isinstance(answer, str) else same(given, answer)
        if not right:
            found.append(f"{statement} -> {given}, not {answer}")
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_all_dialects_share(connection: psycopg.Connection[Any], dialect: str) -> None:
    """Statements whose meaning every dialect has in common."""
    connection.execute(f"SET dialect = '{dialect}'")
    assert differing(connection, cases("common")) == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_what_is_a_dialects_own(connection: psycopg.Connection[Any], dialect: str, engine: str) -> None:
    """Statements of one dialect."""
    connection.execute(f"SET dialect = '{dialect}'")
    connection.execute(f"SET engine = '{engine}'")
    own = cases(OWN.get(dialect, dialect))
    assert len(own) >= 200
    try:
        # Spark takes its time: there every fifth statement.
        assert differing(connection, own[:: 5 if engine == "spark" else 1]) == []
    finally:
        connection.execute("RESET engine")


CHANGES = [
    "insert into w values (1, 'x'), (2, 'y')",
    "insert into w (a) values (3)",
    "insert into w select a + 10, b from w where a = 1",
    "update w set b = 'z' where a = 2",
    "delete from w where a = 3",
    "create view wv as select a, b from w where a > 1",
    "create table w2 as select a from wv",
    "merge into w using (select 2 as k, 'm' as v) s on w.a = s.k when matched then update set b = s.v "
    "when not matched then insert (a, b) values (s.k, s.v)",
]
COLUMNS = {
    "bigquery": ("INT64", "STRING"),
    "mysql": ("INT", "VARCHAR(20)"),
    "tsql": ("INT", "VARCHAR(20)"),
    "trino": ("INTEGER", "VARCHAR"),
    "snowflake": ("NUMBER(10,0)", "VARCHAR"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_changes_and_definitions(connection: psycopg.Connection[Any], dialect: str) -> None:
    """Tables and views are made, filled, changed and dropped in every dialect."""
    connection.execute(f"SET dialect = '{dialect}'")
    number, text = COLUMNS.get(dialect, ("INT", "STRING"))
    connection.execute(f"create table w (a {number} not null, b {text})".encode())
    for statement in CHANGES:
        connection.execute(statement.encode())
    assert connection.execute("select a, b from w order by a").fetchall() == [(1, "x"), (2, "m"), (11, "x")]
    assert connection.execute("select a from w2 order by a").fetchall() == [(2,), (11,)]
    connection.execute("begin")
    connection.execute("delete from w where a > 0")
    connection.execute("rollback")
    assert connection.execute("select count(*) from w").fetchone() == (3,)
    for statement in ("drop view wv", "drop table w2", "truncate table w", "drop table if exists w"):
        connection.execute(statement.encode())


def test_views_of_chosen_columns(connection: psycopg.Connection[Any]) -> None:
    """A view keeps the columns that a star with EXCEPT and REPLACE stood for when it was made."""
    connection.execute("SET dialect = 'bigquery'")
    connection.execute("create view chosen as select f.* except (n) replace (upper(g) as g), n + 1 as m from facts f")
    try:
        assert connection.execute("select * from chosen where m = 2").fetchall() == [("A", 2)]
        shown = connection.execute("select pg_catalog.pg_get_viewdef('chosen'::regclass)").fetchone()
        assert shown == (" SELECT upper(f.g) AS g,\n    (f.n + 1) AS m\n   FROM facts f;",)
    finally:
        connection.execute("drop view chosen")


TABLES = [
    ("mysql", "id int auto_increment primary key, v varchar(9)) engine=innodb default charset=utf8mb4", None),
    ("tsql", "id int identity(1,1) primary key, v varchar(9))", None),
    ("spark", "id int, v string) using parquet partitioned by (v)", "{partition_by=v}"),
    ("databricks", "id int, v string) using delta", None),
    ("hive", "id int, v string) stored as orc", None),
]


@pytest.mark.parametrize(("dialect", "columns", "options"), TABLES)
def test_how_dialects_say_that_tables_are_stored(
    connection: psycopg.Connection[Any], dialect: str, columns: str, options: str | None
) -> None:
    """Formats and engines say nothing here, partitions are the layout, numbers are given to rows."""
    connection.execute(f"SET dialect = '{dialect}'")
    connection.execute(f"create table stored ({columns}".encode())
    try:
        if "primary key" in columns:
            connection.execute("insert into stored (v) values ('a'), ('b')")
            assert connection.execute("select id, v from stored order by id").fetchall() == [(1, "a"), (2, "b")]
        if dialect == "mysql":
            connection.execute("insert ignore into stored values (2, 'x'), (3, 'y')")
            assert connection.execute("select v from stored order by id").fetchall() == [("a",), ("b",), ("y",)]
        found = connection.execute("select reloptions::text from pg_class where relname = 'stored'").fetchone()
        assert found == (options,)
    finally:
        connection.execute("drop table stored")


@pytest.mark.parametrize("extended", [False, True])
def test_errors_point_into_what_was_sent(connection: psycopg.Connection[Any], extended: bool) -> None:
    """Positions are those of the text that the client has sent, whichever protocol it speaks."""
    connection.execute("SET dialect = 'spark'")
    for statement, state, position in (
        ("select n, nope from facts", "42703", 11),
        ("select n\nfrom facts where n = 1 and absent = 2", "42703", 37),
        ("select n frm facts where", "42601", 14),
        ("select n, regexp_extract(g, 'a', 0) from facts", "0A000", 11),
        ("select nosuch(n) from facts", "0A000", 8),
        ("explain select n, nope from facts", "42703", 19),
        ("alter table facts add column x int", "0A000", 1),
        ("select n from facts; select gone from facts", "42703", 29),
    ):
        if extended and ";" in statement:
            continue
        with pytest.raises(psycopg.Error) as caught, connection.cursor() as cursor:
            cursor.execute(statement.encode(), prepare=extended)
        assert (caught.value.sqlstate, caught.value.diag.statement_position) == (state, str(position)), statement


def test_operands_that_have_no_translation_are_named(connection: psycopg.Connection[Any]) -> None:
    """What depends on types that are not known before names are looked up is refused as well."""
    connection.execute("SET dialect = 'mysql'")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="mysql operation cannot be translated for operands"):
        connection.execute("select d + 1 from amounts")


def test_setting(connection: psycopg.Connection[Any], server: TidegateServer) -> None:
    """The dialect is a setting like others; commands, catalogs and prepared statements keep to what they were."""
    connection.execute("SET dialect = 'spark'")
    assert connection.execute("show dialect").fetchone() == ("spark",)
    assert connection.execute("select count(*) from pg_catalog.pg_class where relname = 'facts'").fetchone() == (1,)
    assert connection.execute("explain (dialect) select n div 2 from facts").fetchall() == [
        ('SELECT tidegate.whole_quotient("n", 2) FROM "facts"',)
    ]
    connection.execute("SET dialect = 'postgres'")
    for option, shown in (
        (" 'spark'", 'SELECT tidegate.whole_quotient("n", 2) FROM "facts"'),
        (" hive", 'SELECT tidegate.whole_quotient("n", 2) FROM "facts"'),
        ("", "select n div 2 from facts"),
    ):
        assert connection.execute(f"explain (dialect{option}) select n div 2 from facts".encode()).fetchone() == (
            shown,
        )
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="klingon"):
        connection.execute("explain (dialect 'klingon') select 1")
    connection.execute("SET dialect = 'spark'")
    with psycopg.RawCursor(connection) as raw:
        prepared = raw.execute("select 7 / 2, cast($1 as int) + 1", (4,), prepare=True).fetchall()
    assert prepared == [(3.5, 5)]
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        connection.execute("SET dialect = 'klingon'")
    connection.execute("RESET dialect")
    assert connection.execute("select 7 / 2").fetchone() == (3,)
    with psycopg.connect(server.dsn() + " options='-c dialect=duckdb'") as other:
        assert other.execute("select 7 / 2, 7 // 2").fetchone() == (3.5, 3)
        other.execute("declare c cursor for select 7 / 2")
        assert other.execute("fetch 1 from c").fetchall() == [(3.5,)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_parameters(dialect: str) -> None:
    """Parameters of the protocol are written as PostgreSQL's in every dialect."""
    reading = read("select n from facts where n = $1 or n > $12", dialect)
    assert reading.text == 'SELECT "n" FROM "facts" WHERE ("n" = $1) OR ("n" > $12)'


@pytest.mark.parametrize("dialect", [each for each in DIALECTS if each not in ("hive", "tsql")])
def test_tpch_is_read(dialect: str) -> None:
    """The texts of TPC-H, which are written in what these dialects have in common."""
    for _, text in queries():
        assert read(text, dialect).dialect == dialect
