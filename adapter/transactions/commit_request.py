"""What a transaction hands over when it wants to commit: what it read, wrote, claims and relies on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

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


class PreparedGuard(Protocol):
    """What is known of prepared transactions (`adapter.transactions.two_phase`)."""

    @property
    def one_ends(self) -> asyncio.Event:
        """Is set when the next one ends."""
        ...

    async def exclude(self, request: CommitRequest, catalog: CatalogSnapshot, until: Csn) -> bool:
        """Whether one of them could not commit any more after `request`, which was validated up to `until`."""
        ...
