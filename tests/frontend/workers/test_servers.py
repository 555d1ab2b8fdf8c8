"""Two servers over one data directory, one of them with two workers: each sees and ends the sessions of both."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import LiteralString

import psycopg
import pytest

from tests.frontend.workers.test_workers import TWO, Pair, connected_pair, soon
from tests.support.server import TidegateServer, run_server

Session = psycopg.Connection[tuple[object, ...]]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TidegateServer, TidegateServer]]:
    """A server of two workers, and another one."""
    folder = tmp_path_factory.mktemp("servers") / "data"
    with ExitStack() as stack:
        one = stack.enter_context(run_server(folder, arguments=TWO))
        yield one, stack.enter_context(run_server(folder, arguments=("--spark-start", "lazy")))


@pytest.fixture(scope="module")
def sessions(servers: tuple[TidegateServer, TidegateServer]) -> Iterator[tuple[Pair, Session]]:
    """Sessions of both workers of a server, and one of another server."""
    one, other = servers
    with ExitStack() as stack:
        pair = stack.enter_context(connected_pair(one))
        yield pair, stack.enter_context(psycopg.connect(other.dsn(), autocommit=True))


@contextmanager
def balanced(ports: Sequence[int]) -> Iterator[int]:
    """A balancer: the port at which each connection goes to the next of `ports`."""
    turns = itertools.cycle(ports)

    def passed_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def accepting(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", next(turns)))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=passed_on, args=pair, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accepting, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("first", [0, 1])
def test_cancel_requests_reach_sessions_of_another_server(
    servers: tuple[TidegateServer, TidegateServer], first: int
) -> None:
    ports = [servers[first].port, servers[1 - first].port]
    with balanced(ports) as port:
        dsn = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
        with psycopg.connect(dsn, autocommit=True) as connection:
            timer = soon(connection.cancel_safe)
            with pytest.raises(psycopg.errors.QueryCanceled):
                connection.execute("SELECT pg_sleep(30)")
            timer.join()
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_who_waits_for_whom_is_seen_from_everywhere(sessions: tuple[Pair, Session]) -> None:
    (one, two), other = sessions

    def blocked(seen_from: Session, waiting: int, expected: tuple[object, ...]) -> tuple[object, ...] | None:
        # The two columns are looked up one after the other, while the wait begins.
        asked = "SELECT pg_blocking_pids(%s), (SELECT wait_event FROM pg_stat_activity WHERE pid = %s)"
        deadline = time.monotonic() + 20
        while (row := seen_from.execute(asked, (waiting, waiting)).fetchone()) is not None:
            if row == expected or time.monotonic() > deadline:
                return row
        return None

    one.execute("CREATE TABLE waited (n int)")
    ways = ("SELECT pg_advisory_xact_lock(4711)", "LOCK TABLE waited")
    for holder, waiter, way in ((one, other, ways[0]), (other, two, ways[0]), (one, two, ways[0]), (two, one, ways[1])):
        watchers = [each for each in (one, two, other) if each is not waiter and each is not holder]
        with holder.transaction():
            holder.execute(way)
            waiting = threading.Thread(target=_in_a_block, args=(waiter, way))
            waiting.start()
            expected = [holder.info.backend_pid], "advisory" if way is ways[0] else "relation"
            for watcher in (*watchers, holder):
                assert blocked(watcher, waiter.info.backend_pid, expected) == expected
        waiting.join(timeout=20)
        assert other.execute("SELECT pg_blocking_pids(%s)", (waiter.info.backend_pid,)).fetchone() == ([],)


def _in_a_block(session: Session, statement: LiteralString) -> None:
    with session.transaction():
        session.execute(statement)


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
