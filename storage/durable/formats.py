"""Which formats of durable state may be written: a newer version writes the old ones until all servers have moved.

Every version reads all formats up to its `FORMAT_VERSION`, and writes each diff in the oldest format that says all of
it. A diff that needs a newer one than `Formats.written` is refused: a server of the version before may be at work, and
would stop there. `finish_upgrade`, which people call when they have replaced all servers, moves `written` to what this
version knows, unless a process that is at work does not know that.

A process enters what it knows into the register where `written` stands once it has its lease. An upgrade that is being
finished reads that register before it asks who has a lease, and writes it only if nobody has entered meanwhile. So of a
process that comes and an upgrade that is finished one is first, and the other is refused.

What the first versions could write, `UNGATED` and older, nobody asks about.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

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
        self.known = known
        self.written = max(UNGATED, made_with)

    async def check(self) -> None:
        """Raises NewerFormat for an environment that was moved to formats that this process does not know, and what the
        store raises."""
        value = await self._register.read()
        if value is not None:
            self._check(value)
            self.written = value.written

    async def enter(self) -> None:
        """Tell what this process knows; it has its lease. Raises as `check`."""

        async def propose(value: Formats | None) -> Formats:
            before = value or Formats(written=self.written, processes={})
            self._check(before)
            newest = [*before.processes.items()][-KEPT + 1 :]
            return replace(before, processes={**dict(newest), self._process: self.known})

        self.written = (await self._register.change(propose)).written

    def _check(self, formats: Formats) -> None:
        if formats.written > self.known:
            raise NewerFormat(
                f"the environment has been moved to format {formats.written} by a newer version, and this version of"
                f" Tidegate knows formats up to {self.known}; upgrade Tidegate"
            )

    async def allows(self, format: int) -> bool:
        """Whether this format may be written by now: asks the store where it was not yet when last asked."""
        if format > self.written:
            value = await self._register.read()
            self.written = self.written if value is None else value.written
        return format <= min(self.written, self.known)

    async def require(self, format: int) -> None:
        """Raises FormatNotYet unless this format may be written by now."""
        if not await self.allows(format):
            raise FormatNotYet(
                f"this needs format {format}, and format {self.written} is the newest that may be written as long as"
                " servers of an earlier version may be at work; when all have been replaced, run"
                " tidegate admin finish-upgrade"
            )


async def finish_upgrade(
    consensus: Consensus,
    clock: Clock,
    at_work: Callable[[], Awaitable[Collection[str]]],
    *,
    made_with: int,
    known: int = FORMAT_VERSION,
) -> int:
    """All servers have been replaced: from now on what this version knows may be written; the newest such format.

    `at_work` says which processes have a lease. Raises OlderServers when one of them does not know it, NewerFormat."""

    async def propose(value: Formats | None) -> Formats:
        before = value or Formats(written=max(UNGATED, made_with), processes={})
        if before.written > known:
            raise NewerFormat(f"the environment has format {before.written} already, this version knows {known}")
        if before.written == known:
            return before
        older = sorted(name for name in await at_work() if before.processes.get(name, UNGATED) < known)
        if older:
            names = ", ".join(older)
            raise OlderServers(
                f"servers of an earlier version are at work, or ended a moment ago ({names}); replace them first"
            )
        return replace(before, written=known)

    return (await _register(consensus, clock).change(propose)).written


def _register(consensus: Consensus, clock: Clock) -> Register[Formats]:
    return Register(consensus, clock, FORMATS_KEY, WHAT, lambda data: decode_register(data, Formats, WHAT))
