"""The supervisor of a server with several workers: it forks them, takes clients in for them, and outlives each of them.

It accepts each connection and hands its socket to the worker that has the fewest, so that they share the load whatever
the kernel would do; nothing of the protocol is read here, and the statements of a session never pass through. A worker
that ends is started again, after a pause if it did not live long; the others go on meanwhile and get the clients.
Signals are passed on: SIGTERM drains, SIGINT stops at once, any second one of them stops at once too, SIGHUP reads the
configuration again.

The first worker opens the environment, which may have to be made, before the others do; nobody is let in before all of
them are ready. One that fails before that ends the server with its exit status.

SUBTLE: workers are forked, from a process that has one thread and has loaded next to nothing. `Supervisor.run` returns
in a worker too, with its `WorkerEnd`: the stack below is the worker's from then on, and nothing of the supervisor's is
left in it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from adapter.sessions.scratch import Scratch
from adapter.workers.colleagues import WorkerPlace
from frontend.server.handover import Offer
from frontend.workers.control import CLIENT, MAX_MESSAGE_BYTES, READY, Order, WorkerEnd, control_pair
from storage.host_memory import HostMemory

LONG_LIFE_S = 30.0
"""A worker that ends after so long is started again at once."""

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
"""Pauses before a worker is started again that keeps ending: each is twice the one before."""

RETRY_S = 0.01
"""Pause before a client is offered again that no worker could take in."""

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class _Worker:
    """One place among the workers, and the process that has it now, if any."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0
        self.control: socket.socket | None = None
        self.ready = False
        self.given = 0
        """Connections that the process was given."""
        self.started = 0.0
        self.pause_s = 0.0
        self.due: float | None = 0.0
        """When it is to be started, by the monotonic clock; None while it runs."""


