"""Loads over keys: unique ones of every kind, foreign keys with every action, and a table large enough for files."""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.audit.client import AUTOCOMMIT, Client, Connection
from tests.faults.audit.ledger import Effects, Ledger

UNIQUE_VIOLATION = "23505"
EXCLUSION_VIOLATION = "23P01"
FOREIGN_KEY_VIOLATION = "23503"
RESTRICT_VIOLATION = "23001"


def changed(connection: Connection, effects: Effects, text: str, what: str, sign: int, most: int = 1) -> int:
    """Run a statement that adds (`sign` 1) or takes away (-1) up to `most` of `what`, by its count of rows."""
    before = dict(effects.bounds)
    effects.add(what, min(0, sign * most), max(0, sign * most))
    count = connection.execute(text.encode()).rowcount
    effects.bounds = before
    effects.add(what, sign * count)
    return count


def number(connection: Connection, text: str) -> int:
    """The one number that a query gives."""
    row = connection.execute(text.encode()).fetchone()
    assert row is not None
    return int(row[0])


def check_sum(connection: Connection, ledger: Ledger, what: str, text: str) -> None:
    """A fault unless the number that a query gives is within what the clients were told."""
    low, high = ledger.bounds(what)
    found = number(connection, text)
    if not low <= found <= high:
        ledger.fault(f"{what}: {found} is there, between {low} and {high} was acknowledged")


KEYS = 24
"""Keys that the clients contend for in each table."""


