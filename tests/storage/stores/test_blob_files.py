"""Objects of a store as local files: fetched when held, kept within a bound, stored when sealed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.clock import SystemClock
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.errors import CorruptPart, MissingBlob
from storage.ids import ShardId
from storage.shards.part_store import PartStore
from storage.shards.parts import UploadedPart, checksum
from storage.stores.blob_files import BlobFiles
from storage.stores.counting import CountingBlob


def content(files: BlobFiles, key: str) -> bytes | None:
    """What is in the file of `key`; None when there is none."""
    path = Path(files.uri(key))
    return path.read_bytes() if path.exists() else None


def damage(path: Path) -> None:
    """Flip a bit of the file."""
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)


async def test_what_is_held_is_a_file_and_fetched_once(tmp_path: Path) -> None:
    inner = CountingBlob(MemoryBlob())
    files = BlobFiles(inner, tmp_path)
    await files.put("parts/a", b"one")

    async def read() -> None:
        async with files.holding(["parts/a", "parts/a"]):
            assert content(files, "parts/a") == b"one"

    await asyncio.gather(*(read() for _ in range(8)))
    await read()
    assert inner.counts["get"] == 1


async def test_copies_stay_within_the_bound_but_for_those_in_use(tmp_path: Path) -> None:
    files = BlobFiles(MemoryBlob(), tmp_path, limit_bytes=25)
    keys = [f"parts/{number}" for number in range(6)]
    for key in keys:
        await files.put(key, key[-1].encode() * 10)
    async with files.holding(keys[:4]):
        async with files.holding(keys[4:]):
            pass
        assert all(content(files, key) for key in keys[:4])
    kept = [key for key in keys if content(files, key)]
    assert len(kept) == 2
    for _ in range(3):
        for key in keys:
            async with files.holding([key]):
                assert content(files, key) == key[-1].encode() * 10


async def test_an_absent_object_is_named(tmp_path: Path) -> None:
    files = BlobFiles(MemoryBlob(), tmp_path)
    with pytest.raises(MissingBlob, match="parts/none"):
        async with files.holding(["parts/none"]):
            pass


async def test_sealing_stores_what_an_engine_wrote(tmp_path: Path) -> None:
    inner = MemoryBlob()
    files = BlobFiles(inner, tmp_path)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "written").write_bytes(b"rows")
    assert files.uri("parts/written") == str(tmp_path / "parts" / "written")
    assert await files.make_durable("parts/written") == 4
    assert await inner.get("parts/written") == b"rows"
    assert await files.make_durable("parts/written") == 4
    assert await files.make_durable("parts/none") is None


async def test_what_an_engine_wrote_gets_its_checksum_without_being_fetched(tmp_path: Path) -> None:
    inner = CountingBlob(MemoryBlob())
    files = BlobFiles(inner, tmp_path)
    parts = PartStore(files, SystemClock(), SeededRandomness(1), "p")
    key = parts.new_key(ShardId("s1"))
    path = Path(files.uri(key))
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"c1": list(range(1000))}), path)
    part = await parts.describe("insert", UploadedPart(key=key))
    assert part.checksum == checksum(content(files, key) or b"")
    assert inner.counts["get"] == 0
    async with files.holding([key]):
        await parts.verify([part])
    assert inner.counts["get"] == 0
    # A copy that is damaged is what the engine would read; and one that somebody removed is fetched again.
    damage(path)
    with pytest.raises(CorruptPart):
        await parts.read(part)
    await asyncio.to_thread(path.unlink)
    assert (await parts.read(part)).num_rows == 1000
