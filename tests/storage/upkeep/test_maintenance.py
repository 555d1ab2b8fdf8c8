"""Compaction and garbage collection against a plain model: rows, row ids, held snapshots and files."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from storage.catalog.model import CatalogUpdate, Schema
from storage.catalog.store import CatalogStore
from storage.doubles.clock import ManualClock
from storage.environment.environment import Environment
from storage.errors import AsOfNotReadable, EnvironmentFenced, HoldExpired
from storage.ids import CATALOG_SHARD, ShardId
from storage.membership.leases import ReadHold
from storage.membership.watch import LEASE_MS
from storage.shards.shard import ShardSnapshot
from storage.shards.shard_state import HOLD_MS, Hold, SetHold, ShardDiff
from storage.timestamps.csn import Csn
from tests.storage.environments import (
    SCHEMA,
    Stores,
    commit,
    create,
    deletion,
    insert,
    read,
    rows,
    snapshot_rows,
)


async def part_files(stores: Stores, shard: ShardId) -> set[str]:
    return {entry.key async for entry in stores.blob.list(f"parts/{shard}/")}


async def settle(env: Environment, clock: ManualClock, shard: ShardId) -> None:
    """Let history pass, compact, and collect until nothing is left to do."""
    await env.applier.apply_all()
    for _ in range(3):
        clock.advance(3_000)
        await env.txns_shard.advance_to_now(env.oracle)
        await env.leases.keep_alive()
        await env.maintenance.compactor.compact(shard)
        await env.maintenance.garbage.collect()


async def outlive_the_dead(env: Environment, clock: ManualClock) -> None:
    """Let the leases of all other processes run out, while ours is renewed."""
    for _ in range(4):
        await env.leases.keep_alive()
        clock.advance(LEASE_MS // 2)
    await env.leases.keep_alive()
    await env.maintenance.watch.bury_dead()
    assert set(env.cache.state.leases) == {env.process}


async def test_many_small_inserts_become_one_part() -> None:
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    shard = await create(env)
    for number in range(100):
        await insert(env, shard, (number, str(number)))
    before = await read(env, shard)
    await settle(env, clock, shard)
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    assert len(snapshot.inserts) == 1
    assert not snapshot.inserts[0].has_row_id_column
    assert await read(env, shard) == before


async def test_what_is_too_new_is_compacted_though_nobody_writes_again() -> None:
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    shard = await create(env)
    for number in range(100):
        await insert(env, shard, (number, str(number)))
    await env.applier.apply_all()
    touched = env.applier.touched
    assert shard in touched
    await env.maintenance.run(touched)
    assert shard in touched
    clock.advance(3_000)
    await env.maintenance.run(touched)
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    assert len(snapshot.inserts) == 1
    await env.maintenance.run(touched)
    assert shard not in touched


async def test_deletes_are_folded_and_row_ids_kept() -> None:
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    shard = await create(env, *[(n, str(n)) for n in range(100)])
    txn = env.begin()
    txn.delete(shard, deletion(*[(n, n, str(n)) for n in range(0, 100, 3)]))
    await commit(env, txn)
    before = await read(env, shard)
    await settle(env, clock, shard)
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    assert not snapshot.deletes
    assert snapshot.rows == len(before) == 66
    assert await read(env, shard) == before


async def test_garbage_does_not_wait_for_a_clock_that_had_jumped_ahead() -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    env = await stores.open()
    shard = await create(env)
    clock.jump(3_600_000)
    for _ in range(20):
        txn = env.begin()
        txn.write(shard, rows(*[(n, "x" * 100) for n in range(1000)]))
        await commit(env, txn)
    clock.jump(-3_600_000)
    await settle(env, clock, shard)
    assert len(await part_files(stores, shard)) == 1
    assert len(await read(env, shard)) == 20_000


async def test_all_rows_deleted_leaves_nothing() -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    env = await stores.open()
    shard = await create(env)
    txn = env.begin()
    txn.write(shard, rows(*[(n, "x" * 100) for n in range(2000)]))
    await txn.spill(force=True)
    await commit(env, txn)
    assert len(await part_files(stores, shard)) == 1
    txn = env.begin()
    txn.delete(shard, deletion(*[(n, n, "x" * 100) for n in range(2000)]))
    await commit(env, txn)
    await settle(env, clock, shard)
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    assert snapshot.inserts == snapshot.deletes == ()
    assert await part_files(stores, shard) == set()


@pytest.mark.parametrize("seed", range(6))
async def test_random_history_against_a_model(seed: int) -> None:
    chance = random.Random(seed)
    clock = ManualClock()
    stores = Stores(seed, clock)
    env = await stores.open()
    shard = await create(env)
    model: dict[int, tuple[int, str]] = {}
    held: list[tuple[ReadHold, ShardSnapshot, dict[int, tuple[int, str]]]] = []
    next_id = 0
    for step in range(120):
        txn = env.begin()
        fresh = [(chance.randrange(1000), "v" * chance.randrange(40)) for _ in range(chance.randrange(6))]
        if chance.random() < 0.05:
            fresh = [(n, "w" * 90) for n in range(900)]
        if fresh:
            txn.write(shard, rows(*fresh))
        gone = chance.sample(sorted(model), min(len(model), chance.randrange(4)))
        if gone and chance.random() < 0.7:
            txn.delete(shard, deletion(*[(i, *model[i]) for i in gone]))
        else:
            gone = []
        await commit(env, txn)
        for value in fresh:
            model[next_id] = value
            next_id += 1
        for row_id in gone:
            del model[row_id]
        clock.advance(chance.randrange(600))
        if chance.random() < 0.3:
            await env.applier.apply_all()
        if chance.random() < 0.1:
            at = await env.oracle.read_ts("user")
            hold = await env.leases.hold([shard], at)
            held.append((hold, await env.reader.snapshot(shard, at), dict(model)))
        if held and chance.random() < 0.1:
            held.pop(chance.randrange(len(held)))[0].release()
        if chance.random() < 0.15:
            await env.applier.apply_all()
            await env.maintenance.compactor.compact(shard)
            await env.maintenance.garbage.collect()
            await env.maintenance.orphans.collect()
            await env.leases.keep_alive()
        if step % 10 == 9:
            assert await read(env, shard) == model
            for _, snapshot, expected in held:
                # The very parts that were resolved then, and those that resolve now.
                assert await snapshot_rows(env, snapshot) == expected
                assert await read(env, shard, snapshot.as_of) == expected
        if chance.random() < 0.03:
            for hold, _, _ in held:
                hold.release()
            held = []
            if chance.random() < 0.5:
                await env.close()
            env = await stores.open()
    for hold, _, _ in held:
        hold.release()
    await outlive_the_dead(env, clock)
    await settle(env, clock, shard)
    assert await read(env, shard) == model
    await env.maintenance.orphans.collect()
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    live = {part.key for part in (*snapshot.inserts, *snapshot.deletes) if part.key is not None}
    assert await part_files(stores, shard) == live


async def test_a_reader_in_another_process_keeps_replaced_files() -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    other, env = await stores.open("two"), await stores.open("one")
    shard = await create(env)
    for _ in range(20):
        txn = env.begin()
        txn.write(shard, rows(*[(n, "x" * 100) for n in range(1000)]))
        await txn.spill(force=True)
        await commit(env, txn)
    at = await env.oracle.read_ts("user")
    await other.cache.durable.refresh()
    await other.leases.keep_alive()
    hold = await other.leases.hold([shard], at)
    snapshot = await other.reader.snapshot(shard, at)
    await other.leases.keep_alive()
    await settle(env, clock, shard)
    await settle(env, clock, shard)
    assert len((await env.reader.snapshot(shard, await env.oracle.read_ts("user"))).inserts) == 20
    assert len(await snapshot_rows(other, snapshot)) == 20_000
    hold.release()
    clock.advance(3_000)
    await other.cache.durable.refresh()
    await other.leases.keep_alive()
    await settle(env, clock, shard)
    # The other process has read below the compaction and must see it before files go.
    assert len(await part_files(stores, shard)) == 21
    for _ in range(2):
        clock.advance(3_000)
        await env.txns_shard.advance_to_now(env.oracle)
        await other.cache.durable.refresh()
        await other.leases.keep_alive()
    await settle(env, clock, shard)
    assert len(await part_files(stores, shard)) == 1
    now = await env.oracle.read_ts("user")
    assert len(await read(other, shard, Csn(min(now, other.cache.upper - 1)))) == 20_000


async def test_a_hold_below_the_since_is_refused_and_an_old_one_respected() -> None:
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    shard = await create(env, (1, "a"))
    at = await env.oracle.read_ts("user")
    critical = await env.leases.critical_hold(shard, "audit", at)
    for number in range(40):
        await insert(env, shard, (number, "b"))
    await settle(env, clock, shard)
    assert await read(env, shard, at) == {0: (1, "a")}
    hold = await env.leases.hold([shard], at)
    assert isinstance(critical, Hold)
    await env.leases.release_critical_hold(shard, "audit")
    await settle(env, clock, shard)
    assert await read(env, shard, at) == {0: (1, "a")}
    hold.release()
    await settle(env, clock, shard)
    await settle(env, clock, shard)
    with pytest.raises(AsOfNotReadable):
        await env.leases.hold([shard], at)
    with pytest.raises(AsOfNotReadable):
        await env.reader.snapshot(shard, at)


async def test_a_hold_whose_history_is_gone_does_not_end_the_lease() -> None:
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    kept, dropped = await create(env, (1, "a")), await create(env, (1, "a"))
    at = await env.oracle.read_ts("user")
    for shard in (kept, dropped):
        await env.leases.critical_hold(shard, "audit", at)
        for number in range(40):
            await insert(env, shard, (number, "b"))
        await settle(env, clock, shard)
    hold = await env.leases.hold([kept, dropped], at)
    assert hold.durable_name is not None
    # The process stands still until the hold has expired, and others go on.
    for shard in (kept, dropped):
        await env.leases.release_critical_hold(shard, "audit")
        handle = await env.handles.open(shard)
        await handle.update(lambda state: ShardDiff((SetHold(name=hold.durable_name or "", hold=None),)))
        await handle.downgrade_since(Csn(handle.state.upper - 1))
    beats = env.cache.state.leases[env.process].beats
    await env.leases.keep_alive()
    assert env.cache.state.leases[env.process].beats == beats + 1
    with pytest.raises(HoldExpired):
        hold.check()
    assert hold not in env.leases.holds
    await insert(env, kept, (100, "c"))
    await env.leases.keep_alive()


class _Reader:
    """Who has used some shards."""

    def __init__(self, *shards: ShardId) -> None:
        self._shards = shards

    def shards_used(self) -> tuple[ShardId, ...]:
        """See `HoldOwner`."""
        return self._shards


async def test_an_old_reader_keeps_what_it_has_used_and_nothing_else() -> None:
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    used, other = await create(env, (1, "a")), await create(env, (1, "a"))
    at = await env.oracle.read_ts("user")
    hold = await env.leases.hold((), at, _Reader(used))
    for number in range(40):
        clock.advance(3_000)
        for shard in (used, other):
            await insert(env, shard, (number, "b"))
        if number % 3 == 0:
            await env.leases.keep_alive()
    assert hold.moved
    assert min(hold.at for hold in env.leases.holds) == at
    for shard in (used, other):
        await settle(env, clock, shard)
    parts = {shard: len((await env.handles.open(shard)).state.parts) for shard in (used, other)}
    assert parts[other] < 10 < parts[used]
    assert await read(env, used, at) == {0: (1, "a")}
    with pytest.raises(AsOfNotReadable):
        await env.reader.snapshot(other, at)
    hold.release()
    await settle(env, clock, used)
    await settle(env, clock, used)
    assert len((await env.handles.open(used)).state.parts) < 10
    assert not (await env.handles.open(used)).state.holds


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
async def test_a_hold_expires_when_it_is_not_renewed_any_more_whatever_the_wall_clock_says(jump_ms: int) -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    env = await stores.open()
    shard = await create(env, (1, "a"))
    at = await env.oracle.read_ts("user")
    await env.leases.critical_hold(shard, "meanwhile", at)
    for number in range(40):
        await insert(env, shard, (number, "b"))
    await settle(env, clock, shard)
    hold = await env.leases.hold([shard], at)
    assert hold.durable_name is not None
    await env.leases.release_critical_hold(shard, "meanwhile")
    # The clock of whoever compacts is wrong, or becomes right again.
    clock.jump(jump_ms)
    handle = await env.handles.open(shard)
    for _ in range(5):
        await handle.downgrade_since(Csn(handle.state.upper - 1))
        assert set(handle.state.holds) == {hold.durable_name}
        clock.advance(HOLD_MS // 2)
        await settle(env, clock, shard)
        assert await read(env, shard, at) == {0: (1, "a")}
    # Its owner dies.
    env.leases.holds.discard(hold)
    for _ in range(3):
        clock.advance(HOLD_MS // 2)
        await handle.downgrade_since(Csn(handle.state.upper - 1))
    assert not handle.state.holds
    with pytest.raises(AsOfNotReadable):
        await env.reader.snapshot(shard, at)


async def test_parts_of_different_columns_are_not_merged() -> None:
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    shard = await create(env)
    for number in range(20):
        await insert(env, shard, (number, "old"))
    wide = SCHEMA.append(pa.field("c3", pa.int64()))
    txn = env.begin()
    txn.alter_schema(shard, wide)
    await commit(env, txn)
    for number in range(20):
        txn = env.begin()
        txn.write(shard, pa.table({"c1": [number], "c2": ["new"], "c3": [number]}, schema=wide))
        await commit(env, txn)
    await settle(env, clock, shard)
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    assert sorted(part.columns for part in snapshot.inserts) == [("c1", "c2"), ("c1", "c2", "c3")]
    assert sorted(part.schema_version for part in snapshot.inserts) == [0, 1]


async def test_a_dropped_shard_leaves_no_files() -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    env = await stores.open()
    shard = await create(env)
    txn = env.begin()
    txn.write(shard, rows(*[(n, "x" * 100) for n in range(1000)]))
    await txn.spill(force=True)
    await commit(env, txn)
    txn = env.begin()
    txn.forget_shard(shard)
    await commit(env, txn)
    await env.applier.apply_all()
    for _ in range(3):
        clock.advance(3_000)
        await env.txns_shard.advance_to_now(env.oracle)
        await env.leases.keep_alive()
        await env.maintenance.garbage.collect()
    assert await part_files(stores, shard) == set()
    assert shard not in env.cache.state.forgotten
    assert len(await stores.consensus.scan(f"shards/{shard}", 1)) <= 2  # type: ignore[arg-type]


async def test_abandoned_uploads_go_and_live_ones_stay() -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    dead, env = await stores.open("dead"), await stores.open("alive")
    shard = await create(env)
    await dead.cache.durable.refresh()
    big = rows(*[(n, "x" * 100) for n in range(1000)])
    kept, given_up, orphan = env.begin(), env.begin(), dead.begin()
    for txn in (kept, given_up, orphan):
        txn.write(shard, big)
        await txn.spill(force=True)
    await env.maintenance.orphans.collect()
    assert len(await part_files(stores, shard)) == 3
    given_up.abandon()
    await env.maintenance.orphans.collect()
    assert len(await part_files(stores, shard)) == 2
    await outlive_the_dead(env, clock)
    await env.maintenance.orphans.collect()
    assert len(await part_files(stores, shard)) == 1
    with pytest.raises(EnvironmentFenced):
        await dead.committer.commit(orphan, ts=Csn(env.cache.upper + 10))
    await commit(env, kept)
    assert len(await read(env, shard)) == 1000


async def test_what_tasks_write_goes_when_their_job_is_over() -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    dead, env = await stores.open("dead"), await stores.open("alive")
    shard = await create(env)
    written = {}
    for process in (dead, env):
        stem = process.parts.new_key(shard)
        written[process.process] = stem, [stem.replace(".parquet", f".0.{number}.0.0.parquet") for number in range(2)]
        for key in written[process.process][1]:
            await stores.blob.put(key, b"rows")
    stem, (kept, lost) = written[env.process]
    await env.maintenance.orphans.collect()
    assert len(await part_files(stores, shard)) == 4
    env.parts.take_over([kept])
    env.parts.release([stem])
    await env.maintenance.orphans.collect()
    assert await part_files(stores, shard) == {kept, *written[dead.process][1]}
    assert lost not in await part_files(stores, shard)
    await outlive_the_dead(env, clock)
    await env.maintenance.orphans.collect()
    assert await part_files(stores, shard) == {kept}


async def test_a_start_that_others_took_for_dead_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    env = await stores.open("alive")
    load = CatalogStore.load

    async def late(store: CatalogStore, as_of: Csn, csn: Csn) -> None:
        await outlive_the_dead(env, clock)
        txn = env.begin()
        txn.update_catalog([CatalogUpdate(record=Schema(oid=20_000, name="later", owner=10), diff=1)])
        await commit(env, txn)
        await env.txns_shard.advance_to_now(env.oracle)
        handle = await env.handles.open(CATALOG_SHARD)
        assert await handle.downgrade_since(Csn(handle.state.upper - 1)) > as_of
        await load(store, as_of, csn)

    monkeypatch.setattr(CatalogStore, "load", late)
    with pytest.raises(EnvironmentFenced):
        await stores.open("slow")


async def test_a_compaction_of_a_process_taken_for_dead_cannot_bring_collected_files_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    slow, env = await stores.open("slow"), await stores.open("alive")
    shard = await create(env)
    for number in range(20):
        txn = env.begin()
        txn.write(shard, rows(*[(number, "x" * 100) for _ in range(1000)]))
        await commit(env, txn)
    await env.applier.apply_all()
    for _ in range(4):
        clock.advance(5_000)
        await env.txns_shard.advance_to_now(env.oracle)
        await slow.cache.durable.refresh()
        await slow.leases.keep_alive()
        await env.leases.keep_alive()
    swap = slow.maintenance.compactor._swap
    swapped: list[bool] = []

    async def after_a_long_pause(*arguments: Any) -> bool:
        await outlive_the_dead(env, clock)
        await env.maintenance.orphans.collect()
        swapped.append(await swap(*arguments))
        return swapped[-1]

    monkeypatch.setattr(slow.maintenance.compactor, "_swap", after_a_long_pause)
    files = await part_files(stores, shard)
    await slow.maintenance.compactor.compact(shard)
    assert swapped == [False]
    assert await part_files(stores, shard) == files
    assert len(await read(env, shard)) == 20_000
    # The others go on compacting in the new epoch.
    assert await env.maintenance.compactor.compact(shard) == 20


async def test_the_files_of_an_unregistered_shard_outlive_their_writer() -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    writer, env = await stores.open("writer"), await stores.open("alive")
    shard = await create(writer)
    txn = writer.begin()
    txn.write(shard, rows(*[(n, "x" * 100) for n in range(1000)]))
    await commit(writer, txn)
    await writer.applier.apply_all()
    await writer.txns_shard.unregister(shard, Csn(writer.cache.upper + 1))
    await env.cache.durable.refresh()
    files = await part_files(stores, shard)
    assert len(files) == 1
    await outlive_the_dead(env, clock)
    await env.maintenance.orphans.collect()
    assert await part_files(stores, shard) == files
