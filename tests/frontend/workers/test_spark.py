"""`--workers 2`: both workers run their statements in one JVM, which outlives each of them."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from tests.frontend.workers.test_workers import Pair, connected_pair
from tests.support.server import TidegateServer, run_server

ARGUMENTS = (
    *("--spark-start", "lazy", "--workers", "2", "--set", "engine=spark"),
    *("--spark-master", "local[2]", "--spark-conf", "spark.driver.memory=1g"),
)

ENDLESS = "SELECT sum(i % 7) FROM generate_series(1, 1000000000000) AS i"
LONG = 200_000_000
"""Rows that keep Spark busy for some seconds."""

WHOLE = 20_000
COUNTS = [(key, WHOLE // 4) for key in range(4)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    with run_server(tmp_path_factory.mktemp("workers") / "data", arguments=ARGUMENTS) as running:
        with psycopg.connect(running.dsn(), autocommit=True) as connection:
            connection.execute("SET engine = local")
            connection.execute(f"CREATE TABLE t AS SELECT i, i % 4 AS k FROM generate_series(1, {WHOLE}) AS i".encode())
        yield running


@pytest.fixture
def pair(server: TidegateServer) -> Iterator[Pair]:
    with connected_pair(server) as (one, other):
        yield one, other


def counts(connection: psycopg.Connection[Any]) -> list[tuple[object, ...]]:
    return connection.execute("SELECT k, count(*) FROM t GROUP BY k ORDER BY k").fetchall()


def java(server: TidegateServer) -> list[int]:
    """The JVMs of the server: of its workers, or of nobody once the one that started it is gone."""
    folders = {str(folder) for folder in scratch(server)}
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE
        and any(folder in word for word in process.info["cmdline"] or () for folder in folders)
    ]


def scratch(server: TidegateServer) -> list[Path]:
    """The folders for temporary files of the server's processes, the one where they meet among them."""
    assert server.process is not None
    family = psutil.Process(server.process.pid)
    files = [file.path for process in (family, *family.children()) for file in process.open_files()]
    return sorted({Path(path).parent for path in files if path.endswith("alive.lock")})


def until(done: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def running(connection: psycopg.Connection[Any], statement: str) -> tuple[threading.Thread, list[object]]:
    """`statement` on a thread, and a list which gets its rows or its error."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(connection.execute(statement.encode()).fetchall())
        except psycopg.Error as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


def test_both_workers_run_in_one_jvm(server: TidegateServer, pair: Pair) -> None:
    for session in (*pair, *pair):
        assert counts(session) == COUNTS
    assert len(java(server)) == 1


def test_rows_are_written_and_errors_are_told_on_either(pair: Pair) -> None:
    here, there = pair
    here.execute("CREATE TABLE copied (i int, k int)")
    for number, session in enumerate(pair, start=1):
        session.execute("INSERT INTO copied SELECT i, k FROM t")
        assert here.execute("SELECT count(*), sum(k) FROM copied").fetchone() == (
            number * WHOLE,
            number * WHOLE * 3 // 2,
        )
        with pytest.raises(psycopg.errors.DivisionByZero):
            session.execute("SELECT sum(10 / (k - 2)) FROM t")
    there.execute("DROP TABLE copied")


def test_statements_of_both_run_side_by_side_and_are_cancelled_apart(pair: Pair) -> None:
    waits = [running(session, ENDLESS) for session in pair]
    time.sleep(1)
    for session, (thread, outcome) in zip(pair, waits, strict=True):
        assert outcome == []
        session.cancel()
        thread.join(60)
        assert isinstance(outcome[0], psycopg.errors.QueryCanceled)
    for session in pair:
        session.execute("SET statement_timeout = '700ms'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            session.execute(ENDLESS)
        session.execute("RESET statement_timeout")
    both = [running(session, "SELECT count(*) FROM t, generate_series(1, 1000) AS i") for session in pair]
    for thread, outcome in both:
        thread.join(120)
        assert outcome == [[(WHOLE * 1000,)]]


def test_a_jvm_that_dies_is_replaced_by_one_for_both(server: TidegateServer, pair: Pair) -> None:
    for session in pair:
        assert counts(session) == COUNTS
    (before,) = java(server)
    os.kill(before, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(before), "the JVM ends")
    for session in pair:
        assert counts(session) == COUNTS
    (after,) = java(server)
    assert after != before


@pytest.mark.parametrize("starter", [True, False], ids=["who started it", "who attached"])
def test_a_worker_that_is_killed_leaves_nothing_in_spark(server: TidegateServer, starter: bool) -> None:
    with connected_pair(server) as (here, there):
        assert counts(here) == COUNTS
        until(lambda: len(java(server)) == 1, "there is one JVM")
        (before,) = java(server)
        assert counts(there) == COUNTS
        first, second = (here, there) if worker_of(server, here) == psutil.Process(before).ppid() else (there, here)
        victim, other = (first, second) if starter else (second, first)
        lost, _ = running(victim, "CREATE TABLE lost AS SELECT i FROM generate_series(1, 1000000000000) AS i")
        kept, outcome = running(other, f"SELECT sum(i % 7) FROM generate_series(1, {LONG}) AS i")
        time.sleep(2)
        os.kill(worker_of(server, victim), signal.SIGKILL)
        lost.join(60)
        kept.join(120)
        assert outcome == [[(LONG // 7 * 21 + sum(range(LONG % 7 + 1)),)]]
        until(lambda: before not in java(server), "what the killed worker had is given up")
        assert counts(other) == COUNTS
    with connected_pair(server) as pair:
        for session in pair:
            assert counts(session) == COUNTS
        assert len(java(server)) == 1
        until(lambda: not list((server.data_dir / "blob" / ".spark").glob("*/*")), "no file is left behind")


def worker_of(server: TidegateServer, connection: psycopg.Connection[Any]) -> int:
    """The process that serves `connection`."""
    with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as duplicate:
        port = duplicate.getsockname()[1]
    (pid,) = [
        pid
        for pid in server.workers()
        if any(each.raddr and each.raddr.port == port for each in psutil.Process(pid).net_connections())
    ]
    return pid


def runs(pid: int) -> bool:
    """Whether a process has not ended: one that has may still wait for its parent to look."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_nothing_outlives_the_server(tmp_path: Path) -> None:
    with run_server(tmp_path / "data", arguments=ARGUMENTS) as server:
        with connected_pair(server) as pair:
            for session in pair:
                assert session.execute("SELECT count(*) FROM generate_series(1, 1000) AS i").fetchone() == (1000,)
        processes, folders = java(server), scratch(server)
        assert len(processes) == 1
        assert server.stop() == 0
        assert not any(runs(pid) for pid in processes)
        assert not any(folder.exists() for folder in folders)
        server.start()
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("SELECT count(*) FROM generate_series(1, 1000) AS i")
        processes = java(server)
        server.kill()
        until(lambda: not any(runs(pid) for pid in processes), "the JVM ends with the last worker")
