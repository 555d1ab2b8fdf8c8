"""What deletions of a few rows cost in a part of many: it is rewritten once a share of its rows is gone, not before."""

from __future__ import annotations

from storage.doubles.clock import ManualClock
from storage.upkeep import compaction
from tests.storage.environments import Stores, commit, create, deletion, read, rows
from tests.storage.upkeep.test_maintenance import settle

ROWS = 20_000


async def test_a_part_is_not_rewritten_for_each_few_deletions() -> None:
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    shard = await create(env)
    txn = env.begin()
    txn.write(shard, rows(*[(n, str(n)) for n in range(ROWS)]))
    await txn.spill(force=True)
    await commit(env, txn)
    before = (await env.reader.snapshot(shard, await env.oracle.read_ts("user"))).inserts
    for number in range(150):
        txn = env.begin()
        txn.delete(shard, deletion((number, number, str(number))))
        await commit(env, txn)
        if number % 3 == 0:
            await settle(env, clock, shard)
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    assert snapshot.inserts == before
    assert sum(part.rows for part in snapshot.deletes) == 150
    assert len(snapshot.deletes) <= 2 * compaction.MERGE_FACTOR
    assert len(await read(env, shard)) == ROWS - 150
