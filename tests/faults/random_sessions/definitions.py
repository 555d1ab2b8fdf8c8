"""Definitions change beside everything else: columns, indexes, views; tables of one client come, change and go."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tests.faults.audit.client import AUTOCOMMIT, LEVELS, Client, Connection
from tests.faults.audit.key_loads import number
from tests.faults.audit.ledger import Effects, Ledger
from tests.faults.random_sessions.past import Moment, Moments, rows_of
from tests.faults.random_sessions.world import TOTAL

SHARED = (
    "ALTER TABLE entry ADD COLUMN IF NOT EXISTS extra{n} int DEFAULT {n}",
    "ALTER TABLE entry DROP COLUMN IF EXISTS extra{n}",
    "CREATE INDEX IF NOT EXISTS entry_v{n} ON entry (v)",
    "DROP INDEX IF EXISTS entry_v{n}",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS also{n} WITH (refresh = 'on commit') AS"
    " SELECT id, v FROM entry WHERE g = {n}",
    "DROP MATERIALIZED VIEW IF EXISTS also{n}",
    "ALTER TABLE account ALTER COLUMN owner SET STATISTICS {n}00",
    "COMMENT ON TABLE tally IS '{n}'",
)
"""Statements about what all clients use; each may come at any time."""

ALONE = ("VACUUM entry", "ANALYZE account", "VACUUM")
MADE_ROWS = 20


class Definitions:
    """See the module. A table that a client makes is called `made_` and a number."""

    name = "definitions"
    tables: Sequence[str] = ()
    rules: Sequence[str] = ()

    def __init__(self, moments: Moments) -> None:
        self.moments = moments

    def step(self, client: Client) -> None:
        """See `Load`."""
        drawn = client.chance.random()
        if drawn < 0.25:
            self._shared(client)
        elif drawn < 0.3:
            text = client.chance.choice(ALONE)
            client.transact(self.name, AUTOCOMMIT, lambda c, _: run(c, text), ())
        elif drawn < 0.45:
            self._cloned(client)
        else:
            self._own(client)

    def _shared(self, client: Client) -> None:
        texts = [text.format(n=client.chance.randrange(2)) for text in client.chance.sample(SHARED, 2)]
        level = client.level()

        def work(connection: Connection, _: Effects) -> None:
            for text in texts[: 1 if level == AUTOCOMMIT else 2]:
                run(connection, text)

        client.transact(self.name, level, work, ())

    def _cloned(self, client: Client) -> None:
        """A clone of the accounts has their sum, then goes."""
        name = f"made_{client.ledger.unique()}"

        def work(connection: Connection, _: Effects) -> None:
            run(connection, f"CALL tidegate.clone_table('account', '{name}')")
            if number(connection, f"SELECT sum(balance) FROM {name}") != TOTAL:
                client.ledger.fault(f"{client.name} sees money made or lost in a clone")
            run(connection, f"DROP TABLE {name}")

        client.transact(self.name, client.chance.choice(LEVELS), work, ())

    def _own(self, client: Client) -> None:
        """A table is made, altered, put back to what it was, dropped, perhaps brought back; each step by itself, until
        one of them does not succeed."""
        name = f"made_{client.ledger.unique()}"
        query = f"SELECT a, b FROM {name}"

        def make(connection: Connection, effects: Effects) -> None:
            effects.add(name, 1)
            run(connection, f"CREATE TABLE {name} (a int PRIMARY KEY, b text)")
            run(connection, f"INSERT INTO {name} SELECT n, 'b' || n FROM generate_series(1, {MADE_ROWS}) n")
            run(connection, f"CREATE VIEW over_{name} AS SELECT b FROM {name} WHERE a > 3")

        if not client.transact(self.name, client.chance.choice(LEVELS), make, ()):
            return
        seen: list[Moment] = []

        def see(connection: Connection, _: Effects) -> None:
            seen.append(Moment(number(connection, "SELECT tidegate.current_csn()"), query, rows_of(connection, query)))

        if not client.transact(self.name, "repeatable read", see, ()) or not seen:
            return
        if seen[0].rows.total() != MADE_ROWS:
            client.ledger.fault(f"{name} was made with {seen[0].rows}")
        self.moments.add(seen[0])
        steps = [
            f"UPDATE {name} SET b = 'changed'",
            f"ALTER TABLE {name} ADD COLUMN c int NOT NULL DEFAULT 7",
            f"DELETE FROM {name} WHERE a % 2 = 0",
            f"ALTER TABLE {name} ADD CONSTRAINT positive CHECK (a > 0)",
            f"TRUNCATE {name}",
        ]
        for text in client.chance.sample(steps, 2):
            if not client.transact(self.name, AUTOCOMMIT, partial(_alone, text), ()):
                return
        if client.chance.random() < 0.5 and not self._restored(client, name, seen[0]):
            return

        def drop(connection: Connection, effects: Effects) -> None:
            effects.add(name, -1)
            run(connection, f"DROP TABLE {name} CASCADE")

        def undrop(connection: Connection, effects: Effects) -> None:
            effects.add(name, 1)
            run(connection, f"CALL tidegate.undrop_table('{name}')")

        dropped = client.transact(self.name, AUTOCOMMIT, drop, ())
        if dropped and client.chance.random() < 0.3 and client.transact(self.name, AUTOCOMMIT, undrop, ()):
            client.transact(self.name, AUTOCOMMIT, drop, ())

    def _restored(self, client: Client, name: str, moment: Moment) -> bool:
        """The table's rows become those of the moment again."""

        def restore(connection: Connection, _: Effects) -> None:
            run(connection, f"CALL tidegate.restore_table('{name}', {moment.csn})")
            keys = number(connection, f"SELECT count(*) FROM {name} WHERE a BETWEEN 1 AND {MADE_ROWS}")
            if keys != MADE_ROWS or number(connection, f"SELECT count(*) FROM {name}") != MADE_ROWS:
                client.ledger.fault(f"{name} was restored to {moment.csn} with {keys} rows")

        return client.transact(self.name, client.chance.choice(LEVELS), restore, ())

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`: the tables that are there are those that were made, and not dropped."""
        there = {row[0] for row in connection.execute("SELECT relname FROM pg_class WHERE relname LIKE 'made\\_%'"
                                                      " AND relkind = 'r'")}  # fmt: skip
        known = ledger.sums("made_")
        for name in sorted(there - set(known)):
            ledger.fault(f"table {name} is there, of which nobody was told")
        for name, (low, high) in known.items():
            if not low <= (name in there) <= high:
                ledger.fault(f"table {name} is {'there' if name in there else 'gone'}, {low} to {high} acknowledged")


def _alone(text: str, connection: Connection, _: Effects) -> None:
    run(connection, text)


def run(connection: Connection, text: str) -> None:
    """Run a statement without parameters."""
    connection.execute(text.encode())
