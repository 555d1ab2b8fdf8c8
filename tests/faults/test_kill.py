"""kill -9 of a real server under load: what was acknowledged is there, once; what was not may be there, whole."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from storage.membership.watch import LEASE_MS
from tests.faults.long import LONG
from tests.faults.rounds import run_rounds
from tests.support.server import AUDITED, TidegateServer

CRASH_ROUNDS = int(os.environ.get("TIDEGATE_CRASH_ROUNDS", "2"))
"""Rounds on each store; `make crash` runs 50."""

SESSIONS = 8
ROWS = 1000

QUIET_S = 2.0
"""Longer than commits gather before they are applied."""


@pytest.fixture
def crashing(tmp_path: Path) -> Iterator[TidegateServer]:
    """A server with a data directory of its own, started."""
    server = TidegateServer(tmp_path / "data", arguments=("--spark-start", "lazy"))
    server.start()
    yield server
    server.kill()


def insert_until_it_breaks(
    server: TidegateServer, session: int, acknowledged: list[tuple[int, int]], after: int, enough: threading.Event
) -> None:
    """Inserts single rows, noting each one that the server acknowledged, until the connection breaks."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        for number in range(ROWS // SESSIONS):
            try:
                connection.execute("INSERT INTO t VALUES (%s, %s)", (session, number))
            except psycopg.OperationalError:
                return
            acknowledged.append((session, number))
            if len(acknowledged) >= after:
                enough.set()


