"""The sessions of a server process, as other sessions see them: for pg_stat_activity, pg_cancel_backend and
pg_terminate_backend, and for the server when it stops."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from planner.errors import SqlError

if TYPE_CHECKING:
    from adapter.execution.session_state import SessionState

MAX_BACKEND_PID = 2**31 - 1


class Backend(Protocol):
    """A session from outside. PostgreSQL calls it a backend, for there it is a process."""

    @property
    def state(self) -> SessionState:
        """What the session keeps; not to be changed from outside."""
        ...

    @property
    def statement_began_at(self) -> datetime | None:
        """When the statement began that runs now; None while none does."""
        ...

    def cancel(self) -> None:
        """Interrupt the statement that runs, if there is one."""
        ...

    def terminate(self, error: SqlError) -> None:
        """Interrupt what runs and ask the connection to end with `error`."""
        ...

    async def close(self) -> None:
        """End the session."""
        ...


class SessionRegistry:
    """See the module's contract."""

    def __init__(self) -> None:
        self._backends: dict[int, Backend] = {}
        self._pids = itertools.count(1)

    def new_pid(self) -> int:
        """A backend pid that no session has."""
        while True:
            pid = next(self._pids) % MAX_BACKEND_PID
            if pid and pid not in self._backends:
                return pid

    def add(self, backend: Backend) -> None:
        """A session has begun."""
        self._backends[backend.state.backend_pid] = backend

    def remove(self, backend: Backend) -> None:
        """A session has ended."""
        self._backends.pop(backend.state.backend_pid, None)

    def get(self, pid: int) -> Backend | None:
        """The session with this pid, or None."""
        return self._backends.get(pid)

    def all(self) -> list[Backend]:
        """All sessions, oldest first."""
        return list(self._backends.values())
