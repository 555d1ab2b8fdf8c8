"""Foreign tables over a real connection, on both engines: the same files, the same answers."""

from __future__ import annotations

import datetime
import gzip
import os
import re
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from tests.support.server import TidegateServer, run_server

Client = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files in folders of years and regions, and texts."""
    folder = tmp_path_factory.mktemp("foreign") / "lake"
    for year in (2023, 2024):
        for region in ("east", "west"):
            below = folder / f"sales/year={year}/region={region}"
            below.mkdir(parents=True)
            rows = {
                "id": pa.array([1, 2, 3], pa.int32()),
                "amount": pa.array([Decimal("1.50"), None, Decimal(year)], pa.decimal128(10, 2)),
                "note": ["a", "b", None],
            }
            pq.write_table(pa.table(rows), below / "x.parquet")
    (folder / "people.csv").write_text("id;zip;born\n1;01234;1815-12-10\n2;99999;\n")
    (folder / "headless.csv").write_text("7,x\n8,\n")
    with gzip.open(folder / "events.jsonl.gz", "wt") as file:
        file.write('{"kind": "a", "ms": 1, "more": {"x": 1}}\n{"kind": "b"}\n')
    return folder


@pytest.fixture(scope="module")
def server(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server with both engines."""
    arguments = ("--spark-master", "local[2]", "--allow-path", str(lake))
    with run_server(tmp_path_factory.mktemp("data") / "data", arguments=arguments) as running:
        with psycopg.connect(running.dsn(), autocommit=True) as admin:
            admin.execute(f"CREATE SERVER files FOREIGN DATA WRAPPER lake OPTIONS (path '{lake}')")
            admin.execute("CREATE FOREIGN TABLE sales () SERVER files OPTIONS (path 'sales', format 'parquet')")
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


def rows(client: Client, text: str, *params: object) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return client.execute(text, params).fetchall()


def refused(client: Client, text: str) -> tuple[str | None, str]:
    """How a statement fails: its SQLSTATE and message."""
    with pytest.raises(psycopg.Error) as failed:
        client.execute(text)
    return failed.value.sqlstate, failed.value.diag.message_primary or ""


def test_columns_are_inferred_and_folders_are_columns(client: Client) -> None:
    text = "SELECT region, year, sum(amount), count(note) FROM sales WHERE year = 2024 GROUP BY 1, 2 ORDER BY 1"
    assert rows(client, text) == [("east", 2024, Decimal("2025.50"), 2), ("west", 2024, Decimal("2025.50"), 2)]


def test_declared_types_are_those_of_the_rows(client: Client) -> None:
    client.execute(
        "CREATE DOMAIN short AS varchar(3);"
        "CREATE FOREIGN TABLE t (region char(6), amount numeric, id bigint, tag short OPTIONS (column_name 'note'),"
        " year smallint) SERVER files OPTIONS (path 'sales/*/region=e*/*.parquet')"
    )
    assert rows(client, "SELECT * FROM t WHERE year = 2023 ORDER BY id") == [
        ("east  ", Decimal("1.50"), 1, "a", 2023),
        ("east  ", None, 2, "b", 2023),
        ("east  ", Decimal("2023.00"), 3, None, 2023),
    ]
    assert rows(client, "SELECT DISTINCT pg_typeof(region), pg_typeof(tag), pg_typeof(year) FROM t") == [
        ("character", "short", "smallint")
    ]


def test_a_value_that_is_too_long_is_an_error(client: Client) -> None:
    client.execute("CREATE FOREIGN TABLE t (zip varchar(4)) SERVER files OPTIONS (path 'people.csv', delimiter ';')")
    with pytest.raises(psycopg.errors.StringDataRightTruncation):
        client.execute("SELECT zip FROM t")


