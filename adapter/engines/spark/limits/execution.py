"""A running statement on Spark: its job group, and what it may write to temporary files.

`temp_file_limit` bounds what the tasks of a statement spill and write for shuffles, all stages together: these
are files in the executors' local folders, which stay until nobody needs the shuffle any more. Spark says how much it is
when a task has ended, and of tasks that run with each heartbeat of their executor.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from adapter.admission.admission import Place
from adapter.settings.values import number_of
from planner.common_errors import canceled
from planner.errors import ConfigurationLimitExceeded, SqlError

LOOK_SECONDS = 0.25
"""How often a limited statement is looked at: at the rate at which a disk writes, some 100 MB."""


Written: TypeAlias = Callable[[], Mapping[int, int]]


class Execution(Struct, eq=False):
    """One running statement. `canceled` is set from the event loop and read by the worker thread. `limit_kb`: what it
    may write to temporary files; None for any amount."""

    group: str
    place: Place
    limit_kb: int | None = None
    over_limit: bool = False
    frugal: bool = False
    """Its tasks have run out of memory: it is carried out again, in many small ones."""
    canceled: threading.Event = field(default_factory=threading.Event)

    def ended(self) -> SqlError:
        """Why it was ended: by a cancel, or by the limit."""
        if self.over_limit:
            return ConfigurationLimitExceeded(f"temporary file size exceeds temp_file_limit ({self.limit_kb}kB)")
        return canceled()

    def check(self) -> None:
        """Raises QueryCanceled once it was cancelled, or 53400 when it has written too much."""
        if self.canceled.is_set():
            raise self.ended()


def limit_of(settings: Mapping[str, str]) -> int | None:
    """temp_file_limit in kB, None for no limit."""
    limit = number_of("temp_file_limit", settings.get("temp_file_limit", "-1"))
    return None if limit < 0 else limit


async def goes_beyond(
    execution: Execution, task: asyncio.Future[Any], written: Callable[[], Mapping[int, int]]
) -> bool:
    """Waits for `task`, or until more bytes than the limit have been `written`, which tells them by stage; whether they
    have. Of stages that Spark has forgotten meanwhile the last number counts."""
    assert execution.limit_kb is not None
    stages: dict[int, int] = {}
    while True:
        is_done = task.done()
        for stage, size in (await asyncio.to_thread(written)).items():
            stages[stage] = max(size, stages.get(stage, 0))
        if sum(stages.values()) > execution.limit_kb * 1024:
            return True
        if is_done:
            return False
        await asyncio.wait([task], timeout=LOOK_SECONDS)
