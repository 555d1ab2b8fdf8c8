"""Counts the calls of the house's own Python functions."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from types import FrameType

STOREYS = ("adapter.", "planner.", "storage.", "frontend.")


class CountedCalls:
    """Counts the calls of the four storeys' functions, by the name of the task that makes them, while it is entered.

    Calls of the thread that enters it, and no others.
    """

    def __init__(self) -> None:
        self.of_tasks: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self.of_tasks.total()

    def __enter__(self) -> CountedCalls:
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals.get("__name__", "").startswith(STOREYS):
            task = asyncio.current_task()
            self.of_tasks["" if task is None else task.get_name()] += 1
