"""Tables that say how their files are laid out, over a real connection: both engines write them so, and read less."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest

from storage.shards.partitions.transforms import PartitionField, keys_of
from tests.support.server import TidegateServer, run_server

Client = psycopg.Connection[tuple[Any, ...]]

PROGRESS = (
    "SELECT datname, command, phase, heap_blks_total, heap_blks_scanned, heap_tuples_scanned, heap_tuples_written"
    " FROM pg_stat_progress_cluster WHERE pid = %s AND relid = 'mine.t'::regclass"
)

ROWS = 120_000
SOURCE = (
    "SELECT (g * 7919 % 100003)::int AS id, nullif(g % 13, 5)::int AS k, timestamp '2026-01-01' + g * interval '7 min'"
    f" AS ts, md5(g::text) AS note FROM generate_series(1, {ROWS}) g"
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's data directory."""
    return tmp_path_factory.mktemp("layouts") / "data"


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[TidegateServer]:
    """A server with both engines."""
    with run_server(
        data, arguments=("--spark-master", "local[2]", "--spark-conf", "spark.driver.memory=1g")
    ) as running:
        yield running


@pytest.fixture(params=["local", "spark"])
def client(server: TidegateServer, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A session that runs everything on one engine."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"SET tidegate.engine = '{request.param}'")
        connection.execute("DROP SCHEMA IF EXISTS mine CASCADE")
        connection.execute("CREATE SCHEMA mine")
        connection.execute("SET search_path = mine")
        yield connection


def files_since(data: Path, before: set[Path]) -> list[Path]:
    """The files of parts that have come."""
    return sorted(files_of(data) - before)


def files_of(data: Path) -> set[Path]:
    """The files of parts that there are."""
    return set((data / "blob" / "parts").glob("*/*.parquet"))


def sort_keys(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of these columns of a file, NULLs above everything."""
    table = pq.read_table(path, columns=list(columns))
    lists = [table.column(name).to_pylist() for name in columns]
    return [tuple((value is None, value) for value in row) for row in zip(*lists, strict=True)]


def parts_read(client: Client, query: str) -> tuple[int, int]:
    """How many parts a query reads, and of how many."""
    plan = "\n".join(line for (line,) in client.execute(f"EXPLAIN {query}").fetchall())
    found = re.search(r"Parts of \w+: (\d+) of (\d+) read", plan)
    assert found is not None, plan
    return int(found[1]), int(found[2])


def check_files(files: list[Path]) -> None:
    """Each file is in order, and no two have rows of the same range."""
    ranges = []
    for path in files:
        keys = sort_keys(path, "c2", "c1")
        assert keys == sorted(keys), path
        ranges.append((keys[0], keys[-1]))
    ranges.sort()
    for (_, high), (low, _) in itertools.pairwise(ranges):
        assert high <= low


@pytest.mark.parametrize("create", ["insert", "create"])
def test_rows_of_a_query_are_written_in_order(client: Client, data: Path, create: str) -> None:
    before = files_of(data)
    layout = "WITH (sort_by = 'k, id', target_file_size = '700kB')"
    if create == "insert":
        client.execute(f"CREATE TABLE t (id int, k int, ts timestamp, note text) {layout}")
        client.execute(f"INSERT INTO t {SOURCE}")
    else:
        client.execute(f"CREATE TABLE t {layout} AS {SOURCE}")
    files = files_since(data, before)
    assert 3 <= len(files) <= 12
    check_files(files)
    read, total = parts_read(client, "SELECT note FROM t WHERE k = 3")
    assert total == len(files)
    assert read <= max(2, total // 2)
    assert (
        client.execute("SELECT count(*), count(k), sum(id) FROM t").fetchone()
        == client.execute(f"SELECT count(*), count(k), sum(id) FROM ({SOURCE}) s").fetchone()
    )


def test_changed_rows_are_written_in_order(client: Client, data: Path) -> None:
    client.execute("CREATE TABLE t (id int, k int, ts timestamp, note text) WITH (sort_by = 'k, id')")
    client.execute(f"INSERT INTO t {SOURCE}")
    before = files_of(data)
    client.execute("UPDATE t SET k = id % 11 WHERE id > 100")
    written = [path for path in files_since(data, before) if "_row_id" not in pq.read_schema(path).names]
    assert written
    for path in written:
        keys = sort_keys(path, "c2", "c1")
        # Where the rows pass the server batches of them are sorted.
        assert sum(one > other for one, other in itertools.pairwise(keys)) <= ROWS / 8192 + 1
    assert client.execute("SELECT count(*) FROM t WHERE k IS DISTINCT FROM id % 11 AND id > 100").fetchone() == (0,)


def test_vacuum_full_lays_out_the_whole_table(client: Client) -> None:
    rows = "SELECT count(*), count(k), sum(id), min(note), max(ts) FROM t"
    client.execute("CREATE TABLE t (id int, k int, ts timestamp, note text)")
    for remainder in range(3):
        client.execute(f"INSERT INTO t SELECT * FROM ({SOURCE}) s WHERE id % 3 = {remainder}")
    client.execute("DELETE FROM t WHERE id % 10 = 0")
    client.execute("UPDATE t SET note = 'changed' WHERE id % 1000 = 1")
    there = client.execute(rows).fetchone()
    client.execute("ALTER TABLE t SET (sort_by = 'k, id', target_file_size = '500kB')")
    client.execute("VACUUM (FULL) t")
    read, total = parts_read(client, "SELECT * FROM t WHERE k = 3 AND id < 10000")
    assert total >= 4
    assert read == 1
    assert client.execute(rows).fetchone() == there
    client.execute("ALTER TABLE t SET (sort_by = 'zorder(id, ts)', target_file_size = '150kB')")
    client.execute("VACUUM (FULL) t")
    for condition in ("id BETWEEN 50000 AND 51000", "ts BETWEEN '2026-06-01' AND '2026-06-05'"):
        read, total = parts_read(client, f"SELECT * FROM t WHERE {condition}")
        assert total >= 8
        assert read <= total * 0.7
    assert client.execute(rows).fetchone() == there
    client.execute("ALTER TABLE t SET (partition_by = 'month(ts)')")
    client.execute("VACUUM (FULL) t")
    read, total = parts_read(client, "SELECT * FROM t WHERE ts BETWEEN '2026-06-01' AND '2026-06-05'")
    assert read < total / 3
    assert client.execute(rows).fetchone() == there
    assert client.execute("SELECT count(*) FROM t WHERE id % 10 = 0").fetchone() == (0,)


def test_others_see_how_far_vacuum_full_is(client: Client, server: TidegateServer) -> None:
    client.execute("CREATE TABLE t (id int, k int, ts timestamp, note text)")
    for remainder in range(3):
        client.execute(f"INSERT INTO t SELECT * FROM ({SOURCE}) s WHERE id % 3 = {remainder}")
    client.execute("ALTER TABLE t SET (sort_by = 'k, id', target_file_size = '500kB')")
    client.execute("SET rewrite_group_size = '1MB'")
    rows = client.execute("SELECT count(*) FROM t").fetchone()
    seen: list[tuple[Any, ...]] = []
    with ThreadPoolExecutor(1) as pool, psycopg.connect(server.dsn(), autocommit=True) as watcher:
        vacuum = pool.submit(client.execute, "VACUUM (FULL) t")
        while not vacuum.done():
            seen += watcher.execute(PROGRESS, (client.info.backend_pid,)).fetchall()
        vacuum.result()
        assert watcher.execute(PROGRESS, (client.info.backend_pid,)).fetchall() == []
    assert {(database, command) for database, command, *_ in seen} == {("postgres", "VACUUM FULL")}
    assert "sorting tuples" in {phase for _, _, phase, *_ in seen}
    counts = [counted for _, _, _, *counted in seen]
    assert len(counts) > 2
    for before, after in itertools.pairwise(counts):
        assert all(one <= other for one, other in zip(before, after, strict=True)), (before, after)
    total, scanned, tuples, written = counts[-1]
    assert 0 < scanned <= total
    assert rows is not None
    assert 0 < written <= tuples <= rows[0]


def partitions(path: Path, fields: tuple[PartitionField, ...]) -> set[tuple[Any, ...]]:
    """The partitions that rows of a file are of."""
    table = pq.read_table(path)
    return set(zip(*(keys_of(f, table.column(f.column).combine_chunks()).to_pylist() for f in fields), strict=True))


BY_YEAR = (PartitionField("c3", "year"), PartitionField("c1", "bucket", 3))


@pytest.mark.parametrize("create", ["insert", "create", "copy"])
def test_files_have_rows_of_one_partition(client: Client, data: Path, create: str) -> None:
    before = files_of(data)
    layout = "WITH (partition_by = 'year(ts), bucket(3, id)', sort_by = 'k')"
    columns = "(id int, k int, ts timestamp, note text)"
    if create == "create":
        client.execute(f"CREATE TABLE t {layout} AS {SOURCE}")
    else:
        client.execute(f"CREATE TABLE t {columns} {layout}")
    if create == "insert":
        client.execute(f"INSERT INTO t {SOURCE}")
    if create == "copy":
        cursor = client.cursor()
        rows = cursor.execute(SOURCE).fetchall()
        with cursor.copy("COPY t FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    files = files_since(data, before)
    found = [partitions(path, BY_YEAR) for path in files]
    assert {partition for each in found for partition in each} == set(itertools.product((56, 57), range(3)))
    # What has few rows in the last run of a statement is in one file with others.
    assert sum(len(each) > 1 for each in found) <= 2
    assert len(found) <= 20
    for path in files:
        keys = sort_keys(path, "c2")
        assert keys == sorted(keys), path
    read, total = parts_read(client, "SELECT note FROM t WHERE id = 7919")
    assert total == len(files)
    assert read <= total // 3 + 2
    read, total = parts_read(client, "SELECT note FROM t WHERE id = 7919 AND ts BETWEEN '2026-03-02' AND '2026-03-20'")
    assert read <= total // 6 + 2
    for query in (
        "SELECT count(*), count(k), sum(id) FROM {}",
        "SELECT count(*), min(ts), max(note) FROM {} WHERE id IN (7919, 15838, 100001)",
    ):
        expected = client.execute(query.format(f"({SOURCE}) s")).fetchone()
        assert client.execute(query.format("t")).fetchone() == expected


def test_compaction_keeps_the_layout(server: TidegateServer, data: Path) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as client:

        def until(done: Callable[[], bool]) -> None:
            """Maintenance comes every second, to tables that are written to, and once some time has passed."""
            deadline = time.monotonic() + 60
            while not done():
                assert time.monotonic() < deadline, parts_read(client, "SELECT note FROM t WHERE id = 7919")
                client.execute("INSERT INTO t (id) VALUES (-1)")
                time.sleep(0.5)

        def merged() -> list[Path]:
            return [path for path in files_since(data, before) if pq.read_metadata(path).num_rows > ROWS // 2]

        def divided() -> bool:
            read, total = parts_read(client, "SELECT note FROM t WHERE id = 7919 AND ts IS NOT NULL")
            return total >= 4 and 2 * read <= total

        client.execute("DROP SCHEMA IF EXISTS mine CASCADE; CREATE SCHEMA mine; SET search_path = mine")
        before = files_of(data)
        client.execute("CREATE TABLE t (id int, k int, ts timestamp, note text) WITH (sort_by = 'k, id')")
        for number in range(20):
            client.execute(f"INSERT INTO t SELECT * FROM ({SOURCE}) s WHERE id % 20 = {number}")
        until(lambda: bool(merged()))
        for path in merged():
            keys = sort_keys(path, "c2", "c1")
            assert keys == sorted(keys)

        client.execute("ALTER TABLE t SET (partition_by = 'bucket(4, id)', target_file_size = '1MB')")
        client.execute("UPDATE t SET note = note || 'x'")
        until(divided)
        query = "SELECT count(*), sum(id), count(DISTINCT note) FROM {} WHERE id >= 0"
        expected = client.execute(query.format(f"({SOURCE}) s")).fetchone()
        assert client.execute(query.format("t")).fetchone() == expected


def test_a_dump_has_the_options(server: TidegateServer, tmp_path: Path) -> None:
    pg_dump = shutil.which("pg_dump") or "/usr/lib/postgresql/15/bin/pg_dump"
    if not Path(pg_dump).exists():
        assert not os.environ.get("CI"), "pg_dump is not there"
        pytest.skip("pg_dump is not there")
    import subprocess

    with psycopg.connect(server.dsn(), autocommit=True) as client:
        client.execute("DROP TABLE IF EXISTS public.dumped")
        client.execute(
            """CREATE TABLE public.dumped (ts date, "Id" int) WITH (sort_by = 'ts, "Id"', target_file_size = '1MB')"""
        )
    text = subprocess.run(
        [pg_dump, "--schema-only", "-t", "public.dumped", server.dsn()], check=True, capture_output=True, text=True
    ).stdout
    assert """WITH (sort_by='ts, "Id"', target_file_size='1MB');""" in text
