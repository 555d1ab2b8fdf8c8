"""The gateway to a JVM: what is asked of it, and its end."""

from __future__ import annotations

import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from adapter.engines.spark.java import gateway
from adapter.engines.spark.java.gateway import RunningJava, SparkGateway


def test_threads_ask_at_once_whether_it_lives() -> None:
    read, write = os.pipe()
    running = SparkGateway(RunningJava(pid=1, folder="/nowhere", port=1, secret=""), object(), write)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(lambda _: running.alive, range(4000)))
        os.close(read)
        assert not running.alive
    finally:
        sys.setswitchinterval(before)
        os.close(write)


LAUNCHING = """
import sys
from pathlib import Path
from adapter.engines.spark.java.gateway import GatewayOptions, launch
launch(GatewayOptions(master="local[1]", memory="512m", conf=(), directory=Path(sys.argv[1])))
"""


@pytest.mark.parametrize("delay", [0.0, 0.5, 1.0, 1.5, 2.0])
def test_it_ends_when_its_server_and_its_folder_go_while_it_starts(tmp_path: Path, delay: float) -> None:
    """Killed while Spark starts, a server leaves no Java behind, even when its data directory is removed at once."""
    folder = tmp_path / "spark"
    folder.mkdir()
    server = psutil.Popen([sys.executable, "-c", LAUNCHING, str(folder)])
    java: list[psutil.Process] = []
    while not java and server.is_running():
        java = [child for child in server.children() if "java" in child.name()]
        time.sleep(0.05)
    (process,) = java
    time.sleep(delay)
    server.kill()
    server.wait()
    shutil.rmtree(folder)
    gone, alive = psutil.wait_procs([process], timeout=30)
    for left in alive:
        left.kill()
    assert gone


def test_it_maps_the_classes_that_setting_up_has_archived(tmp_path: Path) -> None:
    archive = gateway.class_archive(gateway.find_java())
    if not archive.exists() and "CI" not in os.environ:
        pytest.skip("this installation has no archive of Spark's classes: scripts/setup.sh makes it")
    running = gateway.launch(gateway.GatewayOptions(master="local[1]", memory="256m", conf=(), directory=tmp_path))
    try:
        mapped = {map.path for map in psutil.Process(running.java.pid).memory_maps()}
        assert str(archive) in mapped
    finally:
        running.stop()


def test_it_starts_without_classes_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "classes.jsa"
    archive.write_bytes(b"of another Java" * 1000)
    monkeypatch.setattr(gateway, "class_archive", lambda java: archive)
    running = gateway.launch(gateway.GatewayOptions(master="local[1]", memory="256m", conf=(), directory=tmp_path))
    try:
        assert running.gateway.jvm.System.currentTimeMillis() > 0
    finally:
        running.stop()
