"""Files of others that executors write: the same as those that the server writes, whole or not at all."""

from __future__ import annotations

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
