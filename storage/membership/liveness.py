"""Which other processes of the environment have ended, from a source that is faster than their leases."""

from __future__ import annotations

from typing import Protocol


class Liveness(Protocol):
    """Knows, sooner than a lease runs out, that a process is dead."""

    def announce(self, process: str) -> None:
        """This process is `process`."""
        ...

    def is_dead(self, process: str) -> bool:
        """Whether `process` has certainly ended."""
        ...