@pytest.mark.parametrize("after", [10, 250, 700])
def test_every_acknowledged_row_survives_once(crashing: TidegateServer, after: int) -> None:
    with psycopg.connect(crashing.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (session int NOT NULL, number int NOT NULL)")
    acknowledged: list[tuple[int, int]] = []
    enough = threading.Event()
    threads = [
        threading.Thread(target=insert_until_it_breaks, args=(crashing, session, acknowledged, after, enough))
        for session in range(SESSIONS)
    ]
    for thread in threads:
        thread.start()
    assert enough.wait(timeout=120)
    crashing.kill()
    for thread in threads:
        thread.join()
    crashing.start()
    with psycopg.connect(crashing.dsn(), autocommit=True) as connection:
        rows = connection.execute("SELECT session, number FROM t").fetchall()
        connection.execute("INSERT INTO t VALUES (-1, -1)")
        after_restart = connection.execute("SELECT count(*) FROM t").fetchone()
    assert len(rows) == len(set(rows))
    assert set(acknowledged) <= set(rows)
    assert len(rows) <= len(acknowledged) + SESSIONS
    assert after_restart == (len(rows) + 1,)


def test_a_transaction_over_several_tables_is_there_whole_or_not_at_all(crashing: TidegateServer) -> None:
    with psycopg.connect(crashing.dsn(), autocommit=True) as connection:
        for table in ("a", "b", "c"):
            connection.execute(f"CREATE TABLE {table} (n int)")
    committed: list[int] = []

    def transfer() -> None:
        with psycopg.connect(crashing.dsn()) as connection:
            for number in range(100_000):
                try:
                    for table in ("a", "b", "c"):
                        connection.execute(f"INSERT INTO {table} VALUES ({number})")
                    connection.commit()
                except psycopg.OperationalError:
                    return
                committed.append(number)
                if number == 40:
                    reached.set()

    reached = threading.Event()
    thread = threading.Thread(target=transfer)
    thread.start()
    assert reached.wait(timeout=120)
    crashing.kill()
    thread.join()
    crashing.start()
    with psycopg.connect(crashing.dsn(), autocommit=True) as connection:
        contents = [
            [row[0] for row in connection.execute(f"SELECT n FROM {table} ORDER BY n").fetchall()]
            for table in ("a", "b", "c")
        ]
    assert contents[0] == contents[1] == contents[2]
    assert contents[0] in (committed, [*committed, len(committed)])


def test_a_second_server_joins_and_goes_on_alone(crashing: TidegateServer) -> None:
    second = TidegateServer(crashing.data_dir, arguments=("--spark-start", "lazy"))
    second.log = crashing.data_dir.with_name("second.log")
    with psycopg.connect(crashing.dsn(), autocommit=True) as here:
        here.execute("CREATE TABLE t (n int)")
        here.execute("INSERT INTO t VALUES (1)")
        second.start()
        try:
            with psycopg.connect(second.dsn(), autocommit=True) as there:
                for number in range(2, 22):
                    one, other = (here, there) if number % 2 else (there, here)
                    one.execute("INSERT INTO t SELECT max(n) + 1 FROM t")
                    one.execute(f"CREATE TABLE t{number} AS SELECT * FROM t")
                    assert other.execute(f"SELECT max(n) FROM t{number}").fetchone() == (number,)
                crashing.kill()
                there.execute("INSERT INTO t VALUES (22)")
                assert there.execute("SELECT count(*), max(n) FROM t").fetchone() == (22, 22)
        finally:
            second.kill()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_rounds_under_load(store: str, tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    tally = run_rounds(store, CRASH_ROUNDS, tmp_path, seed)
    assert tally.rounds == CRASH_ROUNDS
    assert tally.acknowledged > 0


def insert_for_ever(connection: psycopg.Connection) -> None:
    """Inserts until that fails."""
    while True:
        connection.execute("INSERT INTO t VALUES (2)")


def wait_until_nothing_is_written(server: TidegateServer) -> None:
    """Returns once the consensus store of `server` has been left alone for `QUIET_S`."""
    log = server.data_dir / "consensus.sqlite-wal"
    deadline = time.monotonic() + 60
    written, since = log.stat().st_mtime_ns, time.monotonic()
    while time.monotonic() - since < QUIET_S:
        assert time.monotonic() < deadline
        time.sleep(0.02)
        if log.stat().st_mtime_ns != written:
            written, since = log.stat().st_mtime_ns, time.monotonic()


def test_a_server_that_stood_still_is_deposed_and_stops(crashing: TidegateServer) -> None:
    """SIGSTOP for longer than a lease lasts: the other server goes on, and the one that wakes up does no harm."""
    second = TidegateServer(crashing.data_dir, arguments=("--spark-start", "lazy"))
    second.log = crashing.data_dir.with_name("second.log")
    second.start()
    try:
        with psycopg.connect(crashing.dsn(), autocommit=True) as here, psycopg.connect(second.dsn()) as there:
            here.execute("CREATE TABLE t (n int)")
            assert crashing.process is not None
            # NOTE: not in the middle of a write. A process keeps SQLite's lock for as long as it stands still.
            wait_until_nothing_is_written(crashing)
            crashing.process.send_signal(signal.SIGSTOP)
            there.autocommit = True
            deadline = time.monotonic() + 4 * LEASE_MS / 1000
            while "ending the leases of dead processes" not in second.output():
                there.execute("INSERT INTO t VALUES (1)")
                assert time.monotonic() < deadline
                time.sleep(0.5)
            crashing.process.send_signal(signal.SIGCONT)
            with pytest.raises(psycopg.OperationalError):
                insert_for_ever(here)
            assert crashing.process.wait(timeout=60) == 1
            assert "took it for dead" in crashing.output()
            assert there.execute("SELECT count(*) FROM t WHERE n = 2").fetchone() == (0,)
    finally:
        second.kill()


SPILLING = (
    "INSERT INTO filled SELECT g, 'text ' || g FROM generate_series(1, 3000000) g",
    "UPDATE filled SET label = label || '!', id = id + 10000000",
    pytest.param(
        "INSERT INTO filled SELECT g, 'other ' || g FROM generate_series(100000, 3000000) g ON CONFLICT (id) DO UPDATE "
        "SET label = excluded.label",
        marks=LONG,
    ),
    pytest.param(
        "WITH made AS (INSERT INTO filled SELECT g, 'text ' || g FROM generate_series(300000, 3000000) g RETURNING *) "
        "SELECT count(DISTINCT label) FROM made",
        marks=LONG,
    ),
)
"""Statements that keep much more than their budget."""


def _held(pid: int, folder: Path) -> int:
    """Bytes of the files without a name, and of those below `folder`, that the process `pid` has."""
    total = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.readlink(descriptor).startswith(str(folder)) and "(deleted)" in os.readlink(descriptor):
                total += descriptor.stat().st_size
    return total


@pytest.mark.parametrize("statement", SPILLING)
def test_nothing_stays_of_a_killed_statements_temporary_files(tmp_path: Path, statement: str) -> None:
    """Killed while it has files beyond its memory, a statement has changed nothing, and the disk is as it was."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    environment = {**AUDITED, "TMPDIR": str(scratch)}
    server = TidegateServer(tmp_path / "data", arguments=("--spark-start", "lazy"), environment=environment)
    server.start()
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE filled (id bigint PRIMARY KEY, label text UNIQUE)")
            connection.execute("INSERT INTO filled SELECT g, 'text ' || g FROM generate_series(1, 200000) g")
            before = connection.execute("SELECT count(*), sum(id), max(label) FROM filled").fetchall()
        assert server.process is not None
        quiet = _held(server.process.pid, scratch)

        def run() -> None:
            with contextlib.suppress(psycopg.Error), psycopg.connect(server.dsn(), autocommit=True) as session:
                session.execute("SET work_mem = '64kB'")
                session.execute(statement.encode())

        thread = threading.Thread(target=run)
        thread.start()
        held = quiet
        while held < quiet + 100_000 and thread.is_alive():
            held = _held(server.process.pid, scratch)
        server.kill()
        thread.join()
        assert held > quiet, "the statement had nothing in files"
        server.start()
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            assert connection.execute("SELECT count(*), sum(id), max(label) FROM filled").fetchall() == before
            connection.execute("INSERT INTO filled VALUES (-1, 'after')")
        assert _held(server.process.pid, scratch) <= quiet + 10_000
        server.stop()
        assert not [file for file in scratch.rglob("*") if file.is_file()]
    finally:
        server.kill()
