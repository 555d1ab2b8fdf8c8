"""The wire: a million rows of ten mixed columns to clients and through COPY, against PostgreSQL in the same run.

    make bench NAME=wire

Fetches by psql, psycopg (text and binary), asyncpg and pgjdbc (where Debian's is installed), COPY TO and COPY FROM in
text, csv and binary, connections a second with SCRAM (in the clear and over TLS), and what an idle connection takes.
Each is measured in turns, ours and PostgreSQL's; of each turn the time and the server's own processor time are taken
(of all its processes), which says more than the time where others use the machine. A ratio is ours to PostgreSQL's
rate: above 1 we are faster.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import psutil
import psycopg
from msgspec import Struct

from bench.report import machine, print_json, print_table
from tests.support.postgres import start_postgres
from tests.support.server import run_server

COLUMNS = (
    "i bigint, k int, s smallint, price numeric(12,2), ratio double precision, flag boolean, day date,"
    " at timestamp, name text, note varchar(40)"
)
ROWS = (
    "SELECT g, g % 100000, (g % 30000)::smallint, (g % 1000000)::numeric(12,2) / 100, g * 0.37, g % 3 = 0,"
    " date '2020-01-01' + (g % 2000), timestamp '2020-01-01' + g * interval '1 second', 'name of ' || g,"
    " CASE WHEN g % 10 = 0 THEN NULL ELSE 'a note, ' || (g % 977) END FROM generate_series(1, {rows}) g"
)
QUERY = "SELECT * FROM wire"
FORMATS = ("text", "csv", "binary")
PASSWORD = "a password of the benchmark"
PIECE = 1 << 20
PGJDBC = Path("/usr/share/java/postgresql.jar")
FETCH = Path(__file__).parent / "jdbc" / "Fetch.java"


class Peer(Struct, frozen=True, kw_only=True):
    """A server: how to reach it, and the process whose family's time counts."""

    name: str
    host: str
    port: int
    pid: int

    def dsn(self, user: str = "postgres", **more: str) -> str:
        """A libpq connection string."""
        extra = "".join(f" {name}='{value}'" for name, value in more.items())
        return f"host={self.host} port={self.port} user={user} dbname=postgres{extra}"


class Sample(Struct, frozen=True):
    """Seconds, and seconds of processor time of the server."""

    seconds: float
    processor: float


