"""What a transaction reads and what it will do when it commits, as values: its snapshot, its `Pending`, its savepoints.

A `Pending` never changes, so that a savepoint is the old reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from immutables import Map
from msgspec import Struct, field

from adapter.settings.values import SettingValues
from adapter.transactions.claims import Claim
from adapter.transactions.decided_rows import Replacement
from storage.catalog.model import CatalogSnapshot, CatalogUpdate
from storage.catalog.store import net_updates
from storage.catalog.temporary import TemporaryObjects
from storage.persistent_list import PersistentList
from storage.shards.parts import Part
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from storage.transactions.txn import Savepoint as StorageSavepoint
    from storage.transactions.txn import Txn


class DeferredKeys(Struct, frozen=True, kw_only=True):
    """Keys (by columns) that have to be checked against the constraint with oid `constraint` once that is immediate.
    `referenced`: they are of rows that a foreign key refers to, and no longer there."""

    constraint: int
    keys: tuple[pa.Array, ...]
    referenced: bool = False


class Snapshot(Struct, frozen=True, kw_only=True):
    """What statements read: everything up to `csn`, and the shared `catalog` as of then."""

    csn: Csn
    catalog: CatalogSnapshot
    provisional: bool = False
    """It is the newest that this process knew of, and perhaps not the newest of all."""
    ahead: tuple[Txn, ...] = ()
    """Decided transactions that are seen besides, with READ UNCOMMITTED."""


class Descriptor(Struct, eq=False, kw_only=True):
    """A large object that is open. Where it stands is not taken back with a savepoint."""

    oid: int
    reads: bool
    writes: bool
    position: int = 0
    as_of: Csn | None = None
    """What is only read stays as it was at this CSN; None: what is written shows the newest."""
    own: tuple[Part, ...] = ()
    """Then also what the transaction itself had written of pages."""
    ahead_from: int = 0
    ahead: bytes = b""
    """What has been read ahead, and from where."""


class Touched(Struct, frozen=True, kw_only=True):
    """A large object that the transaction has written to, at its end: its last page (-1: it has none), with the id of
    the row that holds it."""

    page: int = -1
    row_id: int = 0
    data: bytes = b""


class LargeObjects(Struct, frozen=True, kw_only=True):
    """What a transaction has open of large objects, by descriptor, and which it has written to."""

    descriptors: Map[int, Descriptor] = Map()
    touched: Map[int, Touched] = Map()


class Pending(Struct, frozen=True, kw_only=True):
    """What the commit will carry out besides writing rows: all that a savepoint brings back of the transaction."""

    updates: tuple[CatalogUpdate, ...] = ()
    catalog: CatalogSnapshot | None = None
    """The snapshot's catalog after `updates`, if there are any."""
    temporary: TemporaryObjects | None = None
    """The session's temporary objects as the transaction has made them; None when it has none."""
    notifications: PersistentList[tuple[str, str]] = PersistentList()
    listens: tuple[tuple[str, str | None], ...] = ()
    claims: PersistentList[Claim] = PersistentList()
    """What the commit holds against what others have written since."""
    replacements: PersistentList[Replacement] = PersistentList()
    """Rows that were replaced or deleted, and what took their places."""
    deferred: PersistentList[DeferredKeys] = PersistentList()
    """Keys that a deferred constraint has yet to check."""
    timings: Mapping[int, bool] = field(default_factory=dict)
    """What SET CONSTRAINTS has said: by oid of the constraint whether it is deferred, 0 for all others."""

    large_objects: LargeObjects = LargeObjects()

    def net_updates(self, before: CatalogSnapshot) -> tuple[CatalogUpdate, ...]:
        """What the `updates` of the catalog `before` come to: at most one retraction and one addition for each
        object."""
        if self.catalog is None:
            return ()
        after = self.catalog
        # Objects of other databases are in neither.
        net = net_updates(
            u for u in self.updates if u.record.oid not in before.records and u.record.oid not in after.records
        )
        for oid in dict.fromkeys(update.record.oid for update in self.updates):
            old, new = before.get(oid), after.get(oid)
            if old == new:
                continue
            if old is not None:
                net.append(CatalogUpdate(record=old, diff=-1))
            if new is not None:
                net.append(CatalogUpdate(record=new, diff=1))
        return tuple(net)


class Mark(Struct, frozen=True, kw_only=True):
    """A place in a transaction that it can be taken back to; a savepoint when it has a name."""

    name: str
    rows: StorageSavepoint | None
    temporary_rows: StorageSavepoint | None
    settings: SettingValues
    pending: Pending
    read_only: bool
