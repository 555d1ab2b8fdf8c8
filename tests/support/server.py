"""Our own server as a real process, to be driven by real clients and killed for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import psutil

from tests.support.postgres import free_port

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 240.0

AUDITED = {"TIDEGATE_PRUNING_AUDIT": "1", "TIDEGATE_SPARK_START": "lazy"}
"""Every file that a read leaves out by its statistics is checked. Spark starts when it is needed, unless arguments say
otherwise: few servers of tests live long enough for what one that has started with them does to be fast later."""

WATCHED = "tests.support.watched_server"
"""What runs where servers are audited: it tells what holds up their event loops."""

AS_SHIPPED: dict[str, str] = {}
"""The server as its users have it."""


class TidegateServer:
    """A `tidegate serve` process over `data_dir`, accepting connections on `port`; its output goes to `log`.

    `environment` are variables for it besides those of this process; `AUDITED` when not given. `checkout` is the folder
    of the code that it runs, this one when not given; `module` is run in place of the command line that it declares. An
    audited server has its loops watched: see `stalls`.
    """

    running: ClassVar[set[TidegateServer]] = set()
    """The servers of this process."""

    def __init__(
        self,
        data_dir: Path,
        *,
        arguments: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        checkout: Path = ROOT,
        module: str | None = None,
    ) -> None:
        if module is None and environment is None and checkout == ROOT:
            module = WATCHED
        self.module = module
        self.data_dir = data_dir
        self.checkout = checkout
        self.arguments = arguments
        self.environment = dict(AUDITED if environment is None else environment)
        self.host = "127.0.0.1"
        self.port = free_port()
        self.log = data_dir.with_name(data_dir.name + ".log")
        self.process: subprocess.Popen[bytes] | None = None
        self._stalls = data_dir.with_name(data_dir.name + ".stalls")
        self._stalls_read = 0

    def start(self, *more: str) -> None:
        """Starts the process, with `more` arguments, and waits until it says how to connect; RuntimeError with its
        output if it ends."""
        project = tomllib.loads((self.checkout / "pyproject.toml").read_text(encoding="utf-8"))
        module = self.module or project["project"]["scripts"]["tidegate"].partition(":")[0]
        command = [sys.executable, "-m", module, "serve", "--data-dir", str(self.data_dir.absolute())]
        command += ["--listen", f"{self.host}:{self.port}", *self.arguments, *more]
        with self.log.open("ab") as log:
            printed_before = log.tell()
            self.process = subprocess.Popen(
                command,
                cwd=self.checkout,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LOOP_STALLS_FILE": str(self._stalls), **self.environment},
            )
        self.running.add(self)
        deadline = time.monotonic() + START_TIMEOUT_S
        while b'psql "host=' not in self.log.read_bytes()[printed_before:]:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start:\n{self.output()}")
            time.sleep(0.02)

    def replace(self) -> int:
        """Start the server anew beside the process that runs, from which it takes its sockets; the exit status of that
        one, once it has drained."""
        before = self.process
        assert before is not None
        try:
            self.start("--take-over", "--take-over-wait-s", "60")
            return before.wait(timeout=60)
        except BaseException:
            before.kill()
            raise

    def stalls(self) -> list[tuple[float, str]]:
        """What has held up the loops of a watched server since this was last asked: processor seconds, each longer than
        any before, and what ran."""
        if not self._stalls.exists():
            return []
        with self._stalls.open(encoding="utf-8") as file:
            file.seek(self._stalls_read)
            lines = file.readlines()
            self._stalls_read = file.tell()
        found = [line.split(maxsplit=2) for line in lines]
        return [(float(seconds), what) for seconds, _, what in found]

    def output(self) -> str:
        """What the process has printed so far, over all its starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def workers(self) -> list[int]:
        """The process ids of its workers, in the order in which they were started."""
        assert self.process is not None
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def kill(self) -> None:
        """SIGKILL, at once: what a crash does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None
            self.running.discard(self)

    def kill_spark(self) -> None:
        """SIGKILL to the process of Spark that this one has started."""
        assert self.process is not None
        below = psutil.Process(self.process.pid).children(recursive=True)
        (java,) = [one for one in below if "org.apache.spark.deploy.SparkSubmit" in one.cmdline()]
        java.kill()

    def stop(self) -> int:
        """SIGTERM, and the exit status once it has drained."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.process = None
        self.running.discard(self)
        return status

    def dsn(self, database: str = "postgres") -> str:
        """A libpq connection string."""
        return f"host={self.host} port={self.port} user=postgres dbname={database}"


@contextmanager
def run_server(
    data_dir: Path,
    *,
    arguments: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    checkout: Path = ROOT,
    module: str | None = None,
) -> Iterator[TidegateServer]:
    """A server for as long as the context lasts; killed at its end if it still runs."""
    server = TidegateServer(data_dir, arguments=arguments, environment=environment, checkout=checkout, module=module)
    server.start()
    try:
        yield server
    finally:
        server.kill()