def processor_time(pid: int) -> dict[int, float]:
    """Seconds that each process of the family has used."""
    found: dict[int, float] = {}
    root = psutil.Process(pid)
    for process in [root, *root.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        # Of those that have ended only their parent knows.
        found[process.pid] = times.user + times.system
        if process.pid == root.pid:
            found[-root.pid] = times.children_user + times.children_system
    return found


class Watched:
    """What a server takes while a measurement runs, whose last connection is still open at its end."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._before = processor_time(peer.pid)
        self._began = time.perf_counter()

    def sample(self) -> Sample:
        """Since the beginning."""
        seconds = time.perf_counter() - self._began
        after = processor_time(self._peer.pid)
        used = sum(value - self._before.get(pid, 0.0) for pid, value in after.items())
        return Sample(seconds, used)


def by_psql(peer: Peer) -> Sample:
    """All rows by psql, unaligned, which nobody keeps."""
    with psycopg.connect(peer.dsn(), autocommit=True):
        watched = Watched(peer)
        command = ["psql", "-X", "-q", "-A", "-t", peer.dsn(), "-c", QUERY]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        lines = 0
        while piece := process.stdout.read(PIECE):
            lines += piece.count(b"\n")
        process.wait()
        return watched.sample()


def by_psycopg(*, binary: bool) -> Callable[[Peer], Sample]:
    """All rows by one execute, without making Python values of them."""

    def fetch(peer: Peer) -> Sample:
        with psycopg.connect(peer.dsn(), autocommit=True) as connection:
            watched = Watched(peer)
            result = connection.pgconn.exec_params(QUERY.encode(), None, None, None, int(binary))
            assert result.ntuples > 0, result.error_message
            return watched.sample()

    return fetch


def by_asyncpg(peer: Peer) -> Sample:
    """All rows by one fetch."""

    async def fetch() -> Sample:
        connection = await asyncpg.connect(host=peer.host, port=peer.port, user="postgres", database="postgres")
        try:
            watched = Watched(peer)
            rows = await connection.fetch(QUERY)
            assert rows
            return watched.sample()
        finally:
            await connection.close()

    return asyncio.run(fetch())


def by_pgjdbc(peer: Peer) -> Sample:
    """All rows by one query of pgjdbc, which has them in memory."""
    url = f"jdbc:postgresql://{peer.host}:{peer.port}/postgres"
    command = ["java", "-Xmx3g", "-cp", str(PGJDBC), str(FETCH), url, QUERY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        watched = Watched(peer)
        process.stdin.write("\n")
        process.stdin.flush()
        assert int(process.stdout.readline()) > 0
        sample = watched.sample()
        process.stdin.close()
        return sample


def copy_to(format: str) -> Callable[[Peer], Sample]:
    """COPY TO STDOUT."""

    def copy(peer: Peer) -> Sample:
        with psycopg.connect(peer.dsn(), autocommit=True) as connection:
            watched = Watched(peer)
            with connection.cursor().copy(f"COPY wire TO STDOUT (FORMAT {format})".encode()) as data:
                size = sum(len(piece) for piece in data)
            assert size > 0
            return watched.sample()

    return copy


def copy_from(format: str, data: bytes) -> Callable[[Peer], Sample]:
    """COPY FROM STDIN into an empty table."""

    def copy(peer: Peer) -> Sample:
        with psycopg.connect(peer.dsn(), autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS loaded")
            connection.execute(f"CREATE TABLE loaded ({COLUMNS})".encode())
            watched = Watched(peer)
            with connection.cursor().copy(f"COPY loaded FROM STDIN (FORMAT {format})".encode()) as target:
                pieces = io.BytesIO(data)
                while piece := pieces.read(PIECE):
                    target.write(piece)
            return watched.sample()

    return copy


def connecting(count: int, **options: str) -> Callable[[Peer], Sample]:
    """So many connections one after the other, each with a password, and a statement on each."""

    def connect(peer: Peer) -> Sample:
        with psycopg.connect(peer.dsn(), autocommit=True):
            watched = Watched(peer)
            for _ in range(count):
                with psycopg.connect(peer.dsn("guest", password=PASSWORD, **options), autocommit=True) as connection:
                    connection.execute("SELECT 1")
            return watched.sample()

    return connect


def memory(pid: int) -> int:
    """Bytes of a family of processes, what they share counted once."""
    root = psutil.Process(pid)
    return sum(process.memory_full_info().pss for process in [root, *root.children(recursive=True)])


def idle_bytes(peer: Peer, count: int) -> float:
    """What one of `count` idle connections takes."""
    opened: list[psycopg.Connection] = []
    with psycopg.connect(peer.dsn(), autocommit=True) as first:
        first.execute("SELECT 1")
        before = memory(peer.pid)
        try:
            for _ in range(count):
                opened.append(psycopg.connect(peer.dsn(), autocommit=True))
                opened[-1].execute("SELECT 1")
            return (memory(peer.pid) - before) / count
        finally:
            for connection in opened:
                connection.close()


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of the server's own, and its key."""
    paths = folder / "server.crt", folder / "server.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-out", str(paths[0]), "-keyout", str(paths[1])],
        check=True, capture_output=True,
    )  # fmt: skip
    return paths


