"""Files of others that executors write: the same as those that the server writes, whole or not at all."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.support.server import TidegateServer, run_server

Client = psycopg.Connection[tuple[Any, ...]]

BY_EXECUTORS = "files.written_by_executors"
PARTITIONS = (None, "a b", "x/y", "100%", "k=v", "é→", "", "a:b,c+d-e")
ODD = f"(ARRAY[{', '.join('NULL' if value is None else repr(value) for value in PARTITIONS)}])[1 + g % 8]"
TABLE = f"""
CREATE TABLE many AS SELECT g AS id, 'text ' || g AS v, g % 2 = 0 AS k, {ODD} AS p, (g / 7.0)::numeric(12, 3) AS n,
    g * 1.5::numeric AS free, timestamptz '2024-01-01 00:00Z' + g * interval '1 s' AS at, ARRAY[g, NULL] AS tags,
    interval '1 day' * g AS span, CASE WHEN g = 150000 THEN NULL ELSE date '2020-02-29' + g END AS day
FROM generate_series(1, 200000) g
"""
"""More than passes the server."""

TYPES = """
CREATE TABLE types AS SELECT g AS id,
    (ARRAY[NULL, '', 'a,b', 'say "x"', E'two\\nlines', E'c\\rr', '\\.', E'tab\\tback\\\\slash', ' é→ ',
        'NULL'])[1 + g % 10] AS v,
    g % 3 = 0 AS k, (-1) ^ g * g / 7.0 AS f, (g / 3.0)::real AS r, (g / 7.0)::numeric(12, 3) AS n,
    g * 1.50::numeric AS free, (ARRAY['NaN', '-Infinity', '1e300', '-0', '1e-5'])[1 + g % 5]::float8 AS odd,
    g::smallint AS small, g * 10::bigint AS big,
    CASE WHEN g % 9 = 0 THEN NULL WHEN g % 9 = 1 THEN 'infinity' ELSE date '0044-03-15 BC' + g * 400 END AS day,
    timestamp '2024-02-29 23:59:59.5' + g * interval '1.000001 s' AS at,
    timestamptz '1900-06-01 00:00Z' + g * interval '31 days' AS moment, time '12:30' + g * interval '1.5 s' AS clock,
    g * interval '1 mon 2 days -03:04:05.6' AS span, decode(md5(g::text), 'hex') AS raw, ARRAY[g, NULL] AS tags,
    ARRAY['a,b', '"q"', NULL, '', 'x y', 'null'] AS texts, ARRAY[[g, 2], [3, 4]] AS square, md5(g::text)::uuid AS u,
    jsonb_build_object('b', g, 'aa', '"x"') AS j, int4range(g, g + 5) AS range, ('x' || g)::char(6) AS c,
    ('10.0.0.' || g % 250)::inet AS host, g::oid AS o, (g::numeric / 100)::money AS price
FROM generate_series(1, 2000) g
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the server may use."""
    folder = tmp_path_factory.mktemp("lake")
    write_small(folder)
    return folder


def write_small(folder: Path) -> None:
    """A file, of which nobody knows how many rows a query gives."""
    ids = range(1, 2001)
    table = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "v": [f"text {id}" for id in ids],
            "k": [id % 2 for id in ids],
            "p": [PARTITIONS[id % 8] for id in ids],
            "day": pa.array([id if id % 3 else None for id in ids], pa.int32()).cast(pa.date32()),
        }
    )
    pq.write_table(table, folder / "small.parquet")


@pytest.fixture(scope="module")
def server(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server with both engines, and a table."""
    arguments = ("--spark-master", "local[2]", "--allow-path", str(lake))
    with run_server(tmp_path_factory.mktemp("data") / "data", arguments=arguments) as running:
        with psycopg.connect(running.dsn(), autocommit=True) as admin:
            admin.execute(f"CREATE SERVER files FOREIGN DATA WRAPPER lake OPTIONS (path '{lake}')")
            admin.execute("SET engine = 'local'")
            admin.execute(TABLE)
            admin.execute(TYPES)
            admin.execute("CREATE TABLE few AS SELECT g AS n, 'x' || g AS v FROM generate_series(1, 3000) g")
        yield running


