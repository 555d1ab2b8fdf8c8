"""The clients that nobody knows yet: how many there may be at once, and who goes when one more comes.

It is the oldest of the address that has the most. So whoever opens connections and leaves them hanging displaces his
own, and the others come in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager


class Strangers:
    """See the module's contract. `limit` is how many there may be."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._places: dict[object, tuple[Hashable, Callable[[], None]]] = {}
        """By stranger, oldest first: where it comes from, and what turns it away."""
        self._counts: Counter[Hashable] = Counter()
        self.turned_away = 0
        """How many had to go."""

    def __len__(self) -> int:
        return len(self._places)

    @contextmanager
    def one_more(self, place: Hashable, turn_away: Callable[[], None]) -> Iterator[None]:
        """A stranger from `place`, while the context lasts. `turn_away` is called if it has to go."""
        me = object()
        self._places[me] = (place, turn_away)
        self._counts[place] += 1
        try:
            if len(self._places) > self._limit:
                self._turn_one_away()
            yield
        finally:
            if me in self._places:
                self._forget(me)

    def _turn_one_away(self) -> None:
        crowded = max(self._counts, key=lambda place: self._counts[place])
        goes = next(one for one, (place, _) in self._places.items() if place == crowded)
        _, turn_away = self._places[goes]
        self._forget(goes)
        self.turned_away += 1
        turn_away()

    def _forget(self, one: object) -> None:
        place, _ = self._places.pop(one)
        self._counts[place] -= 1
        if not self._counts[place]:
            del self._counts[place]
