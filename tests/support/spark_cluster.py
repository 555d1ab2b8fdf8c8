"""A standalone Spark cluster of the package's own: a master and workers on this machine, with little memory."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

import psutil

from adapter.engines.spark.java.gateway import find_java
from tests.support.postgres import free_port

START_TIMEOUT_S = 240
SDK = "2.35.4"
"""Of the libraries that Hadoop's file system for S3 was built with. Their bundle has those of all services, 600 MB;
these are what it needs."""

PACKAGES = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    *(f"software.amazon.awssdk:{name}:{SDK}" for name in ("s3", "s3-transfer-manager", "sts", "apache-client")),
)
S3_SETTINGS = {"spark.jars.packages": ",".join(PACKAGES), "spark.jars.excludes": "software.amazon.awssdk:bundle"}


class SparkCluster:
    """The processes of a master and of `workers` workers of one core each; what they write goes below `folder`.
    `settings` are what servers give to Spark besides: by default, how it reaches S3."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 1,
        executor_memory: str = "640m",
        settings: Mapping[str, str] = S3_SETTINGS,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._workers = workers
        self._executor_memory = executor_memory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._port = free_port()

    @property
    def master(self) -> str:
        """The master's URL."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """What a server is started with to use it."""
        settings = {
            "spark.driver.memory": "768m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": self._executor_memory,
            "spark.pyspark.python": sys.executable,
            **self._settings,
        }
        pairs = [part for name, value in settings.items() for part in ("--spark-conf", f"{name}={value}")]
        return ("--spark-master", self.master, *pairs)

    def __enter__(self) -> SparkCluster:
        self._folder.mkdir(parents=True, exist_ok=True)
        address = ("--host", "127.0.0.1", "--webui-port", "0")
        self._start("master", "master.Master", *address, "--port", str(self._port))
        self._await("master", "I have been elected leader")
        for number in range(self._workers):
            own = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / f"work-{number}"))
            self._start(f"worker-{number}", "worker.Worker", *address, *own, self.master)
        for number in range(self._workers):
            self._await(f"worker-{number}", "Successfully registered with master")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for executor in self.executors():
            executor.kill()
        for process in self._processes:
            process.kill()
            process.wait()

    def executors(self) -> list[psutil.Process]:
        """The executors that run."""
        found = []
        for process in self._processes[1:]:
            for child in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if any("CoarseGrainedExecutorBackend" in word for word in child.cmdline()):
                        found.append(child)
        return found

    def kill_executor(self) -> None:
        """kill -9 one of the executors that run."""
        os.kill(self.executors()[0].pid, signal.SIGKILL)

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        home = Path(spec.origin).parent
        command = [str(find_java().executable), "-Xmx256m", "-cp", f"{home / 'jars'}/*"]
        # The tests' own path must not lead Python workers to this code.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environment.update(SPARK_HOME=str(home), SPARK_SCALA_VERSION="2.13", SPARK_LOCAL_IP="127.0.0.1")
        with self._log(name).open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [*command, f"org.apache.spark.deploy.{kind}", *arguments],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=self._folder,
                )
            )

    def _await(self, name: str, words: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not re.search(words, self._log(name).read_text(errors="replace")):
            if time.monotonic() > deadline or self._processes[-1].poll() is not None:
                raise RuntimeError(f"{name} did not start:\n{self._log(name).read_text(errors='replace')}")
            time.sleep(0.05)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"
