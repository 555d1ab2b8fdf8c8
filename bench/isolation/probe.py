"""A session that is measured, in a process of its own: `python -m bench.isolation.probe DSN read|commit`.

It sends one small statement after the other, with a pause between two. For each line of its input it answers with the
times in milliseconds that answers have taken since the line before, as one line of JSON. Being a process of its own, it
waits for the server, never for those who send what disturbs it.
"""

from __future__ import annotations

import json
import random
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

PAUSE_S = 0.004
"""Between two statements."""

ROWS = 10_000
"""Of the table whose rows are read and changed by their key."""

STATEMENTS = {
    "read": "SELECT id, n, label FROM probed WHERE id = %s",
    "commit": "UPDATE probed SET n = n + 1 WHERE id = %s",
}


class Probe:
    """The process, seen from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def times_ms(self) -> list[float]:
        """What the answers took since this was last asked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a measured session has ended")
        times: list[float] = json.loads(line)
        return times


@contextmanager
def probe(dsn: str, kind: str) -> Iterator[Probe]:
    """A session that reads or commits for as long as the context lasts."""
    command = [sys.executable, "-m", "bench.isolation.probe", dsn, kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Probe(process)
        finally:
            process.kill()


def ask(dsn: str, kind: str) -> None:
    """What the process does until its input ends."""
    times: list[float] = []
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=1) as connection:
        while True:
            key = random.randint(1, ROWS)
            began = time.perf_counter()
            connection.execute(STATEMENTS[kind].encode(), (key,))
            times.append(round((time.perf_counter() - began) * 1000, 3))
            if select.select([sys.stdin], [], [], PAUSE_S)[0]:
                if not sys.stdin.readline():
                    return
                print(json.dumps(times), flush=True)
                times = []


if __name__ == "__main__":
    ask(*sys.argv[1:3])
