"""A Spark cluster on Azure's object store: its emulator, through Hadoop's connector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.stores.object_place import ObjectPlace
from tests.storage.cloud_emulators import AzureServer, asked_for
from tests.support.server import TidegateServer
from tests.support.spark_cluster import SparkCluster
from tests.support.spark_work import answers_as_postgres, blob_options, written_by_tasks

pytestmark = pytest.mark.skipif(not asked_for(), reason="make clouds installs what it needs")


@pytest.fixture
def azure() -> Iterator[tuple[ObjectPlace, dict[str, str]]]:
    """A place in Azurite, and what Spark is told besides."""
    server = AzureServer()
    yield server.new_place(), {"spark.jars.packages": "org.apache.hadoop:hadoop-azure:3.5.0"}
    server.stop()


def test_executors_read_and_write_the_store(azure: tuple[ObjectPlace, dict[str, str]], tmp_path: Path) -> None:
    place, settings = azure
    with SparkCluster(tmp_path / "cluster", settings=settings) as cluster:
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        server = TidegateServer(
            tmp_path / "server" / "data",
            arguments=(*cluster.arguments, "--set", "engine=spark", *blob_options(place)),
            environment={"TMPDIR": str(temporary)},
        )
        server.data_dir.parent.mkdir()
        try:
            server.start()
            answers_as_postgres(server.dsn())
        finally:
            server.kill()
    assert written_by_tasks(place.open())
    assert list(temporary.rglob("*.parquet")) == []
