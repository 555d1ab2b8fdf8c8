"""The server with a watch on its event loop: `python -m tests.support.watched_server serve ...` runs the command line.

What counts is the processor time that the loop's thread spends from one timer to the next, for that is what all other
sessions wait for; time in which a busy machine runs something else does not count. Each longest time so far, above
`WORTH_SECONDS`, becomes a line of the file that `STALLS_FILE` names: seconds, process id, and what ran. Where
`ABOVE_SECONDS` is given, every time above it does.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import traceback

import uvloop

from frontend.command.main import main

STALLS_FILE = "LOOP_STALLS_FILE"
"""The variable with the file's name."""

ABOVE_SECONDS = "LOOP_STALLS_ABOVE"
"""The variable with seconds, for who asks again and again."""

BEAT_SECONDS = 0.002
"""Between two timers."""

WORTH_SECONDS = 0.1

LOOK_SECONDS = 0.05
"""How often another thread looks at what runs, when no timer has come since it looked last."""


class LoopWatch:
    """Watches one loop. `start` is called on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, file: str, above: float | None) -> None:
        self._loop = loop
        self._file = file
        self._above = above
        self._thread = 0
        self._beats = 0
        self._cpu = 0.0
        self._longest = WORTH_SECONDS
        self._seen = "not seen"

    def start(self) -> None:
        """Begin."""
        self._thread = threading.get_ident()
        self._cpu = time.thread_time()
        threading.Thread(target=self._look, name="loop-watch").start()
        self._beat()

    def _beat(self) -> None:
        now = time.thread_time()
        seconds, self._cpu = now - self._cpu, now
        self._beats += 1
        if seconds > (self._longest if self._above is None else self._above):
            self._longest = max(seconds, self._longest)
            with open(self._file, "a", encoding="utf-8") as file:
                file.write(f"{seconds:.3f} {os.getpid()} {self._seen}\n")
            self._cpu = time.thread_time()
        self._seen = "not seen"
        self._loop.call_later(BEAT_SECONDS, self._beat)

    def _look(self) -> None:
        while not self._loop.is_closed():
            before = self._beats
            time.sleep(LOOK_SECONDS)
            # NOTE: it holds the interpreter's list of threads. Garbage that is collected meanwhile, and takes the lock
            # of the interpreter as it ends (Arrow's datasets do), would wait for ever (CPython's issue 106883).
            collects = gc.isenabled()
            gc.disable()
            try:
                frame = sys._current_frames().get(self._thread)
            finally:
                if collects:
                    gc.enable()
            if frame is not None and before == self._beats:
                calls = traceback.extract_stack(frame)[-12:]
                self._seen = " < ".join([f"{call.name}:{call.lineno}" for call in reversed(calls)])
            # A frame that is kept keeps what it refers to alive at the server's exit.
            del frame


def watch_loops(file: str, above: float | None) -> None:
    """Every loop that the server makes from now on is watched."""
    make = uvloop.new_event_loop

    def watched() -> uvloop.Loop:
        loop = make()
        loop.call_soon(LoopWatch(loop, file, above).start)
        return loop

    uvloop.new_event_loop = watched


if __name__ == "__main__":
    wanted = os.environ.get(ABOVE_SECONDS)
    watch_loops(os.environ[STALLS_FILE], None if wanted is None else float(wanted))
    sys.exit(main())
