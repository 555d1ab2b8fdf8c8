"""A server whose Spark is a server of Spark Connect: the answers are PostgreSQL's, and it may be started again."""

from __future__ import annotations

import contextlib
import gzip
import os
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.stores.object_place import ObjectPlace
from tests.storage.store_servers import S3Server
from tests.support.server import TidegateServer
from tests.support.spark_cluster import S3_SETTINGS
from tests.support.spark_connect import SparkConnect, client_packages
from tests.support.spark_work import answers_as_postgres, blob_options, written_by_tasks


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConnect]:
    """A server of Spark Connect."""
    with SparkConnect(tmp_path_factory.mktemp("connect")) as connect:
        yield connect


@contextlib.contextmanager
def connected(folder: Path, url: str, *arguments: str) -> Iterator[TidegateServer]:
    """A server that does all its work there."""
    paths = (str(client_packages()), os.environ.get("PYTHONPATH", ""))
    temporary = folder / "temporary"
    temporary.mkdir()
    server = TidegateServer(
        folder / "data",
        arguments=("--spark-remote", url, "--set", "engine=spark", *arguments),
        environment={"PYTHONPATH": os.pathsep.join(filter(None, paths)), "TMPDIR": str(temporary)},
    )
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, connect: SparkConnect) -> Iterator[TidegateServer]:
    """A server over a folder."""
    with connected(tmp_path_factory.mktemp("server"), connect.url) as server:
        yield server


def test_the_answers_are_those_of_postgres(server: TidegateServer) -> None:
    answers_as_postgres(server.dsn(), "SELECT count(*), sum(n) FROM t")
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        before = connection.execute("SELECT count(*), sum(n) FROM t").fetchall()
        connection.execute("SET spark.sql.shuffle.partitions = 3")
        assert connection.execute("SELECT count(*), sum(n) FROM t").fetchall() == before


def test_executors_write_files(tmp_path: Path, connect: SparkConnect) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    pq.write_table(pa.table({"id": range(2000), "v": ["a,b"] * 2000}), lake / "small.parquet")
    with connected(tmp_path, connect.url, "--allow-path", str(lake)) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            for name in ("a.parquet", "a.json", "a.csv", "a.txt.gz"):
                format = "csv" if name == "a.csv" else "text"
                options = f"(FORMAT {format})" if format in name or "txt" in name else ""
                text = f"COPY (SELECT * FROM read_parquet('{lake}/small.parquet')) TO '{lake}/{name}' {options}"
                assert connection.execute(text.encode()).statusmessage == "COPY 2000"
            connection.execute(
                f"CREATE SERVER files FOREIGN DATA WRAPPER lake OPTIONS (path '{lake}');"
                "CREATE FOREIGN TABLE made (id bigint, v text) SERVER files OPTIONS (path 'made', format 'parquet')"
            )
            text = f"INSERT INTO made SELECT * FROM read_parquet('{lake}/small.parquet') WHERE id < 1000"
            assert connection.execute(text.encode()).statusmessage == "INSERT 0 1000"
            assert connection.execute("SELECT sum(id), min(v) FROM made").fetchone() == (499_500, "a,b")
            read = f"SELECT sum(id), min(v) FROM read_parquet('{lake}/a.parquet')"
            assert connection.execute(read.encode()).fetchone() == (1_999_000, "a,b")
        assert server.output().count("files.written_by_executors") == 5
    assert sorted((lake / "a.csv").read_text().splitlines())[:2] == ['0,"a,b"', '1,"a,b"']
    assert len(gzip.decompress((lake / "a.txt.gz").read_bytes()).splitlines()) == 2000
    assert [path.name for path in lake.rglob("*") if path.name.startswith(".")] == []


def test_an_object_store_and_a_token(tmp_path: Path) -> None:
    store = S3Server()
    options = {"endpoint": store.endpoint, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test"}
    place = ObjectPlace(root=f"s3://{store.new_bucket()}/some/prefix", options=options)
    settings = {**S3_SETTINGS, "spark.connect.authenticate.token": "sesame"}
    try:
        with SparkConnect(tmp_path / "connect", settings=settings) as connect:
            # By its name: to any other host than localhost a token goes over TLS alone.
            url = connect.url.replace("127.0.0.1", "localhost")
            for number, (token, words) in enumerate(
                (("", "No authentication token provided"), ("/;token=guess", "Invalid authentication token"))
            ):
                folder = tmp_path / f"refused-{number}"
                folder.mkdir()
                with connected(folder, url + token) as server, psycopg.connect(server.dsn()) as connection:
                    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as raised:
                        connection.execute("SELECT count(*) FROM generate_series(1, 10)")
                    assert raised.value.diag.message_detail == f"the Spark Connect server {url}: {words}"
            (tmp_path / "server").mkdir()
            with connected(tmp_path / "server", f"{url}/;token=sesame", *blob_options(place)) as server:
                answers_as_postgres(server.dsn())
            written = written_by_tasks(place.open())
    finally:
        store.stop()
    assert written
    assert not [key for key in written if key.startswith("parts/spark/")]
    assert list((tmp_path / "server" / "temporary").rglob("*.parquet")) == []


@pytest.mark.parametrize(
    ("settings", "query", "state", "words"),
    [
        ((), "SELECT 1 / (n - 1) FROM numbers", "22012", "division by zero"),
        (
            ("SET spark.scheduler.pool = 'reports'",),
            "SELECT count(*) FROM numbers",
            "0A000",
            "pools of Spark's scheduler cannot be named through Spark Connect",
        ),
        (
            ("SET temp_file_limit = '1MB'",),
            "SELECT count(*) FROM numbers",
            "0A000",
            "temp_file_limit cannot be kept through Spark Connect",
        ),
        (
            ("SET statement_timeout = '2s'",),
            # By a function in Python, whose worker Spark ends: joins within joins ask nobody whether they should go on.
            "SELECT count(*) FROM numbers a, numbers b, numbers c, numbers d WHERE (a.n * b.n * c.n + d.n)::text ~"
            " '^(1\\d)*9$'",
            "57014",
            "canceling statement due to statement timeout",
        ),
    ],
)
def test_what_fails_says_so(
    server: TidegateServer, settings: tuple[str, ...], query: str, state: str, words: str
) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS numbers AS SELECT g AS n FROM generate_series(1, 100) g")
        for setting in settings:
            connection.execute(setting)
        with pytest.raises(psycopg.Error) as raised:
            connection.execute(query)
        assert (raised.value.sqlstate, raised.value.diag.message_primary) == (state, words)
        connection.execute("RESET ALL")
        assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (100,)


def test_a_server_that_is_away_is_named_and_found_again(server: TidegateServer, connect: SparkConnect) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT g AS n FROM generate_series(1, 5000) g")
        assert connection.execute("SELECT sum(n) FROM kept").fetchone() == (12_502_500,)
        connect.kill()
        begun = time.monotonic()
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as raised:
            connection.execute("INSERT INTO kept SELECT n FROM kept")
        assert raised.value.diag.message_primary == "the Spark engine is not available"
        assert connect.url in str(raised.value.diag.message_detail)
        assert "Connection refused" in str(raised.value.diag.message_detail)
        assert time.monotonic() - begun < 60
        connect.start()
        assert connection.execute("INSERT INTO kept SELECT n FROM kept").statusmessage == "INSERT 0 5000"
        assert connection.execute("SELECT count(*), sum(n) FROM kept").fetchone() == (10_000, 25_005_000)