def test_texts_are_read_in_the_declared_types(client: Client) -> None:
    client.execute(
        "CREATE FOREIGN TABLE people (zip text, born date, id numeric(5, 1)) SERVER files"
        " OPTIONS (path 'people.csv', delimiter ';');"
        "CREATE FOREIGN TABLE headless (n int, v text) SERVER files OPTIONS (path 'headless.csv', header 'false');"
        "CREATE FOREIGN TABLE events (ms smallint, kind text) SERVER files OPTIONS (path 'events.jsonl.gz')"
    )
    assert rows(client, "SELECT * FROM people ORDER BY id") == [
        ("01234", datetime.date(1815, 12, 10), Decimal("1.0")),
        ("99999", None, Decimal("2.0")),
    ]
    assert rows(client, "SELECT * FROM headless ORDER BY n") == [(7, "x"), (8, None)]
    assert rows(client, "SELECT * FROM events ORDER BY kind") == [(1, "a"), (None, "b")]
    client.execute("ALTER FOREIGN TABLE headless ADD COLUMN w text")
    client.execute("ALTER FOREIGN TABLE headless DROP COLUMN n, DROP COLUMN w")
    assert rows(client, "SELECT * FROM headless ORDER BY v") == [("x",), (None,)]


def test_they_join_and_are_joined(client: Client) -> None:
    client.execute("CREATE TABLE own (id int, w text); INSERT INTO own VALUES (1, 'one'), (2, 'two')")
    client.execute("CREATE VIEW v AS SELECT year, id, amount FROM sales WHERE region = 'east'")
    text = "SELECT w, sum(amount), count(*) FROM own JOIN v USING (id) WHERE year < 2024 GROUP BY w ORDER BY w"
    assert rows(client, text) == [("one", Decimal("1.50"), 1), ("two", None, 1)]
    client.execute("INSERT INTO own SELECT DISTINCT id + 10, note FROM sales WHERE note IS NOT NULL")
    assert rows(client, "SELECT * FROM own WHERE id > 10 ORDER BY id") == [(11, "a"), (12, "b")]
    client.execute("UPDATE own SET w = s.year::text FROM sales s WHERE s.id = own.id AND s.year = 2023 AND own.id = 1")
    assert rows(client, "SELECT w FROM own WHERE id = 1") == [("2023",)]
    client.execute("DELETE FROM own WHERE id IN (SELECT id FROM sales)")
    assert rows(client, "SELECT count(*) FROM own") == [(2,)]


def test_each_execution_sees_the_files_of_then(client: Client, lake: Path) -> None:
    (lake / "new").mkdir(exist_ok=True)
    for old in (lake / "new").iterdir():
        old.unlink()
    pq.write_table(pa.table({"id": [1]}), lake / "new/a.parquet")
    client.execute("CREATE FOREIGN TABLE t (id bigint) SERVER files OPTIONS (path 'new', format 'parquet')")
    client.execute("PREPARE p AS SELECT count(*) FROM t")
    assert rows(client, "EXECUTE p") == [(1,)]
    pq.write_table(pa.table({"id": [2, 3]}), lake / "new/b.parquet")
    assert rows(client, "EXECUTE p") == [(3,)]
    (lake / "new/a.parquet").unlink()
    assert rows(client, "EXECUTE p") == [(2,)]


def test_files_that_a_condition_excludes_are_not_opened(client: Client, lake: Path) -> None:
    for day, content in ((1, None), (2, b"PAR1 broken")):
        below = lake / f"days/day={day}"
        below.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [1]}), below / "x.parquet")
        if content is not None:
            whole = bytearray((below / "x.parquet").read_bytes())
            whole[4 : 4 + len(content)] = content
            (below / "x.parquet").write_bytes(whole)
    client.execute("CREATE FOREIGN TABLE t (id bigint, day int) SERVER files OPTIONS (path 'days', format 'parquet')")
    assert rows(client, "SELECT id FROM t WHERE day = 1") == [(1,)]
    with pytest.raises(psycopg.Error) as failed:
        client.execute("SELECT id FROM t")
    assert (failed.value.sqlstate, "day=2/x.parquet" in str(failed.value)) == ("22P04", True)