class UniqueKeys:
    """Rows come, go and change their keys, under each kind of unique key; no two ever have the same."""

    name = "unique keys"
    tables = (
        "CREATE TABLE u_primary (k int PRIMARY KEY, n int)",
        "CREATE TABLE u_nulls (k int UNIQUE NULLS NOT DISTINCT, n int)",
        "CREATE TABLE u_partial (k int, n int)",
        "CREATE UNIQUE INDEX ON u_partial (k) WHERE n % 2 = 0",
        "CREATE TABLE u_expression (k int, n int)",
        f"CREATE UNIQUE INDEX ON u_expression ((k % {KEYS // 2}))",
        "CREATE TABLE u_deferred (k int UNIQUE DEFERRABLE INITIALLY DEFERRED, n int)",
        "CREATE TABLE u_excluded (k int, n int, EXCLUDE USING btree (k WITH =))",
    )
    rules = (
        "SELECT 'u_primary', k FROM u_primary GROUP BY k HAVING count(*) > 1",
        "SELECT 'u_nulls', k FROM u_nulls GROUP BY k HAVING count(*) > 1",
        "SELECT 'u_partial', k FROM u_partial WHERE n % 2 = 0 GROUP BY k HAVING count(*) > 1",
        f"SELECT 'u_expression', k % {KEYS // 2} FROM u_expression GROUP BY 2 HAVING count(*) > 1",
        "SELECT 'u_deferred', k FROM u_deferred GROUP BY k HAVING count(*) > 1",
        "SELECT 'u_excluded', k FROM u_excluded GROUP BY k HAVING count(*) > 1",
    )
    kinds = ("primary", "nulls", "partial", "expression", "deferred", "excluded")

    def step(self, client: Client) -> None:
        """See `Load`."""
        kind = client.chance.choice(self.kinds)
        level = client.level()
        statements = 1 if level == AUTOCOMMIT else client.chance.randint(1, 3)

        def work(connection: Connection, effects: Effects) -> None:
            for _ in range(statements):
                self._statement(client, connection, effects, kind)

        expected = (UNIQUE_VIOLATION, EXCLUSION_VIOLATION)
        client.transact(self.name, level, work, expected, deferred=kind == "deferred")

    def _statement(self, client: Client, connection: Connection, effects: Effects, kind: str) -> None:
        table, chance = f"u_{kind}", client.chance
        key = str(chance.randrange(KEYS))
        if kind == "nulls" and chance.random() < 0.2:
            key = "NULL"
        where = "k IS NULL" if key == "NULL" else f"k = {key}"
        drawn = chance.random()
        if drawn < 0.45:
            text = f"INSERT INTO {table} VALUES ({key}, {chance.randrange(2)})"
            if kind != "deferred" and chance.random() < 0.4:
                text += " ON CONFLICT DO NOTHING"
            changed(connection, effects, text, table, 1)
        elif drawn < 0.75:
            connection.execute(f"UPDATE {table} SET k = {chance.randrange(KEYS)}, n = n + 1 WHERE {where}".encode())
        else:
            changed(connection, effects, f"DELETE FROM {table} WHERE {where}", table, -1, 1_000_000)

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`: no row lost or made, and each is found by its key."""
        for kind in self.kinds:
            table = f"u_{kind}"
            check_sum(connection, ledger, table, f"SELECT count(*) FROM {table}")
            rows = number(connection, f"SELECT count(*) FROM {table} WHERE k IS NOT NULL")
            by_key = sum(number(connection, f"SELECT count(*) FROM {table} WHERE k = {key}") for key in range(KEYS))
            if rows != by_key:
                ledger.fault(f"{table}: {rows} rows are there, {by_key} are found by key")


PARENTS = 12
ACTIONS = {
    "cascade": "ON DELETE CASCADE ON UPDATE CASCADE",
    "null": "ON DELETE SET NULL ON UPDATE SET NULL",
    "default": "ON DELETE SET DEFAULT ON UPDATE SET DEFAULT",
    "restrict": "ON DELETE RESTRICT ON UPDATE RESTRICT",
    "none": "ON DELETE NO ACTION",
    "deferred": "ON DELETE NO ACTION DEFERRABLE INITIALLY DEFERRED",
}


class ForeignKeys:
    """Parents and children come, go and move, under each action; no child ever refers to nothing."""

    name = "foreign keys"
    tables = (
        *(f"CREATE TABLE p_{action} (id int PRIMARY KEY)" for action in ACTIONS),
        *(f"INSERT INTO p_{action} VALUES (0)" for action in ACTIONS),
        *(
            f"CREATE TABLE c_{action} (id bigint PRIMARY KEY, p int DEFAULT 0 REFERENCES p_{action} {clause})"
            for action, clause in ACTIONS.items()
        ),
    )
    rules = tuple(
        f"SELECT 'c_{action}', c.id, c.p FROM c_{action} c LEFT JOIN p_{action} p ON p.id = c.p"
        " WHERE c.p IS NOT NULL AND p.id IS NULL"
        for action in ACTIONS
    )

    def step(self, client: Client) -> None:
        """See `Load`."""
        action = client.chance.choice(list(ACTIONS))
        level = client.level()
        statements = 1 if level == AUTOCOMMIT else client.chance.randint(1, 3)

        def work(connection: Connection, effects: Effects) -> None:
            for _ in range(statements):
                self._statement(client, connection, effects, action)

        expected = (FOREIGN_KEY_VIOLATION, RESTRICT_VIOLATION, UNIQUE_VIOLATION)
        client.transact(self.name, level, work, expected, deferred=action == "deferred")

    def _statement(self, client: Client, connection: Connection, effects: Effects, action: str) -> None:
        chance, parents, children = client.chance, f"p_{action}", f"c_{action}"
        key = chance.randint(1, PARENTS)
        match chance.randrange(7):
            case 0 | 1:
                changed(connection, effects, f"INSERT INTO {parents} VALUES ({key})", parents, 1)
            case 2:
                if action == "cascade":
                    # How many children go with their parent, only the table knows.
                    effects.add(children, -1_000_000, 0)
                changed(connection, effects, f"DELETE FROM {parents} WHERE id = {key}", parents, -1)
            case 3:
                connection.execute(f"UPDATE {parents} SET id = {chance.randint(1, PARENTS)} WHERE id = {key}".encode())
            case 4 | 5:
                child = client.ledger.unique()
                changed(connection, effects, f"INSERT INTO {children} VALUES ({child}, {key})", children, 1)
            case _:
                other = chance.randint(1, PARENTS)
                connection.execute(f"UPDATE {children} SET p = {other} WHERE p = {key} AND id % 4 = 0".encode())

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`."""
        for action in ACTIONS:
            found = number(connection, f"SELECT count(*) - 1 FROM p_{action}")
            low, high = ledger.bounds(f"p_{action}")
            if not low <= found <= high:
                ledger.fault(f"p_{action}: {found} rows are there, between {low} and {high} were acknowledged")
            check_sum(connection, ledger, f"c_{action}", f"SELECT count(*) FROM c_{action}")


LARGE_ROWS = 12_000
LARGE_LOADS = 3
"""Statements that load the large table, each a file of its own."""

LOOKED_UP = 500
"""Keys in one statement of the auditor's."""


