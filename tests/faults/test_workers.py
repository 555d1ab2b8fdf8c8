"""kill -9 of one worker of several under load: nothing acknowledged is lost, and what clients see stays in order."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.history import History, Plain, Session, read_all
from tests.faults.test_stores import postgres, s3, stores_in
from tests.simulation.checker import ReadList, check
from tests.support.server import TidegateServer, run_server

__all__ = ["postgres", "s3"]

SESSIONS = 8
WORKERS = ("--spark-start", "lazy", "--set", "engine=local", "--workers", "2")
BEFORE_KILL = 200
AFTER_KILL = 150
"""Acknowledged transactions before a worker is killed, and afterwards."""


@pytest.fixture(params=["a folder", "PostgreSQL and S3"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TidegateServer]:
    stores: tuple[str, ...] = ()
    if request.param != "a folder":
        stores = stores_in(request.getfixturevalue("postgres"), request.getfixturevalue("s3"))
    with run_server(tmp_path / "data", arguments=(*WORKERS, *stores)) as running:
        yield running


def kill_one(server: TidegateServer, number: int) -> None:
    os.kill(server.workers()[number], signal.SIGKILL)


@pytest.mark.parametrize("victim", [0, 1])
def test_every_acknowledged_row_survives_once(server: TidegateServer, victim: int) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (session int NOT NULL, number int NOT NULL, PRIMARY KEY (session, number))")
    acknowledged: list[tuple[int, int]] = []
    doubtful: set[tuple[int, int]] = set()
    stopping, killed = threading.Event(), threading.Event()
    after = [0] * SESSIONS

    def insert(session: int) -> None:
        """Inserts rows until told to stop, connecting again when its worker is gone."""
        number = 0
        while not stopping.is_set():
            try:
                with psycopg.connect(server.dsn(), autocommit=True) as connection:
                    while not stopping.is_set():
                        number += 1
                        doubtful.add((session, number))
                        connection.execute("INSERT INTO t VALUES (%s, %s)", (session, number))
                        acknowledged.append((session, number))
                        doubtful.discard((session, number))
                        after[session] += killed.is_set()
            except psycopg.OperationalError:
                continue

    threads = [threading.Thread(target=insert, args=(session,)) for session in range(SESSIONS)]
    for thread in threads:
        thread.start()
    reach(lambda: len(acknowledged) >= BEFORE_KILL)
    kill_one(server, victim)
    killed.set()
    reach(lambda: min(after) >= 5)
    stopping.set()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    with psycopg.connect(server.dsn()) as connection:
        rows = connection.execute("SELECT session, number FROM t").fetchall()
    assert len(rows) == len(set(rows))
    assert set(acknowledged) <= set(rows)
    assert set(rows) <= set(acknowledged) | doubtful
    assert server.stop() == 0


def reach(done: object) -> None:
    assert callable(done)
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_clients_of_two_workers_see_is_strictly_serializable(server: TidegateServer) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        for text in Plain.setup:
            connection.execute(text.encode())
    history = History()
    sessions = [Session(server, history, seed, Plain()) for seed in range(6)]
    for session in sessions:
        session.start()
    for _ in range(BEFORE_KILL):
        assert history.acknowledged.acquire(timeout=120), [session.failure for session in sessions]
    kill_one(server, 1)
    sessions += [Session(server, history, seed, Plain()) for seed in range(6, 9)]
    for session in sessions[6:]:
        session.start()
    while history.acknowledged.acquire(blocking=False):
        pass
    for _ in range(AFTER_KILL):
        assert history.acknowledged.acquire(timeout=120), [session.failure for session in sessions]
    for session in sessions:
        session.stopping.set()
    for session in sessions:
        session.join()
        assert session.failure is None, repr(session.failure)
    began = time.monotonic()
    with psycopg.connect(server.dsn()) as connection:
        last = read_all(connection)
    history.add(last, "ok", began)
    assert any(isinstance(operation, ReadList) and len(operation.values) > 3 for operation in last)
    assert [str(anomaly) for anomaly in check(history.transactions, linearizable_registers=True)] == []