@pytest.mark.parametrize(
    ("columns", "path", "sqlstate", "said"),
    [
        ("id int, nope int", "sales/**/*.parquet", "42703", '"nope"'),
        ("ID int, \"NOTE\" text", "sales/**/*.parquet", "42703", '"NOTE"'),
        ("id boolean", "sales/**/*.parquet", "42804", "x.parquet"),
        ("id date", "sales/**/*.parquet", "42804", "x.parquet"),
        ("amount timestamp", "sales/**/*.parquet", "42804", "x.parquet"),
        ("region int", "sales/**/*.parquet", "42804", "region=east"),
        ("id int", "none.parquet", "58P01", "none.parquet"),
        ("zip int, born int", "people.csv", "42703", '"zip"'),
        ("id int", "text.parquet", "22P04", "text.parquet"),
        ("id int", "cut.parquet", "22P04", "cut.parquet"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_names_the_file(
    client: Client, lake: Path, columns: str, path: str, sqlstate: str, said: str
) -> None:
    (lake / "text.parquet").write_text("no parquet")
    whole = (lake / "sales/year=2023/region=east/x.parquet").read_bytes()
    (lake / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    client.execute(f"CREATE FOREIGN TABLE t ({columns}) SERVER files OPTIONS (path '{path}')")
    with pytest.raises(psycopg.Error) as failed:
        client.execute("SELECT * FROM t")
    assert (failed.value.sqlstate, said in str(failed.value)) == (sqlstate, True), failed.value


def test_folders_of_numbers_with_zeros_are_numbers(client: Client, lake: Path) -> None:
    for month in ("07", "11"):
        (lake / f"months/month={month}").mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [int(month)]}), lake / f"months/month={month}/x.parquet")
    client.execute("CREATE FOREIGN TABLE t (id int8, month int) SERVER files OPTIONS (path 'months', format 'parquet')")
    assert rows(client, "SELECT id, month FROM t WHERE month < 9") == [(7, 7)]
    assert rows(client, "SELECT id, month FROM t ORDER BY 1") == [(7, 7), (11, 11)]


def test_what_becomes_of_files_is_stored(client: Client, lake: Path, tmp_path: Path) -> None:
    client.execute("CREATE TABLE t (id bigint, note text, notes text[])")
    client.execute("INSERT INTO t SELECT s.id, s.note, ARRAY[s.note] FROM sales s WHERE year = 2024")
    client.execute(
        "UPDATE t SET note = 'of ' || s.region FROM sales s WHERE s.id = t.id AND s.id = 3 AND s.year = 2023"
    )
    assert rows(client, "SELECT id, left(note, 3), notes, count(*) FROM t GROUP BY 1, 2, 3 ORDER BY 1") == [
        (1, "a", ["a"], 2), (2, "b", ["b"], 2), (3, "of ", [None], 2),
    ]  # fmt: skip
    client.execute("CREATE TABLE made AS SELECT id, note FROM sales WHERE year = 2024")
    client.execute(f"CREATE TABLE loaded () WITH (load_from = '{lake}/sales/*/*/*.parquet')".encode())
    for table, of in (("made", "sales WHERE year = 2024"), ("loaded", "sales")):
        assert rows(client, f"SELECT id, note FROM {table} ORDER BY 1, 2") == rows(
            client, f"SELECT id, note FROM {of} ORDER BY 1, 2"
        )
    bad = lake / "bad"
    bad.mkdir(exist_ok=True)
    for number, columns in enumerate(({"note": ["b\0"], "notes": [["a"]]}, {"note": ["b"], "notes": [["a\0"]]})):
        pq.write_table(pa.table({"id": [1], **columns}), bad / f"{number}.parquet")
        with pytest.raises(psycopg.errors.CharacterNotInRepertoire):
            client.execute(f"INSERT INTO t SELECT * FROM read_parquet('{bad}/{number}.parquet')".encode())
    assert rows(client, "SELECT count(*) FROM t") == [(6,)]


def test_files_have_no_past(client: Client) -> None:
    client.execute("CREATE TABLE own (id int)")
    ((csn,),) = rows(client, "SELECT tidegate.current_csn()")
    client.execute(f"SET tidegate.as_of = '{csn}'")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        client.execute("SELECT count(*) FROM sales")


def test_a_dump_makes_them_again(server: TidegateServer, lake: Path) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute("DROP DATABASE IF EXISTS one")
        admin.execute("CREATE DATABASE one")
    with psycopg.connect(server.dsn("one"), autocommit=True) as made:
        made.execute(
            f"CREATE SERVER files TYPE 'a' VERSION 'b' FOREIGN DATA WRAPPER lake OPTIONS (path '{lake}');"
            "CREATE USER MAPPING FOR PUBLIC SERVER files OPTIONS (access_key_id 'k');"
            "CREATE FOREIGN TABLE t (a int OPTIONS (column_name 'id') NOT NULL, year int) SERVER files"
            " OPTIONS (path 'sales', format 'parquet');"
            "COMMENT ON SERVER files IS 'here'; COMMENT ON FOREIGN TABLE t IS 'there';"
            "CREATE ROLE dump_reader; GRANT USAGE ON FOREIGN SERVER files TO dump_reader;"
            "GRANT SELECT ON t TO dump_reader; GRANT USAGE ON FOREIGN DATA WRAPPER lake TO dump_reader"
        )
        before = rows(made, "SELECT a, year FROM t ORDER BY 1, 2")
        dumped = _dump(server, "one")
        assert len(before) == 12
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute("DROP DATABASE one")
        admin.execute("CREATE DATABASE one")
    subprocess.run(
        ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", server.dsn("one")],
        input=dumped,
        check=True,
        text=True,
        timeout=60,
    )
    with psycopg.connect(server.dsn("one"), autocommit=True) as again:
        assert rows(again, "SELECT a, year FROM t ORDER BY 1, 2") == before
        assert rows(again, "SELECT has_foreign_data_wrapper_privilege('dump_reader', 'lake', 'usage')") == [(True,)]
    assert _dump(server, "one") == dumped


def _dump(server: TidegateServer, database: str) -> str:
    text = subprocess.run(
        ["/usr/lib/postgresql/15/bin/pg_dump", server.dsn(database)],
        check=True, capture_output=True, text=True, timeout=60, env=dict(os.environ),
    ).stdout  # fmt: skip
    assert "CREATE FOREIGN TABLE" in text
    return re.sub(r"(?m)^\\(un)?restrict .*$", "", text)


def test_insert_writes_new_files_whole_or_not_at_all(client: Client, lake: Path) -> None:
    engine = rows(client, "SHOW engine")[0][0]
    folder = lake / f"made_{engine}"
    client.execute(
        "CREATE FOREIGN TABLE t (id bigint NOT NULL, v text OPTIONS (column_name 'val'), n numeric, u uuid, k int)"
        f" SERVER files OPTIONS (path 'made_{engine}', format 'parquet')"
    )
    assert client.execute("INSERT INTO t (id, v) SELECT g, 'x' || g FROM generate_series(1, 3) g").rowcount == 3
    values = "(7, 'q', 1.50, '00000000-0000-0000-0000-00000000000A', 2)"
    assert client.execute(f"INSERT INTO t VALUES {values}").statusmessage == "INSERT 0 1"
    assert client.execute("INSERT INTO t SELECT * FROM t WHERE id = %s", (7,), prepare=True).rowcount == 1
    assert rows(client, "SELECT id, v, n::text, u::text, k FROM t ORDER BY id, v LIMIT 4") == [
        (1, "x1", None, None, None), (2, "x2", None, None, None), (3, "x3", None, None, None),
        (7, "q", "1.50", "00000000-0000-0000-0000-00000000000a", 2),
    ]  # fmt: skip
    before = sorted(folder.rglob("*"))
    assert len(before) == 3
    for failing, sqlstate in (
        ("INSERT INTO t SELECT CASE WHEN g < 20000 THEN g END FROM generate_series(1, 20000) g", "23502"),
        ("INSERT INTO t SELECT 1 / (20000 - g) FROM generate_series(1, 20000) g", "22012"),
        ("INSERT INTO t SELECT g FROM generate_series(1, 9) g; SELECT 1", "25001"),
    ):
        with pytest.raises(psycopg.Error) as failed:
            client.execute(failing)
        assert failed.value.sqlstate == sqlstate
    with pytest.raises(psycopg.Error) as failed, client.transaction():
        client.execute("INSERT INTO t VALUES (1)")
    assert failed.value.sqlstate == "25001"
    assert client.execute("INSERT INTO t SELECT 1 WHERE false").rowcount == 0
    assert sorted(folder.rglob("*")) == before
    client.execute("GRANT USAGE ON SCHEMA mine TO pg_monitor; GRANT SELECT ON t TO pg_monitor; SET ROLE pg_monitor")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        client.execute("INSERT INTO t VALUES (1)")


def test_insert_goes_into_folders_as_those_that_are_there(client: Client, lake: Path) -> None:
    engine = rows(client, "SHOW engine")[0][0]
    below = lake / f"parts_{engine}/k=1/m=a b"
    below.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), below / "x.parquet")
    client.execute(
        "CREATE FOREIGN TABLE t (m text, id bigint, k int) SERVER files"
        f" OPTIONS (path 'parts_{engine}', format 'parquet')"
    )
    client.execute("INSERT INTO t SELECT 'c/' || g % 2, g, g % 2 FROM generate_series(2, 5) g")
    client.execute("INSERT INTO t VALUES (NULL, 6, 1)")
    assert rows(client, "SELECT * FROM t ORDER BY id") == [
        ("a b", 1, 1), ("c/0", 2, 0), ("c/1", 3, 1), ("c/0", 4, 0), ("c/1", 5, 1), (None, 6, 1),
    ]  # fmt: skip
    assert rows(client, "SELECT id FROM t WHERE k = 1 AND m = 'c/1' ORDER BY id") == [(3,), (5,)]


