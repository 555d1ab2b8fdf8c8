"""One SQL transaction of a session: its state, its snapshot, its writes, what it read, its savepoints.

A transaction begins without a snapshot. The first statement that needs one takes the newest CSN that is visible to
everybody, and the catalog as of then; with READ COMMITTED each statement takes a new one. Statements that only add rows
make do with what this process knows: their snapshot is provisional, and no query reads at it. Rows collect in a
`storage` transaction; definitions, notifications and LISTENs in a `Pending`, over the snapshot's catalog, so that later
statements see what was defined. Nothing is shared with other sessions before `commit_request` goes through the group
committer.

What each state allows, and the state that it leads to ("yes": the same one). A dot is a bug of the caller
(`InternalError`); 25001 is the client's error.

    state        to read   to add       renew  assume    define    read  write  savepoint  isolation  fail    commit
    -----------  --------  -----------  -----  --------  --------  ----  -----  ---------  ---------  ------  ----------
    new          reading   provisional  .      .         .         .     .      yes        yes        failed  .
    provisional  reading   provisional  new    assuming  .         .     yes    yes        25001      failed  committing
    reading      reading   provisional  new    .         defining  yes   yes    yes        25001      failed  committing
    defining     defining  defining     .      .         defining  yes   yes    yes        25001      failed  committing
    assuming     .         .            new    .         assuming  yes   yes    yes        25001      failed  committing
    failed       .         .            .      .         .         .     .      .          .          failed  .
    committing   .         .            .      .         .         .     .      .          .          .       .
    committed    .         .            .      .         .         .     .      .          .          .       .
    rolled back  .         .            .      .         .         .     .      .          .          .       .
    in doubt     .         .            .      .         .         .     .      .          .          .       .

A statement begins *to read* or *to add* (`begin_statement`). At the levels that keep their snapshot
(`Isolation.keeps_snapshot`) one that begins to add leaves *reading* as it is, and only the statement that took the
snapshot may begin again (`renew`), at others any that has not defined anything. At these a statement of who is
*defining* has a new snapshot too, over whose catalog go the definitions there are. *Assuming* is a definition that was
worked out from the newest catalog known here and commits only if that was the newest of all.

Each of the first five states and *committing* may end *committed* or *rolled back*, *failed* only *rolled back*. A
commit of which nobody knows whether it happened ends *in doubt* (`end`); one that was answered early is *committed*
until then (`doubt`).

A savepoint is the old `Pending`, which never changes, and a mark in the storage transaction, so it costs the same
whatever has been done before it. NOTIFY, LISTEN and SET CONSTRAINTS are allowed where a savepoint is, claims and
deferred checks where rows are written. Going back to a savepoint (also out of *failed*) gives the state that the old
`Pending` makes of the snapshot, which stays: *defining* when it defines something, otherwise *reading* and so on.

What is read is recorded (`record_read`), because a SERIALIZABLE transaction that also wrote commits only if none of
it has changed since (see `adapter.transactions.validation`). The catalog records that statements relied on are kept
for the same reason. A savepoint takes neither back: the client has seen what was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from adapter.settings.values import SettingValues
from adapter.transactions.claims import Claim
from adapter.transactions.commit_request import CatalogReads, CommitRequest, Isolation, TableRead
from adapter.transactions.decided_rows import Decided, Replacement, durable, names_landed, settled
from adapter.transactions.locks.lock_table import SessionLocks
from adapter.transactions.locks.modes import Mode
from adapter.transactions.locks.tags import Tag
from adapter.transactions.pending import DeferredKeys, Mark, May, Pending, Snapshot, State, differ, savepoint_named
from adapter.transactions.temporary import TemporarySpace, refuse_temporary_uses
from planner.errors import (
    ActiveSqlTransaction,
    InternalError,
    ReadOnlySqlTransaction,
    SerializationFailure,
)
from planner.types.composites import with_forms
from storage.catalog.model import CatalogRecord, CatalogSnapshot, CatalogUpdate, Relation
from storage.catalog.temporary import FIRST_TEMPORARY_OID, TemporaryObjects
from storage.ids import ShardId, is_temporary
from storage.persistent_list import PersistentList
from storage.shards.parts import Part
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from storage.catalog.store import CatalogStore
    from storage.environment.environment import Environment
    from storage.membership.leases import ReadHold
    from storage.transactions.txn import Txn


class NeedsSnapshot(Exception):
    """A statement that was begun without asking for the newest snapshot turns out to read rows."""


class BeginAgain(Exception):
    """What a statement was planned and read for has changed while it waited for a lock, which it keeps. Nothing of it
    has happened yet, and it has to begin again, at a newer snapshot."""


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
    after: asyncio.Future[Csn] | None = None
    """An earlier commit of the session; what reads waits until it is visible."""
    state: State = State.NEW
    snapshot: Snapshot | None = None
    first_read_at: Csn | None = None
    """The CSN of the first snapshot that was taken to read."""
    pending: Pending = Pending()
    txn: Txn | None = None
    reads: list[TableRead] = field(default_factory=list)
    catalog_reads: CatalogReads = field(default_factory=dict)
    looks_back: bool = False
    """Whether its snapshot is of the past (`adapter.transactions.past`), so that nothing is written."""
    fresh: bool = False
    """Whether the statement that runs has taken the snapshot, so that nothing else has been read at it."""
    created_shards: set[ShardId] = field(default_factory=set)
    temporary: TemporarySpace | None = None
    """Where the session keeps its temporary objects, once it has had any."""
    hold: ReadHold | None = None
    id: int | None = None
    pg_snapshot: tuple[Csn, str] | None = None
    """PostgreSQL's form of the snapshot at this CSN, once somebody has asked for it."""
    exported: list[ReadHold] = field(default_factory=list)
    held: list[ReadHold] = field(default_factory=list)
    """Its snapshots at which others may read (pg_export_snapshot); what it reads of the past or copies."""
    followed: list[Decided] = field(default_factory=list)
    """Those whose rows it has gone on from before they were durable: its client hears nothing before they are."""
    seen: dict[ShardId, set[int]] = field(default_factory=dict)
    """Versions of rows, since the snapshot, that it has gone on from, and what took their places."""
    own_before: Mapping[ShardId, tuple[Part, ...]] = field(default_factory=dict)
    """What the statement that runs sees of own rows, of tables that it writes to."""
    savepoints: list[Mark] = field(default_factory=list)
    _reads_before: int = 0
    """How much of what was read was so by earlier statements."""
    _followed_before: int = 0
    """How many were followed by earlier statements."""
    _relied_before: int = 0
    _updates_before: Sequence[CatalogUpdate] = ()
    """How many definitions earlier statements relied on, and what they have defined."""
    _definitions: CatalogStore | None = None
    _known: CatalogSnapshot | None = None
    _has_moved: bool = False

    def _not_now(self, what: str) -> InternalError:
        return InternalError(f"cannot {what} in a transaction that is {self.state.value}")

    # ------------------------------------------------------------ characteristics

    def set_isolation(self, isolation: Isolation) -> None:
        """SET TRANSACTION ISOLATION LEVEL. 25001 after the first query."""
        if self.state not in May.OPEN:
            raise self._not_now("change the isolation level")
        if isolation is self.isolation:
            return
        if self.state is not State.NEW:
            raise ActiveSqlTransaction("SET TRANSACTION ISOLATION LEVEL must be called before any query")
        if self.savepoints:
            raise ActiveSqlTransaction("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
        self.isolation = isolation

    def set_read_only(self, read_only: bool) -> None:
        """SET TRANSACTION READ ONLY or READ WRITE. 25001 for READ WRITE after the first query."""
        if not read_only and self.read_only:
            if self.savepoints:
                raise ActiveSqlTransaction("cannot set transaction read-write mode inside a read-only transaction")
            if self.state is not State.NEW:
                raise ActiveSqlTransaction("transaction read-write mode must be set before any query")
        self.read_only = read_only

    def check_writable(self, command: str) -> None:
        """25006 for `command` when the transaction is read-only."""
        if self.read_only or self.looks_back:
            raise ReadOnlySqlTransaction(f"cannot execute {command} in a read-only transaction")

    # ------------------------------------------------------------ snapshots

    async def begin_statement(self, env: Environment, *, reads: bool = True) -> CatalogSnapshot:
        """Take the snapshot that the next statement reads at, where it needs a new one; its catalog.

        With `reads` False the statement reads no rows, so the newest snapshot that this process knows of will do and
        costs no store operation: what it relies on is validated when the transaction commits. The first statement that
        does read then takes a new one. One that reads also waits until those are durable whom earlier ones have
        followed; 40001 when they are lost.
        """
        self.fresh, self._definitions = False, env.catalog
        if self.looks_back:
            return self.catalog
        self._reads_before = len(self.reads)
        self._relied_before, self._updates_before = len(self.catalog_reads), self.pending.updates
        if reads and self.followed:
            await self.settled()
        self._followed_before = len(self.followed)
        state = self.state
        if state not in May.BEGIN:
            raise self._not_now("begin a statement")
        if reads and self.after is not None:
            await asyncio.wait((self.after,))
            self.after = None
        if (
            state is State.NEW
            or (state is State.PROVISIONAL and reads)
            or (not self.isolation.keeps_snapshot and (reads or state is not State.DEFINING or self._is_outdated()))
        ):
            reads = reads or state is State.DEFINING
            as_of = await env.oracle.read_ts("user") if reads else Csn(env.cache.upper - 1)
            catalog = env.catalog.current(self.locks.owner.database_oid)
            csn, self._known = max(as_of, catalog.csn), env.catalog.newest
            ahead: tuple[Txn, ...] = ()
            if self.isolation is Isolation.READ_UNCOMMITTED and reads and self.decided_after is not None:
                ahead = self.decided_after(csn)
            self.snapshot = Snapshot(csn=csn, catalog=catalog, provisional=not reads, ahead=ahead)
            self.fresh = True
            self.state = state if state is State.DEFINING else State.READING if reads else State.PROVISIONAL
            if self.first_read_at is None and reads:
                self.first_read_at = csn
            if self.hold is not None and not self.has_writes:
                self.hold.release()
                self.hold = None
            if self.hold is None:
                self.hold = await env.leases.hold((), csn, self)
        if self.pending.updates and (snapshot := self.snapshot) is not None:
            self.pending = self.pending.over(snapshot.catalog)
        return self.catalog

    @property
    def catalog(self) -> CatalogSnapshot:
        """The catalog as the statement that has begun sees it."""
        pending, snapshot = self.pending, self.snapshot
        catalog = pending.catalog
        if catalog is None:
            if snapshot is None:
                raise self._not_now("look at the catalog")
            catalog = snapshot.catalog
        return catalog if pending.temporary is None else pending.temporary.over(catalog, with_forms)

    @property
    def may_renew(self) -> bool:
        """Whether the statement that runs may have another snapshot than the one that it has."""
        if self.state not in May.WRITE or self.pending.updates is not self._updates_before:
            return False
        return self.fresh or not self.isolation.keeps_snapshot

    @property
    def may_move_on(self) -> bool:
        """Whether the transaction may have a newer snapshot if what it has read is still so there. What is not recorded
        as read must not have been told: of lower levels, the snapshot itself, and rows that are not durable."""
        return (
            self.isolation is Isolation.SERIALIZABLE
            and self.state is State.READING
            and self.pg_snapshot is None
            and not self.followed
            and not (self.exported or self.held)
        )

    @property
    def reads_before(self) -> Sequence[TableRead]:
        """What the statements before the one that runs have read."""
        return self.reads[: self._reads_before]

    def move_on(self, csn: Csn) -> None:
        """Have everything that was read before the statement that runs read at `csn`, where it is the same; the
        statement begins again (`renew`)."""
        if self.snapshot is None or not self.may_move_on:
            raise self._not_now("move on")
        self.reads = [replace(read, as_of=csn) for read in self.reads_before]
        self.snapshot = replace(self.snapshot, csn=csn)
        self._has_moved = True

    def renew(self) -> None:
        """Let the statement begin again, at a newer snapshot. Only if it may (`may_renew`) or has it (`move_on`)."""
        if self._has_moved:
            self._has_moved = False
            return
        if not self.may_renew:
            raise self._not_now("begin a statement again")
        if self.isolation.keeps_snapshot:
            self.first_read_at = None
            self.reads.clear()
        del self.followed[self._followed_before :]
        self.seen.clear()
        # What has been relied on since was so before what the statement waited for.
        for key in list(self.catalog_reads)[self._relied_before :]:
            del self.catalog_reads[key]
        if self.state is not State.DEFINING:
            self.snapshot, self.state = None, State.NEW

    @property
    def follows_now(self) -> bool:
        """Whether the statement that runs goes on from rows that may not be durable."""
        return len(self.followed) > self._followed_before

    async def settled(self) -> None:
        """Return when all that it has followed is durable. Raises 40001 when some of it is lost."""
        await durable(self.followed)
        self._settle_names()

    def _settle_names(self) -> None:
        names = names_landed(self.followed)
        if names and self.txn is not None:
            for shard, ids in names.items():
                self.txn.settle(shard, ids)
            replacements = settled(tuple(self.pending.replacements), names)
            self.pending = replace(self.pending, replacements=PersistentList.of(replacements))

    async def lock(self, wanted: Collection[tuple[Tag, Mode]], *, begin_again: bool = True) -> None:
        """Take locks before the statement runs. With `begin_again`, raises BeginAgain when one had to be waited for, or
        is of what has changed since the snapshot, and there may be another; besides what waiting for a lock raises."""
        waited = False
        for tag, mode in wanted:
            waited |= await self.locks.lock(tag, mode)
        is_newer = self._definitions is not None and self._definitions.newest is not self._known
        if begin_again and (waited or (is_newer and self._is_outdated(wanted))) and self.may_renew:
            raise BeginAgain

    def _is_outdated(self, locked: Iterable[tuple[Tag, Mode]] | None = None) -> bool:
        """Whether anything, or something of what is `locked`, has been defined since the snapshot."""
        if self._definitions is None or (snapshot := self.snapshot) is None:
            return False
        newest = self._definitions.current(self.locks.owner.database_oid)
        return newest is not snapshot.catalog and (locked is None or differ(locked, snapshot.catalog, newest))

    def planning_catalog(self, env: Environment) -> CatalogSnapshot:
        """The catalog to bind a statement against: the transaction's own, or the newest that this process knows."""
        if self.snapshot is not None and (self.looks_back or self.isolation.keeps_snapshot):
            return self.catalog
        newest, temporary = env.catalog.current(self.locks.owner.database_oid), self.pending.temporary
        if self.pending.updates:
            with suppress(SerializationFailure):  # The statement's own snapshot will say so.
                self.pending = self.pending.over(newest)
            return self.catalog
        return newest if temporary is None else temporary.over(newest, with_forms)

    async def refresh_catalog(self, env: Environment) -> None:
        """Let `planning_catalog` be as new as anything acknowledged so far, by whatever process."""
        if self.snapshot is None or self.snapshot.provisional or not self.isolation.keeps_snapshot:
            await env.oracle.read_ts("catalog")

    def assume(self) -> None:
        """The definitions that follow hold for the catalog that this process knew of, and no later one."""
        if self.state is not State.PROVISIONAL:
            raise self._not_now("assume a catalog")
        self.state = State.ASSUMING

    # ------------------------------------------------------------ reads and writes

    def writable(self, env: Environment, shard: ShardId | None = None) -> Txn:
        """The storage transaction, begun when first needed; for a `shard` that is temporary the session's own."""
        if self.state not in May.WRITE:
            raise self._not_now("write")
        if shard is not None and shard[0] == "t":
            assert self.temporary is not None
            return self.temporary.writable()
        if self.txn is None:
            self.txn = env.begin()
        return self.txn

    def own_rows(self, shard: ShardId) -> Txn | None:
        """The storage transaction that holds the rows of `shard` which only this transaction sees."""
        if shard[0] == "t":
            return None if self.temporary is None else self.temporary.rows
        return self.txn

    def record_read(self, read: TableRead, *, always: bool = False) -> None:
        """Remember what was read, for validation: when SERIALIZABLE, or at any level (`always`)."""
        if self.state not in May.READ:
            raise self._not_now("read")
        if (always or self.isolation is Isolation.SERIALIZABLE) and not self.looks_back:
            self.reads.append(read)

    def rely_on(self, records: Iterable[CatalogRecord], *, to_read: bool = False) -> None:
        """Remember catalog records that a statement was planned with, as they were before this transaction. `to_read`:
        no rows of theirs are written, so that it matters to nobody if they get further constraints."""
        if self.snapshot is None or self.looks_back:
            return
        base = self.snapshot.catalog
        for record in records:
            known = base.get(record.oid)
            if known is not None:
                self.catalog_reads.setdefault((record.oid, to_read), known)

    def change_catalog(self, updates: Sequence[CatalogUpdate]) -> None:
        """Add definitions to the transaction; its later statements see them."""
        if self.state not in May.READ:
            raise self._not_now("define something")
        assert self.snapshot is not None
        temporary = [update for update in updates if update.record.oid >= FIRST_TEMPORARY_OID]
        if temporary:
            objects = (self.pending.temporary or TemporaryObjects()).apply(temporary)
            self.pending = replace(self.pending, temporary=objects)
            updates = [update for update in updates if update.record.oid < FIRST_TEMPORARY_OID]
        if not updates:
            return
        if self.pending.temporary is not None:
            refuse_temporary_uses(self.catalog, [update.record for update in updates if update.diff > 0])
        catalog = self.snapshot.catalog if self.pending.catalog is None else self.pending.catalog
        self.pending = replace(
            self.pending,
            updates=(*self.pending.updates, *updates),
            catalog=catalog.apply(updates, catalog.csn),
            base=self.pending.base or self.snapshot.catalog,
        )
        if self.state is State.READING:
            self.state = State.DEFINING

    def discard_temporary(self) -> None:
        """Drop all temporary objects of the session."""
        if self.pending.temporary is not None:
            self.pending = replace(self.pending, temporary=None)

    def at_commit(self, table: int, action: str) -> None:
        """Let ``delete`` or ``drop`` happen to a temporary table of this transaction whenever one commits."""
        assert self.pending.temporary is not None
        self.pending = replace(self.pending, temporary=self.pending.temporary.at_commit(table, action))

    def notify(self, channel: str, payload: str) -> None:
        """NOTIFY: who listens is told when the transaction has committed."""
        if self.state not in May.OPEN:
            raise self._not_now("notify")
        self.pending = replace(self.pending, notifications=self.pending.notifications.add((channel, payload)))

    def listen(self, action: str, channel: str | None) -> None:
        """LISTEN and UNLISTEN (of all channels: None), which the commit carries out."""
        if self.state not in May.OPEN:
            raise self._not_now("listen")
        self.pending = replace(self.pending, listens=(*self.pending.listens, (action, channel)))

    def claim(self, claim: Claim) -> None:
        """Let the commit hold `claim` against what others have written."""
        if self.state not in May.WRITE:
            raise self._not_now("claim a key")
        self.pending = replace(self.pending, claims=self.pending.claims.add(claim))

    def replace_rows(self, replacement: Replacement) -> None:
        """Note rows that have been replaced or deleted, for who waits for them and for cursors that are on them."""
        if self.state not in May.WRITE:
            raise self._not_now("replace rows")
        self.pending = replace(
            self.pending,
            replacements=self.pending.replacements.add(replacement),
            replaces_temporary=self.pending.replaces_temporary or is_temporary(replacement.shard),
        )

    def defer(self, keys: DeferredKeys) -> None:
        """Have `keys` checked later."""
        if self.state not in May.WRITE:
            raise self._not_now("defer a check")
        self.pending = replace(self.pending, deferred=self.pending.deferred.add(keys))

    def keep_deferred(self, keys: Iterable[DeferredKeys]) -> None:
        """Of what was deferred only `keys` have still to be checked."""
        self.pending = replace(self.pending, deferred=PersistentList.of(keys))

    def set_timings(self, timings: Mapping[int, bool]) -> None:
        """SET CONSTRAINTS: by oid of the constraint whether it is deferred, 0 for all others."""
        if self.state not in May.OPEN:
            raise self._not_now("set constraints")
        self.pending = replace(self.pending, timings=timings)

    def is_own_table(self, relation: Relation) -> bool:
        """Whether nobody else can have written to the relation: it is temporary, or was made by this transaction."""
        return relation.oid >= FIRST_TEMPORARY_OID or relation.shard in self.created_shards

    @property
    def has_writes(self) -> bool:
        """Whether there is something to commit."""
        return bool(self.pending.updates) or (self.txn is not None and not self.txn.is_empty)

    # ------------------------------------------------------------ its end

    def commit_request(self, env: Environment) -> CommitRequest:
        """What goes to the group committer. Nothing can be added any more."""
        if self.state not in May.OPEN or self.snapshot is None:
            raise self._not_now("commit")
        if self.followed:
            self._settle_names()
        txn = env.begin() if self.txn is None else self.txn
        txn.xid = self.id
        assumed, self.state = self.state is State.ASSUMING, State.COMMITTING
        replacements = tuple(self.pending.replacements) if self.pending.replacements.length else ()
        if self.pending.replaces_temporary:
            replacements = tuple(each for each in replacements if not is_temporary(each.shard))
        return CommitRequest(
            txn=txn,
            isolation=self.isolation,
            snapshot=self.snapshot.csn if self.first_read_at is None else self.first_read_at,
            reads=tuple(self.reads),
            claims=tuple(self.pending.claims) if self.pending.claims.length else (),
            catalog_updates=self.pending.net_updates() if self.pending.updates else (),
            catalog_reads=self.catalog_reads,
            created=frozenset(self.created_shards),
            replacements=replacements,
            owner=self.locks.owner,
            follows=tuple(self.followed),
            seen={shard: frozenset(rows) for shard, rows in self.seen.items()} if self.seen else {},
            catalog_base=self.snapshot.catalog.csn if assumed else None,
            defines=bool(self.pending.updates),
        )

    def fail(self) -> SettingValues:
        """A statement of a block has failed: nothing but its end, or the way back to a savepoint, is left to it. It
        lets go of its locks since its last savepoint, or its beginning; returns the settings as they were then."""
        if self.state not in May.OPEN and self.state is not State.FAILED:
            raise self._not_now("fail")
        self.state = State.FAILED
        self.locks.roll_back_to(self.savepoint_depth)
        return self.savepoints[-1].settings if self.savepoints else self.settings_at_start.without_local()

    def shards_used(self) -> set[ShardId]:
        """The tables that its statements have named."""
        return {each.shard for each in self.catalog_reads.values() if isinstance(each, Relation) and each.shard}

    def end(self, state: State) -> None:
        """Let go of what the transaction held: it is COMMITTED, ROLLED_BACK or IN_DOUBT."""
        if self.state not in May.END[state]:
            raise self._not_now(f"make {state.value} what is done")
        self.state = state
        self.locks.end()
        for hold in filter(None, (*self.exported, *self.held, self.hold)):
            hold.release()
        self.hold = None

    def doubt(self) -> None:
        """A commit that was answered early has failed after all, or nobody knows whether it happened."""
        if self.state is not State.COMMITTED:
            raise self._not_now("doubt the commit")
        self.state = State.IN_DOUBT

    def abandon(self) -> None:
        """Drop what was written."""
        if self.txn is not None:
            self.txn.abandon()
            self.txn = None

    # ------------------------------------------------------------ savepoints

    def define_savepoint(self, name: str, settings: SettingValues) -> None:
        """SAVEPOINT: a name may be used again and hides the older one."""
        self.savepoints.append(self.mark(settings, name))
        self.locks.savepoint()

    def mark(self, settings: SettingValues, name: str = "") -> Mark:
        """Where the transaction is now, for `undo`."""
        if self.state not in May.OPEN:
            raise self._not_now("define a savepoint")
        return Mark(
            name=name,
            rows=None if self.txn is None else self.txn.savepoint(),
            temporary_rows=None if self.temporary is None else self.temporary.savepoint(),
            settings=settings,
            pending=self.pending,
            read_only=self.read_only,
        )

    @property
    def savepoint_depth(self) -> int:
        """How many savepoints are open."""
        return len(self.savepoints)

    def release_savepoint(self, name: str) -> None:
        """RELEASE: forgets it and all later ones. 3B001 when there is none."""
        index = savepoint_named(self.savepoints, name)
        self.read_only = self.savepoints[index].read_only
        del self.savepoints[index:]
        self.locks.release_savepoint(index + 1)

    def rollback_to_savepoint(self, name: str) -> tuple[SettingValues, int]:
        """ROLLBACK TO: undoes everything since, keeps the savepoint. Returns the settings as they were, and the
        depth (portals made deeper are gone). 3B001 when there is no such savepoint."""
        mark = self.savepoints[index := savepoint_named(self.savepoints, name)]
        del self.savepoints[index + 1 :]
        self.undo(mark)
        self.locks.roll_back_to(index + 1)
        return mark.settings, index + 1

    def undo(self, mark: Mark) -> None:
        """Take back what was done since `mark`; what failed has not."""
        if self.state not in May.OPEN and self.state is not State.FAILED:
            raise self._not_now("go back to a savepoint")
        if self.txn is not None:
            if mark.rows is None:
                self.abandon()
            else:
                self.txn.rollback_to(mark.rows)
        if self.temporary is not None:
            self.temporary.undo(mark.temporary_rows)
        self.pending = mark.pending
        self.read_only = mark.read_only
        if self.snapshot is None:
            self.state = State.NEW
        elif self.pending.updates:
            self.state = State.DEFINING
        else:
            self.state = State.PROVISIONAL if self.snapshot.provisional else State.READING
