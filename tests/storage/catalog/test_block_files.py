"""Sequences whose blocks the workers of a server share."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from pathlib import Path

import pytest

from storage.catalog.block_files import BlockFiles
from storage.catalog.model import Sequence
from storage.catalog.sequences import Blocks, OwnBlocks, SequenceExhausted, SequenceStore
from storage.clock import SystemClock
from storage.doubles.memory_consensus import MemoryConsensus

SEQUENCE = Sequence(oid=16400, schema=2200, name="s", owner=10)


def stores(folder: Path, count: int = 2) -> list[SequenceStore]:
    consensus, clock = MemoryConsensus(), SystemClock()
    return [SequenceStore(consensus, clock, BlockFiles(folder, clock)) for _ in range(count)]


async def test_numbers_of_all_are_in_the_order_of_their_drawing(tmp_path: Path) -> None:
    one, two = stores(tmp_path)
    drawn = [number for _ in range(50) for store in (one, two) for number in await store.next_values(SEQUENCE, 1)]
    assert drawn == list(range(1, 101))
    assert await one.last_value(SEQUENCE) == await two.last_value(SEQUENCE) == (100, True)


async def test_none_is_given_out_twice_to_those_who_draw_at_one_moment(tmp_path: Path) -> None:
    many = stores(tmp_path, 4)
    drawn: list[int] = []

    async def draw(store: SequenceStore, count: int) -> None:
        for _ in range(40):
            drawn.extend(await store.next_values(SEQUENCE, count))

    await asyncio.gather(*(draw(store, 1 + number) for number, store in enumerate(many)))
    assert sorted(drawn) == list(range(1, 401))


async def test_setval_takes_the_block_of_the_others_back(tmp_path: Path) -> None:
    one, two = stores(tmp_path)
    assert await one.next_values(SEQUENCE, 1) == [1]
    await two.set_value(SEQUENCE, 1000, True)
    assert await one.next_values(SEQUENCE, 1) == [1001]
    await one.set_value(SEQUENCE, 5, False)
    assert await two.last_value(SEQUENCE) == (5, False)
    assert await two.next_values(SEQUENCE, 2) == [5, 6]


@pytest.mark.parametrize("shared", [True, False])
async def test_a_bound_is_a_bound(tmp_path: Path, shared: bool) -> None:
    clock = SystemClock()
    blocks: Blocks = BlockFiles(tmp_path, clock) if shared else OwnBlocks()
    store = SequenceStore(MemoryConsensus(), clock, blocks)
    short = Sequence(oid=16401, schema=2200, name="short", owner=10, maximum=3)
    assert await store.next_values(short, 2) == [1, 2]
    with pytest.raises(SequenceExhausted):
        await store.next_values(short, 2)
    assert await store.next_values(short, 1) == [3]


async def test_who_is_killed_while_it_draws_leaves_the_sequence_usable(tmp_path: Path) -> None:
    one, two = stores(tmp_path)
    assert await one.next_values(SEQUENCE, 1) == [1]
    pid = os.fork()
    if pid == 0:
        # A process that holds the lock and is killed: the kernel lets go of it.
        descriptor = os.open(tmp_path / "16400", os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.to_thread(os.waitpid, pid, 0)
    (number,) = await two.next_values(SEQUENCE, 1)
    assert number > 1