@pytest.fixture
def client(server: TidegateServer) -> Iterator[Client]:
    """A session on Spark."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("SET engine = 'spark'")
        yield connection


def tree(folder: Path) -> set[str]:
    """All that is in a folder, also what is hidden."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def held(path: Path) -> pa.Table:
    """The rows of files, in the order of their ids, with the columns of folders as texts."""
    if path.is_file():
        return pq.read_table(path).sort_by("id")
    files = sorted(str(file) for file in path.rglob("*.parquet"))
    tables = []
    for file in files:
        table = pq.read_table(file, partitioning=None)
        for folder in Path(file).relative_to(path).parts[:-1]:
            name, _, value = folder.partition("=")
            table = table.append_column(name, pa.array([value] * table.num_rows))
        tables.append(table)
    return pa.concat_tables(tables).sort_by("id")


@pytest.mark.parametrize(
    ("number", "options"),
    [
        (1, ""),
        (2, "(FORMAT parquet, FILE_SIZE '300kB', COMPRESSION snappy)"),
        (3, "(FORMAT parquet, PARTITION_BY (k, p))"),
    ],
)
def test_the_files_are_those_of_the_server(
    client: Client, server: TidegateServer, lake: Path, number: int, options: str
) -> None:
    before = server.output().count(BY_EXECUTORS)
    ours, theirs = lake / f"spark-{number}.parquet", lake / f"local-{number}.parquet"
    assert client.execute(f"COPY many TO '{ours}' {options}").statusmessage == "COPY 200000"
    assert server.output().count(BY_EXECUTORS) == before + 1
    client.execute("SET engine = 'local'")
    assert client.execute(f"COPY many TO '{theirs}' {options}").statusmessage == "COPY 200000"
    assert server.output().count(BY_EXECUTORS) == before + 1
    assert held(ours) == held(theirs)
    assert {path for path in tree(ours) if "/part" not in path and "=" in path} == {
        path for path in tree(theirs) if "/part" not in path and "=" in path
    }
    assert [path for path in tree(lake) if "/." in f"/{path}"] == []
    if "FILE_SIZE" in options:
        assert max(path.stat().st_size for path in ours.iterdir()) < 900_000
    if "PARTITION_BY" in options:
        assert len([path for path in tree(ours) if path.endswith(".parquet")]) == 8


def test_lines_of_json_are_written_too(client: Client, server: TidegateServer, lake: Path) -> None:
    before = server.output().count(BY_EXECUTORS)
    options = "(FORMAT json, PARTITION_BY (k), COMPRESSION gzip)"
    for engine in ("spark", "local"):
        client.execute(f"SET engine = '{engine}'")
        client.execute(f"COPY (SELECT * FROM read_parquet('{lake}/small.parquet')) TO '{lake}/json-{engine}' {options}")
    assert server.output().count(BY_EXECUTORS) == before + 1
    found = [
        client.execute(
            f"SELECT k, count(*), sum(id), max(v) FROM read_json('{lake}/json-{engine}') GROUP BY k"
        ).fetchall()
        for engine in ("spark", "local")
    ]
    assert len(found[0]) == 2
    assert sorted(found[0]) == sorted(found[1])


