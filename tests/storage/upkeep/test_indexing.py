"""Durable key runs: written with their parts, kept by compaction, added where they lack, gone with their parts, and
never trusted when they are not what was written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from storage.doubles.clock import ManualClock
from storage.environment.environment import Environment
from storage.errors import NewerFormat
from storage.ids import ShardId
from storage.offline import fsck
from storage.shards.indexes import runs
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.durable_runs import IndexRunMaker, durable_run
from storage.shards.part_store import TOMBSTONE
from storage.shards.parts import Part, RunRef
from storage.shards.shard import ShardSnapshot
from storage.shards.shard_state import SetRuns, ShardDiff
from tests.storage.environments import SCHEMA, Stores, commit, create, deletion
from tests.storage.offline.test_admin import inspector
from tests.storage.shards.indexes.reading.tables import BY_BOTH, BY_C1, COLUMNS, answer, write_file
from tests.storage.upkeep.test_maintenance import settle

TEXT = "x" * 60


def table(start: int, stop: int) -> pa.Table:
    """Rows that are too large to go inline."""
    return pa.table({"c1": range(start, stop), "c2": [f"{n} {TEXT}" for n in range(start, stop)]}, schema=SCHEMA)


def indexed(env: Environment, *indexes: IndexDefinition) -> None:
    env.keys.provide(lambda shard: indexes)


async def write(env: Environment, shard: ShardId, start: int, stop: int) -> None:
    txn = env.begin()
    txn.write(shard, table(start, stop))
    await commit(env, txn)


async def now(env: Environment, shard: ShardId) -> ShardSnapshot:
    return await env.reader.snapshot(shard, await env.oracle.read_ts("user"))


async def found(env: Environment, shard: ShardId, *keys: int) -> list[int]:
    """Those of `keys` that are there, each read whole."""
    result = await env.keys.lookup(await now(env, shard), BY_C1, [(key,) for key in keys], COLUMNS)
    assert all(text == f"{key} {TEXT}" for _, (key, text) in answer(result))
    return [key for _, (key, _) in answer(result)]


async def stored(stores: Stores, suffix: str = "") -> set[str]:
    return {entry.key async for entry in stores.blob.list("parts/") if entry.key.endswith(suffix)}


def refs(parts: Sequence[Part], index: IndexDefinition = BY_C1) -> list[RunRef]:
    return [ref for part in parts if (ref := durable_run(part, index)) is not None]


async def test_a_commit_writes_the_runs_of_its_files_and_other_processes_read_them() -> None:
    stores = Stores()
    env = await stores.open("one")
    indexed(env, BY_C1, BY_BOTH)
    shard = await create(env)
    await write(env, shard, 0, 3000)
    await write(env, shard, 3000, 6000)
    txn = env.begin()
    txn.delete(shard, deletion((7, 7, f"7 {TEXT}")))
    await commit(env, txn)
    parts = (await now(env, shard)).inserts
    assert len(refs(parts)) == len(refs(parts, BY_BOTH)) == len(parts) == 2
    assert len(await stored(stores, ".keys")) == 4
    await env.close()

    other = await stores.open("two")
    assert await found(other, shard, 5, 7, 5999, 6000, 2) == [5, 5999, 2]
    assert (other.keys.sources.runs.made, other.keys.sources.runs.read) == (0, 2)
    report = await fsck.fsck(inspector(stores))
    assert (report.problems, report.orphans) == ((), ())
    await other.close()


async def test_a_key_that_is_not_there_costs_the_filters_alone() -> None:
    stores = Stores()
    env = await stores.open("one")
    indexed(env, BY_C1)
    shard = await create(env)
    # Every part spans every key.
    for start in range(4):
        txn = env.begin()
        txn.write(shard, pa.table({"c1": range(start, 12_000, 4), "c2": [TEXT] * 3000}, schema=SCHEMA))
        await commit(env, txn)
    await env.close()
    other = await stores.open("two")
    parts = await now(other, shard)
    before = stores.blob.counts.copy()
    result = await other.keys.lookup(parts, BY_C1, [(6002,)], COLUMNS)
    assert answer(result)[0][1][0] == 6002
    # Four filters, one page of one run, the footer and one row group of one file; and here, where everything is
    # validated, the key column of its part.
    cost = stores.blob.counts - before
    assert (cost["get"], other.keys.sources.runs.read, other.keys.sources.rows.loaded) == (4 + 1 + 2 + 1, 1, 1)
    before = stores.blob.counts.copy()
    assert len((await other.keys.lookup(parts, BY_C1, [(99_999,), (6001,)], ())).row_ids) == 1
    assert other.keys.sources.runs.read == 2
    await other.close()


async def test_a_transaction_promises_its_runs_with_its_parts() -> None:
    """A run that is still being uploaded is a promised file like the part's own."""
    stores = Stores()
    env = await stores.open()
    indexed(env, BY_C1)
    shard = await create(env)
    release = asyncio.Event()
    put = stores.blob.inner.put_if_absent

    async def slow(key: str, data: bytes) -> bool:
        if key.endswith(".keys"):
            await release.wait()
        return await put(key, data)

    stores.blob.inner.put_if_absent = slow  # type: ignore[method-assign]
    txn = env.begin()
    txn.write(shard, table(0, 3000))
    committing = asyncio.ensure_future(commit(env, txn))
    while not env.cache.state.staged:
        await env.cache.changed()
    (record,) = env.cache.state.staged.values()
    keys = sorted(part.key.rpartition(".")[2] for part in record.promised)
    # The part's own upload may have ended by now.
    assert keys in (["keys"], ["keys", "parquet"])
    assert not committing.done()
    release.set()
    await committing
    assert await found(env, shard, 42) == [42]
    await env.close()


