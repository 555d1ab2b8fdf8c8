"""Small statements against PostgreSQL's on the same disk: `make bench NAME=small`.

pgbench asks both servers, in turn, for the same statements: one row written, changed, deleted or read by its key, a
hundred rows by a range of keys, an upsert, a row with two foreign keys, one row that everybody wants, and pgbench's own
three scripts over its own tables. A rate is that of all clients together; a ratio is Tidegate's rate divided by
PostgreSQL's, the median of the rounds; p50 and CPU are medians too. CPU is what the server's processes have spent for a
transaction. Where nothing else is said each server has its default isolation level: Tidegate's is strict serializable,
PostgreSQL's READ COMMITTED. PostgreSQL commits durably (fsync), as Tidegate does.

By default the tables have ten thousand rows and a measurement takes a second: see the options. pgbench's accounts come
in steps of a hundred thousand.

Lake formats (`bench.lakes`) do the same beside it, each called from its own process by one client without a server
between, which is less than a client of a server asks for. Several writers at once are not measured: they conflict.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
import psycopg
from msgspec import Struct

from bench.lakes import LAKES, OPERATIONS, Unavailable, measure
from bench.report import geometric_mean, machine, print_json, print_table
from tests.support.postgres import PostgresServer, start_postgres
from tests.support.server import AS_SHIPPED, TidegateServer, run_server

ROWS_AT_A_TIME = 1_000_000
"""Rows that one statement loads."""

PARENTS = 1_000
"""Rows of each table that the orders refer to."""

DELETED = 2_000
"""Rows that are put back before a measurement of DELETE, which then takes them all."""

ACCOUNTS_OF_A_SCALE = 100_000
LEVELS = ("read committed", "serializable")
GRACE_S = 60
"""How long a measurement may take beyond its time before it is given up."""

TABLES = (
    "CREATE TABLE grown (id bigint NOT NULL, kind int NOT NULL, label text NOT NULL)",
    "CREATE TABLE kept (id bigint PRIMARY KEY, kind int NOT NULL, label text NOT NULL)",
    "CREATE TABLE keyed (id bigint PRIMARY KEY, amount int NOT NULL, label text NOT NULL)",
    "CREATE TABLE removed (id bigint PRIMARY KEY, amount int NOT NULL, label text NOT NULL)",
    "CREATE TABLE counts (id bigint PRIMARY KEY, n int NOT NULL)",
    "CREATE TABLE customers (id int PRIMARY KEY, label text NOT NULL)",
    "CREATE TABLE products (id int PRIMARY KEY, label text NOT NULL)",
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL REFERENCES customers,"
    " product int NOT NULL REFERENCES products, quantity int NOT NULL)",
    "CREATE TABLE hot (id int PRIMARY KEY, n bigint NOT NULL)",
    "INSERT INTO hot VALUES (1, 0)",
    f"INSERT INTO customers SELECT n, 'customer ' || n FROM generate_series(1, {PARENTS}) n",
    f"INSERT INTO products SELECT n, 'product ' || n FROM generate_series(1, {PARENTS}) n",
)
FILLED = {
    "keyed": "SELECT n, n % 7, 'label ' || n",
    "removed": "SELECT n, n % 7, 'label ' || n",
    "counts": "SELECT n, 0",
}
"""The tables with as many rows as asked for, and what they get for each number `n` from 1."""

# NOTE: pgbench keeps a client's variables from one transaction to the next, so `number` counts on.
NEXT = "\\set number :number + 1\n\\set id :base + :number * :clients + :client_id\n"
ANY = "\\set id random(1, :rows)\n"
STATEMENTS = {
    "INSERT": NEXT + "INSERT INTO grown VALUES (:id, 7, 'label');",
    "INSERT, primary key": NEXT + "INSERT INTO kept VALUES (:id, 7, 'label');",
    "INSERT, two foreign keys": NEXT
    + f"\\set customer random(1, {PARENTS})\n\\set product random(1, {PARENTS})\n"
    + "INSERT INTO orders VALUES (:id, :customer, :product, 3);",
    "UPDATE by key": ANY + "UPDATE keyed SET amount = amount + 1 WHERE id = :id;",
    "DELETE by key": "\\set number :number + 1\n\\set id (:number - 1) * :clients + :client_id + 1\n"
    "DELETE FROM removed WHERE id = :id;",
    "point read": ANY + "SELECT id, amount, label FROM keyed WHERE id = :id;",
    "range of 100": "\\set id random(1, :rows - 99)\n"
    "SELECT id, amount, label FROM keyed WHERE id BETWEEN :id AND :id + 99;",
    "ON CONFLICT DO UPDATE": ANY
    + "INSERT INTO counts VALUES (:id, 1) ON CONFLICT (id) DO UPDATE SET n = counts.n + 1;",
    "hot row": "UPDATE hot SET n = n + 1 WHERE id = 1;",
}
SCRIPTS = {"pgbench -S": "select-only", "pgbench -N": "simple-update", "pgbench TPC-B": "tpcb-like"}
"""pgbench's own."""


