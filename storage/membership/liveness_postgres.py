"""Which server processes of an environment in PostgreSQL are alive: each holds an advisory lock on a connection.

PostgreSQL lets the lock go as soon as the connection ends, and that ends with its process, however it dies. So a dead
process is known as dead in seconds and not only when its lease has run out.

SUBTLE: a connection may also end under a live process, which takes its lock again at once. A process counts as dead
only when its lock was missing in `GRACE_LOOKS` looks on end; time alone proves nothing, since this process may be the
one that stood still. Should a live one be taken for dead all the same, it is deposed: its lease ends, its next commit
is refused, and nothing is lost or torn. That is why this is not used where a live process serves reads without asking
the consensus store (`storage.membership.peers`).

Others are looked at only while somebody asks for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from typing import Any

import asyncpg

from storage.clock import Clock

LOOK_INTERVAL_S = 0.5
GRACE_LOOKS = 7
"""Looks on end in which a lock must have been missing: three seconds at least."""

ASKED_S = 10.0
"""How long after the last question others are still looked at."""

RECONNECT_S = 0.2
COMMAND_TIMEOUT_S = 10.0
_FAILURES = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, TimeoutError)


class PostgresLiveness:
    """`Liveness` in the database `dsn` for the environment in `schema`."""

    def __init__(self, dsn: str, schema: str, clock: Clock) -> None:
        self._dsn = dsn
        self._space = _number(f"tidegate {schema}")
        self._clock = clock
        self._own: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._asked: dict[str, float] = {}
        self._missed: dict[str, int] = {}

    def announce(self, process: str) -> None:
        """This process is `process`; its lock is held from soon on."""
        self._own = _number(process)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="storage-liveness")

    def is_dead(self, process: str) -> bool:
        """Whether `process` was without its lock in the last `GRACE_LOOKS` looks. The first question begins the
        look-out."""
        self._asked[process] = self._clock.monotonic()
        self._wanted.set()
        return self._missed.get(process, 0) >= GRACE_LOOKS

    async def close(self) -> None:
        """Let the lock go."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            connection: Any = None
            try:
                connection = await asyncpg.connect(self._dsn, command_timeout=COMMAND_TIMEOUT_S)
                await connection.execute("SELECT pg_advisory_lock($1, $2)", self._space, self._own)
                await self._look(connection)
            except _FAILURES:
                # What cannot be seen counts as alive.
                self._missed.clear()
                await self._clock.sleep(RECONNECT_S)
            finally:
                if connection is not None:
                    with contextlib.suppress(*_FAILURES):
                        connection.terminate()

    async def _look(self, connection: Any) -> None:
        """Keep `_missed` up to date while others are asked for; ends in an error when the connection does."""
        while True:
            now = self._clock.monotonic()
            self._asked = {name: at for name, at in self._asked.items() if now - at < ASKED_S}
            if not self._asked:
                self._missed.clear()
                self._wanted.clear()
                await self._wanted.wait()
                continue
            rows = await connection.fetch(
                "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
                " AND classid::bigint = $1"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
                self._space,
            )
            held = {row[0] for row in rows}
            missing = [name for name in self._asked if _number(name) not in held]
            self._missed = {name: self._missed.get(name, 0) + 1 for name in missing}
            await self._clock.sleep(LOOK_INTERVAL_S)


def _number(name: str) -> int:
    """A number for `name`, within PostgreSQL's integer. Two processes with one number only hide each other's death."""
    return zlib.crc32(name.encode()) & 0x7FFFFFFF
