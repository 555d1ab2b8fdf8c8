"""Servers on PostgreSQL and S3: two of them, nothing shared but the two stores."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore import store

from frontend.command.main import main
from storage.stores.object_options import store_options as store_options_of
from tests.faults.rounds import Load, Tally, check_round, prepare
from tests.storage.store_servers import S3Server, postgres_url
from tests.support.postgres import PostgresServer, start_postgres
from tests.support.server import TidegateServer

ROWS = 50_000


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL to keep consensus in."""
    with start_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """A local S3 server."""
    server = S3Server()
    yield server
    server.stop()


def stores_in(postgres: PostgresServer, s3: S3Server) -> tuple[str, ...]:
    """The options that name a new environment in these."""
    bucket = s3.new_bucket()
    return (
        *("--consensus", postgres_url(postgres) + f"?schema={bucket.replace('-', '_')}"),
        *("--blob", f"s3://{bucket}/some/prefix"),
        *("--blob-option", f"endpoint={s3.endpoint}", "--blob-option", "region=us-east-1"),
        *("--blob-option", "access_key_id=test", "--blob-option", "secret_access_key=test"),
    )


@pytest.fixture
def store_options(postgres: PostgresServer, s3: S3Server) -> tuple[str, ...]:
    """The options that name a new environment."""
    return stores_in(postgres, s3)


@pytest.fixture
def servers(tmp_path: Path, store_options: tuple[str, ...]) -> Iterator[list[TidegateServer]]:
    """Two servers with data directories of their own, started."""
    started = [
        TidegateServer(tmp_path / name, arguments=("--spark-start", "lazy", *store_options)) for name in ("one", "two")
    ]
    try:
        for server in started:
            server.start()
        yield started
    finally:
        for server in started:
            server.kill()


def test_two_hosts_share_an_environment(
    servers: list[TidegateServer],
    store_options: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with (
        psycopg.connect(servers[0].dsn(), autocommit=True) as here,
        psycopg.connect(servers[1].dsn(), autocommit=True) as there,
    ):
        here.execute("CREATE TABLE t (n int, text text)")
        there.execute(f"INSERT INTO t SELECT n, md5(n::text) FROM generate_series(1, {ROWS}) n")
        assert here.execute("SELECT count(*), max(n) FROM t").fetchone() == (ROWS, ROWS)
        here.execute("DELETE FROM t WHERE n % 2 = 0")
        assert there.execute("SELECT count(*) FROM t").fetchone() == (ROWS // 2,)
        for number in range(10):
            one, other = (here, there) if number % 2 else (there, here)
            one.execute("UPDATE t SET text = %s WHERE n = 1", (str(number),))
            assert other.execute("SELECT text FROM t WHERE n = 1").fetchone() == (str(number),)
        servers[0].kill()
        there.execute("INSERT INTO t VALUES (0, 'after')")
        assert there.execute("SELECT count(*) FROM t").fetchone() == (ROWS // 2 + 1,)
    assert main(["admin", *store_options, "export", "t", str(tmp_path / "out")]) == 0
    assert f"{ROWS // 2 + 1} rows of t" in capsys.readouterr().out
    assert main(["admin", *store_options, "fsck"]) == 0


def put_parquet(options: tuple[str, ...], name: str, table: pa.Table) -> str:
    """Stores a file of others beside the environment that `options` name; its URL."""
    settings = dict(option.split("=", 1) for option in options if "=" in option and "://" not in option.split("=")[0])
    root = options[options.index("--blob") + 1].removesuffix("/some/prefix")
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    store.from_url(root, **store_options_of(root, settings)).put(name, bytes(sink.getvalue()))
    return f"{root}/{name}"


def test_spark_reads_and_writes_an_object_store(servers: list[TidegateServer], store_options: tuple[str, ...]) -> None:
    with psycopg.connect(servers[0].dsn(), autocommit=True) as here:
        here.execute("SET engine = spark")
        here.execute(f"CREATE TABLE t AS SELECT g AS n, 'x' || g AS text FROM generate_series(1, {ROWS}) g")
        here.execute("UPDATE t SET text = 'y' WHERE n <= 100")
        assert here.execute("SELECT count(*), count(*) FILTER (WHERE text = 'y') FROM t").fetchone() == (ROWS, 100)
        here.execute("INSERT INTO t SELECT n + %s, text FROM t", (ROWS,))
    with psycopg.connect(servers[1].dsn(), autocommit=True) as there:
        found = there.execute("SELECT count(*), count(DISTINCT n), sum((text = 'y')::int) FROM t").fetchone()
        assert found == (2 * ROWS, 2 * ROWS, 200)
    numbers = pa.table({"Number": pa.array(range(ROWS), pa.int64()), "v": ["v"] * ROWS})
    url = put_parquet(store_options, "others/year=1/a.parquet", numbers)
    with (
        psycopg.connect(servers[0].dsn(), autocommit=True) as here,
        psycopg.connect(servers[1].dsn(), autocommit=True) as there,
    ):
        here.execute('CREATE TABLE added ("Number" bigint PRIMARY KEY, v text)')
        here.execute(f"CALL tidegate.add_files('added', '{url}')")
        here.execute("SET engine = spark")
        here.execute('DELETE FROM added WHERE "Number" < 10')
        text = 'SELECT count(*), sum("Number") FROM added'
        wanted = (ROWS - 10, sum(range(10, ROWS)))
        assert here.execute(text).fetchone() == wanted
        assert there.execute(text).fetchone() == wanted
        assert there.execute('SELECT v FROM added WHERE "Number" = 77').fetchone() == ("v",)


def test_lost_connections_to_consensus_lose_nothing(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres_url(postgres) + "?schema=interrupted"
    server = TidegateServer(
        tmp_path / "data", arguments=("--spark-start", "lazy", "--set", "engine=local", "--consensus", url)
    )
    try:
        server.start()
        prepare(server)
        progress = threading.Semaphore(0)
        loads = [Load(server, 0, number, progress) for number in range(3)]
        for load in loads:
            load.start()
        with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
            for _ in range(10):
                assert progress.acquire(timeout=120)
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )
        for load in loads:
            load.stopping.set()
        for load in loads:
            load.join()
            assert load.failure is None, f"{load.failure!r}\n{server.output()[-3000:]}"
        check_round(0, server, [load.outcomes for load in loads], Tally())
    finally:
        server.kill()
