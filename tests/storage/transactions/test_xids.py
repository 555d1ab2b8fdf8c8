"""Hybrid snapshots against a plain model of PostgreSQL's, the second level, and xids across processes."""

from __future__ import annotations

import asyncio

import pytest

from storage.doubles.clock import ManualClock, SeededRandomness
from storage.doubles.counting import CountingConsensus
from storage.doubles.memory_consensus import MemoryConsensus
from storage.doubles.unreliable import FaultRates, Faults, UnreliableConsensus
from storage.errors import CorruptState
from storage.stores.consensus import SeqNo, VersionedData
from storage.timestamps.csn import Csn
from storage.transactions.xid_blocks import BLOCK_XIDS, XID_KEY, XidBlocks
from storage.transactions.xids import Finished, HybridSnapshot, Xid, XidMap
from tests.storage.store_servers import Impatient


def test_the_postgres_form() -> None:
    xids = XidMap(first=Xid(100))
    assert str(xids.to_postgres(xids.hybrid_snapshot())) == "100:100:"
    for xid in range(100, 105):
        xids.begin(Xid(xid))
    xids.note_committed(Xid(101), Csn(7))
    xids.publish(Csn(7))
    xids.note_committed(Xid(103), Csn(8))
    snapshot = xids.hybrid_snapshot()
    assert snapshot == HybridSnapshot(xmin=Xid(100), csn=Csn(7), xmax=Xid(105))
    form = xids.to_postgres(snapshot)
    assert str(form) == "100:105:100,102,103,104"
    assert [form.visible(Xid(xid)) for xid in (99, 100, 101, 103, 105)] == [True, False, True, False, False]
    xids.publish(Csn(8))
    assert str(xids.to_postgres(xids.hybrid_snapshot())) == "100:105:100,102,104"
    assert str(xids.to_postgres(snapshot)) == "100:105:100,102,103,104"


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


def test_long_running_transactions_move_to_the_second_level() -> None:
    xids = XidMap(slots=8)
    xids.begin(Xid(3))
    early = xids.hybrid_snapshot()
    for n in range(4, 100):
        xids.begin(Xid(n))
        xids.note_committed(Xid(n), Csn(n))
        xids.publish(Csn(n))
        xids.retain(Csn(n))
    assert xids.second_level == 1
    assert xids.is_running(Xid(3))
    assert str(xids.to_postgres(xids.hybrid_snapshot())) == "3:100:3"
    assert str(xids.to_postgres(early)) == "3:4:3"
    xids.note_committed(Xid(3), Csn(200))
    assert str(xids.to_postgres(early)) == "3:4:3"
    xids.publish(Csn(200))
    assert str(xids.to_postgres(xids.hybrid_snapshot())) == "100:100:"
    xids.retain(Csn(200))
    assert xids.second_level == 0


def test_what_old_snapshots_need_is_retained() -> None:
    xids = XidMap(slots=4)
    for n in range(3, 6):
        xids.begin(Xid(n))
    held = xids.hybrid_snapshot()
    form = str(xids.to_postgres(held))
    for n in range(3, 6):
        xids.note_committed(Xid(n), Csn(n))
    for n in range(6, 40):
        xids.begin(Xid(n))
        xids.note_committed(Xid(n), Csn(n))
        xids.publish(Csn(n))
    assert str(xids.to_postgres(held)) == form == "3:6:3,4,5"


def test_taking_a_snapshot_costs_the_same_with_many_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    def looks(sessions: int) -> int:
        xids = XidMap()
        for n in range(3, 3 + sessions):
            xids.begin(Xid(n))
        count = 0
        real = XidMap._state

        def counted(self: XidMap, xid: Xid) -> tuple[int, bool] | None:
            nonlocal count
            count += 1
            return real(self, xid)

        monkeypatch.setattr(XidMap, "_state", counted)
        for _ in range(100):
            xids.hybrid_snapshot()
        monkeypatch.undo()
        return count

    assert looks(10) == looks(10_000) == 100


@pytest.mark.parametrize("seed", range(30))
def test_against_a_model(seed: int) -> None:
    """Every snapshot's list stays what a plain set of running transactions said when it was taken."""
    randomness = SeededRandomness(seed)
    xids = XidMap(slots=16)
    running: set[Xid] = set()
    unpublished: dict[Xid, Csn] = {}
    csn = Csn(0)
    taken: list[tuple[HybridSnapshot, set[Xid]]] = []
    for _ in range(300):
        match randomness.randrange(5):
            case 0 | 1:
                xid = xids.next_xid if randomness.random() < 0.9 else Xid(xids.next_xid + 5)
                xids.begin(xid)
                running.add(xid)
            case 2 if running:
                xid = sorted(running)[randomness.randrange(len(running))]
                running.remove(xid)
                if randomness.random() < 0.3:
                    xids.note_aborted(xid)
                else:
                    csn = Csn(csn + 2)
                    xids.note_committed(xid, csn)
                    unpublished[xid] = csn
            case 3:
                xids.publish(csn)
                unpublished.clear()
            case 4:
                taken.append((xids.hybrid_snapshot(), running | set(unpublished)))
        for snapshot, model in taken:
            listed = set(xids.to_postgres(snapshot).xip)
            assert model <= listed
            assert all(finished_without_trace(xids, xid) for xid in listed - model)


def finished_without_trace(xids: XidMap, xid: Xid) -> bool:
    """An aborted transaction may still be listed: nobody can see the difference."""
    return xids.finished(xid) == Finished(committed_at=None)


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