# ---------------------------------------------------------------- files that become files of a table


def write_part(path: Path, first: int, rows: int = 1000, *, odd: bool = False, **more: Any) -> None:
    """A file with a column whose name has to be quoted, and several row groups. `odd`: columns are held in other ways
    than tables hold them."""
    numbers = range(first, first + rows)
    hours = [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=number) for number in numbers]  # noqa: DTZ001
    names = pa.array([f"n{number}" for number in numbers])
    table = pa.table(
        {
            "Name x": names.dictionary_encode() if odd else names,
            "id": pa.array(numbers, pa.int64()),
            "at": pa.array(hours, pa.timestamp("ms" if odd else "us")),
            "amount": pa.array([Decimal(number) / 4 for number in numbers], pa.decimal128(10, 2)),
            **more,
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=300)


ADDED = 'id bigint PRIMARY KEY, at timestamp NOT NULL, amount numeric(10,2) CHECK (amount >= 0), "Name x" text'
TOTALS = 'SELECT count(*), sum(id), sum(amount), min("Name x"), max(at) FROM t'


def test_files_become_files_of_a_table(client: Client, lake: Path, tmp_path: Path) -> None:
    folder = lake / f"added-{tmp_path.name}"
    write_part(folder / "y=1/a.parquet", 0)
    write_part(folder / "y=2/a.parquet", 1000, odd=True)
    client.execute(f"CREATE TABLE t ({ADDED})")
    client.execute("INSERT INTO t VALUES (-1, '2020-01-01', 1.5, 'first')")
    client.execute(f"CALL tidegate.add_files('t', '{folder}/**/*.parquet')")
    numbers = {-1: Decimal("1.50"), **{number: Decimal(number) / 4 for number in range(2000)}}
    last = datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=1999)  # noqa: DTZ001
    assert rows(client, TOTALS) == [(2001, sum(numbers), sum(numbers.values()), "first", last)]
    assert rows(client, 'SELECT id, "Name x" FROM t WHERE id IN (3, 1500) ORDER BY id') == [(3, "n3"), (1500, "n1500")]
    before = rows(client, "SELECT tidegate.current_csn()")[0][0]
    client.execute("DELETE FROM t WHERE id BETWEEN 100 AND 149 OR id = 1200")
    client.execute("UPDATE t SET \"Name x\" = 'changed' WHERE id IN (7, 1007)")
    for gone in (*range(100, 150), 1200):
        del numbers[gone]
    assert rows(client, TOTALS)[0][:3] == (1950, sum(numbers), sum(numbers.values()))
    assert rows(client, f"SELECT count(*) FROM tidegate.as_of('t', {before}) t") == [(2001,)]
    assert rows(client, "SELECT id FROM t WHERE \"Name x\" = 'changed' ORDER BY id") == [(7,), (1007,)]
    assert refused(client, "INSERT INTO t VALUES (1001, '2020-01-01', 1, 'again')")[0] == "23505"
    assert refused(client, f"CALL tidegate.add_files('t', '{folder}/y=1')")[0] == "42710"
    client.execute("CALL tidegate.clone_table('t', 'copied')")
    client.execute('ALTER TABLE t RENAME COLUMN "Name x" TO named')
    client.execute("ALTER TABLE t ADD COLUMN more int DEFAULT 9, SET (iceberg = 'on')")
    assert rows(client, "SELECT named, more FROM t WHERE id = 1500") == [("n1500", 9)]
    client.execute("ALTER TABLE t DROP COLUMN more")
    client.execute("CALL tidegate.publish('t')")
    ((location,),) = rows(
        client, "SELECT metadata_location FROM tidegate.iceberg_tables WHERE table_namespace = 'mine'"
    )
    table = StaticTable.from_metadata(location)
    assert {str(lake) in task.file.file_path for task in table.scan().plan_files()} == {True, False}
    others = table.scan().to_arrow()
    assert sorted(others["id"].to_pylist()) == sorted(numbers)
    assert sum(others["amount"].to_pylist()) == sum(numbers.values())
    client.execute("DROP TABLE t")
    assert rows(client, 'SELECT count(*), sum(id), max("Name x") FROM copied') == [(1950, sum(numbers), "n999")]
    assert (folder / "y=1/a.parquet").exists()


