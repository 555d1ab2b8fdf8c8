"""`tidegate spark-env`: executors whose hosts have no Python run the functions and writes of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest

from frontend.command.main import main
from storage.stores.object_place import ObjectPlace
from tests.storage.store_servers import S3Server
from tests.support.server import TidegateServer
from tests.support.spark_cluster import S3_SETTINGS, SparkCluster


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, as the command makes it."""
    path = tmp_path_factory.mktemp("env") / "spark-env.tar.gz"
    assert main(["spark-env", "--output", str(path)]) == 0
    return path


def test_python_of_the_archive_needs_nothing_else(archive: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "xzf", archive, "-C", tmp_path], check=True)
    code = "import sys, obstore, pyarrow, regex, ssl; print(sys.prefix)"
    command = [str(tmp_path / "bin" / "python"), "-c", code]
    run = subprocess.run(command, env={"PATH": "/bin:/usr/bin"}, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(tmp_path)
    assert "tidegate" not in os.listdir(tmp_path / "lib" / f"python3.{sys.version_info.minor}" / "site-packages")


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark-env", "--output", str(tmp_path / "none" / "env.tar.gz")]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_executors_run_it(archive: Path, tmp_path: Path) -> None:
    s3 = S3Server()
    keys = {"endpoint": s3.endpoint, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test"}
    place = ObjectPlace(root=f"s3://{s3.new_bucket()}/lake", options=keys)
    options = [part for pair in keys.items() for part in ("--blob-option", "=".join(pair))]
    python = {"spark.archives": f"{archive}#environment", "spark.pyspark.python": "./environment/bin/python"}
    try:
        with SparkCluster(tmp_path / "cluster", settings={**S3_SETTINGS, **python}) as cluster:
            arguments = (*cluster.arguments, "--set", "engine=spark", "--blob", place.root, *options)
            server = TidegateServer(tmp_path / "data", arguments=arguments)
            try:
                server.start()
                with psycopg.connect(server.dsn(), autocommit=True) as connection:
                    connection.execute(
                        "CREATE TABLE t AS SELECT g AS n, 'x' || g AS v FROM generate_series(1, 20000) g"
                    )
                    found = connection.execute(r"SELECT count(*) FROM t WHERE v ~ '^x1\d*9$'").fetchone()
                    assert found == (sum(str(n)[0] == "1" and str(n)[-1] == "9" for n in range(1, 20001) if n > 9),)
                below = [child for executor in cluster.executors() for child in executor.children(recursive=True)]
                programs = {Path(child.exe()).name for child in below if child.status() != psutil.STATUS_ZOMBIE}
                folders = {Path(child.exe()).parent.name for child in below if child.status() != psutil.STATUS_ZOMBIE}
                assert programs == {f"python3.{sys.version_info.minor}"}
                assert folders == {"bin"}
                assert all("environment" in child.exe() or "archive" in child.exe() for child in below)
            finally:
                server.kill()
    finally:
        s3.stop()