@pytest.mark.parametrize(
    "options",
    [
        "FORMAT csv",
        "FORMAT csv, HEADER, DELIMITER ';', NULL 'NULL', FORCE_QUOTE (id, v, texts)",
        "FORMAT csv, QUOTE '''', ESCAPE E'\\\\', FORCE_QUOTE *",
        "FORMAT text",
        "FORMAT text, DELIMITER '|', NULL '', HEADER",
    ],
)
def test_texts_are_those_of_copy_to_the_client(
    client: Client, server: TidegateServer, lake: Path, tmp_path: Path, options: str
) -> None:
    client.execute("SET TimeZone = 'Europe/Berlin'; SET IntervalStyle = 'postgres'; SET extra_float_digits = 0")
    for number, style in enumerate(("ISO, MDY", "German, DMY")):
        client.execute(f"SET DateStyle = '{style}'")
        query = f"SELECT t.* FROM types t JOIN read_parquet('{lake}/small.parquet') s ON s.id = t.id"
        before = server.output().count(BY_EXECUTORS)
        client.execute("SET engine = 'spark'")
        path = lake / f"{tmp_path.name}-{number}"
        tag = client.execute(f"COPY ({query}) TO '{path}' ({options}, FILE_SIZE '200kB')".encode()).statusmessage
        assert tag == "COPY 2000"
        assert server.output().count(BY_EXECUTORS) == before + 1
        client.execute("SET engine = 'local'")
        with client.cursor().copy(f"COPY ({query}) TO STDOUT ({options})".encode()) as copy:
            wanted = b"".join(bytes(data) for data in copy)
        head = wanted[: wanted.index(b"\n") + 1] if "HEADER" in options else b""
        written = [file.read_bytes() for file in path.iterdir()]
        assert all(data.startswith(head) for data in written)
        found = b"\n".join(data[len(head) :] for data in written)
        assert sorted(filter(None, found.split(b"\n"))) == sorted(filter(None, wanted[len(head) :].split(b"\n")))


def test_text_files_of_executors_are_packed_divided_and_in_other_encodings(
    client: Client, server: TidegateServer, lake: Path
) -> None:
    before = server.output().count(BY_EXECUTORS)
    options = "(FORMAT csv, HEADER, PARTITION_BY (k), COMPRESSION gzip, ENCODING 'latin1')"
    query = f"SELECT id, k, 'é' || v AS v FROM read_parquet('{lake}/small.parquet')"
    assert client.execute(f"COPY ({query}) TO '{lake}/packed' {options}".encode()).statusmessage == "COPY 2000"
    assert server.output().count(BY_EXECUTORS) == before + 1
    for k in (0, 1):
        lines = [
            line
            for file in (lake / f"packed/k={k}").glob("*.csv.gz")
            for line in gzip.decompress(file.read_bytes()).decode("latin1").splitlines()
        ]
        assert sorted(set(lines)) == sorted(["id,v", *(f"{id},étext {id}" for id in range(1, 2001) if id % 2 == k)])


def test_what_tasks_do_not_know_the_server_writes(client: Client, server: TidegateServer, lake: Path) -> None:
    client.execute("DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('ok', 'so,so')")
    before = server.output().count(BY_EXECUTORS)
    query = f"SELECT id, CASE WHEN k = 1 THEN 'so,so' END::mood FROM read_parquet('{lake}/small.parquet')"
    client.execute(f"COPY ({query}) TO '{lake}/moods.csv' (FORMAT csv)".encode())
    assert server.output().count(BY_EXECUTORS) == before
    assert (lake / "moods.csv").read_text().count('"so,so"') == 1000


def test_files_are_in_the_order_of_the_query(client: Client, lake: Path) -> None:
    client.execute(f"COPY (SELECT * FROM many ORDER BY id DESC) TO '{lake}/ordered' (FORMAT parquet, FILE_SIZE '1MB')")
    files = sorted(map(str, (lake / "ordered").iterdir()))
    ids = ds.dataset(files).to_table(["id"]).column("id").to_pylist()
    assert ids == list(range(200_000, 0, -1))
    client.execute(f"COPY (SELECT * FROM many ORDER BY id DESC) TO '{lake}/ordered.parquet'")
    assert pq.read_table(lake / "ordered.parquet").column("id").to_pylist() == ids


