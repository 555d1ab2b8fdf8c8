"""Positions of sequences: durable counters outside of transactions.

A sequence's definition is catalog data; how far it has been used is not, because numbers are given out at once and
never taken back. The position is one small record per sequence in consensus. A process reserves a block of numbers
with one compare-and-set and gives them out from memory; a crash loses the rest of its block, which leaves a gap (as
PostgreSQL's own look-ahead does) and never a number twice.

    sequence 16400:  {"last": 132, "called": true}     numbers up to the one reserved last are taken
"""

from __future__ import annotations

import asyncio

import msgspec

from storage.catalog.model import Sequence
from storage.clock import Clock
from storage.durable.registers import Register, decode_register
from storage.stores.consensus import Consensus

SEQUENCE_PREFIX = "sequences/"
WHAT = "the position of a sequence"
BLOCK = 32
"""Numbers reserved at a time: PostgreSQL's SEQ_LOG_VALS, the most that a crash may skip."""


class SequenceExhausted(Exception):
    """The sequence has reached its bound and does not cycle."""


class _Position(msgspec.Struct, frozen=True):
    """`last` is the number reserved last; with `called` False it has not been given out yet."""

    last: int
    called: bool


class SequenceStore:
    """The sequences of one process. `reserved` numbers are given out in order to whoever asks."""

    def __init__(self, consensus: Consensus, clock: Clock) -> None:
        self._consensus = consensus
        self._clock = clock
        self._blocks: dict[int, list[int]] = {}
        self._locks: dict[int, asyncio.Lock] = {}

    async def next_values(self, sequence: Sequence, count: int) -> list[int]:
        """The next `count` numbers. Raises SequenceExhausted."""
        async with self._locks.setdefault(sequence.oid, asyncio.Lock()):
            block = self._blocks.setdefault(sequence.oid, [])
            while len(block) < count:
                block.extend(await self._reserve(sequence, max(BLOCK, count - len(block)), count - len(block)))
            taken = block[:count]
            del block[:count]
            return taken

    async def set_value(self, sequence: Sequence, value: int, called: bool) -> None:
        """Make `value` the last number (`called`) or the next one.

        Raises Indeterminate when it may have been done. It is not tried again then: numbers that others have drawn
        since would be given out twice.
        """

        async def place(_: _Position | None) -> _Position:
            return _Position(value, called)

        async with self._locks.setdefault(sequence.oid, asyncio.Lock()):
            self._blocks.pop(sequence.oid, None)
            await self._register(sequence.oid).change(place, repeat_doubtful=False)

    async def last_value(self, sequence: Sequence) -> tuple[int, bool]:
        """The last number given out here or reserved elsewhere, and whether it has been given out."""
        block = self._blocks.get(sequence.oid)
        if block:
            return block[0] - sequence.increment, True
        position = await self._register(sequence.oid).read() or _Position(sequence.start, False)
        return position.last, position.called

    async def _reserve(self, sequence: Sequence, wanted: int, needed: int) -> list[int]:
        numbers: list[int] = []

        async def advance(position: _Position | None) -> _Position:
            numbers[:] = _numbers(sequence, position or _Position(sequence.start, False), wanted)
            if len(numbers) < needed:
                raise SequenceExhausted
            return _Position(numbers[-1], True)

        await self._register(sequence.oid).change(advance)
        return numbers

    def _register(self, oid: int) -> Register[_Position]:
        return Register(self._consensus, self._clock, f"{SEQUENCE_PREFIX}{oid}", WHAT, _decode)


def _decode(data: bytes) -> _Position:
    return decode_register(data, _Position, WHAT)


def _numbers(sequence: Sequence, position: _Position, wanted: int) -> list[int]:
    """Up to `wanted` numbers after `position`, as far as the bounds allow."""
    numbers: list[int] = []
    value = position.last if not position.called else position.last + sequence.increment
    while len(numbers) < wanted:
        if value > sequence.maximum or value < sequence.minimum:
            if not sequence.cycle:
                break
            value = sequence.minimum if sequence.increment > 0 else sequence.maximum
        numbers.append(value)
        value += sequence.increment
    return numbers
