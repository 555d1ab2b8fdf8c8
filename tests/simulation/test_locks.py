"""Locks under simulation: many seeds without a broken invariant, equal seeds with equal traces, and mistakes found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapter.transactions.locks.lock import Follows, Lock, Owner
from adapter.transactions.locks.lock_table import LockTable
from adapter.transactions.locks.modes import Mode
from adapter.transactions.locks.row_locks import RowLocks
from tests.simulation import locks

SEEDS = 60
MAX_SEEDS = 30
ROOT = Path(__file__).parents[2]


def test_no_seed_breaks_an_invariant() -> None:
    durable = deadlocks = followers = kills = 0
    for seed in range(SEEDS):
        world, _ = locks.run(seed)
        assert world.problems == [], f"seed {seed}"
        durable += world.durable
        deadlocks += world.deadlocks
        followers += world.followers
        kills += world.kills
    # The runs did something.
    assert durable > 50 * SEEDS
    assert deadlocks > SEEDS
    assert followers > SEEDS
    assert kills == locks.KILLS * SEEDS


def test_the_same_seed_gives_the_same_trace() -> None:
    script = "from tests.simulation import locks; print(locks.run(7)[1])"
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1
    assert digests.isdisjoint({f"{locks.run(8)[1]}\n"})


def row_lock_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Rows are had by whoever asks for them."""

    async def lock_row(self: LockTable, *_: Any, **__: Any) -> bool:
        return False

    patch.setattr(LockTable, "lock_row", lock_row)


def waiters_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Who lets go of a row wakes nobody."""
    real = RowLocks.release

    def release(self: RowLocks, *arguments: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Lock, "next_granted", lambda self, *_: iter(()))
            real(self, *arguments)

    patch.setattr(RowLocks, "release", release)


def rows_left_behind(patch: pytest.MonkeyPatch) -> None:
    """The end of a transaction forgets the rows that it has."""
    patch.setattr(RowLocks, "release", lambda self, *_: None)


def deadlocks_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    """Who waits for himself goes on waiting."""
    patch.setattr(LockTable, "_look_for_deadlock", lambda self, request: None)


def everybody_is_a_victim(patch: pytest.MonkeyPatch) -> None:
    """Who has waited for a while is told of a deadlock."""
    from adapter.transactions.locks import deadlock

    def judge(request: Any) -> deadlock.Verdict:
        edge = deadlock.Edge(request, request.owner, None)
        return deadlock.Verdict(orders={}, cycle=(edge, edge))

    patch.setattr(deadlock, "judge", judge)


def follows_who_is_not_decided(patch: pytest.MonkeyPatch) -> None:
    """Who follows does not wait for others to be decided."""
    real = Lock.excludes

    def excludes(self: Lock, owner: Owner, mode: Mode, follows: Follows = Follows.NOBODY) -> bool:
        return not follows and real(self, owner, mode)

    patch.setattr(Lock, "excludes", excludes)


def follows_who_is_not_certain(patch: pytest.MonkeyPatch) -> None:
    """Who follows only what is certain follows anybody."""

    def has_passed_on(self: Lock, owner: Owner, follows: Follows) -> bool:
        return owner in self.passed_on and bool(follows)

    patch.setattr(Lock, "has_passed_on", has_passed_on)


@pytest.mark.parametrize(
    ("mistake", "sign"),
    [
        (row_lock_forgotten, "at once|is lost"),
        (waiters_forgotten, "waits for ever"),
        (rows_left_behind, "waits for ever|left in the lock table"),
        (deadlocks_not_looked_for, "waits for ever"),
        (everybody_is_a_victim, "does not wait for himself"),
        (follows_who_is_not_decided, "at once|is lost"),
        (follows_who_is_not_certain, "at once|has been refused"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_mistakes_are_found(
    mistake: Callable[[pytest.MonkeyPatch], None], sign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    others: set[str] = set()
    for seed in range(MAX_SEEDS):
        world, _ = locks.run(seed)
        if any(re.search(sign, problem) for problem in world.problems):
            return
        others.update(world.problems)
    raise AssertionError(f"not found, only {sorted(others)[:5]}")
