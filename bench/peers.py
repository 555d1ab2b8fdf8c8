"""The systems that benchmarks compare with, each run for as long as a context lasts."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.postgres import free_port

THRIFT_SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
START_TIMEOUT_S = 180.0

# What Spark's own launcher gives a JVM of version 17 (org.apache.spark.launcher.JavaModuleOptions).
MODULE_OPTIONS = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
        *("java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action"),
        *("sun.util.calendar", "jdk.internal.ref"),
    )
)


def spark_home() -> Path:
    """The folder of the installed pyspark package."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@contextmanager
def thrift_server(*, master: str = "local[*]", memory: str = "2g") -> Iterator[Any]:
    """The Spark Thrift Server of the pyspark package with its default settings; yields an impyla cursor."""
    from impala.dbapi import connect

    # Until it listens, every attempt to connect would be logged.
    logging.getLogger("thrift.transport.TSocket").setLevel(logging.CRITICAL + 1)
    port, folder = free_port(), Path(tempfile.mkdtemp(prefix="tidegate-thrift-"))
    command = [shutil.which("java") or "java", f"-Xmx{memory}", *MODULE_OPTIONS]
    command += ["-cp", f"{spark_home()}/jars/*", "org.apache.spark.deploy.SparkSubmit", "--master", master]
    command += ["--conf", "spark.ui.enabled=false", "--conf", "spark.sql.catalogImplementation=in-memory"]
    command += ["--class", THRIFT_SERVER, "spark-internal"]
    command += ["--hiveconf", f"hive.server2.thrift.port={port}", "--hiveconf", "hive.server2.authentication=NOSASL"]
    command += ["--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1"]
    environment = {**os.environ, "SPARK_HOME": str(spark_home())}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the Thrift Server did not start:\n{(folder / 'log').read_text()[-4000:]}")
            try:
                connection = connect(host="127.0.0.1", port=port, auth_mechanism="NOSASL")
                break
            except Exception as error:
                if "Could not connect" not in str(error):
                    raise
                time.sleep(0.5)
        try:
            yield connection.cursor()
        finally:
            connection.close()
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def plain_pyspark(settings: Sequence[tuple[str, str]], *, master: str = "local[*]") -> Iterator[Any]:
    """A PySpark session of this process with `settings`."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for name, value in settings:
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
