"""The gateway to a JVM, without one."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

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
