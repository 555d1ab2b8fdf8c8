"""Memory comes back: after a large load the server is soon about as large as it was when it started. Each load has a
server of its own: what code and engines take that were loaded for it counts, and is there once."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.server import AS_SHIPPED, TidegateServer

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

MEGABYTES = 1024 * 1024
ALLOWED_BYTES = 150 * MEGABYTES
"""What the server may be larger than before, a minute after a load; that the load had it grow by more is not asked:
the less it needs the better."""

PATIENCE_S = 180.0
"""Far more than a minute, for slow machines; it is not waited when the memory is back before."""


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    server = TidegateServer(tmp_path_factory.mktemp("memory") / "data", environment=AS_SHIPPED)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def fresh_bytes(server: TidegateServer) -> int:
    """The server's size once it has answered the first queries."""
    with connected(server) as connection:
        connection.execute("SELECT count(*) FROM pg_class")
    time.sleep(1)
    return resident_bytes(server)


def connected(server: TidegateServer) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(host=server.host, port=server.port, user="postgres", dbname="postgres", autocommit=True)


def resident_bytes(server: TidegateServer) -> int:
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def assert_memory_comes_back(server: TidegateServer, fresh: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (held := resident_bytes(server)) > fresh + ALLOWED_BYTES:
        assert time.monotonic() < deadline, (
            f"{held // MEGABYTES} MB are held, {fresh // MEGABYTES} MB were when the server was fresh"
        )
        time.sleep(1)


def copy(connection: psycopg.Connection[tuple[object, ...]], rows: int) -> None:
    with connection.cursor().copy("COPY loaded FROM STDIN") as stream:
        for first in range(0, rows, 50_000):
            stream.write("".join(f"{n}\t{n % 1000}\tvalue {n}\n" for n in range(first, first + 50_000)))


def test_after_a_copy_and_an_update_of_a_table_with_a_key(server: TidegateServer, fresh_bytes: int) -> None:
    with connected(server) as connection:
        connection.execute("CREATE TABLE loaded (id bigint PRIMARY KEY, a int, b text)")
        copy(connection, 1_000_000)
        connection.execute("UPDATE loaded SET a = a + 1 WHERE id < 500000")
        assert connection.execute("SELECT b FROM loaded WHERE id = 777777").fetchall() == [("value 777777",)]
        assert_memory_comes_back(server, fresh_bytes)


def test_after_large_queries_and_their_rows(server: TidegateServer, fresh_bytes: int) -> None:
    with connected(server) as connection:
        connection.execute(
            "CREATE TABLE wide AS SELECT g AS id, repeat(g::text, 8) AS t FROM generate_series(1, 2000000) g"
        )
        connection.execute("SELECT count(*) FROM (SELECT t, count(*) FROM wide GROUP BY t) AS groups")
        rows = connection.execute("SELECT * FROM wide ORDER BY t DESC LIMIT 300000").fetchall()
        assert len(rows) == 300_000
        del rows
        assert_memory_comes_back(server, fresh_bytes)


def test_after_upserts(server: TidegateServer, fresh_bytes: int) -> None:
    """Each batch of such a statement looks up its keys in all that the statement has written before."""
    upsert = (
        "INSERT INTO counted SELECT g, 1 FROM generate_series(1, 200000) g "
        "ON CONFLICT (id) DO UPDATE SET n = counted.n + 1"
    )
    with connected(server) as connection:
        connection.execute("CREATE TABLE counted (id bigint PRIMARY KEY, n int)")
        connection.execute(upsert)
        connection.execute(upsert)
        assert connection.execute("SELECT sum(n) FROM counted").fetchall() == [(400_000,)]
        assert_memory_comes_back(server, fresh_bytes)


def test_after_many_statements_and_connections(server: TidegateServer, fresh_bytes: int) -> None:
    with connected(server) as connection:
        connection.execute("CREATE TABLE loaded (id bigint PRIMARY KEY, a int, b text)")
        copy(connection, 50_000)
        for number in range(2_000):
            connection.execute(f"SELECT a + {number} AS a{number} FROM loaded WHERE id = %s", (number,), prepare=True)
    for _ in range(200):
        connected(server).close()
    assert_memory_comes_back(server, fresh_bytes)
