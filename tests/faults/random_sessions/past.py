"""What was seen once is looked up later, by anybody on any server: the past never changes."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Hashable, Sequence

from msgspec import Struct

from tests.faults.audit.client import AUTOCOMMIT, Client, Connection
from tests.faults.audit.key_loads import number
from tests.faults.audit.ledger import Effects, Ledger
from tests.faults.random_sessions.world import EXACT, STORED, SUM_KEPT, VIEWS, differs

MAX_MOMENTS = 400
"""So many moments are remembered; beyond that, new ones take the places of old ones."""

Rows = Counter[Hashable]

LOOKS = (
    "SELECT id, owner, balance FROM account",
    "SELECT k, n FROM tally",
    "SELECT id, g, v FROM entry",
    "SELECT * FROM by_group",
    "SELECT * FROM tallied",
    "SELECT * FROM by_hand",
)


class Moment(Struct, frozen=True):
    """What a query gave at a CSN."""

    csn: int
    query: str
    rows: Rows


class Moments:
    """What clients have seen, and when; any thread may add to it."""

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self._chance = random.Random(seed)
        self._all: list[Moment] = []

    def add(self, moment: Moment) -> None:
        """Remember it."""
        with self._lock:
            if len(self._all) < MAX_MOMENTS:
                self._all.append(moment)
            else:
                self._all[self._chance.randrange(MAX_MOMENTS)] = moment

    def some(self) -> Moment | None:
        """One of them, if there are any."""
        with self._lock:
            return self._chance.choice(self._all) if self._all else None


def rows_of(connection: Connection, query: str) -> Rows:
    """The rows of a query, as often as each is there, their values as text."""
    return Counter(as_text(row) for row in connection.execute(query.encode()))


def as_text(row: Sequence[object]) -> Hashable:
    """A row that can be compared with what COPY gives."""
    return tuple(None if value is None else {True: "t", False: "f"}[value] if isinstance(value, bool) else str(value)
                 for value in row)  # fmt: skip


class Past:
    """See the module."""

    name = "past"
    tables: Sequence[str] = ()
    rules: Sequence[str] = ()

    def __init__(self, moments: Moments, *, csns: int) -> None:
        """`csns`: of the commits of a run so many are looked at when it is over, spread over all."""
        self.moments, self.csns = moments, csns

    def step(self, client: Client) -> None:
        """See `Load`."""
        drawn, moment = client.chance.random(), self.moments.some()
        if moment is None or drawn < 0.4:
            client.transact(self.name, "repeatable read", lambda c, _: self._remember(client, c), ())
        elif drawn < 0.8:
            client.transact(self.name, AUTOCOMMIT, lambda c, _: look_back(client, c, moment), ())
        elif drawn < 0.9:
            client.transact(self.name, AUTOCOMMIT, lambda c, _: self._at(client, c, moment.csn), ())
        else:
            self._stored(client)

    def _remember(self, client: Client, connection: Connection) -> None:
        csn = number(connection, "SELECT tidegate.current_csn()")
        for query in client.chance.sample(LOOKS, 3):
            self.moments.add(Moment(csn, query, rows_of(connection, query)))

    def _at(self, client: Client, connection: Connection, csn: int) -> None:
        """At that moment sums were kept, and views were their queries."""
        for rule in (SUM_KEPT, differs(client.chance.choice(EXACT))):
            broken = connection.execute(f"{rule} AS OF {csn}".encode()).fetchall()
            if broken:
                client.ledger.fault(f"at {csn}: {broken[:3]} of {rule}")

    def _stored(self, client: Client) -> None:
        """A view that is not refreshed on commit is what its query gave at its frontier."""
        name = client.chance.choice(STORED)
        found: list[tuple[int, Rows]] = []

        def read(connection: Connection, _: Effects) -> None:
            if name == "by_hand" and client.chance.random() < 0.3:
                how = client.chance.choice(("", "CONCURRENTLY"))
                connection.execute(f"REFRESH MATERIALIZED VIEW {how} {name}".encode())
                return
            of_view = f"SELECT frontier FROM tidegate.materialized_views WHERE viewname = '{name}'"
            found.append((number(connection, of_view), rows_of(connection, f"SELECT * FROM {name}")))

        def compare(connection: Connection, _: Effects) -> None:
            csn, rows = found[0]
            expected = rows_of(connection, f"{VIEWS[name].definition} AS OF {csn}")
            if rows != expected:
                client.ledger.fault(f"{name} of {csn} has {rows - expected} more and {expected - rows} less")

        if client.transact(self.name, "repeatable read", read, ()) and found:
            client.transact(self.name, AUTOCOMMIT, compare, ())

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`: at the CSNs of commits the sum was kept, and views were their queries."""
        last = number(connection, "SELECT tidegate.current_csn()")
        first = number(connection, "SELECT min(frontier) FROM tidegate.materialized_views WHERE viewname = 'by_hand'")
        csns: set[int] = set()
        for table in ("account", "tally", "entry"):
            changes = f"SELECT DISTINCT tidegate_csn FROM tidegate.changes('{table}', {first}, {last})"
            csns.update(row[0] for row in connection.execute(changes.encode()))
        chosen = sorted(csns)[:: max(1, len(csns) // self.csns)]
        for csn in chosen:
            for rule in (SUM_KEPT, *(differs(name) for name in EXACT)):
                broken = connection.execute(f"{rule} AS OF {csn}".encode()).fetchall()
                if broken:
                    ledger.fault(f"at {csn}: {broken[:3]} of {rule}")


def look_back(client: Client, connection: Connection, moment: Moment) -> None:
    """A fault unless the moment is what it was."""
    if client.chance.random() < 0.5:
        rows = rows_of(connection, f"{moment.query} AS OF {moment.csn}")
    else:
        connection.execute(f"SET tidegate.as_of = {moment.csn}".encode())
        try:
            rows = rows_of(connection, moment.query)
        finally:
            if not connection.broken:
                connection.execute(b"RESET tidegate.as_of")
    if rows != moment.rows:
        more, less = rows - moment.rows, moment.rows - rows
        client.ledger.fault(f"{moment.query} at {moment.csn} has now {more} more and {less} less")
