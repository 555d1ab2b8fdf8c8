"""Files that a process writes for Spark beside the tables' own, where the executors can read them."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from adapter.engines.spark.cluster.object_store import ClusterStore


class SideFiles(Protocol):
    """Files of views, which go with them. `shared`: the executors see this machine's folders too. Everything blocks,
    and may be called by several threads."""

    shared: bool

    def write(self, table: pa.Table, view: str, name: str) -> str:
        """Write `table` as a Parquet file that belongs to `view`; what Spark opens to read it."""
        ...

    def sent(self, path: Path, *, view: str) -> str:
        """What Spark opens to read the file `path` of this machine, which belongs to `view`."""
        ...

    def remove(self, view: str) -> None:
        """Remove the files of a view."""
        ...


class FolderFiles:
    """`SideFiles` in a folder that the executors can read."""

    shared = True

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, table: pa.Table, view: str, name: str) -> str:
        """See `SideFiles.write`."""
        folder = self._directory / "row-ids" / view
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.parquet"
        pq.write_table(table, path, compression="snappy", row_group_size=1 << 20)
        return str(path)

    def sent(self, path: Path, *, view: str) -> str:
        """See `SideFiles.sent`."""
        return str(path)

    def remove(self, view: str) -> None:
        """See `SideFiles.remove`."""
        shutil.rmtree(self._directory / "row-ids" / view, ignore_errors=True)


class StoredFiles:
    """`SideFiles` in an object store."""

    shared = False

    def __init__(self, store: ClusterStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._keys: dict[str, list[str]] = {}

    def write(self, table: pa.Table, view: str, name: str) -> str:
        """See `SideFiles.write`."""
        return self._noted(self._store.put_table(table), view)

    def sent(self, path: Path, *, view: str) -> str:
        """See `SideFiles.sent`."""
        return self._noted(self._store.put_file(path), view)

    def _noted(self, key: str, view: str) -> str:
        with self._lock:
            self._keys.setdefault(view, []).append(key)
        return self._store.uri(key)

    def remove(self, view: str) -> None:
        """See `SideFiles.remove`."""
        with self._lock:
            keys = self._keys.pop(view, [])
        if keys:
            self._store.remove(keys)
