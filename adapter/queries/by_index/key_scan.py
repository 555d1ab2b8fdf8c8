"""Rows of a table by their keys, as a transaction sees them: by the key runs of its parts (`storage.shards.indexes`),
with the transaction's own rows on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from adapter.plans.key_indexes import key_arrays
from adapter.transactions.snapshots import own_parts
from adapter.transactions.transaction import Transaction
from storage.catalog.model import Relation
from storage.environment.environment import Environment
from storage.shards.indexes.definition import IndexDefinition, StoredColumn
from storage.shards.indexes.reading.found import Found
from storage.shards.indexes.reading.ranges import KeyRange
from storage.shards.parts import Part
from storage.shards.shard import ShardChanges
from storage.timestamps.csn import Csn


async def rows_by_key_values(
    env: Environment,
    transaction: Transaction,
    relation: Relation,
    index: IndexDefinition,
    keys: Sequence[Sequence[Any]],
    columns: Sequence[StoredColumn],
) -> Found:
    """The rows of `relation` with one of `keys` (Python's values) that the transaction sees, its own among them."""
    parts, local = await visible_parts(env, transaction, relation)
    found = env.keys.lookup_now(parts, index, keys, columns, local=local)
    return found or await env.keys.lookup(parts, index, keys, columns, local=local)


async def rows_in_range(
    env: Environment,
    transaction: Transaction,
    relation: Relation,
    index: IndexDefinition,
    keys: KeyRange,
    columns: Sequence[StoredColumn],
    *,
    descending: bool = False,
    limit: int | None = None,
) -> Found:
    """The first `limit` rows of `relation` with a key in the range that the transaction sees, in the order of the index
    or the opposite one, its own among them."""
    parts, local = await visible_parts(env, transaction, relation)
    found = env.keys.range_now(parts, index, keys, columns, local=local, descending=descending, limit=limit)
    return found or await env.keys.range(parts, index, keys, columns, local=local, descending=descending, limit=limit)


async def few_rows_in_range(
    env: Environment,
    transaction: Transaction,
    relation: Relation,
    index: IndexDefinition,
    keys: KeyRange,
    columns: Sequence[StoredColumn],
    *,
    descending: bool,
    limit: int | None,
    most: int,
) -> Found | None:
    """As `rows_in_range`; None when those are, or may be, more than `most`."""
    parts, local = await visible_parts(env, transaction, relation)
    if limit is None or limit > most:
        count = env.keys.count_now(parts, index, keys, local=local)
        if count is None:
            count = await env.keys.count(parts, index, keys, local=local)
        if count > most:
            return None
        limit = None
    found = env.keys.range_now(parts, index, keys, columns, local=local, descending=descending, limit=limit)
    return found or await env.keys.range(parts, index, keys, columns, local=local, descending=descending, limit=limit)


async def rows_by_keys(
    env: Environment,
    transaction: Transaction,
    relation: Relation,
    index: IndexDefinition,
    keys: Sequence[pa.Array],
    columns: Sequence[StoredColumn] = (),
    *,
    newest: bool = True,
    as_of: Csn | None = None,
) -> Found:
    """The rows of `relation` with one of `keys` (by columns) that are there for the transaction, at `as_of` if not at
    its snapshot; `newest`: also those that the statement that runs has written itself."""
    parts, local = await visible_parts(env, transaction, relation, newest=newest, as_of=as_of)
    wanted, same = key_arrays(index, keys), index.nulls_not_distinct
    found = env.keys.lookup_columns_now(parts, index, wanted, columns, local=local, nulls_match=same)
    return found or await env.keys.lookup_columns(parts, index, wanted, columns, local=local, nulls_match=same)


async def first_taken(
    env: Environment,
    transaction: Transaction,
    relation: Relation,
    index: IndexDefinition,
    keys: Sequence[pa.Array],
    as_of: Csn,
) -> int | None:
    """The number of the first of `keys` (by columns) that a row has at `as_of`, or that equals one before it; None when
    all are new. Rows that the transaction has added do not count."""
    parts, local = await visible_parts(env, transaction, relation, newest=True, inserts=False, as_of=as_of)
    same = index.nulls_not_distinct
    return await env.keys.first_taken(parts, index, key_arrays(index, keys), local=local, nulls_match=same)


async def visible_parts(
    env: Environment,
    transaction: Transaction,
    relation: Relation,
    *,
    newest: bool = False,
    inserts: bool = True,
    as_of: Csn | None = None,
) -> tuple[Any, tuple[Part, ...]]:
    """The parts of `relation` in the transaction's snapshot, or at `as_of`, and those of its own that the statement
    sees; `newest`: all of its own; without `inserts`: only what it has deleted."""
    shard, snapshot = relation.shard, transaction.snapshot
    assert shard is not None
    assert snapshot is not None
    local: tuple[Part, ...] = ()
    if transaction.txn is not None or transaction.own_before or shard[0] == "t":
        local = await own_parts(transaction, shard, newest=newest, inserts=inserts)
    if transaction.is_own_table(relation):
        return ShardChanges(shard=shard, after=Csn(0), until=Csn(0), inserts=(), deletes=()), local
    return await env.reader.snapshot(shard, snapshot.csn if as_of is None else as_of), local


def distinct_keys(keys: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
    """Keys by columns, each once, those with a NULL left out: what a foreign key or a join looks for."""
    kept = tuple(keys)
    if any(column.null_count for column in keys):
        valid = np.ones(len(keys[0]), bool)
        for column in keys:
            valid &= np.asarray(column.is_valid())
        kept = tuple(column.filter(pa.array(valid)) for column in keys)
    if len(kept[0]) < 2:
        return kept
    try:
        table = pa.table(list(kept), names=[str(n) for n in range(len(kept))])
        once = table.group_by(table.column_names).aggregate([]).combine_chunks()
    except pa.ArrowNotImplementedError:
        return kept  # Keys that Arrow cannot group are looked up more than once.
    return tuple(once.column(n).combine_chunks() for n in range(len(kept)))
