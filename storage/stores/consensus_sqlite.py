"""Consensus in one SQLite file: the embedded default, for any number of server processes on one host.

One writer thread owns the writing connection. It takes every compare-and-set that waits at one moment into one
SQLite transaction, so one fsync serves many; while it syncs, the next group gathers. ``synchronous=FULL`` in WAL
mode makes a transaction durable before its callers hear of it. Reads run in threads of their own, on their own
connections, and never wait for the writer.

Processes share the file through SQLite's own locks. Each notices the others' writes by polling SQLite's
``data_version`` (a look at shared memory) for as long as somebody watches a key.

A disk that is full leaves room for what frees some (`storage.stores.disk_reserve`): the file ``<path>.reserve``.

On disk: table ``diff(key, seqno, data)``; ``application_id`` marks the file as ours and ``user_version`` is the
format. A crash leaves a WAL that the next open replays.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw
from msgspec import Struct

from storage.clock import Clock, SystemClock
from storage.errors import (
    CorruptState,
    Determinate,
    ForeignEnvironment,
    Indeterminate,
    NewerFormat,
    StorageClosed,
    StorageError,
    StoreFull,
    StoreUnavailable,
    store_closed,
)
from storage.stores.answering import answered
from storage.stores.consensus import SeqNo, VersionedData, check_key, check_set, check_truncate
from storage.stores.counting import OperationCounts
from storage.stores.disk_reserve import DiskReserve
from storage.stores.watchers import Watchers

APPLICATION_ID = 0x54474154
"""``TGAT``, in the file's header."""

FORMAT_VERSION = 1
MAX_GROUP = 1024
"""Operations in one SQLite transaction: bounds how long the first of a group waits for the last."""

READ_THREADS = 4
BUSY_TIMEOUT_MS = 10_000
"""How long to wait for another process's transaction, which takes milliseconds; after it the store is stuck."""

ANSWER_LIMIT_S = 30.0
"""How long an operation may take; a disk that hangs is an error after it."""

MAX_CHECKED_BYTES = 1 << 30
"""A larger file is not looked through when it is opened, which takes a second per GiB."""

POLL_INTERVAL_S = 0.02
"""How soon a watcher sees another process's write."""

RESERVE_INTERVAL_S = 5.0
"""How often it is tried to have room kept again, while there is none."""

_T = TypeVar("_T")


class _Write(Struct):
    """A write waiting for the writer thread; `work` runs inside the group's transaction."""

    work: Callable[[Any], bool | int]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]
    moved: tuple[str, SeqNo] | None = None


