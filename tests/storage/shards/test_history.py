"""The past can be read as it was, at every CSN within the retention, whatever compaction has done since."""

from __future__ import annotations

import random

import pytest

from storage.doubles.clock import ManualClock
from storage.environment.environment import Environment
from storage.errors import AsOfNotReadable
from storage.ids import ShardId
from storage.offline.admin import Inspector
from storage.offline.fsck import fsck
from storage.shards.parts import ROW_ID
from storage.timestamps.csn import Csn, csn_ms
from tests.storage.environments import Stores, commit, create, deletion, read, rows

Contents = dict[int, tuple[object, ...]]

RETAIN_MS = 60_000


async def change(env: Environment, shard: ShardId, chance: random.Random, step: int, live: Contents) -> Csn:
    """Commit a random change: some new rows, and some of `live` gone."""
    txn = env.begin()
    many = 3000 if chance.random() < 0.05 else chance.randint(1, 3)
    txn.write(shard, rows(*[(step, f"row {n} of {step}" * 8) for n in range(many)]))
    gone = chance.sample(sorted(live), min(len(live), chance.randint(0, 1 + len(live) // 3)))
    if gone:
        txn.delete(shard, deletion(*[(row, *live[row]) for row in gone]))  # type: ignore[arg-type]
    return (await commit(env, txn)).ts


async def upkeep(env: Environment, shard: ShardId) -> None:
    await env.applier.apply_all()
    await env.leases.keep_alive()
    await env.maintenance.compactor.compact(shard)
    await env.maintenance.compactor.expire()
    await env.maintenance.garbage.collect()


async def check_changes(env: Environment, shard: ShardId, recorded: dict[Csn, Contents], first: Csn) -> None:
    """What `changes` tells of the time from `first` on leads from each recorded state to the next."""
    moments = sorted(csn for csn in recorded if csn >= first)
    contents = dict(recorded[first])
    changes = await env.reader.changes(shard, first, moments[-1])
    by_csn: dict[Csn, list[tuple[str, Contents]]] = {}
    for part in (*changes.inserts, *changes.deletes):
        table = await env.reader.read_part(part, [ROW_ID, "c1", "c2"])
        found: Contents = {row[ROW_ID]: (row["c1"], row["c2"]) for row in table.to_pylist()}
        by_csn.setdefault(part.csn, []).append((part.kind, found))
    for csn in moments[1:]:
        for kind, found in by_csn.pop(csn, []):
            for row, values in found.items():
                if kind == "insert":
                    assert row not in contents
                    contents[row] = values
                else:
                    assert contents.pop(row) == values
        assert contents == recorded[csn]
    assert not by_csn


@pytest.mark.parametrize("seed", range(6))
async def test_every_moment_within_the_retention_reads_as_it_was(seed: int) -> None:
    chance = random.Random(seed)
    clock = ManualClock()
    stores = Stores(seed=seed, clock=clock, retain_ms=RETAIN_MS)
    env = await stores.open()
    shard = await create(env, (0, "start"))
    start = await env.oracle.read_ts("user")
    recorded = {start: await read(env, shard, start)}
    for step in range(120):
        csn = await change(env, shard, chance, step, recorded[max(recorded)])
        recorded[csn] = await read(env, shard, csn)
        clock.advance(chance.choice((10, 500, 3000)))
        if chance.random() < 0.4:
            await upkeep(env, shard)
        if chance.random() < 0.03:
            await env.close()
            env = await stores.open()
        if step % 15 == 14:
            earliest = env.retention.earliest(shard)
            readable = [moment for moment in recorded if moment >= earliest]
            for moment in readable:
                assert await read(env, shard, moment) == recorded[moment]
            await check_changes(env, shard, recorded, min(readable))
    state = (await env.handles.open(shard)).state
    assert state.history, "compaction has taken parts out of the state"
    assert state.since > min(readable), "and the past was read from archives"
    await env.close()
    inspector = Inspector(blob=stores.blob, consensus=stores.consensus, clock=clock, random=stores.random)
    report = await fsck(inspector)
    assert not report.problems
    assert not report.orphans


async def test_what_is_past_the_retention_is_gone_with_its_files() -> None:
    chance = random.Random(3)
    clock = ManualClock()
    stores = Stores(clock=clock, retain_ms=RETAIN_MS)
    env = await stores.open()
    shard, other = await create(env, (0, "start")), await create(env)
    start = await env.oracle.read_ts("user")
    for step in range(40):
        await change(env, shard, chance, step, await read(env, shard))
        clock.advance(3000)
        await upkeep(env, shard)
    assert (await env.handles.open(shard)).state.history
    with pytest.raises(AsOfNotReadable) as refused:
        await read(env, shard, start)
    assert refused.value.earliest is not None
    newest = csn_ms(env.cache.upper)
    assert newest - RETAIN_MS - 5000 <= csn_ms(Csn(refused.value.earliest)) <= newest - RETAIN_MS
    # Nobody writes to it any more; time goes on elsewhere.
    clock.advance(2 * RETAIN_MS)
    txn = env.begin()
    txn.write(other, rows((1, "later")))
    await commit(env, txn)
    for _ in range(6):
        await upkeep(env, other)
        clock.advance(3000)
    state = (await env.handles.open(shard)).state
    assert not state.history
    assert not state.garbage
    await env.close()


async def test_a_hold_keeps_what_its_reader_needs_and_nothing_else() -> None:
    chance = random.Random(5)
    clock = ManualClock()
    env = await Stores(clock=clock, retain_ms=RETAIN_MS).open()
    held, free = await create(env, (0, "start")), await create(env, (0, "start"))
    for step in range(10):
        for shard in (held, free):
            await change(env, shard, chance, step, await read(env, shard))
        clock.advance(3000)
        await upkeep(env, held)
        await upkeep(env, free)
    moment = await env.oracle.read_ts("user")
    contents = await read(env, held, moment)
    for _ in range(3):
        # Until the process's lease says that it reads nothing so old.
        await change(env, free, chance, 10, await read(env, free))
        clock.advance(3000)
        await upkeep(env, free)
    hold = await env.leases.hold((held,), moment)
    for step in range(60):
        for shard in (held, free):
            await change(env, shard, chance, step, await read(env, shard))
        clock.advance(3000)
        await upkeep(env, held)
        await upkeep(env, free)
    assert await read(env, held, moment) == contents
    with pytest.raises(AsOfNotReadable):
        await read(env, free, moment)
    assert (await env.handles.open(held)).state.since > moment, "what is held is folded all the same"
    hold.release()
    await env.leases.keep_alive()
    await upkeep(env, held)
    with pytest.raises(AsOfNotReadable):
        await read(env, held, moment)
    await env.close()


async def test_a_dropped_shard_is_read_until_its_retention_is_over() -> None:
    clock = ManualClock()
    env = await Stores(clock=clock, retain_ms=RETAIN_MS).open()
    shard, other = await create(env, (1, "a")), await create(env)
    before = await env.oracle.read_ts("user")
    contents = await read(env, shard, before)
    txn = env.begin()
    txn.forget_shard(shard)
    await commit(env, txn)
    clock.advance(RETAIN_MS // 2)
    await upkeep(env, other)
    assert await read(env, shard, before) == contents
    clock.advance(RETAIN_MS)
    txn = env.begin()
    txn.write(other, rows((1, "later")))
    await commit(env, txn)
    for _ in range(6):
        await upkeep(env, other)
        clock.advance(3000)
    assert shard not in env.cache.state.forgotten
    await env.close()
