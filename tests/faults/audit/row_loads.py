"""Loads over rows that many want at once: transfers, counters, a hot row, a queue, advisory locks, write skew."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.faults.audit.client import AUTOCOMMIT, LEVELS, Client, Connection
from tests.faults.audit.key_loads import changed, check_sum, number
from tests.faults.audit.ledger import Effects, Ledger

ACCOUNTS = 16
OPENING = 1000


class Transfers:
    """Money moves between accounts; none is made or lost, in any state that can be read."""

    name = "transfers"
    tables = (
        "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL)",
        f"INSERT INTO accounts SELECT n, {OPENING} FROM generate_series(0, {ACCOUNTS - 1}) n",
        "CREATE TABLE moves (id bigint PRIMARY KEY, source int NOT NULL, target int NOT NULL, amount int NOT NULL)",
    )
    rules: Sequence[str] = (
        f"SELECT sum(balance), count(*) FROM accounts"
        f" HAVING sum(balance) <> {ACCOUNTS * OPENING} OR count(*) <> {ACCOUNTS}",
        "SELECT a.id, a.balance FROM accounts a"
        " LEFT JOIN (SELECT source AS id, sum(amount) AS n FROM moves GROUP BY source) o ON o.id = a.id"
        " LEFT JOIN (SELECT target AS id, sum(amount) AS n FROM moves GROUP BY target) i ON i.id = a.id"
        f" WHERE a.balance <> {OPENING} - coalesce(o.n, 0) + coalesce(i.n, 0)",
    )

    def step(self, client: Client) -> None:
        """See `Load`."""
        chance = client.chance
        source, target = chance.sample(range(ACCOUNTS), 2)
        amount = chance.randint(1, 20)
        level = chance.choice(LEVELS)
        ways = ["plain", "for update", "for no key update"]
        if level != "read committed":
            ways.append("read and write")
        way = chance.choice(ways)

        def work(connection: Connection, effects: Effects) -> None:
            effects.add("moves", 1)
            move = client.ledger.unique()
            connection.execute(f"INSERT INTO moves VALUES ({move}, {source}, {target}, {amount})".encode())
            for account, change in ((source, -amount), (target, amount)):
                if way == "plain":
                    text = f"UPDATE accounts SET balance = balance + {change} WHERE id = {account}"
                else:
                    locking = "" if way == "read and write" else way
                    has = number(connection, f"SELECT balance FROM accounts WHERE id = {account} {locking}")
                    text = f"UPDATE accounts SET balance = {has + change} WHERE id = {account}"
                connection.execute(text.encode())

        client.transact(self.name, level, work, ())

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`."""
        check_sum(connection, ledger, "moves", "SELECT count(*) FROM moves")


COUNTERS = 6


class Counters:
    """Upserts raise counters that somebody deletes now and then: every one counts, and is told another number."""

    name = "upserts"
    tables = ("CREATE TABLE counters (k int PRIMARY KEY, n bigint NOT NULL)",)
    rules: Sequence[str] = ("SELECT k FROM counters GROUP BY k HAVING count(*) > 1",)

    def step(self, client: Client) -> None:
        """See `Load`."""
        keys = sorted({client.chance.randrange(COUNTERS) for _ in range(client.chance.randint(1, 2))})
        level = client.level()
        if level == AUTOCOMMIT:
            keys = keys[:1]

        def work(connection: Connection, effects: Effects) -> None:
            for key in keys:
                effects.add(f"counter {key}", 1)
                text = (
                    f"INSERT INTO counters VALUES ({key}, 1) ON CONFLICT (k) DO UPDATE SET n = counters.n + excluded.n"
                    " RETURNING n"
                )
                effects.result(f"counter {key}", number(connection, text))

        client.transact(self.name, level, work, ())

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`."""
        for key in range(COUNTERS):
            text = f"SELECT coalesce((SELECT n FROM counters WHERE k = {key}), 0)"
            check_sum(connection, ledger, f"counter {key}", text)


class HotRow:
    """Everybody raises one number, in statements and in blocks: every raise counts, and is told another number.

    Some blocks have read another number before, which is raised as well: such a COMMIT is often refused, when others
    have gone on from what it was about to write."""

    name = "hot row"
    tables = (
        "CREATE TABLE hot (id int PRIMARY KEY, n bigint NOT NULL)",
        "INSERT INTO hot VALUES (1, 0)",
        "CREATE TABLE doubted (id int PRIMARY KEY, n bigint NOT NULL)",
        "INSERT INTO doubted VALUES (1, 0)",
    )
    rules: Sequence[str] = ("SELECT id FROM hot GROUP BY id HAVING count(*) > 1",)

    def step(self, client: Client) -> None:
        """See `Load`."""
        way = client.chance.choices(("raise", "doubtful", "doubted"), (6, 2, 2))[0]
        update = "UPDATE hot SET n = n + 1 WHERE id = 1"
        upsert = "INSERT INTO hot VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = hot.n + 1"
        text = client.chance.choice((update, upsert))

        def work(connection: Connection, effects: Effects) -> None:
            if way == "doubted":
                effects.add("doubted", 1)
                connection.execute(b"UPDATE doubted SET n = n + 1 WHERE id = 1")
                return
            if way == "doubtful":
                number(connection, "SELECT n FROM doubted WHERE id = 1")
            effects.add("hot", 1)
            effects.result("hot", number(connection, f"{text} RETURNING n"))

        level = client.chance.choice((AUTOCOMMIT, AUTOCOMMIT, *LEVELS))
        if way != "raise":
            level = "serializable" if way == "doubtful" else AUTOCOMMIT
        client.transact(self.name, level, work, ())

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`."""
        check_sum(connection, ledger, "hot", "SELECT n FROM hot WHERE id = 1")
        check_sum(connection, ledger, "doubted", "SELECT n FROM doubted WHERE id = 1")


class Beside:
    """Everybody raises one number by the same statement outside a block, and nobody else writes it: those that come at
    the same time are carried out together."""

    name = "beside"
    tables = (
        "CREATE TABLE beside (id int PRIMARY KEY, n bigint NOT NULL)",
        "INSERT INTO beside VALUES (1, 0)",
    )
    rules: Sequence[str] = ()

    def step(self, client: Client) -> None:
        """See `Load`."""

        def work(connection: Connection, effects: Effects) -> None:
            effects.add("beside", 1)
            connection.execute(b"UPDATE beside SET n = n + 1 WHERE id = 1")

        client.transact(self.name, AUTOCOMMIT, work, ())

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`."""
        check_sum(connection, ledger, "beside", "SELECT n FROM beside WHERE id = 1")


