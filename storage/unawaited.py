"""Asynchronous work whose result may be at hand."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


def unawaited(work: Coroutine[Any, Any, R]) -> R | None:
    """What `work` returns, if it does so without waiting for anything; None, and it is given up, when it would wait.

    Raises what `work` raises.
    """
    try:
        work.send(None)
    except StopIteration as stop:
        value: R = stop.value
        return value
    work.close()
    return None