async def test_a_prevented_run_aborts_its_transaction() -> None:
    stores = Stores()
    env = await stores.open()
    indexed(env, BY_C1)
    shard = await create(env)
    put = stores.blob.inner.put_if_absent
    prevented: list[str] = []

    async def beaten(key: str, data: bytes) -> bool:
        if key.endswith(".keys") and not prevented:
            prevented.append(key)
            await put(key, TOMBSTONE)
        return await put(key, data)

    stores.blob.inner.put_if_absent = beaten  # type: ignore[method-assign]
    await write(env, shard, 0, 3000)
    # The second attempt, under other keys, is what committed.
    (ref,) = refs((await now(env, shard)).inserts)
    assert prevented
    assert ref.key not in prevented
    assert await found(env, shard, 42) == [42]
    await env.close()


async def test_compaction_writes_runs_and_the_old_ones_go_with_their_parts() -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    env = await stores.open()
    indexed(env, BY_C1)
    shard = await create(env)
    for start in range(0, 16 * 1000, 1000):
        await write(env, shard, start, start + 1000)
    txn = env.begin()
    txn.delete(shard, deletion(*[(n, n, f"{n} {TEXT}") for n in range(0, 16_000, 5)]))
    await commit(env, txn)
    before = await stored(stores)
    assert len(before) >= 32
    await settle(env, clock, shard)
    parts = (await now(env, shard)).inserts
    assert len(refs(parts)) == len(parts) == 1
    assert await found(env, shard, 4, 5, 15_999) == [4, 15_999]
    await settle(env, clock, shard)
    left = await stored(stores)
    assert not before & left
    assert left == {key for part in parts for key in part.files}
    await env.close()