def test_insert_puts_files_beside_those_that_are_there(client: Client, server: TidegateServer, lake: Path) -> None:
    below, small = lake / "made/k=1/p=old", f"read_parquet('{lake}/small.parquet')"
    below.mkdir(parents=True)
    pq.write_table(pa.table({"id": [0], "day": pa.array([None], pa.date32())}), below / "x.parquet")
    client.execute(
        "CREATE FOREIGN TABLE made (k bigint, id bigint, p text, day date) SERVER files"
        " OPTIONS (path 'made', format 'parquet')"
    )
    before = server.output().count(BY_EXECUTORS)
    for _ in range(2):
        inserted = client.execute(f"INSERT INTO made SELECT k, id, p, day FROM {small} WHERE p <> ''".encode())
        assert inserted.statusmessage == "INSERT 0 1500"
    assert server.output().count(BY_EXECUTORS) == before + 2
    answer = client.execute("SELECT count(*), count(day), sum(id) FROM made").fetchone()
    counted = f"SELECT 1 + 2 * count(*), 2 * count(day), 2 * sum(id) FROM {small} WHERE p <> ''"
    assert answer == client.execute(counted.encode()).fetchone()
    assert (below / "x.parquet").exists()
    assert client.execute(f"INSERT INTO made SELECT k, id, p, day FROM {small} WHERE v = ''".encode()).rowcount == 0
    assert [path for path in tree(lake / "made") if "/." in f"/{path}"] == []


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("COPY (SELECT 1 / (id - 190000), v FROM many) TO 'LAKE/failed' (FORMAT parquet, FILE_SIZE '10kB')", "22012"),
        ("COPY many TO 'LAKE/no/failed.parquet'", "58P01"),
        ("INSERT INTO checked SELECT id, day FROM read_parquet('LAKE/small.parquet')", "23502"),
        (
            "COPY (SELECT m.*, ARRAY[tags] FROM many m) TO 'LAKE/failed' (FORMAT parquet, PARTITION_BY (k))",
            "0A000",
        ),
    ],
)
def test_a_failure_leaves_nothing(client: Client, lake: Path, statement: str, sqlstate: str) -> None:
    client.execute("DROP FOREIGN TABLE IF EXISTS checked")
    client.execute(
        "CREATE FOREIGN TABLE checked (id int, day date NOT NULL) SERVER files OPTIONS (path 'new', format 'parquet')"
    )
    before = tree(lake)
    with pytest.raises(psycopg.Error) as failed:
        client.execute(statement.replace("LAKE", str(lake)).encode())
    assert failed.value.sqlstate == sqlstate
    if sqlstate == "23502":
        message = 'null value in column "day" of relation "checked" violates not-null constraint'
        assert failed.value.diag.message_primary == message
    assert_soon(lake, before)


def assert_soon(lake: Path, before: set[str]) -> None:
    """A task may go on for a moment after its statement, in a folder that is gone."""
    deadline = time.monotonic() + 20
    while tree(lake) != before:
        assert time.monotonic() < deadline, tree(lake) - before
        time.sleep(0.1)


def test_progress_is_seen_and_cancelling_leaves_nothing(client: Client, server: TidegateServer, lake: Path) -> None:
    before = tree(lake)
    failures: list[psycopg.Error] = []

    def copy() -> None:
        try:
            client.execute(
                "COPY (SELECT a.n, b.n AS m, a.v || b.v AS v FROM few a, few b)"
                f" TO '{lake}/product' (FORMAT parquet, FILE_SIZE '100kB')"
            )
        except psycopg.Error as error:
            failures.append(error)

    statement = threading.Thread(target=copy)
    with psycopg.connect(server.dsn(), autocommit=True) as watcher:
        pid = client.info.backend_pid
        statement.start()
        progress = "SELECT tuples_processed, bytes_processed FROM pg_stat_progress_copy WHERE pid = %s"
        seen: tuple[Any, ...] | None = None
        while seen is None or not seen[0]:
            assert statement.is_alive()
            time.sleep(0.1)
            seen = watcher.execute(progress, (pid,)).fetchone()
        assert seen[1] > 0
        assert list(lake.glob("product/*.parquet")) == []
        client.cancel()
        statement.join(timeout=60)
    assert [failure.sqlstate for failure in failures] == ["57014"]
    assert_soon(lake, before)
