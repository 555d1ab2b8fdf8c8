"""A client of an audit: runs loads at random on one server, and comes back when that was killed.

What a transaction may fail with follows from where it runs. A statement outside a block never fails with 40001: the
server runs it again. With one server the COMMIT of a READ COMMITTED block does not fail at all, since its statements
have waited for the others (docs/isolation.md), except where a deferred constraint says so. Any other error that the
load does not expect is a fault.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import psycopg

from tests.faults.audit.ledger import Effects, Ledger
from tests.support.server import TidegateServer

LEVELS = ("read committed", "repeatable read", "serializable")
AUTOCOMMIT = "autocommit"

SERIALIZATION_FAILURE = "40001"
DEADLOCK = "40P01"
UNKNOWN = "40003"
CANCELED = "57014"
GONE = frozenset({None, "57P01", "57P02", "57P03"})
"""What a client sees of a server that dies or has died; no SQLSTATE when the connection broke."""

REPLACED = frozenset({None, "57P01"})
"""What a client sees of a server that is replaced by a newer one."""

LOST = re.compile(
    "server closed the connection|terminating connection due to administrator|is shutting down|reset by peer"
)
"""What a client is told, when it connects at the moment at which the server leaves."""

BACK_S = 0.1
"""How long a client waits before it tries to reach a dead server again."""

Connection = psycopg.Connection[tuple[Any, ...]]
Work = Callable[[Connection, Effects], None]


class Load(Protocol):
    """One kind of work, its tables, and what must hold of them."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def tables(self) -> Sequence[str]:
        """Statements that make its tables."""

    @property
    def rules(self) -> Sequence[str]:
        """Queries that find what must not be, in any state that can be read: they give no row."""

    def step(self, client: Client) -> None:
        """One transaction."""

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """Compare what is there with what the clients were told, when nobody works."""


class Client(threading.Thread):
    """See the module. `servers` are in the environment; locks are seen by the clients of one. `replaced`: servers do
    not die, newer ones take their places, and clients lose their connections and nothing else: there is a server at
    every moment, and who was told that the connection ends (57P01) knows that what it has sent has not been done.
    `disturbed`: what it does may be cancelled at any time."""

    def __init__(
        self,
        number: int,
        server: TidegateServer,
        loads: Sequence[Load],
        ledger: Ledger,
        seed: int,
        *,
        servers: int,
        disturbed: bool = False,
        replaced: bool = False,
    ) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self.disturbed = disturbed
        self.server, self.loads, self.ledger = server, loads, ledger
        self.alone = servers == 1
        self.replaced = replaced
        self.zone = f"port {server.port}"
        """Names who sees its locks."""
        self.chance = random.Random(seed)
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.began = time.monotonic()
        """When it began with what it does now."""
        self._connection: Connection | None = None

    def run(self) -> None:
        """Runs in the thread."""
        try:
            while not self.stopping.is_set():
                self.began = time.monotonic()
                if self._connection is None:
                    self._connect()
                else:
                    self.chance.choice(self.loads).step(self)
        except BaseException as error:  # noqa: BLE001 - the audit reports it
            self.failure = error
        finally:
            if self._connection is not None:
                self._connection.close()

    def _connect(self) -> None:
        try:
            self._connection = psycopg.connect(
                self.server.dsn(), autocommit=True, connect_timeout=10, application_name=self.name
            )
            self._connection.execute("SET deadlock_timeout = '50ms'")
            if self.chance.random() < 0.5:
                self._connection.prepare_threshold = 0
        except psycopg.OperationalError as error:
            self._drop()
            if not self.replaced:
                self.stopping.wait(BACK_S)
            elif not LOST.search(str(error)):
                self.ledger.fault(f"connecting: {error.sqlstate} {error}")

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def level(self) -> str:
        """Some isolation level, or `AUTOCOMMIT`."""
        return self.chance.choice((AUTOCOMMIT, *LEVELS))

    def transact(self, load: str, level: str, work: Work, expected: Sequence[str], *, deferred: bool = False) -> bool:
        """Run `work` in a block of `level`, or by itself; whether it was acknowledged. `expected`: SQLSTATEs that it
        may fail with at any time; `deferred`: also at COMMIT, whatever the level."""
        connection = self._connection
        assert connection is not None
        block = level != AUTOCOMMIT
        effects = Effects()
        committing = not block
        try:
            if block:
                connection.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
            work(connection, effects)
            if block:
                committing = True
                tag = connection.execute("COMMIT").statusmessage
                if tag != "COMMIT":
                    self.ledger.fault(f"{load} at {level}: COMMIT said {tag}")
        except psycopg.Error as error:
            state = error.sqlstate
            if state in (REPLACED if self.replaced else GONE):
                self._drop()
                told = self.replaced and state is not None
                self.ledger.ended(load, level, "unknown" if committing and not told else "gone", effects)
                return False
            if state == UNKNOWN and committing:
                self.ledger.ended(load, level, "unknown", effects)
            else:
                self.ledger.ended(load, level, str(state), effects)
                self._judge(load, level, str(state), error, expected, at_commit=block and committing and not deferred)
            if block:
                self._roll_back(connection)
            return False
        self.ledger.ended(load, level, "ok", effects)
        return True

    def _roll_back(self, connection: Connection) -> None:
        try:
            connection.execute("ROLLBACK")
        except psycopg.OperationalError:
            self._drop()

    def _judge(
        self, load: str, level: str, state: str, error: psycopg.Error, expected: Sequence[str], *, at_commit: bool
    ) -> None:
        if self.disturbed and state == CANCELED:
            return
        what = f"{load} at {level}{', COMMIT' if at_commit else ''}: {state} {str(error).splitlines()[0]}"
        if at_commit and self.alone and level == "read committed":
            self.ledger.fault(what)
        elif state == SERIALIZATION_FAILURE:
            if level == AUTOCOMMIT or (self.alone and level == "read committed"):
                self.ledger.fault(what)
        elif state not in (DEADLOCK, *expected):
            self.ledger.fault(what)
