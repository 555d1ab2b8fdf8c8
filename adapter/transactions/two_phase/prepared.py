"""The prepared transactions of the environment, as one server process holds them.

What makes a transaction prepared is its record in the txns shard (`storage.transactions.txns_state.Prepared`). It has
been validated, as a commit is, and everything of it is durable. From then on it cannot fail: that is for the others to
see to, on whatever server they are.

*Locks.* Each process has its locks, under an owner of its own, from when it sees the record until it sees it gone. So
sessions wait for it as they would for a session; the record brings its locks back after a restart.

*The guard.* Locks only order. Who commits is held against each prepared transaction besides (`GroupCommitter`): it must
not delete a row that the prepared one deletes or holds, write a key that it writes, take away or add what its keys
refer to, change what it has read at SERIALIZABLE, or alter a definition that it relies on. Such a commit is not
refused: it waits until the prepared transaction has ended, and is then judged by what has become of that. A commit that
did not know of a prepared transaction is refused by the txns shard, which counts them, and validated again.

SUBTLE: the prepared transaction commits after all who commit beside it. So they need not care for what it writes where
they have only read; but one that is *prepared* beside it may yet commit before or after it, and has to fit both ways.
That one is refused if it does not, since who prepares both may end neither before.

A key is unique to several transactions as long as none of them has committed: each claims what it adds, and looks for
it among what the others add. So the claims of a prepared transaction need not be kept. Whoever could break one has a
claim of its own about the same rows, but for rows that were only locked, which the note names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from adapter.transactions.claims import AddedKeys, Claim, broken
from adapter.transactions.commit_request import CommitRequest, Isolation
from adapter.transactions.group_changes import Accepted
from adapter.transactions.locks.lock import Owner
from adapter.transactions.locks.lock_table import LockTable
from adapter.transactions.two_phase.note import Note
from adapter.transactions.validation import conflict, fits_after, has_changed
from storage.catalog.model import CatalogSnapshot
from storage.timestamps.csn import Csn
from storage.transactions.txns_state import Prepared

if TYPE_CHECKING:
    from storage.environment.environment import Environment

log = structlog.get_logger(__name__)

NO_PROCESS = 0
"""The pid of an owner that is no session's, as pg_blocking_pids tells it."""


class _AnyKeys(AddedKeys):
    """What a prepared transaction has added, which is only told by its rows."""

    def have_none_of(self, claim: Claim) -> bool:
        return False


class _Member:
    """One prepared transaction: what others are held against."""

    def __init__(self, env: Environment, record: Prepared, owner: Owner) -> None:
        self.record = record
        self.note = Note.decoded(record.note)
        self.owner = owner
        self.txn = env.prepared_txn(record)
        self.shards = self.txn.shards
        self.created = frozenset([write.shard for write in record.writes if write.create])
        self.definitions = {update.record.oid for update in record.catalog_updates}
        self.accepted = Accepted()
        self.accepted.add(self.request(record.csn))
        self.accepted.added = _AnyKeys()

    def request(self, as_of: Csn) -> CommitRequest:
        """What it will commit, as nobody has changed anything of it up to `as_of`."""
        return CommitRequest(
            txn=self.txn,
            isolation=Isolation.READ_COMMITTED,
            snapshot=as_of,
            reads=(),
            catalog_updates=self.record.catalog_updates,
            catalog_reads={},
            created=self.created,
            defines=bool(self.definitions),
        )

    async def excludes(self, env: Environment, request: CommitRequest, catalog: CatalogSnapshot, until: Csn) -> bool:
        """Whether it could not commit any more once `request` has, which fits everything up to `until` otherwise."""
        if request.catalog_updates:
            changed = {update.record.oid for update in request.catalog_updates}
            if not changed.isdisjoint(self.note.relies_on) or not changed.isdisjoint(self.definitions):
                return True
            if not fits_after(catalog, request.catalog_updates, self.record.catalog_updates):
                return True
        if request.prepare is not None and any(oid in self.definitions for oid, _ in request.catalog_reads):
            return True
        return await self._breaks(env, request, catalog, until) or await self._is_broken(env, request, until)

    async def _breaks(self, env: Environment, request: CommitRequest, catalog: CatalogSnapshot, until: Csn) -> bool:
        """Whether `request` would not hold after this transaction, in its rows and keys."""
        claims = tuple(replace(claim, as_of=until) for claim in request.claims if claim.shard in self.shards)
        reads = request.reads if request.prepare is not None else ()
        reads = tuple(replace(read, as_of=until) for read in reads if read.shard in self.shards)
        if not claims and not reads and self.shards.isdisjoint(request.txn.shards):
            return False
        rows = replace(
            request,
            snapshot=until,
            claims=claims,
            reads=reads,
            catalog_updates=(),
            catalog_reads={},
            catalog_base=None,
            created=request.created | (request.txn.shards - self.shards),
        )
        return await conflict(env, catalog, rows, until, self.accepted) is not None

    async def _is_broken(self, env: Environment, request: CommitRequest, until: Csn) -> bool:
        """Whether this transaction would not hold after `request`, in what it has read and locked."""
        written = request.txn.shards
        for shard in written:
            if any(shard == held for held, _ in self.note.held):
                await request.txn.make_local_parts(shard)
        claims = [claim for claim in self.note.claims(until) if claim.shard in written]
        if claims and await broken(env, claims, self.txn, until, [request.txn], None) is not None:
            return True
        for read in self.note.table_reads(until):
            if read.shard in written and await has_changed(env, read, until, [request]):
                return True
        return False


