"""An asyncio event loop for simulations: virtual time, seeded scheduling, processes that can be killed.

- Time stands still while anything is ready and then jumps to the next timer.
- Of several ready callbacks the next one is drawn by seed, so that every interleaving that asyncio allows (and
  some that its first-in-first-out order never shows) can happen.
- Work for threads runs at once, inside the loop.
- A callback belongs to the simulated process in whose context it was scheduled. Once a process is killed none of
  its callbacks runs any more: its tasks stop where they are, without clean-up, as after ``kill -9``.
- A process can be paused and resumed, as a machine that is suspended or swaps.
- Everything that runs goes into the trace's digest: the same seed gives the same digest.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import heapq
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from storage.doubles.clock import SeededRandomness
from storage.errors import StorageError

_T = TypeVar("_T")

MAX_STEPS = 300_000
"""A simulation takes 5,000 to 30,000 steps; one that takes so many does not end by itself."""


HASHED_TOGETHER = 1_024
"""Lines of a trace that gather before they enter its digest: one by one they would cost more."""


class Deadlock(Exception):
    """Nothing is ready and no timer is set, but the simulation has not finished."""


class Process:
    """One simulated process: its name, and whether it still runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.held: list[Any] = []
        """Callbacks that wait for the process to be resumed."""

    def __repr__(self) -> str:
        return f"Process({self.name!r}{'' if self.alive else ', killed'})"


NETWORK = Process("network")
"""What does not belong to any process: messages under way, the stores, the test itself."""

current_process: contextvars.ContextVar[Process] = contextvars.ContextVar("current_process", default=NETWORK)


class Trace:
    """A digest of everything that happened, and its last lines for a person to read."""

    def __init__(self, keep: int = 0) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._keep = keep
        self._fresh: list[str] = []
        self.lines: list[str] = []
        self.events = 0

    def add(self, line: str) -> None:
        """Note one event."""
        self.events += 1
        self._fresh.append(line)
        if len(self._fresh) >= HASHED_TOGETHER:
            self._hash()
        if self._keep:
            self.lines.append(line)
            if len(self.lines) > 2 * self._keep:
                del self.lines[: -self._keep]

    def _hash(self) -> None:
        self._digest.update("\n".join([*self._fresh, ""]).encode())
        self._fresh.clear()

    @property
    def digest(self) -> str:
        """A short text that two traces share if and only if they are the same."""
        self._hash()
        return self._digest.hexdigest()


