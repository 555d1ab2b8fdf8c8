"""A Spark cluster on the object stores of Azure and Google: their emulators, through Hadoop's connectors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from storage.stores.object_place import ObjectPlace
from tests.clients_basic.client import run_tool
from tests.faults.test_spark_cluster import QUERIES, STATEMENTS, parts
from tests.storage.cloud_emulators import CACHE, AzureServer, GoogleServer, asked_for
from tests.support.postgres import start_postgres
from tests.support.server import TidegateServer
from tests.support.spark_cluster import SparkCluster

pytestmark = pytest.mark.skipif(not asked_for(), reason="make clouds installs what it needs")

GOOGLE = "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26:jar:shaded"
"""Google's own connector: Hadoop's reaches no emulator."""


@pytest.fixture
def azure() -> Iterator[tuple[ObjectPlace, dict[str, str]]]:
    """A place in Azurite, and what Spark is told besides."""
    server = AzureServer()
    yield server.new_place(), {"spark.jars.packages": "org.apache.hadoop:hadoop-azure:3.5.0"}
    server.stop()


@pytest.fixture
def google(tmp_path: Path) -> Iterator[tuple[ObjectPlace, dict[str, str]]]:
    """A place in fake-gcs-server, and what Spark is told besides: it asks nobody for a token."""
    server = GoogleServer(tmp_path)
    jars = CACHE / "gcs-connector"
    if not list(jars.glob("*.jar")):
        jars.mkdir(parents=True, exist_ok=True)
        output = f"-DoutputDirectory={jars}"
        run_tool("mvn", "-q", "dependency:copy", f"-Dartifact={GOOGLE}", output, cwd=CACHE, timeout_s=600)
    (jar,) = jars.glob("*.jar")
    settings = {
        "spark.jars": str(jar),
        "spark.hadoop.fs.gs.auth.type": "UNAUTHENTICATED",
        "spark.hadoop.fs.gs.auth.service.account.enable": "false",
        "spark.hadoop.fs.gs.auth.null.enable": "true",
        "spark.hadoop.fs.gs.storage.root.url": server.json_endpoint + "/",
        "spark.hadoop.fs.gs.project.id": "p",
    }
    yield server.new_place(), settings
    server.stop()


@pytest.mark.parametrize("store", ["azure", "google"])
def test_executors_read_and_write_the_store(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> None:
    place, settings = request.getfixturevalue(store)
    options = [part for pair in place.options.items() for part in ("--blob-option", "=".join(pair))]
    with SparkCluster(tmp_path / "cluster", settings=settings) as cluster:
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        server = TidegateServer(
            tmp_path / "server" / "data",
            arguments=(*cluster.arguments, "--set", "engine=spark", "--blob", place.root, *options),
            environment={"TMPDIR": str(temporary)},
        )
        server.data_dir.parent.mkdir()
        try:
            server.start()
            with (
                start_postgres() as oracle,
                psycopg.connect(oracle.dsn(), autocommit=True) as theirs,
                psycopg.connect(server.dsn(), autocommit=True) as ours,
            ):
                for statement in STATEMENTS:
                    assert ours.execute(statement).statusmessage == theirs.execute(statement).statusmessage, statement
                for query in QUERIES:
                    assert ours.execute(query).fetchall() == theirs.execute(query).fetchall(), query
        finally:
            server.kill()
    assert [key for key in parts(place.open()) if re.search(r"-\w+(\.\d+){4}\.parquet$", key)]
    assert list(temporary.rglob("*.parquet")) == []
