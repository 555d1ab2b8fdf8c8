"""What the members of a commit group that may commit have changed so far: the next one is validated against it.

A group may have hundreds of members, and each is compared with all that go before it. So what they changed is put
together as they come: the rows that they delete, the unique keys that they add, and where somebody asks for the rows
with a value, the rows by that value. Asking costs what is asked for, and not what has been changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from adapter.plans.predicates import Conjunction
from adapter.transactions.claims import AddedKeys
from adapter.transactions.commit_request import CommitRequest, TableRead
from storage.ids import ShardId
from storage.shards.parts import PROVISIONAL_ROW_ID, ROW_ID
from storage.transactions.rows_ahead import FIRST_AHEAD, rows_named

FEW_ROWS = 4_096
"""Rows of one member and table that are put together; those of larger ones are looked at each time."""


class _Values:
    """The rows that members have added or deleted in one table, by the value of a column."""

    def __init__(self) -> None:
        self.members = 0
        """How many of them are in it."""
        self.rows: dict[Any, list[int]] = {}
        self.is_whole = True
        """Whether nothing is missing."""


class Accepted:
    """See the module."""

    def __init__(self) -> None:
        self.requests: list[CommitRequest] = []
        self.added: AddedKeys | None = None
        """The unique keys that they have added, None as long as nobody claims any."""
        self.large: set[ShardId] = set()
        """Tables of which more rows are deleted than are put together."""
        self._deleted: dict[ShardId, set[int]] = {}
        self._values: dict[tuple[ShardId, str], _Values] = {}

    def add(self, request: CommitRequest) -> None:
        """One more may commit."""
        self.requests.append(request)
        if request.claims:
            self.added = self.added or AddedKeys()
            self.added.add(request.claims)
        for shard in request.txn.shards:
            if request.txn.deletes_from(shard):
                ids = request.txn.deleted_ids(shard)
                if ids is None or len(ids) > FEW_ROWS:
                    self.large.add(shard)
                else:
                    self._deleted.setdefault(shard, set()).update(shared_ids(ids).tolist())

    def delete_one_of(self, shard: ShardId, ids: np.ndarray[Any, Any]) -> bool:
        """Whether one of them deletes one of the rows `ids` of a table that is not among the `large` ones."""
        deleted = self._deleted.get(shard)
        return deleted is not None and not deleted.isdisjoint(ids.tolist())

    def have_nothing_for(self, read: TableRead, seen: frozenset[int]) -> bool:
        """Whether, for certain, none of them has changed a row that was asked for by a value, those `seen` apart."""
        for conjunction in read.conjunctions:
            equal = _equal(conjunction)
            if equal is None:
                return False
            values = self._of_column(read.shard, equal[0])
            if not values.is_whole or any(row not in seen for row in values.rows.get(equal[1], ())):
                return False
        return True

    def _of_column(self, shard: ShardId, column: str) -> _Values:
        values = self._values.get((shard, column))
        if values is None:
            values = self._values[shard, column] = _Values()
        for request in self.requests[values.members :]:
            if values.is_whole and shard in request.txn.shards:
                values.is_whole = _gather(request, shard, column, values.rows)
        values.members = len(self.requests)
        return values


NONE_ACCEPTED = Accepted()
"""What the only member of a group is validated against; nothing is ever added to it."""


def shared_ids(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Those of the deleted rows `ids` that others may delete too: not a transaction's own."""
    return ids[(ids < PROVISIONAL_ROW_ID) | (ids >= FIRST_AHEAD)]


def _equal(conjunction: Conjunction) -> tuple[str, int | str] | None:
    """A column and the value that it has to have, of which equality in Python is that of the database."""
    for comparison in conjunction:
        value = comparison.value
        if comparison.op == "=" and isinstance(value, (int, str)) and not isinstance(value, bool):
            return comparison.column, value
    return None


def _gather(request: CommitRequest, shard: ShardId, column: str, found: dict[Any, list[int]]) -> bool:
    """Put the rows that `request` has changed into `found`, by `column`; False when they are not at hand, or not told
    apart by Python's values."""
    tables = request.txn.rows_in_memory(shard)
    if tables is None or sum([table.num_rows for _, table in tables]) > FEW_ROWS:
        return False
    for first, table in tables:
        place = table.schema.get_field_index(column)
        if place < 0:
            return False
        values = table.column(place)
        if not (pa.types.is_integer(values.type) or pa.types.is_string(values.type)):
            return False
        ids = table.column(ROW_ID).to_numpy() if first is None else np.arange(first, first + table.num_rows)
        for value, row in zip(values.to_pylist(), rows_named(ids, request.txn.place).tolist(), strict=True):
            found.setdefault(value, []).append(row)
    return True
