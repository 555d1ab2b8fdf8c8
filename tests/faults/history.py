"""What sessions over the wire did and saw, for the history checker: lists and registers, read and written at random.

`Plain` looks at all rows of tables without keys. `Keyed` goes the ways that an application goes: by key, by ranges of
an index, with FOR UPDATE before a change, and by upserts of rows that are not there at first.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import psycopg

from tests.simulation.checker import Append, Operation, ReadList, ReadRegister, Status, Transaction, Write
from tests.support.server import TidegateServer

LISTS = 4
REGISTERS = 3


class History:
    """What all sessions did, as they saw it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0
        self.transactions: list[Transaction] = []
        self.acknowledged = threading.Semaphore(0)
        self.looks = Counter[str]()

    def unique(self) -> int:
        """A number that nobody else gets."""
        with self._lock:
            self._next += 1
            return self._next

    def add(
        self, operations: list[Operation], status: Status, began: float, *, ended: float | None = None, of: str = ""
    ) -> None:
        """Note a transaction that has ended now (or then), or of which one does not know whether it did (``info``).
        `of`: in which way it has looked, when it was no transaction of a session."""
        ended = None if status == "info" else ended or time.monotonic()
        transaction = Transaction(
            id=self.unique(), operations=tuple(operations), status=status, began=began, ended=ended
        )
        with self._lock:
            self.transactions.append(transaction)
            self.looks[of] += 1
        if status == "ok" and not of:
            self.acknowledged.release()


class Ways(Protocol):
    """How sessions read and write."""

    @property
    def setup(self) -> Sequence[str]:
        """Statements that make the tables."""

    def operate(self, connection: psycopg.Connection, chance: random.Random, value: int) -> list[Operation]:
        """Read or write something; `value` is for nobody else."""


class Session(threading.Thread):
    """Runs random transactions on one server until it is gone, or it is told to stop."""

    def __init__(
        self,
        server: TidegateServer,
        history: History,
        seed: int,
        ways: Ways,
        level: psycopg.IsolationLevel = psycopg.IsolationLevel.SERIALIZABLE,
    ) -> None:
        super().__init__()
        self.server, self.history, self.chance, self.ways, self.level = (
            server,
            history,
            random.Random(seed),
            ways,
            level,
        )
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Runs in the thread."""
        try:
            with psycopg.connect(self.server.dsn()) as connection:
                connection.execute("SET deadlock_timeout = '50ms'")
                connection.commit()
                connection.isolation_level = self.level
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
                operations += self.ways.operate(connection, self.chance, self.history.unique())
            committing = True
            connection.commit()
        except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
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


class Plain:
    """See the module."""

    setup = (
        "CREATE TABLE lists (id int NOT NULL, items text NOT NULL)",
        f"INSERT INTO lists SELECT n, '' FROM generate_series(0, {LISTS - 1}) n",
        "CREATE TABLE registers (id int NOT NULL, item int)",
        f"INSERT INTO registers SELECT n, NULL FROM generate_series(0, {REGISTERS - 1}) n",
    )

    def operate(self, connection: psycopg.Connection, chance: random.Random, value: int) -> list[Operation]:
        """See `Ways`."""
        what = chance.randrange(4)
        id, register = chance.randrange(LISTS), chance.randrange(REGISTERS)
        match what:
            case 0:
                return [read_list(connection, id)]
            case 1:
                connection.execute("UPDATE lists SET items = items || %s WHERE id = %s", (f"{value},", id))
                return [Append(f"list{id}", value)]
            case 2:
                return [read_register(connection, register)]
            case _:
                connection.execute("UPDATE registers SET item = %s WHERE id = %s", (value, register))
                return [Write(f"register{register}", value)]


class Keyed:
    """See the module."""

    setup: Sequence[str] = (
        "CREATE TABLE lists (id int PRIMARY KEY, items text NOT NULL, touched int NOT NULL DEFAULT 0)",
        "CREATE INDEX ON lists (touched)",
        "CREATE TABLE registers (id int PRIMARY KEY, item int NOT NULL)",
        # Rows of others, so that the tables are in files and what is looked for is found by its key.
        "INSERT INTO lists SELECT n, repeat('x', 200), n FROM generate_series(1000, 6000) n",
        "INSERT INTO registers SELECT n, n FROM generate_series(1000, 21000) n",
    )

    def operate(self, connection: psycopg.Connection, chance: random.Random, value: int) -> list[Operation]:
        """See `Ways`."""
        id, register = chance.randrange(LISTS), chance.randrange(REGISTERS)
        match chance.randrange(8):
            case 0:
                return [read_list(connection, id)]
            case 1:
                return self._read_range(connection)
            case 2:
                return [self._append_locked(connection, id, value)]
            case 3 | 4:
                connection.execute(
                    "INSERT INTO lists (id, items) VALUES (%s, %s)"
                    " ON CONFLICT (id) DO UPDATE SET items = lists.items || excluded.items",
                    (id, f"{value},"),
                )
                return [Append(f"list{id}", value)]
            case 5:
                return [read_register(connection, register)]
            case 6:
                connection.execute(
                    "INSERT INTO registers VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET item = excluded.item",
                    (register, value),
                )
                return [Write(f"register{register}", value)]
            case _:
                done = connection.execute("UPDATE registers SET item = %s WHERE id = %s", (value, register)).rowcount
                return [Write(f"register{register}", value)] if done else [ReadRegister(f"register{register}", None)]

    def _read_range(self, connection: psycopg.Connection) -> list[Operation]:
        """All lists in one statement, by the order of their key."""
        rows = connection.execute("SELECT id, items FROM lists WHERE id < 100 ORDER BY id LIMIT 50").fetchall()
        found: dict[int, str] = dict(rows)
        return [as_read(id, found.get(id, "")) for id in range(LISTS)]

    def _append_locked(self, connection: psycopg.Connection, id: int, value: int) -> Operation:
        """Read, and write what was read and a value more; the lock keeps others from the row meanwhile."""
        found = connection.execute("SELECT items FROM lists WHERE id = %s FOR UPDATE", (id,)).fetchone()
        if found is None:
            return ReadList(f"list{id}", ())
        connection.execute("UPDATE lists SET items = %s WHERE id = %s", (f"{found[0]}{value},", id))
        return Append(f"list{id}", value)


def read_list(connection: psycopg.Connection, id: int, table: str = "lists") -> Operation:
    """Reads a list; one that is not there is empty."""
    found = connection.execute(f"SELECT items FROM {table} WHERE id = %s".encode(), (id,)).fetchone()
    return as_read(id, "" if found is None else found[0])


def as_read(id: int, items: str) -> Operation:
    """That a list was read, with these items as they are stored."""
    return ReadList(f"list{id}", tuple(int(item) for item in items.split(",")[:-1]))


def read_register(connection: psycopg.Connection, id: int) -> Operation:
    """Reads a register."""
    found = connection.execute("SELECT item FROM registers WHERE id = %s", (id,)).fetchone()
    return ReadRegister(f"register{id}", None if found is None else found[0])


def read_all(connection: psycopg.Connection) -> list[Operation]:
    """Reads every list and register."""
    lists = [read_list(connection, id) for id in range(LISTS)]
    return lists + [read_register(connection, id) for id in range(REGISTERS)]
