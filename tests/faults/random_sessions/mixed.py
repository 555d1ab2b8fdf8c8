"""Transactions of random statements: changes, reads, savepoints, prepared statements, cursors, locks, COPY, upserts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import psycopg

from tests.faults.audit.client import AUTOCOMMIT, Client, Connection
from tests.faults.audit.key_loads import UNIQUE_VIOLATION, changed, number
from tests.faults.audit.ledger import Effects, Ledger
from tests.faults.random_sessions.world import ACCOUNTS, EXACT, GROUPS, MAX_ENTRIES, SUM_KEPT, TALLIES, TOTAL, differs

LOCK_NOT_AVAILABLE = "55P03"

Operation = Callable[[Client, Connection, Effects], None]


def transfer(client: Client, connection: Connection, _: Effects) -> None:
    """Money moves in one statement."""
    source, target = client.chance.sample(range(ACCOUNTS), 2)
    amount = client.chance.randint(1, 90)
    connection.execute(
        f"UPDATE account SET balance = balance + CASE id WHEN {source} THEN -{amount} ELSE {amount} END"
        f" WHERE id IN ({source}, {target})".encode()
    )


def transfer_in_two(client: Client, connection: Connection, _: Effects) -> None:
    """Money moves in two statements, the second with what the first has returned."""
    source, target = client.chance.sample(range(ACCOUNTS), 2)
    taken = number(
        connection, f"UPDATE account SET balance = balance - {source + 1} WHERE id = {source} RETURNING {source + 1}"
    )
    connection.execute(f"UPDATE account SET balance = balance + {taken} WHERE id = {target}".encode())


def count(client: Client, connection: Connection, effects: Effects) -> None:
    """An upsert raises a tally, and is told a number that nobody else is."""
    key = client.chance.randrange(TALLIES)
    effects.add(f"tally {key}", 1)
    text = f"INSERT INTO tally VALUES ({key}, 1) ON CONFLICT (k) DO UPDATE SET n = tally.n + excluded.n"
    if client.chance.random() < 0.5:
        effects.result(f"tally {key}", number(connection, f"{text} RETURNING n"))
    else:
        connection.execute(text.encode())


def enter(client: Client, connection: Connection, effects: Effects) -> None:
    """Entries are inserted."""
    rows = client.chance.choice((1, 1, 2, 5, 30))
    first, group = client.ledger.unique() * 100, client.chance.randrange(GROUPS)
    effects.add("entries", rows)
    connection.execute(
        f"INSERT INTO entry (id, g, v) SELECT {first} + n, ({group} + n) % {GROUPS}, nullif(n % 7, 3)"
        f" FROM generate_series(0, {rows - 1}) n".encode()
    )


def copy_in(client: Client, connection: Connection, effects: Effects) -> None:
    """Entries come by COPY."""
    first = client.ledger.unique() * 100
    effects.add("entries", 3)
    with connection.cursor().copy(b"COPY entry (id, g, v) FROM STDIN") as copy:
        for n in range(3):
            copy.write_row((first + n, n, None if n == 1 else n))


def remove(client: Client, connection: Connection, effects: Effects) -> None:
    """Entries are deleted: old ones, or some of a group."""
    if client.chance.random() < 0.3:
        where = f"id < {(client.ledger.unique() - MAX_ENTRIES) * 100}"
    else:
        where = f"g = {client.chance.randrange(GROUPS)} AND id % 11 = {client.chance.randrange(11)}"
    changed(connection, effects, f"DELETE FROM entry WHERE {where}", "entries", -1, most=1_000_000)


def alter_entries(client: Client, connection: Connection, _: Effects) -> None:
    """Entries change their group or value."""
    what = client.chance.choice((f"g = (g + 1) % {GROUPS}", "v = v + 1", "v = NULL"))
    connection.execute(f"UPDATE entry SET {what} WHERE id % 13 = {client.chance.randrange(13)}".encode())


def read_sum(client: Client, connection: Connection, _: Effects) -> None:
    """The sum of all accounts is what it always was."""
    if connection.execute(SUM_KEPT.encode()).fetchall():
        client.ledger.fault(f"{client.name} sees money made or lost")


def read_view(client: Client, connection: Connection, _: Effects) -> None:
    """A view is what its query gives, with what the transaction has written."""
    name = client.chance.choice(EXACT)
    differences = connection.execute(differs(name).encode()).fetchall()
    if differences:
        client.ledger.fault(f"{name} is not what its query gives: {differences[:3]}")


def read_by_key(client: Client, connection: Connection, _: Effects) -> None:
    """Accounts, one by one and by parameters."""
    for _n in range(3):
        connection.execute("SELECT balance FROM account WHERE id = %s", (client.chance.randrange(ACCOUNTS),)).fetchone()


def prepared(client: Client, connection: Connection, _: Effects) -> None:
    """A prepared statement is made, run and forgotten."""
    name = f"prepared_{client.ledger.unique()}"
    connection.execute(f"PREPARE {name} (int) AS SELECT sum(balance) FROM account WHERE id >= $1".encode())
    if number(connection, f"EXECUTE {name} (0)") != TOTAL:
        client.ledger.fault(f"{client.name} sees money made or lost by a prepared statement")
    connection.execute(f"DEALLOCATE {name}".encode())


def cursor(client: Client, connection: Connection, effects: Effects) -> None:
    """A cursor shows what was there when it was declared, whatever is changed before it is read."""
    name = f"cursor_{client.ledger.unique()}"
    connection.execute(f"DECLARE {name} CURSOR FOR SELECT balance FROM account".encode())
    rows = connection.execute(f"FETCH 5 FROM {name}".encode()).fetchall()
    transfer(client, connection, effects)
    rows += connection.execute(f"FETCH ALL FROM {name}".encode()).fetchall()
    if sum(row[0] for row in rows) != TOTAL:
        client.ledger.fault(f"{client.name} sees money made or lost through a cursor: {rows}")
    connection.execute(f"CLOSE {name}".encode())


def lock_rows(client: Client, connection: Connection, _: Effects) -> None:
    """Rows are locked, and waited for or not."""
    strength = client.chance.choice(("FOR UPDATE", "FOR NO KEY UPDATE", "FOR SHARE", "FOR KEY SHARE"))
    waiting = client.chance.choice(("", "NOWAIT", "SKIP LOCKED"))
    connection.execute(
        f"SELECT * FROM account WHERE owner = {client.chance.randrange(3)} {strength} {waiting}".encode()
    ).fetchall()


def lock_table(client: Client, connection: Connection, _: Effects) -> None:
    """A whole table is locked, if that does not take long."""
    connection.execute(b"SET LOCAL lock_timeout = '50ms'")
    mode = client.chance.choice(("SHARE", "SHARE ROW EXCLUSIVE", "ACCESS SHARE", "EXCLUSIVE"))
    connection.execute(f"LOCK TABLE {client.chance.choice(('account', 'tally', 'entry'))} IN {mode} MODE".encode())


def advisory(client: Client, connection: Connection, _: Effects) -> None:
    """An advisory lock until the end of the transaction."""
    connection.execute(f"SELECT pg_advisory_xact_lock({client.chance.randrange(4)})".encode())


def temporary(client: Client, connection: Connection, _: Effects) -> None:
    """A temporary copy of the accounts has their sum."""
    name = f"temporary_{client.ledger.unique()}"
    connection.execute(f"CREATE TEMP TABLE {name} ON COMMIT DROP AS SELECT * FROM account".encode())
    if number(connection, f"SELECT sum(balance) FROM {name}") != TOTAL:
        client.ledger.fault(f"{client.name} sees money made or lost by CREATE TABLE AS")


def savepoint(client: Client, connection: Connection, effects: Effects) -> None:
    """Something is done and taken back, or kept; an error in between is got over."""
    name = f"s{client.ledger.unique()}"
    connection.execute(f"SAVEPOINT {name}".encode())
    before = effects.copy()
    client.chance.choice(IN_BLOCKS)(client, connection, effects)
    drawn = client.chance.random()
    if drawn < 0.4:
        connection.execute(f"RELEASE {name}".encode())
        return
    if drawn < 0.7:
        try:
            connection.execute(b"INSERT INTO account VALUES (0, 0, 1000)")
        except psycopg.errors.UniqueViolation:
            pass
        else:
            client.ledger.fault(f"{client.name} has inserted an account that was there")
    connection.execute(f"ROLLBACK TO {name}".encode())
    effects.become(before)


ALONE: Sequence[Operation] = (
    *(transfer, transfer, count, count, enter, copy_in, remove, alter_entries),
    *(read_sum, read_view, read_by_key, prepared),
)
"""What is one transaction outside a block."""

IN_BLOCKS: Sequence[Operation] = (
    *ALONE,
    *(transfer_in_two, cursor, lock_rows, lock_table, advisory, temporary, savepoint, savepoint),
)

MOST_OPERATIONS = 5
ROLLED_BACK = 0.1


class Mixed:
    """See the module."""

    name = "mixed"
    tables: Sequence[str] = ()
    rules: Sequence[str] = ()

    def step(self, client: Client) -> None:
        """See `Load`."""
        level = client.level()

        def work(connection: Connection, effects: Effects) -> None:
            if level == AUTOCOMMIT:
                client.chance.choice(ALONE)(client, connection, effects)
                return
            for _ in range(client.chance.randint(1, MOST_OPERATIONS)):
                client.chance.choice(IN_BLOCKS)(client, connection, effects)
            if client.chance.random() < ROLLED_BACK:
                connection.execute(b"ROLLBACK")
                effects.become(Effects())
                connection.execute(b"BEGIN")

        client.transact(self.name, level, work, (LOCK_NOT_AVAILABLE, UNIQUE_VIOLATION) if level != AUTOCOMMIT else ())

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`: what was changed is in the tables of all."""
