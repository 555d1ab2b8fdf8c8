"""Exclusion constraints with &&: whether rows overlap that must not (`adapter.transactions.overlaps`).

The check is at the end of the statement, as that of other keys is. Nobody waits for somebody else's row: of two
transactions that add rows which overlap, the one that commits second fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from adapter.changes.constraints.key_checks import exclusion_violation, unique_key_text
from adapter.changes.constraints.key_locks import newest
from adapter.execution.statement import Running
from adapter.plans.key_indexes import places_in_index
from adapter.queries.by_index.key_scan import distinct_keys, visible_parts
from adapter.spilling.key_runs import Keys
from adapter.transactions.claims import Disjoint, Violation
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


async def check_overlaps(
    running: Running, relation: Relation, index: Index, definition: IndexDefinition, keys: Keys,
    others: Violation | None = None,
) -> None:  # fmt: skip
    """23P01 when rows with `keys`, those of them that are there, conflict with each other or with other rows. Nobody
    else must add one that does: `others` is the error then, 23P01 if not given."""
    overlap = overlaps_of(relation, index, definition)
    transaction = running.transaction
    listed = await computed(len(keys[0]), lambda: python_keys(keys))
    as_of = newest(running)
    conflict = await first_conflict(
        overlap, listed, *(await _searches(running, relation, overlap, keys, as_of)), own=True
    )
    violation = _violation(running, relation, index, definition)
    if conflict is not None:
        raise violation(conflict)
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
