"""What the SQLite consensus promises beyond the common contract: groups, formats, many processes, faults."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from storage.doubles.clock import ManualClock
from storage.errors import (
    CorruptState,
    Determinate,
    ForeignEnvironment,
    Indeterminate,
    NewerFormat,
    StorageClosed,
    StoreFull,
    StoreUnavailable,
)
from storage.stores import consensus_sqlite
from storage.stores.consensus import SeqNo, VersionedData
from storage.stores.consensus_sqlite import RESERVE_INTERVAL_S, SqliteConsensus
from storage.stores.disk_reserve import RESERVE_BYTES


def diff(seqno: int, data: bytes = b"x") -> VersionedData:
    return VersionedData(seqno=SeqNo(seqno), data=data)


async def test_writes_that_wait_together_share_a_transaction(tmp_path: Path) -> None:
    store = await SqliteConsensus.open(tmp_path / "c.sqlite")
    won = await asyncio.gather(*(store.compare_and_set(f"k{n}", None, diff(1)) for n in range(200)))
    assert all(won)
    assert store.grouped_writes == 200
    assert store.groups <= 20
    await store.close()


async def test_the_file_is_wal_and_full(tmp_path: Path) -> None:
    store = await SqliteConsensus.open(tmp_path / "c.sqlite")
    connection = store._connect()
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    await store.close()


async def test_values_survive_reopening(tmp_path: Path) -> None:
    store = await SqliteConsensus.open(tmp_path / "c.sqlite")
    assert await store.compare_and_set("k", None, diff(1, b"kept"))
    await store.close()
    again = await SqliteConsensus.open(tmp_path / "c.sqlite")
    assert await again.head("k") == diff(1, b"kept")
    await again.close()


async def test_an_acknowledged_write_survives_kill_9(tmp_path: Path) -> None:
    script = (
        "import asyncio, os, signal, sys; from pathlib import Path\n"
        "from storage.stores.consensus_sqlite import SqliteConsensus\n"
        "from storage.stores.consensus import VersionedData\n"
        "async def main():\n"
        "    store = await SqliteConsensus.open(Path(sys.argv[1]))\n"
        "    for n in range(1, 51):\n"
        "        assert await store.compare_and_set('k', n - 1 or None, VersionedData(seqno=n, data=b'%d' % n))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    path = tmp_path / "c.sqlite"
    killed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script, str(path)], check=False)
    assert killed.returncode == -9
    store = await SqliteConsensus.open(path)
    assert await store.head("k") == diff(50, b"50")
    await store.close()


async def test_another_programs_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t (a)")
    other.close()
    with pytest.raises(ForeignEnvironment, match="another program"):
        await SqliteConsensus.open(path)
    text = tmp_path / "notes.txt"
    text.write_text("shopping list " * 100)
    with pytest.raises(ForeignEnvironment, match="not a consensus store"):
        await SqliteConsensus.open(text)


async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    await (await SqliteConsensus.open(path)).close()
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {consensus_sqlite.FORMAT_VERSION + 1}")
    newer.close()
    with pytest.raises(NewerFormat, match="upgrade the server"):
        await SqliteConsensus.open(path)


async def test_a_missing_folder_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        await SqliteConsensus.open(tmp_path / "none" / "c.sqlite")


async def test_a_full_store_fails_determinately_and_recovers(tmp_path: Path) -> None:
    store = await SqliteConsensus.open(tmp_path / "c.sqlite")
    assert await store.compare_and_set("k", None, diff(1))

    def limit(pages: int) -> None:
        for connection in store._connections:
            connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()

    limit(4)
    with pytest.raises(StoreFull):
        await store.compare_and_set("k", SeqNo(1), diff(2, b"x" * 100_000))
    limit(1_000_000)
    assert await store.head("k") == diff(1)
    assert await store.compare_and_set("k", SeqNo(1), diff(2)) is True
    await store.close()


class FailingCommit:
    """A connection whose COMMIT fails with `error`, before or after taking effect."""

    def __init__(self, inner: apsw.Connection, error: apsw.Error, *, commits: bool) -> None:
        self._inner, self._error, self._commits = inner, error, commits

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    def execute(self, statement: str, *args: Any) -> object:
        if statement == "COMMIT":
            if self._commits:
                self._inner.execute(statement)
            raise self._error
        return self._inner.execute(statement, *args)


@pytest.mark.parametrize("commits", [True, False])
async def test_a_failed_commit_is_indeterminate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: bool) -> None:
    store = await SqliteConsensus.open(tmp_path / "c.sqlite")
    real = store._run_group
    error = apsw.IOError("disk I/O error")

    def run_group(connection: apsw.Connection, group: object) -> object:
        return real(FailingCommit(connection, error, commits=commits), group)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "_run_group", run_group)
    with pytest.raises(Indeterminate, match="disk I/O error"):
        await store.compare_and_set("k", None, diff(1))
    monkeypatch.undo()
    assert await store.head("k") == (diff(1) if commits else None)
    await store.close()


async def test_one_bad_write_does_not_spoil_its_group(tmp_path: Path) -> None:
    store = await SqliteConsensus.open(tmp_path / "c.sqlite")
    outcomes = await asyncio.gather(
        store.compare_and_set("a", None, diff(1)),
        store.truncate("a", SeqNo(9)),
        store.compare_and_set("b", None, diff(1)),
        return_exceptions=True,
    )
    assert outcomes[0] is True
    assert isinstance(outcomes[1], Determinate)
    assert outcomes[2] is True
    await store.close()


async def test_closing_finishes_writes_and_ends_watches(tmp_path: Path) -> None:
    store = await SqliteConsensus.open(tmp_path / "c.sqlite")
    watching = asyncio.create_task(store.watch("k", SeqNo(0)))
    await asyncio.sleep(0.05)
    writing = asyncio.create_task(store.compare_and_set("other", None, diff(1)))
    await asyncio.sleep(0)
    await store.close()
    assert await writing is True
    with pytest.raises(StorageClosed):
        await watching
    with pytest.raises(StorageClosed):
        await store.head("k")


@pytest.mark.parametrize("damage", ["truncated", "overwritten"])
async def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "c.sqlite"
    store = await SqliteConsensus.open(path)
    for n in range(1, 40):
        assert await store.compare_and_set(f"k{n}", None, diff(1, b"x" * 2000))
    await store.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        if damage == "truncated":
            file.truncate(size // 2)
        else:
            file.seek(4096)
            file.write(b"\xff" * (size - 4096))
    with pytest.raises(CorruptState, match=r"c\.sqlite is damaged"):
        await _read_everything(path)


async def _read_everything(path: Path) -> None:
    store = await SqliteConsensus.open(path)
    try:
        for key in await store.list_keys():
            await store.scan(key, SeqNo(0))
        for n in range(1, 40):
            await store.scan(f"k{n}", SeqNo(0))
    finally:
        await store.close()


def _is_low(store: SqliteConsensus) -> bool:
    return store.is_low


class FullUntil:
    """A connection on a disk that is full for as long as `reserve` is there."""

    def __init__(self, inner: apsw.Connection, reserve: Path) -> None:
        self._inner, self._reserve = inner, reserve

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    def execute(self, statement: str, *args: Any) -> object:
        if statement == "COMMIT" and self._reserve.exists():
            raise apsw.FullError("database or disk is full")
        return self._inner.execute(statement, *args)

    def close(self) -> None:
        self._inner.close()


async def test_the_room_that_is_kept_is_used_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = tmp_path / "c.sqlite.reserve"
    clock = ManualClock()
    connect = consensus_sqlite._connect
    store = await SqliteConsensus.open(tmp_path / "c.sqlite", clock=clock)
    assert reserve.stat().st_size == RESERVE_BYTES
    assert not _is_low(store)
    with monkeypatch.context() as patch:
        patch.setattr(consensus_sqlite, "_connect", lambda path: FullUntil(connect(path), reserve))
        assert await store.compare_and_set("k", None, diff(1))
        assert _is_low(store)
        assert not reserve.exists()
    # There is room again.
    clock.advance(int(RESERVE_INTERVAL_S * 1000) + 1)
    assert await store.compare_and_set("k", SeqNo(1), diff(2))
    assert not _is_low(store)
    assert reserve.exists()
    await store.close()