def rules(folder: Path) -> Path:
    """Trust for the superuser, a password for everybody else."""
    path = folder / "pg_hba.conf"
    path.write_text("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    return path


def listening(port: int) -> int:
    """The process that listens on a port of this machine: of those that have its socket, the one that has begun the
    others."""
    pids = {
        int(connection.pid)
        for connection in psutil.net_connections("tcp4")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid
    }
    for pid in pids:
        if psutil.Process(pid).ppid() not in pids:
            return pid
    raise RuntimeError(f"nobody listens on {port}")


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make bench NAME=wire", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=100, help="connections of a turn")
    parser.add_argument("--idle", type=int, default=5000, help="idle connections of ours; PostgreSQL gets 200")
    parser.add_argument("--only", default="", help="cases whose names begin so")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    folder.chmod(0o711)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        crt, key = certificate(folder)
        hba = rules(folder)
        for path in (crt, key, hba):
            shutil.chown(path, "postgres") if os.geteuid() == 0 else None
            path.chmod(0o600)
        ours = stack.enter_context(
            run_server(
                folder / "data",
                arguments=(
                    "--spark-start",
                    "lazy",
                    "--max-connections",
                    str(options.idle + 100),
                    "--hba-file",
                    str(hba),
                    "--tls-cert",
                    str(crt),
                    "--tls-key",
                    str(key),
                ),
            )
        )
        theirs = stack.enter_context(
            start_postgres(
                settings=(
                    "shared_buffers=512MB", "max_connections=300", f"hba_file={hba}", "ssl=on",
                    f"ssl_cert_file={crt}", f"ssl_key_file={key}",
                ),
                folder=folder,
            )
        )  # fmt: skip
        assert ours.process is not None
        peers = [
            Peer(name="ours", host="127.0.0.1", port=ours.port, pid=ours.process.pid),
            Peer(name="theirs", host="127.0.0.1", port=theirs.port, pid=listening(theirs.port)),
        ]
        return measure(peers, options)


def measure(peers: list[Peer], options: argparse.Namespace) -> int:
    """All cases on both servers."""
    data: dict[str, bytes] = {}
    for peer in peers:
        print(f"loading {options.rows:,} rows ({peer.name})", file=sys.stderr)
        with psycopg.connect(peer.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE TABLE wire ({COLUMNS})".encode())
            connection.execute(f"INSERT INTO wire {ROWS.format(rows=options.rows)}".encode())
            connection.execute(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'".encode())
            for format in FORMATS:
                with connection.cursor().copy(f"COPY wire TO STDOUT (FORMAT {format})".encode()) as copy:
                    data[format] = b"".join(bytes(piece) for piece in copy)
    cases: dict[str, Callable[[Peer], Sample]] = {
        "fetch by psql": by_psql,
        "fetch by psycopg, text": by_psycopg(binary=False),
        "fetch by psycopg, binary": by_psycopg(binary=True),
        "fetch by asyncpg": by_asyncpg,
        **({"fetch by pgjdbc": by_pgjdbc} if PGJDBC.exists() and shutil.which("javac") else {}),
        **{f"COPY TO, {format}": copy_to(format) for format in FORMATS},
        **{f"COPY FROM, {format}": copy_from(format, data[format]) for format in FORMATS},
        "connections, SCRAM": connecting(options.connections, sslmode="disable"),
        "connections, SCRAM and TLS": connecting(options.connections, sslmode="require"),
    }
    heading = ["", "ours s", "theirs s", "ratio", "ours CPU s", "theirs CPU s", "ratio of CPU"]
    table, ratios = [heading], {}
    for name, run in cases.items():
        if not name.startswith(options.only):
            continue
        samples: dict[str, list[Sample]] = {peer.name: [] for peer in peers}
        for _ in range(options.rounds):
            for peer in peers:
                samples[peer.name].append(run(peer))
        seconds = {peer: statistics.median(sample.seconds for sample in found) for peer, found in samples.items()}
        processor = {peer: statistics.median(sample.processor for sample in found) for peer, found in samples.items()}
        ratios[name] = seconds["theirs"] / seconds["ours"]
        ratios[f"{name}, CPU"] = processor["theirs"] / max(processor["ours"], 1e-3)
        table.append(
            [
                name,
                *(f"{seconds[peer]:.2f}" for peer in samples),
                f"{ratios[name]:.2f}",
                *(f"{processor[peer]:.2f}" for peer in samples),
                f"{ratios[f'{name}, CPU']:.2f}",
            ]
        )
        print("  ".join(table[-1]), file=sys.stderr)
    counts: dict[str, int | float] = {"rows": options.rows, "rounds": options.rounds}
    if options.idle and not options.only:
        counts["idle_connections"] = options.idle
        counts["bytes_of_an_idle_connection"] = round(idle_bytes(peers[0], options.idle))
        counts["bytes_of_an_idle_connection_theirs"] = round(idle_bytes(peers[1], min(options.idle, 200)))
    print(f"\n{options.rows:,} rows of ten columns, {options.connections} connections ({machine()})\n")
    print_table(table)
    print()
    print_json("wire", ratios, counts)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
