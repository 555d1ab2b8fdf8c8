"""Waiting for those who are changing rows, or writing keys, without keeping anything that they have.

Who finds that a row is in the way of a new one, and somebody else is about to change or delete that row, has to know
how that ends. As in PostgreSQL (check_exclusion_or_unique_constraint) it waits for the other's transaction, and for
nobody who has only locked the row (SELECT ... FOR UPDATE).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adapter.execution.statement import Running
from adapter.transactions.locks.lock import Owner
from adapter.transactions.locks.modes import FOR_SHARE
from adapter.transactions.locks.transient import keeping_nothing
from storage.catalog.model import Relation
from storage.ids import ShardId
from storage.shards.parts import PROVISIONAL_ROW_ID


async def wait_for_changes(running: Running, relation: Relation, row_ids: np.ndarray[Any, Any]) -> bool:
    """Wait until none of these rows (ids ascending) is being changed by others; whether that took waiting. Raises what
    waiting for a lock raises."""
    shard = relation.shard
    assert shard is not None
    locks = running.session.locks
    waited = False
    for row_id in row_ids[row_ids < PROVISIONAL_ROW_ID].tolist():
        others = locks.table.holders_of_row(relation.oid, row_id)
        if any(other is not locks.owner and _changes(running, other, shard, row_id) for other in others):
            with keeping_nothing(locks):
                waited |= await locks.lock_rows(relation.oid, np.array([row_id], np.int64), FOR_SHARE)
    return waited


async def wait_for_writers(running: Running, key_oid: int, numbers: np.ndarray[Any, Any]) -> None:
    """Wait for the ends of those who hold keys of the index `key_oid` by these numbers (ascending). Raises what waiting
    for a lock raises."""
    locks = running.session.locks
    with keeping_nothing(locks):
        await locks.lock_rows(key_oid, numbers, FOR_SHARE)


def _changes(running: Running, owner: Owner, shard: ShardId, row_id: int) -> bool:
    """Whether a holder of the lock of a row is changing it: not, if it is known to have done nothing to it."""
    backend = running.sessions.get(owner.pid)
    state = None if backend is None else backend.state
    if state is None or state.locks.owner is not owner or state.transaction is None:
        return True  # A commit that is under way, or a prepared transaction.
    return any(each.shard == shard and row_id in each.old for each in state.transaction.pending.replacements)