class SimulatedLoop(asyncio.BaseEventLoop):
    """See the module's contract."""

    def __init__(self, seed: int, trace: Trace) -> None:
        super().__init__()
        self._draw = SeededRandomness(seed).random
        self._ready: list[asyncio.Handle] = []  # what BaseEventLoop calls so; a queue there
        self._now = 0.0
        self._stamp = "0.000000"
        self._task_numbers = 0
        self._steps = 0
        self._buried = False
        self._unfinished: list[tuple[asyncio.Task[Any], Process]] = []
        """Tasks and whose they are. Held, so that those of a killed process are not collected, which would run their
        clean-up."""
        self.trace = trace
        self.failures: list[BaseException] = []
        """Exceptions that reached the loop instead of a caller."""
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._on_exception)

    def time(self) -> float:
        """Virtual seconds since the start."""
        return self._now

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, _T] | Generator[Any, None, _T],
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[_T]:
        self._task_numbers += 1
        task: asyncio.Task[_T] = asyncio.Task(coro, loop=loop, name=f"task-{self._task_numbers}", context=context)
        self._unfinished.append(
            (task, current_process.get() if context is None else context.get(current_process, NETWORK))
        )
        if self._task_numbers % 1024 == 0:
            self.collect_failures()
        return task

    def collect_failures(self) -> None:
        """Note the exceptions of finished tasks that nobody has asked for, and let go of those tasks.

        A store that fails is no failure when who would have asked for it has ended with its process.
        """
        for task, process in self._unfinished:
            if task.done() and task._log_traceback:
                error = task.exception()
                if error is not None and (process.alive or not isinstance(error, StorageError)):
                    self.failures.append(error)
        self._unfinished = [(task, process) for task, process in self._unfinished if not task.done()]

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.failures.append(error if error is not None else RuntimeError(context["message"]))

    def _run_once(self) -> None:
        """Run one ready callback, drawn by seed; advance the time when there is none."""
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        while scheduled and (scheduled[0]._cancelled or scheduled[0]._when <= self._now):
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            if not timer._cancelled:
                ready.append(timer)
        if not ready:
            if self._stopping:  # type: ignore[attr-defined]
                return
            if not scheduled:
                raise Deadlock("every task waits for another")
            self._now = scheduled[0]._when
            self._stamp = f"{self._now:.6f}"
            return
        if len(ready) > 1:
            at = int(self._draw() * len(ready))
            ready[at], ready[-1] = ready[-1], ready[at]
        handle: Any = ready.pop()
        process = handle._context.get(current_process, NETWORK)
        if handle._cancelled or not process.alive:
            return
        if process.paused:
            process.held.append(handle)
            return
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Deadlock(f"no end after {MAX_STEPS} steps")
        self.trace.add(f"{self._stamp} {process.name} {_describe(handle._callback)}")
        handle._run()

    def note(self, line: str) -> None:
        """Add `line` to the trace, with the time."""
        self.trace.add(f"{self._stamp} {line}")

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """See `asyncio.loop.call_soon`; without its checks, which cost as much as the rest."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def pause(self, process: Process) -> None:
        """Let nothing of `process` run, as when its machine is suspended; timers and messages go on."""
        process.paused = True

    def resume(self, process: Process) -> None:
        """Let `process` go on where it was, with everything that has come due meanwhile."""
        process.paused = False
        self._ready.extend(process.held)
        process.held.clear()

    def _process_events(self, event_list: object) -> None:
        """There are no events from outside."""

    def _write_to_self(self) -> None:
        """Nobody sleeps, so nobody needs waking."""

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., _T], *args: Any
    ) -> asyncio.Future[_T]:
        """Run `func` now; its result arrives like any other event."""
        future: asyncio.Future[_T] = self.create_future()
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - handed to whoever awaits the thread's work
            future.set_exception(error)
        else:
            future.set_result(result)
        return future

    def bury(self) -> None:
        """Close the loop, and the coroutines of every task that did not finish, without running them on."""
        left = [task for task, _ in self._unfinished if not task.done()]
        coroutines = [task.get_coro() for task in left]
        for task in left:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._buried = True
        for coroutine in coroutines:
            if coroutine is not None:
                _close(coroutine)
        self._ready.clear()
        self._scheduled.clear()  # type: ignore[attr-defined]
        self._unfinished.clear()
        self.close()

    def _check_closed(self) -> None:
        """A buried loop takes what it is given and does nothing with it."""
        if not self._buried:
            super()._check_closed()  # type: ignore[misc]


def _close(coroutine: Any) -> None:
    """Unwind a coroutine of a dead process. What it tries on the way out has no effect: its loop runs no more."""
    with contextlib.suppress(Exception):
        coroutine.close()


def _describe(callback: Any) -> str:
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        coroutine = owner.get_coro()
        return f"{owner.get_name()} {getattr(coroutine, '__qualname__', '')}"
    return str(getattr(callback, "__qualname__", type(callback).__name__))


class SimulatedClock:
    """`Clock` of one simulated process: virtual time, with a wall clock of its own that may be wrong."""

    def __init__(self, loop: SimulatedLoop, *, skew_ms: int = 0, start_ms: int = 1_700_000_000_000) -> None:
        self._loop = loop
        self._offset_ms = start_ms + skew_ms

    def now_ms(self) -> int:
        """Virtual Unix milliseconds, as this process has them."""
        return self._offset_ms + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Sleep in virtual time."""
        await asyncio.sleep(seconds)

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock ahead, or back."""
        self._offset_ms += milliseconds


def spawn(loop: SimulatedLoop, process: Process, coroutine: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
    """Start `coroutine` as a task of `process`."""
    context = contextvars.copy_context()
    context.run(current_process.set, process)
    return loop.create_task(coroutine, context=context)


def simulate(
    seed: int, main: Callable[[SimulatedLoop], Coroutine[Any, Any, _T]], *, trace: Trace | None = None
) -> tuple[_T, Trace]:
    """Run `main(loop)` to its end under `seed`; its result and the trace."""
    trace = trace or Trace()
    loop = SimulatedLoop(seed, trace)
    try:
        result = loop.run_until_complete(main(loop))
        loop.collect_failures()
        if loop.failures:
            raise loop.failures[0]
        return result, trace
    finally:
        loop.bury()
