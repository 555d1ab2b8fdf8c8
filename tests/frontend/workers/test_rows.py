"""Rows and keys are waited for between the workers of a server as within one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.frontend.workers.test_locks import Behind, eventually
from tests.frontend.workers.test_workers import TWO, Pair, connected_pair
from tests.support.server import TidegateServer, run_server

READ_COMMITTED = ("--set", "default_transaction_isolation=read committed")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    with run_server(tmp_path_factory.mktemp("rows") / "data", arguments=(*TWO, *READ_COMMITTED)) as running:
        with psycopg.connect(running.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE r (id int PRIMARY KEY, n int NOT NULL)")
            connection.execute("INSERT INTO r SELECT g, 0 FROM generate_series(1, 100) g")
            connection.execute("CREATE TABLE child (id int PRIMARY KEY, r int REFERENCES r)")
        yield running


@pytest.fixture
def pair(server: TidegateServer) -> Iterator[Pair]:
    with connected_pair(server) as sessions:
        yield sessions


def test_a_second_update_waits_and_goes_on_with_the_newest_version(pair: Pair) -> None:
    here, there = pair
    with here.transaction():
        here.execute("UPDATE r SET n = n + 1 WHERE id = 1")
        waiting = Behind(there, "UPDATE r SET n = n + 10 WHERE id = 1")
        assert waiting.waits()
        activity = "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s"
        eventually(lambda: here.execute(activity, (there.info.backend_pid,)).fetchone() == ("Lock",))
        blocking = here.execute("SELECT pg_blocking_pids(%s)", (there.info.backend_pid,)).fetchone()
        assert blocking == ([here.info.backend_pid],)
        waits = "SELECT locktype, relation::regclass::text FROM pg_locks WHERE NOT granted AND pid = %s"
        assert here.execute(waits, (there.info.backend_pid,)).fetchall() == [("tuple", "r")]
    waiting.goes_on()
    assert here.execute("SELECT n FROM r WHERE id = 1").fetchone() == (11,)
    with there.transaction():
        there.execute("UPDATE r SET n = 100 WHERE id = 1")
        waiting = Behind(here, "UPDATE r SET n = n + 1 WHERE id = 1 AND n = 11")
        assert waiting.waits()
    waiting.goes_on()
    assert here.execute("SELECT n FROM r WHERE id = 1").fetchone() == (100,), "the condition is looked at again"


def test_higher_levels_fail_after_waiting(pair: Pair) -> None:
    here, there = pair
    with here.transaction():
        here.execute("UPDATE r SET n = n + 1 WHERE id = 2")
        there.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        there.execute("SELECT 1 FROM r WHERE id = 3")
        waiting = Behind(there, "UPDATE r SET n = n + 10 WHERE id = 2")
        assert waiting.waits()
    waiting.join(timeout=10)
    assert isinstance(waiting.error, psycopg.errors.SerializationFailure)
    there.execute("ROLLBACK")


def test_rows_that_the_other_worker_has_are_skipped_or_refused(pair: Pair) -> None:
    here, there = pair
    with here.transaction():
        here.execute("SELECT 1 FROM r WHERE id IN (10, 12) FOR UPDATE")
        with there.transaction():
            found = there.execute("SELECT id FROM r WHERE id BETWEEN 9 AND 13 ORDER BY id FOR UPDATE SKIP LOCKED")
            assert found.fetchall() == [(9,), (11,), (13,)]
        with pytest.raises(psycopg.errors.LockNotAvailable), there.transaction():
            there.execute("SELECT 1 FROM r WHERE id = 10 FOR SHARE NOWAIT")
        with here.transaction():
            # What was refused is not kept: the session that has it gets on.
            here.execute("UPDATE r SET n = 5 WHERE id BETWEEN 9 AND 13")
    with there.transaction():
        there.execute("SELECT 1 FROM r WHERE id = 10 FOR UPDATE NOWAIT")


def test_shared_row_locks_are_shared(pair: Pair) -> None:
    here, there = pair
    with here.transaction(), there.transaction():
        here.execute("SELECT 1 FROM r WHERE id = 20 FOR SHARE")
        there.execute("SELECT 1 FROM r WHERE id = 20 FOR SHARE NOWAIT")
    with here.transaction():
        here.execute("INSERT INTO child VALUES (1, 21)")
        there.execute("UPDATE r SET n = n + 1 WHERE id = 22")
        waiting = Behind(there, "DELETE FROM r WHERE id = 21")
        assert waiting.waits()
    waiting.join(timeout=10)
    assert isinstance(waiting.error, psycopg.errors.ForeignKeyViolation)


def test_a_key_that_the_other_worker_writes_is_waited_for(pair: Pair) -> None:
    here, there = pair
    for commits in (True, False):
        key = 1000 + commits
        here.execute("BEGIN")
        here.execute("INSERT INTO r VALUES (%s, 0)", (key,))
        waiting = Behind(there, f"INSERT INTO r VALUES ({key}, 1)")
        assert waiting.waits()
        here.execute("COMMIT" if commits else "ROLLBACK")
        waiting.join(timeout=10)
        assert isinstance(waiting.error, psycopg.errors.UniqueViolation) is commits
        assert here.execute("SELECT n FROM r WHERE id = %s", (key,)).fetchone() == (0 if commits else 1,)


def test_lock_timeout_and_deadlocks(pair: Pair) -> None:
    here, there = pair
    for session in pair:
        session.execute("SET deadlock_timeout = '100ms'")
    here.execute("BEGIN")
    here.execute("UPDATE r SET n = 1 WHERE id = 30")
    there.execute("SET lock_timeout = '300ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        there.execute("UPDATE r SET n = 2 WHERE id = 30")
    there.execute("SET lock_timeout = 0")
    there.execute("BEGIN")
    there.execute("UPDATE r SET n = 2 WHERE id = 31")
    one = Behind(here, "UPDATE r SET n = 1 WHERE id = 31")
    assert one.waits()
    other = Behind(there, "UPDATE r SET n = 2 WHERE id = 30")
    younger = max(pair, key=lambda session: session.info.backend_pid)
    failing, winning = (one, other) if younger is here else (other, one)
    failing.join(timeout=10)
    assert isinstance(failing.error, psycopg.errors.DeadlockDetected)
    failing.session.execute("ROLLBACK")
    winning.goes_on()
    winning.session.execute("COMMIT")


def test_no_block_of_read_committed_fails_because_somebody_was_first(server: TidegateServer) -> None:
    sessions = 6
    done = [0] * sessions
    stopping = threading.Event()
    failures: list[str] = []

    def count(number: int) -> None:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            while not stopping.is_set():
                try:
                    with connection.transaction():
                        connection.execute("UPDATE r SET n = n + 1 WHERE id = 50")
                        connection.execute("UPDATE r SET n = n + 1 WHERE id = %s", (60 + number % 2,))
                except psycopg.Error as error:
                    failures.append(repr(error))
                    return
                done[number] += 1

    threads = [threading.Thread(target=count, args=(number,)) for number in range(sessions)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while min(done) < 5 and not failures and time.monotonic() < deadline:
        time.sleep(0.05)
    stopping.set()
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive()
    assert failures == []
    assert min(done) >= 5
    with psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SELECT n FROM r WHERE id = 50").fetchone() == (sum(done),)
        assert connection.execute("SELECT sum(n) FROM r WHERE id IN (60, 61)").fetchone() == (sum(done),)
