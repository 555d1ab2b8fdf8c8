"""Transactions larger than memory should be: spilling, engine-written files, group commits that repeat."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.clock import SystemClock
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.environment import Environment
from storage.environment.opening import open_on_stores
from storage.errors import CorruptPart, MissingBlob
from storage.ids import ShardId
from storage.shards.parts import PROVISIONAL_ROW_ID, ROW_ID, UploadedPart, part_may_match
from storage.stores.blob_local import LocalBlob
from storage.timestamps.csn import Csn
from storage.transactions import txn as txn_module
from storage.transactions.txns_shard import Committed, UpperMismatch
from tests.storage.environments import SCHEMA, Stores, commit, create, deletion, read, rows


async def test_a_spilling_transaction_runs_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_module, "SPILL_BUDGET_BYTES", 200_000)
    monkeypatch.setattr(txn_module, "SPILL_FILE_BYTES", 100_000)
    env = await Stores().open()
    shard, other = await create(env), await create(env)
    txn = env.begin()
    most = 0
    for batch in range(60):
        txn.write(shard, rows(*[(batch * 100 + n, "x" * 400) for n in range(100)]))
        txn.write(other, rows((batch, "small")))
        most = max(most, txn.buffered_bytes)
        await txn.spill()
    assert most < 300_000
    assert txn.buffered_bytes <= 200_000
    await commit(env, txn)
    contents = await read(env, shard)
    assert [contents[n][0] for n in range(6000)] == list(range(6000))
    assert len(await read(env, other)) == 60
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    assert all(part.bytes < 100_000 for part in snapshot.inserts)


async def test_files_of_narrow_rows_have_not_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_module, "SPILL_FILE_ROWS", 250)
    env = await Stores().open()
    shard = await create(env)
    txn = env.begin()
    for batch in range(20):
        txn.write(shard, rows(*[(batch * 100 + n, "") for n in range(100)]))
        assert txn.spill_due == (batch % 3 == 2)
        await txn.spill()
    await commit(env, txn)
    assert sorted(await read(env, shard)) == list(range(2000))
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    assert max(part.rows for part in snapshot.inserts) <= 250


async def test_rows_of_spilled_files_can_be_deleted_by_their_own_transaction() -> None:
    env = await Stores().open()
    shard = await create(env, (0, "old"))
    txn = env.begin()
    first = txn.write(shard, rows(*[(n, "x" * 100) for n in range(1000)]))
    await txn.spill(force=True)
    txn.write(shard, rows((5000, "after")))
    txn.delete(shard, deletion(*[(first + n, n, "x" * 100) for n in range(0, 1000, 2)], (0, 0, "old")))
    await txn.spill(force=True)
    assert txn.local_parts(shard)[0].first_row_id == PROVISIONAL_ROW_ID
    await commit(env, txn)
    found = sorted(value for value, _ in (await read(env, shard)).values())
    assert found == [*range(1, 1000, 2), 5000]


async def local(tmp_path: Path) -> tuple[Environment, ShardId]:
    """An environment whose files an engine can write to."""
    folder = tmp_path / "blob"
    await asyncio.to_thread(folder.mkdir)
    env = await open_on_stores(
        blob=LocalBlob(folder),
        consensus=MemoryConsensus(),
        clock=SystemClock(),
        random=SeededRandomness(1),
        process="test",
        background=False,
        validate=True,
    )
    return env, await create(env)


def engine_writes(env: Environment, shard: ShardId, table: pa.Table) -> UploadedPart:
    """What an engine does: write Parquet to the file behind a key."""
    key = env.parts.new_key(shard)
    path = env.blob.uri(key).removeprefix("file://")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return UploadedPart(key=key, rows=table.num_rows)


async def test_files_that_engines_wrote_get_row_ids_and_statistics(tmp_path: Path) -> None:
    env, shard = await local(tmp_path)
    txn = env.begin()
    txn.write(shard, rows((1, "before")))
    part = await txn.write_part(shard, engine_writes(env, shard, rows(*[(n, "file") for n in range(100, 200)])))
    txn.write(shard, rows((2, "after")))
    assert part.first_row_id == PROVISIONAL_ROW_ID + 1
    gone = engine_writes(env, shard, deletion((part.first_row_id + 7, 107, "file")))
    await txn.delete_part(shard, gone)
    await commit(env, txn)
    contents = await read(env, shard)
    assert len(contents) == 101
    assert (107, "file") not in contents.values()
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    (stored,) = [p for p in snapshot.inserts if p.key is not None]
    assert not part_may_match(stored, "c1", "=", 99)
    assert part_may_match(stored, "c1", "=", 150)
    assert snapshot.deletes[0].row_ids
    ids = await env.reader.read_part(snapshot.deletes[0], [ROW_ID])
    assert ids.column(0).to_pylist() == [stored.first_row_id + 7]


async def test_files_that_are_missing_or_not_as_announced_are_refused(tmp_path: Path) -> None:
    env, shard = await local(tmp_path)
    txn = env.begin()
    with pytest.raises(MissingBlob):
        await txn.write_part(shard, UploadedPart(key=env.parts.new_key(shard)))
    wrong = engine_writes(env, shard, rows((1, "a")))
    with pytest.raises(CorruptPart, match="announced"):
        await txn.write_part(shard, msgspec.structs.replace(wrong, rows=2))
    key = env.parts.new_key(shard)
    await env.blob.put(key, b"PAR1 but not really PAR1")
    with pytest.raises(CorruptPart):
        await txn.write_part(shard, UploadedPart(key=key))


async def test_a_group_that_is_merged_again_uploads_nothing_again() -> None:
    stores = Stores()
    env = await stores.open()
    shard = await create(env)
    members = []
    for number in range(3):
        txn = env.begin()
        txn.write(shard, rows(*[(number, "x" * 100) for _ in range(1500)]))
        members.append(txn)
    low = await env.oracle.write_ts("user")
    await env.txns_shard.advance(Csn(low + 1))
    before = stores.blob.counts.copy()
    for ts, expected in ((low, UpperMismatch), (Csn(low + 1), Committed)):
        leader = env.begin()
        for txn in members:
            leader.merge(txn)
        assert isinstance(await env.committer.commit(leader, ts=ts), expected)
    assert (stores.blob.counts - before)["put_if_absent"] == 3
    assert len(await read(env, shard, Csn(env.cache.upper - 1))) == 4500


async def test_a_commit_over_very_many_shards_stays_below_the_limit_of_consensus() -> None:
    stores = Stores()
    env = await stores.open()
    shards = [env.new_shard_id() for _ in range(400)]
    txn = env.begin()
    for shard in shards:
        txn.create_shard(shard, SCHEMA)
        txn.write(shard, rows(*[(n, "x" * 900) for n in range(60)]))
    before = stores.consensus.counts.copy()
    await commit(env, txn)
    assert (stores.consensus.counts - before)["compare_and_set"] == 1
    assert (stores.consensus.counts - before).bytes_written < 8 * 1024 * 1024
    for shard in (shards[0], shards[-1]):
        assert len(await read(env, shard)) == 60


async def test_large_parts_never_go_into_the_state() -> None:
    stores = Stores()
    env = await stores.open()
    shard = env.new_shard_id()
    txn = env.begin()
    txn.create_shard(shard, SCHEMA)
    txn.write(shard, rows(*[(n, "y" * 1000) for n in range(5000)]))
    before = stores.consensus.counts.copy()
    await commit(env, txn)
    assert (stores.consensus.counts - before).bytes_written < 5000
