"""MERGE: what becomes of a batch of pairs of target and source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from adapter.changes.constraints.target import Target
from adapter.changes.constraints.view_checks import CheckedPolicies
from adapter.changes.rows.changed_rows import ChangedRows
from adapter.changes.rows.over_rows import computed_rows
from adapter.execution.statement import Running
from adapter.plans.computed.constant_rows import constant_value
from adapter.queries.acting.sequences import find_sequence, next_values
from adapter.results import RecordBatch
from planner.errors import CardinalityViolation
from planner.ir.bound import BoundMerge, MergePolicies
from planner.ir.physical import arrow_type
from storage.catalog.model import Sequence as SequenceRecord


class MergedRows(Struct, kw_only=True):
    """A batch of pairs: their columns in the table before and after (a deleted row is as before), the rest of what
    RETURNING needs, and which of them (places) are inserted, updated and deleted."""

    row_ids: Any
    old: list[Any]
    new: list[Any]
    joined: list[Any]
    inserted: pa.Array
    updated: pa.Array
    deleted: pa.Array

    @property
    def written(self) -> list[Any]:
        """The new rows, in order."""
        places = np.sort(np.concatenate([np.asarray(self.inserted), np.asarray(self.updated)]))
        return taken(self.new, pa.array(places))


class Merge:
    """The actions of one MERGE, at work."""

    def __init__(self, running: Running, target: Target, statement: BoundMerge, changed: ChangedRows) -> None:
        self._running = running
        self._target = target
        self._statement = statement
        self._changed = changed
        self._commands = np.array(["", *(action.command for action in statement.actions)])
        self._batches = 0
        policies = statement.policies or MergePolicies()
        self._policies = {
            purpose: CheckedPolicies(running, checks, purpose)
            for purpose in MergePolicies.__struct_fields__
            if (checks := getattr(policies, purpose)) is not None
        }

    @property
    def reads_tables(self) -> bool:
        """Whether a policy has subqueries, which do not see what the statement changes."""
        return any(checked.reads_tables for checked in self._policies.values())

    async def rows(self, batch: RecordBatch) -> MergedRows:
        """What becomes of the pairs in `batch`, with numbers and generated columns. Raises 21000 when a row would be
        changed twice."""
        width = len(self._target.columns)
        columns: list[Any] = batch.columns
        numbers = columns[1 + 2 * width].to_numpy()
        command = self._commands[numbers]
        merged = MergedRows(
            row_ids=columns[0],
            old=columns[1 : 1 + width],
            new=columns[1 + width : 1 + 2 * width],
            joined=columns[2 + 2 * width :],
            inserted=_places(command == "insert"),
            updated=_places(command == "update"),
            deleted=_places(command == "delete"),
        )
        changed = batch.select([0]).filter(pa.array(command != "insert"))
        once = pc.count_distinct(changed.column(0)).as_py() == changed.num_rows
        oid = self._target.relation.oid
        if not once or self._changed.first_time(oid, changed).num_rows < changed.num_rows:
            raise CardinalityViolation(
                "MERGE command cannot affect row a second time",
                hint="Ensure that not more than one source row matches any one target row.",
            )
        for number, action in enumerate(self._statement.actions, 1):
            for place, sequence in action.numbered:
                merged.new[place] = await self._numbered(merged.new[place], numbers == number, place, sequence)
        await self._compute(merged, command)
        for purpose, columns, places in (
            ("replaced", merged.old, merged.updated),
            ("deleted", merged.old, merged.deleted),
            ("updated", merged.new, merged.updated),
            ("inserted", merged.new, merged.inserted),
        ):
            if purpose in self._policies:
                rows = pa.record_batch(taken(columns, places), names=self._target.names)
                await self._policies[purpose].check(rows)
        return merged

    async def _numbered(self, column: Any, rows: Any, place: int, sequence: Any) -> Any:
        """`column` with the sequence's next numbers in `rows`."""
        _, name = constant_value(sequence, self._running.params)
        record: SequenceRecord = find_sequence(self._running, name, to_number=True)
        values = await next_values(self._running, record, int(rows.sum()))
        physical = arrow_type(self._target.types[place])
        return pc.replace_with_mask(column, pa.array(rows), pa.array(values, pa.int64()).cast(physical))

    async def _compute(self, merged: MergedRows, command: Any) -> None:
        """Give new rows their generated columns."""
        computed = self._statement.computed
        written = _places(command != "delete")
        if computed is None or not len(written):
            return
        self._batches += 1
        proposed = pa.record_batch(taken(merged.new, written), names=self._target.names)
        rows = await computed_rows(self._running, computed, proposed, f"generated{self._batches}")
        mask = pa.array(command != "delete")
        for place, column in enumerate(self._target.columns):
            if column.generated:
                merged.new[place] = pc.replace_with_mask(merged.new[place], mask, rows.column(place))


def taken(columns: Sequence[Any], places: pa.Array) -> list[Any]:
    """The rows at `places`."""
    return [column.take(places) for column in columns]


def _places(mask: Any) -> pa.Array:
    return pa.array(np.flatnonzero(mask), pa.int64())
