"""A session that asks `SELECT 1` again and again, in a process of its own: `python -m bench.large.second_session DSN`.

For each line of its input it answers with one line: the longest time in milliseconds that an answer has taken since the
line before. Being a process of its own, it waits for the server and never for whoever sends it large statements.
"""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

PAUSE_S = 0.002
"""Between two questions."""


class SecondSession:
    """The process, seen from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def longest_ms(self) -> float:
        """The longest wait since this was last asked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the second session has ended")
        return float(line)


@contextmanager
def second_session(dsn: str) -> Iterator[SecondSession]:
    """A second session for as long as the context lasts."""
    command = [sys.executable, "-m", "bench.large.second_session", dsn]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            session = SecondSession(process)
            session.longest_ms()
            yield session
        finally:
            process.kill()


def ask(dsn: str) -> None:
    """What the process does until its input ends."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        longest_s = 0.0
        while True:
            began = time.perf_counter()
            connection.execute("SELECT 1").fetchall()
            longest_s = max(longest_s, time.perf_counter() - began)
            if select.select([sys.stdin], [], [], PAUSE_S)[0]:
                if not sys.stdin.readline():
                    return
                print(f"{longest_s * 1000:.1f}", flush=True)
                longest_s = 0.0


if __name__ == "__main__":
    ask(sys.argv[1])