@pytest.mark.parametrize("fault", ["vanished", "changed"])
def test_a_file_that_is_not_what_it_was_is_named(client: Client, lake: Path, tmp_path: Path, fault: str) -> None:
    path = lake / f"lost-{tmp_path.name}.parquet"
    write_part(path, 0)
    client.execute(f"CREATE TABLE t ({ADDED})")
    client.execute(f"CALL tidegate.add_files('t', '{path}', checksum => false)")
    path.unlink()
    if fault == "changed":
        write_part(path, 5)
    for text in ("SELECT sum(id) FROM t", "SELECT at FROM t WHERE id = 5"):
        assert refused(client, text) == ("58030", f'file "{path}", which was added to a table, has {fault}')
    client.execute("DROP TABLE t")


def test_a_damaged_file_of_a_table_is_named(client: Client, lake: Path, tmp_path: Path) -> None:
    path = lake / f"damaged-{tmp_path.name}.parquet"
    pq.write_table(pa.table({"n": range(1000)}), path)
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\xff" * 30 + data[34:])
    client.execute("CREATE TABLE t (n bigint)")
    client.execute(f"CALL tidegate.add_files('t', '{path}')")
    state, message = refused(client, "SELECT sum(n) FROM t")
    assert (state, str(path) in message) == ("XX001", True)
    client.execute("DROP TABLE t")


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_parquet_of_each_codec_is_read(client: Client, lake: Path, tmp_path: Path, codec: str) -> None:
    path = lake / f"packed-{tmp_path.name}.parquet"
    pq.write_table(pa.table({"n": range(1000)}), path, compression=codec)
    client.execute(f"CREATE FOREIGN TABLE packed (n bigint) SERVER files OPTIONS (path '{path.name}')")
    assert rows(client, "SELECT sum(n) FROM packed") == rows(client, f"SELECT sum(n) FROM read_parquet('{path}')")
    assert rows(client, "SELECT count(*), sum(n) FROM packed") == [(1000, 499500)]
    client.execute("CREATE TABLE t (n bigint)")
    if codec == "brotli":
        assert refused(client, f"CALL tidegate.add_files('t', '{path}')")[0] == "0A000"
    else:
        client.execute(f"CALL tidegate.add_files('t', '{path}')")
        assert rows(client, "SELECT sum(n) FROM t") == [(499500,)]
    client.execute("DROP TABLE t")


