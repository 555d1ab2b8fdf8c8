"""Computing that would hold up the event loop: on a thread when it is about many rows.

Arrow and numpy let other threads run while they compute. May import nothing of the project.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

AT_ONCE_ROWS = 8192
"""So many rows are computed at once: a millisecond, where handing over to a thread and back takes a tenth of one."""

MANY_COLUMNS = 128
"""More columns than that take milliseconds, however few rows there are: each is an array to be made or looked at."""


async def computed(rows: int, work: Callable[[], T]) -> T:
    """The result of `work` over so many `rows`. Raises what it raises.

    `work` must not touch what belongs to the event loop. A caller that is cancelled leaves it running.
    """
    return work() if rows <= AT_ONCE_ROWS else await asyncio.to_thread(work)
