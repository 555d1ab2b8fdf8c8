"""Histories of clients over the wire, on two servers of which one is killed: the checker finds no anomaly in them that
the isolation level rules out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.history import History, Keyed, Plain, Session, Ways, read_all
from tests.faults.rounds import servers
from tests.simulation.checker import Operation, ReadList, Transaction, check
from tests.support.server import TidegateServer

SESSIONS = 3
"""Sessions on each server."""

BEFORE_KILL = 300
AFTER_KILL = 150
"""Acknowledged transactions before the first server is killed, and on the other one afterwards."""

ALLOWED: dict[psycopg.IsolationLevel, tuple[str, ...]] = {
    psycopg.IsolationLevel.READ_COMMITTED: ("internal", "G-single", "G-nonadjacent", "G2", "lost-update"),
    psycopg.IsolationLevel.REPEATABLE_READ: ("G2",),
    psycopg.IsolationLevel.SERIALIZABLE: (),
}
"""What a level does not rule out (Adya's PL-2, snapshot isolation, PL-3)."""


@pytest.fixture(params=["sqlite", "postgres"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[TidegateServer, TidegateServer]]:
    """Two servers on one environment, started."""
    with servers(request.param, tmp_path) as started:
        for server in started:
            server.start()
        yield started


def run(pair: tuple[TidegateServer, TidegateServer], ways: Ways, level: psycopg.IsolationLevel) -> History:
    """What sessions of both servers did, the first of which was killed, and what is there at the end."""
    one, two = pair
    with psycopg.connect(one.dsn(), autocommit=True) as connection:
        for text in ways.setup:
            connection.execute(text.encode())
    history = History()
    sessions = [Session(server, history, seed, ways, level) for seed, server in enumerate((one, two) * SESSIONS)]
    for session in sessions:
        session.start()
    for _ in range(BEFORE_KILL):
        assert history.acknowledged.acquire(timeout=120), [session.failure for session in sessions]
    one.kill()
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
    with psycopg.connect(two.dsn()) as connection:
        history.add(read_all(connection), "ok", began)
    return history


def anomalies(history: History, level: psycopg.IsolationLevel, allowed: tuple[str, ...] | None = None) -> list[str]:
    """What the checker finds that `level` rules out; `allowed`: what it does not, `ALLOWED` when not given."""
    allowed = ALLOWED[level] if allowed is None else allowed
    found = check(history.transactions, linearizable_registers=level is psycopg.IsolationLevel.SERIALIZABLE)
    return [str(anomaly) for anomaly in found if anomaly.name.removesuffix("-realtime") not in allowed]


def lose_one_append(history: History) -> None:
    """Let the last read not see what was appended first to some list: no history that could have happened, since others
    have seen it before what came after."""
    final = history.transactions.pop()
    last: list[Operation] = list(final.operations)
    lost = next(n for n, operation in enumerate(last) if isinstance(operation, ReadList) and len(operation.values) > 3)
    seen = last[lost]
    assert isinstance(seen, ReadList)
    last[lost] = ReadList(seen.key, seen.values[1:])
    history.transactions.append(
        Transaction(id=final.id, operations=tuple(last), status="ok", began=final.began, ended=final.ended)
    )


def test_what_clients_of_two_servers_see_is_strictly_serializable(pair: tuple[TidegateServer, TidegateServer]) -> None:
    level = psycopg.IsolationLevel.SERIALIZABLE
    history = run(pair, Plain(), level)
    assert anomalies(history, level) == []
    lose_one_append(history)
    assert anomalies(history, level)


@pytest.mark.parametrize("level", list(ALLOWED), ids=lambda level: level.name)
def test_ways_by_key_keep_each_level(level: psycopg.IsolationLevel, tmp_path: Path) -> None:
    with servers("sqlite", tmp_path) as pair:
        for server in pair:
            server.start()
        history = run(pair, Keyed(), level)
    assert anomalies(history, level) == []
    if level is not psycopg.IsolationLevel.READ_COMMITTED:
        # At READ COMMITTED the last transaction may have read before what it does not see.
        lose_one_append(history)
        assert anomalies(history, level)
