"""A Spark cluster on Azure's object store: its emulator, through Hadoop's connector."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from storage.stores.object_place import ObjectPlace
from tests.faults.test_spark_cluster import QUERIES, STATEMENTS, parts
from tests.storage.cloud_emulators import AzureServer, asked_for
from tests.support.postgres import start_postgres
from tests.support.server import TidegateServer
from tests.support.spark_cluster import SparkCluster

pytestmark = pytest.mark.skipif(not asked_for(), reason="make clouds installs what it needs")


@pytest.fixture
def azure() -> Iterator[tuple[ObjectPlace, dict[str, str]]]:
    """A place in Azurite, and what Spark is told besides."""
    server = AzureServer()
    yield server.new_place(), {"spark.jars.packages": "org.apache.hadoop:hadoop-azure:3.5.0"}
    server.stop()


def test_executors_read_and_write_the_store(azure: tuple[ObjectPlace, dict[str, str]], tmp_path: Path) -> None:
    place, settings = azure
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
