"""The other workers of the server, as one worker asks them. A server of one process has none, and asks nobody.

A backend pid tells the worker that has the session: worker w of n gives out w + 1, w + 1 + n, w + 1 + 2n, ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from adapter.workers.mesh import Mesh
from adapter.workers.messages import Appended, CancelByKey, Notified, Question, RoleOf, SessionRows, Signal
from storage.host_memory import HostMemory

MAX_BACKEND_PID = 2**31 - 1


class WorkerPlace(Struct, frozen=True):
    """Which worker a process is: its numbers in `memory`, and the private folder where all of them meet."""

    memory: HostMemory
    folder: Path


class Colleagues:
    """See the module's contract. `place` is None for a server of one process."""

    def __init__(self, place: WorkerPlace | None = None) -> None:
        self.place = place
        self.mesh = None if place is None else Mesh(place.folder, place.memory.own, place.memory.count)
        self._pids = 0

    def new_pid(self) -> int:
        """The next backend pid of this worker."""
        if self.place is None:
            self._pids = self._pids % MAX_BACKEND_PID + 1
            return self._pids
        memory = self.place.memory
        memory.pids.own = (memory.pids.own + 1) % (MAX_BACKEND_PID // memory.count)
        return memory.pids.own * memory.count + memory.own + 1

    def _owner(self, pid: int) -> int | None:
        """The other worker that may have session `pid`."""
        if self.place is None or not 0 < pid <= MAX_BACKEND_PID:
            return None
        owner = (pid - 1) % self.place.memory.count
        return None if owner == self.place.memory.own else owner

    async def cancel_by_key(self, pid: int, secret: bytes) -> bool:
        """Pass a CancelRequest on to the worker that has the session; whether it knew the secret."""
        owner = self._owner(pid)
        if self.mesh is None or owner is None:
            return False
        return bool(await self.mesh.ask(owner, CancelByKey(pid, secret)))

    async def role_of(self, pid: int) -> int | None:
        """The oid of the role as which another worker's session has come in; None when there is no such session."""
        owner = self._owner(pid)
        if self.mesh is None or owner is None:
            return None
        role: int | None = await self.mesh.ask(owner, RoleOf(pid))
        return role

    async def signal(self, pid: int, *, terminate: bool) -> bool:
        """Cancel the statement of another worker's session, or terminate it; whether there is such a session."""
        owner = self._owner(pid)
        if self.mesh is None or owner is None:
            return False
        return bool(await self.mesh.ask(owner, Signal(pid, terminate)))

    async def notify(self, pid: int, database: int, notifications: Sequence[tuple[str, str]]) -> None:
        """Tell the others what session `pid` has notified; they know it when this returns."""
        if self.mesh is not None:
            await self.mesh.ask_all(Notified(pid, database, tuple(notifications)))

    async def appended(self, first: int) -> None:
        """Tell the others that notifications have been written down for all servers (`other_servers`), from the number
        `first` on; they have handed them on when this returns."""
        if self.mesh is not None:
            await self.mesh.ask_all(Appended(first))

    async def rows(self, relation: str) -> list[Mapping[str, Any]]:
        """What the others contribute to a system relation that sessions know."""
        if self.mesh is None:
            return []
        answers: list[list[Mapping[str, Any]]] = await self.mesh.ask_all(SessionRows(relation))
        return [row for rows in answers for row in rows]

    async def tell(self, worker: int, what: Question) -> None:
        """Tell one other worker something that has no answer."""
        if self.mesh is not None:
            await self.mesh.ask(worker, what)
