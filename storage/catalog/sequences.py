"""Positions of sequences: durable counters outside of transactions.

A sequence's definition is catalog data; how far it has been used is not, because numbers are given out at once and
never taken back. The position is one small record per sequence in consensus. A process reserves a block of numbers
with one compare-and-set and gives them out from memory; a crash loses the rest of its block, which leaves a gap (as
PostgreSQL's own look-ahead does) and never a number twice.

    sequences/16400:       {"last": 132, "called": true}     numbers up to the one reserved last are taken
    sequences/16400.16512: {"last": 7, "called": true}       the same after a RESTART

A RESTART is catalog data: it gives the sequence another generation, whose position is its own, so that it happens with
its transaction or not at all. A block serves only the very definition that it was reserved by.
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


class _Block(msgspec.Struct):
    """Numbers reserved and not given out yet, for the sequence as `sequence` defines it."""

    sequence: Sequence
    numbers: list[int] = msgspec.field(default_factory=list)


class SequenceStore:
    """The sequences of one process. `reserved` numbers are given out in order to whoever asks."""

    def __init__(self, consensus: Consensus, clock: Clock) -> None:
        self._consensus = consensus
        self._clock = clock
        self._blocks: dict[str, _Block] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def next_values(self, sequence: Sequence, count: int) -> list[int]:
        """The next `count` numbers. Raises SequenceExhausted."""
        async with self._lock(sequence):
            key = _key(sequence)
            block = self._blocks.get(key)
            if block is None or not _counts_alike(block.sequence, sequence):
                if block is not None:
                    await self._give_back(block)
                block = self._blocks[key] = _Block(sequence)
            numbers = block.numbers
            while len(numbers) < count:
                missing = count - len(numbers)
                numbers.extend(await self._reserve(sequence, max(BLOCK, missing), missing))
            taken = numbers[:count]
            del numbers[:count]
            return taken

    async def set_value(self, sequence: Sequence, value: int, called: bool) -> None:
        """Make `value` the last number (`called`) or the next one.

        Raises Indeterminate when it may have been done. It is not tried again then: numbers that others have drawn
        since would be given out twice.
        """

        async def place(_: _Position | None) -> _Position:
            return _Position(value, called)

        async with self._lock(sequence):
            self._blocks.pop(_key(sequence), None)
            await self._register(sequence).change(place, repeat_doubtful=False)

    async def last_value(self, sequence: Sequence) -> tuple[int, bool]:
        """The last number given out here or reserved elsewhere, and whether it has been given out."""
        block = self._blocks.get(_key(sequence))
        if block is not None and block.numbers:
            return block.numbers[0] - block.sequence.increment, True
        position = await self._register(sequence).read() or _beginning(sequence)
        return position.last, position.called

    async def _reserve(self, sequence: Sequence, wanted: int, needed: int) -> list[int]:
        numbers: list[int] = []

        async def advance(position: _Position | None) -> _Position:
            numbers[:] = _numbers(sequence, position or _beginning(sequence), wanted)
            if len(numbers) < needed:
                raise SequenceExhausted
            return _Position(numbers[-1], True)

        await self._register(sequence).change(advance)
        return numbers

    async def _give_back(self, block: _Block) -> None:
        """Undo the reservation of numbers that were not given out, unless somebody has reserved further ones."""
        if not block.numbers:
            return
        first, last = block.numbers[0], block.numbers[-1]
        before = _Position(first - block.sequence.increment, True)

        async def step_back(position: _Position | None) -> _Position:
            return before if position == _Position(last, True) else position or _beginning(block.sequence)

        await self._register(block.sequence).change(step_back)
        block.numbers.clear()

    def _lock(self, sequence: Sequence) -> asyncio.Lock:
        return self._locks.setdefault(_key(sequence), asyncio.Lock())

    def _register(self, sequence: Sequence) -> Register[_Position]:
        return Register(self._consensus, self._clock, f"{SEQUENCE_PREFIX}{_key(sequence)}", WHAT, _decode)


def _key(sequence: Sequence) -> str:
    return f"{sequence.oid}.{sequence.generation}" if sequence.generation else str(sequence.oid)


def _beginning(sequence: Sequence) -> _Position:
    return _Position(sequence.start if sequence.first is None else sequence.first, False)


def _counts_alike(one: Sequence, other: Sequence) -> bool:
    """Whether the numbers that follow a position are the same by both definitions."""
    return one is other or (one.increment, one.minimum, one.maximum, one.cycle) == (
        other.increment, other.minimum, other.maximum, other.cycle
    )  # fmt: skip


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