async def test_files_without_runs_get_them_in_the_background() -> None:
    stores = Stores()
    env = await stores.open()
    shard = await create(env)
    await write(env, shard, 0, 3000)
    await write_file(env, shard, table(3000, 6000))
    await env.applier.apply_all()
    assert not env.maintenance.indexer.is_due(shard), "nobody has said what indexes there are"
    indexed(env, BY_C1)
    assert env.maintenance.indexer.is_due(shard)
    await env.maintenance.run({shard})
    parts = (await now(env, shard)).inserts
    assert len(refs(parts)) == 2
    assert not env.maintenance.indexer.is_due(shard)
    assert env.parts.in_flight == set()
    again = await stores.open("again")
    assert await found(again, shard, 0, 5999) == [0, 5999]
    assert again.keys.sources.runs.made == 0

    # An index that is dropped, and one that is defined anew: the old runs are garbage.
    before = await stored(stores, ".keys")
    redefined = IndexDefinition(id=BY_C1.id, columns=BY_C1.columns, ordered=False)
    indexed(env, redefined, BY_BOTH)
    assert await env.maintenance.indexer.index(shard) == 2
    handle = await env.handles.open(shard)
    assert set(handle.state.garbage) == before
    assert await found(env, shard, 0, 5999) == [0, 5999]
    indexed(env)
    assert await env.maintenance.indexer.index(shard) == 2
    assert all(not part.runs for part in handle.state.parts.values())
    await again.close()
    await env.close()


async def test_a_run_that_is_swapped_in_too_late_is_an_orphan() -> None:
    """Another process has compacted the part meanwhile."""
    stores = Stores()
    env = await stores.open()
    shard = await create(env)
    await write(env, shard, 0, 3000)
    await env.applier.apply_all()
    indexed(env, BY_C1)
    add_file = env.parts.add_file

    async def slow(key: str, data: bytes) -> None:
        await add_file(key, data)
        await env.maintenance.orphans._fence(shard)

    env.parts.add_file = slow  # type: ignore[method-assign]
    assert await env.maintenance.indexer.index(shard) == 0
    env.parts.add_file = add_file  # type: ignore[method-assign]
    assert len(await stored(stores, ".keys")) == 1
    assert await env.maintenance.orphans.collect() == 1
    assert len(await stored(stores, ".keys")) == 0
    assert await found(env, shard, 3) == [3]
    await env.close()


def another_run(data: bytes) -> bytes:
    """A sound run, of the same index, of another part."""
    index = BY_C1
    part = Part(kind="insert", rows=3000, bytes=5, stats={}, key="parts/x/other.parquet")
    return IndexRunMaker(index).make(part, table(1, 3001), "k")[1]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (None, "not in the blob store"),
        (lambda data: data[:-8], "bytes, expected"),
        (lambda data: data[:40_000] + bytes([data[40_000] ^ 1]) + data[40_001:], "checksum"),
        (lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:], "checksum"),
        (lambda data: TOMBSTONE.ljust(len(data)), "no key run"),
        (lambda data: data[:8] + bytes([9]) + data[9:], "upgrade Tidegate"),
        (another_run, "another part"),
    ],
)
async def test_a_run_that_is_not_what_was_written_is_noticed(
    damage: Callable[[bytes], bytes] | None, says: str
) -> None:
    stores = Stores()
    env = await stores.open("one")
    indexed(env, BY_C1)
    shard = await create(env)
    await write(env, shard, 0, 3000)
    (ref,) = refs((await now(env, shard)).inserts)
    await env.close()
    data = await stores.blob.get(ref.key)
    assert data is not None
    await stores.blob.delete(ref.key)
    if damage is not None:
        await stores.blob.put(ref.key, damage(data))
    report = await fsck.fsck(inspector(stores))
    (problem,) = report.problems
    assert "key run of index 1" in problem.where
    assert says in problem.what
    # The answers are right all the same, for keys that are there and others.
    other = await stores.open("two")
    assert await found(other, shard, 5, 2999, 3000) == [5, 2999]
    assert await found(other, shard, *range(0, 6000, 3)) == [*range(0, 3000, 3)]
    assert other.keys.sources.runs.made == 1
    assert other.keys.sources.runs.refused >= 1
    await other.close()


