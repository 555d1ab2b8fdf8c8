"""Histories of clients over the wire, on two servers of which one is killed: the checker finds no anomaly in them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.rounds import servers
from tests.simulation.checker import (
    Append,
    Operation,
    ReadList,
    ReadRegister,
    Status,
    Transaction,
    Write,
    check,
)
from tests.support.server import TidegateServer

SESSIONS = 3
"""Sessions on each server."""

BEFORE_KILL = 300
AFTER_KILL = 150
"""Acknowledged transactions before the first server is killed, and on the other one afterwards."""

LISTS = 4
REGISTERS = 3
SETUP = (
    "CREATE TABLE lists (id int NOT NULL, items text NOT NULL)",
    f"INSERT INTO lists SELECT n, '' FROM generate_series(0, {LISTS - 1}) n",
    "CREATE TABLE registers (id int NOT NULL, item int)",
    f"INSERT INTO registers SELECT n, NULL FROM generate_series(0, {REGISTERS - 1}) n",
)


class History:
    """What all sessions did, as they saw it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0
        self.transactions: list[Transaction] = []
        self.acknowledged = threading.Semaphore(0)

    def unique(self) -> int:
        """A number that nobody else gets."""
        with self._lock:
            self._next += 1
            return self._next

    def add(self, operations: list[Operation], status: Status, began: float) -> None:
        """Note a transaction that has ended now, or of which one does not know whether it did (``info``)."""
        ended = None if status == "info" else time.monotonic()
        transaction = Transaction(
            id=self.unique(), operations=tuple(operations), status=status, began=began, ended=ended
        )
        with self._lock:
            self.transactions.append(transaction)
        if status == "ok":
            self.acknowledged.release()


class Session(threading.Thread):
    """Runs random transactions on one server until it is gone, or it is told to stop."""

    def __init__(self, server: TidegateServer, history: History, seed: int) -> None:
        super().__init__()
        self.server, self.history, self.chance = server, history, random.Random(seed)
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Runs in the thread."""
        try:
            with psycopg.connect(self.server.dsn()) as connection:
                connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
                while not self.stopping.is_set() and self._transact(connection):
                    pass
        except psycopg.OperationalError:
            return
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self.failure = error

    def _transact(self, connection: psycopg.Connection) -> bool:
        """One transaction; False once the server is gone."""
        operations: list[Operation] = []
        began = time.monotonic()
        committing = False
        try:
            for _ in range(self.chance.randrange(1, 4)):
                operations.append(self._operate(connection))  # noqa: PERF401 - what was done before an error counts
            committing = True
            connection.commit()
        except psycopg.errors.SerializationFailure:
            connection.rollback()
            self.history.add(operations, "fail", began)
            return True
        except psycopg.errors.StatementCompletionUnknown:
            connection.rollback()
            self.history.add(operations, "info", began)
            return True
        except psycopg.OperationalError:
            self.history.add(operations, "info" if committing else "fail", began)
            return False
        self.history.add(operations, "ok", began)
        return True

    def _operate(self, connection: psycopg.Connection) -> Operation:
        what, value = self.chance.randrange(4), self.history.unique()
        list_, register = self.chance.randrange(LISTS), self.chance.randrange(REGISTERS)
        match what:
            case 0:
                return read_list(connection, list_)
            case 1:
                connection.execute("UPDATE lists SET items = items || %s WHERE id = %s", (f"{value},", list_))
                return Append(f"list{list_}", value)
            case 2:
                return read_register(connection, register)
            case _:
                connection.execute("UPDATE registers SET item = %s WHERE id = %s", (value, register))
                return Write(f"register{register}", value)


def read_list(connection: psycopg.Connection, id: int) -> Operation:
    """Reads a list."""
    found = connection.execute("SELECT items FROM lists WHERE id = %s", (id,)).fetchone()
    assert found is not None
    return ReadList(f"list{id}", tuple(int(item) for item in found[0].split(",")[:-1]))


def read_register(connection: psycopg.Connection, id: int) -> Operation:
    """Reads a register."""
    found = connection.execute("SELECT item FROM registers WHERE id = %s", (id,)).fetchone()
    assert found is not None
    return ReadRegister(f"register{id}", found[0])


@pytest.fixture(params=["sqlite", "postgres"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[TidegateServer, TidegateServer]]:
    """Two servers on one environment, started."""
    with servers(request.param, tmp_path) as started:
        for server in started:
            server.start()
        yield started


def test_what_clients_of_two_servers_see_is_strictly_serializable(pair: tuple[TidegateServer, TidegateServer]) -> None:
    one, two = pair
    with psycopg.connect(one.dsn(), autocommit=True) as connection:
        for text in SETUP:
            connection.execute(text)
    history = History()
    sessions = [Session(server, history, seed) for seed, server in enumerate((one, two) * SESSIONS)]
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
        last = [read_list(connection, id) for id in range(LISTS)]
        last += [read_register(connection, id) for id in range(REGISTERS)]
    history.add(last, "ok", began)
    assert any(isinstance(operation, ReadList) and len(operation.values) > 3 for operation in last)
    assert [str(anomaly) for anomaly in check(history.transactions, linearizable_registers=True)] == []
    # The same history with one acknowledged append unseen at its end is none that could have happened.
    lost = next(n for n, operation in enumerate(last) if isinstance(operation, ReadList) and operation.values)
    seen = last[lost]
    assert isinstance(seen, ReadList)
    final = history.transactions.pop()
    last[lost] = ReadList(seen.key, seen.values[:-1])
    history.transactions.append(
        Transaction(id=final.id, operations=tuple(last), status="ok", began=final.began, ended=final.ended)
    )
    assert check(history.transactions, linearizable_registers=True)
