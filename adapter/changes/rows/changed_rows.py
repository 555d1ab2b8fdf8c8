"""The rows that one statement has changed already, where several of its parts change rows of a table, or functions
that it calls do.

PostgreSQL's rule (heap_update and heap_delete, TM_SelfModified): a row that the same command has changed is left alone,
and one that a later command has changed, as a function's is, is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from adapter.execution.statement import Running
from adapter.results import RecordBatch
from planner.errors import TriggeredDataChangeViolation
from planner.ir.bound import BoundChange, BoundDelete, BoundMerge
from storage.ids import ShardId
from storage.shards.parts import ROW_ID
from storage.transactions.txn import Txn


class ChangedRows:
    """See the module. `changes_by_calls`: those of the session when the statement began."""

    def __init__(self, changes_by_calls: int) -> None:
        self.changes_by_calls = changes_by_calls
        self._ids: dict[int, np.ndarray[Any, Any]] = {}
        """By oid of the table, ascending."""

    def first_time(self, relation_oid: int, batch: RecordBatch) -> RecordBatch:
        """Those of the rows, whose ids are the first column, that have not been given before."""
        ids = batch.column(0).to_numpy()
        known = self._ids.get(relation_oid)
        if known is None:
            self._ids[relation_oid] = np.sort(ids)
            return batch
        new = ~np.isin(ids, known)
        self._ids[relation_oid] = np.union1d(known, ids[new])
        return batch if new.all() else batch.filter(pa.array(new))


async def refuse_changed(running: Running, shard: ShardId, txn: Txn, row_ids: pa.Array, statement: BoundChange) -> None:
    """27000 when one of the rows that `statement` replaces or deletes is replaced or deleted already."""
    found = txn.deleted_ids(shard)
    if found is None:
        await txn.make_local_parts(shard)
        deletes = [part for part in txn.local_parts(shard) if part.kind == "delete"]
        tables = [await running.services.env.reader.read_part(part, [ROW_ID]) for part in deletes]
        found = np.concatenate([table.column(ROW_ID).to_numpy() for table in tables])
    if not np.isin(row_ids.to_numpy(), found).any():
        return
    match statement:
        case BoundDelete():
            change = "deleted"
        case BoundMerge():
            change = "updated or deleted"
        case _:
            change = "updated"
    raise TriggeredDataChangeViolation(
        f"tuple to be {change} was already modified by an operation triggered by the current command",
        hint="Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.",
    )