class Queue:
    """Jobs are put into a table and taken out with SKIP LOCKED: each is handed to one client only."""

    name = "queue"
    tables = ("CREATE TABLE jobs (id bigint PRIMARY KEY)",)
    rules: Sequence[str] = ("SELECT id FROM jobs GROUP BY id HAVING count(*) > 1",)

    def step(self, client: Client) -> None:
        """See `Load`."""
        if client.chance.random() < 0.5:
            job = client.ledger.unique()

            def put(connection: Connection, effects: Effects) -> None:
                effects.add(f"job {job}", 1)
                effects.add("jobs", 1)
                connection.execute(f"INSERT INTO jobs VALUES ({job})".encode())

            client.transact(self.name, AUTOCOMMIT, put, ())
        else:
            client.transact(self.name, "read committed", lambda c, e: self._take(client, c, e), ())

    def _take(self, client: Client, connection: Connection, effects: Effects) -> None:
        found = connection.execute("SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED").fetchone()
        if found is None:
            return
        job = found[0]
        # Between processes a lock of a row is not seen; who commits second fails then.
        with client.ledger.held(f"job {job} on {client.zone}", client.name):
            effects.add(f"job {job}", -1)
            if changed(connection, effects, f"DELETE FROM jobs WHERE id = {job}", "jobs", -1) != 1 and client.alone:
                client.ledger.fault(f"job {job} was locked, and is gone")

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`."""
        check_sum(connection, ledger, "jobs", "SELECT count(*) FROM jobs")
        left = {row[0] for row in connection.execute("SELECT id FROM jobs")}
        for what, (low, high) in ledger.sums("job ").items():
            job = int(what.removeprefix("job "))
            if not low <= (job in left) <= high:
                ledger.fault(f"{what}: {'there' if job in left else 'gone'}, although {low} to {high} was acknowledged")


ADVISORY_KEYS = 4
HELD_S = 0.001


class AdvisoryLocks:
    """Advisory locks of a session and of a transaction exclude each other, on all servers."""

    name = "advisory locks"
    tables: Sequence[str] = ()
    rules: Sequence[str] = ()

    def step(self, client: Client) -> None:
        """See `Load`."""
        key = client.chance.randrange(ADVISORY_KEYS)
        thing = f"advisory lock {key}"
        way = client.chance.choice(("session", "transaction", "try"))

        def work(connection: Connection, effects: Effects) -> None:
            if way == "transaction":
                connection.execute(f"SELECT pg_advisory_xact_lock({key})".encode())
            elif way == "session":
                connection.execute(f"SELECT pg_advisory_lock({key})".encode())
            else:
                found = connection.execute(f"SELECT pg_try_advisory_lock({key})".encode()).fetchone()
                if found != (True,):
                    return
            with client.ledger.held(thing, client.name):
                time.sleep(HELD_S)
            if way != "transaction" and connection.execute(f"SELECT pg_advisory_unlock({key})".encode()).fetchone() != (
                True,
            ):
                client.ledger.fault(f"{client.name} had {thing}, and had it not")

        client.transact(self.name, "read committed" if way == "transaction" else AUTOCOMMIT, work, ())

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`: nobody has a lock any more."""
        left = number(connection, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        if left:
            ledger.fault(f"{left} advisory locks are held by nobody")


PAIRS = 3


class Duty:
    """Of each pair one is on duty at least: the classic write skew, which SERIALIZABLE alone prevents."""

    name = "write skew"
    tables = (
        "CREATE TABLE duty (pair int, who int, is_on boolean NOT NULL, PRIMARY KEY (pair, who))",
        f"INSERT INTO duty SELECT p, w, true FROM generate_series(0, {PAIRS - 1}) p, generate_series(0, 1) w",
    )
    rules: Sequence[str] = ("SELECT pair FROM duty GROUP BY pair HAVING NOT bool_or(is_on)",)

    def step(self, client: Client) -> None:
        """See `Load`."""
        pair, who = client.chance.randrange(PAIRS), client.chance.randrange(2)

        def work(connection: Connection, effects: Effects) -> None:
            if number(connection, f"SELECT count(*) FROM duty WHERE pair = {pair} AND is_on") == 2:
                connection.execute(f"UPDATE duty SET is_on = false WHERE pair = {pair} AND who = {who}".encode())
            else:
                connection.execute(f"UPDATE duty SET is_on = true WHERE pair = {pair}".encode())

        client.transact(self.name, "serializable", work, ())

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`: the rules say it all."""
