"""Rounds of kill -9: real servers under load, one of them killed at a random moment, every answer checked afterwards.

    python -m tests.faults.rounds --store sqlite --rounds 50
    python -m tests.faults.rounds --store postgres --rounds 50

In every second round a second server is alive: it takes part in the load, goes on when the first one is killed, and is
the one that is asked. In the others the killed server is started again and asked.

Each transaction takes its id (txid_current), moves money between two accounts, writes its id into two tables, now and
then with enough rows for files of their own, and commits. What is checked:

- every acknowledged transaction is there, whole, once, in both tables and in a view over them;
- of one that was under way when the server died, txid_status says `committed` or `aborted`, and it is there, whole, or
  not there at all, accordingly;
- nothing else is there, and no money was made or lost;
- the server that was alive goes on committing after the other one's death.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.support.postgres import start_postgres
from tests.support.server import TidegateServer

SESSIONS = 4
ACCOUNTS = 8
OPENING = 1000
LARGE_ROWS = 4000
"""Rows of a transaction that goes into files: far more than what is carried inline."""

RESOLVE_S = 90.0
"""How long a dead server may take to be known as dead."""

GO_ON = 5
"""Transactions that the surviving server must still commit."""


@dataclass(slots=True)
class Outcomes:
    """What the clients of one round were told. Ids of transactions, with how many rows each wrote to `pieces`."""

    acknowledged: dict[int, int] = field(default_factory=dict)
    doubtful: dict[int, int] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Tally:
    """What all rounds came to."""

    rounds: int = 0
    acknowledged: int = 0
    doubtful_committed: int = 0
    doubtful_aborted: int = 0
    conflicts: int = 0


class Load(threading.Thread):
    """One session that commits transaction after transaction until its server is gone, or it is told to stop."""

    def __init__(self, server: TidegateServer, round_: int, seed: int, progress: threading.Semaphore) -> None:
        super().__init__()
        self.server, self.round, self.chance, self.progress = server, round_, random.Random(seed), progress
        self.outcomes = Outcomes()
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.conflicts = 0

    def run(self) -> None:
        """Runs in the thread."""
        try:
            with psycopg.connect(self.server.dsn()) as connection:
                while not self.stopping.is_set() and self._transact(connection):
                    pass
        except psycopg.OperationalError:
            return
        except BaseException as error:  # noqa: BLE001 - the round reports it
            self.failure = error

    def _transact(self, connection: psycopg.Connection) -> bool:
        """One transaction; False once the server is gone."""
        source, target = self.chance.sample(range(ACCOUNTS), 2)
        rows = LARGE_ROWS if self.chance.random() < 0.1 else self.chance.randrange(1, 4)
        xid = 0
        committing = False
        try:
            found = connection.execute("SELECT txid_current()").fetchone()
            assert found is not None
            xid = found[0]
            connection.execute("INSERT INTO moves VALUES (%s, %s)", (self.round, xid))
            connection.execute("UPDATE accounts SET balance = balance - 1 WHERE id = %s", (source,))
            connection.execute("UPDATE accounts SET balance = balance + 1 WHERE id = %s", (target,))
            connection.execute(
                "INSERT INTO pieces SELECT %s, %s, n, md5(n::text) FROM generate_series(1, %s) n",
                (self.round, xid, rows),
            )
            committing = True
            connection.commit()
        except psycopg.errors.SerializationFailure:
            connection.rollback()
            self.outcomes.failed.add(xid)
            self.conflicts += 1
            return True
        except psycopg.errors.StatementCompletionUnknown:
            connection.rollback()
            self.outcomes.doubtful[xid] = rows
            return True
        except psycopg.OperationalError:
            if committing:
                self.outcomes.doubtful[xid] = rows
            elif xid:
                self.outcomes.failed.add(xid)
            return False
        self.outcomes.acknowledged[xid] = rows
        self.progress.release()
        return True


def prepare(server: TidegateServer) -> None:
    """Makes the tables."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE accounts (id int NOT NULL, balance bigint NOT NULL)")
        connection.execute(f"INSERT INTO accounts SELECT n, {OPENING} FROM generate_series(0, {ACCOUNTS - 1}) n")
        connection.execute("CREATE TABLE moves (round int NOT NULL, xid bigint NOT NULL)")
        connection.execute("CREATE TABLE pieces (round int NOT NULL, xid bigint NOT NULL, n int NOT NULL, text text)")
        connection.execute(
            "CREATE VIEW whole AS SELECT m.round, m.xid, count(*) AS pieces, count(DISTINCT p.n) AS distinct_pieces"
            " FROM moves m JOIN pieces p ON p.xid = m.xid AND p.round = m.round GROUP BY m.round, m.xid"
        )


