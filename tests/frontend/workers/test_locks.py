"""Locks on tables and advisory locks hold between the workers of a server as within one."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.frontend.workers.test_workers import TWO, Pair, connected_pair, is_served_by
from tests.support.server import TidegateServer, run_server

Session = psycopg.Connection[tuple[object, ...]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    with run_server(tmp_path_factory.mktemp("locks") / "data", arguments=TWO) as running:
        with psycopg.connect(running.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (n int)")
        yield running


@pytest.fixture
def pair(server: TidegateServer) -> Iterator[Pair]:
    with connected_pair(server) as sessions:
        yield sessions


class Behind(threading.Thread):
    """Runs a statement that is expected to wait."""

    def __init__(self, session: Session, text: str) -> None:
        super().__init__()
        self.session, self.text = session, text
        self.error: psycopg.Error | None = None
        self.start()

    def run(self) -> None:
        try:
            self.session.execute(self.text)
        except psycopg.Error as error:
            self.error = error

    def waits(self) -> bool:
        """Whether it does, for long enough to be believed."""
        time.sleep(0.3)
        return self.is_alive()

    def goes_on(self) -> None:
        self.join(timeout=10)
        assert not self.is_alive()
        assert self.error is None


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_advisory_lock_is_waited_for_until_the_other_worker_lets_go(pair: Pair) -> None:
    here, there = pair
    here.execute("SELECT pg_advisory_lock(1)")
    assert there.execute("SELECT pg_try_advisory_lock(1)").fetchone() == (False,)
    assert there.execute("SELECT pg_try_advisory_lock(2)").fetchone() == (True,)
    assert there.execute("SELECT pg_try_advisory_lock(0, 1)").fetchone() == (True,), "two integers are another lock"
    waiting = Behind(there, "SELECT pg_advisory_lock(1)")
    assert waiting.waits()
    activity = "SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE pid = %s"
    eventually(lambda: here.execute(activity, (there.info.backend_pid,)).fetchone() == ("Lock", "advisory"))
    blocking = here.execute("SELECT pg_blocking_pids(%s)", (there.info.backend_pid,)).fetchone()
    assert blocking == ([here.info.backend_pid],)
    found = here.execute("SELECT pid, granted FROM pg_locks WHERE objid = 1 AND objsubid = 1").fetchall()
    assert sorted(found) == sorted([(here.info.backend_pid, True), (there.info.backend_pid, False)])
    assert here.execute("SELECT pg_advisory_unlock(1)").fetchone() == (True,)
    waiting.goes_on()
    assert here.execute("SELECT pg_try_advisory_lock(1)").fetchone() == (False,)
    there.execute("SELECT pg_advisory_unlock_all()")
    assert here.execute("SELECT pg_try_advisory_xact_lock(1)").fetchone() == (True,)


def test_shared_advisory_locks_are_shared_between_workers(pair: Pair) -> None:
    here, there = pair
    for session in pair:
        session.execute("SELECT pg_advisory_lock_shared(3)")
    assert here.execute("SELECT pg_try_advisory_lock(3)").fetchone() == (False,)
    there.execute("SELECT pg_advisory_unlock_shared(3)")
    assert here.execute("SELECT pg_try_advisory_lock(3)").fetchone() == (True,)
    assert there.execute("SELECT pg_try_advisory_lock_shared(3)").fetchone() == (False,)
    here.execute("SELECT pg_advisory_unlock(3)")
    assert there.execute("SELECT pg_try_advisory_lock_shared(3)").fetchone() == (True,)
    assert there.execute("SELECT pg_try_advisory_lock(3)").fetchone() == (False,)
    here.execute("SELECT pg_advisory_unlock_all()")
    assert there.execute("SELECT pg_try_advisory_lock(3)").fetchone() == (True,)


def test_table_locks_exclude_the_statements_of_the_other_worker(pair: Pair) -> None:
    here, there = pair
    with here.transaction():
        here.execute("LOCK TABLE t IN SHARE MODE")
        assert there.execute("SELECT count(*) FROM t").fetchone() == (0,)
        with there.transaction():
            there.execute("LOCK TABLE t IN SHARE MODE NOWAIT")
        with pytest.raises(psycopg.errors.LockNotAvailable), there.transaction():
            there.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE NOWAIT")
        waiting = Behind(there, "INSERT INTO t VALUES (1)")
        assert waiting.waits()
    waiting.goes_on()
    with here.transaction():
        here.execute("SELECT count(*) FROM t")
        waiting = Behind(there, "ALTER TABLE t ADD COLUMN m int")
        assert waiting.waits()
        assert here.execute("SELECT * FROM t").fetchall() == [(1,)]
    waiting.goes_on()
    assert here.execute("SELECT * FROM t").fetchall() == [(1, None)]
    there.execute("DELETE FROM t")
    there.execute("ALTER TABLE t DROP COLUMN m")


def test_a_savepoint_that_is_rolled_back_gives_its_rows_to_the_other_worker(pair: Pair) -> None:
    one, two = pair
    one.execute("CREATE TABLE rolled (k int PRIMARY KEY, v int)")
    one.execute("INSERT INTO rolled VALUES (1, 1), (2, 2), (3, 3)")
    one.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
    one.execute("SELECT v FROM rolled WHERE k = 1 FOR SHARE")
    one.execute("UPDATE rolled SET v = 20 WHERE k = 2")
    one.execute("SAVEPOINT s")
    one.execute("UPDATE rolled SET v = v + 10")
    behind = Behind(two, "UPDATE rolled SET v = v + 100 WHERE k = 3")
    assert behind.waits()
    one.execute("ROLLBACK TO s")
    behind.goes_on()
    for kept in (1, 2):
        with pytest.raises(psycopg.errors.LockNotAvailable):
            two.execute(f"SELECT v FROM rolled WHERE k = {kept} FOR UPDATE NOWAIT")
    one.execute("COMMIT")
    assert two.execute("SELECT k, v FROM rolled ORDER BY k").fetchall() == [(1, 1), (2, 20), (3, 103)]


def test_lock_timeout_and_cancel_end_the_waiting(pair: Pair) -> None:
    here, there = pair
    here.execute("SELECT pg_advisory_lock(4)")
    there.execute("SET lock_timeout = '200ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        there.execute("SELECT pg_advisory_lock(4)")
    there.execute("SET lock_timeout = 0")
    waiting = Behind(there, "SELECT pg_advisory_lock(4)")
    assert waiting.waits()
    there.cancel()
    waiting.join(timeout=10)
    assert isinstance(waiting.error, psycopg.errors.QueryCanceled)
    here.execute("SELECT pg_advisory_unlock(4)")
    assert here.execute("SELECT pg_try_advisory_lock(4)").fetchone() == (True,), "nobody waits, nobody has it"


def test_a_deadlock_between_workers_ends_one_of_them(pair: Pair) -> None:
    here, there = pair
    here.execute("SET deadlock_timeout = '100ms'")
    there.execute("SET deadlock_timeout = '100ms'")
    here.execute("SELECT pg_advisory_lock(5)")
    there.execute("SELECT pg_advisory_lock(6)")
    waiting = Behind(here, "SELECT pg_advisory_lock(6)")
    assert waiting.waits()
    other = Behind(there, "SELECT pg_advisory_lock(5)")
    younger, older = sorted(pair, key=lambda session: -session.info.backend_pid)
    failing, winning = (waiting, other) if younger is here else (other, waiting)
    failing.join(timeout=10)
    assert isinstance(failing.error, psycopg.errors.DeadlockDetected)
    detail = failing.error.diag.message_detail or ""
    for one, another in ((younger, older), (older, younger)):
        pattern = f"Process {one.info.backend_pid} waits for ExclusiveLock on advisory lock ["
        assert pattern in detail
        assert f"blocked by process {another.info.backend_pid}." in detail
    younger.execute("SELECT pg_advisory_unlock_all()")
    winning.goes_on()


def test_two_workers_whose_sessions_queue_for_one_lock_take_turns(server: TidegateServer) -> None:
    sessions = [psycopg.connect(server.dsn(), autocommit=True) for _ in range(6)]
    taken = [0] * len(sessions)
    inside: list[int] = []
    stopping = threading.Event()

    def work(number: int) -> None:
        while not stopping.is_set():
            sessions[number].execute("SELECT pg_advisory_lock(7)")
            inside.append(number)
            assert inside == [number]
            taken[number] += 1
            inside.remove(number)
            sessions[number].execute("SELECT pg_advisory_unlock(7)")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(sessions))]
    for thread in threads:
        thread.start()
    eventually(lambda: min(taken) >= 5)
    stopping.set()
    for thread in threads:
        thread.join(timeout=20)
        assert not thread.is_alive()
    assert {session.info.backend_pid % 2 for session in sessions} == {0, 1}
    for session in sessions:
        session.close()


def test_locks_go_with_a_killed_worker_and_no_others(tmp_path: Path) -> None:
    with run_server(tmp_path / "data", arguments=TWO) as server, connected_pair(server) as (here, there):
        here.execute("SELECT pg_advisory_lock(8)")
        there.execute("SELECT pg_advisory_lock(9)")
        waiting = Behind(here, "SELECT pg_advisory_lock(9)")
        assert waiting.waits()
        os.kill(next(pid for pid in server.workers() if is_served_by(server, there, pid)), signal.SIGKILL)
        waiting.goes_on()
        with connected_pair(server) as (_, new):
            assert new.execute("SELECT pg_try_advisory_lock(8)").fetchone() == (False,)
            assert new.execute("SELECT pg_try_advisory_lock(9)").fetchone() == (False,)
