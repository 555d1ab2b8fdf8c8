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
from msgspec.structs import replace

from adapter.plans.predicates import Conjunction, any_row_matches
from adapter.store_errors import CONCURRENT_DDL, CONCURRENT_UPDATE, READ_WRITE_DEPENDENCIES, serialization_failure
from adapter.transactions.claims import broken
from adapter.transactions.commit_request import CommitRequest, Isolation, TableRead
from adapter.transactions.decided_rows import names_landed, settled
from adapter.transactions.group_changes import Accepted, shared_ids
from planner.errors import SqlError
from planner.types.user_types import types_used
from storage.catalog.model import CatalogRecord, CatalogSnapshot, CatalogUpdate, DomainType, EnumType, Relation, Schema
from storage.catalog.model import Sequence as SequenceRecord
from storage.catalog.record import ExtendedStatistics
from storage.catalog.routines import Function
from storage.catalog.types import BaseType, UserRange
from storage.errors import AsOfNotReadable, UnknownShard
from storage.ids import ShardId
from storage.shards.parts import ROW_ID, Part, may_match
from storage.shards.pruning import columns_of
from storage.timestamps.csn import Csn
from storage.transactions.rows_ahead import FIRST_AHEAD, place_of, rows_named

if TYPE_CHECKING:
    from storage.environment.environment import Environment


def followed(request: CommitRequest, accepted: Accepted) -> CommitRequest | None:
    """`request` with rows of others that are durable by now by their own ids; None when one that it follows is neither
    that nor among those `accepted`, and so is lost to it, or when it is overtaken at a row of theirs."""
    if request.owner is not None and request.owner.is_overtaken:
        return None
    members = {member.txn.place for member in accepted.requests}
    left = [decided for decided in request.follows if not decided.is_durable]
    if any(decided.is_lost or decided.place not in members for decided in left):
        return None
    names = names_landed(decided for decided in request.follows if decided.is_durable)
    replacements = settled(request.replacements, names)
    at_hand = {decided.place for decided in left}
    for each in replacements:
        if any(place_of(name)[0] not in at_hand for name in each.old[each.old >= FIRST_AHEAD].tolist()):
            return None
    for shard, ids in names.items():
        request.txn.settle(shard, ids)
    seen = {
        shard: frozenset([names.get(shard, {}).get(row_id, row_id) for row_id in rows])
        for shard, rows in request.seen.items()
    }
    return replace(request, follows=tuple(left), replacements=replacements, seen=seen)


_IN_SCHEMAS = (
    Relation, SequenceRecord, EnumType, DomainType, UserRange, BaseType, Function, ExtendedStatistics,
)  # fmt: skip


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
            if await _written_row_conflict(env, request, shard, until, accepted):
                return serialization_failure(CONCURRENT_UPDATE)
        if request.claims:
            failure = await broken(
                env, request.claims, request.txn, until, [member.txn for member in earlier], accepted.added
            )
            if failure is not None:
                return failure
        for read in request.reads:
            seen = request.seen.get(read.shard, frozenset())
            beside = earlier if earlier and not accepted.have_nothing_for(read, seen) else ()
            if await has_changed(env, read, until, beside, seen):
                return serialization_failure(READ_WRITE_DEPENDENCIES)
    except (AsOfNotReadable, UnknownShard):
        return serialization_failure(CONCURRENT_UPDATE)
    return None


# ---------------------------------------------------------------- catalog


def catalog_conflict(catalog: CatalogSnapshot, request: CommitRequest) -> str | None:
    """Why the catalog as it is now does not fit `request`; None when it does."""
    if request.catalog_base is not None and catalog.csn != request.catalog_base:
        return CONCURRENT_DDL
    for (oid, to_read), record in request.catalog_reads.items():
        now = catalog.get(oid)
        if now is not record and not _fits(now, record, to_read=to_read, at=request.isolation):
            return CONCURRENT_DDL
    if not request.catalog_updates:
        return None
    return None if fits_after(catalog, (), request.catalog_updates) else CONCURRENT_DDL


def fits_after(catalog: CatalogSnapshot, first: Sequence[CatalogUpdate], updates: Sequence[CatalogUpdate]) -> bool:
    """Whether `updates` can be carried out after those that are `first`."""
    try:
        after = catalog.apply(first, catalog.csn).apply(updates, catalog.csn)
    except ValueError:
        return False
    return _references_resolve(after, updates) and _references_resolve(after, first)


def _fits(now: CatalogRecord | None, record: CatalogRecord, *, to_read: bool, at: Isolation) -> bool:
    """Whether what a transaction did with `record` stays right with what has become of that. At the lower levels what
    was only read need not be what it was: its locks have kept it so while that mattered, as PostgreSQL's do."""
    if now == record or (to_read and not at.keeps_snapshot):
        return True
    if isinstance(record, Schema):
        return isinstance(now, Schema)
    if not isinstance(now, Relation) or not isinstance(record, Relation):
        return False
    if to_read and not set(now.constraints).issuperset(record.constraints):
        return False
    constraints = record.constraints if to_read else now.constraints
    return replace(_of_rows(now), constraints=constraints) == _of_rows(record)


