"""Random histories of locks against the model: the same grants, the same waiters, after every step."""

from __future__ import annotations

import asyncio
import copy
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapter.transactions.locks import lock_table, row_sets, tags
from adapter.transactions.locks.lock import Owner, Patience
from adapter.transactions.locks.lock_table import LockTable
from adapter.transactions.locks.modes import FOR_KEY_SHARE, FOR_NO_KEY_UPDATE, FOR_SHARE, FOR_UPDATE, Mode, modes_of
from adapter.transactions.locks.tags import Tag
from storage.doubles.clock import ManualClock
from tests.adapter.transactions.locks.model import Model

OWNERS = 5
TABLE = 16384

Step: TypeAlias = tuple[int, str, tuple[int, ...], Mode]

row_modes = st.sampled_from([FOR_KEY_SHARE, FOR_SHARE, FOR_NO_KEY_UPDATE, FOR_UPDATE])
owners = st.integers(0, OWNERS - 1)
steps = st.one_of(
    st.tuples(owners, st.just("lock"), st.tuples(st.integers(1, 2)), st.sampled_from(list(Mode))),
    st.tuples(
        owners, st.just("rows"), st.sets(st.integers(0, 9), min_size=1).map(lambda s: tuple(sorted(s))), row_modes
    ),
    st.tuples(owners, st.sampled_from(["end", "mark", "undo", "merge", "cancel"]), st.just(()), st.just(Mode.SHARE)),
)


class _History:
    def __init__(self) -> None:
        self.table = LockTable(ManualClock())
        self.owners = [Owner(pid=number) for number in range(OWNERS)]
        self.tasks: dict[int, asyncio.Task[object]] = {}
        self.model = Model()

    def _races(self, step: Step) -> bool:
        """Whether `step` would let several go on at once."""
        number, action, _, _ = step
        trial = copy.deepcopy(self.model)
        if action == "cancel":
            trial.give_up(number)
        elif action in ("end", "undo") and not trial.waits(number):
            trial.undo(number, 0 if action == "end" else trial.marks.get(number, 0))
        return trial.races

    async def carry_out(self, step: Step) -> None:
        number, action, items, mode = step
        if self._races(step):
            return
        owner, table, model = self.owners[number], self.table, self.model
        if action == "cancel":
            task = self.tasks.get(number)
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
            model.give_up(number)
            return
        if model.waits(number):
            return
        depth = len(owner.segments) - 1
        match action:
            case "lock":
                tag = tags.relation(items[0])
                model.want(number, [tag], mode)
                self._start(number, table.lock(owner, tag, mode, Patience(deadlock_timeout_ms=10**9)))
            case "rows":
                model.want(number, [tags.row(TABLE, row) for row in items], mode)
                ids = np.array(items, np.int64)
                self._start(number, table.lock_rows(owner, TABLE, ids, mode, Patience(deadlock_timeout_ms=10**9)))
            case "end":
                table.release(owner)
                model.end(number)
            case "mark":
                assert table.mark(owner) == model.mark(number)
            case "undo" if depth:
                table.release_since(owner, depth)
                model.undo(number, depth)
            case "merge" if depth:
                table.forget_mark(owner, depth)
                model.merge(number, depth)

    def _start(self, number: int, work: object) -> None:
        self.tasks[number] = asyncio.ensure_future(work)  # type: ignore[call-overload]

    def held(self) -> set[tuple[int, Tag, Mode]]:
        """What the owners hold, from their own records and from the locks'."""
        found = {
            (owner.pid, tags.row(relation, row), mode)
            for owner in self.owners
            for segment in owner.segments
            for (relation, mode), rows in segment.rows.items()
            for row in rows
        }
        rows = self.table._rows.get(TABLE)
        if rows is not None:
            listed = {
                (owner.pid, lock.tag, mode)
                for lock in rows.entries.values()
                for owner, held in lock.holders.items()
                for mode in modes_of(held)
            } | {
                (owner.pid, tags.row(TABLE, row), mode)
                for owner, sets in rows.bulk.items()
                for mode, ids in sets.items()
                for row in ids
            }
            assert listed == found
        return found | {
            (owner.pid, lock.tag, mode) for lock, owner, held in self.table.held() if lock.tag.kind == "relation"
            for mode in modes_of(held)
        }  # fmt: skip

    def check(self) -> None:
        model = self.model
        assert self.held() == {(item.owner, item.tag, item.mode) for item in model.held}
        waiting = [(request.owner.pid, request.lock.tag, request.mode) for request in self.table.waiting()]
        assert sorted(waiting) == sorted((wish.owner, wish.tags[0], wish.mode) for wish in model.queue)
        for number, owner in enumerate(self.owners):
            assert (owner.waiting is not None) == model.waits(number)

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        for owner in self.owners:
            self.table.release(owner)
        assert not self.table._locks
        assert not self.table._rows
        assert not self.table.waiting()


async def _settle() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


async def _run(history: list[Step]) -> None:
    world = _History()
    for step in history:
        await world.carry_out(step)
        await _settle()
        world.check()
    await world.close()


@pytest.mark.parametrize("few", [0, 2, 256])
@pytest.mark.parametrize("one_by_one", [0, 16])
def test_histories_against_the_model(monkeypatch: pytest.MonkeyPatch, few: int, one_by_one: int) -> None:
    monkeypatch.setattr(row_sets, "FEW", few)
    monkeypatch.setattr(lock_table, "ONE_BY_ONE", one_by_one)

    @settings(max_examples=250, deadline=None)
    @given(st.lists(steps, max_size=40))
    def histories(history: list[Step]) -> None:
        asyncio.run(_run(history))

    histories()
