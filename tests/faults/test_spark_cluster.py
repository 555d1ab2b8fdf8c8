"""A Spark cluster on an object store: executors read and write it by themselves, and may be lost while they do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.errors import StoreUnavailable
from storage.stores.object_place import ObjectFiles, ObjectPlace
from tests.storage.store_servers import S3Server
from tests.support.server import TidegateServer
from tests.support.spark_cluster import SparkCluster
from tests.support.spark_work import ROWS, answers_as_postgres, blob_options, parts, written_by_tasks


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """A local S3 server."""
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def place(s3: S3Server) -> ObjectPlace:
    """Where the objects of the server are."""
    options = {"endpoint": s3.endpoint, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test"}
    return ObjectPlace(root=f"s3://{s3.new_bucket()}/some/prefix", options=options)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and a worker."""
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's folder for temporary files."""
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, cluster: SparkCluster, place: ObjectPlace, temporary: Path
) -> Iterator[TidegateServer]:
    """A server whose Spark is the cluster."""
    server = TidegateServer(
        tmp_path_factory.mktemp("server") / "data",
        arguments=(*cluster.arguments, "--set", "engine=spark", *blob_options(place)),
        environment={"TMPDIR": str(temporary)},
    )
    try:
        server.start()
        yield server
    finally:
        server.kill()


def row_count(files: ObjectFiles, before: set[str]) -> int | None:
    """How many rows the parts written since have together; None if one is swept while they are read."""
    keys = parts(files) - before
    rows = 0
    try:
        for key in keys:
            rows += pq.read_metadata(pa.BufferReader(files.get(key))).num_rows
    except StoreUnavailable:
        if keys <= parts(files):
            raise
        return None
    return rows


def test_executors_read_and_write_the_object_store(server: TidegateServer, place: ObjectPlace, temporary: Path) -> None:
    answers_as_postgres(server.dsn())
    written = written_by_tasks(place.open())
    # Spooled results are gone; and nothing has passed the server's disk.
    assert written
    assert not [key for key in written if key.startswith("parts/spark/")]
    assert list(temporary.rglob("*.parquet")) == []


def test_a_statement_that_fails_leaves_nothing(server: TidegateServer, place: ObjectPlace) -> None:
    files = place.open()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE TABLE bad AS SELECT g AS n, 'x' || g AS text FROM generate_series(1, {ROWS}) g")
        connection.execute("CREATE TABLE copied (n int, text text)")
        before = parts(files)
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute(f"INSERT INTO copied SELECT n / (n - {ROWS - 1}), text FROM bad")
        assert connection.execute("SELECT count(*) FROM copied").fetchone() == (0,)
    # A task that was at work beside the one that failed may end its upload after the statement.
    deadline = time.monotonic() + 30
    while parts(files) != before:
        assert time.monotonic() < deadline
        time.sleep(1)


def test_a_lost_executor_costs_time_and_leaves_nothing(
    server: TidegateServer, cluster: SparkCluster, place: ObjectPlace
) -> None:
    files = place.open()
    failures: list[BaseException] = []

    def insert() -> None:
        try:
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                connection.execute("INSERT INTO product SELECT a.n, b.n, repeat(a.text, 40) FROM few a, few b")
        except psycopg.Error as error:
            failures.append(error)

    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE few AS SELECT g AS n, 'x' || g AS text FROM generate_series(1, 1200) g")
        connection.execute("CREATE TABLE product (a int, b int, text text)")
        before = parts(files)
        statement = threading.Thread(target=insert)
        statement.start()
        # The first file of a task that writes several.
        while statement.is_alive() and parts(files) == before:
            time.sleep(0.02)
        cluster.kill_executor()
        assert statement.is_alive()
        # A busy machine takes minutes for a new executor.
        statement.join(timeout=600)
        assert not statement.is_alive()
        assert failures == []
        answer = connection.execute("SELECT count(*), sum(a::bigint * b) FROM product").fetchone()
        assert answer == (1_440_000, 720_600**2)
    # A Python worker outlives its executor for a moment, and may end an upload that is then an orphan.
    deadline = time.monotonic() + 30
    while row_count(files, before) != 1_440_000:
        assert time.monotonic() < deadline
        time.sleep(1)


def objects(place: ObjectPlace) -> set[str]:
    """What is in the bucket of others, also what is hidden."""
    return set(place.open().list(""))


def objects_soon(place: ObjectPlace, wanted: Callable[[set[str]], bool]) -> set[str]:
    """What is there, once it is as wanted: a task may outlive its statement for a moment."""
    deadline = time.monotonic() + 60
    while not wanted(found := objects(place)):
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    return found


