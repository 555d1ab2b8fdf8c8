"""The other workers of the server and the other servers of the environment, as a process asks them. One that is alone
asks nobody.

A backend pid tells who has the session. Server s of an environment gives out those above s * `SERVER_PIDS`, and worker
w of n of these w + 1, w + 1 + n, w + 1 + 2n, ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from adapter.workers.mesh import Mesh
from adapter.workers.messages import (
    AnyQuestion,
    Appended,
    CancelByKey,
    ForgetActivity,
    ForgetStatements,
    Notified,
    Question,
    RoleOf,
    SessionRows,
    Signal,
)
from adapter.workers.questions import ServerQuestions
from storage.host_memory import HostMemory

MAX_BACKEND_PID = 2**31 - 1

SERVER_PIDS = 2**20
"""How many backend pids each server of an environment has to give out, again and again."""


CANCELS_AT_ONCE = 4
"""CancelRequests of clients that other servers are asked about at one time: each is a write to the store."""


class WorkerPlace(Struct, frozen=True):
    """Which worker a process is: its numbers in `memory`, and the private folder where all of them meet."""

    memory: HostMemory
    folder: Path


class Colleagues:
    """See the module's contract. `place` is None for a server of one process."""

    def __init__(self, place: WorkerPlace | None = None) -> None:
        self.place = place
        self.mesh = None if place is None else Mesh(place.folder, place.memory.own, place.memory.count)
        self.servers: ServerQuestions | None = None
        """The other servers of the environment."""
        self._pids = 0
        self._cancelling = asyncio.Semaphore(CANCELS_AT_ONCE)

    @property
    def has_others(self) -> bool:
        """Whether there are other workers, or may be other servers."""
        return self.place is not None or (self.servers is not None and self.servers.has_others)

    def new_pid(self) -> int:
        """The next backend pid of this worker."""
        first = 0 if self.servers is None else self.servers.number * SERVER_PIDS
        if self.place is None:
            self._pids = self._pids % (SERVER_PIDS - 1) + 1
            return first + self._pids
        memory = self.place.memory
        memory.pids.own = (memory.pids.own + 1) % (SERVER_PIDS // memory.count)
        return first + memory.pids.own * memory.count + memory.own + 1

    def _server(self, pid: int) -> int | None:
        """The number of the other server that may have session `pid`."""
        if self.servers is None or not 0 < pid <= MAX_BACKEND_PID:
            return None
        number = (pid - 1) // SERVER_PIDS
        return None if number == self.servers.number else number

    def _owner(self, pid: int) -> int | None:
        """The other worker that may have session `pid`."""
        if self.place is None or not 0 < pid <= MAX_BACKEND_PID or self._server(pid) is not None:
            return None
        owner = (pid - 1) % SERVER_PIDS % self.place.memory.count
        return None if owner == self.place.memory.own else owner

    async def _ask_owner(self, pid: int, question: AnyQuestion) -> Any:
        """What the other process that has session `pid` answers; None when there is none."""
        server = self._server(pid)
        if server is not None and self.servers is not None:
            # The workers of a server that do not have the session say so.
            answers = await self.servers.ask(question, server=server)
            return next((answer for answer in answers if answer is not False), None)
        owner = self._owner(pid)
        return None if self.mesh is None or owner is None else await self.mesh.ask(owner, question)

    async def cancel_by_key(self, pid: int, secret: bytes) -> bool:
        """Pass a CancelRequest on to the worker or server that has the session; whether that knew the secret."""
        server = self._server(pid)
        if server is not None and self.servers is not None:
            # Whoever comes in from the network may ask this.
            async with self._cancelling:
                return any(await self.servers.ask(CancelByKey(pid, secret), server=server))
        owner = self._owner(pid)
        if self.mesh is None or owner is None:
            return False
        return bool(await self.mesh.ask(owner, CancelByKey(pid, secret)))

    async def role_of(self, pid: int) -> int | None:
        """The oid of the role as which the session of another worker or server has come in; None when there is no such
        session."""
        role: int | None = await self._ask_owner(pid, RoleOf(pid))
        return role

    async def signal(self, pid: int, *, terminate: bool) -> bool:
        """Cancel the statement of the session of another worker or server, or terminate it; whether there is such a
        session."""
        return bool(await self._ask_owner(pid, Signal(pid, terminate)))

    async def notify(self, pid: int, database: int, notifications: Sequence[tuple[str, str]]) -> None:
        """Tell the others what session `pid` has notified; they know it when this returns."""
        if self.mesh is not None:
            await self.mesh.ask_all(Notified(pid, database, tuple(notifications)))

    async def appended(self, first: int) -> None:
        """Tell the others that notifications have been written down for all servers (`other_servers`), from the number
        `first` on; they have handed them on when this returns."""
        if self.mesh is not None:
            await self.mesh.ask_all(Appended(first))

    async def rows(self, relation: str, *, of_workers: bool = True, of_servers: bool = True) -> list[Mapping[str, Any]]:
        """What the other workers and the other servers contribute to a system relation that sessions know."""
        question = SessionRows(relation)
        asked: list[Awaitable[list[Any]]] = []
        if of_workers and self.mesh is not None:
            asked.append(self.mesh.ask_all(question))
        if of_servers and self.servers is not None:
            asked.append(self.servers.ask(question))
        answers: list[list[list[Mapping[str, Any]]]] = await asyncio.gather(*asked)
        return [row for found in answers for rows in found for row in rows]

    async def forget_statements(self, role: int, database: int, query_id: int) -> None:
        """Have the other workers forget what they have counted of statements."""
        if self.mesh is not None:
            await self.mesh.ask_all(ForgetStatements(role, database, query_id))

    async def forget_activity(self, database: int, oid: int, at: datetime) -> None:
        """Have the other workers and servers forget what they have counted of a database, or of one relation in it."""
        question = ForgetActivity(database, oid, at)
        if self.mesh is not None:
            await self.mesh.ask_all(question)
        if self.servers is not None:
            await self.servers.ask(question)

    async def tell(self, worker: int, what: Question) -> None:
        """Tell one other worker something that has no answer."""
        if self.mesh is not None:
            await self.mesh.ask(worker, what)