class SqliteConsensus:
    """`Consensus` in the SQLite file `path`. Make one with `open`."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.groups = 0
        """Transactions committed by this process."""
        self.grouped_writes = 0
        """Writes in those transactions; `grouped_writes / groups` is the mean size of a group."""
        self.counts = OperationCounts()
        """What was asked of it. NOTE: counted here and by no `CountingConsensus`, since commits go through."""
        self._clock = clock
        self._reserve = DiskReserve(path.with_name(f"{path.name}.reserve"))
        self.is_low = False
        """See `Consensus.is_low`."""
        self._reserve_due = 0.0
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="consensus-read")
        self._local = threading.local()
        self._connections: list[Any] = []
        self._connections_lock = threading.Lock()
        self._closed = False
        self._watchers = Watchers()
        self._poller: asyncio.Task[None] | None = None
        self._poll_connection: Any = None
        self._data_version: int | None = None
        self._writer = threading.Thread(target=self._write_loop, name="consensus-write", daemon=True)

    @staticmethod
    async def open(path: Path, *, clock: Clock | None = None) -> SqliteConsensus:
        """Open or create the store in `path`, whose folder must exist.

        Raises ForeignEnvironment when the file is not ours, NewerFormat when a newer version wrote it,
        CorruptState when SQLite finds it damaged, StoreUnavailable when it cannot be opened.
        """
        store = SqliteConsensus(path, clock or SystemClock())
        await asyncio.to_thread(_prepare, path)
        await asyncio.to_thread(store._keep_reserve)
        store._writer.start()
        return store

    async def head(self, key: str) -> VersionedData | None:
        """See `Consensus.head`."""
        check_key(key)
        found = await self._read("head", lambda connection: _head(connection, key))
        self.counts.bytes_read += 0 if found is None else len(found.data)
        return found

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        """See `Consensus.compare_and_set`."""
        check_set(key, expected_seqno, new)

        def work(connection: Any) -> bool:
            if _head_seqno(connection, key) != expected_seqno:
                return False
            connection.execute("INSERT INTO diff VALUES (?, ?, ?)", (key, new.seqno, new.data))
            return True

        self.counts.bytes_written += len(new.data)
        stored: bool = await self._write("compare_and_set", work, moved=(key, new.seqno))
        return stored

    async def scan(self, key: str, from_seqno: SeqNo, limit: int | None = None) -> list[VersionedData]:
        """See `Consensus.scan`."""
        check_key(key)

        def work(connection: Any) -> list[VersionedData]:
            rows = connection.execute(
                "SELECT seqno, data FROM diff WHERE key = ? AND seqno >= ? ORDER BY seqno LIMIT ?",
                (key, from_seqno, -1 if limit is None else limit),
            )
            return [VersionedData(seqno=SeqNo(seqno), data=data) for seqno, data in rows]

        diffs = await self._read("scan", work)
        self.counts.bytes_read += sum([len(diff.data) for diff in diffs])
        return diffs

    async def truncate(self, key: str, seqno: SeqNo) -> int:
        """See `Consensus.truncate`."""
        check_key(key)

        def work(connection: Any) -> int:
            check_truncate(key, seqno, _head_seqno(connection, key))
            connection.execute("DELETE FROM diff WHERE key = ? AND seqno < ?", (key, seqno))
            return int(connection.changes())

        removed: int = await self._write("truncate", work)
        return removed

    async def list_keys(self) -> list[str]:
        """See `Consensus.list_keys`."""

        def work(connection: Any) -> list[str]:
            # Recursive skip-scan: one index probe per key instead of one visit per diff.
            rows = connection.execute(
                "WITH RECURSIVE k(key) AS (SELECT min(key) FROM diff UNION ALL"
                " SELECT (SELECT min(key) FROM diff WHERE key > k.key) FROM k WHERE k.key IS NOT NULL)"
                " SELECT key FROM k WHERE key IS NOT NULL"
            )
            return [key for (key,) in rows]

        return await self._read("list_keys", work)

    async def watch(self, key: str, seqno: SeqNo) -> None:
        """See `Consensus.watch`."""
        check_key(key)
        if self._closed:
            raise store_closed("consensus")
        if self._watchers.has_moved(key, seqno):
            return
        # NOTE: the poller looks after somebody has registered; otherwise a move in between would be missed.
        if self._poller is None or self._poller.done():
            self._poller = asyncio.get_running_loop().create_task(self._poll())
        await self._watchers.wait(key, seqno)

    async def close(self) -> None:
        """See `Consensus.close`: writes accepted before are carried out, watchers get `StorageClosed`."""
        if self._closed:
            return
        self._closed = True
        if self._poller is not None:
            self._poller.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._poller
        self._watchers.fail(StorageClosed("the consensus store was closed"))
        self._queue.put(None)
        await asyncio.to_thread(self._shut_down)

    def _shut_down(self) -> None:
        self._writer.join()
        self._readers.shutdown()
        with self._connections_lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()

    # Reading

    async def _read(self, name: str, work: Callable[[Any], _T]) -> _T:
        if self._closed:
            raise store_closed("consensus")

        def run() -> _T:
            try:
                return work(self._read_connection())
            except apsw.Error as error:
                raise _read_error(self.path, error) from error

        reading = asyncio.get_running_loop().run_in_executor(self._readers, run)
        self.counts.calls[name] += 1
        try:
            return await answered(reading, store=f"consensus store {self.path}", limit_s=ANSWER_LIMIT_S, writes=False)
        except StorageError:
            self.counts.failures[name] += 1
            raise

    def _read_connection(self) -> Any:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect()
            self._local.connection = connection
        return connection

    def _connect(self) -> Any:
        connection = _connect(self.path)
        with self._connections_lock:
            self._connections.append(connection)
        return connection

    # Writing

    async def _write(self, name: str, work: Callable[[Any], bool | int], moved: tuple[str, SeqNo] | None = None) -> Any:
        if self._closed:
            raise store_closed("consensus")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        self._queue.put(_Write(work, loop, done, moved))
        self.counts.calls[name] += 1
        try:
            return await answered(done, store=f"consensus store {self.path}", limit_s=ANSWER_LIMIT_S, writes=True)
        except StorageError:
            self.counts.failures[name] += 1
            raise

    def _write_loop(self) -> None:
        connection: Any = None
        stopping = False
        while not stopping:
            group: list[_Write] = []
            item = self._queue.get()
            while item is not None:
                group.append(item)
                if len(group) == MAX_GROUP:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            else:
                stopping = True
            if not group:
                continue
            try:
                if connection is None:
                    connection = self._connect()
            except apsw.Error as error:
                self._deliver(group, [StoreUnavailable(f"could not open {self.path}: {error}")] * len(group))
                continue
            self._deliver(group, self._run_group(connection, group))

    def _run_group(self, connection: Any, group: list[_Write]) -> list[Any]:
        """Carry out `group` in one transaction, in the room that was kept when there is no other; the outcome of each,
        an exception where it failed."""
        outcomes = self._carried_out(connection, group)
        if isinstance(outcomes[0], StoreFull):
            self.is_low = True
            if self._reserve.release():
                outcomes = self._carried_out(connection, group)
        elif self.is_low and self._clock.monotonic() >= self._reserve_due:
            self._keep_reserve()
        return outcomes

    def _keep_reserve(self) -> None:
        self._reserve.set_up()
        self.is_low = not self._reserve.is_there
        self._reserve_due = self._clock.monotonic() + RESERVE_INTERVAL_S

    def _carried_out(self, connection: Any, group: list[_Write]) -> list[Any]:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.Error as error:
            return [_write_error(self.path, error)] * len(group)
        outcomes: list[Any] = []
        try:
            for write in group:
                try:
                    outcomes.append(write.work(connection))
                except StorageError as error:
                    outcomes.append(error)
        except apsw.Error as error:
            _roll_back(connection)
            return [_write_error(self.path, error)] * len(group)
        try:
            connection.execute("COMMIT")
        except (apsw.BusyError, apsw.FullError) as error:
            _roll_back(connection)
            return [_write_error(self.path, error)] * len(group)
        except apsw.Error as error:
            # The commit record may have reached the WAL although syncing it failed.
            _roll_back(connection)
            unknown = Indeterminate(f"could not tell whether a write to {self.path} is durable: {error}")
            return [unknown] * len(group)
        self.groups += 1
        self.grouped_writes += len(group)
        return outcomes

    def _deliver(self, group: list[_Write], outcomes: list[Any]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Write, Any]]] = {}
        for write, outcome in zip(group, outcomes, strict=True):
            by_loop.setdefault(write.loop, []).append((write, outcome))
        for loop, settled in by_loop.items():
            # A loop that was closed under its callers has nobody left to tell.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._settle, settled)

    def _settle(self, settled: list[tuple[_Write, Any]]) -> None:
        for write, outcome in settled:
            if outcome is True and write.moved is not None:
                self._watchers.moved(*write.moved)
            if write.done.done():
                continue
            if isinstance(outcome, BaseException):
                write.done.set_exception(outcome)
            else:
                write.done.set_result(outcome)

    # Watching

    async def _poll(self) -> None:
        """Wake watchers of keys that other processes move; ends when nobody watches for an interval."""
        while True:
            fresh, self._watchers.unseen = self._watchers.unseen, False
            try:
                heads = await self._read("poll", partial(self._changed_heads, self._watchers.keys, fresh))
            except Determinate:
                heads = {}
                self._watchers.unseen = True
            for key, head in heads.items():
                self._watchers.moved(key, head)
            await self._clock.sleep(POLL_INTERVAL_S)
            if not self._watchers:
                return

    def _changed_heads(self, keys: list[str], fresh: bool, _connection: object) -> dict[str, SeqNo]:
        """The heads of `keys`; nothing when no other connection has written since the last call, unless `fresh`."""
        if self._poll_connection is None:
            self._poll_connection = self._connect()
        version = self._poll_connection.execute("PRAGMA data_version").fetchone()[0]
        if version == self._data_version and not fresh:
            return {}
        self._data_version = version
        found = ((key, _head_seqno(self._poll_connection, key)) for key in keys)
        return {key: head for key, head in found if head is not None}


def _head_seqno(connection: Any, key: str) -> SeqNo | None:
    found = connection.execute("SELECT max(seqno) FROM diff WHERE key = ?", (key,)).fetchone()
    return None if found is None or found[0] is None else SeqNo(found[0])


def _head(connection: Any, key: str) -> VersionedData | None:
    found = connection.execute(
        "SELECT seqno, data FROM diff WHERE key = ? ORDER BY seqno DESC LIMIT 1", (key,)
    ).fetchone()
    return None if found is None else VersionedData(seqno=SeqNo(found[0]), data=found[1])


def _connect(path: Path) -> Any:
    connection = apsw.Connection(str(path))
    connection.setbusytimeout(BUSY_TIMEOUT_MS)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _prepare(path: Path) -> None:
    """Create the file and its table, or check that an existing file is ours and of a format we know."""
    try:
        with contextlib.closing(_connect(path)) as connection:
            _check_format(connection, path)
            _check_pages(connection, path)
            _enter_wal(connection)
        _sync_folder(path.parent)
    except apsw.NotADBError as error:
        raise ForeignEnvironment(f"{path} is not a consensus store; choose another data directory") from error
    except apsw.CorruptError as error:
        raise _damaged(path, error) from error
    except (apsw.Error, OSError) as error:
        raise StoreUnavailable(f"could not open consensus store {path}: {error}") from error


def _damaged(path: Path, what: object) -> CorruptState:
    return CorruptState(f"consensus store {path} is damaged: {what}; restore it from a backup")


def _check_pages(connection: Any, path: Path) -> None:
    """Raise CorruptState when SQLite finds pages or the order of rows damaged.

    NOTE: a damaged page may look like an empty one. What is gone then must not be taken for what has never been.
    """
    if path.stat().st_size > MAX_CHECKED_BYTES:
        return
    found = [row[0] for row in connection.execute("PRAGMA quick_check(1)").fetchall()]
    if found != ["ok"]:
        raise _damaged(path, found[0].splitlines()[-1])


def _check_format(connection: Any, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        application_id = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if application_id == 0 and version == 0 and tables == 0:
            connection.execute(
                "CREATE TABLE diff (key TEXT NOT NULL, seqno INTEGER NOT NULL, data BLOB NOT NULL,"
                " PRIMARY KEY (key, seqno)) WITHOUT ROWID"
            )
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        elif application_id != APPLICATION_ID:
            raise ForeignEnvironment(f"{path} is a SQLite file of another program; choose another data directory")
        elif version > FORMAT_VERSION:
            raise NewerFormat(
                f"{path} has format {version}, and this version knows up to {FORMAT_VERSION}; upgrade the server"
            )
        connection.execute("COMMIT")
    finally:
        _roll_back(connection)


def _enter_wal(connection: Any) -> None:
    """Switch to WAL mode. SQLite does not wait for locks here, so a busy answer is asked again."""
    for _ in range(100):
        with contextlib.suppress(apsw.BusyError, apsw.LockedError):
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal":
                return
        threading.Event().wait(0.02)
    raise StoreUnavailable("could not switch the consensus store to write-ahead logging")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _roll_back(connection: Any) -> None:
    """End the transaction if SQLite has not ended it by itself."""
    if connection.in_transaction:
        with contextlib.suppress(apsw.Error):
            connection.execute("ROLLBACK")


def _write_error(path: Path, error: apsw.Error) -> StorageError:
    if isinstance(error, apsw.FullError):
        return StoreFull(f"could not write to {path}: {error}; free space there")
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return _damaged(path, error)
    return StoreUnavailable(f"could not write to {path}: {error}")


def _read_error(path: Path, error: apsw.Error) -> StorageError:
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return _damaged(path, error)
    return StoreUnavailable(f"could not read from {path}: {error}")
