"""The inspector, the check and the export, on sound, live and damaged environments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from storage.catalog.model import CatalogUpdate, Relation
from storage.doubles.clock import ManualClock, SeededRandomness
from storage.durable.state import FORMAT_VERSION
from storage.environment.environment import Environment
from storage.environment.identity import ENVIRONMENT_KEY, MARKER_KEY
from storage.errors import CorruptPart, CorruptState, Determinate, ForeignEnvironment, MissingBlob, NewerFormat
from storage.ids import ShardId
from storage.offline import admin, fsck
from storage.offline.admin import Inspector
from storage.offline.export import InspectorReader, clone_shard, export_shard
from storage.shards.part_store import TOMBSTONE
from storage.stores.consensus import FIRST_SEQNO, SeqNo, VersionedData
from tests.storage.environments import Stores, commit, create, deletion, insert, read, rows


def inspector(stores: Stores) -> Inspector:
    return Inspector(blob=stores.blob, consensus=stores.consensus, clock=stores.clock, random=SeededRandomness(99))


async def populated(stores: Stores) -> tuple[Environment, ShardId]:
    """An environment with a file, inline parts, deletions, and unapplied work."""
    env = await stores.open()
    shard = await create(env, (1, "a"))
    txn = env.begin()
    txn.write(shard, rows(*[(n, "x" * 100) for n in range(2000)]))
    await txn.spill(force=True)
    await commit(env, txn)
    await env.applier.apply_all()
    txn = env.begin()
    txn.delete(shard, deletion((0, 1, "a"), (5, 4, "x" * 100)))
    await commit(env, txn)
    await insert(env, shard, (7, "late"))
    return env, shard


async def test_overview_counts_what_is_there_and_writes_nothing() -> None:
    stores = Stores()
    env, shard = await populated(stores)
    before = stores.consensus.counts.copy()
    seen = await inspector(stores).overview()
    assert (stores.consensus.counts - before).writes == 0
    assert seen.registered == 2
    (item,) = [s for s in seen.shards if s.shard == shard]
    assert (item.rows, item.files, item.inline_parts, item.delete_parts) == (2000, 1, 3, 1)
    assert item.unapplied_writes == 2
    assert item.physical_upper < item.logical_upper == env.cache.upper
    assert [usage.prefix for usage in seen.blobs] == ["parts/"]
    text = admin.render(seen, stores.clock.now_ms(), {shard: "public.t"})
    for wanted in (shard, "public.t", env.process, seen.id, "2 writes not retracted"):
        assert wanted in text


async def test_a_sound_environment_is_clean_and_orphans_are_listed() -> None:
    stores = Stores()
    env, shard = await populated(stores)
    await env.close()
    stores_parts = [entry.key async for entry in stores.blob.list("parts/")]
    report = await fsck.fsck(inspector(stores))
    assert report.problems == ()
    assert report.orphans == ()
    assert report.parts >= 4
    await stores.blob.put(f"parts/{shard}/gone-aaaa.parquet", b"left over")
    report = await fsck.fsck(inspector(stores))
    assert report.problems == ()
    assert report.orphans == (f"parts/{shard}/gone-aaaa.parquet",)
    assert len(stores_parts) == 1


async def only_file(stores: Stores) -> str:
    (key,) = [entry.key async for entry in stores.blob.list("parts/")]
    return key


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda data: data[:-5], "bytes, expected"),
        (lambda data: data[:100] + bytes([data[100] ^ 4]) + data[101:], "checksum"),
        (lambda data: TOMBSTONE, "prevented"),
        (None, "not in the blob store"),
    ],
)
async def test_damaged_files_are_found_and_named(damage: Callable[[bytes], bytes] | None, says: str) -> None:
    stores = Stores()
    env, shard = await populated(stores)
    key = await only_file(stores)
    data = await stores.blob.get(key)
    assert data is not None
    await stores.blob.delete(key)
    if damage is not None:
        await stores.blob.put(key, damage(data))
    report = await fsck.fsck(inspector(stores))
    (problem,) = report.problems
    assert shard in problem.where
    assert says in problem.what
    assert key in problem.what
    assert "1 problems" in fsck.render(report)
    with pytest.raises((CorruptPart, MissingBlob), match=key):
        await read(env, shard)


async def test_a_damaged_state_is_found_and_refused() -> None:
    stores = Stores()
    _, shard = await populated(stores)
    key = f"shards/{shard}"
    inner = stores.consensus.inner
    (first, *_) = await inner.scan(key, 1)  # type: ignore[arg-type]
    damaged = VersionedData(seqno=first.seqno, data=first.data[:-1] + b"?")
    inner._diffs[key][0] = damaged  # type: ignore[attr-defined]
    report = await fsck.fsck(inspector(stores))
    assert any("checksum" in problem.what for problem in report.problems)
    again = await stores.open()
    with pytest.raises(CorruptState, match=key):
        await read(again, shard)


async def test_a_table_without_its_shard_is_found() -> None:
    stores = Stores()
    env = await stores.open()
    txn = env.begin()
    lost = env.new_shard_id()
    record = Relation(
        oid=env.catalog.current().next_oid, name="lost", schema=2200, owner=10, kind="r", columns=(), shard=lost
    )
    txn.update_catalog([CatalogUpdate(record=record, diff=1)])
    await commit(env, txn)
    report = await fsck.fsck(inspector(stores))
    assert [problem.where for problem in report.problems] == ["table lost"]


async def test_an_empty_store_is_no_environment() -> None:
    with pytest.raises(ForeignEnvironment):
        await inspector(Stores()).overview()


async def test_half_an_environment_is_refused() -> None:
    stores = Stores()
    await stores.open()
    diffs = stores.consensus.inner._diffs  # type: ignore[attr-defined]
    del diffs["environment"]
    with pytest.raises(ForeignEnvironment, match="half an environment"):
        await stores.open()


async def test_the_blob_store_of_another_environment_is_refused() -> None:
    one, other = Stores(), Stores()
    for stores in (one, other):
        env, _ = await populated(stores)
        await env.close()
    emptied = Stores()
    emptied.consensus = one.consensus
    with pytest.raises(ForeignEnvironment, match="emptied"):
        await emptied.open()
    report = await fsck.fsck(inspector(emptied))
    assert "environment" in [problem.where for problem in report.problems]
    # Equal seeds give equal ids.
    await other.blob.put(MARKER_KEY, b'{"product": "tidegate", "id": "another"}')
    emptied.blob = other.blob
    with pytest.raises(ForeignEnvironment, match="belong together"):
        await emptied.open()


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"format": FORMAT_VERSION + 1}, NewerFormat, "upgrade Tidegate"),
        ({"product": "something"}, ForeignEnvironment, "belongs to 'something'"),
    ],
)
async def test_an_environment_of_a_newer_version_or_another_product_is_refused(
    change: dict[str, Any], error: type[Exception], says: str
) -> None:
    stores = Stores()
    env, _ = await populated(stores)
    await env.close()
    head = await stores.consensus.head(ENVIRONMENT_KEY)
    assert head is not None
    changed = msgspec.json.encode({**msgspec.json.decode(head.data), **change})
    new = VersionedData(seqno=SeqNo(head.seqno + 1), data=changed)
    assert await stores.consensus.compare_and_set(ENVIRONMENT_KEY, head.seqno, new)
    with pytest.raises(error, match=says):
        await stores.open()
    with pytest.raises(error, match=says):
        await fsck.fsck(inspector(stores))
    with pytest.raises(error, match=says):
        await inspector(stores).overview()


async def test_data_without_their_consensus_store_are_refused_and_left_alone() -> None:
    stores = Stores()
    env, _ = await populated(stores)
    await env.close()
    left = Stores()
    left.blob = stores.blob
    keys = [entry.key async for entry in left.blob.list()]
    with pytest.raises(ForeignEnvironment, match="the consensus store is empty"):
        await left.open()
    assert [entry.key async for entry in left.blob.list()] == keys


async def test_an_environment_without_a_marker_gets_one() -> None:
    stores = Stores()
    env, shard = await populated(stores)
    await env.close()
    # As the first versions made them.
    await stores.blob.delete(MARKER_KEY)
    record = await inspector(stores).record()
    data = msgspec.json.encode(msgspec.structs.replace(record, marked=False))
    assert await stores.consensus.compare_and_set(
        ENVIRONMENT_KEY, FIRST_SEQNO, VersionedData(seqno=SeqNo(FIRST_SEQNO + 1), data=data)
    )
    again = await stores.open()
    assert len(await read(again, shard)) > 0
    assert await stores.blob.get(MARKER_KEY) is not None


async def test_lost_files_of_an_environment_are_noticed_on_reading() -> None:
    stores = Stores()
    env, shard = await populated(stores)
    await env.close()
    for key in [entry.key async for entry in stores.blob.list("parts/")]:
        await stores.blob.delete(key)
    again = await stores.open()
    with pytest.raises(MissingBlob):
        await read(again, shard)


async def test_what_an_export_reads_stays_however_long_it_takes() -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    env, shard = await populated(stores)
    await env.applier.apply_all()
    reader = InspectorReader(inspector(stores))
    at = await reader.newest()
    async with await reader.hold([shard], at):
        snapshot = await reader.snapshot(shard, at)
        for number in range(40):
            await insert(env, shard, (number, "later"))
        txn = env.begin()
        txn.delete(shard, deletion((10, 9, "x" * 100)))
        await commit(env, txn)
        for _ in range(60):
            clock.advance(20_000)
            for _ in range(50):
                await asyncio.sleep(0)
            await env.applier.apply_all()
            await env.txns_shard.advance_to_now(env.oracle)
            await env.leases.keep_alive()
            await env.maintenance.compactor.compact(shard)
            await env.maintenance.garbage.collect()
        for part in (*snapshot.inserts, *snapshot.deletes):
            await reader.read_part(part)
        assert (await env.handles.open(shard)).state.since <= at
    await (await env.handles.open(shard)).refresh()
    assert not (await env.handles.open(shard)).state.holds


async def test_export_and_clone_at_a_csn(tmp_path: Path) -> None:
    stores = Stores()
    env, shard = await populated(stores)
    at = await env.oracle.read_ts("user")
    expected = sorted((await read(env, shard, at)).values())
    txn = env.begin()
    txn.delete(shard, deletion((1, 0, "x" * 100)))
    await commit(env, txn)
    count = await export_shard(env.leases, env.reader, shard, at, tmp_path / "out", {"c1": "number", "c2": "text"})
    table = pq.read_table(tmp_path / "out")
    assert table.column_names == ["number", "text"]
    found = sorted((row["number"], row["text"]) for row in table.to_pylist())
    assert found == expected
    assert count == len(expected)
    with pytest.raises(Determinate, match="not empty"):
        await export_shard(env.leases, env.reader, shard, at, tmp_path / "out")
    new, committed = await clone_shard(env, shard, at)
    assert sorted((await read(env, new, committed.ts)).values()) == expected
