"""A list of which every earlier state stays as it was, for what a savepoint may bring back.

Adding gives a new list in constant time, because the two share their beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct, field

T = TypeVar("T")


class PersistentList(Struct, Generic[T], frozen=True, eq=False):
    """The first `length` items of `_shared`, which only grows behind them."""

    _shared: list[T] = field(default_factory=list)
    length: int = 0

    def add(self, item: T) -> PersistentList[T]:
        """The list with `item` at its end."""
        shared = self._shared
        if not self.length or len(shared) > self.length:
            # Another list has grown out of this one, or (an empty one is anybody's) may yet; the two part here.
            shared = shared[: self.length]
        shared.append(item)
        return PersistentList(shared, self.length + 1)

    @classmethod
    def of(cls, items: Iterable[T]) -> PersistentList[T]:
        """A list of these."""
        shared = list(items)
        return cls(shared, len(shared))

    def __iter__(self) -> Iterator[T]:
        return iter(self._shared[: self.length])
