"""What the caches of a server keep in memory: together no more than `CACHE_BYTES`, and little once they are not used.

The budget is dealt out by shares (`share`), so that no cache has to ask another; each of several processes of one
server has an equal part of it (`divide_among`). A cache that joins (`aging`) is asked
now and then to drop what was not used since it was last asked (`give_back_unused`): whatever a load has left behind is
gone within two rounds. Mapped files are the system's to keep or to drop; caches of them age like the others.

Caches are a process's affair, as its memory is, so this is kept for the process. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from storage.bounded_map import BoundedMap

CACHE_BYTES = 512 * 1024 * 1024
"""Bytes that all caches of a server keep in memory, those of mapped files not counted."""

AT_ONCE = 256
"""Entries that one cache drops before others get a turn of the event loop."""

M = TypeVar("M", bound=BoundedMap[Any, Any])

_aging: list[weakref.WeakMethod[Callable[[int], Sequence[object]]]] = []

_watched: list[tuple[str, weakref.ref[BoundedMap[Any, Any]]]] = []


class CacheUse(Struct):
    """What the caches of one name hold, and how often they had what was looked for."""

    entries: int = 0
    bytes: int = 0
    hits: int = 0
    misses: int = 0


class _Division:
    """Among how many processes the budget is divided, and whether some of it has been dealt out."""

    processes = 1
    is_dealt_out = False


def divide_among(processes: int) -> None:
    """Let this process have its part of what is for so many. To be called before any cache is loaded, for those know
    their share from then on: RuntimeError afterwards."""
    if _Division.is_dealt_out and processes != _Division.processes:
        raise RuntimeError("the caches have their shares already")
    _Division.processes = processes


def share(of: int) -> int:
    """One `of`-th of this process's part of the budget, in bytes."""
    return portion(CACHE_BYTES // of)


def portion(size: int) -> int:
    """This process's part of `size` bytes that all processes of the server have together."""
    _Division.is_dealt_out = True
    return size // _Division.processes


def aging(cache: M) -> M:
    """`cache`, which ages from now on for as long as it lives."""
    ages(cache.age)
    return cache


def watched(name: str, cache: M) -> M:
    """`cache`, of whose use `uses` tells under `name` for as long as it lives. Its owner counts hits and misses."""
    _watched.append((name, weakref.ref(cache)))
    return cache


def uses() -> Iterable[tuple[str, CacheUse]]:
    """The caches of this process that are watched, those of one name together."""
    found: dict[str, CacheUse] = {}
    for name, reference in list(_watched):
        cache = reference()
        if cache is None:
            _watched.remove((name, reference))
            continue
        use = found.setdefault(name, CacheUse())
        use.entries += len(cache)
        use.bytes += cache.bytes
        use.hits += cache.hits
        use.misses += cache.misses
    return found.items()


def ages(age: Callable[[int], Sequence[object]]) -> None:
    """The method `age` drops up to a number of entries that were not used since it last dropped fewer, and returns
    them; it is asked for as long as its object lives."""
    _aging.append(weakref.WeakMethod(age, _aging.remove))


async def give_back_unused() -> None:
    """Lets every cache drop what was not used since the last call."""
    for reference in _aging:
        more = True
        while more:
            age = reference()
            more = age is not None and len(age(AT_ONCE)) == AT_ONCE
            del age
            # Others get a turn.
            await asyncio.sleep(0)
