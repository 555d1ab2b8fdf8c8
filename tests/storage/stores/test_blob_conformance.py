"""The contract of `storage.stores.blob`, which every implementation keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage.errors import InvalidKey
from storage.stores.blob import Blob, ByteRange
from tests.storage.cloud_emulators import asked_for
from tests.storage.store_servers import BLOBS, CLOUD_BLOBS, BlobFactory, blob_factory


@pytest.fixture(params=(*BLOBS, *CLOUD_BLOBS) if asked_for() else BLOBS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> BlobFactory:
    s3 = request.getfixturevalue("s3") if request.param == "s3" else None
    place = request.getfixturevalue(request.param).new_place() if request.param in CLOUD_BLOBS else None
    return blob_factory(request.param, tmp_path / "blob", s3, place)


@pytest.fixture
async def blob(opened: BlobFactory) -> AsyncIterator[Blob]:
    async with opened() as store:
        yield store


async def keys(blob: Blob, prefix: str = "") -> list[str]:
    return sorted([entry.key async for entry in blob.list(prefix)])


async def test_an_absent_object_is_none(blob: Blob) -> None:
    assert await blob.get("parts/none") is None
    assert await blob.get("parts/none", ByteRange(start=0, length=4)) is None
    assert await blob.size("parts/none") is None
    assert await blob.make_durable("parts/none") is None
    assert await blob.delete("parts/none") is False


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 4097], ids=["empty", "one", "megabyte"])
async def test_what_is_put_is_read_back(blob: Blob, data: bytes) -> None:
    await blob.put("parts/s1/a.parquet", data)
    assert await blob.get("parts/s1/a.parquet") == data
    assert await blob.size("parts/s1/a.parquet") == len(data)
    assert await blob.make_durable("parts/s1/a.parquet") == len(data)


async def test_put_replaces(blob: Blob) -> None:
    await blob.put("a", b"first, and longer")
    await blob.put("a", b"second")
    assert await blob.get("a") == b"second"


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [(0, 3, b"012"), (4, 2, b"45"), (8, 10, b"89"), (10, 1, b""), (20, 5, b""), (3, 0, b"")],
)
async def test_a_range_is_cut_at_the_end(blob: Blob, start: int, length: int, expected: bytes) -> None:
    await blob.put("digits", b"0123456789")
    assert await blob.get("digits", ByteRange(start=start, length=length)) == expected


async def test_put_if_absent_decides_a_key_once(blob: Blob) -> None:
    assert await blob.put_if_absent("parts/p", b"part") is True
    assert await blob.put_if_absent("parts/p", b"tombstone") is False
    assert await blob.get("parts/p") == b"part"
    await blob.delete("parts/p")
    assert await blob.put_if_absent("parts/p", b"again") is True


async def test_of_concurrent_put_if_absent_one_wins(opened: BlobFactory) -> None:
    async with opened() as one, opened() as two:
        for round_number in range(20):
            key = f"race/{round_number}"
            values = [f"{n}".encode() for n in range(8)]
            won = await asyncio.gather(
                *((one if n % 2 else two).put_if_absent(key, value) for n, value in enumerate(values))
            )
            assert sum(won) == 1
            assert await one.get(key) == values[won.index(True)]


async def test_delete_removes(blob: Blob) -> None:
    await blob.put("a/b", b"1")
    assert await blob.delete("a/b") is True
    assert await blob.get("a/b") is None
    assert await blob.delete("a/b") is False
    assert await keys(blob) == []


async def test_list_takes_a_plain_string_prefix(blob: Blob) -> None:
    for key in ("parts/s1/a", "parts/s1/b", "parts/s10/c", "parts/s2/d", "rollup/s1"):
        await blob.put(key, key.encode())
    assert await keys(blob) == ["parts/s1/a", "parts/s1/b", "parts/s10/c", "parts/s2/d", "rollup/s1"]
    assert await keys(blob, "parts/") == ["parts/s1/a", "parts/s1/b", "parts/s10/c", "parts/s2/d"]
    assert await keys(blob, "parts/s1") == ["parts/s1/a", "parts/s1/b", "parts/s10/c"]
    assert await keys(blob, "parts/s1/") == ["parts/s1/a", "parts/s1/b"]
    assert await keys(blob, "nothing/") == []


async def test_list_tells_length_and_time(blob: Blob) -> None:
    await blob.put("a", b"12345")
    entries = [entry async for entry in blob.list()]
    assert [(entry.key, entry.bytes) for entry in entries] == [("a", 5)]
    assert entries[0].modified_ms > 1_600_000_000_000


async def test_another_handle_sees_everything(opened: BlobFactory) -> None:
    async with opened() as one, opened() as two:
        await one.put("a", b"1")
        assert await two.get("a") == b"1"
        await two.delete("a")
        assert await one.get("a") is None


async def test_many_at_once(blob: Blob) -> None:
    await asyncio.gather(*(blob.put(f"many/{n}", str(n).encode()) for n in range(100)))
    found = await asyncio.gather(*(blob.get(f"many/{n}") for n in range(100)))
    assert found == [str(n).encode() for n in range(100)]


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", ".", "a/..", "../a", "a/_b", ".t", "ü", "a\n", "a" * 600])
async def test_keys_that_are_not_portable_are_refused(blob: Blob, key: str) -> None:
    with pytest.raises(InvalidKey):
        await blob.put(key, b"")
    with pytest.raises(InvalidKey):
        await blob.get(key)
