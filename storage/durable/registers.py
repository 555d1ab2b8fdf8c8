"""Registers of the consensus store that hold one small value: reservations of CSNs, xids, oids and sequence numbers.

The value is JSON behind the header of `storage.durable.state.framed`. A bit that flips in a reservation would otherwise
go unnoticed, and give something out twice. Earlier versions wrote the JSON alone, which is still read.

A value has no idempotency token. A write whose outcome is not known is made again on what is then read, so what it may
have reserved is skipped: nobody gets it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from itertools import repeat
from typing import Generic, TypeAlias, TypeVar

import msgspec

from storage.clock import Clock
from storage.durable.retries import retried
from storage.durable.state import framed, unframed
from storage.errors import CorruptState, Determinate, Indeterminate, StorageClosed, StoreFull
from storage.stores.consensus import Consensus, SeqNo, VersionedData

T = TypeVar("T")
V = TypeVar("V", bound=msgspec.Struct)
R = TypeVar("R")

MAX_ATTEMPTS = 10
"""Tries of one operation whose store keeps failing, before the caller hears of it."""

RETRY_DELAY_S = 0.01
"""Pause before an operation whose store failed is tried again."""

MAX_CONFLICTS = 1_000
"""How often other processes may be faster than one change. Each time one of them gets on, so this is never reached
unless something is wrong."""

TRUNCATE_EVERY = 64
"""Values of one register that may gather before all but the newest are truncated."""

_PLAIN = b"{[0123456789"
"""What JSON written by earlier versions begins with; a header begins with its version."""


def encode_register(value: msgspec.Struct) -> bytes:
    """The bytes of a register that holds `value`."""
    return framed(msgspec.json.encode(value))


def decode_register(data: bytes, type: type[T], what: str) -> T:
    """The value of a register. Raises CorruptState or NewerFormat, naming `what`."""
    payload = data if data[:1] and data[:1] in _PLAIN else unframed(data, what)
    try:
        return msgspec.json.decode(payload, type=type)
    except msgspec.MsgspecError as error:
        raise CorruptState(f"{what} cannot be read: {error}; restore the consensus store from a backup") from error


_Seen: TypeAlias = tuple[SeqNo | None, V | None]
"""A register's value with its number; two Nones when nothing has been written."""


class Register(Generic[V]):
    """One register, as one process knows it. `what` names it in errors; `decode` reads its bytes."""

    def __init__(self, consensus: Consensus, clock: Clock, key: str, what: str, decode: Callable[[bytes], V]) -> None:
        self.key = key
        self._consensus = consensus
        self._clock = clock
        self._what = what
        self._decode = decode
        self._seen: _Seen[V] = (None, None)

    async def read(self) -> V | None:
        """The value as of a moment after the call; None when nothing has been written. One read."""
        _, value = await self._retrying(self._head)
        return value

    async def change(
        self, propose: Callable[[V | None], Awaitable[V]], *, from_seen: bool = False, repeat_doubtful: bool = True
    ) -> V:
        """Write what `propose` makes of the newest value, and return it; one read and one write.

        `propose` is asked again whenever another process was faster or the store failed. What it raises is raised;
        when it returns the very value that it was given, nothing is written. `from_seen`: begin with the value seen
        last, which saves the read. Unless `repeat_doubtful`, a write whose outcome is not known is not made again.
        Raises Determinate or Indeterminate when the store keeps failing; what was proposed may then be there.
        """

        async def attempt() -> V | None:
            nonlocal from_seen
            seqno, value = self._seen if from_seen else await self._head()
            from_seen = False
            after = await propose(value)
            if after is value:
                return after
            new = VersionedData(seqno=SeqNo((seqno or 0) + 1), data=encode_register(after))
            if not await self._consensus.compare_and_set(self.key, seqno, new):
                return None
            self._seen = (new.seqno, after)
            return after

        for _ in range(MAX_CONFLICTS):
            after = await self._retrying(attempt, repeat_doubtful=repeat_doubtful)
            if after is not None:
                await self._truncate()
                return after
        raise Determinate(f"could not change {self._what}: other processes were always faster")

    async def _head(self) -> _Seen[V]:
        head = await self._consensus.head(self.key)
        self._seen = (None, None) if head is None else (head.seqno, self._decode(head.data))
        return self._seen

    async def _retrying(self, operation: Callable[[], Awaitable[R]], *, repeat_doubtful: bool = True) -> R:
        final = (StorageClosed, StoreFull) if repeat_doubtful else (StorageClosed, StoreFull, Indeterminate)
        return await retried(operation, self._clock, repeat(RETRY_DELAY_S, MAX_ATTEMPTS - 1), final=final)

    async def _truncate(self) -> None:
        seqno, _ = self._seen
        if seqno is not None and seqno % TRUNCATE_EVERY == 0:
            # Only room is at stake; a later change truncates what this one could not.
            with contextlib.suppress(Determinate, Indeterminate):
                await self._consensus.truncate(self.key, seqno)
