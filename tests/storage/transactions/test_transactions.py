"""Transactions over many shards: atomicity, row ids, own writes, conflicts, and what a restart finds."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from storage.catalog import store
from storage.catalog.model import CatalogUpdate, Column, Relation, Schema
from storage.errors import AsOfNotReadable, CatalogConflict, UnknownShard
from storage.ids import ShardId
from storage.shards.parts import PROVISIONAL_ROW_ID
from storage.shards.shard import ShardChanges
from storage.timestamps.csn import Csn
from storage.transactions.txns_shard import Committed, UpperMismatch
from tests.storage.environments import SCHEMA, Stores, commit, create, deletion, insert, read, rows

PUBLIC = 2200


def table_record(oid: int, name: str, shard: str | None = None) -> Relation:
    return Relation(
        oid=oid,
        name=name,
        schema=PUBLIC,
        owner=10,
        kind="r",
        columns=(Column(attnum=1, name="a", type_oid=20), Column(attnum=2, name="b", type_oid=25)),
        shard=shard,  # type: ignore[arg-type]
    )


async def test_create_write_and_catalog_in_one_consensus_write() -> None:
    stores = Stores()
    env = await stores.open()
    txn = env.begin()
    shard = env.new_shard_id()
    txn.create_shard(shard, SCHEMA)
    txn.write(shard, rows((1, "one"), (2, None)))
    oid = env.catalog.current().next_oid
    txn.update_catalog([CatalogUpdate(record=table_record(oid, "t", shard), diff=1)])
    ts = await env.oracle.write_ts("user")
    consensus, blob = stores.consensus.counts.copy(), stores.blob.counts.copy()
    result = await env.committer.commit(txn, ts=ts)
    assert isinstance(result, Committed)
    assert (stores.consensus.counts - consensus).total == 1
    assert (stores.blob.counts - blob).total == 0
    await env.oracle.apply_write("user", ts)
    relation = env.catalog.current().relation(PUBLIC, "t")
    assert relation is not None
    assert relation.shard == shard
    assert await env.oracle.read_ts("catalog") == ts
    assert await read(env, shard) == {0: (1, "one"), 1: (2, None)}


async def test_row_ids_follow_the_order_of_commits() -> None:
    env = await Stores().open()
    shard = await create(env)
    await insert(env, shard, (1, "a"), (2, "b"))
    await insert(env, shard, (3, "c"))
    assert await read(env, shard) == {0: (1, "a"), 1: (2, "b"), 2: (3, "c")}


async def test_delete_hides_the_row_from_its_csn_on() -> None:
    env = await Stores().open()
    shard = await create(env, (1, "a"), (2, "b"))
    before = await env.oracle.read_ts("user")
    txn = env.begin()
    txn.delete(shard, deletion((0, 1, "a")))
    txn.write(shard, rows((10, "A")))
    await commit(env, txn)
    assert await read(env, shard) == {1: (2, "b"), 2: (10, "A")}
    assert await read(env, shard, before) == {0: (1, "a"), 1: (2, "b")}
    assert (await env.reader.snapshot(shard, await env.oracle.read_ts("user"))).rows == 2


@pytest.mark.parametrize("applied", [False, True])
async def test_own_rows_can_be_deleted_before_the_commit(applied: bool) -> None:
    env = await Stores().open()
    shard = await create(env, (1, "a"))
    txn = env.begin()
    first = txn.write(shard, rows((2, "b"), (3, "c")))
    assert first == PROVISIONAL_ROW_ID
    assert [part.kind for part in txn.local_parts(shard)] == ["insert"]
    assert txn.local_parts(shard)[0].first_row_id == first
    txn.delete(shard, deletion((first + 1, 3, "c"), (0, 1, "a")))
    committed = await commit(env, txn)
    if applied:
        await env.txns_shard.apply(committed.shards)
    assert await read(env, shard) == {1: (2, "b")}


async def test_a_group_keeps_the_provisional_rows_of_its_members_apart() -> None:
    env = await Stores().open()
    shard = await create(env)
    members = []
    for number in range(3):
        txn = env.begin()
        first = txn.write(shard, rows((number, "keep"), (number, "gone")))
        txn.delete(shard, deletion((first + 1, number, "gone")))
        members.append(txn)
    leader = env.begin()
    for txn in members:
        leader.merge(txn)
    await commit(env, leader)
    assert sorted((await read(env, shard)).values()) == [(0, "keep"), (1, "keep"), (2, "keep")]


async def test_a_group_of_plain_inserts_makes_one_part() -> None:
    env = await Stores().open()
    shard = await create(env)
    leader = env.begin()
    for number in range(10):
        txn = env.begin()
        txn.write(shard, rows((number, str(number))))
        leader.merge(txn)
    await commit(env, leader)
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    assert len(snapshot.inserts) == 1
    assert len(await read(env, shard)) == 10


async def test_savepoints_undo_rows_deletes_and_definitions() -> None:
    env = await Stores().open()
    shard = await create(env, (1, "a"))
    txn = env.begin()
    txn.write(shard, rows((2, "b")))
    savepoint = txn.savepoint()
    txn.write(shard, rows((3, "c")))
    txn.delete(shard, deletion((0, 1, "a")))
    other = env.new_shard_id()
    txn.create_shard(other, SCHEMA)
    txn.rollback_to(savepoint)
    assert txn.write(shard, rows((4, "d"))) == PROVISIONAL_ROW_ID + 1
    await commit(env, txn)
    assert sorted((await read(env, shard)).values()) == [(1, "a"), (2, "b"), (4, "d")]
    with pytest.raises(UnknownShard):
        await env.reader.snapshot(other, await env.oracle.read_ts("user"))


async def test_a_retry_at_a_higher_csn_rewrites_nothing() -> None:
    stores = Stores()
    env = await stores.open()
    shard = await create(env)
    low = await env.oracle.write_ts("user")
    await insert_at(env, shard)
    txn = env.begin()
    txn.write(shard, rows(*[(n, "x" * 200) for n in range(5000)]))
    await txn.spill(force=True)
    before = stores.blob.counts.copy()
    result = await env.committer.commit(txn, ts=low)
    assert isinstance(result, UpperMismatch)
    assert result.least_committable == env.cache.upper
    again = await env.committer.commit(txn, ts=result.least_committable)
    assert isinstance(again, Committed)
    assert (stores.blob.counts - before).writes == 0
    env.oracle.abandon_write("user", low)
    assert len(await read(env, shard, again.ts)) == 5001


async def insert_at(env: object, shard: object) -> None:
    from storage.environment.environment import Environment

    assert isinstance(env, Environment)
    txn = env.begin()
    txn.write(shard, rows((0, "first")))  # type: ignore[arg-type]
    ts = await env.oracle.write_ts("user")
    assert isinstance(await env.committer.commit(txn, ts=ts), Committed)
    await env.oracle.apply_write("user", ts, wait=False)


async def test_definitions_worked_out_from_an_old_catalog_conflict() -> None:
    stores = Stores()
    env = await stores.open()
    first, second = env.begin(), env.begin()
    oid = env.catalog.current().next_oid
    first.update_catalog([CatalogUpdate(record=Schema(oid=oid, name="one", owner=10), diff=1)])
    second.update_catalog([CatalogUpdate(record=Schema(oid=oid, name="two", owner=10), diff=1)])
    await commit(env, first)
    with pytest.raises(CatalogConflict):
        await commit(env, second)
    assert env.catalog.current().schema("one") is not None
    assert env.catalog.current().schema("two") is None


async def test_definitions_of_two_processes_conflict() -> None:
    stores = Stores()
    one, two = await stores.open("one"), await stores.open("two")
    txns = [(env, env.begin()) for env in (one, two)]
    oid = one.catalog.current().next_oid
    for env, txn in txns:
        txn.update_catalog([CatalogUpdate(record=Schema(oid=oid, name=env.process, owner=10), diff=1)])
    await one.committer.commit(txns[0][1], ts=Csn(one.cache.upper + 5))
    with pytest.raises(CatalogConflict):
        await two.committer.commit(txns[1][1], ts=Csn(one.cache.upper + 10))


async def test_oids_of_dropped_objects_are_not_given_out_again() -> None:
    stores = Stores()
    env = await stores.open()
    record = Schema(oid=env.catalog.current().next_oid, name="s", owner=10)
    for diff in (1, -1):
        txn = env.begin()
        txn.update_catalog([CatalogUpdate(record=record, diff=diff)])
        await commit(env, txn)
    assert env.catalog.current().next_oid == record.oid + 1
    await env.close()
    again = await stores.open()
    assert again.catalog.current().get(record.oid) is None
    assert again.catalog.current().next_oid == record.oid + 1


async def test_catalog_versions_and_subscription() -> None:
    env = await Stores().open()
    start = env.catalog.current()
    stream = env.catalog.subscribe_at(start.csn)
    first = await anext(stream)
    assert first.snapshot is start
    commits = []
    for name in ("one", "two"):
        txn = env.begin()
        record = Schema(oid=env.catalog.current().next_oid, name=name, owner=10)
        txn.update_catalog([CatalogUpdate(record=record, diff=1)])
        commits.append((await commit(env, txn)).ts)
    assert [(await anext(stream)).csn for _ in commits] == commits
    middle = await env.catalog.snapshot_at(commits[0])
    assert middle.schema("one") is not None
    assert middle.schema("two") is None
    assert await env.catalog.snapshot_at(start.csn) is start


@pytest.mark.parametrize("is_folded", [False, True])
async def test_a_late_subscriber_of_the_catalog_misses_nothing(
    monkeypatch: pytest.MonkeyPatch, *, is_folded: bool
) -> None:
    monkeypatch.setattr(store, "KEPT_VERSIONS", 2)
    env = await Stores().open()
    stream = env.catalog.subscribe_at(env.catalog.current().csn)
    seen = (await anext(stream)).snapshot
    commits = []
    record = Schema(oid=seen.next_oid, name="s", owner=10)
    for round_ in range(9):
        txn = env.begin()
        txn.update_catalog([CatalogUpdate(record=record, diff=-1 if round_ % 2 else 1)])
        commits.append((await commit(env, txn)).ts)
    if is_folded:

        async def folded(shard: ShardId, after: Csn, until: Csn) -> ShardChanges:
            raise AsOfNotReadable(f"{shard} is folded")

        monkeypatch.setattr(env.reader, "changes", folded)
    took = []
    while seen.csn < commits[-1]:
        delta = await anext(stream)
        seen = seen.apply(delta.updates, delta.csn)
        assert {r.oid: r for r in seen.all()} == {r.oid: r for r in delta.snapshot.all()}
        assert delta.snapshot.next_oid == record.oid + 1
        took.append(delta.csn)
    assert took == (commits[-3:] if is_folded else commits)
    assert seen.schema("s") is not None


async def test_a_dropped_shard_is_readable_before_and_unknown_after() -> None:
    env = await Stores().open()
    shard = await create(env, (1, "a"))
    before = await env.oracle.read_ts("user")
    writer = env.begin()
    writer.write(shard, rows((2, "b")))
    txn = env.begin()
    txn.forget_shard(shard)
    await commit(env, txn)
    assert await read(env, shard, before) == {0: (1, "a")}
    with pytest.raises(UnknownShard):
        await read(env, shard)
    with pytest.raises(UnknownShard):
        await commit(env, writer)


async def test_new_columns_and_old_parts() -> None:
    env = await Stores().open()
    shard = await create(env, (1, "a"))
    wide = SCHEMA.append(pa.field("c3", pa.float64()))
    txn = env.begin()
    txn.alter_schema(shard, wide)
    txn.write(shard, pa.table({"c1": [2], "c2": ["b"], "c3": [2.5]}, schema=wide))
    await commit(env, txn)
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    assert snapshot.schema.equals(wide)
    assert [part.schema_version for part in snapshot.inserts] == [0, 1]
    assert [part.columns for part in snapshot.inserts] == [("c1", "c2"), ("c1", "c2", "c3")]
    values = await read(env, shard, columns=("c1", "c2", "c3"))
    assert values == {0: (1, "a", None), 1: (2, "b", 2.5)}


async def test_validation_sees_a_write_between() -> None:
    env = await Stores().open()
    shard, other = await create(env), await create(env)
    read_ts = await env.oracle.read_ts("user")
    first, second = env.begin(), env.begin()
    first.write(shard, rows((1, "first")))
    second.write(shard, rows((2, "second")))
    third = env.begin()
    third.write(other, rows((3, "elsewhere")))
    validated = Csn(read_ts + 1)
    await commit(env, first)
    at = Csn(env.cache.upper + 1)
    assert isinstance(await env.committer.commit(second, ts=at, validated=validated), UpperMismatch)
    assert isinstance(await env.committer.commit(third, ts=at, validated=validated), Committed)
    changes = await env.reader.changes(shard, read_ts, Csn(env.cache.upper - 1))
    assert [part.rows for part in changes.inserts] == [1]
    assert (await env.reader.changes(other, at, at)).is_empty


@pytest.mark.parametrize("clean", [False, True])
async def test_a_restart_finds_everything(clean: bool) -> None:
    stores = Stores()
    env = await stores.open()
    shard = await create(env, (1, "a"))
    other = await create(env)
    txn = env.begin()
    txn.write(shard, rows((2, "b")))
    txn.write(other, rows((3, "c")))
    txn.delete(shard, deletion((0, 1, "a")))
    await commit(env, txn)
    if clean:
        await env.close()
    again = await stores.open("again")
    assert bool(again.cache.state.pending) is not clean
    assert await read(again, shard) == {1: (2, "b")}
    assert await read(again, other) == {0: (3, "c")}
    await again.applier.apply_all()
    await again.txns_shard.tidy()
    assert not again.cache.state.pending
    assert await read(again, shard) == {1: (2, "b")}
    third = await stores.open("third")
    assert await read(third, shard) == {1: (2, "b")}


async def test_two_processes_see_each_others_commits() -> None:
    stores = Stores()
    one, two = await stores.open("one", background=True), await stores.open("two", background=True)
    shard = await create(one, (1, "a"))
    at = await one.oracle.read_ts("user")
    assert await read(two, shard, at) == {0: (1, "a")}
    txn = two.begin()
    txn.write(shard, rows((2, "b")))
    result = await two.committer.commit(txn, ts=Csn(at + 100))
    assert isinstance(result, Committed)
    assert await read(one, shard, result.ts) == {0: (1, "a"), 1: (2, "b")}
    await one.close()
    await two.close()


async def test_the_txns_shard_holds_only_the_work_in_flight() -> None:
    stores = Stores()
    env = await stores.open()
    shard = await create(env)
    for number in range(400):
        committed = await insert(env, shard, (number, "x"))
        await env.txns_shard.apply(committed.shards)
        if number % 50 == 0:
            await env.applier.apply_all()
    assert sum(len(writes) for writes in env.cache.state.pending.values()) <= 2
    await env.applier.apply_all()
    diffs = await stores.consensus.inner.scan("txns", 1)  # type: ignore[arg-type]
    assert len(diffs) < 320
    again = await stores.open("again")
    assert len(await read(again, shard)) == 400


async def test_a_restart_applies_what_a_dead_process_has_committed() -> None:
    stores = Stores()
    dead = await stores.open()
    shard = await create(dead, (1, "a"))
    assert shard in dead.cache.state.pending
    env = await stores.open(background=True)
    for _ in range(200):
        await asyncio.sleep(0.01)
        if (await env.handles.open(shard)).state.upper:
            break
    await env.leases.keep_alive()
    assert shard not in env.cache.state.pending
    assert (await env.handles.open(shard)).state.parts
    await env.close()
