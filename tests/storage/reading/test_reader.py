"""A snapshot is made from the one before it where only appends lie between, and is what the whole state says."""

from __future__ import annotations

from typing import Any

import pytest

from storage.doubles.clock import ManualClock
from storage.reading import reader
from tests.storage.environments import Stores, commit, create, deletion, insert, read
from tests.storage.shards.indexes.reading.tables import BY_C1
from tests.storage.upkeep.test_indexing import indexed, now, refs, write
from tests.storage.upkeep.test_maintenance import settle


@pytest.fixture
def continued(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each snapshot that was made, whether it was made from another. What it is, every view here is checked for."""
    seen: list[bool] = []
    real = reader._continued

    def noted(*args: Any) -> Any:
        found = real(*args)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(reader, "_continued", noted)
    return seen


async def test_a_commit_costs_the_next_snapshot_what_it_added(continued: list[bool]) -> None:
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    shard = await create(env, (0, "a"))
    assert await read(env, shard) == {0: (0, "a")}
    continued.clear()
    for number in range(1, 40):
        await insert(env, shard, (number, "b"))
        assert len(await read(env, shard)) == number + 1
        if number % 7 == 0:
            await env.applier.apply_all()
    txn = env.begin()
    txn.delete(shard, deletion((3, 3, "b")))
    await commit(env, txn)
    assert 3 not in await read(env, shard)
    assert continued == [True] * 40

    # A compaction takes parts away: nothing is left of the snapshot before.
    await settle(env, clock, shard)
    continued.clear()
    assert len(await read(env, shard)) == 39
    await insert(env, shard, (40, "c"))
    assert len(await read(env, shard)) == 40
    assert continued == [False, True]
    await env.close()


async def test_files_that_got_key_runs_have_them_in_the_next_snapshot(continued: list[bool]) -> None:
    env = await Stores().open()
    shard = await create(env)
    await write(env, shard, 0, 3000)
    await env.applier.apply_all()
    assert refs((await now(env, shard)).inserts) == []
    indexed(env, BY_C1)
    await env.maintenance.indexer.index(shard)
    await insert(env, shard, (9000, "x"))
    assert len(refs((await now(env, shard)).inserts)) == 1
    assert continued[-1]
    await env.close()
