"""Registers: one loop of read, propose and compare-and-set for everything that reserves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from storage.catalog.model import Sequence
from storage.catalog.sequences import SequenceStore
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_consensus import MemoryConsensus
from storage.doubles.unreliable import NO_FAULTS, FaultRates, Faults, UnreliableConsensus
from storage.durable.registers import MAX_ATTEMPTS, TRUNCATE_EVERY, Register, decode_register
from storage.errors import (
    CorruptState,
    Determinate,
    EnvironmentFenced,
    Indeterminate,
    StorageClosed,
    StoreFull,
    StoreUnavailable,
)
from storage.stores.consensus import Consensus, SeqNo, VersionedData
from storage.stores.counting import CountingConsensus
from storage.transactions.xid_blocks import XidBlocks
from tests.storage.store_servers import Impatient

KEY = "r"
SEQUENCE = Sequence(oid=20000, name="s", schema=2200, owner=10)
FAILS = FaultRates(fail_before=1.0)


class Count(msgspec.Struct, frozen=True):
    """What the register of these tests holds."""

    n: int


class LosesAnswers(CountingConsensus):
    """Carries the first `count` writes out and says that it does not know; `meanwhile` comes before anybody looks."""

    def __init__(self, inner: Consensus, count: int, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__(inner)
        self._left = count
        self._meanwhile = meanwhile

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        stored = await super().compare_and_set(key, expected_seqno, new)
        if self._left == 0:
            return stored
        self._left -= 1
        if self._meanwhile is not None:
            await self._meanwhile()
        raise Indeterminate("no answer")


def register(consensus: Consensus) -> Register[Count]:
    return Register(consensus, Impatient(), KEY, "the count", lambda data: decode_register(data, Count, "the count"))


async def one_more(count: Count | None) -> Count:
    return Count(1 if count is None else count.n + 1)


def unreliable(rates: FaultRates = NO_FAULTS, inner: Consensus | None = None) -> tuple[UnreliableConsensus, Faults]:
    faults = Faults(rates=rates, randomness=SeededRandomness(1), clock=Impatient())
    return UnreliableConsensus(inner or MemoryConsensus(), faults), faults


async def test_no_change_is_lost_between_processes() -> None:
    consensus = MemoryConsensus()
    processes = [register(consensus) for _ in range(4)]

    async def work(number: int) -> None:
        for turn in range(50):
            await processes[number].change(one_more, from_seen=turn % 2 == 0)

    await asyncio.gather(*map(work, range(4)))
    assert await register(consensus).read() == Count(200)


async def test_what_it_costs() -> None:
    counting = CountingConsensus(MemoryConsensus())
    ours, theirs = register(counting), register(counting)

    async def spent(changing: Register[Count], *, from_seen: bool) -> tuple[int, int]:
        before = (counting.counts["head"], counting.counts["compare_and_set"])
        await changing.change(one_more, from_seen=from_seen)
        return counting.counts["head"] - before[0], counting.counts["compare_and_set"] - before[1]

    assert await spent(ours, from_seen=False) == (1, 1)
    assert await spent(ours, from_seen=True) == (0, 1)
    assert await spent(theirs, from_seen=False) == (1, 1)
    assert await spent(ours, from_seen=True) == (1, 2)
    assert await ours.read() == Count(4)


async def test_old_values_are_truncated_now_and_then() -> None:
    counting = CountingConsensus(MemoryConsensus())
    ours = register(counting)
    for _ in range(TRUNCATE_EVERY + 1):
        await ours.change(one_more, from_seen=True)
    assert counting.counts["truncate"] == 1
    assert [item.seqno for item in await counting.scan(KEY, SeqNo(1))] == [TRUNCATE_EVERY, TRUNCATE_EVERY + 1]


async def test_what_is_proposed_unchanged_is_not_written() -> None:
    counting = CountingConsensus(MemoryConsensus())
    ours = register(counting)
    await ours.change(one_more)

    async def as_it_is(count: Count | None) -> Count:
        assert count is not None
        return count

    assert await ours.change(as_it_is) == Count(1)
    assert counting.counts["compare_and_set"] == 1


async def test_a_store_that_keeps_failing_is_told_of_and_what_the_proposal_raises_too() -> None:
    counting = CountingConsensus(MemoryConsensus())
    consensus, faults = unreliable(FAILS, counting)
    ours = register(consensus)
    with pytest.raises(Determinate):
        await ours.change(one_more)
    with pytest.raises(Determinate):
        await ours.read()
    assert counting.counts["compare_and_set"] == 0
    faults.rates = NO_FAULTS
    assert await ours.change(one_more) == Count(1)

    async def refuse(_: Count | None) -> Count:
        raise EnvironmentFenced("not ours")

    with pytest.raises(EnvironmentFenced):
        await ours.change(refuse)
    assert await ours.read() == Count(1)


@pytest.mark.parametrize("failure", [StorageClosed, StoreFull])
async def test_what_trying_again_does_not_mend_is_told_at_once(failure: type[Determinate]) -> None:
    tries = 0

    class Failing(MemoryConsensus):
        async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
            nonlocal tries
            tries += 1
            raise failure("no")

    with pytest.raises(failure):
        await register(Failing()).change(one_more)
    assert tries == 1


async def test_a_write_in_doubt_is_repeated_only_where_that_does_no_harm() -> None:
    consensus = LosesAnswers(MemoryConsensus(), 2)
    ours = register(consensus)
    with pytest.raises(Indeterminate):
        await ours.change(one_more, repeat_doubtful=False)
    assert await ours.read() == Count(1)
    assert await ours.change(one_more) == Count(3), "done a second time on what the first left"


async def test_damage_is_told_at_once() -> None:
    consensus = CountingConsensus(MemoryConsensus())
    await consensus.compare_and_set(KEY, None, VersionedData(seqno=SeqNo(1), data=b"[]"))
    with pytest.raises(CorruptState, match="the count"):
        await register(consensus).change(one_more)
    assert consensus.counts["head"] == 1 < MAX_ATTEMPTS


async def test_setval_in_doubt_is_not_repeated_over_numbers_that_others_drew() -> None:
    shared = MemoryConsensus()
    drawn: list[int] = []

    async def draw() -> None:
        drawn.extend(await SequenceStore(shared, Impatient()).next_values(SEQUENCE, 2))

    ours = SequenceStore(LosesAnswers(shared, 1, draw), Impatient())
    with pytest.raises(Indeterminate):
        await ours.set_value(SEQUENCE, 100, True)
    drawn += await ours.next_values(SEQUENCE, 2)
    assert drawn[:2] == [101, 102]
    assert len(set(drawn)) == 4


@pytest.mark.parametrize("seed", range(10))
async def test_a_failing_store_never_yields_a_number_of_a_sequence_twice(seed: int) -> None:
    rates = FaultRates(fail_before=0.1, unknown_before=0.1, unknown_after=0.1)
    faults = Faults(rates=rates, randomness=SeededRandomness(seed), clock=Impatient())
    consensus = UnreliableConsensus(MemoryConsensus(), faults)
    drawn = [n for _ in range(40) for n in await SequenceStore(consensus, Impatient()).next_values(SEQUENCE, 3)]
    assert len(set(drawn)) == 120


async def test_an_xid_that_could_not_be_settled_is_settled_later() -> None:
    class RefusesWrites(CountingConsensus):
        refuses = False

        async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
            if self.refuses:
                raise StoreUnavailable("not now")
            return await super().compare_and_set(key, expected_seqno, new)

    consensus = RefusesWrites(MemoryConsensus())
    ours, theirs = XidBlocks(consensus, Impatient(), "ours"), XidBlocks(consensus, Impatient(), "theirs")
    await ours.share()
    await theirs.share()
    xid = await ours.draw()
    assert not await theirs.is_over(xid, "ours")
    ours.ended(xid)
    consensus.refuses = True
    with pytest.raises(StoreUnavailable):
        await ours.settle()
    consensus.refuses = False
    await ours.settle()
    assert await theirs.is_over(xid, "ours")
