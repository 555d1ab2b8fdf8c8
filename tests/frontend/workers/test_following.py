"""A hot row that sessions of two workers change: statements follow decided ones within a worker, blocks never fail."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import psycopg

from tests.frontend.workers.test_workers import TWO
from tests.support.server import run_server

UPDATE = "UPDATE hot SET n = n + 1 WHERE id = 1"
UPSERT = "INSERT INTO hot VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = hot.n + 1"
BLOCKS = 150
"""How often each session commits. With a follower's row left to the other worker, one of so many failed each time."""


def test_a_row_that_is_followed_in_one_worker_is_waited_for_in_the_other(tmp_path: Path) -> None:
    failures: list[psycopg.Error] = []
    with run_server(tmp_path / "data", arguments=TWO) as server:

        def work(session: psycopg.Connection, number: int) -> None:
            texts = itertools.cycle([UPDATE, UPSERT])
            try:
                for _ in range(BLOCKS):
                    if number % 3:
                        session.execute(next(texts))
                    else:
                        with session.transaction():
                            session.execute(next(texts))
            except psycopg.Error as error:
                failures.append(error)

        sessions = [psycopg.connect(server.dsn(), autocommit=True) for _ in range(12)]
        for session in sessions:
            session.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        sessions[0].execute("CREATE TABLE hot (id int PRIMARY KEY, n int)")
        sessions[0].execute("INSERT INTO hot VALUES (1, 0)")
        threads = [threading.Thread(target=work, args=each) for each in zip(sessions, itertools.count(), strict=False)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert {session.info.backend_pid % 2 for session in sessions} == {0, 1}
        assert sessions[0].execute("SELECT n FROM hot").fetchone() == (12 * BLOCKS,)
        for session in sessions:
            session.close()
