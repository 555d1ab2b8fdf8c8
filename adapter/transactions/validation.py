"""Whether a transaction may still commit: precise validation of what it read and wrote.

Checked against two things: what was committed since the transaction's snapshot, and the members of its commit group
that go before it.

- *Written rows*, at every isolation level: no row that the transaction deletes or updates was deleted by another
  (first committer wins).
- *Read rows* that were recorded (SERIALIZABLE, or what a definition relies on): no row inserted or deleted since
  satisfies what a read required of its rows. A part's statistics answer most of it; otherwise the few changed rows are
  loaded and the conditions evaluated.
- *Keys* that it claims (`adapter.transactions.claims`), at every isolation level.
- *Catalog records* relied on are the same; catalog updates still fit the catalog as it is now.

The answer is the error for the client, or None. It never raises for a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from adapter.plans.predicates import Conjunction, any_row_matches, may_match
from adapter.store_errors import CONCURRENT_DDL, CONCURRENT_UPDATE, READ_WRITE_DEPENDENCIES, serialization_failure
from adapter.transactions.claims import AddedKeys, broken
from adapter.transactions.transaction import CommitRequest, TableRead
from planner.errors import SqlError
from planner.types.user_types import types_used
from storage.catalog.model import CatalogSnapshot, CatalogUpdate, EnumType, Relation, Schema
from storage.catalog.model import Sequence as SequenceRecord
from storage.errors import AsOfNotReadable, UnknownShard
from storage.ids import ShardId
from storage.shards.parts import PROVISIONAL_ROW_ID, ROW_ID, Part
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from storage.environment.environment import Environment


class Accepted(Struct):
    """The members of a commit group that may commit, so far, and the unique keys that they have added."""

    requests: list[CommitRequest] = field(default_factory=list)
    added: AddedKeys | None = None

    def add(self, request: CommitRequest) -> None:
        """One more."""
        self.requests.append(request)
        if request.claims:
            self.added = self.added or AddedKeys()
            self.added.add(request.claims)


async def conflict(
    env: Environment,
    catalog: CatalogSnapshot,
    request: CommitRequest,
    until: Csn,
    accepted: Accepted,
) -> SqlError | None:
    """Why `request` may not commit after everything up to `until`, which left `catalog`, and after those `accepted`;
    None when it may."""
    earlier = accepted.requests
    reason = catalog_conflict(catalog, request)
    if reason is not None:
        return serialization_failure(reason)
    try:
        for shard in request.txn.shards - request.created:
            if await _written_row_conflict(env, request, shard, until, earlier):
                return serialization_failure(CONCURRENT_UPDATE)
        if request.claims:
            failure = await broken(
                env, request.claims, request.txn, until, [member.txn for member in earlier], accepted.added
            )
            if failure is not None:
                return failure
        for read in request.reads:
            if await has_changed(env, read, until, earlier):
                return serialization_failure(READ_WRITE_DEPENDENCIES)
    except (AsOfNotReadable, UnknownShard):
        return serialization_failure(CONCURRENT_UPDATE)
    return None


# ---------------------------------------------------------------- catalog


def catalog_conflict(catalog: CatalogSnapshot, request: CommitRequest) -> str | None:
    """Why the catalog as it is now does not fit `request`; None when it does."""
    if request.catalog_base is not None and catalog.csn != request.catalog_base:
        return CONCURRENT_DDL
    if any(catalog.get(oid) != record for oid, record in request.catalog_reads.items()):
        return CONCURRENT_DDL
    if not request.catalog_updates:
        return None
    try:
        after = catalog.apply(request.catalog_updates, catalog.csn)
    except ValueError:
        return CONCURRENT_DDL
    return None if _references_resolve(after, request.catalog_updates) else CONCURRENT_DDL


def _references_resolve(after: CatalogSnapshot, updates: Iterable[CatalogUpdate]) -> bool:
    """Whether nothing in `after` refers to a record that `updates` removed, or lacks what they refer to."""
    removed = {update.record.oid for update in updates if after.get(update.record.oid) is None}
    if removed:
        for record in after.all():
            if isinstance(record, (Relation, SequenceRecord, EnumType)) and record.schema in removed:
                return False
            if isinstance(record, Relation) and not removed.isdisjoint(record.depends_on):
                return False
            if isinstance(record, Relation) and not removed.isdisjoint(types_used(record)):
                return False
    for update in updates:
        record = update.record
        if update.diff == 1 and isinstance(record, Relation):
            if not isinstance(after.get(record.schema), Schema):
                return False
            if any(after.get(oid) is None for oid in record.depends_on if oid >= 16384):
                return False
            if any(after.get(oid) is None for oid in types_used(record)):
                return False
    return True


# ---------------------------------------------------------------- rows


async def _written_row_conflict(
    env: Environment, request: CommitRequest, shard: ShardId, until: Csn, earlier: Sequence[CommitRequest]
) -> bool:
    if not request.txn.deletes_from(shard):
        return False
    theirs = await _deletes_in(earlier, shard)
    changes = await env.reader.changes(shard, request.snapshot, until)
    theirs.extend(changes.deletes)
    if not theirs:
        return False
    await request.txn.make_local_parts(shard)
    own = [part for part in request.txn.local_parts(shard) if part.kind == "delete"]
    theirs = [part for part in theirs if any(_ids_overlap(part, mine) for mine in own)]
    if not theirs:
        return False
    mine = await _row_ids(env, own)
    return len(np.intersect1d(mine, await _row_ids(env, theirs))) > 0


async def _deletes_in(requests: Sequence[CommitRequest], shard: ShardId) -> list[Part]:
    found: list[Part] = []
    for request in requests:
        if request.txn.deletes_from(shard):
            await request.txn.make_local_parts(shard)
            found += [part for part in request.txn.local_parts(shard) if part.kind == "delete"]
    return found


def _ids_overlap(left: Part, right: Part) -> bool:
    (low, high), (other_low, other_high) = left.row_id_bounds, right.row_id_bounds
    return low <= other_high and other_low <= high


async def _row_ids(env: Environment, parts: Sequence[Part]) -> Any:
    """The committed row ids that delete parts name; provisional ones belong to one transaction alone."""
    arrays = []
    for part in parts:
        table = await env.reader.read_part(part, [ROW_ID])
        ids = table.column(ROW_ID).to_numpy()
        arrays.append(ids[ids < PROVISIONAL_ROW_ID])
    return np.concatenate(arrays)


async def has_changed(env: Environment, read: TableRead, until: Csn, earlier: Sequence[CommitRequest] = ()) -> bool:
    """Whether somebody has changed what was read, up to `until` or among `earlier`."""
    parts: list[Part] = []
    for request in earlier:
        if read.shard in request.txn.shards:
            await request.txn.make_local_parts(read.shard)
            parts.extend(request.txn.local_parts(read.shard))
    changes = await env.reader.changes(read.shard, read.as_of, until)
    parts.extend(changes.inserts)
    parts.extend(changes.deletes)
    for part in parts:
        if may_match(part, read.conjunctions) and await _part_matches(env, part, read.conjunctions):
            return True
    return False


async def _part_matches(env: Environment, part: Part, conjunctions: Sequence[Conjunction]) -> bool:
    columns = {comparison.column for conjunction in conjunctions for comparison in conjunction}
    stored = [name for name in part.columns if name in columns]
    if not stored or any(not conjunction for conjunction in conjunctions):
        return True
    rows: pa.Table = await env.reader.read_part(part, stored)
    return any_row_matches(rows, conjunctions)
