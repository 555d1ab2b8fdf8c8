"""A subscription's sum up to any CSN is the snapshot at that CSN."""

from __future__ import annotations

import asyncio
import random

from storage.doubles.clock import ManualClock
from storage.environment.environment import Environment
from storage.reading.subscribe import Progress, SubscribeEvent
from storage.shards.parts import ROW_ID, Part
from storage.shards.shard import ShardChanges, ShardSnapshot
from storage.timestamps.csn import Csn
from tests.storage.environments import Stores, commit, create, deletion, insert, read, rows, snapshot_rows

Contents = dict[int, tuple[object, ...]]


async def values(env: Environment, part: Part) -> Contents:
    table = await env.reader.read_part(part, [ROW_ID, "c1", "c2"])
    return {row[ROW_ID]: (row["c1"], row["c2"]) for row in table.to_pylist()}


async def play(env: Environment, contents: Contents, event: SubscribeEvent) -> Contents:
    """The contents after `event`."""
    if isinstance(event, ShardSnapshot):
        return dict(await snapshot_rows(env, event))
    if isinstance(event, ShardChanges):
        assert event.after + 1 == event.until
        after = dict(contents)
        for part in event.inserts:
            after.update(await values(env, part))
        for part in event.deletes:
            for row_id, old in (await values(env, part)).items():
                assert after.pop(row_id) == old, "a deletion carries the row's old values"
        return after
    return contents


async def test_sum_of_a_subscription_equals_every_snapshot() -> None:
    chance = random.Random(7)
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    shard, other = await create(env, (0, "start")), await create(env)
    start = await env.oracle.read_ts("user")
    contents: Contents = {}
    seen = 0
    stream = env.subscribe(shard, start)
    for step in range(80):
        if step % 2:
            txn = env.begin()
            txn.write(shard, rows((step, "new"), (step, "more")))
            live = await read(env, shard)
            gone = chance.choice(sorted(live))
            txn.delete(shard, deletion((gone, *live[gone])))
            await commit(env, txn)
        else:
            await insert(env, other, (step, "elsewhere"))
        clock.advance(500)
        if step % 7 == 0:
            await env.applier.apply_all()
            await env.maintenance.compactor.compact(shard)
            await env.maintenance.garbage.collect()
            await env.leases.keep_alive()
        if chance.random() < 0.4:
            now = Csn(env.cache.upper - 1)
            while seen < now:
                event = await anext(stream)
                contents = await play(env, contents, event)
                if isinstance(event, Progress):
                    seen = event.csn
                    assert contents == await read(env, shard, event.csn)
    assert contents


async def test_a_subscription_ends_at_until_and_at_the_drop() -> None:
    env = await Stores().open()
    shard = await create(env, (1, "a"))
    start = await env.oracle.read_ts("user")
    until = (await insert(env, shard, (2, "b"))).ts
    await insert(env, shard, (3, "c"))
    contents: Contents = {}
    async for event in env.subscribe(shard, start, until):
        contents = await play(env, contents, event)
    assert contents == {0: (1, "a"), 1: (2, "b")}

    async def collect() -> Contents:
        found: Contents = {}
        async for event in env.subscribe(shard, start):
            found = await play(env, found, event)
        return found

    task = asyncio.create_task(collect())
    await asyncio.sleep(0)
    txn = env.begin()
    txn.forget_shard(shard)
    await commit(env, txn)
    assert await task == {0: (1, "a"), 1: (2, "b"), 2: (3, "c")}
    assert not env.leases.holds
