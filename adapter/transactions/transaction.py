"""One SQL transaction of a session: its snapshot, its writes, what it read, its savepoints.

A transaction begins without a snapshot. The first statement that needs one takes the newest CSN that is visible to
everybody, and the catalog as of then; with READ COMMITTED each statement takes a new one. Statements that only add rows
make do with what this process knows. Writes collect in a
`storage` transaction; DDL collects as catalog updates over `catalog`, so that later statements see them. Nothing is
shared with other sessions before `commit_request` goes through the group committer.

What is read is recorded (`record_read`), because a SERIALIZABLE transaction that also wrote commits only if none of
it has changed since (see `adapter.transactions.validation`). The catalog records that statements relied on are kept
for the same reason.

A savepoint keeps references to immutable values (settings, catalog) and a mark in the storage transaction, so it
costs the same whatever has been done before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct, field

from adapter.plans.predicates import Conjunction
from adapter.settings.values import SettingValues
from adapter.transactions.claims import Claim
from adapter.transactions.locks.lock_table import SessionLocks
from adapter.transactions.locks.modes import Mode
from adapter.transactions.locks.tags import Tag
from planner.errors import InvalidSavepointSpecification
from storage.catalog.model import CatalogRecord, CatalogSnapshot, CatalogUpdate, Relation
from storage.ids import ShardId
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from storage.environment.environment import Environment
    from storage.membership.leases import ReadHold
    from storage.transactions.txn import Savepoint as StorageSavepoint
    from storage.transactions.txn import Txn


class Isolation(Enum):
    """SQL's isolation levels by name. SERIALIZABLE is strict serializable."""

    READ_UNCOMMITTED = "read uncommitted"
    READ_COMMITTED = "read committed"
    REPEATABLE_READ = "repeatable read"
    SERIALIZABLE = "serializable"

    @property
    def keeps_snapshot(self) -> bool:
        """Whether all statements read one snapshot."""
        return self in (Isolation.REPEATABLE_READ, Isolation.SERIALIZABLE)


ISOLATION_LEVELS = {level.value: level for level in Isolation}
"""The levels by SQL's name in lower case."""

IDLE, IN_BLOCK, FAILED = "I", "T", "E"
"""ReadyForQuery's transaction status: outside a block, in one, in one that has failed."""


class TableRead(Struct, frozen=True, kw_only=True):
    """What was read of one table at `as_of`: the rows that satisfy one of `conjunctions`."""

    relation_oid: int
    shard: ShardId
    as_of: Csn
    conjunctions: tuple[Conjunction, ...]


class DeferredKeys(Struct, frozen=True, kw_only=True):
    """Keys (by columns) that have to be checked against the constraint with oid `constraint` once that is immediate.
    `referenced`: they are of rows that a foreign key refers to, and no longer there."""

    constraint: int
    keys: tuple[pa.Array, ...]
    referenced: bool = False


class NeedsSnapshot(Exception):
    """A statement that was begun without asking for the newest snapshot turns out to read rows."""


class BeginAgain(Exception):
    """What a statement was planned and read for has changed while it waited for a lock, which it keeps. Nothing of it
    has happened yet, and it has to begin again, at a newer snapshot."""


class Mark(Struct):
    """A place in a transaction that it can be taken back to; a savepoint when it has a name."""

    name: str
    mark: StorageSavepoint | None
    settings: SettingValues
    catalog: CatalogSnapshot | None
    updates: int
    notifications: int
    listens: int
    claims: int
    deferred: tuple[DeferredKeys, ...]
    timings: Mapping[int, bool]


class CommitRequest(Struct, frozen=True, kw_only=True):
    """What the group committer needs of a transaction that wants to commit."""

    txn: Txn
    isolation: Isolation
    snapshot: Csn
    reads: tuple[TableRead, ...]
    catalog_updates: tuple[CatalogUpdate, ...]
    catalog_reads: dict[int, CatalogRecord]
    created: frozenset[ShardId] = frozenset()
    claims: tuple[Claim, ...] = ()
    catalog_base: Csn | None = None
    """The catalog's CSN that no other change may have followed, for definitions that were worked out without asking for
    the newest catalog."""