def test_executors_write_files_of_others(
    server: TidegateServer, cluster: SparkCluster, s3: S3Server, place: ObjectPlace, temporary: Path
) -> None:
    options = {**place.options, "secret_access_key": "hush-hush-hush"}
    others = ObjectPlace(root=f"s3://{s3.new_bucket()}/out", options=options)
    reached = ", ".join(f"{name} '{options[name]}'" for name in ("endpoint", "region"))
    keys = ", ".join(f"{name} '{options[name]}'" for name in ("access_key_id", "secret_access_key"))
    failures: list[BaseException] = []
    tags: list[str | None] = []

    def insert() -> None:
        try:
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                connection.execute("SET engine = 'spark'")
                text = "INSERT INTO made SELECT a.n, b.n, repeat(a.text, 40) FROM sides a, sides b"
                tags.append(connection.execute(text).statusmessage)
        except psycopg.Error as error:
            failures.append(error)

    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(
            f"CREATE SERVER others FOREIGN DATA WRAPPER lake OPTIONS (path '{others.root}', {reached});"
            f"CREATE USER MAPPING FOR CURRENT_USER SERVER others OPTIONS ({keys});"
            "CREATE FOREIGN TABLE made (a int, b int NOT NULL, text text) SERVER others"
            " OPTIONS (path 'made', format 'parquet');"
            "CREATE TABLE sides AS SELECT g AS n, 'x' || g AS text FROM generate_series(1, 1200) g"
        )
        # What fails, and what is cancelled, leaves nothing.
        for failing, sqlstate in (
            ("INSERT INTO made SELECT 1 / (a.n - 1200), b.n, a.text FROM sides a, sides b", "22012"),
            ("INSERT INTO made SELECT a.n, nullif(b.n, a.n), a.text FROM sides a, sides b", "23502"),
        ):
            with pytest.raises(psycopg.Error) as failed:
                connection.execute(failing.encode())
            assert failed.value.sqlstate == sqlstate
            objects_soon(others, lambda found: not found)
        # An executor is lost while it writes: its tasks are carried out again, and no row is there twice.
        statement = threading.Thread(target=insert)
        statement.start()
        time.sleep(2)
        cluster.kill_executor()
        statement.join(timeout=600)
        assert not statement.is_alive()
        assert (failures, tags) == ([], ["INSERT 0 1440000"])
        written = objects_soon(others, lambda found: bool(found) and not any("/." in f"/{key}" for key in found))
        rows = [pq.read_table(pa.BufferReader(others.open().get(key))) for key in written]
        assert sum(table.num_rows for table in rows) == 1_440_000
        pairs = pa.concat_tables(rows).select(["a", "b"])
        assert pairs.group_by(["a", "b"]).aggregate([]).num_rows == 1_440_000
        copied = ObjectPlace(root=f"s3://{s3.new_bucket()}/copy", options=place.options)
        text = "(SELECT n % 3 AS k, s.* FROM sides s, generate_series(1, 800) g)"
        copy = connection.execute(f"COPY {text} TO '{copied.root}' (FORMAT parquet, PARTITION_BY (k))".encode())
        assert copy.statusmessage == "COPY 960000"
        found = objects_soon(copied, lambda found: not any("/." in f"/{key}" for key in found))
        assert {key.partition("/")[0] for key in found} == {"k=0", "k=1", "k=2"}
        # Rows as texts, with what has to be quoted, and NULL; read again by the executors, and by the server's COPY.
        connection.execute("CREATE TABLE texts (n int, s text, at timestamptz, amount numeric(12, 3), list int[])")
        connection.execute(
            "CREATE VIEW odd AS SELECT n * 800 + g AS n,"
            " (ARRAY['', 'a,b', E'two\\nlines', 'quo\"te', E'ta\\tb', '\\N', 'ä', NULL])[1 + g % 8] AS s,"
            " timestamptz '2026-01-01 00:00+00' + g * interval '1 hour' AS at, g * 0.125 AS amount,"
            " CASE WHEN g % 3 > 0 THEN ARRAY[g, NULL, n] END AS list FROM sides, generate_series(1, 800) g"
        )
        whole = "SELECT count(*), sum(n), md5(string_agg(s, '|' ORDER BY n)), sum(amount), max(at), sum(list[3]) FROM "
        wanted = connection.execute(f"{whole} (SELECT n, s, at, amount, list FROM odd) o".encode()).fetchone()
        for format, compression in (("csv", "gzip"), ("json", "none")):
            out = ObjectPlace(root=f"s3://{s3.new_bucket()}/{format}", options=place.options)
            how = f"FORMAT {format}, COMPRESSION {compression}, FILE_SIZE '16MB'"
            copy = connection.execute(f"COPY (TABLE odd) TO '{out.root}' ({how})".encode())
            assert copy.statusmessage == "COPY 960000"
            assert len(objects_soon(out, lambda found: not any("/." in f"/{key}" for key in found))) > 1
            connection.execute(
                f"TRUNCATE texts; COPY texts FROM '{out.root}' (FORMAT {format.partition(',')[0]})".encode()
            )
            assert connection.execute(f"{whole} texts".encode()).fetchone() == wanted, format
    assert server.output().count("files.written_by_executors") == 4
    assert list(temporary.rglob("*.parquet")) == []
    assert "hush-hush" not in server.output()


def test_a_killed_driver_costs_time_and_leaves_nothing(server: TidegateServer, place: ObjectPlace) -> None:
    files = place.open()
    tags: list[str | None] = []
    failures: list[BaseException] = []

    def insert() -> None:
        try:
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                tags.append(
                    connection.execute(
                        "INSERT INTO driven SELECT a.n, b.n, repeat(a.text, 40) FROM drivers a, drivers b"
                    ).statusmessage
                )
        except psycopg.Error as error:
            failures.append(error)

    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE drivers AS SELECT g AS n, 'x' || g AS text FROM generate_series(1, 1200) g")
        connection.execute("CREATE TABLE driven (a int, b int, text text)")
        before = parts(files)
        statement = threading.Thread(target=insert)
        statement.start()
        while statement.is_alive() and parts(files) == before:
            time.sleep(0.02)
        server.kill_spark()
        assert statement.is_alive()
        statement.join(timeout=600)
        assert not statement.is_alive()
        assert (tags, failures) == (["INSERT 0 1440000"], [])
        answer = connection.execute("SELECT count(*), sum(a::bigint * b) FROM driven").fetchone()
        assert answer == (1_440_000, 720_600**2)
    deadline = time.monotonic() + 60
    while row_count(files, before) != 1_440_000:
        assert time.monotonic() < deadline
        time.sleep(1)
