"""Exclusion constraints with &&: whether rows overlap that must not (`adapter.transactions.overlaps`).

The check is at the end of the statement, as that of other keys is. Who adds a row waits for others who have added one
that overlaps it, and for those who are changing or deleting one, and then looks at what is there, as for a unique key.
A statement that writes more than `MAX_WAITING` ranges waits for nobody: the commit judges it alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from adapter.changes.constraints.changing_rows import wait_for_changes, wait_for_writers
from adapter.changes.constraints.key_checks import exclusion_violation, unique_key_text
from adapter.changes.constraints.key_locks import HASH_MASK, newest
from adapter.execution.statement import Running
from adapter.plans.key_indexes import places_in_index
from adapter.queries.by_index.key_scan import distinct_keys, visible_parts
from adapter.spilling.key_runs import Keys
from adapter.transactions.claims import Disjoint, Violation
from adapter.transactions.locks.modes import FOR_UPDATE
from adapter.transactions.overlaps import (
    Conflict,
    Key,
    OverlapIndex,
    Search,
    first_conflict,
    overlap_index,
    python_keys,
    taken_keys,
)
from planner.errors import SqlError
from planner.types.types import under_domain
from storage.catalog.model import Index, Relation
from storage.off_loop import computed
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.reading.found import Found
from storage.shards.indexes.reading.ranges import KeyRange
from storage.shards.parts import PROVISIONAL_ROW_ID
from storage.timestamps.csn import Csn


def overlaps_of(relation: Relation, index: Index, definition: IndexDefinition) -> OverlapIndex:
    """The index of an exclusion constraint with &&; `definition` is what the storage knows of it."""
    by_attnum = {column.attnum: under_domain(column.type_oid) for column in relation.columns}
    expression_types = iter(index.expression_types)
    types = [by_attnum[attnum] if attnum else next(expression_types)[0] for attnum in index.columns]
    return overlap_index(definition, [types[place] for place in places_in_index(index) if place in index.overlapping])


MAX_WAITING = 100
"""Ranges of one statement that are locked: each is held against all that others are writing."""


async def lock_overlapping(
    running: Running, relation: Relation, index: Index, overlap: OverlapIndex, keys: Keys
) -> None:
    """Lock `keys`, and wait for others who write such as conflict with them. Raises what waiting for a lock raises."""
    count = len(keys[0])
    if count > MAX_WAITING or running.transaction.is_own_table(relation):
        return
    listed = [key for key in python_keys(keys) if overlap.excludes(key)]
    numbered = {hash(repr(key)) & HASH_MASK: key for key in listed}
    if not numbered:
        return
    locks, written = running.session.locks, running.services.written_keys
    await locks.lock_rows(index.oid, np.array(sorted(numbered), np.int64), FOR_UPDATE)
    # NOTE: nobody comes in between: of two who conflict one finds the other's key.
    theirs = written.of_others(locks.owner, index.oid)
    written.note(index.oid, numbered)
    conflicting = [number for number, other in theirs if any(overlap.conflict(key, other) for key in listed)]
    if conflicting:
        await wait_for_writers(running, index.oid, np.array(sorted(conflicting), np.int64))


async def _settled(running: Running, relation: Relation, search: Search, other: Key, as_of: Csn) -> bool:
    """Whether a row that is there at `as_of` with the key `other` stays as it is: nobody is changing it, nor has.
    Raises what waiting for a lock raises."""
    if running.transaction.is_own_table(relation):
        return True
    assert relation.shard is not None
    found = await search(KeyRange(equal=other), False, None)
    waited = await wait_for_changes(running, relation, np.unique(np.asarray(found.row_ids, np.int64)))
    until = newest(running)
    if waited or until == as_of:
        return not waited
    return not (await running.services.env.reader.changes(relation.shard, as_of, until)).deletes


async def wait_for_conflicting(
    running: Running, relation: Relation, index: Index, definition: IndexDefinition, keys: Keys
) -> None:
    """Wait for others who write keys that conflict with one of `keys`, or are changing rows that do.

    Raises what waiting for a lock raises."""
    overlap = overlaps_of(relation, index, definition)
    await lock_overlapping(running, relation, index, overlap, keys)
    if len(keys[0]) > MAX_WAITING:
        return
    for key in python_keys(keys):
        while True:
            as_of = newest(running)
            search, everything = await _searches(running, relation, overlap, keys, as_of)
            conflict = await first_conflict(overlap, [key], search, everything, own=False)
            if conflict is None or await _settled(running, relation, search, conflict.other, as_of):
                break


async def check_overlaps(
    running: Running, relation: Relation, index: Index, definition: IndexDefinition, keys: Keys,
    others: Violation | None = None,
) -> None:  # fmt: skip
    """23P01 when rows with `keys`, those of them that are there, conflict with each other or with other rows. Nobody
    else must add one that does: `others` is the error then, 23P01 if not given."""
    overlap = overlaps_of(relation, index, definition)
    transaction = running.transaction
    listed = await computed(len(keys[0]), lambda: python_keys(keys))
    await lock_overlapping(running, relation, index, overlap, keys)
    violation = _violation(running, relation, index, definition)
    while True:
        as_of = newest(running)
        search, everything = await _searches(running, relation, overlap, keys, as_of)
        conflict = await first_conflict(overlap, listed, search, everything, own=True)
        if conflict is None:
            break
        if await _settled(running, relation, search, conflict.other, as_of):
            error = violation(conflict)
            error.row = conflict.row
            raise error
    if not transaction.is_own_table(relation):
        assert relation.shard is not None
        transaction.claim(
            Disjoint(
                shard=relation.shard,
                index=overlap,
                keys=tuple(key for key in listed if overlap.excludes(key)),
                as_of=as_of,
                violation=violation if others is None else lambda conflict: others(conflict.row),
            )
        )


async def taken_rows(
    running: Running, relation: Relation, overlap: OverlapIndex, keys: Keys, as_of: Csn | None = None
) -> Found:
    """The numbers of those of `keys` that a row conflicts with which is there at `as_of` (None: for the statement's
    snapshot) or which the transaction has written."""
    listed = await computed(len(keys[0]), lambda: python_keys(keys))
    numbers = await taken_keys(overlap, listed, *(await _searches(running, relation, overlap, keys, as_of)))
    nothing = pa.RecordBatch.from_arrays([pa.nulls(len(numbers))], names=[""]).select([])
    return Found(keys=np.array(numbers, np.int64), row_ids=np.full(len(numbers), PROVISIONAL_ROW_ID), rows=nothing)


async def _searches(
    running: Running, relation: Relation, overlap: OverlapIndex, keys: Keys, as_of: Csn | None
) -> tuple[Search, Callable[[], Awaitable[Found]]]:
    """How rows are found that are there at `as_of`, or that the transaction has written: those in a range of the index,
    and all that may conflict with `keys`."""
    env, transaction = running.services.env, running.transaction
    parts, local = await visible_parts(env, transaction, relation, newest=True, as_of=as_of)
    definition = overlap.definition
    search = _search(running, parts, definition, local)
    equal = overlap.equal

    async def everything() -> Found:
        if not equal:
            return await search(KeyRange(), False, None)
        wanted = await computed(len(keys[0]), partial(distinct_keys, keys[:equal]))
        by_equal = replace(definition, columns=definition.columns[:equal], ordered=False)
        return await env.keys.lookup_columns(parts, by_equal, wanted, definition.inputs, local=local)

    return search, everything


def _search(running: Running, parts: Any, definition: IndexDefinition, local: Any) -> Search:
    keys = running.services.env.keys

    async def search(wanted: KeyRange, descending: bool, limit: int | None) -> Found:
        options: dict[str, Any] = {"descending": descending, "limit": limit, "local": local}
        found = keys.range_now(parts, definition, wanted, definition.inputs, **options)
        return found or await keys.range(parts, definition, wanted, definition.inputs, **options)

    return search


def _violation(
    running: Running, relation: Relation, index: Index, definition: IndexDefinition
) -> Callable[[Conflict], SqlError]:
    types = [column.source.type for column in definition.columns]
    order = places_in_index(index)

    def text(key: Key) -> str:
        arrays: list[Any] = [None] * len(order)
        for place, value, type_ in zip(order, key, types, strict=True):
            whole = dict(zip(type_.names, value, strict=True)) if pa.types.is_struct(type_) else value
            arrays[place] = pa.array([whole], type_)
        return unique_key_text(running, relation, index, tuple(arrays), 0)

    def violation(conflict: Conflict) -> SqlError:
        return exclusion_violation(running, relation, index, text(conflict.key), text(conflict.other))

    return violation
