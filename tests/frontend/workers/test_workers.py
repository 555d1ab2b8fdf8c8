"""`--workers 2`: two processes behind one port are one server to their clients."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.server import ROOT, TidegateServer, run_server

TWO = ("--spark-start", "lazy", "--workers", "2")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    with run_server(tmp_path_factory.mktemp("workers") / "data", arguments=TWO) as running:
        yield running


Pair = tuple["psycopg.Connection[tuple[object, ...]]", "psycopg.Connection[tuple[object, ...]]"]


@pytest.fixture
def pair(server: TidegateServer) -> Iterator[Pair]:
    """A session of each worker."""
    with connected_pair(server) as (one, other):
        yield one, other


class connected_pair:
    """A session of each of two workers."""

    def __init__(self, server: TidegateServer) -> None:
        self._server = server

    def __enter__(self) -> Pair:
        # NOTE: a client goes to the worker with the fewest, so the second one goes to the other worker at the latest
        # when those before it are known to have left.
        self.one = psycopg.connect(self._server.dsn(), autocommit=True)
        deadline = time.monotonic() + 60  # One that has been killed needs a while to come back.
        while time.monotonic() < deadline:
            self.other = psycopg.connect(self._server.dsn(), autocommit=True)
            if self.one.info.backend_pid % 2 != self.other.info.backend_pid % 2:
                return self.one, self.other
            self.other.close()
            time.sleep(0.05)
        raise AssertionError("all clients go to one worker")

    def __exit__(self, *_: object) -> None:
        self.one.close()
        self.other.close()


def soon(act: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(0.3, act)
    timer.start()
    return timer


def test_clients_are_shared_out(server: TidegateServer) -> None:
    clients = [psycopg.connect(server.dsn()) for _ in range(8)]
    pids = [client.info.backend_pid for client in clients]
    for client in clients:
        client.close()
    assert 3 <= sum(pid % 2 for pid in pids) <= 5
    assert len(set(pids)) == 8


def test_what_one_has_committed_the_next_statement_on_the_other_sees(pair: Pair) -> None:
    here, there = pair
    here.execute("CREATE TABLE seen (n int PRIMARY KEY)")
    for number in range(50):
        writer, reader = (here, there) if number % 2 else (there, here)
        writer.execute("INSERT INTO seen VALUES (%s)", (number,))
        assert reader.execute("SELECT count(*) FROM seen").fetchone() == (number + 1,)
    there.execute("DROP TABLE seen")
    with pytest.raises(psycopg.errors.UndefinedTable):
        here.execute("SELECT * FROM seen")


def test_a_cancel_request_reaches_the_session_wherever_it_arrives(pair: Pair) -> None:
    for session in (*pair, *pair):
        timer = soon(session.cancel)
        with pytest.raises(psycopg.errors.QueryCanceled):
            session.execute("SELECT pg_sleep(30)")
        timer.join()


def test_a_cancel_request_with_a_wrong_secret_is_ignored(server: TidegateServer, pair: Pair) -> None:
    for session in (*pair, *pair):
        answers: list[object] = []

        def work(session: psycopg.Connection[tuple[object, ...]] = session) -> None:
            answers.append(session.execute("SELECT pg_sleep(0.6), 1").fetchone())  # noqa: B023

        working = threading.Thread(target=work)
        working.start()
        time.sleep(0.2)
        with socket.create_connection((server.host, server.port)) as raw:
            raw.sendall(struct.pack(">IIII", 16, 80877102, session.info.backend_pid, 1))
            assert raw.recv(1) == b""
        working.join()
        assert answers == [("", 1)]


def test_pg_stat_activity_and_pg_locks_are_those_of_all_workers(pair: Pair) -> None:
    here, there = pair
    there.execute("SELECT 'what the other one did'")
    rows = here.execute("SELECT pid, query, state FROM pg_stat_activity ORDER BY pid").fetchall()
    pids = sorted((here.info.backend_pid, there.info.backend_pid))
    assert [row[0] for row in rows] == pids
    assert (there.info.backend_pid, "SELECT 'what the other one did'", "idle") in rows
    with there.transaction():
        there.execute("SELECT pg_advisory_xact_lock(77)")
        found = here.execute("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 77").fetchall()
    assert found == [(there.info.backend_pid,)]
    # The functions of the catalog and of sizes see the same sessions.
    assert here.execute("SELECT count(*) FROM pg_stat_ssl").fetchone() == (2,)


def test_pg_cancel_backend_and_pg_terminate_backend_reach_the_other_worker(server: TidegateServer) -> None:
    with connected_pair(server) as (here, there):
        pid = there.info.backend_pid
        timer = soon(lambda: here.execute("SELECT pg_cancel_backend(%s)", (pid,)))
        with pytest.raises(psycopg.errors.QueryCanceled):
            there.execute("SELECT pg_sleep(30)")
        timer.join()
        assert here.execute("SELECT pg_terminate_backend(%s)", (pid,)).fetchone() == (True,)
        with pytest.raises(psycopg.errors.AdminShutdown):
            there.execute("SELECT 1")
        notices: list[str | None] = []
        here.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        assert here.execute("SELECT pg_cancel_backend(%s)", (pid,)).fetchone() == (False,)
        assert notices == [f"PID {pid} is not a PostgreSQL backend process"]


def test_notifications_reach_listeners_of_the_other_worker_in_order_and_only_once_committed(pair: Pair) -> None:
    here, there = pair
    there.execute("LISTEN told")
    with here.transaction():
        here.execute("NOTIFY told, 'one'")
        here.execute("NOTIFY told, 'two'")
        here.execute("NOTIFY told, 'one'")
        assert list(there.notifies(timeout=0.3)) == []
    with here.transaction(force_rollback=True):
        here.execute("NOTIFY told, 'undone'")
    # Whoever asks after the commit has them already.
    there.execute("SELECT 1")
    received = list(there.notifies(timeout=0.3))
    assert [(each.payload, each.pid) for each in received] == [
        ("one", here.info.backend_pid),
        ("two", here.info.backend_pid),
    ]


def test_settings_of_roles_and_databases_hold_for_new_sessions_of_every_worker(
    server: TidegateServer, pair: Pair
) -> None:
    pair[0].execute("ALTER ROLE postgres SET work_mem = '7MB'")
    pair[1].execute("ALTER DATABASE postgres SET lock_timeout = '11s'")
    try:
        for _ in range(4):
            with psycopg.connect(server.dsn()) as new:
                assert new.execute("SHOW work_mem").fetchone() == ("7MB",)
                assert new.execute("SHOW lock_timeout").fetchone() == ("11s",)
    finally:
        pair[0].execute("ALTER ROLE postgres RESET ALL")
        pair[0].execute("ALTER DATABASE postgres RESET ALL")


def test_sequences_count_as_one_between_workers(pair: Pair) -> None:
    here, there = pair
    here.execute("CREATE TABLE counted (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, worker int)")
    here.execute("CREATE SEQUENCE s INCREMENT 10")
    for number in range(1, 81):
        inserted = pair[number % 2].execute("INSERT INTO counted (worker) VALUES (%s) RETURNING id", (number % 2,))
        assert inserted.fetchone() == (number,)
    assert here.execute("SELECT nextval('s')").fetchone() == (1,)
    assert there.execute("SELECT setval('s', 500)").fetchone() == (500,)
    assert here.execute("SELECT nextval('s')").fetchone() == (510,)
    assert there.execute("SELECT last_value, is_called FROM s").fetchone() == (510, True)
    assert here.execute("SELECT currval('s')").fetchone() == (510,)
    there.execute("ALTER SEQUENCE s RESTART WITH 7")
    assert here.execute("SELECT nextval('s')").fetchone() == (7,)
    assert there.execute("SELECT nextval('s')").fetchone() == (17,)


def test_max_connections_is_for_all_workers(tmp_path: Path) -> None:
    with run_server(tmp_path / "data", arguments=(*TWO, "--max-connections", "3")) as small:
        clients = [psycopg.connect(small.dsn()) for _ in range(3)]
        for _ in range(3):
            with pytest.raises(psycopg.OperationalError, match="too many clients already"):
                psycopg.connect(small.dsn())
        clients.pop().close()
        for _ in range(100):
            try:
                clients.append(psycopg.connect(small.dsn()))
                break
            except psycopg.OperationalError:
                time.sleep(0.02)
        assert len(clients) == 3
        for client in clients:
            client.close()


def test_a_worker_that_is_killed_takes_only_its_sessions_with_it(tmp_path: Path) -> None:
    with run_server(tmp_path / "data", arguments=TWO) as server, connected_pair(server) as (here, there):
        here.execute("CREATE TABLE kept (n int PRIMARY KEY)")
        there.execute("INSERT INTO kept VALUES (1)")
        before = set(server.workers())
        served = {session.info.backend_pid for session in (here, there)}
        victim = next(pid for pid in before if is_served_by(server, there, pid))
        os.kill(victim, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            there.execute("SELECT 1")
        began = time.monotonic()
        here.execute("INSERT INTO kept VALUES (2)")
        assert here.execute("SELECT n FROM kept ORDER BY n").fetchall() == [(1,), (2,)]
        assert time.monotonic() - began < 20, "the others go on without waiting for a lease to run out"
        assert here.execute("SELECT pid FROM pg_stat_activity").fetchall() == [(here.info.backend_pid,)]
        # Another one takes its place, and gives out pids that nobody had.
        with connected_pair(server) as (_, new):
            assert new.info.backend_pid not in served
            assert new.execute("SELECT count(*) FROM kept").fetchone() == (2,)
        after = set(server.workers())
        assert len(after) == 2
        assert victim not in after
        assert server.stop() == 0
    assert "a worker has ended, another one takes its place" in server.output()


def is_served_by(server: TidegateServer, session: psycopg.Connection[tuple[object, ...]], worker: int) -> bool:
    """Whether process `worker` serves `session`: the first one started gives out the odd pids."""
    return (server.workers().index(worker) == 0) == (session.info.backend_pid % 2 == 1)


def test_sigterm_lets_transactions_end_and_a_second_signal_does_not(tmp_path: Path) -> None:
    with run_server(tmp_path / "data", arguments=TWO) as server, connected_pair(server) as (here, there):
        here.execute("CREATE TABLE t (n int)")
        there.execute("BEGIN")
        there.execute("INSERT INTO t VALUES (1)")
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1.0)
        with pytest.raises(psycopg.OperationalError):
            here.execute("SELECT 1")  # It was idle.
        there.execute("COMMIT")
        assert server.process.wait(timeout=30) == 0
    with run_server(tmp_path / "data", arguments=TWO) as server, connected_pair(server) as (here, there):
        assert here.execute("SELECT n FROM t").fetchall() == [(1,)]
        there.execute("BEGIN")
        there.execute("INSERT INTO t VALUES (2)")
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=20) == 0


def test_workers_end_with_their_supervisor(tmp_path: Path) -> None:
    with run_server(tmp_path / "data", arguments=TWO) as server:
        workers = server.workers()
        server.kill()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers):
            time.sleep(0.05)
        assert not any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers)


def test_what_keeps_a_worker_from_starting_is_said_once_and_is_the_exit_status(tmp_path: Path) -> None:
    (tmp_path / "strange.txt").write_text("not an environment")
    run = subprocess.run(
        [
            *(sys.executable, "-m", "frontend.command.main", "serve", "--workers", "2"),
            *("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr.count("is not empty and holds no Tidegate environment") == 1
    assert "psql" not in run.stdout


def test_sighup_reads_the_configuration_again(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text('settings = { lock_timeout = "1s" }\n')
    with run_server(tmp_path / "data", arguments=(*TWO, "--config", str(file))) as server:
        with psycopg.connect(server.dsn()) as old:
            assert old.execute("SHOW lock_timeout").fetchone() == ("1s",)
            file.write_text('settings = { lock_timeout = "2s" }\n')
            assert server.process is not None
            server.process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 10
            while server.output().count("was read again") < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
            assert server.output().count("was read again") == 2
            assert old.execute("SHOW lock_timeout").fetchone() == ("2s",)
        for _ in range(2):
            with psycopg.connect(server.dsn()) as new:
                assert new.execute("SHOW lock_timeout").fetchone() == ("2s",)
        file.write_text("nonsense = 1\n")
        server.process.send_signal(signal.SIGHUP)
        while server.output().count("was not read again") < 2 and time.monotonic() < deadline + 10:
            time.sleep(0.02)
        with psycopg.connect(server.dsn()) as new:
            assert new.execute("SHOW lock_timeout").fetchone() == ("2s",)
