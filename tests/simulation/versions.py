"""Servers of two versions in one environment: the older ones are replaced while they are at work, in any order and with
steps back, while somebody tries again and again to finish the upgrade (`storage.durable.formats`).

- An older server that is at work never meets a format that it does not know. What the newer ones write in it is a
  deletion of whole files.
- Once the upgrade is finished, older servers are refused, by name; before, and newer ones, nobody is.
- In the end, when nobody older is at work, it can be finished.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from storage.durable.formats import FORMATS_KEY, UNGATED, WHAT, Formats, OlderServers, finish_upgrade
from storage.durable.registers import decode_register
from storage.durable.state import FORMAT_VERSION
from storage.errors import NewerFormat, StorageError
from storage.offline.admin import Inspector
from storage.shards.whole_deletions import WHOLE_FORMAT
from storage.stores.consensus import Consensus, SeqNo, VersionedData
from tests.simulation.network import Network, NetworkConsensus

if TYPE_CHECKING:
    from tests.simulation.world import Server, World

OLD, NEW = UNGATED, FORMAT_VERSION
assert OLD < WHOLE_FORMAT <= NEW

REPLACED, STEPS_BACK = 0.7, 0.15
"""How many of the servers that start are newer than before, and older."""

LONGEST_PAUSE_S = 1.0
"""Until somebody tries again to finish the upgrade."""

AUDITOR = "auditor"
"""The server that looks at what is left, which is a newer one."""

NO_HEADER = 32
"""Bytes from here on begin JSON, which has no header that says a format."""


class Upgrade:
    """The versions of a world's servers, and how far their upgrade is."""

    def __init__(self, world: World, inspector: Inspector, beyond: Inspector) -> None:
        """`inspector` looks at the stores through the network, as people do, `beyond` at what is there."""
        self._world = world
        self._inspector = inspector
        self._beyond = beyond
        self._known = {AUDITOR: NEW}
        self.refused = 0
        """Attempts to finish it while older servers were at work."""

    def known(self, name: str) -> int:
        """The newest format that the server of this name knows now."""
        return self._known.get(name, OLD)

    def restarts(self, name: str) -> None:
        """Draw which version the server has from now on."""
        drawn, known = self._world.randomness.random(), self.known(name)
        if known == OLD and drawn < REPLACED:
            self._known[name] = NEW
        elif known == NEW and drawn < STEPS_BACK:
            self._known[name] = OLD

    async def is_finished(self) -> bool:
        """Whether it is, whoever knows it."""
        head = await self._beyond.consensus.head(FORMATS_KEY)
        return head is not None and decode_register(head.data, Formats, WHAT).written == NEW

    async def opened(self, server: Server) -> None:
        """A server has come."""
        if self.known(server.name) == OLD and await self.is_finished():
            self._world.problem(f"{server.env.process} is older than the upgrade that was finished, and at work")

    async def refuses(self, name: str, error: NewerFormat) -> None:
        """A server was refused. Somebody brings a newer one."""
        if self.known(name) == NEW or not await self.is_finished() or "upgrade Tidegate" not in str(error):
            self._world.problem(f"{name}, which knows format {self.known(name)}, was refused: {error}")
        self._world.loop.trace.add(f"{name} is too old: {error}")
        self._known[name] = NEW

    async def met(self, server: Server, key: str, format: int) -> None:
        """A server has read what is of a format above those that it knows. That others have deposed it is the only
        excuse."""
        if server.process.alive and server.env.process in await self._beyond.at_work():
            self._world.problem(f"{server.env.process}, which is at work, has met format {format} in {key}")

    async def finish(self) -> None:
        """Try to finish it until that has worked."""
        while True:
            await asyncio.sleep(self._world.randomness.random() * LONGEST_PAUSE_S)
            try:
                await self.finish_once()
            except OlderServers:
                self.refused += 1
            except StorageError as error:
                self._world.loop.trace.add(f"the upgrade could not be finished: {error}")
            else:
                self._world.loop.trace.add("the upgrade is finished")
                return

    async def finish_once(self) -> None:
        """What ``tidegate admin finish-upgrade`` does. Raises as `finish_upgrade`."""
        own = self._inspector
        await finish_upgrade(own.consensus, own.clock, own.at_work, made_with=OLD)


class WatchedConsensus(NetworkConsensus):
    """The connection of a server, and what it must not see there."""

    def __init__(self, inner: Consensus, network: Network, upgrade: Upgrade, known: int) -> None:
        super().__init__(inner, network)
        self._upgrade = upgrade
        self._known = known
        self.server: Server | None = None
        """Once it is open."""

    async def _seen(self, key: str, found: VersionedData) -> None:
        if self.server is not None and self._known < found.data[0] < NO_HEADER:
            await self._upgrade.met(self.server, key, found.data[0])

    async def head(self, key: str) -> VersionedData | None:
        """See `Consensus.head`."""
        found = await super().head(key)
        if found is not None:
            await self._seen(key, found)
        return found

    async def scan(self, key: str, from_seqno: SeqNo, limit: int | None = None) -> list[VersionedData]:
        """See `Consensus.scan`."""
        found = await super().scan(key, from_seqno, limit)
        for each in found:
            await self._seen(key, each)
        return found
