"""Locks one by one: what excludes what, who goes first, how a wait ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import numpy as np
import pytest

from adapter.transactions.locks import row_locks, tags
from adapter.transactions.locks.lock import Owner, Patience
from adapter.transactions.locks.lock_table import LockTable
from adapter.transactions.locks.modes import (
    CONFLICTS,
    FOR_KEY_SHARE,
    FOR_NO_KEY_UPDATE,
    FOR_SHARE,
    FOR_UPDATE,
    Mode,
    modes_of,
)
from planner.errors import DeadlockDetected, LockNotAvailable
from storage.doubles.clock import ManualClock

TABLE = tags.relation(16384)
PATIENT = Patience()


class World:
    """A lock table with owners 1, 2, 3, ... and a clock that moves when told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.table = LockTable(self.clock)
        self.owners = {pid: Owner(pid=pid, database_oid=5) for pid in range(1, 7)}
        self.tasks: list[asyncio.Task[Any]] = []

    def start(self, work: Coroutine[Any, Any, bool]) -> asyncio.Task[bool]:
        task = asyncio.ensure_future(work)
        self.tasks.append(task)
        return task

    async def lock(
        self, pid: int, mode: Mode, tag: tags.Tag = TABLE, patience: Patience = PATIENT
    ) -> asyncio.Task[bool]:
        """Begin to lock; the task is done when it is held."""
        task = self.start(self.table.lock(self.owners[pid], tag, mode, patience))
        await settle()
        return task

    async def rows(
        self, pid: int, rows: list[int], mode: Mode = FOR_UPDATE, patience: Patience = PATIENT
    ) -> asyncio.Task[bool]:
        """Begin to lock rows."""
        ids = np.array(rows, np.int64)
        task = self.start(self.table.lock_rows(self.owners[pid], 16384, ids, mode, patience))
        await settle()
        return task

    async def end(self, pid: int) -> None:
        """End the transaction of `pid`."""
        self.table.release(self.owners[pid])
        await settle()

    def follow(self, old: int, new: int) -> None:
        """The row `old` has become the row `new`."""
        self.table.follow(16384, Owner(pid=0), np.array([old]), np.array([new]))

    async def pass_ms(self, milliseconds: int) -> None:
        """Let time pass."""
        self.clock.advance(milliseconds)
        await settle()


