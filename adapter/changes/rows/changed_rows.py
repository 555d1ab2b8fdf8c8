"""The rows that one statement has changed already, where several of its parts change rows of a table.

PostgreSQL's rule (heap_update and heap_delete, TM_SelfModified): a row that the same command has changed is left alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from adapter.results import RecordBatch


class ChangedRows:
    """See the module."""

    def __init__(self) -> None:
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