class LargeTable:
    """A table whose rows are in files, with their key runs and filters: changed by key, then every row found by key."""

    name = "rows in files"
    tables = (
        "CREATE TABLE large (k int PRIMARY KEY, n int NOT NULL, label text NOT NULL)",
        "CREATE INDEX large_n ON large (n)",
        *(
            f"INSERT INTO large SELECT k, 0, md5(k::text) FROM generate_series({part}, {LARGE_ROWS - 1}, {LARGE_LOADS})"
            " k"
            for part in range(LARGE_LOADS)
        ),
    )
    rules: Sequence[str] = ("SELECT k FROM large GROUP BY k HAVING count(*) > 1",)

    def step(self, client: Client) -> None:
        """See `Load`."""
        chance = client.chance
        key = chance.randrange(LARGE_ROWS + LARGE_ROWS // 2)

        def work(connection: Connection, effects: Effects) -> None:
            match chance.randrange(4):
                case 0:
                    effects.add("large n", 0, 1)
                    count = connection.execute(f"UPDATE large SET n = n + 1 WHERE k = {key}".encode()).rowcount
                    effects.bounds["large n"] = count, count
                case 1:
                    text = f"INSERT INTO large VALUES ({key}, 0, 'later')"
                    changed(connection, effects, text, "large", 1)
                case 2:
                    text = f"DELETE FROM large WHERE k = {key} AND n = 0"
                    changed(connection, effects, text, "large", -1)
                case _:
                    effects.add("large", 0, 1)
                    effects.add("large n", 1, 1)
                    raised = "ON CONFLICT (k) DO UPDATE SET n = large.n + 1"
                    connection.execute(f"INSERT INTO large VALUES ({key}, 1, 'upsert') {raised}".encode())

        client.transact(self.name, client.level(), work, (UNIQUE_VIOLATION,))

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`: nothing acknowledged is lost, and no key is free that a row has."""
        low, high = ledger.bounds("large")
        rows = number(connection, "SELECT count(*) FROM large")
        if not low <= rows - LARGE_ROWS <= high:
            ledger.fault(f"large: {rows - LARGE_ROWS} rows more are there, between {low} and {high} were acknowledged")
        check_sum(connection, ledger, "large n", "SELECT coalesce(sum(n), 0) FROM large")
        keys = [row[0] for row in connection.execute("SELECT k FROM large ORDER BY label, k")]
        for first in range(0, len(keys), LOOKED_UP):
            wanted = keys[first : first + LOOKED_UP]
            listed = ", ".join(map(str, wanted))
            found = {row[0] for row in connection.execute(f"SELECT k FROM large WHERE k IN ({listed})".encode())}
            if found != set(wanted):
                ledger.fault(f"large: {sorted(set(wanted) - found)[:5]} are there and not found by key")
        again = "INSERT INTO large SELECT k, 0, label FROM large ON CONFLICT DO NOTHING"
        taken = connection.execute(again.encode()).rowcount
        if taken:
            ledger.fault(f"large: {taken} keys that rows have were taken for free")
        raised = number(connection, "SELECT count(*) FROM large WHERE n + 0 > 0")
        if raised != number(connection, "SELECT count(*) FROM large WHERE n > 0"):
            ledger.fault("large: the index on n does not find what the rows say")