class PreparedTransactions:
    """See the module's contract. `over` is told of each that has ended. Belongs to the event loop."""

    def __init__(self, env: Environment, locks: LockTable, over: Callable[[Prepared], None]) -> None:
        self._env = env
        self._locks = locks
        self._over = over
        self._members: dict[str, _Member] = {}
        self._expected: dict[str, Owner] = {}
        self._seen: object = None
        self.one_ends = asyncio.Event()

    def start(self) -> None:
        """Take up those that there are, and learn of others from now on."""
        self._env.cache.on_prepared = self.look
        self.look()

    def all(self) -> list[tuple[Prepared, Note, Owner]]:
        """Those that there are, with their notes and the owners of their locks."""
        return [(member.record, member.note, member.owner) for member in self._members.values()]

    def expect(self, gid: str, owner: Owner) -> None:
        """A session of this process is about to prepare `gid`, whose locks `owner` has by now."""
        self._expected[gid] = owner

    def give_up(self, gid: str) -> bool:
        """That has failed. Whether the owner is the caller's again: it is not when the record has been seen."""
        return self._expected.pop(gid, None) is not None

    def look(self) -> None:
        """Take up what has been prepared, and let go of what has ended, as far as this process has heard."""
        prepared = self._env.cache.state.prepared
        if prepared is self._seen:
            return
        self._seen = prepared
        for gid, member in list(self._members.items()):
            record = prepared.get(gid)
            if record is None or record.xid != member.record.xid:
                del self._members[gid]
                self._let_go(member)
        for gid, record in prepared.items():
            if gid not in self._members:
                self._take_up(record)

    def _take_up(self, record: Prepared) -> None:
        owner = self._expected.pop(record.gid, None)
        member = _Member(self._env, record, owner or Owner(pid=NO_PROCESS))
        if owner is None:
            member.owner.database_oid = member.note.database_oid
            self._locks.seize(member.owner, member.note.lock_list(), member.note.row_lists())
        member.owner.pid, member.owner.transactions = NO_PROCESS, record.xid
        self._members[record.gid] = member

    def _let_go(self, member: _Member) -> None:
        self._locks.release(member.owner)
        if self._locks.between_workers is not None:
            self._locks.between_workers.release_rows(member.owner)
        self._over(member.record)
        ended, self.one_ends = self.one_ends, asyncio.Event()
        ended.set()

    async def exclude(self, request: CommitRequest, catalog: CatalogSnapshot, until: Csn) -> bool:
        """Whether one of them could not commit any more after `request`, which was validated up to `until`."""
        self.look()
        for member in list(self._members.values()):
            if await member.excludes(self._env, request, catalog, until):
                log.info("a commit waits for a prepared transaction", gid=member.record.gid)
                return True
        return False
