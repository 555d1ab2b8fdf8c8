"""Memory that several server processes of one host share: a few numbers of each, which all of them read.

The process that starts the others makes it (`HostMemory.make`) and they inherit it. Each number has one writer, its
own process, which never makes a head smaller; so nobody needs a lock, and what a process wrote before it was killed
stays true. A number is eight bytes at a multiple of eight, which the processor writes and reads as one.
"""

from __future__ import annotations

import mmap

MAX_PROCESSES = 64
"""Processes that one piece of memory has room for."""

_KINDS = 6
_NUMBER_BYTES = 8

SILENT_MS = 5_000
"""A process that has not beaten for so long leaves the upkeep to the others: it has ended, or is stopped."""


class OwnNumber:
    """A number of each process, of which this one writes its own."""

    def __init__(self, numbers: memoryview, own: int) -> None:
        self._numbers = numbers
        self._own = own

    def raise_own(self, value: int) -> None:
        """Let this process's number be `value` at least; it may have it from an earlier process in its place."""
        if value > self._numbers[self._own]:
            self._numbers[self._own] = value

    @property
    def own(self) -> int:
        """This process's number."""
        return self._numbers[self._own]

    @own.setter
    def own(self, value: int) -> None:
        self._numbers[self._own] = value

    def set(self, process: int, value: int) -> None:
        """Set the number of a process that does not run."""
        self._numbers[process] = value

    def of_all(self) -> list[int]:
        """The numbers of all processes, in their order."""
        return self._numbers.tolist()

    def highest(self) -> int:
        """The highest number of all."""
        return max(self._numbers)

    def total(self) -> int:
        """The sum of all."""
        return sum(self._numbers)


class HostMemory:
    """The shared numbers as process `own` of `count` sees them; `name` is that of the memory, unlike any other's.

    `heads`: how far the process has seen its environment come. `sessions`: how many sessions it has. `pids`: how many
    backend pids it has given out, also under earlier processes with its number. `closed`: how many of the connections
    that it was given have ended. `wanted`: what it waits for that others have (`adapter.transactions.locks.outside`).
    `beats`: when it last said that it lives, by the host's monotonic clock in milliseconds; 0 before that.
    """

    def __init__(self, memory: mmap.mmap, own: int, count: int, name: str) -> None:
        self.name = name
        self.own = own
        self.count = count
        numbers = memoryview(memory).cast("Q")
        rows = [numbers[kind * MAX_PROCESSES : kind * MAX_PROCESSES + count] for kind in range(_KINDS)]
        self.heads, self.sessions, self.pids, self.closed, self.wanted, self.beats = (
            OwnNumber(row, own) for row in rows
        )

    def beat(self, now_ms: int) -> None:
        """Say that this process lives."""
        self.beats.own = now_ms

    def does_upkeep(self, now_ms: int) -> bool:
        """Whether this process is the one that does what one of them is to do for all: the first that lives."""
        return all(not beat or now_ms - beat > SILENT_MS for beat in self.beats.of_all()[: self.own])

    @staticmethod
    def make() -> mmap.mmap:
        """New memory, which the processes inherit that this one forks."""
        return mmap.mmap(-1, _KINDS * MAX_PROCESSES * _NUMBER_BYTES)
