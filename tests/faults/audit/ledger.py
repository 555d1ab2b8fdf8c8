"""What the clients of an audit were told, and what they saw go wrong.

A transaction's *effects* are numbers added to a named sum: one more row, a counter raised, money moved. What was
acknowledged adds exactly; of what was under way when a server died nobody knows whether it happened, so such a
transaction only widens the bounds. *Results* must be different from each other: two clients who raised one counter
cannot both have been told the same number. *Exclusive* things have one holder at a time, as the clients see it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

MAX_FAULTS = 50
"""So many are kept; a broken server has them by the thousand."""


class Effects:
    """What one transaction will have done, noted as it goes on: before a statement within bounds, after it exactly."""

    def __init__(self) -> None:
        self.bounds: dict[str, tuple[int, int]] = {}
        self.results: list[tuple[str, int]] = []

    def add(self, what: str, low: int, high: int | None = None) -> None:
        """Between `low` and `high` more of `what`; exactly `low` without `high`."""
        before = self.bounds.get(what, (0, 0))
        self.bounds[what] = before[0] + low, before[1] + (low if high is None else high)

    def copy(self) -> Effects:
        """What it is now, whatever comes."""
        found = Effects()
        found.bounds, found.results = dict(self.bounds), list(self.results)
        return found

    def become(self, other: Effects) -> None:
        """What has come since `other` was copied was taken back."""
        self.bounds, self.results = other.bounds, other.results

    def result(self, what: str, number: int) -> None:
        """The server said that `what` is `number` now, which it says to nobody else."""
        self.results.append((what, number))


class Ledger:
    """The book of all clients; any thread may write to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0
        self._bounds: dict[str, tuple[int, int]] = {}
        self._told: dict[str, Counter[int]] = {}
        self._holders: dict[str, str] = {}
        self.outcomes: Counter[tuple[str, str, str]] = Counter()
        """How often each load, at each isolation level, ended how: ``ok``, ``unknown``, or a SQLSTATE."""
        self.faults: list[str] = []

    def unique(self) -> int:
        """A number that nobody else gets."""
        with self._lock:
            self._next += 1
            return self._next

    def ended(self, load: str, level: str, outcome: str, effects: Effects) -> None:
        """A transaction has ended so. What certainly did not happen leaves only its outcome."""
        with self._lock:
            self.outcomes[load, level, outcome] += 1
            if outcome not in ("ok", "unknown"):
                return
            for what, (low, high) in effects.bounds.items():
                if outcome == "unknown":
                    low, high = min(low, 0), max(high, 0)
                before = self._bounds.get(what, (0, 0))
                self._bounds[what] = before[0] + low, before[1] + high
            if outcome == "ok":
                for what, number in effects.results:
                    self._told.setdefault(what, Counter())[number] += 1

    def fault(self, text: str) -> None:
        """Something that must not happen."""
        with self._lock:
            if len(self.faults) < MAX_FAULTS and text not in self.faults:
                self.faults.append(text)

    @contextmanager
    def held(self, thing: str, holder: str) -> Iterator[None]:
        """`holder` has `thing` for as long as the context lasts; a fault if somebody else has it."""
        with self._lock:
            other = self._holders.setdefault(thing, holder)
        if other != holder:
            self.fault(f"{holder} has {thing}, which {other} has")
        try:
            yield
        finally:
            if other == holder:
                with self._lock:
                    del self._holders[thing]

    def bounds(self, what: str) -> tuple[int, int]:
        """Between which numbers the sum must be."""
        with self._lock:
            return self._bounds.get(what, (0, 0))

    def sums(self, prefix: str) -> dict[str, tuple[int, int]]:
        """The bounds of all sums whose names begin with `prefix`."""
        with self._lock:
            return {what: bounds for what, bounds in self._bounds.items() if what.startswith(prefix)}

    def check_results(self) -> None:
        """A fault for each number that two clients were told."""
        for what, told in self._told.items():
            twice = sorted(number for number, times in told.items() if times > 1)
            if twice:
                self.fault(f"{what}: {len(twice)} numbers were told twice, such as {twice[:5]}")

    @property
    def acknowledged(self) -> int:
        """Transactions that committed, as their clients know."""
        with self._lock:
            return sum(number for (_, _, outcome), number in self.outcomes.items() if outcome == "ok")
