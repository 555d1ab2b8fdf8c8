"""What became of transactions by their xids, and xids across processes."""

from __future__ import annotations

import asyncio

import pytest

from storage.doubles.clock import ManualClock, SeededRandomness
from storage.doubles.memory_consensus import MemoryConsensus
from storage.doubles.unreliable import FaultRates, Faults, UnreliableConsensus
from storage.errors import CorruptState
from storage.stores.consensus import SeqNo, VersionedData
from storage.stores.counting import CountingConsensus
from storage.timestamps.csn import Csn
from storage.transactions.xid_blocks import BLOCK_XIDS, XID_KEY, XidBlocks
from storage.transactions.xids import Finished, Xid, XidMap
from tests.storage.store_servers import Impatient


def test_what_became_of_a_transaction() -> None:
    xids = XidMap()
    xids.begin(Xid(3))
    xids.begin(Xid(4))
    assert xids.is_running(Xid(3))
    assert xids.finished(Xid(3)) is None
    xids.note_committed(Xid(3), Csn(9))
    xids.note_aborted(Xid(4))
    assert xids.finished(Xid(3)) == Finished(committed_at=Csn(9))
    assert xids.finished(Xid(4)) == Finished(committed_at=None)
    assert xids.finished(Xid(99)) is None
    with pytest.raises(ValueError, match="not running"):
        xids.note_committed(Xid(4), Csn(10))
    with pytest.raises(ValueError, match="not new"):
        xids.begin(Xid(4))


def test_what_ended_long_ago_is_forgotten() -> None:
    xids = XidMap(remembered=8)
    for n in range(3, 100):
        xids.begin(Xid(n))
        if n > 3:
            xids.note_committed(Xid(n), Csn(n))
    assert xids.is_running(Xid(3))
    assert xids.finished(Xid(99)) == Finished(committed_at=Csn(99))
    assert xids.finished(Xid(50)) is None
    xids.forget(Xid(3))
    assert not xids.is_running(Xid(3))
    assert xids.finished(Xid(3)) is None


async def test_processes_draw_different_xids() -> None:
    consensus = MemoryConsensus()
    processes = [XidBlocks(consensus, ManualClock()) for _ in range(3)]
    drawn = await asyncio.gather(*(processes[n % 3].draw() for n in range(300)))
    assert len(set(drawn)) == 300
    assert min(drawn) == 3


async def test_a_block_costs_one_write() -> None:
    consensus = CountingConsensus(MemoryConsensus())
    blocks = XidBlocks(consensus, ManualClock())
    drawn = [await blocks.draw() for _ in range(BLOCK_XIDS + 1)]
    assert drawn == list(range(3, 3 + BLOCK_XIDS + 1))
    assert consensus.counts["compare_and_set"] == 2


@pytest.mark.parametrize("seed", range(10))
async def test_a_failing_store_never_yields_an_xid_twice(seed: int) -> None:
    clock = Impatient()
    rates = FaultRates(fail_before=0.1, unknown_before=0.1, unknown_after=0.1)
    faults = Faults(rates=rates, randomness=SeededRandomness(seed), clock=clock)
    consensus = UnreliableConsensus(MemoryConsensus(), faults)
    drawn = [await XidBlocks(consensus, clock).draw() for _ in range(50)]
    assert len(set(drawn)) == 50


async def test_a_damaged_reservation_is_noticed() -> None:
    consensus = MemoryConsensus()
    await consensus.compare_and_set(XID_KEY, None, VersionedData(seqno=SeqNo(1), data=b"\x00x"))
    with pytest.raises(CorruptState):
        await XidBlocks(consensus, ManualClock()).draw()


async def test_the_owner_of_an_xid_is_remembered() -> None:
    consensus = MemoryConsensus()
    one = XidBlocks(consensus, ManualClock(), "one", lambda: Csn(5))
    two = XidBlocks(consensus, ManualClock(), "two", lambda: Csn(9))
    first, second = await one.draw(), await two.draw()
    for xid, process, csn in ((first, "one", 5), (second, "two", 9)):
        block = await one.block_of(xid)
        assert block is not None
        assert (block.process, block.csn) == (process, csn)
    with pytest.raises(ValueError, match="future"):
        await one.block_of(second + BLOCK_XIDS)


async def test_a_reservation_of_an_earlier_version_is_continued() -> None:
    consensus = MemoryConsensus()
    await consensus.compare_and_set(XID_KEY, None, VersionedData(seqno=SeqNo(1), data=b"4099"))
    blocks = XidBlocks(consensus, ManualClock())
    assert await blocks.block_of(50) is None
    assert await blocks.draw() == 4099


async def test_a_draw_that_comes_after_the_others_have_left_is_below_the_end_that_is_told() -> None:
    blocks = XidBlocks(MemoryConsensus(), ManualClock(), "p")
    await blocks.share()
    late = asyncio.ensure_future(blocks.draw())
    await asyncio.sleep(0)
    # Asked for while others drew too; its round trip begins once this process is alone and has a block.
    await blocks.keep_to_itself()
    drawn = await blocks.draw()
    assert not late.done()
    xid = await late
    look = await blocks.look()
    assert drawn < xid < look.end
    assert look.running == {"p": {drawn, xid}}


class Withholding(MemoryConsensus):
    """Answers what it has stored when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.stored = asyncio.Event()
        self.answer = asyncio.Event()

    async def compare_and_set(self, key: str, expected: SeqNo | None, new: VersionedData) -> bool:
        result = await super().compare_and_set(key, expected, new)
        self.stored.set()
        await self.answer.wait()
        return result


async def test_a_block_that_is_being_reserved_has_not_ended() -> None:
    consensus = Withholding()
    blocks = XidBlocks(consensus, ManualClock(), "p")
    drawing = asyncio.ensure_future(blocks.draw())
    await consensus.stored.wait()
    looking = asyncio.ensure_future(blocks.look())
    for _ in range(10):
        await asyncio.sleep(0)
    consensus.answer.set()
    look, xid = await looking, await drawing
    assert xid >= look.end or xid in look.running["p"]
