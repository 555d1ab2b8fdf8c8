"""What the caches of a process keep in memory: together no more than `CACHE_BYTES`, and little once they are not used.

The budget is dealt out by shares (`share`), so that no cache has to ask another. A cache that joins (`aging`) is asked
now and then to drop what was not used since it was last asked (`give_back_unused`): whatever a load has left behind is
gone within two rounds. Mapped files are the system's to keep or to drop; caches of them age like the others.

Caches are a process's affair, as its memory is, so this is kept for the process. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from storage.bounded_map import BoundedMap

CACHE_BYTES = 512 * 1024 * 1024
"""Bytes that all caches of a process keep in memory, those of mapped files not counted."""

AT_ONCE = 256
"""Entries that one cache drops before others get a turn of the event loop."""

M = TypeVar("M", bound=BoundedMap[Any, Any])

_aging: list[weakref.WeakMethod[Callable[[int], Sequence[object]]]] = []


def share(of: int) -> int:
    """One `of`-th of the budget, in bytes."""
    return CACHE_BYTES // of


def aging(cache: M) -> M:
    """`cache`, which ages from now on for as long as it lives."""
    ages(cache.age)
    return cache


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
