"""Ways to look at what sessions do that are none of their tables: materialized views, the past, subscriptions.

What is seen in a view is a read of the transaction that reads the view. What is read of the past, and what a
subscription adds up to at a CSN, is a transaction of its own that has read everything: at some time between those at
which the CSN cannot have been given out yet, and must have been.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence

import psycopg

from tests.faults.history import LISTS, REGISTERS, History, Keyed, as_read, read_list
from tests.simulation.checker import Operation, ReadRegister
from tests.support.server import TidegateServer

_EVERYTHING = (
    "SELECT 'list' AS kind, id, items AS value FROM lists WHERE id < 100"
    " UNION ALL SELECT 'register', id, item::text FROM registers WHERE id < 100"
)

GONE = (None, "57P01", "57P02", "57P03")


def operations_of(rows: Mapping[tuple[str, int], str]) -> list[Operation]:
    """That all lists and registers were read, of which these are there."""
    registers = [rows.get(("register", id)) for id in range(REGISTERS)]
    return [
        *(as_read(id, rows.get(("list", id), "")) for id in range(LISTS)),
        *(ReadRegister(f"register{id}", None if v is None else int(v)) for id, v in enumerate(registers)),
    ]


def read_everything(connection: psycopg.Connection, query: str) -> list[Operation]:
    """Reads all lists and registers by one query."""
    return operations_of({(kind, id): value for kind, id, value in connection.execute(query.encode())})


class Viewed(Keyed):
    """The ways of `Keyed`, with views beside the tables."""

    setup: Sequence[str] = (
        *Keyed.setup,
        "CREATE MATERIALIZED VIEW shown WITH (refresh = 'on commit') AS SELECT id, items FROM lists WHERE id < 100",
        f"CREATE MATERIALIZED VIEW everything WITH (refresh = 'on commit') AS {_EVERYTHING}",
        "CREATE MATERIALIZED VIEW above WITH (refresh = 'on commit') AS"
        " SELECT e.kind, e.id, e.value FROM everything e LEFT JOIN shown s ON s.id = e.id AND e.kind = 'list'",
    )

    def operate(self, connection: psycopg.Connection, chance: random.Random, value: int) -> list[Operation]:
        """See `Ways`."""
        match chance.randrange(8):
            case 0:
                return [read_list(connection, chance.randrange(LISTS), "shown")]
            case 1:
                return read_everything(connection, "SELECT * FROM everything")
            case 2:
                return read_everything(connection, "SELECT * FROM above")
            case _:
                return super().operate(connection, chance, value)


class Onlooker(threading.Thread):
    """Looks again and again, on any of the servers, until it is told to stop."""

    def __init__(self, servers: Sequence[TidegateServer], history: History, seed: int) -> None:
        super().__init__(daemon=True)
        self.servers, self.history, self.chance = servers, history, random.Random(seed)
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Runs in the thread."""
        try:
            while not self.stopping.is_set():
                try:
                    with psycopg.connect(self.chance.choice(self.servers).dsn(), autocommit=True) as connection:
                        self.look(connection)
                except psycopg.errors.QueryCanceled:
                    continue
                except psycopg.OperationalError as error:
                    if error.sqlstate not in GONE:
                        raise
                    self.stopping.wait(0.1)
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self.failure = error

    def look(self, connection: psycopg.Connection) -> None:
        """Look for a while."""
        raise NotImplementedError


class Historian(Onlooker):
    """Asks which CSN it is, and reads everything as it was then, once or more, soon or late."""

    def __init__(self, servers: Sequence[TidegateServer], history: History, seed: int) -> None:
        super().__init__(servers, history, seed)
        self.moments: list[tuple[int, float, float]] = []

    def look(self, connection: psycopg.Connection) -> None:
        """See `Onlooker`."""
        for _ in range(10):
            if self.stopping.wait(0.02):
                return
            if len(self.moments) < 10 or self.chance.random() < 0.5:
                began = time.monotonic()
                found = connection.execute("SELECT tidegate.current_csn()").fetchone()
                assert found is not None
                self.moments.append((found[0], began, time.monotonic()))
            csn, began, ended = self.chance.choice(self.moments)
            query = self.chance.choice((_EVERYTHING, "SELECT * FROM everything", "SELECT * FROM above"))
            self.history.add(read_everything(connection, f"{query} AS OF {csn}"), "ok", began, ended=ended, of="past")


class Subscriber(Onlooker):
    """Subscribes to everything, and goes on from where it was on another server when it is interrupted."""

    def __init__(
        self, servers: Sequence[TidegateServer], history: History, seed: int, query: str = _EVERYTHING
    ) -> None:
        super().__init__(servers, history, seed)
        self.query = query
        self.began = time.monotonic()
        self.at: int | None = None
        self._rows: dict[tuple[str, int], str] = {}

    def look(self, connection: psycopg.Connection) -> None:
        """See `Onlooker`."""
        how = "" if self.at is None else f", SNAPSHOT = false) AS OF {self.at}"
        connection.execute(f"SET statement_timeout = {self.chance.randint(300, 2000)}".encode())
        text = f"COPY (SUBSCRIBE ({self.query}) WITH (PROGRESS{how or ')'}) TO STDOUT"
        coming: dict[tuple[str, int], str] = dict(self._rows)
        at = self.at
        with connection.cursor().copy(text.encode()) as copy:
            for csn_text, is_progress, diff, kind, id, value in copy.rows():
                csn = int(csn_text)
                if at is not None and csn > at:
                    # Nothing of this CSN is in there, and everything before.
                    self.history.add(operations_of(coming), "ok", self.began, of="subscription")
                at = csn
                if is_progress == "t":
                    self.at, self._rows = csn, dict(coming)
                elif diff == "1":
                    coming[kind, int(id)] = value
                elif coming.get((kind, int(id))) == value:
                    del coming[kind, int(id)]
