"""Counts how a statement walks through the house: `python tests/architecture/walks.py [CHECKOUT]`.

A real server (its own command, SQLite and files in a temporary folder, asyncio's loop) runs in this process, a client
on a socket asks it, and a profiler watches from the arrival of the message until ReadyForQuery. What is counted:

- *boundary*: a distinct pair of modules of the four storeys of which one calls the other. The caller is the nearest
  frame of a storey below the called one, so libraries between them do not hide it; a thread's job and a task count as
  called by whoever gave them away. A coroutine that goes on after a wait is called by whoever awaits it.
- *modules*: the distinct modules that are entered, the first one (which the event loop calls) among them.
- *returns*: boundaries less modules: how often one comes back to where one has been.
- *climbs*: boundaries from a lower storey to a higher one.

The server's own upkeep (tasks named `storage-...` and what they start) does not count, nor does what importing runs.
*Cold* is the first time that a process sees the statement, *hot* is the same text again: what every one of
`REPEATS` runs crosses. CHECKOUT is the folder of the code to measure, this one by default.

Prints a table for each walk, or with `--json` everything: the boundaries in the order in which each was first crossed.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import contextlib
import functools
import importlib
import io
import json
import os
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
import tomllib
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TypedDict, TypeVar

STOREYS = ("frontend", "adapter", "planner", "storage")
REPEATS = 5
PAUSE_S = 0.05
TIMEOUT_S = 120.0

PREPARATION = (
    "CREATE TABLE city (id int NOT NULL, name text NOT NULL, country char(2), population bigint)",
    "CREATE TABLE total (country char(2), population numeric)",
    "INSERT INTO city VALUES (1, 'Hamburg', 'DE', 1892000), (2, 'Rotterdam', 'NL', 655000), "
    "(3, 'Antwerp', 'BE', 530000), (4, 'Bremen', 'DE', 569000), (5, 'Amsterdam', 'NL', 921000)",
    # Another query first: what only a server's very first statement does is not the way of a statement.
    "SELECT max(id) FROM city",
)
WALKS = {
    "SELECT": "SELECT country, sum(population) FROM city WHERE population > 600000 GROUP BY country ORDER BY country",
    "INSERT ... SELECT": "INSERT INTO total SELECT country, sum(population) FROM city GROUP BY country",
}


_Step = TypeVar("_Step", bound=Hashable)


class Walk(TypedDict):
    """One run of a statement: its boundaries in the order of their first crossing, and the modules it entered."""

    boundaries: list[tuple[str, str]]
    modules: list[str]


def returns(walk: Walk) -> int:
    """How often the walk comes back to a module in which it has been."""
    return len(walk["boundaries"]) - len(walk["modules"])


def climbs(walk: Walk) -> list[tuple[str, str]]:
    """The boundaries from a lower storey to a higher one."""
    height = {storey: -index for index, storey in enumerate(STOREYS)}
    return [(a, b) for a, b in walk["boundaries"] if height[a.split(".")[0]] < height[b.split(".")[0]]]


def common(walks: Sequence[Walk]) -> Walk:
    """What all of `walks` have in common, in the order of most of them."""
    return Walk(
        boundaries=_in_all([walk["boundaries"] for walk in walks]),
        modules=_in_all([walk["modules"] for walk in walks]),
    )


def _in_all(runs: Sequence[list[_Step]]) -> list[_Step]:
    """What is in every run, by its middle place: on a busy machine what a run leaves behind may reach into the next."""
    shared = functools.reduce(set.intersection, (set(run) for run in runs))
    places = [{each: place for place, each in enumerate(each for each in run if each in shared)} for run in runs]
    return sorted(shared, key=lambda each: statistics.median(place[each] for place in places))


class Watch:
    """Sees the calls of every thread between `begin` and `end`."""

    def __init__(self) -> None:
        self._on = False
        self._boundaries: dict[tuple[str, str], None] = {}
        self._modules: dict[str, None] = {}
        self._upkeep: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._starters: weakref.WeakKeyDictionary[asyncio.Task[Any], str] = weakref.WeakKeyDictionary()
        """Who started a task since `begin`; of those that ran before, nobody did."""
        self._job = threading.local()
        self.loop: asyncio.AbstractEventLoop | None = None

    def install(self) -> None:
        """Follows what is given to threads and tasks from now on."""
        threading.setprofile(self.seen)
        submit = concurrent.futures.ThreadPoolExecutor.submit
        create_task = asyncio.BaseEventLoop.create_task

        def watched_submit(pool: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            return submit(pool, functools.partial(self._run, self._asking(), function), *args, **kwargs)

        def watched_create_task(loop: Any, coroutine: Any, **kwargs: Any) -> Any:
            self.loop = loop
            task = create_task(loop, coroutine, **kwargs)
            starter = None if task.get_name().startswith("storage-") else self._asking()
            if starter is None:
                self._upkeep.add(task)
            elif self._on:
                self._starters[task] = starter
            return task

        concurrent.futures.ThreadPoolExecutor.submit = watched_submit  # type: ignore[method-assign]
        asyncio.BaseEventLoop.create_task = watched_create_task  # type: ignore[assignment,method-assign]

    def _asking(self) -> str | None:
        """The module that runs now; "" when none of the storeys does, None for the server's upkeep."""
        caller = _storey_module(sys._getframe(2))
        base = self._base()
        return None if base is None else caller or base

    def _base(self) -> str | None:
        """Who gave away what this thread does."""
        given: str | None = getattr(self._job, "caller", "")
        if given != "":
            return given
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return ""
        if task is None:
            return ""
        return None if task in self._upkeep else self._starters.get(task, "")

    def _run(self, caller: str | None, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._job.caller = caller
        try:
            return function(*args, **kwargs)
        finally:
            self._job.caller = ""

    def seen(self, frame: FrameType, event: str, _: Any) -> None:
        """The profiler's hook."""
        if not self._on or event != "call":
            return
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] not in STOREYS or _importing(frame):
            return
        caller = _storey_module(frame.f_back)
        if caller == module:
            return
        base = self._base()
        if base is None:
            return
        if not self._modules and not module.startswith("frontend."):
            return  # The message is not there yet: what the stores hear of an earlier commit is not its walk.
        caller = caller or base
        self._modules.setdefault(module)
        if caller and caller != module:
            self._modules.setdefault(caller)
            self._boundaries.setdefault((caller, module))

    def begin(self) -> None:
        self._boundaries, self._modules = {}, {}
        self._starters.clear()
        self._on = True

    def end(self) -> Walk:
        self._on = False
        return Walk(boundaries=list(self._boundaries), modules=list(self._modules))

    def watch_the_loop(self) -> None:
        """Turns the profiler on in the thread of the event loop; returns when it is."""
        assert self.loop is not None
        done = threading.Event()
        self.loop.call_soon_threadsafe(sys.setprofile, self.seen)
        self.loop.call_soon_threadsafe(done.set)
        done.wait(TIMEOUT_S)


