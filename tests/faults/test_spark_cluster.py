"""A Spark cluster on an object store: executors read and write it by themselves, and may be lost while they do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
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
