"""Two servers over one data directory, one of them with two workers: each sees and ends the sessions of both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from tests.frontend.workers.test_workers import TWO, Pair, connected_pair, soon
from tests.support.server import run_server

Session = psycopg.Connection[tuple[object, ...]]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pair, Session]]:
    """Sessions of both workers of a server, and one of another server."""
    folder = tmp_path_factory.mktemp("servers") / "data"
    with ExitStack() as stack:
        one = stack.enter_context(run_server(folder, arguments=TWO))
        other = stack.enter_context(run_server(folder, arguments=("--spark-start", "lazy")))
        pair = stack.enter_context(connected_pair(one))
        yield pair, stack.enter_context(psycopg.connect(other.dsn(), autocommit=True))


def test_each_sees_all(sessions: tuple[Pair, Session]) -> None:
    (one, two), other = sessions
    pids = sorted(each.info.backend_pid for each in (one, two, other))
    assert len(set(pids)) == 3
    for each in (one, two, other):
        each.execute("SELECT 'seen'")
        assert each.execute("SELECT pid FROM pg_stat_activity ORDER BY pid").fetchall() == [(pid,) for pid in pids]
        servers = "SELECT count(DISTINCT server), count(DISTINCT process) FROM tidegate.sessions, tidegate.servers"
        assert each.execute(servers).fetchone() == (3, 3)
    with two.transaction():
        two.execute("SELECT pg_advisory_xact_lock(77)")
        held = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND granted"
        assert other.execute(held).fetchall() == [(two.info.backend_pid,)]


def test_each_ends_what_the_others_run(sessions: tuple[Pair, Session]) -> None:
    (one, two), other = sessions
    for here, there in ((other, one), (other, two), (one, other), (two, other)):
        pid = there.info.backend_pid
        timer = soon(lambda here=here, pid=pid: here.execute("SELECT pg_cancel_backend(%s)", (pid,)))  # type: ignore[misc]
        with pytest.raises(psycopg.errors.QueryCanceled):
            there.execute("SELECT pg_sleep(30)")
        timer.join()
    pid = two.info.backend_pid
    assert other.execute("SELECT pg_terminate_backend(%s)", (pid,)).fetchone() == (True,)
    with pytest.raises(psycopg.errors.AdminShutdown):
        two.execute("SELECT 1")
    two.close()
    notices: list[str | None] = []
    other.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    assert other.execute("SELECT pg_cancel_backend(%s)", (pid,)).fetchone() == (False,)
    assert notices == [f"PID {pid} is not a PostgreSQL backend process"]
