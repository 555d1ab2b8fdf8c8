"""The sessions of a server process, as other sessions see them: for pg_stat_activity, pg_cancel_backend and
pg_terminate_backend, and for the server when it stops. Other workers of the server have sessions of their own, which
`colleagues` reaches."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from adapter.workers.colleagues import Colleagues
from planner.common_errors import shut_down
from planner.errors import SqlError

if TYPE_CHECKING:
    from adapter.execution.session_state import SessionState


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

    def change_defaults(self, changed: Mapping[str, tuple[str, str]]) -> None:
        """Take other defaults of the server, by name a value and its source, once nothing runs."""
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

    def __init__(self, colleagues: Colleagues | None = None) -> None:
        self.colleagues = colleagues or Colleagues()
        self._backends: dict[int, Backend] = {}

    def new_pid(self) -> int:
        """A backend pid that no session has, of whatever worker."""
        while (pid := self.colleagues.new_pid()) in self._backends:
            pass
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

    def role_of(self, pid: int) -> int | None:
        """The oid of the role as which this process's session `pid` has come in; None when there is no such session."""
        backend = self._backends.get(pid)
        return None if backend is None else backend.state.values.identity.authenticated

    def signal(self, pid: int, *, terminate: bool) -> bool:
        """Cancel the statement of this process's session `pid`, or terminate it; whether there is such a session."""
        backend = self._backends.get(pid)
        if backend is None:
            return False
        if terminate:
            backend.terminate(shut_down())
        else:
            backend.cancel()
        return True

    def all(self) -> list[Backend]:
        """All sessions, oldest first."""
        return list(self._backends.values())
