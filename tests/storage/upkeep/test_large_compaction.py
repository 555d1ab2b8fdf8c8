"""Deletions in parts that are too large to be read whole are folded piece by piece; rows and row ids stay."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.doubles.clock import ManualClock
from storage.doubles.memory_blob import MemoryBlob
from storage.environment.environment import Environment
from storage.errors import CorruptPart
from storage.ids import ShardId
from storage.shards import parts
from storage.shards.parts import ROW_ID, file_part
from storage.stores.blob import ByteRange
from storage.upkeep import compaction, large_compaction
from tests.storage.environments import Stores, commit, create, deletion, read, rows
from tests.storage.upkeep.test_maintenance import part_files, settle


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few hundred rows are large, and files have several row groups."""
    monkeypatch.setattr(compaction, "MAX_INPUT_ROWS", 300)
    monkeypatch.setattr(compaction, "MAX_DELETED_ROWS", 200)
    monkeypatch.setattr(large_compaction, "MAX_FOLDED_ROWS", 2500)
    monkeypatch.setattr(parts, "_ROW_GROUP_ROWS", 128)


def value(number: int) -> str:
    return f"{number:06}" * 20


async def write_file(env: Environment, shard: ShardId, first: int, count: int) -> None:
    txn = env.begin()
    txn.write(shard, rows(*[(n, value(n)) for n in range(first, first + count)]))
    await txn.spill(force=True)
    await commit(env, txn)


async def delete_rows(env: Environment, shard: ShardId, gone: list[int]) -> None:
    txn = env.begin()
    txn.delete(shard, deletion(*[(n, n, value(n)) for n in gone]))
    await txn.spill(force=True)
    await commit(env, txn)


@pytest.mark.parametrize("step", [2, 3, 7])
async def test_many_deletions_in_large_parts_are_folded(step: int) -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    env = await stores.open()
    shard = await create(env)
    for number in range(5):
        await write_file(env, shard, number * 1000, 1000)
    await delete_rows(env, shard, list(range(0, 5000, step)))
    before = await read(env, shard)
    assert len(before) == 5000 - len(range(0, 5000, step))
    for _ in range(3):
        await settle(env, clock, shard)
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    # As few as are left are not worth a rewriting.
    left = sum(part.rows for part in snapshot.deletes)
    assert left <= compaction.DELETED_SHARE * sum(part.rows for part in snapshot.inserts)
    assert step != 2 or not left
    assert sum(part.rows <= 300 for part in snapshot.inserts) >= 8
    assert snapshot.rows == len(before)
    assert await read(env, shard) == before
    live = {part.key for part in (*snapshot.inserts, *snapshot.deletes) if part.key is not None}
    await env.maintenance.orphans.collect()
    assert await part_files(stores, shard) == live


async def test_few_deletions_are_left_alone() -> None:
    clock = ManualClock()
    env = await Stores(clock=clock).open()
    shard = await create(env)
    await write_file(env, shard, 0, 2000)
    await delete_rows(env, shard, [5, 700])
    await settle(env, clock, shard)
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    assert [part.rows for part in snapshot.inserts] == [2000]
    assert [part.rows for part in snapshot.deletes] == [2]


@pytest.mark.parametrize("seed", range(4))
async def test_random_deletions_against_a_model(seed: int) -> None:
    chance = random.Random(seed)
    clock = ManualClock()
    env = await Stores(seed, clock).open()
    shard = await create(env)
    model: set[int] = set()
    written = 0
    for _ in range(25):
        if chance.random() < 0.5 or not model:
            count = chance.choice([10, 200, 900])
            await write_file(env, shard, written, count)
            model.update(range(written, written + count))
            written += count
        else:
            gone = chance.sample(sorted(model), chance.randrange(1, min(len(model), 700) + 1))
            await delete_rows(env, shard, gone)
            model.difference_update(gone)
        if chance.random() < 0.5:
            await settle(env, clock, shard)
        assert await read(env, shard) == {n: (n, value(n)) for n in model}
    for _ in range(4):
        await settle(env, clock, shard)
    assert await read(env, shard) == {n: (n, value(n)) for n in model}
    snapshot = await env.reader.snapshot(shard, await env.oracle.read_ts("user"))
    deleted = sum(part.rows for part in snapshot.deletes)
    assert deleted <= 0.35 * max(1, sum(part.rows for part in snapshot.inserts))


class Watched(MemoryBlob):
    """A store that knows the largest piece anybody took."""

    most = 0

    async def get(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        data = await super().get(key, byte_range)
        self.most = max(self.most, len(data or b""))
        return data


async def test_pieces_of_a_file_are_its_rows_and_never_the_file() -> None:
    env = await Stores().open()
    shard = await create(env)
    table = pa.table(
        {
            "c1": pa.array(range(5000), pa.int64()),
            "c2": pa.array([str(n) * 30 for n in range(5000)]),
            "c3": pa.array([{"months": n, "micros": n * 2} for n in range(5000)]),
            "c4": pa.array([[n, n + 1] for n in range(5000)]),
        }
    )
    part, data = file_part("insert", table, f"parts/{shard}/x-y.parquet")
    assert pq.ParquetFile(pa.BufferReader(data)).num_row_groups > 30
    blob = Watched()
    await blob.put(part.key or "", data)
    env.parts._blob = blob
    found = [piece async for piece in env.parts.pieces(part, [ROW_ID, "c4", "c1", "c3", "c2"])]
    assert len(found) > 30
    whole = pa.concat_tables(found)
    assert whole.column(ROW_ID).to_pylist() == list(range(part.first_row_id, part.first_row_id + 5000))
    assert whole.select(table.column_names).equals(table)
    damaged = bytearray(data)
    damaged[1000] ^= 1
    await blob.put(part.key or "", bytes(damaged))
    with pytest.raises(CorruptPart, match="checksum"):
        [piece async for piece in env.parts.pieces(part, ["c1"])]
