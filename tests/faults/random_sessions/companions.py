"""Who works beside the clients: followers of subscriptions, one who cancels and ends sessions, one who watches them."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Sequence

import psycopg

from tests.faults.audit.client import GONE, Client, Connection
from tests.faults.audit.key_loads import number
from tests.faults.audit.ledger import Ledger
from tests.faults.audit.run import Companion, Scene
from tests.faults.random_sessions.past import Rows, as_text, rows_of
from tests.faults.random_sessions.world import VIEWS
from tests.support.server import TidegateServer

STUCK_S = 90.0
"""How long a session may be at one step: longer than a dead server's end takes to be known."""

FOLLOWED = (
    "SELECT id, owner, balance FROM account",
    "SELECT g, count(*) AS n, sum(v) AS s FROM entry GROUP BY g",
    "SELECT e.id, e.g, t.n FROM entry e JOIN tally t ON t.k = e.g WHERE e.id % 2 = 0",
    "SELECT * FROM by_group",
    VIEWS["unseen"].query,
)
COMPARED = 0.2
"""Share of the moments of a subscription that are compared with a snapshot."""


def connected(server: TidegateServer, name: str) -> Connection:
    """A session of `name`. Raises OperationalError."""
    return psycopg.connect(server.dsn(), autocommit=True, connect_timeout=10, application_name=name)


class Follower(Companion):
    """Follows a query by SUBSCRIBE, on any server, again and again from where it was: all adds up to snapshots."""

    def __init__(self, scene: Scene, number_: int) -> None:
        super().__init__(scene, f"follower {number_}")
        self.query = FOLLOWED[number_ % len(FOLLOWED)]
        self.chance = random.Random(f"{scene.seed} {number_}")
        self.at: int | None = None
        """Everything up to this CSN has come, and is in `rows`."""
        self.rows: Rows = Counter()
        self._coming: list[tuple[int, int, object]] = []
        self.compared = 0

    def work(self) -> None:
        """See `Companion`."""
        server = self.chance.choice(self.scene.servers)
        self._coming = []
        try:
            with connected(server, self.name) as connection:
                if self.chance.random() < 0.5:
                    self._copy(connection)
                else:
                    self._fetch(connection)
        except psycopg.errors.QueryCanceled:
            return
        except psycopg.errors.ObjectNotInPrerequisiteState:
            # A definition has changed that the query goes through.
            self.at, self.rows = None, Counter()
        except psycopg.OperationalError as error:
            if error.sqlstate not in GONE:
                raise
            self.stopping.wait(0.1)

    def _text(self) -> str:
        if self.at is None:
            return f"SUBSCRIBE ({self.query}) WITH (PROGRESS)"
        return f"SUBSCRIBE ({self.query}) WITH (PROGRESS, SNAPSHOT = false) AS OF {self.at}"

    def _copy(self, connection: Connection, until: str = "") -> None:
        """Until a timeout ends it."""
        if not until:
            connection.execute(f"SET statement_timeout = {self.chance.randint(300, 4000)}".encode())
        with connection.cursor().copy(f"COPY ({self._text()} {until}) TO STDOUT".encode()) as copy:
            for row in copy.rows():
                self._take(row[0], row[1] == "t", row[2], tuple(row[3:]))

    def _fetch(self, connection: Connection) -> None:
        """By a cursor, some at a time."""
        connection.execute(b"BEGIN")
        connection.execute(f"DECLARE followed CURSOR FOR {self._text()}".encode())
        for _ in range(self.chance.randint(1, 10)):
            some = self.chance.choice(("ALL", "1", "7"))
            fetched = connection.execute(f"FETCH {some} FROM followed WITH (timeout = '300ms')".encode()).fetchall()
            for row in fetched:
                self._take(row[0], row[1], row[2], as_text(row[3:]))
        connection.execute(b"COMMIT")

    def _take(self, csn: str | int, is_progress: bool, diff: str | int, row: object) -> None:
        csn, last = int(csn), self._coming[-1][0] if self._coming else self.at
        if last is not None and csn < last:
            self.fault(f"{csn} comes after {last}")
        if not is_progress:
            if self.at is not None and csn <= self.at:
                self.fault(f"{csn} comes again, after all up to {self.at} have come")
            self._coming.append((csn, int(diff), row))
            return
        for _, change, changed in self._coming:
            self.rows[changed] += change
        self._coming, self.at = [], csn
        wrong = {row: n for row, n in self.rows.items() if n < 0}
        if wrong:
            self.fault(f"{wrong} are gone that had not come, at {csn}")
        self.rows = +self.rows
        if self.chance.random() < COMPARED:
            self._compare(self.chance.choice(self.scene.servers))

    def _compare(self, server: TidegateServer) -> None:
        try:
            with connected(server, self.name) as connection:
                expected = rows_of(connection, f"{self.query} AS OF {self.at}")
        except psycopg.OperationalError as error:
            if error.sqlstate not in GONE and not isinstance(error, psycopg.errors.QueryCanceled):
                raise
            return
        self.compared += 1
        if self.rows != expected:
            more, less = self.rows - expected, expected - self.rows
            self.fault(f"at {self.at} it has {more} more and {less} less than the snapshot")

    def fault(self, text: str) -> None:
        """Something is wrong with the subscription."""
        self.scene.ledger.fault(f"subscription to {self.query}: {text}")

    def finish(self) -> None:
        """See `Companion`: what is still to come, up to the end, makes it the last snapshot."""
        server = self.scene.servers[0]
        self._coming = []
        with connected(server, self.name) as connection:
            end = number(connection, "SELECT tidegate.current_csn()")
            try:
                self._copy(connection, f"UP TO {end}")
            except psycopg.errors.ObjectNotInPrerequisiteState:
                self.at, self.rows, self._coming = None, Counter(), []
                self._copy(connection, f"UP TO {end}")
        if self._coming or (self.at or 0) < end:
            self.fault(f"it ended at {self.at} with {len(self._coming)} changes to come, and not at {end}")
        self._compare(server)