class Transaction(Struct, kw_only=True):
    """See the module's contract. `implicit` transactions end with their statement, query string or Sync."""

    isolation: Isolation
    read_only: bool
    deferrable: bool
    implicit: bool
    started_at: datetime
    settings_at_start: SettingValues
    locks: SessionLocks
    decided_after: Callable[[Csn], tuple[Txn, ...]] | None = None
    """The transactions of this process that are decided and not durable, beyond a snapshot."""
    ahead: tuple[Txn, ...] = ()
    """Those of them that the statement sees besides its snapshot, with READ UNCOMMITTED."""
    after: asyncio.Future[Csn] | None = None
    """An earlier commit of the session; what reads waits until it is visible."""
    snapshot: Csn | None = None
    first_snapshot: Csn | None = None
    provisional: bool = False
    """The snapshot has not been read at, and is perhaps not the newest."""
    base_catalog: CatalogSnapshot | None = None
    catalog: CatalogSnapshot | None = None
    updates: list[CatalogUpdate] = field(default_factory=list)
    txn: Txn | None = None
    reads: list[TableRead] = field(default_factory=list)
    catalog_reads: dict[int, CatalogRecord] = field(default_factory=dict)
    notifications: list[tuple[str, str]] = field(default_factory=list)
    listens: list[tuple[str, str | None]] = field(default_factory=list)
    statements: int = 0
    failed: bool = False
    fresh: bool = False
    """Whether the statement that runs has taken the snapshot, so that nothing else has been read at it."""
    created_shards: set[ShardId] = field(default_factory=set)
    hold: ReadHold | None = None
    id: int | None = None
    relies_on_catalog: bool = False
    """Its definitions hold for the catalog that it began with and no later one."""
    pg_snapshot: tuple[Csn, str] | None = None
    """PostgreSQL's form of the snapshot at this CSN, once somebody has asked for it."""
    in_doubt: bool = False
    """Its commit ended without anybody knowing whether it happened."""
    claims: list[Claim] = field(default_factory=list)
    """What the commit holds against what others have written since."""
    deferred: tuple[DeferredKeys, ...] = ()
    """Keys that a deferred constraint has yet to check."""
    timings: Mapping[int, bool] = field(default_factory=dict)
    """What SET CONSTRAINTS has said: by oid of the constraint whether it is deferred, 0 for all others."""
    _savepoints: list[Mark] = field(default_factory=list)

    # ------------------------------------------------------------ snapshots

    async def begin_statement(self, env: Environment, *, reads: bool = True) -> CatalogSnapshot:
        """Take the snapshot that the next statement reads at, where it needs a new one; its catalog.

        With `reads` False the statement reads no rows, so the newest snapshot that this process knows of will do and
        costs no store operation: what it relies on is validated when the transaction commits. The first statement that
        does read then takes a new one.
        """
        self.statements += 1
        self.fresh = False
        if reads and self.after is not None:
            await asyncio.wait((self.after,))
            self.after = None
        if self._needs_snapshot(reads):
            as_of = await env.oracle.read_ts("user") if reads else Csn(env.cache.upper - 1)
            catalog = env.catalog.current()
            self.snapshot = max(as_of, catalog.csn)
            if self.isolation is Isolation.READ_UNCOMMITTED and reads and self.decided_after is not None:
                self.ahead = self.decided_after(self.snapshot)
            if self.first_snapshot is None and reads:
                self.first_snapshot = self.snapshot
            self.provisional = not reads
            self.fresh = True
            self.base_catalog = self.catalog = catalog
            if self.hold is not None and not self.has_writes:
                self.hold.release()
                self.hold = None
            if self.hold is None:
                self.hold = await env.leases.hold((), self.snapshot)
        assert self.catalog is not None
        return self.catalog

    @property
    def may_renew(self) -> bool:
        """Whether the statement that runs may have another snapshot than the one that it has."""
        return not self.updates and (self.fresh or not self.isolation.keeps_snapshot)

    def renew(self) -> None:
        """Let the statement begin again, at a newer snapshot. Only if it may (`may_renew`)."""
        if self.isolation.keeps_snapshot:
            self.snapshot = self.first_snapshot = None
            self.reads.clear()

    async def lock(self, wanted: Iterable[tuple[Tag, Mode]], *, begin_again: bool = True) -> None:
        """Take locks before the statement runs. With `begin_again`, raises BeginAgain when one had to be waited for and
        the statement may have another snapshot; besides what waiting for a lock raises."""
        waited = False
        for tag, mode in wanted:
            waited |= await self.locks.lock(tag, mode)
        if waited and begin_again and self.may_renew:
            raise BeginAgain

    @property
    def statement_catalog(self) -> CatalogSnapshot:
        """The catalog of the statement that has begun."""
        assert self.catalog is not None
        return self.catalog

    def _needs_snapshot(self, reads: bool) -> bool:
        if self.snapshot is None or (self.provisional and reads):
            return True
        return not self.isolation.keeps_snapshot and not self.updates

    def planning_catalog(self, env: Environment) -> CatalogSnapshot:
        """The catalog to bind a statement against: the transaction's own, or the newest that this process knows."""
        if self.catalog is not None and (self.isolation.keeps_snapshot or self.updates):
            return self.catalog
        return env.catalog.current()

    async def refresh_catalog(self, env: Environment) -> None:
        """Let `planning_catalog` be as new as anything acknowledged so far, by whatever process."""
        if self.catalog is None or self.provisional or not (self.isolation.keeps_snapshot or self.updates):
            await env.oracle.read_ts("catalog")

    # ------------------------------------------------------------ reads and writes

    def writable(self, env: Environment) -> Txn:
        """The storage transaction, begun when first needed."""
        if self.txn is None:
            self.txn = env.begin()
        return self.txn

    def record_read(self, read: TableRead, *, always: bool = False) -> None:
        """Remember what was read, for validation: when SERIALIZABLE, and for FOR UPDATE (`always`) at any level."""
        if always or self.isolation is Isolation.SERIALIZABLE:
            self.reads.append(read)

    def rely_on(self, records: Iterable[CatalogRecord]) -> None:
        """Remember catalog records that a statement was planned with, as they were before this transaction."""
        base = self.base_catalog
        if base is None:
            return
        for record in records:
            known = base.get(record.oid)
            if known is not None:
                self.catalog_reads.setdefault(record.oid, known)

    def change_catalog(self, updates: Sequence[CatalogUpdate]) -> None:
        """Add DDL to the transaction; its later statements see it."""
        assert self.catalog is not None
        self.catalog = self.catalog.apply(updates, self.catalog.csn)
        self.updates.extend(updates)

    def is_own_table(self, relation: Relation) -> bool:
        """Whether the relation's shard was made by this transaction, so that nobody else has written to it."""
        base = None if self.base_catalog is None else self.base_catalog.get(relation.oid)
        return not (isinstance(base, Relation) and base.shard == relation.shard)

    def net_updates(self) -> tuple[CatalogUpdate, ...]:
        """What the transaction's DDL comes to: at most one retraction and one addition for each object."""
        before, after = self.base_catalog, self.catalog
        if before is None or after is None:
            return ()
        net: list[CatalogUpdate] = []
        for oid in dict.fromkeys(update.record.oid for update in self.updates):
            old, new = before.get(oid), after.get(oid)
            if old == new:
                continue
            if old is not None:
                net.append(CatalogUpdate(record=old, diff=-1))
            if new is not None:
                net.append(CatalogUpdate(record=new, diff=1))
        return tuple(net)

    @property
    def has_writes(self) -> bool:
        """Whether there is something to commit."""
        return bool(self.updates) or (self.txn is not None and not self.txn.is_empty)

    def commit_request(self, env: Environment) -> CommitRequest:
        """What goes to the group committer."""
        snapshot = self.snapshot if self.first_snapshot is None else self.first_snapshot
        assert snapshot is not None
        txn = self.writable(env)
        txn.xid = self.id
        return CommitRequest(
            txn=txn,
            isolation=self.isolation,
            snapshot=snapshot,
            reads=tuple(self.reads),
            claims=tuple(self.claims),
            catalog_updates=self.net_updates(),
            catalog_reads=self.catalog_reads,
            created=frozenset(self.created_shards),
            catalog_base=self.base_catalog.csn if self.relies_on_catalog and self.base_catalog is not None else None,
        )

    def fail(self) -> None:
        """A statement of a block has failed: nothing but its end, or the way back to a savepoint, is left to it.

        It lets go of its locks, those from before its last savepoint excepted."""
        self.failed = True
        self.locks.roll_back_to(self.savepoint_depth)

    def end(self) -> None:
        """Let go of what the transaction held, after its commit or rollback."""
        self.locks.end()
        if self.hold is not None:
            self.hold.release()
            self.hold = None

    def abandon(self) -> None:
        """Drop what was written."""
        if self.txn is not None:
            self.txn.abandon()
            self.txn = None

    # ------------------------------------------------------------ savepoints

    def define_savepoint(self, name: str, settings: SettingValues) -> None:
        """SAVEPOINT: a name may be used again and hides the older one."""
        self._savepoints.append(self.mark(settings, name))
        self.locks.savepoint()

    def mark(self, settings: SettingValues, name: str = "") -> Mark:
        """Where the transaction is now, for `undo`."""
        return Mark(
            name=name,
            mark=None if self.txn is None else self.txn.savepoint(),
            settings=settings,
            catalog=self.catalog,
            updates=len(self.updates),
            notifications=len(self.notifications),
            listens=len(self.listens),
            claims=len(self.claims),
            deferred=self.deferred,
            timings=self.timings,
        )

    @property
    def savepoint_depth(self) -> int:
        """How many savepoints are open."""
        return len(self._savepoints)

    def release_savepoint(self, name: str) -> None:
        """RELEASE: forgets it and all later ones. 3B001 when there is none."""
        index = self._find(name)
        del self._savepoints[index:]
        self.locks.release_savepoint(index + 1)

    def rollback_to_savepoint(self, name: str) -> tuple[SettingValues, int]:
        """ROLLBACK TO: undoes everything since, keeps the savepoint. Returns the settings as they were, and the
        depth (portals made deeper are gone). 3B001 when there is no such savepoint."""
        index = self._find(name)
        frame = self._savepoints[index]
        del self._savepoints[index + 1 :]
        self.undo(frame)
        self.locks.roll_back_to(index + 1)
        self.failed = False
        return frame.settings, index + 1

    def undo(self, frame: Mark) -> None:
        """Take back what was done since `frame`."""
        if self.txn is not None:
            if frame.mark is None:
                self.txn.abandon()
                self.txn = None
            else:
                self.txn.rollback_to(frame.mark)
        if frame.catalog is not None:
            self.catalog = frame.catalog
        elif self.base_catalog is not None:
            self.catalog = self.base_catalog
        del self.updates[frame.updates :]
        del self.notifications[frame.notifications :]
        del self.listens[frame.listens :]
        del self.claims[frame.claims :]
        self.deferred, self.timings = frame.deferred, frame.timings

    def _find(self, name: str) -> int:
        for index in range(len(self._savepoints) - 1, -1, -1):
            if self._savepoints[index].name == name:
                return index
        raise InvalidSavepointSpecification(f'savepoint "{name}" does not exist')
