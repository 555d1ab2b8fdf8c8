"""What a transaction hands over when it wants to commit: what it read, wrote, claims and relies on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct, field

from adapter.plans.predicates import Conjunction
from adapter.transactions.claims import Claim
from adapter.transactions.decided_rows import Decided, Replacement
from adapter.transactions.locks.lock import Owner
from storage.catalog.model import CatalogRecord, CatalogSnapshot, CatalogUpdate
from storage.ids import ShardId
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
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


class TableRead(Struct, frozen=True, kw_only=True):
    """What was read of one table at `as_of`: the rows that satisfy one of `conjunctions`."""

    relation_oid: int
    shard: ShardId
    as_of: Csn
    conjunctions: tuple[Conjunction, ...]


CatalogReads: TypeAlias = dict[tuple[int, bool], CatalogRecord]
"""Catalog records that statements were planned with, by oid and by whether they only read its rows."""


AFTER_ALL = Csn(2**63 - 1)
"""Above every CSN: what a group that has none yet will commit at, as far as snapshots can tell."""


class InFlight(Struct, eq=False):
    """A group that is being written, at `ts`; its members that are decided."""

    ts: Csn
    members: tuple[Txn, ...]
    noted: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether the locks on rows that it has replaced are those on the new rows."""


class CommitRequest(Struct, frozen=True, kw_only=True):
    """What the group committer needs of a transaction that wants to commit."""

    txn: Txn
    isolation: Isolation
    snapshot: Csn
    reads: tuple[TableRead, ...]
    catalog_updates: tuple[CatalogUpdate, ...]
    catalog_reads: CatalogReads
    created: frozenset[ShardId] = frozenset()
    claims: tuple[Claim, ...] = ()
    replacements: tuple[Replacement, ...] = ()
    owner: Owner | None = None
    """Who has the locks of the rows that are replaced."""
    follows: tuple[Decided, ...] = ()
    """Transactions that have to commit before, or together with it."""
    seen: Mapping[ShardId, frozenset[int]] = {}
    """Rows whose changes since the snapshot the transaction knows: it has gone on from the last of them."""
    prepare: tuple[str, bytes] | None = None
    """It is not committed, but prepared under this name, with this note (`adapter.transactions.two_phase`)."""
    ends: str | None = None
    """It is the second phase of the transaction that is prepared under this name, and cannot fail."""
    catalog_base: Csn | None = None
    """The catalog's CSN that no other change may have followed, for definitions that were worked out without asking for
    the newest catalog."""
    defines: bool = False
    """Whether there are definitions in it: they may come to nothing for the catalog, as those of who drops a table that
    it has made, and so be no `catalog_updates`."""


class PreparedGuard(Protocol):
    """What is known of prepared transactions (`adapter.transactions.two_phase`)."""

    @property
    def one_ends(self) -> asyncio.Event:
        """Is set when the next one ends."""
        ...

    async def exclude(self, request: CommitRequest, catalog: CatalogSnapshot, until: Csn) -> bool:
        """Whether one of them could not commit any more after `request`, which was validated up to `until`."""
        ...


class Waiting(Struct, eq=False):
    """A request in the hands of the group committer."""

    request: CommitRequest
    done: asyncio.Future[Csn]
    taken: bool = False
    staged: bool = False
    """Whether its files are still being uploaded, so that it commits in a group of its own."""
    parked: asyncio.Task[None] | None = None
    early: asyncio.Future[None] | None = None
    """Done when a relaxed commit may be answered."""
    answered_durable: bool = True
    """Whether the answer has to wait until the commit is durable."""
    decided: Decided | None = None
    """What others follow it by."""
    is_valid: bool = False
    """Whether it has been validated with all that goes before it."""

    @property
    def is_fixed(self) -> bool:
        """Whether it cannot be withdrawn any more: it is taken, or a block may have followed it."""
        return self.taken or (self.decided is not None and self.decided.is_certain)

    @property
    def parked_ahead(self) -> list[asyncio.Future[Csn]]:
        """The ends of those whom it follows that are parked."""
        return [decided.done for decided in self.request.follows if decided.is_parked]

    @property
    def answered(self) -> bool:
        """Whether its client has been told that it committed."""
        return self.early is not None and self.early.done()

    def answer(self) -> None:
        """Let the client of a relaxed commit go on."""
        if self.early is not None and not self.early.done():
            self.early.set_result(None)
