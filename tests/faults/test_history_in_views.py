"""Histories with views, subscriptions and looks into the past, at each isolation level, on one server, on two, and on
two workers, one of which is killed: the checker finds no anomaly in them that the level rules out."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.faults.history import History, Session
from tests.faults.history_in_views import Historian, Onlooker, Subscriber, Viewed, read_everything
from tests.faults.long import LONG
from tests.faults.rounds import servers as pair_of_servers
from tests.faults.test_history import ALLOWED, anomalies, lose_one_append
from tests.support.server import TidegateServer, run_server

SESSIONS = 4
BEFORE_KILL = 120
AFTER_KILL = 80
"""Acknowledged transactions before the kill, and afterwards."""

LOOKS = ("past", "subscription")
FEW_LOOKS = 10
"""What is looked at besides tables, and how many looks at each say little."""

ARGUMENTS = ("--spark-start", "lazy", "--set", "engine=local")


@contextmanager
def started(form: str, folder: Path) -> Iterator[list[TidegateServer]]:
    """The servers of a form, the first of which is to be killed."""
    if form == "two servers":
        with pair_of_servers("sqlite", folder) as pair:
            for server in pair:
                server.start()
            yield list(pair)
        return
    workers = ("--workers", "2") if form == "two workers" else ()
    with run_server(folder / "data", arguments=(*ARGUMENTS, *workers)) as server:
        yield [server]


def run(form: str, servers: list[TidegateServer], level: psycopg.IsolationLevel, seed: int) -> History:
    """What sessions and onlookers did and saw, and what is there at the end."""
    with psycopg.connect(servers[0].dsn(), autocommit=True) as connection:
        for text in Viewed.setup:
            connection.execute(text.encode())
    history = History()
    sessions: list[Session] = []

    def begin(some: list[TidegateServer]) -> None:
        first = seed + len(sessions)
        new = [Session(some[n % len(some)], history, first + n, Viewed(), level) for n in range(SESSIONS)]
        sessions.extend(new)
        for session in new:
            session.start()

    def reach(acknowledged: int) -> None:
        for _ in range(acknowledged):
            assert history.acknowledged.acquire(timeout=120), [each.failure for each in sessions]

    onlookers: list[Onlooker] = [
        Historian(servers, history, seed),
        Subscriber(servers, history, seed + 1),
        Subscriber(servers, history, seed + 2, "SELECT * FROM above"),
    ]
    for onlooker in onlookers:
        onlooker.start()
    begin(servers)
    reach(BEFORE_KILL)
    if form == "two workers":
        os.kill(servers[0].workers()[seed % 2], signal.SIGKILL)
    else:
        servers[0].kill()
        if form == "one server":
            servers[0].start()
    begin(servers[-1:])
    while history.acknowledged.acquire(blocking=False):
        pass
    reach(AFTER_KILL)
    # On a machine that does other things as well, sessions may have done theirs before anybody has looked.
    patience = time.monotonic() + 120
    while min(history.looks[of] for of in LOOKS) <= FEW_LOOKS and time.monotonic() < patience:
        time.sleep(0.1)
    working: list[Session | Onlooker] = [*sessions, *onlookers]
    for each in working:
        each.stopping.set()
    for each in working:
        each.join(timeout=120)
        assert not each.is_alive(), each
        assert each.failure is None, repr(each.failure)
    began = time.monotonic()
    with psycopg.connect(servers[-1].dsn()) as connection:
        history.add(read_everything(connection, "SELECT * FROM above"), "ok", began)
    return history


SNAPSHOTS = (psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE)
LEVELS = {
    **ALLOWED,
    # It shows what is decided before it is durable, which a kill takes back.
    psycopg.IsolationLevel.READ_UNCOMMITTED: (
        *ALLOWED[psycopg.IsolationLevel.READ_COMMITTED],
        *("G1a", "incompatible-order"),
    ),
}

LONGER = (psycopg.IsolationLevel.READ_UNCOMMITTED, psycopg.IsolationLevel.REPEATABLE_READ)
"""Left to the long run: each has a level beside it that rules out more, or as much of what is durable."""


@pytest.mark.parametrize(
    "level",
    [pytest.param(level, id=level.name, marks=LONG if level in LONGER else ()) for level in LEVELS],
)
@pytest.mark.parametrize("form", ["one server", "two servers", "two workers"])
def test_what_is_seen_in_any_way_is_one_history(form: str, level: psycopg.IsolationLevel, tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(2))
    with started(form, tmp_path) as servers:
        history = run(form, servers, level, seed)
    assert anomalies(history, level, LEVELS[level]) == [], f"seed {seed}"
    assert min(history.looks[of] for of in LOOKS) > FEW_LOOKS, history.looks
    if level in SNAPSHOTS:
        lose_one_append(history)
        assert anomalies(history, level, LEVELS[level])