async def settle() -> None:
    """Let everybody who can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    for task in world.tasks:
        task.cancel()
    await asyncio.gather(*world.tasks, return_exceptions=True)
    for owner in world.owners.values():
        world.table.unlock_all(owner)
        world.table.release(owner)
    assert not world.table._locks
    assert not world.table._rows


DOCUMENTED = {
    "ACCESS_SHARE": "       X",
    "ROW_SHARE": "      XX",
    "ROW_EXCLUSIVE": "    XXXX",
    "SHARE_UPDATE_EXCLUSIVE": "   XXXXX",
    "SHARE": "  XX XXX",
    "SHARE_ROW_EXCLUSIVE": "  XXXXXX",
    "EXCLUSIVE": " XXXXXXX",
    "ACCESS_EXCLUSIVE": "XXXXXXXX",
}
"""PostgreSQL 15, table 13.2: conflicting lock modes."""


@pytest.mark.parametrize("mode", list(Mode))
def test_table_modes_conflict_as_documented(mode: Mode) -> None:
    shown = "".join("X" if CONFLICTS[mode] >> other & 1 else " " for other in Mode)
    assert shown == DOCUMENTED[mode.name]


def test_row_modes_conflict_as_documented() -> None:
    rows = [FOR_KEY_SHARE, FOR_SHARE, FOR_NO_KEY_UPDATE, FOR_UPDATE]
    shown = ["".join("X" if CONFLICTS[mode] >> other & 1 else " " for other in rows) for mode in rows]
    assert shown == ["   X", "  XX", " XXX", "XXXX"]


def test_modes_have_names() -> None:
    assert Mode.SHARE_ROW_EXCLUSIVE.lock_name == "ShareRowExclusiveLock"
    assert modes_of(1 << 3 | 1 << 8) == [Mode.ROW_EXCLUSIVE, Mode.ACCESS_EXCLUSIVE]


async def test_compatible_requests_are_granted_together(world: World) -> None:
    await world.lock(1, Mode.ACCESS_EXCLUSIVE)
    readers = [await world.lock(pid, Mode.ACCESS_SHARE) for pid in (2, 3, 4)]
    assert not any(reader.done() for reader in readers)
    await world.end(1)
    assert all(reader.result() for reader in readers)


async def test_a_writer_is_not_starved_by_readers(world: World) -> None:
    await world.lock(1, Mode.ACCESS_SHARE)
    writer = await world.lock(2, Mode.ACCESS_EXCLUSIVE)
    late = await world.lock(3, Mode.ACCESS_SHARE)
    assert not writer.done()
    assert not late.done()
    await world.end(1)
    assert writer.done()
    assert not late.done()
    await world.end(2)
    assert late.done()


async def test_a_stronger_lock_goes_ahead_of_those_who_wait_for_the_weaker(world: World) -> None:
    await world.lock(1, Mode.ROW_EXCLUSIVE)
    other = await world.lock(2, Mode.SHARE)
    upgrade = await world.lock(1, Mode.SHARE_ROW_EXCLUSIVE)
    assert upgrade.done()
    assert not other.done()


async def test_holders_take_again_what_they_have(world: World) -> None:
    for _ in range(3):
        assert (await world.rows(1, [1, 2])).result() is False
        assert (await world.lock(1, Mode.EXCLUSIVE)).result() is False
    assert (await world.rows(1, [1, 2], FOR_SHARE)).result() is False
    await world.end(1)
    assert (await world.rows(2, [1, 2])).result() is False


async def test_rows_of_two_owners(world: World) -> None:
    await world.rows(1, [1, 3])
    second = await world.rows(2, [1, 2, 3])
    assert not second.done()
    assert (await world.rows(3, [2])).done()  # The second has not come so far.
    await world.end(1)
    assert not second.done()
    await world.end(3)
    assert second.result() is True


async def test_many_rows_and_few(world: World) -> None:
    many = list(range(100_000))
    assert (await world.rows(1, many)).result() is False
    assert not world.table._rows[16384].entries
    one = await world.rows(2, [70_000])
    other = await world.rows(3, many, FOR_KEY_SHARE)
    assert not one.done()
    assert not other.done()
    assert (await world.rows(4, [200_000])).done()
    await world.end(1)
    assert one.done()
    assert not other.done()
    await world.end(2)
    assert other.result() is True


async def test_rows_taken_one_by_one_become_a_bitmap(world: World) -> None:
    for row in range(2_000):
        assert world.table.try_row(world.owners[1], 16384, row, FOR_UPDATE)
    assert len(world.table._rows[16384].entries) <= 1
    assert not world.table.try_row(world.owners[2], 16384, 1_999, FOR_KEY_SHARE)
    await world.end(1)
    assert world.table.try_row(world.owners[2], 16384, 1_999, FOR_KEY_SHARE)


async def test_too_many_rows_become_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapter.transactions.locks.lock_table.MAX_ROWS", 1_000)
    assert row_locks.MAX_ROWS > 1_000
    await world.rows(1, [5_000])
    await world.rows(2, list(range(900)))
    claim = await world.rows(3, list(range(2_000, 4_000)))
    assert not claim.done()
    newcomer = await world.rows(4, [9_999])
    assert not newcomer.done()
    assert (await world.rows(1, [5_001])).done()  # The claim waits for it, so it does not wait for the claim.
    await world.end(1)
    assert not claim.done()
    await world.end(2)
    assert claim.result() is True
    assert (await world.rows(3, [77])).done()
    late = await world.rows(1, [6_000], FOR_KEY_SHARE)
    assert not late.done()
    await world.end(3)
    assert newcomer.done()
    assert late.done()
    await world.end(4)
    assert world.table.try_row(world.owners[5], 16384, 9_999, FOR_UPDATE)


async def test_rollback_to_a_savepoint(world: World) -> None:
    table, owner = world.table, world.owners[1]
    await world.rows(1, [1], FOR_SHARE)
    mark = table.mark(owner)
    await world.rows(1, [1, 2])
    await world.lock(1, Mode.ACCESS_EXCLUSIVE)
    waiting = [await world.rows(2, [2]), await world.rows(3, [1], FOR_SHARE), await world.lock(4, Mode.ACCESS_SHARE)]
    writer = await world.rows(5, [1])
    assert not any(task.done() for task in waiting)
    table.release_since(owner, mark)
    await settle()
    assert all(task.done() for task in waiting)
    assert not writer.done()  # FOR SHARE is from before.
    await world.end(3)
    assert not writer.done()
    await world.end(1)
    assert writer.done()


async def test_a_released_savepoint_counts_to_the_one_before(world: World) -> None:
    table, owner = world.table, world.owners[1]
    outer = table.mark(owner)
    inner = table.mark(owner)
    await world.rows(1, [1])
    table.forget_mark(owner, inner)
    assert not table.try_row(world.owners[2], 16384, 1, FOR_SHARE)
    table.release_since(owner, outer)
    assert table.try_row(world.owners[2], 16384, 1, FOR_SHARE)


async def test_lock_timeout(world: World) -> None:
    await world.lock(1, Mode.EXCLUSIVE)
    task = await world.lock(2, Mode.EXCLUSIVE, patience=Patience(lock_timeout_ms=300))
    behind = await world.lock(3, Mode.ROW_SHARE)
    await world.pass_ms(299)
    assert not task.done()
    await world.pass_ms(1)
    with pytest.raises(LockNotAvailable, match="canceling statement due to lock timeout"):
        task.result()
    assert not behind.done()
    await world.end(1)
    assert behind.done()


async def test_a_cancelled_waiter_is_gone(world: World) -> None:
    await world.lock(1, Mode.SHARE)
    task = await world.lock(2, Mode.ROW_EXCLUSIVE)
    behind = await world.lock(3, Mode.SHARE)
    assert not behind.done()
    task.cancel()
    await settle()
    assert behind.done()
    assert [request.owner.pid for request in world.table.waiting()] == []


async def test_try_does_not_wait(world: World) -> None:
    table = world.table
    await world.lock(1, Mode.ACCESS_SHARE)
    await world.rows(1, [1])
    assert not table.try_lock(world.owners[2], TABLE, Mode.ACCESS_EXCLUSIVE)
    assert not table.try_row(world.owners[2], 16384, 1, FOR_KEY_SHARE)
    assert table.try_row(world.owners[2], 16384, 2, FOR_KEY_SHARE)
    assert table.waiting() == []


async def test_locks_of_a_session(world: World) -> None:
    table, owner = world.table, world.owners[1]
    tag = tags.advisory(5, 0, 42, 1)
    for _ in range(2):
        assert table.try_lock(owner, tag, Mode.EXCLUSIVE, for_session=True)
    assert table.try_lock(owner, tag, Mode.EXCLUSIVE)
    await world.end(1)
    assert not table.try_lock(world.owners[2], tag, Mode.SHARE)
    assert table.unlock(owner, tag, Mode.EXCLUSIVE)
    assert not table.try_lock(world.owners[2], tag, Mode.SHARE)
    assert table.unlock(owner, tag, Mode.EXCLUSIVE)
    assert not table.unlock(owner, tag, Mode.EXCLUSIVE)
    assert table.try_lock(world.owners[2], tag, Mode.SHARE, for_session=True)
    assert table.try_lock(owner, tag, Mode.SHARE, for_session=True)
    table.unlock_all(owner)
    table.unlock_all(world.owners[2])
    assert table.try_lock(world.owners[3], tag, Mode.EXCLUSIVE)


async def test_a_commit_under_way_keeps_its_locks(world: World) -> None:
    table, owner = world.table, world.owners[1]
    await world.lock(1, Mode.ROW_EXCLUSIVE)
    await world.rows(1, [1])
    await world.rows(1, list(range(100, 1_000)))
    heir = table.hand_over(owner)
    again = await world.rows(1, [1])
    assert not again.done()
    assert not table.try_row(world.owners[2], 16384, 500, FOR_SHARE)
    assert not table.try_lock(world.owners[2], TABLE, Mode.SHARE)
    table.release(heir)
    await settle()
    assert again.done()
    assert table.try_row(world.owners[2], 16384, 500, FOR_SHARE)


async def test_waiters_follow_a_row_to_its_new_id(world: World) -> None:
    await world.rows(1, [1], FOR_NO_KEY_UPDATE)
    await world.rows(2, [1], FOR_KEY_SHARE)
    first, second = await world.rows(3, [1]), await world.rows(4, [1])
    world.follow(1, 50)
    await world.end(1)
    assert not first.done()  # FOR KEY SHARE has followed too.
    newcomer = await world.rows(5, [50])
    await world.end(2)
    assert first.done()
    await world.end(3)
    assert second.done()
    assert not newcomer.done()
    await world.end(4)
    assert newcomer.done()
    assert world.table.try_row(world.owners[6], 16384, 1, FOR_UPDATE)


async def test_a_bitmap_follows_a_row(world: World) -> None:
    await world.rows(1, list(range(1_000)), FOR_KEY_SHARE)
    await world.rows(2, [7], FOR_NO_KEY_UPDATE)
    world.follow(7, 5_000)
    await world.end(2)
    assert not world.table.try_row(world.owners[3], 16384, 5_000, FOR_UPDATE)
    assert world.table.try_row(world.owners[3], 16384, 7, FOR_UPDATE)


async def test_newcomers_at_the_new_id_are_joined(world: World) -> None:
    await world.rows(1, [1], FOR_NO_KEY_UPDATE)
    await world.rows(2, [1], FOR_KEY_SHARE)
    await world.rows(3, [50], FOR_SHARE)
    world.follow(1, 50)
    await world.end(1)
    writer = await world.rows(4, [50])
    await world.end(2)
    assert not writer.done()
    await world.end(3)
    assert writer.done()


async def test_deadlock_of_two(world: World) -> None:
    await world.rows(1, [1])
    await world.rows(2, [2])
    first = await world.rows(1, [2])
    await world.pass_ms(400)
    second = await world.rows(2, [1])
    await world.pass_ms(600)
    with pytest.raises(DeadlockDetected) as caught:
        first.result()
    assert caught.value.message == "deadlock detected"
    assert caught.value.detail == (
        "Process 1 waits for AccessExclusiveLock on tuple (0,3) of relation 16384 of database 5; "
        "blocked by process 2.\n"
        "Process 2 waits for AccessExclusiveLock on tuple (0,2) of relation 16384 of database 5; "
        "blocked by process 1."
    )
    assert not second.done()
    await world.end(1)
    assert second.done()


async def test_two_who_wait_for_each_other_at_one_table(world: World) -> None:
    await world.lock(1, Mode.SHARE, tags.relation(1))
    await world.lock(2, Mode.SHARE, tags.relation(1))
    first = await world.lock(1, Mode.EXCLUSIVE, tags.relation(1))
    second = await world.lock(2, Mode.EXCLUSIVE, tags.relation(1))
    assert isinstance(second.exception(), DeadlockDetected)
    assert not first.done()


async def test_who_looks_first_dies(world: World) -> None:
    await world.lock(1, Mode.SHARE, tags.relation(1))
    await world.lock(2, Mode.SHARE, tags.relation(2))
    first = await world.lock(1, Mode.EXCLUSIVE, tags.relation(2), Patience(deadlock_timeout_ms=10_000))
    second = await world.lock(2, Mode.EXCLUSIVE, tags.relation(1), Patience(deadlock_timeout_ms=10))
    await world.pass_ms(10)
    assert isinstance(second.exception(), DeadlockDetected)
    assert not first.done()


async def test_a_soft_cycle_is_opened_by_another_order(world: World) -> None:
    """PostgreSQL's src/test/isolation has the same history: nobody has to fail."""
    a, b = tags.relation(1), tags.relation(2)
    await world.lock(1, Mode.ACCESS_SHARE, a)
    await world.lock(2, Mode.ACCESS_SHARE, b)
    e1 = await world.lock(3, Mode.ACCESS_EXCLUSIVE, a, Patience(deadlock_timeout_ms=10_000))
    e2 = await world.lock(4, Mode.ACCESS_EXCLUSIVE, b, Patience(deadlock_timeout_ms=10_000))
    d1 = await world.lock(1, Mode.ACCESS_SHARE, b, Patience(deadlock_timeout_ms=10_000))
    d2 = await world.lock(2, Mode.ACCESS_SHARE, a, Patience(deadlock_timeout_ms=10))
    assert not d1.done()
    await world.pass_ms(10)
    assert d1.done()
    await world.end(1)
    assert e1.done()
    assert not d2.done()
    await world.end(3)
    assert d2.done()
    assert not e2.done()
    await world.end(2)
    assert e2.done()