class Supervisor:
    """See the module's contract. `ready` is called once all workers answer, and `offer`, which is given what makes this
    server drain, offers its sockets to a later one; `tell` logs an event with its values. `leaving`, once the sockets
    are offered, can be read when the transactions of the server before are over, which clients wait for `patience_s`
    at most.
    """

    def __init__(
        self,
        count: int,
        listeners: Sequence[socket.socket],
        *,
        ready: Callable[[], None],
        offer: Callable[[Callable[[], None]], Offer],
        leaving: Callable[[], socket.socket | None],
        patience_s: float,
        tell: Callable[..., None],
    ) -> None:
        self._count = count
        self._listeners = list(listeners)
        self._announce = ready
        self._make_offer = offer
        self._offer: Offer | None = None
        self._find_leaving = leaving
        self._leaving: socket.socket | None = None
        """The end of the server before, while clients wait for it."""
        self._patience_s = patience_s
        self._waits_until = 0.0
        self._tell = tell
        self._memory = HostMemory.make()
        self._scratch = Scratch()
        self._numbers = HostMemory(self._memory, 0, count, self._scratch.path.name)
        self._workers = [_Worker(number) for number in range(count)]
        self._selector = selectors.DefaultSelector()
        self._waiting: deque[socket.socket] = deque()
        """Clients that no worker has taken in yet."""
        self._serving = False
        self._listening = False
        self._stopping = False
        self._status = 0

    def run(self) -> WorkerEnd | int:
        """Supervise until all workers have ended after a signal: the exit status. In a worker: its end."""
        wakeup, woken = socket.socketpair()
        for end in (wakeup, woken):
            end.setblocking(False)
        handlers = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
        before = signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        self._selector.register(wakeup, selectors.EVENT_READ)
        worker: WorkerEnd | None = None
        try:
            while not self._is_over():
                worker = self._start_due()
                if worker is not None:
                    return worker
                if self._leaving is not None and time.monotonic() >= self._waits_until:
                    self._let_in()
                for key, _ in self._selector.select(self._pause()):
                    if key.fileobj is wakeup:
                        for number in wakeup.recv(4096):
                            self._on_signal(signal.Signals(number))
                    elif isinstance(key.data, _Worker):
                        self._hear(key.data)
                    elif key.data is not None:
                        key.data()
                    else:
                        self._accept(key.fileobj)  # type: ignore[arg-type]
                self._hand_over()
            return self._status
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            wakeup.close()
            woken.close()
            self._selector.close()
            if worker is None:
                self._scratch.remove()
                if self._offer is not None:
                    self._offer.has_left()

    # ------------------------------------------------------------ workers

    def _start_due(self) -> WorkerEnd | None:
        """Fork the workers whose time has come. In one of them: its end."""
        now = time.monotonic()
        for worker in self._workers:
            if worker.due is None or worker.due > now or self._stopping:
                continue
            ours, theirs = control_pair()
            sys.stdout.flush()
            sys.stderr.flush()
            worker.pid = os.fork()
            if worker.pid == 0:
                self._leave_to_worker(ours)
                memory = HostMemory(self._memory, worker.number, self._count, self._scratch.path.name)
                return WorkerEnd(worker.number, WorkerPlace(memory, self._scratch.path), theirs)
            theirs.close()
            worker.control, worker.ready, worker.given = ours, False, 0
            worker.started, worker.due = now, None
            self._numbers.closed.set(worker.number, 0)
            self._selector.register(ours, selectors.EVENT_READ, worker)
            if worker.number == 0 or self._workers[0].ready or self._serving:
                self._order(worker, Order.OPEN)
            self._tell("worker started", worker=worker.number, pid=worker.pid)
        return None

    def _leave_to_worker(self, ours: socket.socket) -> None:
        """In a worker just forked: let go of what is the supervisor's."""
        ours.close()
        for other in self._workers:
            if other.control is not None:
                other.control.close()
        for one in (*self._listeners, *self._waiting):
            one.close()
        if self._leaving is not None:
            self._leaving.close()
        if self._offer is not None:
            self._offer.listener.close()

    def _hear(self, worker: _Worker) -> None:
        """A worker has said something, or its process has ended."""
        control = worker.control
        if control is None:
            return
        try:
            message = control.recv(MAX_MESSAGE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._ended(worker)
        elif message == READY:
            worker.ready = True
            if worker.number == 0:
                for other in self._workers[1:]:
                    if other.control is not None and not other.ready:
                        self._order(other, Order.OPEN)
            if not self._serving and all(each.ready for each in self._workers):
                self._serving = True
                self._offer_sockets()
                self._leaving = self._find_leaving()
                if self._leaving is None or self._stopping:
                    self._let_in()
                else:
                    self._waits_until = time.monotonic() + self._patience_s
                    self._selector.register(self._leaving, selectors.EVENT_READ, self._let_in)

    def _let_in(self) -> None:
        """Accept clients: the server before has none any more, or takes too long."""
        if self._leaving is not None:
            self._selector.unregister(self._leaving)
            self._leaving.close()
            self._leaving = None
        if not self._stopping:
            self._listening = True
            for one in self._listeners:
                self._selector.register(one, selectors.EVENT_READ)
            self._announce()

    def _offer_sockets(self) -> None:
        """Let a later server take the sockets over."""
        try:
            offer = self._offer = self._make_offer(partial(self._stop, Order.DRAIN))
        except OSError as error:
            self._tell("a later server cannot take the listening sockets over", error=str(error))
            return
        self._selector.register(offer.listener, selectors.EVENT_READ, partial(self._give_sockets, offer))

    def _give_sockets(self, offer: Offer) -> None:
        control = offer.accept()
        if control is not None:
            self._selector.register(control, selectors.EVENT_READ, partial(self._hear_taker, offer, control))

    def _hear_taker(self, offer: Offer, control: socket.socket) -> None:
        self._selector.unregister(control)
        if offer.hear(control):
            self._selector.register(control, selectors.EVENT_READ, partial(self._hear_taker, offer, control))

    def _ended(self, worker: _Worker) -> None:
        """The process of `worker` has closed its control socket: it has ended, or is about to."""
        assert worker.control is not None
        self._selector.unregister(worker.control)
        worker.control.close()
        worker.control = None
        _, status = os.waitpid(worker.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        was_ready, worker.ready = worker.ready, False
        self._numbers.sessions.set(worker.number, 0)
        self._numbers.beats.set(worker.number, 0)
        if self._stopping:
            self._status = max(self._status, code if code >= 0 else 1)
            return
        if not self._serving and not was_ready:
            self._status = code if code > 0 else 1
            self._stop(Order.STOP)
            return
        lived = time.monotonic() - worker.started
        if lived >= LONG_LIFE_S:
            worker.pause_s = 0.0
        worker.due = time.monotonic() + worker.pause_s
        self._tell(
            "a worker has ended, another one takes its place",
            worker=worker.number,
            pid=worker.pid,
            **({"signal": signal.Signals(-code).name} if code < 0 else {"status": code}),
        )
        worker.pause_s = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, worker.pause_s * 2))

    def _order(self, worker: _Worker, order: Order) -> None:
        if worker.control is not None:
            # One that is ending is heard of soon.
            with contextlib.suppress(OSError):
                worker.control.send(order.value)

    def _is_over(self) -> bool:
        return self._stopping and all(worker.control is None for worker in self._workers)

    def _pause(self) -> float | None:
        """How long to wait for something to happen, in seconds."""
        if self._waiting:
            return RETRY_S
        due = [worker.due for worker in self._workers if worker.due is not None]
        if self._leaving is not None:
            due.append(self._waits_until)
        return max(0.0, min(due) - time.monotonic()) if due and not self._stopping else None

    # ------------------------------------------------------------ signals

    def _on_signal(self, number: signal.Signals) -> None:
        if number is signal.SIGHUP:
            for worker in self._workers:
                self._order(worker, Order.RELOAD)
        elif number in (signal.SIGTERM, signal.SIGINT):
            self._stop(Order.DRAIN if number is signal.SIGTERM and not self._stopping else Order.STOP)

    def _stop(self, order: Order) -> None:
        if not self._stopping:
            self._stopping = True
            if self._offer is not None:
                self._selector.unregister(self._offer.listener)
                self._offer.close()
            for one in self._listeners:
                if self._listening:
                    self._selector.unregister(one)
                one.close()
            while self._waiting:
                self._waiting.popleft().close()
        for worker in self._workers:
            self._order(worker, order)

    # ------------------------------------------------------------ clients

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # There is none left, or it has gone already, or no descriptor is free.
            with contextlib.suppress(OSError):
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._waiting.append(client)

    def _hand_over(self) -> None:
        """Give the clients that wait to the workers with the fewest."""
        while self._waiting:
            client = self._waiting[0]
            if not any(self._give(worker, client) for worker in self._by_load()):
                return
            self._waiting.popleft().close()

    def _by_load(self) -> list[_Worker]:
        closed = self._numbers.closed.of_all()
        able = [worker for worker in self._workers if worker.ready and worker.control is not None]
        return sorted(able, key=lambda worker: worker.given - closed[worker.number])

    def _give(self, worker: _Worker, client: socket.socket) -> bool:
        assert worker.control is not None
        try:
            socket.send_fds(worker.control, [CLIENT], [client.fileno()])
        except OSError:
            return False
        worker.given += 1
        return True