def _of_rows(relation: Relation) -> Relation:
    """The record without what does not matter to who reads or writes rows: targets of ANALYZE, how much of the past is
    kept, in which order the next CLUSTER puts the rows."""
    columns = tuple(
        column if column.statistics == -1 and not column.options else replace(column, statistics=-1, options=())
        for column in relation.columns
    )
    return replace(relation, columns=columns, retain_ms=None, marks=replace(relation.marks, clustered=0))


def _references_resolve(after: CatalogSnapshot, updates: Iterable[CatalogUpdate]) -> bool:
    """Whether nothing in `after` refers to a record that `updates` removed, or lacks what they refer to."""
    removed = {update.record.oid for update in updates if after.get(update.record.oid) is None}
    if removed:
        for record in after.all():
            if isinstance(record, _IN_SCHEMAS) and record.schema in removed:
                return False
            if isinstance(record, (Relation, Function)) and not removed.isdisjoint(record.depends_on):
                return False
            if isinstance(record, (Relation, DomainType, UserRange)) and not removed.isdisjoint(types_used(record)):
                return False
    for update in updates:
        record = update.record
        if update.diff != 1:
            continue
        if isinstance(record, _IN_SCHEMAS) and not isinstance(after.get(record.schema), Schema):
            return False
        if isinstance(record, Relation) and any(after.get(oid) is None for oid in record.depends_on if oid >= 16384):
            return False
        types = types_used(record) if isinstance(record, (Relation, DomainType, UserRange)) else ()
        if any(after.get(oid) is None for oid in types):
            return False
    return True


# ---------------------------------------------------------------- rows


async def _written_row_conflict(
    env: Environment, request: CommitRequest, shard: ShardId, until: Csn, accepted: Accepted
) -> bool:
    if not request.txn.deletes_from(shard):
        return False
    changes = await env.reader.changes(shard, request.snapshot, until)
    ids = request.txn.deleted_ids(shard)
    if ids is not None and shard not in accepted.large:
        shared = shared_ids(ids)
        if not len(shared):
            return False
        low, high = int(shared.min()), int(shared.max())
        near = [part for part in changes.deletes if part.row_id_bounds[0] <= high and low <= part.row_id_bounds[1]]
        if accepted.delete_one_of(shard, shared):
            return True
        return bool(near) and len(np.intersect1d(shared, await _row_ids(env, near))) > 0
    theirs = [*await _deletes_in(accepted.requests, shard), *changes.deletes]
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
    """The row ids that delete parts name, those of committed rows and of rows that were followed; the provisional ones
    of a transaction itself are nobody else's."""
    arrays = []
    for part in parts:
        table = await env.reader.read_part(part, [ROW_ID])
        ids = table.column(ROW_ID).to_numpy()
        arrays.append(shared_ids(ids))
    return np.concatenate(arrays)


async def has_changed(
    env: Environment,
    read: TableRead,
    until: Csn,
    earlier: Sequence[CommitRequest] = (),
    seen: frozenset[int] = frozenset(),
) -> bool:
    """Whether somebody has changed what was read, up to `until` or among `earlier`; but for the rows `seen`."""
    parts: list[tuple[Part, int]] = []
    for request in earlier:
        if read.shard in request.txn.shards:
            await request.txn.make_local_parts(read.shard)
            parts.extend([(part, request.txn.place) for part in request.txn.local_parts(read.shard)])
    changes = await env.reader.changes(read.shard, read.as_of, until)
    parts.extend([(part, 0) for part in (*changes.inserts, *changes.deletes)])
    for part, place in parts:
        if may_match(part, read.conjunctions) and await _part_matches(env, part, read.conjunctions, place, seen):
            return True
    return False


async def _part_matches(
    env: Environment, part: Part, conjunctions: Sequence[Conjunction], place: int, seen: frozenset[int]
) -> bool:
    """Whether a row of `part`, which is committed or of the transaction at `place`, matches, those `seen` apart."""
    columns = columns_of(conjunctions)
    stored = [name for name in part.columns if name in columns]
    matches_all = not stored or any(not conjunction for conjunction in conjunctions)
    if not seen:
        return matches_all or any_row_matches(await env.reader.read_part(part, stored), conjunctions)
    rows: pa.Table = await env.reader.read_part(part, [ROW_ID, *stored])
    others = np.isin(rows_named(rows.column(ROW_ID).to_numpy(), place), list(seen), invert=True)
    if matches_all or not others.any():
        return bool(others.any())
    return any_row_matches(rows.filter(pa.array(others)).select(stored), conjunctions)
