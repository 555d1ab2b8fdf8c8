"""The rows that UPDATEs or DELETEs of one plan change that are carried out together (`Running.beside`): each finds its
row by a key, and one of the later ones may find what an earlier one has made of it.

They happen in the order in which they stand. What comes of a row that several of them change is what the last one makes
of it; the versions in between nobody sees, since all of them commit at one moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from adapter.changes.change_locks import ascending, modes_of_rows
from adapter.changes.constraints.target import Target
from adapter.execution.statement import NotTogether, Running, given_to
from adapter.plans.computed.constant_rows import NeedsEngine
from adapter.plans.computed.row_values import Given
from adapter.plans.key_reads import KeyRead
from adapter.plans.operands import Operands
from adapter.plans.plan_cache import Plan
from adapter.plans.predicates import bind_templates
from adapter.queries.by_index.key_scan import rows_by_key_values
from adapter.queries.locked_rows import LockedRows
from adapter.results import RecordBatch
from adapter.transactions.commit_request import TableRead
from adapter.transactions.pending import UNREAD
from adapter.transactions.transaction import NeedsSnapshot
from storage.errors import AsOfNotReadable, UnknownShard
from storage.off_loop import computed
from storage.shards.indexes.reading.found import Found

_ONE = np.zeros(1, np.int64)


class Together(Struct, frozen=True, kw_only=True):
    """What several statements change: for each row its id, its old values and for UPDATE its new ones; and how many
    rows each statement changes."""

    rows: RecordBatch | None
    counts: tuple[int, ...]


async def rows_of_all(running: Running, plan: Plan, target: Target, keys: Sequence[int] | None) -> Together:
    """What the statement and those beside it change, locked. It assigns to the columns at the places `keys`, of those
    that others may refer to; None: it deletes.

    Raises NotTogether, WouldWait, BeginAgain and 40001, and the errors of values that do not fit.
    """
    read, transaction = plan.key_read, running.transaction
    if transaction.state in UNREAD:
        raise NeedsSnapshot
    snapshot = transaction.snapshot
    if read is None or read.relation.shard is None or snapshot is None or snapshot.ahead:
        raise NotTogether
    given = given_to(running)
    times = given.transaction_began, given.statement_began, given.zone
    givens = [given, *[Given(each.params, *times) for each in running.beside]]
    templates = plan.templates
    if plan.operands is not None:
        givens, templates = [_with_operands(plan.operands, each) for each in givens], plan.operands.templates
    try:
        wanted = [read.access.keys(each) for each in givens]
        numbers = {key: number for number, key in enumerate(dict.fromkeys([key for found in wanted for key in found]))}
        index, columns = read.access.index, read.program.columns
        found = await rows_by_key_values(
            running.services.env, transaction, read.relation, index, list(numbers), columns
        )
    except (NeedsEngine, UnknownShard, AsOfNotReadable) as error:
        raise NotTogether from error
    places = {number: place for place, number in enumerate(found.keys.tolist())}
    changes = _Changes(read, target, is_delete=keys is None)
    counts = []
    for each, own in zip(givens, wanted, strict=True):
        place = places.get(numbers[own[0]]) if own else None
        counts.append(0 if place is None else changes.change(found, place, each))
    if not transaction.is_own_table(read.relation):
        needed = [c for each in givens for c in bind_templates(templates, each.params)[read.relation.oid]]
        transaction.record_read(
            TableRead(
                relation_oid=read.relation.oid,
                shard=read.relation.shard,
                as_of=snapshot.csn,
                conjunctions=tuple(needed),
            )
        )
    rows = changes.rows()
    if rows is not None:
        ids, modes = await computed(
            rows.num_rows,
            partial(ascending, [rows.column(0).to_numpy()], [modes_of_rows(rows, keys, len(target.columns))]),
        )
        locked = LockedRows(running, target.relation, "deleting" if keys is None else "updating")
        if await locked.lock(ids, modes):
            raise NotTogether
    return Together(rows=rows, counts=tuple(counts))


def _with_operands(operands: Operands, given: Given) -> Given:
    """`given` with the operands that it gives. Raises NotTogether."""
    params = operands.at_once(given)
    if params is None:
        raise NotTogether
    return replace(given, params=params)


class _Changes:
    """Rows as they are changed, by id: what the query of the statements gives for a row."""

    def __init__(self, read: KeyRead, target: Target, *, is_delete: bool) -> None:
        self._program = read.program
        self._is_delete = is_delete
        self._width = len(target.columns)
        self._new_places = [1 + self._width + target.names.index(column.name) for column in read.program.columns]
        inputs = [target.names.index(column.name) for column in read.access.index.inputs]
        self._key_places = [(1 + place, 1 + self._width + place) for place in inputs]
        self._rows: dict[int, tuple[RecordBatch, RecordBatch]] = {}
        """What the first change gave, with the old values, and the last one, with the new ones."""

    def change(self, found: Found, place: int, given: Given) -> int:
        """One statement's change of the row at `place`; how many rows it changes."""
        row_id = int(found.row_ids[place])
        before = self._rows.get(row_id)
        if before is None:
            row = found.rows.slice(place, 1)
        elif self._is_delete:
            return 0
        else:
            newest = before[1]
            if any(newest.column(old) != newest.column(new) for old, new in self._key_places):
                raise NotTogether  # It has another key now.
            row = pa.RecordBatch.from_arrays(
                [newest.column(at) for at in self._new_places], names=found.rows.schema.names
            )
        answer = self._program.answer(Found(keys=_ONE, row_ids=found.row_ids[place : place + 1], rows=row), given)
        if answer is None:
            raise NotTogether
        if answer.num_rows:
            self._rows[row_id] = (answer if before is None else before[0], answer)
        return int(answer.num_rows)

    def rows(self) -> RecordBatch | None:
        """All rows, each once; None when there are none."""
        if not self._rows:
            return None
        first = _joined([old for old, _ in self._rows.values()])
        if all(old is new for old, new in self._rows.values()):
            return first
        last = _joined([new for _, new in self._rows.values()])
        columns = [*first.columns[: 1 + self._width], *last.columns[1 + self._width :]]
        return pa.RecordBatch.from_arrays(columns, schema=first.schema)


def _joined(batches: list[RecordBatch]) -> RecordBatch:
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    merged: Any = joined
    return merged
