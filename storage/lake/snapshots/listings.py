"""Looks tables up by their metadata, and remembers what cannot change. Thread-safe; everything blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

import pyarrow as pa
from msgspec import Struct

from storage.bounded_map import BoundedMap
from storage.lake.places import Places
from storage.lake.snapshots.tables import SnapshotListing, SnapshotTable
from storage.shards.parts import Part

TableFormat: TypeAlias = Literal["iceberg", "delta"]

KNOWN_BYTES = 128 << 20
"""How much of listings is remembered."""

FILE_BYTES = 1024
"""About what a file takes of that."""


class WhichSnapshot(Struct, frozen=True, kw_only=True):
    """A state of a table: the newest, one by its number (an Iceberg snapshot's id, a Delta table's version), or that of
    a moment."""

    number: int | None = None
    as_of: datetime | None = None


class SnapshotTables:
    """Tables at some places."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._lock = threading.Lock()
        self._known: BoundedMap[tuple[str, WhichSnapshot], SnapshotListing] = BoundedMap(max_bytes=KNOWN_BYTES)

    def table(
        self,
        path: str,
        format: TableFormat,
        which: WhichSnapshot,
        *,
        declared: Sequence[pa.Field] | None = None,
        wanted: Callable[[Part], bool] | None = None,
    ) -> SnapshotTable:
        """The table at `path`: see `SnapshotTable`. Raises FileTrouble."""
        listing = self._iceberg(path, which) if format == "iceberg" else self._delta(path, which)
        return SnapshotTable(self.places, listing, declared=declared, wanted=wanted)

    def _iceberg(self, path: str, which: WhichSnapshot) -> SnapshotListing:
        from storage.lake.snapshots.iceberg import iceberg_listing, newest_metadata

        # What a metadata file says never changes, only which one is the newest.
        slot = (newest_metadata(self.places, path), which)
        with self._lock:
            known = self._known.get(slot)
            if known is not None:
                self._known.touch(slot)
                return known
        found = iceberg_listing(self.places, path, slot[0], snapshot_id=which.number, as_of=which.as_of)
        with self._lock:
            self._known.put(slot, found, FILE_BYTES * (1 + len(found.files)))
        return found

    def _delta(self, path: str, which: WhichSnapshot) -> SnapshotListing:
        from storage.lake.snapshots.delta import delta_listing

        return delta_listing(self.places, path, version=which.number, as_of=which.as_of)
