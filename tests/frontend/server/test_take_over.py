"""A newer server takes the sockets of the one that runs: clients that come again find one at every moment."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest

from frontend.server.handover import HandoverFailed, ListeningPlace, path_of, predecessor
from frontend.server.listening import listening
from tests.support.server import ROOT, TidegateServer


class Caller(threading.Thread):
    """A client with a loop around its connection: counts what it adds, and what it is told besides lost connections."""

    def __init__(self, server: TidegateServer, number: int, *, folder: Path | None) -> None:
        super().__init__(daemon=True)
        self.dsn = server.dsn() if folder is None else f"host={folder} port={server.port} user=postgres dbname=postgres"
        self.number = number
        self.stopping = threading.Event()
        self.added = self.doubtful = self.lost = 0
        self.other: list[str] = []

    def run(self) -> None:
        """Runs in the thread."""
        while not self.stopping.is_set():
            try:
                with psycopg.connect(self.dsn, autocommit=True, connect_timeout=60) as connection:
                    while not self.stopping.is_set():
                        self.doubtful += 1
                        connection.execute("INSERT INTO added VALUES (%s)", (self.number,))
                        self.doubtful -= 1
                        self.added += 1
            except psycopg.Error as error:
                if error.sqlstate not in (None, "57P01"):
                    self.other.append(f"{error.sqlstate} {error}")
                elif "refused" in str(error) or "No such file" in str(error):
                    self.other.append(str(error))
                self.lost += 1


@pytest.mark.parametrize("workers", [1, 2])
def test_clients_lose_connections_and_nothing_else(workers: int, tmp_path: Path) -> None:
    folder = tmp_path / "sockets"
    folder.mkdir()
    arguments = ("--spark-start", "lazy", "--workers", str(workers), "--unix-socket-dir", str(folder), "--take-over")
    servers = [TidegateServer(tmp_path / "data", arguments=arguments) for _ in range(3)]
    for number, server in enumerate(servers):
        server.port, server.log = servers[0].port, tmp_path / f"{number}.log"
    servers[0].start()
    callers = [Caller(servers[0], number, folder=folder if number == 3 else None) for number in range(4)]
    try:
        with psycopg.connect(servers[0].dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE added (n int)")
        for caller in callers:
            caller.start()
        with psycopg.connect(servers[0].dsn()) as late:
            late.execute("INSERT INTO added VALUES (9)")
            for before, after in itertools.pairwise(servers):
                time.sleep(1.0)
                after.start()
                assert before.process is not None
                if before is servers[0]:
                    assert before.process.poll() is None, "a transaction is under way"
                    late.commit()
                assert before.process.wait(timeout=60) == 0
        time.sleep(1.0)
        for caller in callers:
            caller.stopping.set()
        for caller in callers:
            caller.join(timeout=60)
        assert [caller.other for caller in callers] == [[]] * 4
        assert all(caller.lost >= 2 and caller.added for caller in callers)
        with psycopg.connect(servers[2].dsn(), autocommit=True) as connection:
            found: dict[int, int] = dict(connection.execute("SELECT n, count(*) FROM added GROUP BY n").fetchall())
        for caller in callers:
            assert caller.added <= found[caller.number] <= caller.added + caller.doubtful
        assert found[9] == 1
        assert (folder / f".s.PGSQL.{servers[0].port}").exists()
    finally:
        for server in servers:
            server.kill()


def test_a_server_that_does_not_start_changes_nothing(tmp_path: Path) -> None:
    server = TidegateServer(tmp_path / "data", arguments=("--spark-start", "lazy"))
    server.start()
    try:
        command = [sys.executable, "-m", "frontend.command.main", "serve", "--take-over", "--spark-start", "lazy"]
        command += ["--data-dir", str(server.data_dir), "--listen", f"127.0.0.1:{server.port}"]
        failed = subprocess.run(
            [*command, "--set", "nonsense=1"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
        assert failed.returncode == 1
        assert "nonsense" in failed.stderr
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as killed:
            time.sleep(0.3)
            killed.send_signal(signal.SIGKILL)
        with psycopg.connect(server.dsn()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert server.stop() == 0
        assert not path_of(server.data_dir, "127.0.0.1", server.port).exists()
    finally:
        server.kill()


def test_sockets_pass_through_long_names(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    path = path_of(folder, "::1", 5433)
    assert predecessor(path) is None
    (own,) = listening("127.0.0.1", 0)
    left: list[bool] = []
    place = ListeningPlace(path, {"127.0.0.1:0": ("127.0.0.1", [own])}, None)
    offer = place.offer(lambda: left.append(True))
    assert path.stat().st_mode & 0o777 == 0o600
    found: list[object] = []
    taker = threading.Thread(target=lambda: found.append(predecessor(path)))
    taker.start()
    offer.listener.setblocking(True)
    control = offer.accept()
    assert control is not None
    taker.join()
    before = found[0]
    assert before is not None
    assert offer.hear(control)
    (given,) = before.sockets["127.0.0.1:0"]  # type: ignore[attr-defined]
    assert given.getsockname() == own.getsockname()
    leaving: socket.socket = before.leave()  # type: ignore[attr-defined]
    assert not offer.hear(control)
    assert left == [True]
    offer.close()
    leaving.setblocking(False)
    with pytest.raises(BlockingIOError):
        leaving.recv(1)
    offer.has_left()
    assert leaving.recv(1) == b"", "what ran there is over"
    assert path.exists(), "it is the newer server's"
    for one in (own, given, leaving):
        one.close()


def test_who_ends_gives_nothing(tmp_path: Path) -> None:
    path = path_of(tmp_path, "localhost", 1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
        one.bind(str(path))
        assert predecessor(path) is None
        one.listen(1)
        taker = threading.Thread(target=lambda: one.accept()[0].close())
        taker.start()
        with pytest.raises(HandoverFailed, match="is about to end"):
            predecessor(path)
        taker.join()
    assert os.path.exists(path)