class Disturber(Companion):
    """Cancels what sessions do, and ends sessions."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, "disturber")
        self.chance = random.Random(scene.seed + 1)
        self.done: Counter[str] = Counter()

    def work(self) -> None:
        """See `Companion`."""
        self.stopping.wait(self.chance.random() * 0.5)
        try:
            with connected(self.chance.choice(self.scene.servers), self.name) as connection:
                found = connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'client %' OR application_name LIKE"
                    " 'follower %'"
                ).fetchall()
                if not found:
                    return
                (pid,) = self.chance.choice(found)
                how = self.chance.choices(("pg_cancel_backend", "pg_terminate_backend"), (3, 1))[0]
                self.done[how] += connection.execute(f"SELECT {how}({pid})".encode()).fetchone() == (True,)
        except psycopg.OperationalError as error:
            if error.sqlstate not in GONE:
                raise


class Watch(Companion):
    """Finds sessions that do not get on."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, "watch")

    def work(self) -> None:
        """See `Companion`."""
        self.stopping.wait(1.0)
        now = time.monotonic()
        watched: list[Client | Companion] = [*self.scene.clients, *self.scene.companions]
        for each in watched:
            if each is not self and each.is_alive() and now - each.began > STUCK_S:
                self.scene.ledger.fault(f"{each.name} has been at one step for more than {STUCK_S} s")


LOGGED_FAULTS = re.compile(r"XX000|a controller has failed|begins again|^[\w.]*(Error|Exception): ")
"""What servers must never have to say: errors that nobody has foreseen, with the last lines of their tracebacks."""


def look_into_logs(servers: Sequence[TidegateServer], ledger: Ledger) -> None:
    """A fault for each that servers have said."""
    for server in servers:
        for line in server.output().splitlines():
            if LOGGED_FAULTS.search(line):
                ledger.fault(f"the log says: {line[:300]}")
