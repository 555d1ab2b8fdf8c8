"""Positions of sequences: durable counters outside of transactions.

A sequence's definition is catalog data; how far it has been used is not, because numbers are given out at once and
never taken back. The position is one small record per sequence in consensus. A process reserves a block of numbers
with one compare-and-set and gives them out from memory; a crash loses the rest of its block, which leaves a gap (as
PostgreSQL's own look-ahead does) and never a number twice.

    sequences/16400:       {"last": 132, "called": true}     numbers up to the one reserved last are taken
    sequences/16400.16512: {"last": 7, "called": true}       the same after a RESTART

Where the rest of a block waits is the store's `Blocks`: in this process's memory, or in files that the workers of one
server share, so that numbers are in the order of their drawing among all of them.

A RESTART is catalog data: it gives the sequence another generation, whose position is its own, so that it happens with
its transaction or not at all. A block serves only the very definition that it was reserved by.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

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


class Block(msgspec.Struct):
    """Numbers reserved and not given out yet, for the sequence as `sequence` defines it."""

    sequence: Sequence
    numbers: list[int] = msgspec.field(default_factory=list)


class Place(msgspec.Struct):
    """Where one sequence's block is, while nobody else can get at it."""

    block: Block | None


class Blocks(Protocol):
    """Where blocks wait."""

    def place(self, key: str) -> AbstractAsyncContextManager[Place]:
        """The place of this sequence, for nobody else inside. At the end, whatever it was, what it holds then is kept:
        nothing that was taken from it is given out before."""
        ...


class OwnBlocks:
    """`Blocks` in this process's memory."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Place, asyncio.Lock]] = {}

    @contextlib.asynccontextmanager
    async def place(self, key: str) -> AsyncIterator[Place]:
        """See `Blocks.place`."""
        known = self._places.get(key)
        if known is None:
            known = self._places[key] = Place(None), asyncio.Lock()
        place, lock = known
        async with lock:
            yield place


class SequenceStore:
    """The sequences of one process. `reserved` numbers are given out in order to whoever asks."""

    def __init__(self, consensus: Consensus, clock: Clock, blocks: Blocks | None = None) -> None:
        self._consensus = consensus
        self._clock = clock
        self._blocks = blocks or OwnBlocks()

    async def next_values(self, sequence: Sequence, count: int) -> list[int]:
        """The next `count` numbers. Raises SequenceExhausted."""
        async with self._blocks.place(_key(sequence)) as place:
            block = place.block
            if block is None or not _counts_alike(block.sequence, sequence):
                if block is not None:
                    await self._give_back(block)
                block = place.block = Block(sequence)
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

        async with self._blocks.place(_key(sequence)) as location:
            location.block = None
            await self._register(sequence).change(place, repeat_doubtful=False)

    async def last_value(self, sequence: Sequence) -> tuple[int, bool]:
        """The last number given out here or reserved elsewhere, and whether it has been given out."""
        async with self._blocks.place(_key(sequence)) as place:
            block = place.block
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

    async def _give_back(self, block: Block) -> None:
        """Undo the reservation of numbers that were not given out, unless somebody has reserved further ones."""
        if not block.numbers:
            return
        first, last = block.numbers[0], block.numbers[-1]
        before = _Position(first - block.sequence.increment, True)

        async def step_back(position: _Position | None) -> _Position:
            return before if position == _Position(last, True) else position or _beginning(block.sequence)

        await self._register(block.sequence).change(step_back)
        block.numbers.clear()

    def _register(self, sequence: Sequence) -> Register[_Position]:
        return Register(self._consensus, self._clock, f"{SEQUENCE_PREFIX}{_key(sequence)}", WHAT, _decode)


class LocalSequences:
    """The sequences of one session, whose positions are kept nowhere else."""

    def __init__(self) -> None:
        self._positions: dict[str, _Position] = {}

    async def next_values(self, sequence: Sequence, count: int) -> list[int]:
        """See `SequenceStore.next_values`."""
        numbers = _numbers(sequence, self._position(sequence), count)
        if len(numbers) < count:
            raise SequenceExhausted
        if numbers:
            self._positions[_key(sequence)] = _Position(numbers[-1], True)
        return numbers

    async def set_value(self, sequence: Sequence, value: int, called: bool) -> None:
        """See `SequenceStore.set_value`."""
        self._positions[_key(sequence)] = _Position(value, called)

    async def last_value(self, sequence: Sequence) -> tuple[int, bool]:
        """See `SequenceStore.last_value`."""
        position = self._position(sequence)
        return position.last, position.called

    def _position(self, sequence: Sequence) -> _Position:
        return self._positions.get(_key(sequence)) or _beginning(sequence)


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
