"""Fixtures that every storey's tests may use."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.postgres import PostgresServer, start_postgres
from tests.support.server import TidegateServer, run_server

# Tests' JVMs live for seconds: what the optimizing compiler makes of their code costs more than it saves. The place
# that Java sets apart for compiled code without it is too small for Spark: it would compile over and over again.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=512m",
)

# Machines are noisy: how long an example takes is no verdict on the code.
settings.register_profile("tidegate", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("tidegate")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL, shared by the whole run: each test makes and drops its own objects."""
    with start_postgres() as server:
        yield server


LONGEST_SERVER_STALL = 2.0
"""Seconds of processor time that a server may take from its event loop at once, on a machine that may be three times
slower at one hour than at another. Loading what is first needed takes most."""


@pytest.fixture(autouse=True)
def server_watch(request: pytest.FixtureRequest) -> Iterator[None]:
    """The event loops of servers must be free for others; `stalls` marks a test that says why they are not."""
    yield
    marker = request.node.get_closest_marker("stalls")
    limit = LONGEST_SERVER_STALL if marker is None else marker.args[0]
    for running in TidegateServer.running:
        for seconds, what in running.stalls():
            assert seconds <= limit, f"a server's event loop was held up for {seconds:.3f} s by {what}"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """Our server as a real process with a local Spark, shared by the whole run: each test has its own schema."""
    data_dir = tmp_path_factory.mktemp("server") / "data"
    with run_server(data_dir, arguments=("--spark-master", "local[2]", "--spark-conf", "spark.driver.memory=2g")) as it:
        yield it
