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

from adapter.engines.spark.gateway import RunningJava, SparkGateway


def test_threads_ask_at_once_whether_it_lives() -> None:
    read, write = os.pipe()
    gateway = SparkGateway(RunningJava(pid=1, folder="/nowhere", port=1, secret=""), object(), write)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(lambda _: gateway.alive, range(4000)))
        os.close(read)
        assert not gateway.alive
    finally:
        sys.setswitchinterval(before)
        os.close(write)


LAUNCHING = """
import sys
from pathlib import Path
from adapter.engines.spark.gateway import GatewayOptions, launch
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