def _storey_module(frame: FrameType | None) -> str:
    """The module of the nearest frame that belongs to a storey, or ""; what the event loop calls nobody else does."""
    while frame is not None:
        module: str = frame.f_globals.get("__name__", "")
        if module == "asyncio.events":
            return ""
        if module.split(".")[0] in STOREYS:
            return module
        frame = frame.f_back
    return ""


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False


def measure(checkout: Path) -> dict[str, dict[str, Walk]]:
    """The walks of the code in `checkout`: statement -> "cold" and "hot". Once in a process: it becomes the server."""
    sys.path.insert(0, str(checkout))
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, function = project["project"]["scripts"]["tidegate"].partition(":")
    main = getattr(importlib.import_module(module), function)
    client_type = importlib.import_module("sqllogictest.client").Client
    watch = Watch()
    watch.install()
    found: dict[str, dict[str, Walk]] = {}
    failures: list[Exception] = []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    said = io.StringIO()

    def ask() -> None:
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while "psql" not in said.getvalue():
                if time.monotonic() > deadline:
                    raise RuntimeError("the server did not start")
                time.sleep(0.02)
            client = client_type(host="127.0.0.1", port=port, user="postgres", database="postgres", timeout_s=TIMEOUT_S)

            def run(text: str) -> None:
                answer = client.query(text)
                if answer.error is not None:
                    raise RuntimeError(answer.error)

            for text in PREPARATION:
                run(text)
            watch.watch_the_loop()
            for name, text in WALKS.items():
                walks = list(_walks(watch, run, text))
                found[name] = {"cold": walks[0], "hot": common(walks[-REPEATS:])}
            client.close()
        except Exception as error:  # noqa: BLE001 - raised again by the main thread
            failures.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=ask, name="client").start()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
        command = ["serve", "--data-dir", f"{folder}/data", "--listen", f"127.0.0.1:{port}"]
        command += ["--spark-start", "lazy", "--event-loop", "asyncio", "--log-level", "error"]
        status = main(command)
    if failures:
        raise failures[0]
    if status:
        raise RuntimeError(f"the server ended with status {status}")
    return found


def _walks(watch: Watch, run: Callable[[str], None], text: str) -> Iterator[Walk]:
    # One run between cold and hot: what is kept from the first run may be used in a way of its own the first time.
    for _ in range(2 + REPEATS):
        # The end of the last statement, behind its ReadyForQuery, is not the beginning of this one.
        time.sleep(PAUSE_S)
        watch.begin()
        run(text)
        yield watch.end()


def table(found: dict[str, dict[str, Walk]]) -> str:
    """The counts as text."""
    lines = [f"{'':24}{'boundaries':>12}{'modules':>10}{'returns':>10}{'climbs':>8}"]
    for name, temperatures in found.items():
        for temperature, walk in temperatures.items():
            counts = (len(walk["boundaries"]), len(walk["modules"]), returns(walk), len(climbs(walk)))
            lines.append(f"{name + ', ' + temperature:24}{counts[0]:>12}{counts[1]:>10}{counts[2]:>10}{counts[3]:>8}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Counts the module boundaries that a statement crosses.")
    parser.add_argument("checkout", nargs="?", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--json", action="store_true", help="print every boundary, in the order of the first crossing")
    parser.add_argument("--modules", action="store_true", help="print the modules as well, in the order of entering")
    arguments = parser.parse_args()
    found = measure(arguments.checkout.resolve())
    if arguments.json:
        print(json.dumps(found))
        return
    print(table(found))
    if arguments.modules:
        for name, temperatures in found.items():
            for temperature, walk in temperatures.items():
                print(f"\n{name}, {temperature}", *walk["modules"], sep="\n  ")


if __name__ == "__main__":
    main()
