"""What a transaction claims of keys: that nobody else has written one, or that a row with it stays.

A statement checks its keys against what it sees: the snapshot and the transaction's own rows. What others commit
between that snapshot and this commit is checked by the commit, with the same look-up over the rows that came since; so
a claim holds whoever writes (another session, a member of the same commit group, another server), since nobody commits
beside the validation. A claim that is broken is the error that PostgreSQL gives, not a serialization failure: who came
first is known, and trying again would find the same. But where trying again would find something else to do, because a
row came that is to be deleted or changed together with the one that it refers to, it is 40001.

`Absent`: no row that others added has one of the keys. For a unique key those are the keys of the rows that this
transaction added; for a referenced row that it deleted, those that referring rows would have.
`Present`: a row with each of the keys is there after everything else; for rows that this transaction's rows refer to.
`Disjoint`: no row that others added conflicts with the keys that this transaction added under an exclusion constraint.
`Unchanged`: rows that the transaction has locked are still there. That one fails as a serialization failure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from adapter.store_errors import CONCURRENT_UPDATE, serialization_failure
from adapter.transactions.overlaps import Conflict, Key, OverlapIndex, first_conflict
from adapter.transactions.parts_ahead import moved_rows
from planner.errors import SqlError
from storage.ids import ShardId
from storage.shards.indexes.definition import IndexDefinition, StoredColumn
from storage.shards.indexes.reading.found import Found
from storage.shards.indexes.reading.ranges import KeyRange
from storage.shards.indexes.reading.sources import PartList
from storage.shards.indexes.scalar_keys import Plain, plain_scalar
from storage.shards.parts import PROVISIONAL_ROW_ID, ROW_ID, Part
from storage.timestamps.csn import Csn

if TYPE_CHECKING:
    from storage.environment.environment import Environment
    from storage.transactions.txn import Txn

FEW_KEYS = 64
"""So many keys of a claim are compared one by one with those of others in the group."""

Violation = Callable[[int], SqlError]
"""The error for the key of a number."""


class Absent(Struct, frozen=True, kw_only=True):
    """No row of `shard` that others have added after `as_of` has one of `keys` (by columns) in `index`."""

    shard: ShardId
    index: IndexDefinition
    keys: tuple[pa.Array, ...]
    as_of: Csn
    violation: Violation
    unique: bool = False
    """They are keys that the transaction adds to a unique index: whoever else adds one claims it likewise."""


class Present(Struct, frozen=True, kw_only=True):
    """A row of `shard` with each of `keys` is still there that was there at `as_of`."""

    shard: ShardId
    index: IndexDefinition
    keys: tuple[pa.Array, ...]
    as_of: Csn
    violation: Violation


class Disjoint(Struct, frozen=True, kw_only=True):
    """No row of `shard` that others have added after `as_of` conflicts with one of `keys`, which do not conflict with
    each other nor with rows of before."""

    shard: ShardId
    index: OverlapIndex
    keys: tuple[Key, ...]
    as_of: Csn
    violation: Callable[[Conflict], SqlError]


class Unchanged(Struct, frozen=True, kw_only=True):
    """Nobody else has changed or deleted one of the rows `row_ids` (ascending) of `shard`, which were there at `as_of`.
    On one server the locks of these rows have seen to it; this holds for what other servers write."""

    shard: ShardId
    row_ids: np.ndarray[Any, Any]
    as_of: Csn


Claim = Absent | Present | Disjoint | Unchanged


class AddedKeys:
    """The unique keys that the members of a commit group have added so far, as far as they are few.

    So many small transactions of one group are compared key by key, where each would have to read the rows of all that
    come before it.
    """

    def __init__(self) -> None:
        self._keys: dict[tuple[ShardId, str], set[tuple[Plain, ...]] | None] = {}
        """By shard and fingerprint of the index; None: they were too many."""

    def add(self, claims: Sequence[Claim]) -> None:
        """A member with these claims is accepted."""
        for claim in claims:
            if isinstance(claim, Absent) and claim.unique:
                place = claim.shard, claim.index.fingerprint
                keys = _plain_keys(claim)
                known = self._keys.setdefault(place, set())
                if known is None or keys is None:
                    self._keys[place] = None
                else:
                    known.update(key for key in keys if key is not None)

    def have_none_of(self, claim: Claim) -> bool:
        """Whether no member before has added a key of `claim`, for certain: one that has may have deleted it again."""
        if not isinstance(claim, Absent) or not claim.unique:
            return False
        known = self._keys.get((claim.shard, claim.index.fingerprint), set())
        keys = _plain_keys(claim)
        return known is not None and keys is not None and known.isdisjoint(keys)


def _is_plain(index: IndexDefinition) -> bool:
    return index.predicate is None and all(isinstance(column.source, StoredColumn) for column in index.columns)


def _plain_keys(claim: Absent) -> list[tuple[Plain, ...] | None] | None:
    """The keys of `claim`, None for one that equals no other; None when they are too many, or no plain values."""
    index = claim.index
    if len(claim.keys[0]) > FEW_KEYS or not _is_plain(index):
        return None
    columns = [
        [plain_scalar(column, scalar) for scalar in values]
        for column, values in zip(index.columns, claim.keys, strict=True)
    ]
    keys = zip(*columns, strict=True)
    return [None if None in key and not index.nulls_not_distinct else key for key in keys]


async def broken(
    env: Environment, claims: Sequence[Claim], own: Txn, until: Csn, earlier: Sequence[Txn], added: AddedKeys | None
) -> SqlError | None:
    """The error for a claim that does not hold after everything up to `until` and after the transactions `earlier`,
    which have `added` keys (None: no claims); None when all hold. Raises AsOfNotReadable and UnknownShard."""
    for claim in claims:
        if isinstance(claim, Unchanged):
            if await _has_changed(env, claim, until, earlier):
                return serialization_failure(CONCURRENT_UPDATE)
            continue
        others: list[Part] = []
        beside = () if (added or AddedKeys()).have_none_of(claim) else earlier
        for number, txn in enumerate(beside, 1):
            if claim.shard in txn.shards:
                others += await moved_rows(env, txn, claim.shard, number)
        changes = await env.reader.changes(claim.shard, claim.as_of, until)
        if isinstance(claim, Disjoint):
            if changes.inserts or any(part.kind == "insert" for part in others):
                conflict = await _conflict(env, claim, changes, (*others, *_deletes(own, claim.shard)))
                if conflict is not None:
                    return claim.violation(conflict)
        elif isinstance(claim, Absent):
            if changes.inserts or any(part.kind == "insert" for part in others):
                found = await env.keys.lookup_columns(
                    changes,
                    claim.index,
                    claim.keys,
                    (),
                    local=(*others, *_deletes(own, claim.shard)),
                    nulls_match=claim.index.nulls_not_distinct,
                )
                if len(found.keys):
                    return claim.violation(int(found.keys.min()))
        elif changes.deletes or any(part.kind == "delete" for part in others):
            snapshot = await env.reader.snapshot(claim.shard, until)
            local = (*others, *own.local_parts(claim.shard))
            found = await env.keys.lookup_columns(snapshot, claim.index, claim.keys, (), local=local)
            missing = np.setdiff1d(np.arange(len(claim.keys[0])), found.keys)
            if len(missing):
                return claim.violation(int(missing[0]))
    return None


async def _conflict(env: Environment, claim: Disjoint, changes: PartList, local: Sequence[Part]) -> Conflict | None:
    definition = claim.index.definition

    def search(keys: KeyRange, descending: bool, limit: int | None) -> Awaitable[Found]:
        return env.keys.range(
            changes, definition, keys, definition.inputs, descending=descending, limit=limit, local=local
        )

    return await first_conflict(claim.index, claim.keys, search, lambda: search(KeyRange(), False, None), own=False)


async def _has_changed(env: Environment, claim: Unchanged, until: Csn, earlier: Sequence[Txn]) -> bool:
    low, high = int(claim.row_ids[0]), int(claim.row_ids[-1])
    parts = [part for txn in earlier for part in _deletes(txn, claim.shard)]
    parts += (await env.reader.changes(claim.shard, claim.as_of, until)).deletes
    for part in parts:
        if part.row_id_bounds[0] <= high and low <= part.row_id_bounds[1]:
            deleted = (await env.reader.read_part(part, [ROW_ID])).column(ROW_ID).to_numpy()
            if len(np.intersect1d(deleted, claim.row_ids)):
                return True
    return False


def _deletes(txn: Txn, shard: ShardId) -> tuple[Part, ...]:
    """The delete parts of `txn` that name committed rows of `shard`."""
    if not txn.deletes_from(shard):
        return ()
    return tuple(
        part for part in txn.local_parts(shard) if part.kind == "delete" and part.row_id_bounds[0] < PROVISIONAL_ROW_ID
    )
