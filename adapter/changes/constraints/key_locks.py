"""Locks of keys and of the rows that have them: who writes a key, or refers to one, waits for others who do.

A unique key that is written is locked until the transaction ends, so that a second transaction which writes it waits,
and then finds it taken or free. A key is locked by its hash, as if it were a row of its index: so many keys cost what
many rows do (`adapter.transactions.locks.row_locks`), and two keys of one hash wait for each other for nothing. More
than `MAX_KEYS` of one statement are not locked at all: the commit alone judges them.

Rows that are referred to are locked FOR KEY SHARE, those that follow a key (ON DELETE CASCADE and its like) as UPDATE
and DELETE lock theirs.

What comes after a wait is decided by what is there then (`newest`), not by the statement's snapshot, as in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from adapter.distinct_ids import distinct_ids
from adapter.execution.statement import Running
from adapter.plans.key_indexes import key_arrays
from adapter.transactions.locks.modes import FOR_KEY_SHARE, FOR_UPDATE, Mode
from storage.catalog.model import Relation
from storage.off_loop import computed
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.reading.found import Found
from storage.shards.indexes.scalar_keys import plain_scalar
from storage.shards.parts import PROVISIONAL_ROW_ID
from storage.timestamps.csn import Csn

MAX_KEYS = 5_000
"""Keys of one statement that are locked, in about 10 ms of the event loop. Who writes more is a load, not an
application."""

HASH_MASK = (1 << 44) - 1
"""Two statements of `MAX_KEYS` keys each meet by chance once in 700,000 times."""


def newest(running: Running) -> Csn:
    """Up to where this server knows what has been committed, not before the statement's snapshot."""
    snapshot = running.transaction.snapshot
    assert snapshot is not None
    return max(snapshot.csn, Csn(running.services.env.cache.upper - 1))


async def lock_keys(running: Running, key_oid: int, index: IndexDefinition, keys: Sequence[pa.Array]) -> None:
    """Lock keys (by columns) of the constraint or index `key_oid`. Raises what waiting for a lock raises."""
    count = len(keys[0])
    if count <= MAX_KEYS:
        hashes = await computed(count, lambda: _hashes(index, key_arrays(index, keys)))
        await running.session.locks.lock_rows(key_oid, hashes, FOR_UPDATE)


def _hashes(index: IndexDefinition, keys: Sequence[pa.Array]) -> np.ndarray[Any, Any]:
    """A number for each of `keys` that can be in two rows only if it is the same: ascending, each once."""
    columns = [
        [_plain(column, scalar) for scalar in values] for column, values in zip(index.columns, keys, strict=True)
    ]
    wanted = {
        hash(key) & HASH_MASK for key in zip(*columns, strict=True) if index.nulls_not_distinct or None not in key
    }
    return np.array(sorted(wanted), np.int64)


def _plain(column: Any, scalar: pa.Scalar) -> Any:
    try:
        return plain_scalar(column, scalar)
    except ValueError:
        return scalar.as_py()  # A number of more digits than an index orders by.


def _committed_ids(found: Found) -> np.ndarray[Any, Any]:
    ids = np.asarray(found.row_ids, np.int64)
    if len(ids) > 1:
        ids = distinct_ids(ids)
    return ids[ids < PROVISIONAL_ROW_ID]


async def lock_found(
    running: Running, relation: Relation, mode: Mode, find: Callable[[Csn], Awaitable[Found]]
) -> tuple[Found, Csn]:
    """What `find` gives for the newest rows of `relation`, with those rows locked; and as of when that is. Own rows of
    the transaction need no lock. Raises what waiting for a lock raises."""
    transaction, env = running.transaction, running.services.env
    while True:
        as_of = newest(running)
        found = await find(as_of)
        ids = await computed(len(found.row_ids), partial(_committed_ids, found))
        if not len(ids) or len(ids) > MAX_KEYS or transaction.is_own_table(relation):
            return found, as_of
        assert relation.shard is not None
        waited = await running.session.locks.lock_rows(relation.oid, ids, mode)
        until = newest(running)
        if not waited and (until == as_of or not (await env.reader.changes(relation.shard, as_of, until)).deletes):
            return found, as_of


async def lock_referred(
    running: Running, relation: Relation, find: Callable[[Csn], Awaitable[Found]]
) -> tuple[Found, Csn]:
    """`lock_found` for rows that others refer to, or that a key is found taken by: they must not go."""
    return await lock_found(running, relation, FOR_KEY_SHARE, find)