def run_round(round_: int, seed: int, victim: TidegateServer, survivor: TidegateServer | None, tally: Tally) -> None:
    """One round. Raises AssertionError with what was wrong; `victim` runs again at the end."""
    chance = random.Random(seed)
    progress = threading.Semaphore(0)
    servers = [victim] * SESSIONS + ([] if survivor is None else [survivor] * (SESSIONS // 2))
    loads = [Load(server, round_, seed * 1000 + number, progress) for number, server in enumerate(servers)]
    for load in loads:
        load.start()
    for _ in range(chance.randrange(3, 60)):
        assert progress.acquire(timeout=120), "the load stands still"
    time.sleep(chance.random() * 0.05)
    victim.kill()
    if survivor is not None:
        survivors = [load for load in loads if load.server is survivor]
        before = sum(len(load.outcomes.acknowledged) for load in survivors)
        deadline = time.monotonic() + RESOLVE_S
        while sum(len(load.outcomes.acknowledged) for load in survivors) < before + GO_ON:
            assert time.monotonic() < deadline, "the surviving server stands still"
            assert any(load.is_alive() for load in survivors), [load.failure for load in survivors]
            time.sleep(0.02)
        for load in survivors:
            load.stopping.set()
    else:
        victim.start()
    for load in loads:
        load.join()
        assert load.failure is None, repr(load.failure)
    check_round(round_, survivor or victim, [load.outcomes for load in loads], tally)
    tally.conflicts += sum(load.conflicts for load in loads)
    tally.rounds += 1
    if survivor is not None:
        victim.start()


def check_round(round_: int, server: TidegateServer, told: list[Outcomes], tally: Tally) -> None:
    """Compares what is there with what the clients were told."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        expected = {xid: rows for outcomes in told for xid, rows in outcomes.acknowledged.items()}
        tally.acknowledged += len(expected)
        for outcomes in told:
            for xid, rows in outcomes.doubtful.items():
                if resolved(connection, xid) == "committed":
                    expected[xid] = rows
                    tally.doubtful_committed += 1
                else:
                    tally.doubtful_aborted += 1
        for xid in (xid for outcomes in told for xid in outcomes.failed):
            assert resolved(connection, xid) == "aborted", f"transaction {xid} failed"
        moves = [row[0] for row in connection.execute("SELECT xid FROM moves WHERE round = %s", (round_,))]
        assert len(moves) == len(set(moves)), "a transaction is there twice"
        assert set(moves) == set(expected), (
            f"lost: {sorted(set(expected) - set(moves))}, of nobody: {sorted(set(moves) - set(expected))}"
        )
        whole = connection.execute("SELECT xid, pieces, distinct_pieces FROM whole WHERE round = %s", (round_,))
        assert {row[0]: (row[1], row[2]) for row in whole} == {x: (n, n) for x, n in expected.items()}
        assert connection.execute("SELECT sum(balance), count(*) FROM accounts").fetchone() == (
            ACCOUNTS * OPENING,
            ACCOUNTS,
        )


def resolved(connection: psycopg.Connection, xid: int) -> str:
    """The outcome of a transaction, once it is known that its server is dead."""
    deadline = time.monotonic() + RESOLVE_S
    while True:
        found = connection.execute("SELECT txid_status(%s)", (xid,)).fetchone()
        assert found is not None
        status = found[0]
        assert status is not None, f"the outcome of {xid} was forgotten"
        if status != "in progress":
            return str(status)
        assert time.monotonic() < deadline, f"{xid} is still in progress"
        time.sleep(0.05)


@contextmanager
def servers(store: str, folder: Path) -> Iterator[tuple[TidegateServer, TidegateServer]]:
    """Two servers, not started, on one environment in `folder` and, for `postgres`, a PostgreSQL of its own."""
    with ExitStack() as stack:
        arguments: tuple[str, ...] = ("--spark-start", "lazy", "--set", "engine=local")
        if store == "postgres":
            # The store of record: it is not what is killed here, and its own durability is its own business.
            postgres = stack.enter_context(start_postgres())
            arguments += ("--consensus", f"postgresql://postgres@{postgres.host}:{postgres.port}/postgres")
        pair = []
        for name in ("one", "two"):
            server = TidegateServer(folder / "data", arguments=arguments)
            server.log = folder / f"{name}.log"
            stack.callback(server.kill)
            pair.append(server)
        yield pair[0], pair[1]


def run_rounds(store: str, rounds: int, folder: Path, seed: int, *, verbose: bool = False) -> Tally:
    """`rounds` rounds on one environment. Raises AssertionError, naming the round and its seed."""
    tally = Tally()
    with servers(store, folder) as (one, two):
        one.start()
        prepare(one)
        for round_ in range(rounds):
            accompanied = round_ % 2 == 1
            if accompanied and two.process is None:
                two.start()
            elif not accompanied and two.process is not None:
                two.stop()
            began = time.monotonic()
            try:
                run_round(round_, seed + round_, one, two if accompanied else None, tally)
            except AssertionError as error:
                raise AssertionError(
                    f"{store}, round {round_}, seed {seed}: {error}\n{one.output()[-3000:]}\n{two.output()[-3000:]}"
                ) from error
            if verbose:
                sys.stdout.write(f"{store} round {round_}: {time.monotonic() - began:.1f} s, {tally}\n")
                sys.stdout.flush()
    return tally


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.rounds", description=__doc__.split("\n\n")[0])
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-rounds-") as folder:
        tally = run_rounds(arguments.store, arguments.rounds, Path(folder), arguments.seed, verbose=True)
    sys.stdout.write(f"{arguments.store}: {tally}\n")


if __name__ == "__main__":
    main()
