"""What the local blob store promises beyond the common contract: durability, clean failure, readable paths."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.doubles.clock import ManualClock
from storage.environment.local_environment import open_local_environment
from storage.errors import Indeterminate, StorageClosed, StoreFull, StoreUnavailable
from storage.stores import blob_local
from storage.stores.blob_local import ABANDONED_AFTER_MS, LocalBlob


def temporaries(root: Path) -> list[str]:
    return os.listdir(root / ".tmp") if (root / ".tmp").exists() else []


async def test_file_and_folders_are_fsynced_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "blob"
    blob = LocalBlob(root)
    events: list[str] = []
    real_fsync, real_link = os.fsync, os.link

    def fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        events.append("sync file" if ".tmp/" in path else f"sync {Path(path).relative_to(tmp_path)}")
        real_fsync(descriptor)

    def link(source: Path, target: Path) -> None:
        events.append("link")
        real_link(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    await blob.put_if_absent("parts/s1/a", b"1")
    linked = events.index("link")
    assert events.index("sync file") < linked
    assert events[linked + 1 :] == ["sync blob/parts/s1"]
    assert {"sync blob/parts", "sync blob", "sync ."} <= set(events[:linked])
    events.clear()
    assert await blob.put_if_absent("parts/s1/a", b"2") is False
    assert events[-1] == "sync blob/parts/s1"
    await blob.close()


async def test_a_full_disk_is_determinate_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = LocalBlob(tmp_path)

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreFull, match="No space left on device"):
        await blob.put_if_absent("a", b"1")
    monkeypatch.undo()
    assert temporaries(tmp_path) == []
    assert await blob.get("a") is None
    assert await blob.put_if_absent("a", b"1") is True
    await blob.close()


async def test_a_failed_folder_sync_is_indeterminate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = LocalBlob(tmp_path)
    await blob.put("b", b"")
    real = blob_local._sync_folder

    def broken(folder: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(blob_local, "_sync_folder", broken)
    with pytest.raises(Indeterminate, match="Input/output error"):
        await blob.put_if_absent("a", b"1")
    monkeypatch.setattr(blob_local, "_sync_folder", real)
    assert await blob.get("a") == b"1"
    await blob.close()


async def test_a_read_error_is_reported_not_taken_for_absence(tmp_path: Path) -> None:
    blob = LocalBlob(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StoreUnavailable, match="could not read blob 'loop'"):
        await blob.get("loop")
    await blob.close()


async def test_what_a_crash_left_is_cleared_a_day_later(tmp_path: Path) -> None:
    clock = ManualClock()
    blob = LocalBlob(tmp_path, clock=clock)
    await blob.put("a", b"1")
    for name, age_ms in (("old", ABANDONED_AFTER_MS + 1000), ("young", ABANDONED_AFTER_MS - 1000)):
        path = tmp_path / ".tmp" / name
        path.write_bytes(b"half")
        written_s = (clock.now_ms() - age_ms) / 1000
        os.utime(path, (written_s, written_s))
    assert await blob.clear_abandoned() == 1
    assert temporaries(tmp_path) == ["young"]
    assert [entry.key async for entry in blob.list()] == ["a"]
    await blob.close()


async def test_engines_open_the_uri(tmp_path: Path) -> None:
    blob = LocalBlob(tmp_path)
    await blob.put("parts/s1/seed", b"")
    table = pa.table({"c1": [1, 2, 3]})
    pq.write_table(table, blob.uri("parts/s1/p.parquet"))
    assert await blob.make_durable("parts/s1/p.parquet") == await blob.size("parts/s1/p.parquet")
    with duckdb.connect() as engine:
        found = engine.execute("SELECT sum(c1) FROM read_parquet(?)", [blob.uri("parts/s1/p.parquet")])
        assert found.fetchone() == (6,)
    await blob.close()


async def test_deleting_takes_the_checksum_file_along(tmp_path: Path) -> None:
    blob = LocalBlob(tmp_path)
    await blob.put("parts/p.parquet", b"1")
    sidecar = tmp_path / "parts" / ".p.parquet.crc"
    sidecar.write_bytes(b"crc")
    assert [entry.key async for entry in blob.list()] == ["parts/p.parquet"]
    assert await blob.delete("parts/p.parquet") is True
    assert not sidecar.exists()
    await blob.close()


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    blob = LocalBlob(tmp_path)
    await blob.close()
    with pytest.raises(StorageClosed):
        await blob.get("a")


async def test_opening_a_data_directory_clears_what_a_crash_left(tmp_path: Path) -> None:
    await (await open_local_environment(tmp_path / "data")).close()
    left = tmp_path / "data" / "blob" / ".tmp" / "left"
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_bytes(b"half")
    os.utime(left, (1, 1))
    await (await open_local_environment(tmp_path / "data")).close()
    assert temporaries(tmp_path / "data" / "blob") == []
