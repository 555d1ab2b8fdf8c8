"""What disturbs others: each of `LOADS` keeps a server busy in one way, from the moment its context is entered.

The sessions of a load are threads of this process, which has given way to others (`os.nice`): what is measured is what
the server does to its sessions, and not what clients on one machine take from each other.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import psycopg
from msgspec import Struct

from bench.tpch.load import queries

RUNAWAY = "SELECT sum(a.i * b.i % 7) FROM generate_series(1, 1000000) a(i), generate_series(1, 1000000) b(i)"
WIDE = ", ".join(f"g + {column} AS c{column}" for column in range(10))
CHUNK_ROWS = 10_000


class Size(Struct, frozen=True, kw_only=True):
    """How much is done: rows of a load, sessions that do nothing, characters of a long text."""

    rows: int
    idle: int
    text: int


class Load:
    """What one kind of load needs: the server, how much, and what its threads look at to end."""

    def __init__(self, dsn: str, size: Size) -> None:
        self.dsn = dsn
        self.size = size
        self.over = threading.Event()
        self.done = 0
        """Statements that the load has finished."""
        self.errors: list[str] = []

    @contextmanager
    def session(self) -> Iterator[psycopg.Connection]:
        """A connection that is given up, with what runs on it, when the load is over."""
        connection = psycopg.connect(self.dsn, autocommit=True)
        try:
            yield connection
        finally:
            connection.close()


Work = Callable[[Load, psycopg.Connection, int], None]
"""What a session does again and again; its number."""


def again(text: str) -> Work:
    """A session that sends one statement again and again."""

    def work(load: Load, connection: psycopg.Connection, number: int) -> None:
        connection.execute(text.encode())

    return work


def tpch(load: Load, connection: psycopg.Connection, number: int) -> None:
    """All queries, on Spark."""
    connection.execute("SET engine = spark")
    for _, text in queries():
        if load.over.is_set():
            return
        connection.execute(text.encode()).fetchall()
        load.done += 1


def copy_from(load: Load, connection: psycopg.Connection, number: int) -> None:
    """A load by COPY, of rows of ten columns."""
    connection.execute("TRUNCATE loaded")
    row = "\t".join(["1234567"] * 10) + "\n"
    chunk = (row * CHUNK_ROWS).encode()
    with connection.cursor().copy("COPY loaded FROM STDIN") as copy:
        for _ in range(load.size.rows // CHUNK_ROWS):
            copy.write(chunk)
            if load.over.is_set():
                return


def copy_to(load: Load, connection: psycopg.Connection, number: int) -> None:
    """A table of ten columns, as text."""
    with connection.cursor().copy("COPY wide TO STDOUT") as copy:
        for _ in copy:
            if load.over.is_set():
                return


def insert_select(load: Load, connection: psycopg.Connection, number: int) -> None:
    """A load by INSERT ... SELECT."""
    connection.execute("TRUNCATE loaded")
    connection.execute(f"INSERT INTO loaded SELECT {WIDE} FROM generate_series(1, {load.size.rows}) t(g)".encode())


def write(load: Load, connection: psycopg.Connection, number: int) -> None:
    """One of many writers: a row, then a change of it."""
    key = number * 1_000_000 + load.done
    connection.execute("INSERT INTO written VALUES (%s, 0)", (key,))
    connection.execute("UPDATE written SET n = n + 1 WHERE id = %s", (key,))


def idle(load: Load, connection: psycopg.Connection, number: int) -> None:
    """A transaction that has read, and does nothing then."""
    connection.execute("BEGIN; SELECT n FROM probed WHERE id = 1")
    load.over.wait()


def unread(load: Load, connection: psycopg.Connection, number: int) -> None:
    """A subscriber that does not read, while the first session changes what it subscribes to."""
    if number == 0:
        connection.execute("UPDATE wide SET c1 = c1 + 1 WHERE c0 < 1000")
        return
    connection.pgconn.send_query(b"COPY (SUBSCRIBE wide) TO STDOUT")
    load.over.wait()


def long_text(load: Load, connection: psycopg.Connection, number: int) -> None:
    """A text of some megabytes, in the statement."""
    connection.execute(f"SELECT length('{'x' * load.size.text}')".encode())


class Kind(Struct, frozen=True, kw_only=True):
    """A load: what its sessions do, how many there are, what they do first."""

    work: Work
    sessions: int = 1
    first: str = "SELECT 1"


LOADS: Mapping[str, Kind] = {
    "TPC-H on Spark": Kind(work=tpch),
    "COPY FROM": Kind(work=copy_from),
    "INSERT ... SELECT": Kind(work=insert_select),
    "fetch of all rows": Kind(work=again("SELECT * FROM wide")),
    "COPY TO": Kind(work=copy_to),
    "ten runaway queries": Kind(work=again(RUNAWAY), sessions=10, first="SET engine = local"),
    "64 writers": Kind(work=write, sessions=64),
    "idle in transaction": Kind(work=idle, sessions=-1),
    "a subscriber that does not read": Kind(work=unread, sessions=2),
    "a long text": Kind(work=long_text),
}


@contextmanager
def loaded(dsn: str, name: str, size: Size) -> Iterator[Load]:
    """The server under a load; the load has ended when the context has."""
    kind, load = LOADS[name], Load(dsn, size)
    count = size.idle if kind.sessions < 0 else kind.sessions
    with ExitStack() as sessions:
        connections = [sessions.enter_context(load.session()) for _ in range(count)]

        def work(number: int, connection: psycopg.Connection) -> None:
            try:
                connection.execute(kind.first.encode())
                while not load.over.is_set():
                    kind.work(load, connection, number)
                    load.done += 1
            except psycopg.Error as error:
                if not load.over.is_set():
                    load.errors.append(str(error))

        threads = [
            threading.Thread(target=work, args=pair, daemon=True) for pair in zip(itertools.count(), connections)
        ]
        for thread in threads:
            thread.start()
        try:
            yield load
        finally:
            load.over.set()
            for connection in connections:
                connection.cancel()
            deadline = time.monotonic() + 30
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))
