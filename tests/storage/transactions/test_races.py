"""The classic races of the txns shard, each on its own: register, forget, fill, tidy, and work out of order."""

from __future__ import annotations

import asyncio

import pytest

from storage.doubles.clock import ManualClock
from storage.durable.state import DurableState
from storage.environment.environment import Environment
from storage.errors import Determinate, UnknownShard
from storage.ids import ShardId
from storage.membership.watch import LEASE_MS
from storage.shards.shard import DataShard
from storage.shards.writes import Write
from storage.timestamps.csn import Csn
from storage.transactions.txns_shard import Committed, UpperMismatch
from storage.transactions.txns_state import TxnsDiff, TxnsMachine, apply_diff, check
from tests.storage.environments import SCHEMA, Stores, commit, create, insert, read, rows


async def two(stores: Stores) -> tuple[Environment, Environment]:
    """Two processes; the timestamps in these tests are chosen by hand, above the txns upper."""
    return await stores.open("one"), await stores.open("two")


async def at(env: Environment, shard: ShardId, ts: int, number: int) -> Committed:
    """Commit one row at `ts`."""
    txn = env.begin()
    txn.write(shard, rows((number, "x")))
    result = await env.committer.commit(txn, ts=Csn(ts))
    assert isinstance(result, Committed)
    return result


async def numbers(env: Environment, shard: ShardId, ts: int) -> list[int]:
    return sorted(value[0] for value in (await read(env, shard, Csn(ts))).values())


async def test_two_processes_apply_and_tidy_at_once() -> None:
    stores = Stores()
    one, two_ = await two(stores)
    shard = await create(one)
    upper = one.cache.upper
    for n in range(20):
        await at((one, two_)[n % 2], shard, upper + 10 + n, n)
    await one.cache.durable.refresh()
    await two_.cache.durable.refresh()
    await asyncio.gather(one.txns_shard.apply(), two_.txns_shard.apply(), one.txns_shard.apply())
    await asyncio.gather(one.txns_shard.tidy(), two_.txns_shard.tidy())
    for env in (one, two_):
        await env.cache.durable.refresh()
        assert not env.cache.state.pending
        assert await numbers(env, shard, upper + 29) == list(range(20))


async def test_a_process_whose_copy_is_old_applies_nothing_twice() -> None:
    stores = Stores()
    one, two_ = await two(stores)
    shard = await create(one)
    upper = one.cache.upper
    await at(one, shard, upper + 1, 1)
    await two_.cache.durable.refresh()
    await one.txns_shard.apply()
    await one.txns_shard.tidy()
    await at(one, shard, upper + 2, 2)
    await one.txns_shard.apply()
    # Still knows the first write as pending, and nothing of the second.
    await two_.txns_shard.apply()
    await two_.txns_shard.tidy()
    assert await numbers(two_, shard, upper + 2) == [1, 2]


async def test_fill_does_not_pass_a_commit_under_way() -> None:
    stores = Stores()
    one, two_ = await two(stores)
    shard = await create(one)
    upper = one.cache.upper
    await two_.cache.durable.refresh()
    with pytest.raises(ValueError, match="not decided"):
        await two_.txns_shard.fill(shard, Csn(upper + 5))
    # Filling decides first; the commit under way at a lower CSN then cannot succeed there.
    await two_.txns_shard.advance(Csn(upper + 6))
    await two_.fill(shard, Csn(upper + 5))
    txn = one.begin()
    txn.write(shard, rows((1, "x")))
    result = await one.committer.commit(txn, ts=Csn(upper + 3))
    assert isinstance(result, UpperMismatch)
    await at(one, shard, result.least_committable, 1)
    assert await numbers(one, shard, result.least_committable) == [1]
    assert await numbers(two_, shard, result.least_committable) == [1]


async def test_fill_applies_what_is_committed_before() -> None:
    stores = Stores()
    one, two_ = await two(stores)
    shard = await create(one)
    upper = one.cache.upper
    await at(one, shard, upper + 1, 1)
    await two_.cache.durable.refresh()
    await two_.txns_shard.advance(Csn(upper + 9))
    await two_.fill(shard, Csn(upper + 8))
    handle = await two_.handles.open(shard)
    await handle.refresh()
    assert handle.state.upper == upper + 9
    assert handle.physical_snapshot(Csn(upper + 8)).rows == 1


