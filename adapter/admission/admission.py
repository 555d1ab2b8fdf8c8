"""Who may compute now: each class of statements has a *lane* in front of each engine, with so many slots.

A statement takes a slot for a piece of work on the engine's threads, not for as long as it lives: one whose client is
slow to fetch, or whose transaction is open, keeps nobody waiting. Who finds no slot waits in the lane; a free slot goes
to the role that has the fewest there, and of its statements to the one that came first. Waiting is part of the
statement, so its timeout counts it and a cancel request ends it. A *place* is what is known of one execution: its
class, and since when it waits. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from msgspec import Struct

from adapter.admission.classes import CLASSES, Limits, WorkloadClass, limits_on
from adapter.admission.machine import Machine, this_machine
from adapter.wall_clock import utc_now


class Place(Struct, eq=False):
    """One execution of a statement: whose, its class, and since when it waits for a slot. `queued_s` is what it has
    waited before."""

    token: str
    user: str
    klass: WorkloadClass
    waits_since: datetime | None = None
    queued_s: float = 0.0


class _Waiter(Struct, eq=False):
    number: int
    place: Place
    granted: asyncio.Future[None]


class Lane:
    """The slots of a class in front of one engine."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.running = 0
        self.waited = 0
        """Times that somebody has had to wait."""
        self._of: Counter[str] = Counter()
        self._queue: list[_Waiter] = []
        self._numbers = itertools.count()

    @property
    def waiting(self) -> int:
        """Statements that wait for a slot."""
        return len(self._queue)

    @property
    def is_full(self) -> bool:
        """Whether who comes now has to wait."""
        return self.running >= self.slots or bool(self._queue)

    def enter(self, place: Place) -> bool:
        """Takes a slot at once, if there is one."""
        if self.is_full:
            return False
        self.join(place)
        return True

    def join(self, place: Place) -> None:
        """Takes a slot even where there is none: for what computes already, and counts here from now on."""
        self.running += 1
        self._of[place.user] += 1

    async def wait(self, place: Place) -> None:
        """Waits for a slot, and takes it."""
        self.waited += 1
        waiter = _Waiter(next(self._numbers), place, asyncio.get_running_loop().create_future())
        self._queue.append(waiter)
        place.waits_since = began = utc_now()
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter in self._queue:
                self._queue.remove(waiter)
            else:
                self.leave(place)
            raise
        finally:
            place.waits_since = None
            place.queued_s += (utc_now() - began).total_seconds()

    def leave(self, place: Place) -> None:
        """Gives a slot back, to who has waited for it."""
        self.running -= 1
        self._of[place.user] -= 1
        if not self._of[place.user]:
            del self._of[place.user]
        while self._queue and self.running < self.slots:
            first = min(self._queue, key=lambda waiter: (self._of[waiter.place.user], waiter.number))
            self._queue.remove(first)
            self.join(first.place)
            first.granted.set_result(None)


class Turn(Struct, eq=False):
    """A slot that is held for a piece of work: in the lane of the place's class, or of a heavier one by now."""

    place: Place
    lane: Lane

    def leave(self, _: object = None) -> None:
        """Gives it back."""
        self.lane.leave(self.place)


class Admission:
    """The lanes of one process, and the places of what is executed in it."""

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = this_machine() if machine is None else machine
        self.limits: Mapping[WorkloadClass, Limits] = limits_on(self.machine)
        self.local = {name: Lane(self.limits[name].slots) for name in CLASSES}
        self.spark = {name: Lane(self.limits[name].spark_slots) for name in CLASSES}
        self.moved = 0
        """Statements that have gone on in a heavier class than they began in."""
        self._places: dict[int, Place] = {}
        """By the session's pid, of what it executes; the last one begun."""

    @contextmanager
    def place(self, token: str, user: str, klass: WorkloadClass) -> Iterator[Place]:
        """The place of one execution."""
        pid = _pid(token)
        place, before = Place(token, user, klass), self._places.get(pid)
        self._places[pid] = place
        try:
            yield place
        finally:
            if self._places.get(pid) is place:
                if before is None:
                    del self._places[pid]
                else:
                    self._places[pid] = before

    async def turn(self, lanes: Mapping[WorkloadClass, Lane], place: Place) -> Turn:
        """A slot in one of the `lanes` of an engine, once there is one."""
        lane = lanes[place.klass]
        if not lane.enter(place):
            await lane.wait(place)
        return Turn(place, lane)

    def move(self, lanes: Mapping[WorkloadClass, Lane], turn: Turn) -> None:
        """What computes has taken longer than its class allows: it goes on in the heavier one, even if that is full."""
        heavier = self.limits[turn.place.klass].heavier
        if heavier is None:
            return
        self.moved += 1
        lanes[heavier].join(turn.place)
        turn.leave()
        turn.lane, turn.place.klass = lanes[heavier], heavier

    def of(self, pid: int) -> Place | None:
        """The place of what session `pid` executes; None when no engine works for it."""
        return self._places.get(pid)


def _pid(token: str) -> int:
    """Whose execution a token names."""
    number = token.partition(".")[0]
    return int(number) if number.isdigit() else 0