async def test_a_cycle_of_many(world: World) -> None:
    for pid in range(1, 7):
        await world.rows(pid, [pid])
    tasks = [await world.rows(pid, [pid % 6 + 1]) for pid in range(1, 7)]
    await world.pass_ms(1_000)
    failed = [task for task in tasks if task.done() and isinstance(task.exception(), DeadlockDetected)]
    assert len(failed) == 1
    assert failed == [tasks[0]]


async def test_waiting_for_one_who_will_go_on_is_no_deadlock(world: World) -> None:
    await world.rows(1, [1])
    tasks = [await world.rows(pid, [1]) for pid in range(2, 7)]
    await world.pass_ms(60_000)
    assert not any(task.done() for task in tasks)
    for pid in range(1, 7):
        await world.end(pid)
    assert all(task.result() for task in tasks)


async def test_who_blocks_whom(world: World) -> None:
    await world.lock(1, Mode.ACCESS_SHARE)
    await world.lock(2, Mode.ACCESS_EXCLUSIVE)
    await world.lock(3, Mode.ACCESS_SHARE)
    assert world.table.blocking(1) == []
    assert world.table.blocking(2) == [1]
    assert world.table.blocking(3) == [2]
    assert [(lock.tag, owner.pid) for lock, owner, _ in world.table.held()] == [(TABLE, 1)]
