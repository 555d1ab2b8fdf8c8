"""Publications of tables of many files: what readers find, what is remembered, and what a small change costs."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent, read_manifest_list

from storage.doubles.clock import SeededRandomness
from storage.environment.environment import Environment
from storage.ids import ShardId
from storage.lake.snapshots.memory_files import MemoryFiles, MemoryInput
from storage.publishing import manifests
from storage.publishing.columns import PublishableTable, PublishedColumn
from storage.publishing.metadata import parsed
from storage.publishing.publisher import Publisher
from storage.shards import packed_parts, set_aside
from storage.shards.parts import Part
from tests.storage.environments import Stores, commit, create, deletion
from tests.storage.shards.test_packed_parts import file

COLUMNS = (
    PublishedColumn(attnum=1, name="id", type=pa.int64()),
    PublishedColumn(attnum=2, name="text", type=pa.string()),
)
ROWS = 10
SCHEME = "memory:/"
Found = dict[str, tuple[int, list[int]]]


class Published:
    """A table of files that nobody opens, and its publisher."""

    def __init__(self, stores: Stores, env: Environment, shard: ShardId) -> None:
        self.stores, self.env, self.shard = stores, env, shard
        self.random = SeededRandomness(3)
        self.files = 0
        self.publisher = self.new_publisher()

    def new_publisher(self) -> Publisher:
        """One that remembers nothing."""
        env = self.env
        return Publisher(
            environment=env.id,
            process=env.process,
            blob=env.blob,
            location=lambda key: SCHEME + key,
            consensus=env.consensus,
            clock=env.clock,
            random=env.random,
            reader=env.reader,
            parts=env.parts,
            leases=env.leases,
            is_alive=lambda process: False,
        )

    async def add(self, files: int) -> None:
        txn = self.env.begin()
        for _ in range(files):
            await txn.write_part(self.shard, file(self.files, self.random, ROWS))
            self.files += 1
        await commit(self.env, txn)
        await self.env.applier.apply_all()

    async def delete(self, *ids: int) -> None:
        txn = self.env.begin()
        txn.delete(self.shard, deletion(*[(at, 0, "x") for at in ids]))
        await commit(self.env, txn)
        await self.env.applier.apply_all()

    async def publish(self, columns: tuple[PublishedColumn, ...] = COLUMNS) -> str:
        """The key of the metadata."""
        csn = await self.env.oracle.read_ts("user")
        table = PublishableTable(
            relation=7, namespace="s", name="t", shard=self.shard, columns=columns, keep_ms=3_600_000
        )
        return (await self.publisher.publish(5, [table], csn)).tables[0].metadata

    async def expected(self) -> dict[str, list[int]]:
        """The files as they are, with the positions of their deleted rows."""
        snapshot = await self.env.reader.snapshot(self.shard, await self.env.oracle.read_ts("user"))
        gone = [np.asarray((await self.env.reader.read_part(part, ["_row_id"])).column(0)) for part in snapshot.deletes]
        ids = sorted({int(at) for each in gone for at in each})
        return {
            f"{SCHEME}{part.key}": [at - part.first_row_id for at in ids if 0 <= at - part.first_row_id < part.rows]
            for part in snapshot.inserts
        }

    async def read(self, location: str) -> bytes:
        data = await self.env.blob.get(location.removeprefix(SCHEME))
        assert data is not None
        return data

    async def found(self, metadata: str) -> Found:
        """What a reader of Iceberg finds: the files, with the snapshot that each came with, and deleted positions."""
        newest = parsed(await self.read(metadata)).current_snapshot()
        assert newest is not None
        assert newest.summary is not None
        files: dict[str, tuple[int, int]] = {}
        deletes: list[tuple[int, pa.Table]] = []
        for manifest in read_manifest_list(MemoryInput("list", await self.read(newest.manifest_list))):
            data = MemoryFiles({manifest.manifest_path: await self.read(manifest.manifest_path)})
            for entry in manifest.fetch_manifest_entry(data):
                assert entry.snapshot_id is not None
                assert entry.sequence_number is not None
                path = entry.data_file.file_path
                if entry.data_file.content is DataFileContent.DATA:
                    assert path not in files
                    files[path] = entry.snapshot_id, entry.sequence_number
                else:
                    deletes.append((entry.sequence_number, pq.read_table(pa.BufferReader(await self.read(path)))))
        gone: dict[str, set[int]] = {path: set() for path in files}
        for sequence, table in deletes:
            for path, at in zip(*[table.column(name).to_pylist() for name in ("file_path", "pos")], strict=True):
                if path in files and sequence >= files[path][1]:
                    gone[path].add(at)
        assert newest.summary.additional_properties["total-data-files"] == str(len(files))
        deleted = newest.summary.additional_properties["total-position-deletes"]
        assert deleted == str(sum(len(each) for each in gone.values()))
        return {path: (snapshot, sorted(gone[path])) for path, (snapshot, _) in files.items()}


async def _published(stores: Stores) -> Published:
    env = await stores.open()
    env.reader._validate = False
    return Published(stores, env, await create(env))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"BLOCK_PARTS": 4, "PACK_FROM": 12, "KEPT_LOOSE": 4, "SMALLEST_BLOCK": 2}.items():
        monkeypatch.setattr(packed_parts, name, value)
    monkeypatch.setattr(manifests, "MOST_MANIFESTS", 6)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[None]:
    set_aside.use_scratch(tmp_path)
    yield
    set_aside.use_scratch(None)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(3))
async def test_readers_find_the_files_of_all_blocks_as_they_are(seed: int) -> None:
    table = await _published(Stores(seed=seed))
    random = SeededRandomness(seed)
    came: dict[str, int] = {}
    ids: set[int] = set()
    for number in range(40):
        await table.add(1 + random.randrange(5))
        if random.random() < 0.5:
            snapshot = await table.env.reader.snapshot(table.shard, await table.env.oracle.read_ts("user"))
            some = {random.randrange(snapshot.rows) for _ in range(1 + random.randrange(4))} - ids
            if some:
                await table.delete(*some)
                ids |= some
        if random.random() < 0.2 and number != 20:
            table.publisher = table.new_publisher()
        # Another definition makes all groups be found anew.
        found = await table.found(await table.publish(COLUMNS[: 1 + (number < 20)]))
        assert {path: gone for path, (_, gone) in found.items()} == await table.expected()
        for path, (snapshot_id, _) in found.items():
            assert came.setdefault(path, snapshot_id) == snapshot_id
    await table.env.close()


@pytest.mark.usefixtures("scratch")
async def test_what_is_remembered_of_a_file_is_little_and_a_small_change_opens_no_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = await _published(Stores())
    files = 8 * packed_parts.BLOCK_PARTS
    await table.add(files)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0] - _blob_bytes(table.stores)
        await table.publish()
        gc.collect()
        remembered = tracemalloc.get_traced_memory()[0] - _blob_bytes(table.stores) - before
    finally:
        tracemalloc.stop()
    assert remembered / files < 100, remembered / files
    await table.add(1)
    opened: list[packed_parts.Block] = []
    parts = packed_parts.Block.parts

    def open_(block: packed_parts.Block) -> tuple[Part, ...]:
        opened.append(block)
        return parts(block)

    with monkeypatch.context() as counted:
        counted.setattr(packed_parts.Block, "parts", open_)
        metadata = await table.publish()
        assert not opened
        await table.delete(5)
        await table.publish()
        assert len(opened) == 1
    assert len(await table.found(metadata)) == files + 1
    await table.env.close()


async def test_the_first_publication_of_a_process_takes_over_what_another_has_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = await _published(Stores())
    await table.add(300)
    await table.delete(7, 8)
    before = await table.found(await table.publish())
    await table.add(1)
    table.publisher = table.new_publisher()
    made: list[str] = []
    data_file = manifests.data_file

    def counted(part: Part, location: str, *more: Any) -> Any:
        made.append(location)
        return data_file(part, location, *more)

    with monkeypatch.context() as counting:
        counting.setattr("storage.publishing.publisher.data_file", counted)
        found = await table.found(await table.publish())
    assert len(made) == 1
    assert {path: found[path] for path in before} == before
    assert set(found) == {*before, *made}
    await table.env.close()


def _blob_bytes(stores: Stores) -> int:
    blob: Any = stores.blob
    return sum([len(data) for data, _ in blob.inner._objects.values()])