def test_files_have_to_fit_the_table(client: Client, lake: Path, tmp_path: Path) -> None:
    folder = lake / f"unfit-{tmp_path.name}"
    write_part(folder / "good.parquet", 0, 10)
    write_part(folder / "more.parquet", 10, 10, extra=pa.array(range(10)))
    write_part(folder / "type.parquet", 10, 10, amount=pa.array(range(10)))
    write_part(folder / "check.parquet", 10, 10, amount=pa.array([Decimal(-1)] * 10, pa.decimal128(10, 2)))
    write_part(folder / "null.parquet", 10, 10, at=pa.nulls(10, pa.timestamp("us")))
    write_part(folder / "twice.parquet", 5, 10)
    pq.write_table(pa.table({"id": [1]}), folder / "less.parquet")
    (folder / "text.parquet").write_text("no such thing")
    client.execute(f"CREATE TABLE t ({ADDED})")
    client.execute(f"CALL tidegate.add_files('t', ARRAY['{folder}/good.parquet'])")
    wrong = {
        "more": "22P04",
        "type": "42804",
        "check": "23514",
        "null": "23502",
        "twice": "23505",
        "less": "42703",
        "text": "22P04",
        "none": "58P01",
    }
    found = {name: refused(client, f"CALL tidegate.add_files('t', '{folder}/{name}.parquet')")[0] for name in wrong}
    assert found == wrong
    client.execute("CREATE TABLE j (id int, v jsonb)")
    assert refused(client, f"CALL tidegate.add_files('j', '{folder}/good.parquet')")[0] == "0A000"
    assert rows(client, "SELECT count(*) FROM t") == [(10,)]
    client.execute("CREATE ROLE nobody_much")
    try:
        client.execute("GRANT ALL ON SCHEMA mine TO nobody_much; ALTER TABLE t OWNER TO nobody_much")
        client.execute("SET ROLE nobody_much")
        assert refused(client, f"CALL tidegate.add_files('t', '{folder}/good.parquet')")[0] == "42501"
    finally:
        client.execute("RESET ROLE; DROP OWNED BY nobody_much; DROP ROLE nobody_much")


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_json_is_read_in_the_declared_types(client: Client, lake: Path, packed: str) -> None:
    lines = (
        '{"i": 1, "f": 1.50, "d": "2026-01-01", "t": "08:30:00", "o": {"k": [1, 2.50]}, "b": true, "s": "s\\"é"}\n'
        '\n{"i": 20, "f": 2, "d": null, "o": null, "b": false, "z": 1}'
    )
    folder = lake / f"typed{packed}" / "day=2026-02-03"
    folder.mkdir(parents=True, exist_ok=True)
    text = lines.encode()
    (folder / f"a.jsonl{packed}").write_bytes(gzip.compress(text) if packed else text)
    client.execute(
        "CREATE FOREIGN TABLE typed (i text, f numeric, d date, t time, o jsonb, b varchar(5), s text, day date)"
        f" SERVER files OPTIONS (path 'typed{packed}', format 'json')"
    )
    day = datetime.date(2026, 2, 3)
    assert rows(client, "SELECT i, f::text, d, t, o, b, s, day FROM typed ORDER BY i") == [
        ("1", "1.50", datetime.date(2026, 1, 1), datetime.time(8, 30), {"k": [1, 2.5]}, "true", 's"é', day),
        ("20", "2", None, None, None, "false", None, day),
    ]
    assert rows(client, "SELECT count(*) FROM typed WHERE day > '2026-03-01'") == [(0,)]
    assert rows(client, "SELECT i FROM typed WHERE d = '2026-01-01' AND o ->> 'k' = '[1, 2.50]'") == [("1",)]


