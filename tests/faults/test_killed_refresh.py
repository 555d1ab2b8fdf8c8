"""kill -9 in the middle of a refresh: each change is in a materialized view once, whoever goes on."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.faults.test_kill import CRASH_ROUNDS
from tests.support.server import TidegateServer

VIEWS = {
    "copied": "SELECT id, g, v FROM items WHERE v <> 3",
    "sums": "SELECT g, count(*) AS n, sum(id) AS s FROM items GROUP BY g",
    "pairs": "SELECT i.id, s.g FROM items i JOIN sums s ON s.g = i.g WHERE i.v < 4 AND s.n > 1",
    "above": "SELECT g, count(*) AS n, sum(id) AS s FROM pairs p GROUP BY g",
}
"""In a chain, and none with a key: what was brought in twice, or never, shows."""

REFRESHING = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'tidegate views' AND state = 'active'"


class Writer(threading.Thread):
    """Changes rows, one commit after another, until its server is gone."""

    def __init__(self, server: TidegateServer, first: int) -> None:
        super().__init__()
        self.server, self.next = server, first

    def run(self) -> None:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.server.dsn(), autocommit=True) as c:
            while True:
                c.execute("INSERT INTO items VALUES (%s, %s, %s)", (self.next, self.next % 20, self.next % 7))
                c.execute("DELETE FROM items WHERE id = %s", (self.next - 500,))
                self.next += 1


@contextlib.contextmanager
def servers(data_dir: Path, number: int) -> Iterator[list[TidegateServer]]:
    """So many servers over one data directory, started."""
    with ExitStack() as stack:
        found = []
        for each in range(number):
            server = TidegateServer(data_dir, arguments=("--spark-start", "lazy"))
            server.log = data_dir.with_name(f"{each}.log")
            server.start()
            stack.callback(server.kill)
            found.append(server)
        yield found


def kill_while_refreshing(found: list[TidegateServer], after_s: float) -> TidegateServer:
    """Kills that one of the servers that refreshes a view, so long after it was seen at it. Returns it."""
    with ExitStack() as stack:
        seen = [(each, stack.enter_context(psycopg.connect(each.dsn(), autocommit=True))) for each in found]
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for server, connection in seen:
                if connection.execute(REFRESHING).fetchone() is not None:
                    time.sleep(after_s)
                    server.kill()
                    return server
    raise AssertionError("no view is refreshed")


def rows_of(connection: psycopg.Connection[Any], query: str) -> Counter[Any]:
    return Counter(connection.execute(query.encode()).fetchall())


def check(connection: psycopg.Connection[Any]) -> None:
    """The views are what their queries give, from their stored rows too."""
    definitions = dict(VIEWS)
    for name, below in (("pairs", "sums s"), ("above", "pairs p")):
        definitions[name] = VIEWS[name].replace(below, f"({definitions[below[:-2]]}) {below[-1]}")
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    for name, query in definitions.items():
        assert rows_of(connection, f"SELECT * FROM {name}") == rows_of(connection, query), name
    connection.execute("COMMIT")
    deadline = time.monotonic() + 60
    while connection.execute("SELECT 1 FROM tidegate.materialized_views WHERE NOT is_exact").fetchone() is not None:
        assert time.monotonic() < deadline, connection.execute("TABLE tidegate.materialized_views").fetchall()
        time.sleep(0.05)
    for name, query in definitions.items():
        plan = [line for (line,) in connection.execute(f"EXPLAIN SELECT * FROM {name}".encode()).fetchall()]
        assert any("its stored rows (of CSN" in line for line in plan), plan
        assert rows_of(connection, f"SELECT * FROM {name}") == rows_of(connection, query), name


@pytest.mark.parametrize("number", [1, 2])
def test_each_change_is_in_a_view_once(tmp_path: Path, number: int) -> None:
    """With one server, which is started again; with two, of which the other one goes on."""
    choice = random.Random(number)
    with servers(tmp_path / "data", number) as found:
        with psycopg.connect(found[0].dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE items (id int PRIMARY KEY, g int NOT NULL, v int NOT NULL)")
            connection.execute("INSERT INTO items SELECT n, n % 20, n % 7 FROM generate_series(1, 3000) n")
            for name, query in VIEWS.items():
                connection.execute(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'on commit') AS {query}".encode())
        first = 10_000
        for _ in range(CRASH_ROUNDS):
            writers = [Writer(server, first + 100_000 * place) for place, server in enumerate(found)]
            for writer in writers:
                writer.start()
            killed = kill_while_refreshing(found, choice.random() * 0.03)
            others = [server for server in found if server is not killed]
            if not others:
                killed.start()
            with psycopg.connect((others or found)[0].dsn(), autocommit=True) as connection:
                connection.execute("UPDATE items SET v = v + 1 WHERE id % 100 = 7")
                if others:
                    # The other one is under load still.
                    connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                                       "application_name = '' AND pid <> pg_backend_pid()")  # fmt: skip
                for writer in writers:
                    writer.join(timeout=60)
                    assert not writer.is_alive()
                check(connection)
                methods = connection.execute("SELECT DISTINCT method FROM tidegate.materialized_views").fetchall()
                assert methods == [("incremental",)]
            if others:
                killed.start()
            first += 10_000
