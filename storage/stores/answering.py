"""The limit on waiting for a store: one that does not answer becomes an error that says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from storage.errors import StorageError, StoreTimeout, StoreUnavailable

_T = TypeVar("_T")


async def answered(work: Awaitable[_T], *, store: str, limit_s: float, writes: bool) -> _T:
    """The result of `work`, which asks `store` for something.

    Without an answer within `limit_s` raises StoreTimeout for a write, which may yet take effect, and StoreUnavailable
    for a read.
    """
    try:
        async with asyncio.timeout(limit_s):
            return await work
    except TimeoutError as error:
        kind: type[StorageError] = StoreTimeout if writes else StoreUnavailable
        raise kind(
            f"{store} has not answered within {limit_s:g} seconds; check the disk or the network behind it"
        ) from error
