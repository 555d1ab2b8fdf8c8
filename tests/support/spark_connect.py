"""A Spark Connect server of the package's own on this machine, and where its client's packages are."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from adapter.engines.spark.java.gateway import OPENED_PACKAGES, find_java
from tests.support.postgres import free_port

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 240


def client_packages() -> Path:
    """The folder of what a client of Spark Connect needs, which is set up where it is missing."""
    subprocess.run([ROOT / "scripts" / "setup.sh", "connect"], check=True)
    return ROOT / ".cache" / "connect"


class SparkConnect:
    """The server's process; what it writes goes below `folder`. `settings` are Spark's."""

    def __init__(self, folder: Path, *, master: str = "local[2]", settings: dict[str, str] | None = None) -> None:
        self._folder = folder
        self._master = master
        self._settings = settings or {}
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"sc://127.0.0.1:{self._port}"

    def __enter__(self) -> SparkConnect:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        home = Path(spec.origin).parent
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.local.dir": str(self._folder),
            **self._settings,
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [str(find_java().executable), "-XX:+IgnoreUnrecognizedVMOptions", "-Xmx900m", "-Xss8m"]
        command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
        command += ["-Dio.netty.tryReflectionSetAccessible=true", "-cp", str(home / "jars" / "*")]
        command += ["org.apache.spark.deploy.SparkSubmit", "--master", self._master]
        command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environment |= {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "PYSPARK_PYTHON": sys.executable}
        with (self._folder / "connect.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=self._folder
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError((self._folder / "connect.log").read_text(errors="replace")) from None
                time.sleep(0.1)
            else:
                return

    def kill(self) -> None:
        """kill -9 the server."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
