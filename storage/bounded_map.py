"""How everything is kept that can be had again: a map with a bound, from which the least recently used goes first.

Bounds are numbers of entries, bytes that the caller counts, or both. The newest entry stays even where it alone is more
than the bound. An entry that must not go (a table that somebody reads, a file that is open) is *pinned*: the caller's
predicate says so, and `trim` drops it once it says so no more; until then the map may hold more than its bound.

`age`, called now and then, drops what was not used since the call before, but for a small part of the bound, so that
a map that nobody asks any more gives its memory back. `storage.cache_memory` calls it for the caches of a process.

A look-up costs no call of this module: `get` and `touch` are the dictionary's own methods. `get` alone does not count
as use, so that what is only asked for in passing changes nothing. So an owner who wants it known how good the cache is
counts `hits` and `misses` itself.

Not thread-safe, apart from `get`: callers with several threads hold their lock around the rest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

IDLE_SHARE = 32
"""The part of its bound that a map keeps however long it is not used: one of so many."""

_MARK: Any = object()
"""A key of no entry: what stands before it was not used since the last `age`."""


class BoundedMap(Generic[K, V]):
    """A map of at most `max_entries` entries and `max_bytes` bytes."""

    __slots__ = (
        "__weakref__",
        "_entries",
        "_pinned",
        "_sizes",
        "bytes",
        "get",
        "hits",
        "max_bytes",
        "max_entries",
        "misses",
        "touch",
    )

    def __init__(
        self,
        *,
        max_entries: int | None = None,
        max_bytes: int | None = None,
        pinned: Callable[[K, V], bool] | None = None,
    ) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()
        """The least recently used first."""
        self._sizes: dict[K, int] = {}
        self.max_entries = max_entries
        self.max_bytes = max_bytes
        self._pinned = pinned
        self.bytes = 0
        """The sizes of all entries together."""
        self.hits = 0
        """Look-ups that found something, as far as the owner counts them."""
        self.misses = 0
        self.get: Callable[[K], V | None] = self._entries.get
        """The value of a key, or None."""
        self.touch: Callable[[K], None] = self._entries.move_to_end
        """Count a use of a key that is there. Raises KeyError when it is not."""

    def __len__(self) -> int:
        return len(self._entries) - (_MARK in self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def items(self) -> Iterator[tuple[K, V]]:
        """Every entry, the least recently used first. The map must not change meanwhile."""
        return ((key, value) for key, value in self._entries.items() if key is not _MARK)

    def put(self, key: K, value: V, size: int = 0) -> list[tuple[K, V]]:
        """Keep `value`, which takes `size` bytes, in place of what was there, as the newest entry; returns the others
        that had to go."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        self.resize(key, size)
        return self.trim()

    def resize(self, key: K, size: int) -> None:
        """The entry `key`, which is there, takes `size` bytes now. Drops nothing: `trim` does."""
        if self.max_bytes is not None:
            self.bytes += size - self._sizes.get(key, 0)
            self._sizes[key] = size

    def trim(self) -> list[tuple[K, V]]:
        """Drops what is too much, the least recently used first, and returns it."""
        if not self._too_much(len(self), self.bytes, 1):
            return []
        newest = next(key for key in reversed(self._entries) if key is not _MARK)
        return self._drop(1, newest, len(self))

    def age(self, limit: int) -> list[tuple[K, V]]:
        """Drops up to `limit` entries that were not used since the last call that dropped fewer, as far as there are
        more than one `IDLE_SHARE`-th of what the map may hold; returns them."""
        dropped = self._drop(IDLE_SHARE, _MARK, limit) if _MARK in self._entries else []
        if len(dropped) < limit:
            self._entries[_MARK] = _MARK
            self._entries.move_to_end(_MARK)
        return dropped

    def _drop(self, share: int, end: object, limit: int) -> list[tuple[K, V]]:
        """Drops up to `limit` of the entries before the key `end`, the least recently used first, as long as there is
        more than one `share`-th of the bounds."""
        count, size = len(self), self.bytes
        dropped: list[tuple[K, V]] = []
        for key, value in self._entries.items():
            if key is end or len(dropped) == limit or not self._too_much(count, size, share):
                break
            if key is _MARK or (self._pinned is not None and self._pinned(key, value)):
                continue
            dropped.append((key, value))
            count -= 1
            size -= self._sizes.get(key, 0)
        for key, _ in dropped:
            self.pop(key)
        return dropped

    def _too_much(self, count: int, size: int, share: int) -> bool:
        return (self.max_entries is not None and count > self.max_entries // share) or (
            self.max_bytes is not None and size > self.max_bytes // share
        )

    def pop(self, key: K) -> V | None:
        """Takes `key` out; its value, or None when it is not there."""
        self.bytes -= self._sizes.pop(key, 0)
        return self._entries.pop(key, None)

    def clear(self) -> None:
        """Takes everything out."""
        self._entries.clear()
        self._sizes.clear()
        self.bytes = 0