class Case(Struct, frozen=True, kw_only=True):
    """What is measured: a script of pgbench's, how its statements are sent, and by how many clients."""

    name: str
    mode: str
    clients: int
    rows: int
    level: str | None = None

    @property
    def label(self) -> str:
        """Names the case in the table."""
        return f"{self.name}, {self.level}" if self.level else self.name


class Sample(Struct, frozen=True, kw_only=True):
    """One measurement: transactions per second, their median time, CPU time for each, and those that failed."""

    rate: float
    p50_ms: float
    cpu_ms: float
    failed: int


class Peer:
    """A server and how to ask it: its connection string, and the process whose CPU time is its own."""

    def __init__(self, dsn: str, pid: int) -> None:
        self.dsn = dsn
        self._process = psutil.Process(pid)

    def cpu_s(self) -> float:
        """CPU time of the server's processes until now, also of those that have ended."""
        total = 0.0
        for process in [self._process, *self._process.children(recursive=True)]:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
            if process == self._process:
                total += times.children_user + times.children_system
        return total


class Failed(Exception):
    """pgbench did not get through; the message is what it said first."""


class Bench:
    """The two servers with their tables, and pgbench."""

    def __init__(self, peers: dict[str, Peer], pgbench: Path, folder: Path, seconds: int) -> None:
        self._peers, self._pgbench, self._folder, self._seconds = peers, pgbench, folder, seconds
        self._base = 1_000_000_000
        """Above all ids that have been inserted."""

    def load(self, rows: int) -> None:
        """Make the tables anew on both, with `rows` rows."""
        for peer in self._peers.values():
            with psycopg.connect(peer.dsn, autocommit=True) as connection:
                for name in ("orders", "grown", "kept", "keyed", "removed", "counts", "customers", "products", "hot"):
                    connection.execute(f"DROP TABLE IF EXISTS {name}".encode())
                for statement in TABLES:
                    connection.execute(statement.encode())
                for name, query in FILLED.items():
                    for first in range(1, rows + 1, ROWS_AT_A_TIME):
                        last = min(rows, first + ROWS_AT_A_TIME - 1)
                        series = f"{query} FROM generate_series({first}, {last}) n"
                        connection.execute(f"INSERT INTO {name} {series}".encode())
                connection.execute("VACUUM ANALYZE")
            scale = max(1, rows // ACCOUNTS_OF_A_SCALE)
            self._run(peer, ["-i", "-q", "-s", str(scale)], "read committed", 3600)

    def _run(self, peer: Peer, arguments: Sequence[str], level: str | None, timeout_s: float) -> str:
        settings = {"PGOPTIONS": "-c default_transaction_isolation=" + level.replace(" ", "\\ ")} if level else {}
        command = [str(self._pgbench), *arguments, peer.dsn]
        try:
            result = subprocess.run(
                command,
                cwd=self._folder,
                env={**os.environ, **settings},
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired:
            raise Failed("no end") from None
        if result.returncode != 0:
            errors = [line for line in result.stderr.splitlines() if "error" in line.lower()]
            raise Failed((errors or result.stderr.splitlines() or ["?"])[0])
        return result.stdout

    def measure(self, case: Case, peer: Peer) -> Sample:
        """One run of `case`. Raises `Failed`."""
        arguments = ["-n", "-M", case.mode, "-c", str(case.clients), "--max-tries", "1000"]
        length = ["-T", str(self._seconds)]
        if case.name in STATEMENTS:
            self._base += 10_000_000
            script = self._folder / "script.sql"
            script.write_text(STATEMENTS[case.name] + "\n")
            arguments += ["-f", str(script)]
            values = {"rows": case.rows, "clients": case.clients, "number": 0, "base": self._base}
            for name, value in values.items():
                arguments += ["-D", f"{name}={value}"]
            if case.name.startswith("DELETE"):
                self._put_back(peer, case)
                length = ["-t", str(min(DELETED, case.rows) // case.clients)]
        else:
            arguments += ["-b", SCRIPTS[case.name]]
        for log in self._folder.glob("times.*"):
            log.unlink()
        before = peer.cpu_s()
        said = self._run(
            peer, [*arguments, *length, "-l", "--log-prefix", "times"], case.level, self._seconds + GRACE_S
        )
        spent = peer.cpu_s() - before
        times = [int(line.split()[2]) for line in self._log_lines() if line.split()[2].isdigit()]
        if not times:
            raise Failed("no transaction came to its end")
        rate, failed = re.search(r"tps = ([\d.]+)", said), re.search(r"failed transactions: (\d+)", said)
        assert rate is not None
        return Sample(
            rate=float(rate[1]),
            p50_ms=statistics.median(times) / 1000,
            cpu_ms=spent * 1000 / len(times),
            failed=0 if failed is None else int(failed[1]),
        )

    def _log_lines(self) -> Iterator[str]:
        for log in self._folder.glob("times.*"):
            yield from log.read_text().splitlines()

    def _put_back(self, peer: Peer, case: Case) -> None:
        last = min(DELETED, case.rows)
        with psycopg.connect(peer.dsn, autocommit=True) as connection:
            connection.execute(f"DELETE FROM removed WHERE id <= {last}".encode())
            query = f"INSERT INTO removed {FILLED['removed']} FROM generate_series(1, {last}) n"
            connection.execute(query.encode())

    def rounds(self, case: Case, rounds: int) -> dict[str, list[Sample]]:
        """`rounds` measurements of each server, in turn, after one that does not count. Raises `Failed`."""
        samples: dict[str, list[Sample]] = {name: [] for name in self._peers}
        for turn in range(rounds + 1):
            for name, peer in self._peers.items():
                sample = self.measure(case, peer)
                if turn:
                    samples[name].append(sample)
        return samples


class Lakes:
    """What lake formats do of the same, measured at each number of rows once, when it is first asked for."""

    def __init__(self, names: Sequence[str], seconds: float) -> None:
        self._names, self._seconds = names, seconds
        self._measured: dict[tuple[str, int], dict[str, dict[str, float]]] = {}
        self.table = [["", "rows", "lake", "ours/s", "theirs/s", "ratio", "p50 ms of theirs", "CPU ms of theirs"]]
        self.ratios: dict[str, float] = {}

    def beside(self, case: Case, rate: float) -> None:
        """Set `case`, which runs `rate` times a second here, beside what each of them does."""
        for name in self._names if case.name in OPERATIONS else ():
            theirs = self._of(name, case.rows).get(case.name)
            if theirs is None:
                continue
            ratio = rate / theirs["rate"]
            self.ratios[f"{case.name}, {name}, {case.rows}"] = ratio
            row = [case.name, f"{case.rows:,}", name, f"{rate:,.0f}", f"{theirs['rate']:,.1f}", f"{ratio:,.1f}"]
            self.table.append([*row, f"{theirs['p50_ms']:,.1f}", f"{theirs['cpu_ms']:,.1f}"])

    def _of(self, name: str, rows: int) -> dict[str, dict[str, float]]:
        if (name, rows) not in self._measured:
            try:
                self._measured[name, rows] = measure(name, rows, self._seconds)
            except Unavailable as error:
                print(f"{name}: {error}", file=sys.stderr)
                self._measured[name, rows] = {}
        return self._measured[name, rows]


def cases(options: argparse.Namespace, rows: int) -> Iterator[Case]:
    """What the options ask for over tables of `rows` rows."""
    wanted = options.only.split(";") if options.only else [*STATEMENTS, *SCRIPTS]
    for name in [*STATEMENTS, *SCRIPTS]:
        if name not in wanted:
            continue
        levels: Sequence[str | None] = LEVELS if name in ("pgbench -N", "pgbench TPC-B") else (None,)
        for level in levels:
            for mode in options.modes.split(","):
                for clients in options.clients.split(","):
                    yield Case(name=name, mode=mode, clients=int(clients), rows=rows, level=level)


def postmaster(server: PostgresServer) -> int:
    """The process that PostgreSQL's others are children of."""
    with psycopg.connect(server.dsn()) as connection:
        parent = psutil.Process(connection.info.backend_pid).parent()
    assert parent is not None
    return int(parent.pid)


def tidegate_pid(server: TidegateServer) -> int:
    """Our server's process."""
    assert server.process is not None
    return server.process.pid


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make bench NAME=small", description=__doc__)
    parser.add_argument("--rows", default="10000", help="rows of the tables: one number, or several with commas")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--modes", default="simple,prepared", help="simple, extended, prepared: how to send statements")
    parser.add_argument("--seconds", type=int, default=1, help="length of a measurement")
    parser.add_argument("--rounds", type=int, default=3, help="pairs of measurements")
    parser.add_argument("--only", default="", help=f"of these, with semicolons: {'; '.join([*STATEMENTS, *SCRIPTS])}")
    parser.add_argument("--lakes", default=",".join(LAKES), help="lake formats to set beside it, or none")
    parser.add_argument("--serve", default="", help="more arguments for tidegate serve, such as '--workers 2'")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    heading = ["", "sent", "clients", "rows", "ours/s", "theirs/s", "ratio", "p50 ms", "theirs", "CPU ms", "theirs"]
    table, ratios, failures = [[*heading, "failed"]], {}, 0
    lakes = Lakes([name for name in options.lakes.split(",") if name], options.seconds)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        # PostgreSQL runs as a user of its own, who has to reach its folder.
        folder.chmod(0o711)
        arguments = ("--spark-start", "lazy", *options.serve.split())
        ours = stack.enter_context(run_server(folder / "data", arguments=arguments, environment=AS_SHIPPED))
        postgres = stack.enter_context(
            start_postgres(settings=("fsync=on", "shared_buffers=512MB", "max_connections=100"), folder=folder)
        )
        peers = {"ours": Peer(ours.dsn(), tidegate_pid(ours)), "theirs": Peer(postgres.dsn(), postmaster(postgres))}
        bench = Bench(peers, postgres.binaries / "pgbench", folder, options.seconds)
        for rows in [int(text) for text in options.rows.split(",")]:
            print(f"loading {rows:,} rows", file=sys.stderr)
            bench.load(rows)
            for case in cases(options, rows):
                began = time.perf_counter()
                head = [case.label, case.mode, str(case.clients), f"{case.rows:,}"]
                try:
                    samples = bench.rounds(case, options.rounds)
                except Failed as error:
                    failures += 1
                    table.append([*head, f"failed: {error}"[:60], *[""] * 7])
                    print(f"{case}: {error}", file=sys.stderr)
                    continue
                pairs = zip(samples["ours"], samples["theirs"], strict=True)
                ratio = statistics.median(own.rate / their.rate for own, their in pairs)
                ratios[f"{case.label}, {case.mode}, {case.clients}, {case.rows}"] = ratio
                if case.clients == 1 and case.mode == "simple":
                    lakes.beside(case, statistics.median(sample.rate for sample in samples["ours"]))
                table.append([*head, *_columns(samples["ours"], samples["theirs"], ratio)])
                took = time.perf_counter() - began
                print(f"{case.label}, {case.mode}, {case.clients}: {ratio:.3f} ({took:.0f} s)", file=sys.stderr)
    print(f"\nSmall statements, transactions per second ({machine()})\n")
    print_table(table)
    print()
    if ratios:
        ratios["all"] = geometric_mean([ratio for ratio in ratios.values() if ratio > 0])
    if len(lakes.table) > 1:
        print("The same beside lake formats, one client each, simple mode\n")
        print_table(lakes.table)
        print()
        ratios |= lakes.ratios
    print_json("small", ratios, {"rounds": options.rounds, "seconds": options.seconds, "not_measured": failures})
    return 0


def _columns(ours: Sequence[Sample], theirs: Sequence[Sample], ratio: float) -> list[str]:
    def middle(samples: Sequence[Sample], name: str) -> float:
        return float(statistics.median(getattr(sample, name) for sample in samples))

    return [
        f"{middle(ours, 'rate'):,.0f}",
        f"{middle(theirs, 'rate'):,.0f}",
        f"{ratio:.3f}",
        f"{middle(ours, 'p50_ms'):.2f}",
        f"{middle(theirs, 'p50_ms'):.2f}",
        f"{middle(ours, 'cpu_ms'):.2f}",
        f"{middle(theirs, 'cpu_ms'):.2f}",
        str(sum(sample.failed for sample in ours)),
    ]


if __name__ == "__main__":
    sys.exit(main())
