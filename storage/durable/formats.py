"""Which formats of durable state may be written: a newer version writes the old ones until all servers have moved.

Every version reads all formats up to its `FORMAT_VERSION`, and writes each diff in the oldest format that says all of
it. A diff that needs a newer one than `Formats.written` is refused: a server of the version before may be at work, and
would stop there. `finish_upgrade`, which people call when they have replaced all servers, moves `written` to what this
version knows, unless a process that is at work does not know that.

A process enters what it knows before it takes its lease, and in the same register where `written` stands. So of a
process that comes and an upgrade that is finished one is first, and the other is refused.

What the first versions could write, `UNGATED` and older, nobody asks about.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from storage.clock import Clock
from storage.durable.registers import Register, decode_register
from storage.durable.state import FORMAT_VERSION
from storage.errors import Determinate, NewerFormat, StorageError
from storage.stores.consensus import Consensus

FORMATS_KEY = "formats"
WHAT = "the formats of the environment"

UNGATED = 6
"""The newest format that was written before there was this gate."""

KEPT = 256
"""Processes that are remembered, the newest: those that have ended stay until then."""


class FormatNotYet(Determinate):
    """What is to be written needs a format that servers of earlier versions, which may be at work, cannot read."""


class OlderServers(StorageError):
    """Servers of an earlier version are at work."""


class Formats(msgspec.Struct, frozen=True, kw_only=True):
    """The register: what may be written, and the newest format that each process knows."""

    written: int
    processes: dict[str, int]


class FormatGate:
    """What one process may write. `made_with` is the format that the environment was made with, `known` the newest that
    this version knows."""

    def __init__(
        self, consensus: Consensus, clock: Clock, process: str, made_with: int, known: int = FORMAT_VERSION
    ) -> None:
        self._register = _register(consensus, clock)
        self._process = process
        self._known = known
        self.written = max(UNGATED, made_with)

    async def enter(self) -> None:
        """Tell what this process knows. Raises NewerFormat, and what the store raises."""

        async def propose(value: Formats | None) -> Formats:
            before = value or Formats(written=self.written, processes={})
            if before.written > self._known:
                raise NewerFormat(
                    f"the environment has been moved to format {before.written} by a newer version, and this version of"
                    f" Tidegate knows formats up to {self._known}; upgrade Tidegate"
                )
            newest = [*before.processes.items()][-KEPT + 1 :]
            return replace(before, processes={**dict(newest), self._process: self._known})

        self.written = (await self._register.change(propose)).written

    async def allows(self, format: int) -> bool:
        """Whether this format may be written by now: asks the store where it was not yet when last asked."""
        if format > self.written:
            value = await self._register.read()
            self.written = self.written if value is None else value.written
        return format <= self.written

    async def require(self, format: int) -> None:
        """Raises FormatNotYet unless this format may be written by now."""
        if not await self.allows(format):
            raise FormatNotYet(
                f"this needs format {format}, and format {self.written} is the newest that may be written as long as"
                " servers of an earlier version may be at work; when all have been replaced, run"
                " tidegate admin finish-upgrade"
            )


async def finish_upgrade(
    consensus: Consensus, clock: Clock, at_work: Collection[str], *, made_with: int, known: int = FORMAT_VERSION
) -> int:
    """All servers have been replaced: from now on what this version knows may be written; the newest such format.

    `at_work` are the processes with a lease. Raises OlderServers when one of them does not know it, NewerFormat."""

    async def propose(value: Formats | None) -> Formats:
        before = value or Formats(written=max(UNGATED, made_with), processes={})
        if before.written > known:
            raise NewerFormat(f"the environment has format {before.written} already, this version knows {known}")
        older = sorted(name for name in at_work if before.processes.get(name, UNGATED) < known)
        if older:
            names = ", ".join(older)
            raise OlderServers(
                f"servers of an earlier version are at work, or ended a moment ago ({names}); replace them first"
            )
        return before if before.written == known else replace(before, written=known)

    return (await _register(consensus, clock).change(propose)).written


def _register(consensus: Consensus, clock: Clock) -> Register[Formats]:
    return Register(consensus, clock, FORMATS_KEY, WHAT, lambda data: decode_register(data, Formats, WHAT))