async def test_unregistered_shards_are_complete_and_independent() -> None:
    stores = Stores()
    one, two_ = await two(stores)
    shard = await create(one)
    upper = one.cache.upper
    await at(one, shard, upper + 1, 1)
    await two_.cache.durable.refresh()
    await at(one, shard, upper + 2, 2)
    # `two_` has not seen the second write, and must not lose it.
    result = await two_.txns_shard.unregister(shard, Csn(upper + 10))
    assert isinstance(result, Committed)
    handle = two_.handles.detached(shard)
    await handle.refresh()
    assert handle.state.upper == upper + 11
    assert handle.physical_snapshot(Csn(upper + 10)).rows == 2
    with pytest.raises(UnknownShard):
        await at(one, shard, upper + 20, 3)
    assert await two_.txns_shard.unregister(shard, Csn(upper + 30)) == Committed(ts=Csn(upper + 30), shards=frozenset())
    part = await two_.parts.encode("insert", shard, rows((3, "direct")))
    assert await handle.compare_and_append([part], expected_upper=Csn(upper + 11), new_upper=Csn(upper + 40)) is None
    # Registering below what was written directly would hide that.
    low = await one.txns_shard.register(shard, Csn(upper + 35))
    assert isinstance(low, UpperMismatch)
    assert isinstance(await one.txns_shard.register(shard, Csn(upper + 50)), Committed)
    assert isinstance(await two_.txns_shard.register(shard, Csn(upper + 60)), Committed)
    await at(one, shard, upper + 70, 4)
    assert await numbers(one, shard, upper + 70) == [1, 2, 3, 4]
    await two_.cache.durable.refresh()
    assert await numbers(two_, shard, upper + 70) == [1, 2, 3, 4]


async def test_compare_and_append_says_what_the_upper_is() -> None:
    stores = Stores()
    env = await stores.open()
    shard = await create(env)
    await env.txns_shard.unregister(shard, Csn(env.cache.upper + 1))
    handle: DataShard = env.handles.detached(shard)
    await handle.refresh()
    upper = handle.state.upper
    part = await env.parts.encode("insert", shard, rows((1, "a")))
    assert await handle.compare_and_append([part], expected_upper=Csn(upper - 1), new_upper=Csn(upper + 9)) == upper
    assert await handle.compare_and_append([part], expected_upper=upper, new_upper=Csn(upper + 5)) is None
    listener = handle.listen(Csn(upper - 1))
    csn, parts = await anext(listener)
    assert (csn, [p.rows for p in parts]) == (upper + 4, [1])


def test_writes_of_a_shard_stay_in_csn_order_and_misfits_are_refused() -> None:
    machine = TxnsMachine()
    state = machine.initial()
    shard = ShardId("s" + "a" * 26)
    state = apply_diff(state, TxnsDiff(csn=Csn(10), registers=(shard,)))
    state = apply_diff(state, TxnsDiff(csn=Csn(20), writes=(Write(shard=shard, csn=Csn(20)),)))
    check(state)
    for wrong in (
        TxnsDiff(csn=Csn(20)),
        TxnsDiff(csn=Csn(30), writes=(Write(shard=shard, csn=Csn(25)),)),
        TxnsDiff(csn=Csn(30), writes=(Write(shard=ShardId("unknown"), csn=Csn(30)),)),
        TxnsDiff(registers=(shard,)),
        TxnsDiff(csn=Csn(30), unregisters=(shard,)),
        TxnsDiff(since=Csn(21)),
    ):
        with pytest.raises(ValueError, match=r".+"):
            apply_diff(state, wrong)
    assert machine.decode_state(machine.encode_state(state)) == state


async def test_files_of_a_dead_process_are_not_committed() -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    one, two_ = await two(stores)
    shard = await create(two_)
    part = await one.parts.upload("insert", shard, rows(*[(n, "x" * 100) for n in range(1000)]))
    assert await one.parts.finished(part.files) is None
    txn = two_.begin()
    await txn.write_part(shard, part)
    for _ in range(4):
        await two_.leases.keep_alive()
        clock.advance(LEASE_MS // 2)
    await two_.leases.keep_alive()
    await two_.maintenance.watch.bury_dead()
    with pytest.raises(Determinate, match="is gone"):
        await two_.committer.commit(txn, ts=Csn(two_.cache.upper + 1))


async def test_creating_a_shard_twice_is_refused() -> None:
    env = await Stores().open()
    shard = await create(env)
    txn = env.begin()
    txn.create_shard(shard, SCHEMA)
    with pytest.raises(ValueError, match="exists"):
        await commit(env, txn)


async def test_compaction_of_the_txns_shard_keeps_unapplied_work() -> None:
    stores = Stores()
    env = await stores.open()
    shard = await create(env)
    for n in range(5):
        await insert(env, shard, (n, "x"))
    await env.cache.durable.roll_up()
    await env.cache.durable.roll_up()
    again = await stores.open("again")
    assert isinstance(again.cache.durable, DurableState)
    assert len(await read(again, shard)) == 5
    assert len(again.cache.state.pending[shard]) == 6
