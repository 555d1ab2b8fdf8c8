"""Memory comes back: what a load leaves behind is given back to the system once it is not used any more.

Every `ROUND_S` caches drop what was not used since the round before (`storage.cache_memory`), and the allocators
return what is free (`storage.free_memory`), on a thread: at once while no statement runs, otherwise not before
`BUSY_ROUNDS` rounds, since who allocates meanwhile may wait for some milliseconds. When the process has taken hardly
anything since it last gave back, it does not again.

Python's own collector looks at new objects only (`collect_new_only`): at all of them it would look again and again
while a large statement makes its trees, for a tenth of a second each time, in which no thread runs. That is done here,
in the same rounds, when enough has been made since.
"""

from __future__ import annotations

import asyncio
import gc

from adapter.engines.engines import Engines
from adapter.execution.session_registry import SessionRegistry
from storage import cache_memory, free_memory
from storage.environment.environment import Environment

ROUND_S = 10.0

BUSY_ROUNDS = 6

WORTH_BYTES = 8 * 1024 * 1024
"""Memory that the process has to have taken since it was last given back, to do it again."""

NEVER = 1 << 30

WORTH_COLLECTIONS = 10
"""Collections of new objects, each of some thousands, after which all that have outlived them are looked at."""


def collect_new_only() -> None:
    """Turn Python's collector on for what is made from now on: what there is lives as long as the server, and a
    `MemoryKeeper` looks at what outlives the first collections."""
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], NEVER)
    gc.enable()


class MemoryKeeper:
    """See the module. Belongs to one server."""

    def __init__(self, env: Environment, engines: Engines, sessions: SessionRegistry) -> None:
        self._env = env
        self._engines = engines
        self._sessions = sessions
        self._task: asyncio.Task[None] | None = None
        self._left = 0
        """What the process had when it last gave back."""
        self._waited = 0

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._keep(), name="memory")

    async def stop(self) -> None:
        """End, and return once it has ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(ROUND_S)
            await self.round()

    async def round(self) -> None:
        """Give back what is not used."""
        await cache_memory.give_back_unused()
        await self._engines.drop_unused()
        quiet = all(each.statement_began_at is None for each in self._sessions.all())
        self._waited += 1
        if not quiet and self._waited < BUSY_ROUNDS:
            return
        self._waited = 0
        is_worth_it = gc.get_count()[2] >= WORTH_COLLECTIONS
        if is_worth_it:
            gc.collect()
        await asyncio.to_thread(free_memory.let_go, self._env.keys.mapped())
        held = free_memory.anonymous_bytes()
        if held and held < self._left + WORTH_BYTES:
            self._left = min(held, self._left)
            return
        if quiet and not is_worth_it:
            # Buffers that a circle of objects holds: there are few, and few objects to look at since the start.
            gc.collect()
        await asyncio.to_thread(free_memory.give_back)
        self._left = free_memory.anonymous_bytes()
