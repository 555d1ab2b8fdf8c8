"""Trying an operation of a store again while the store fails, for operations that may be repeated."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from storage.clock import Clock
from storage.errors import Determinate, Indeterminate, StorageClosed, StorageError

T = TypeVar("T")

FINAL: tuple[type[StorageError], ...] = (StorageClosed,)
"""Failures that no repetition mends."""


async def retried(
    operation: Callable[[], Awaitable[T]],
    clock: Clock,
    pauses_s: Iterable[float],
    *,
    final: tuple[type[StorageError], ...] = FINAL,
    give_up_s: float = math.inf,
) -> T:
    """The result of `operation`, tried again after each of `pauses_s` while the store fails.

    Raises what the last attempt raises, and at once any error of the kinds `final`. The last attempt begins early once
    `give_up_s` have passed since the first: a store may take long to fail.
    """
    give_up = clock.monotonic() + give_up_s
    for pause in pauses_s:
        if clock.monotonic() > give_up:
            break
        try:
            return await operation()
        except final:
            raise
        except (Determinate, Indeterminate):
            await clock.sleep(pause)
    return await operation()
