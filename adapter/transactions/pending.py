"""What a transaction reads and what it will do when it commits, as values: its state, its snapshot, its `Pending`, its
savepoints.

A `Pending` never changes, so that a savepoint is the old reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from immutables import Map
from msgspec import Struct, field
from msgspec.structs import replace

from adapter.settings.values import SettingValues
from adapter.store_errors import CONCURRENT_DDL, serialization_failure
from adapter.transactions.claims import Claim
from adapter.transactions.decided_rows import Replacement
from adapter.transactions.locks.modes import Mode
from adapter.transactions.locks.tags import Tag
from planner.errors import InvalidSavepointSpecification
from storage.catalog.model import CatalogSnapshot, CatalogUpdate
from storage.catalog.store import net_updates
from storage.catalog.temporary import TemporaryObjects
from storage.persistent_list import PersistentList
from storage.shards.parts import Part
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from storage.transactions.txn import Savepoint as StorageSavepoint
    from storage.transactions.txn import Txn


class State(StrEnum):
    """Where a transaction is; the module's table says what each state allows."""

    NEW = "new"
    PROVISIONAL = "provisional"
    READING = "reading"
    DEFINING = "defining"
    ASSUMING = "assuming"
    FAILED = "failed"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    IN_DOUBT = "in doubt"


class May:
    """The states in which a transaction may do what."""

    OPEN = frozenset({State.NEW, State.PROVISIONAL, State.READING, State.DEFINING, State.ASSUMING})
    BEGIN = OPEN - {State.ASSUMING}
    WRITE = OPEN - {State.NEW}
    READ = frozenset({State.READING, State.DEFINING, State.ASSUMING})
    END: ClassVar = {
        State.COMMITTED: OPEN | {State.COMMITTING},
        State.ROLLED_BACK: OPEN | {State.FAILED, State.COMMITTING},
        State.IN_DOUBT: frozenset({State.COMMITTING}),
    }
    """The ends, and the states before each."""


UNREAD = (State.PROVISIONAL, State.ASSUMING)
"""The states whose snapshot is perhaps not the newest: a query has to have another one."""


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
    base: CatalogSnapshot | None = None
    """That catalog before them."""
    temporary: TemporaryObjects | None = None
    """The session's temporary objects as the transaction has made them; None when it has none."""
    notifications: PersistentList[tuple[str, str]] = PersistentList()
    listens: tuple[tuple[str, str | None], ...] = ()
    claims: PersistentList[Claim] = PersistentList()
    """What the commit holds against what others have written since."""
    replacements: PersistentList[Replacement] = PersistentList()
    """Rows that were replaced or deleted, and what took their places."""
    replaces_temporary: bool = False
    """Whether some of them are of temporary tables, which nobody else waits for."""
    deferred: PersistentList[DeferredKeys] = PersistentList()
    """Keys that a deferred constraint has yet to check."""
    timings: Mapping[int, bool] = field(default_factory=dict)
    """What SET CONSTRAINTS has said: by oid of the constraint whether it is deferred, 0 for all others."""

    large_objects: LargeObjects = LargeObjects()
    new_labels: frozenset[int] = frozenset()
    """The labels (oids) that were added to enums, which nobody may use before the commit."""

    def over(self, base: CatalogSnapshot) -> Pending:
        """The same over another catalog. 40001 when the definitions do not fit that."""
        if base is self.base or not self.updates:
            return self
        try:
            return replace(self, catalog=base.apply(self.net_updates(), base.csn), base=base)
        except ValueError as error:
            raise serialization_failure(CONCURRENT_DDL) from error

    def net_updates(self) -> tuple[CatalogUpdate, ...]:
        """What the `updates` come to: at most one retraction and one addition for each object."""
        before, after = self.base, self.catalog
        if before is None or after is None:
            return ()
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


def differ(locked: Iterable[tuple[Tag, Mode]], before: CatalogSnapshot, now: CatalogSnapshot) -> bool:
    """Whether something of what is `locked` is not defined in `now` as it was `before`; any name may be."""
    for (kind, oid, _), _ in locked:
        if kind == "name":
            return True
        if kind == "relation" and (
            before.get(oid) != now.get(oid)
            or before.constraint_oids.get(oid) != now.constraint_oids.get(oid)
            or before.index_oids.get(oid) != now.index_oids.get(oid)
        ):
            return True
    return False


class Mark(Struct, frozen=True, kw_only=True):
    """A place in a transaction that it can be taken back to; a savepoint when it has a name."""

    name: str
    rows: StorageSavepoint | None
    temporary_rows: StorageSavepoint | None
    settings: SettingValues
    pending: Pending
    read_only: bool


def savepoint_named(savepoints: Sequence[Mark], name: str) -> int:
    """Where the newest savepoint of this name is. Raises 3B001 where there is none."""
    for index in reversed(range(len(savepoints))):
        if savepoints[index].name == name:
            return index
    raise InvalidSavepointSpecification(f'savepoint "{name}" does not exist')