def test_json_that_is_not_of_the_declared_types_is_named(client: Client, lake: Path) -> None:
    (lake / "wrong.jsonl").write_text('{"d": "2026-01-01", "t": 1}\n{"d": "01/02/2026", "t": 2}\n')
    (lake / "cut.jsonl").write_text('{"d": "2026-01-01", "t": 1}\n{"d": "2026-01')
    for name, columns in (("wrong", "d date"), ("cut", "d date"), ("cut", "t text")):
        client.execute("DROP FOREIGN TABLE IF EXISTS wrong")
        state, message = refused_table(client, f"({columns}) SERVER files OPTIONS (path '{name}.jsonl')")
        assert (state, f'"{lake}/{name}.jsonl"' in message) == ("22P04", True), message


def refused_table(client: Client, definition: str) -> tuple[str | None, str]:
    """How making a foreign table of this definition, or reading it, fails."""
    try:
        client.execute(f"CREATE FOREIGN TABLE wrong {definition}")
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary or ""
    return refused(client, "SELECT * FROM wrong")


def test_times_in_json_have_a_zone_where_all_of_them_do(client: Client, lake: Path) -> None:
    first = (
        '{"a": "2026-01-01T00:00:00+05:30", "b": "2026-01-01 10:00:00.25", "c": "2026-01-01 10:00", "d": "x 10:00Z"}'
    )
    (lake / "times.jsonl").write_text(first + '\n{"a": "2026-06-01T00:00:00Z", "c": null}' * 60_000)
    client.execute("SET TimeZone = 'America/New_York'")
    text = f"SELECT a::text, b::text, c::text, d FROM read_json('{lake}/times.jsonl') WHERE d IS NOT NULL"
    assert rows(client, text) == [
        ("2025-12-31 13:30:00-05", "2026-01-01 10:00:00.25", "2026-01-01 10:00:00", "x 10:00Z")
    ]
    assert rows(client, f"SELECT max(a)::text, count(*) FROM read_json('{lake}/times.jsonl')") == [
        ("2026-05-31 20:00:00-04", 60_001)
    ]


