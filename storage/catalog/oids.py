"""Oids of catalog objects, given out so that no two processes of an environment ever give out the same.

A process reserves a block of oids in the consensus store and gives them out from memory. The first block of an
environment begins at the catalog's first oid for users; what a crash leaves of a block is never used. An oid is
wanted before its transaction commits (a sequence can be used, a table filled), so a conflict at the commit would come
too late.
"""

from __future__ import annotations

import asyncio

import msgspec

from storage.catalog.model import FIRST_USER_OID
from storage.clock import Clock
from storage.durable.registers import Register, decode_register
from storage.stores.consensus import Consensus

OID_KEY = "catalog/oids"
WHAT = "the reservation of oids"
BLOCK_OIDS = 16_384
"""Oids reserved by one durable write."""

MIN_OIDS = 4_096
"""Oids that one statement may need: a table of 1600 columns, each with a sequence and a constraint."""


class _Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """Oids below `end` are reserved."""

    end: int


class OidBlocks:
    """The oids of one process. Belongs to one event loop."""

    def __init__(self, consensus: Consensus, clock: Clock) -> None:
        self._register = Register(consensus, clock, OID_KEY, WHAT, _decode)
        self._next = 0
        self._end = 0
        self._reserving = asyncio.Lock()

    async def provide(self, floor: int) -> None:
        """Make sure that `take` can be called `MIN_OIDS` times. A new block begins at `floor` at least.

        Almost always free; otherwise one consensus read and one write. Raises what the store raises.
        """
        while self._end - self._next < MIN_OIDS:
            async with self._reserving:
                if self._end - self._next < MIN_OIDS:
                    await self._reserve(max(floor, FIRST_USER_OID))

    def take(self) -> int:
        """An oid that nobody else has or will get. `provide` goes before. Raises ValueError when there is none left."""
        if self._next >= self._end:
            raise ValueError("no oid has been reserved")
        self._next += 1
        return self._next - 1

    async def _reserve(self, floor: int) -> None:
        async def extend(reservation: _Reservation | None) -> _Reservation:
            start = max(floor, _first_free(floor) if reservation is None else reservation.end)
            return _Reservation(end=start + BLOCK_OIDS)

        end = (await self._register.change(extend)).end
        if end - BLOCK_OIDS != self._end:
            self._next = end - BLOCK_OIDS
        self._end = end


def _first_free(floor: int) -> int:
    """Where the first reservation begins. Transactions of an earlier version may have used oids that the catalog
    never got to see, and left positions of sequences under them."""
    return floor if floor == FIRST_USER_OID else floor + BLOCK_OIDS


def _decode(data: bytes) -> _Reservation:
    return decode_register(data, _Reservation, WHAT)
