"""An environment in one folder: local files and SQLite, for one server process or several on one host.

    DIRECTORY/consensus.sqlite      consensus
    DIRECTORY/blob/                 parts and rollups
    DIRECTORY/server.lock           held shared by peers, exclusively by a server that wants to be alone
    DIRECTORY/servers/PROCESS.lock  held by the process PROCESS while it lives

The locks are the operating system's: they go with their process, however it ends. So on one host nobody has to wait
for a lease to run out to know that a process is dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from storage.clock import Clock, Randomness, SystemClock, SystemRandomness
from storage.environment.environment import Environment
from storage.environment.opening import open_on_stores
from storage.errors import DataDirectoryInUse, ForeignEnvironment
from storage.host_memory import HostMemory
from storage.lake.linked import LinkedBlob, TargetFiles
from storage.stores.blob import Blob
from storage.stores.blob_local import LocalBlob
from storage.stores.consensus_sqlite import SqliteConsensus
from storage.stores.counting import CountingBlob, OperationCounts
from storage.upkeep.retention import DEFAULT_RETAIN_MS

OWN_NAMES = frozenset({"blob", "server.lock", "servers", "lost+found"})
"""What a data directory may hold before its environment is made: leftovers of an earlier attempt, an empty disk's."""


async def open_local_environment(
    data_dir: Path,
    *,
    clock: Clock | None = None,
    random: Randomness | None = None,
    process: str = "server",
    peers: bool = False,
    host: HostMemory | None = None,
    blob: Blob | None = None,
    linked: TargetFiles | None = None,
    retain_ms: int = DEFAULT_RETAIN_MS,
) -> Environment:
    """The environment in the folder `data_dir`, created on first use; its objects in `blob` if that is given.
    Files of others that belong to its tables are `linked` (`storage.lake.linked`).

    With `peers` other processes may have it open at the same time, if they allow it too; those that share the memory
    `host` ask the consensus store less for each other's sake. Raises DataDirectoryInUse when that is not so.
    """
    clock = clock or SystemClock()
    random = random or SystemRandomness()
    counts: dict[str, OperationCounts] = {}
    stack = contextlib.AsyncExitStack()
    try:
        await asyncio.to_thread(_check_folder, data_dir)
        stack.enter_context(_directory_lock(data_dir, shared=peers))
        files = ProcessFiles(data_dir / "servers")
        stack.callback(files.close)
        consensus = await SqliteConsensus.open(data_dir / "consensus.sqlite", clock=clock)
        stack.push_async_callback(consensus.close)
        counts["consensus"] = consensus.counts
        if blob is None:
            local = LocalBlob(data_dir / "blob")
            await local.clear_abandoned()
            counted = CountingBlob(local)
            counts["blob"] = counted.counts
            blob = counted if linked is None else LinkedBlob(counted, linked)
        stack.push_async_callback(blob.close)
        env = await open_on_stores(
            blob=blob,
            consensus=consensus,
            clock=clock,
            random=random,
            process=process,
            sole=not peers,
            liveness=files if peers else None,
            host=host,
            retain_ms=retain_ms,
        )
    except BaseException:
        await stack.aclose()
        raise
    env.store_counts = counts
    env.on_close(stack)
    return env


def _check_folder(data_dir: Path) -> None:
    """Make `data_dir`, or check that it is empty or one of ours. Raises ForeignEnvironment."""
    data_dir.mkdir(parents=True, exist_ok=True)
    names = {entry.name for entry in data_dir.iterdir()}
    if "consensus.sqlite" in names:
        return
    strangers = sorted(name for name in names - OWN_NAMES if not name.startswith("."))
    if strangers:
        shown = ", ".join(strangers[:3]) + (", ..." if len(strangers) > 3 else "")
        raise ForeignEnvironment(
            f"data directory {data_dir} is not empty and holds no Tidegate environment (it holds {shown}); "
            "choose another --data-dir"
        )


class ProcessFiles:
    """`Liveness` on one host: a locked file per process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: int | None = None
        self._own_path: Path | None = None
        folder.mkdir(exist_ok=True)

    def announce(self, process: str) -> None:
        """Hold the file of this process from now on."""
        self._own_path = self._folder / f"{process}.lock"
        self._own = os.open(self._own_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._own, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def is_dead(self, process: str) -> bool:
        """Whether `process` has certainly ended. False when it is alive or on another host."""
        path = self._folder / f"{process}.lock"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            # It announces itself before it takes its lease, and leaves only after it has given it up.
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        path.unlink(missing_ok=True)
        return True

    def close(self) -> None:
        """Give the file of this process up."""
        if self._own is not None and self._own_path is not None:
            self._own_path.unlink(missing_ok=True)
            os.close(self._own)
            self._own = None


@contextlib.contextmanager
def _directory_lock(data_dir: Path, *, shared: bool) -> Iterator[None]:
    """Hold the lock on `data_dir`."""
    path = data_dir / "server.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 32).decode(errors="replace").strip()
            raise DataDirectoryInUse(
                f"data directory {data_dir} is in use by another server"
                + (f" (process {owner})" if owner else "")
                + "; stop it first or choose another --data-dir"
            ) from None
        if not shared:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