def test_a_column_that_cannot_be_read_is_named_with_its_file(client: Client, lake: Path) -> None:
    (lake / "nested").mkdir(exist_ok=True)
    durations = pa.array([1], pa.duration("us"))
    pq.write_table(pa.table({"id": [1], "o": durations}), lake / "nested/deep.parquet")
    words = f'column "o" of file "{lake}/nested/deep.parquet" has type duration[us], which is not supported'
    for text in (
        "CREATE FOREIGN TABLE deep () SERVER files OPTIONS (path 'nested/deep.parquet')",
        "IMPORT FOREIGN SCHEMA nested FROM SERVER files INTO mine",
        f"SELECT id FROM read_parquet('{lake}/nested')",
    ):
        assert refused(client, text) == ("0A000", words)
    with pytest.raises(psycopg.errors.FeatureNotSupported) as told:
        client.execute("IMPORT FOREIGN SCHEMA nested FROM SERVER files INTO mine")
    assert told.value.diag.context == 'importing foreign table "deep"'
    client.execute("CREATE FOREIGN TABLE deep (id bigint) SERVER files OPTIONS (path 'nested/deep.parquet')")
    assert rows(client, "SELECT * FROM deep") == [(1,)]


def test_folders_of_odd_values_are_read_alike(client: Client, lake: Path) -> None:
    values = {"%C3%BC": "ü", "ö": "ö", "a b": "a b", "x%2Fy": "x/y", "100%25": "100%", "": ""}
    for number, folder in enumerate(values):
        below = lake / f"odd/p={folder}"
        below.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [number]}), below / "x.parquet")
    found = rows(client, f"SELECT id, p FROM read_parquet('{lake}/odd') ORDER BY id")
    assert found == list(enumerate(values.values()))


@pytest.mark.parametrize(
    ("type", "values", "condition"),
    [
        ("bool", "true, false, NULL", "not k"),
        ("numeric(8,2)", "1.50, -2, NULL", "k > 1.4"),
        ("float8", "1.5e10, 'Infinity', '-0.25'", "k < 0"),
        ("timestamp", "'2026-01-01 12:30', '2026-01-02 00:00:00.25', NULL", "k < '2026-01-02'"),
        ("timestamptz", "'2026-01-01 12:30+02', '2026-01-02 00:00:00.25Z', NULL", "k >= '2026-01-02 00:00Z'"),
        ("bigint", "9000000000, -1, NULL", "k = -1"),
        ("date", "'2026-01-01', NULL", "k is null"),
        ("varchar(5)", "'a/b', 'ä', ''", "k like 'a%'"),
    ],
)
def test_folders_that_copy_writes_are_of_the_columns_types(
    client: Client, lake: Path, type: str, values: str, condition: str
) -> None:
    name = f"typed-{type.partition('(')[0]}-{rows(client, 'SHOW engine')[0][0]}"
    client.execute(f"CREATE TABLE own (k {type}, v int)")
    client.execute(f"INSERT INTO own SELECT k, n FROM unnest(ARRAY[{values}]::{type}[]) WITH ORDINALITY x(k, n)")
    client.execute(f"COPY own TO '{lake}/{name}' (FORMAT parquet, PARTITION_BY (k))")
    client.execute(f"CREATE FOREIGN TABLE far (k {type}, v int) SERVER files OPTIONS (path '{name}', format 'parquet')")
    for where in ("true", condition):
        text = "SELECT k, v, pg_typeof(k)::text FROM {} WHERE " + where + " ORDER BY v"
        assert client.execute(text.format("far")).fetchall() == client.execute(text.format("own")).fetchall()


def test_the_lineage_of_views_goes_to_them(client: Client) -> None:
    client.execute(
        "CREATE FOREIGN TABLE people (id int, name text OPTIONS (column_name 'zip')) SERVER files"
        " OPTIONS (path 'people.csv', delimiter ';')"
    )
    client.execute("CREATE VIEW v AS SELECT id + 1 AS next, upper(name) || id AS shown, 1 AS one FROM people p")
    found = rows(client, "SELECT column_name, source_name, source_column FROM tidegate.lineage('v') ORDER BY 1, 3")
    assert found == [("next", "people", "id"), ("shown", "people", "id"), ("shown", "people", "name")]