async def test_a_run_of_another_state_of_the_part_is_noticed() -> None:
    """The record names another run than the sound one that is at its key: a stale one."""
    stores = Stores()
    env = await stores.open("one")
    indexed(env, BY_C1)
    shard = await create(env)
    await write(env, shard, 0, 3000)
    (part,) = (await now(env, shard)).inserts
    (ref,) = refs([part])
    # Made for the same part and definition, of rows that it does not have.
    stale = runs.build(BY_C1, table(1, 3001).select(["c1"]), runs.part_tag(part))
    await stores.blob.put(ref.key, stale)
    await env.close()
    report = await fsck.fsck(inspector(stores))
    assert [problem.what for problem in report.problems] == [f"key run {ref.key} is not the one that its part names"]
    other = await stores.open("two")
    assert await found(other, shard, 0, 3000) == [0]
    assert other.keys.sources.runs.refused >= 1
    await other.close()


async def test_what_names_runs_is_refused_by_servers_that_do_not_know_them() -> None:
    stores = Stores()
    env = await stores.open("one")
    shard = await create(env)
    await write(env, shard, 0, 3000)
    await env.applier.apply_all()
    before = await stores.open("before")
    before.formats.known = 1
    assert await found(before, shard, 9) == [9]
    indexed(env, BY_C1)
    assert await env.maintenance.indexer.index(shard) == 1
    with pytest.raises(NewerFormat, match=f"shards/{shard} has format 2.*upgrade Tidegate"):
        await (await before.handles.open(shard)).refresh()
    await before.close()
    await env.close()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"filter": b"\0" * 64}, "its part has another filter"), ({"low": 1}, "its part says other bounds")],
)
async def test_what_a_part_says_of_its_run_is_compared_with_the_run(wrong: dict[str, Any], says: str) -> None:
    """A filter or bounds that leave keys out would hide rows; rebuilding mends that too."""
    stores = Stores()
    env = await stores.open("one")
    indexed(env, BY_C1)
    shard = await create(env)
    txn = env.begin()
    txn.write(shard, table(0, 1500))
    await commit(env, txn)
    await env.applier.apply_all()
    handle = await env.handles.open(shard)
    (part,) = handle.state.parts.values()
    (ref,) = part.runs.values()
    assert ref.filter is not None
    await handle.update(
        lambda state: ShardDiff((SetRuns(part=part.id, runs={BY_C1.id: msgspec.structs.replace(ref, **wrong)}),))
    )
    report = await fsck.fsck(inspector(stores))
    assert [problem.what for problem in report.problems] == [says]
    assert await env.maintenance.indexer.rebuild(shard, {BY_C1.id}) == 1
    assert (await fsck.fsck(inspector(stores))).problems == ()
    assert await found(env, shard, 5, 1499, 1500) == [5, 1499]
    await env.close()


async def test_rebuilding_makes_runs_from_the_parts_alone() -> None:
    stores = Stores()
    env = await stores.open("one")
    indexed(env, BY_C1, BY_BOTH)
    shard = await create(env)
    await write(env, shard, 0, 3000)
    await write(env, shard, 3000, 6000)
    await env.applier.apply_all()
    before = await stored(stores, ".keys")
    made = env.keys.sources.runs.made
    assert await env.maintenance.indexer.rebuild(shard, {BY_C1.id}) == 2
    assert env.keys.sources.runs.made == made + 2
    parts = (await now(env, shard)).inserts
    assert len({ref.key for ref in refs(parts)} - before) == 2
    assert {ref.key for ref in refs(parts, BY_BOTH)} <= before
    assert await env.maintenance.indexer.rebuild(shard, {99}) == 0
    assert await found(env, shard, 5, 5999, 6000) == [5, 5999]
    assert (await fsck.fsck(inspector(stores))).problems == ()
    await env.close()
