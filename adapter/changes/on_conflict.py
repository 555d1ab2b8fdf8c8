"""INSERT ... ON CONFLICT: rows whose key is there already are left out, or change the row that has it.

The key of each row is locked and looked up before it is written, in what the statement sees; rows that are to change
are locked as UPDATE locks them. So a row is inserted, changed or left out by the state of one snapshot. Where a key or
such a row has been written since that snapshot, READ COMMITTED goes on with the row that is there now, while the rest
of the statement sees what it saw; the levels that keep their snapshot begin again outside of a block, at a newer one
and with their locks (40001 inside, and when part of it has been written already).

A statement of one row whose key is there does without the key's lock: that of the row which has it keeps the key where
it is. Like UPDATE, such a statement follows others to the row (`adapter.transactions.decided_rows`), so that a counter
is raised by many at the speed of one group.

What other servers write, which no lock keeps away, makes the commit run the statement again (40001 inside a block),
since its decision no longer holds: see `retried`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from adapter.changes.change_locks import followed_by
from adapter.changes.constraints.changing_rows import wait_for_changes
from adapter.changes.constraints.key_checks import find
from adapter.changes.constraints.key_locks import MAX_KEYS, lock_keys, newest
from adapter.changes.constraints.overlap_checks import overlaps_of, taken_rows, wait_for_conflicting
from adapter.changes.constraints.table_keys import UniqueKey
from adapter.changes.constraints.target import Target
from adapter.changes.constraints.view_checks import CheckedPolicies
from adapter.distinct_ids import distinct_ids
from adapter.execution.statement import Running, given_to
from adapter.plans.key_indexes import stored_columns
from adapter.plans.predicates import templates_of
from adapter.plans.row_programs import chosen_columns
from adapter.queries.locked_rows import LockedRows
from adapter.queries.prepared_read import with_token
from adapter.queries.read import prepare_read
from adapter.results import RecordBatch
from adapter.spilling.written_keys import WrittenKeys
from adapter.store_errors import CONCURRENT_UPDATE, serialization_failure
from adapter.transactions.decided_rows import DELETED
from adapter.transactions.locks.lock import Follows
from adapter.transactions.locks.modes import FOR_KEY_SHARE, FOR_NO_KEY_UPDATE, FOR_UPDATE
from adapter.transactions.overlaps import OverlapIndex, Taken
from adapter.transactions.transaction import BeginAgain
from planner.common_errors import no_such_key
from planner.errors import CardinalityViolation, SqlError
from planner.ir.bound import BoundInsert, BoundQuery, OnConflict
from planner.ir.nodes import RETURNING_ROWS, Literal, Param
from planner.ir.rewrite import transform
from planner.queries.changes.implication import implied
from storage.catalog.model import Index, Relation
from storage.off_loop import AT_ONCE_ROWS, computed
from storage.shards.indexes.definition import StoredColumn
from storage.shards.indexes.reading.found import Found
from storage.shards.indexes.scalar_keys import plain_list
from storage.shards.parts import PROVISIONAL_ROW_ID
from storage.timestamps.csn import Csn

ROW_WORK = 16
"""To decide about a row takes as long as most computing does for so many."""


class Resolved(Struct, frozen=True, kw_only=True):
    """What becomes of some rows: `inserted` are written as they are (their places among them). Of the rows that are
    there, those with the ids `row_ids` change from `old` to `new`, each by one of the rows (its place is in
    `changed`)."""

    inserted: pa.Array
    changed: pa.Array | None = None
    row_ids: pa.Array | None = None
    old: list[Any] | None = None
    new: list[Any] | None = None


class ConflictResolution:
    """The ON CONFLICT clause of one statement, at work. `at_hand` are rows of earlier steps that it reads."""

    def __init__(
        self,
        running: Running,
        target: Target,
        statement: BoundInsert,
        clause: OnConflict,
        at_hand: Mapping[int, Any],
    ) -> None:
        keys = () if target.keys is None else target.keys.unique
        decide = _arbiters(clause, running.params)
        self.arbiters = tuple(key for key in keys if not decide or key.constraint.oid in decide)
        self._running = running
        self._target = target
        self._statement = statement
        self._at_hand = at_hand
        """Rows of earlier steps of WITH, which DO UPDATE may read."""
        self._update = clause.update
        self._templates = () if clause.update is None else templates_of(clause.update)
        overlaps = [_overlap(target.relation, key) for key in self.arbiters]
        self._written: list[set[Any] | WrittenKeys | Taken] = [
            set() if each is None else Taken(each) for each in overlaps
        ]
        """For each of them the keys that the statement itself has written."""
        self._batches = 0
        self._existing: CheckedPolicies | None = None
        self.updated: CheckedPolicies | None = None
        """What row-level security requires of rows that are updated."""
        if clause.existing is not None and clause.updated is not None:
            self._existing = CheckedPolicies(running, clause.existing, "existing")
            self.updated = CheckedPolicies(running, clause.updated, "updated")
        self._mode = FOR_NO_KEY_UPDATE
        """How rows are locked that change: as PostgreSQL does it, by the columns that are assigned to, whatever to."""
        if not clause.assigned.isdisjoint(target.key_places):
            self._mode = FOR_UPDATE
        self._may_begin_again = True
        """Until the statement has written something."""
        transaction = running.transaction
        before = transaction.own_before.get(target.shard)
        ends = [part.first_row_id + part.rows for part in before or () if part.kind == "insert"]
        self._own_from = None if before is None else max([PROVISIONAL_ROW_ID, *ends])
        """The id from which on rows are those of other parts of the same statement, if it has any."""

    @property
    def reads_tables(self) -> bool:
        """Whether DO UPDATE, or a policy, has subqueries, which do not see what the statement changes."""
        existing, updated = self._existing, self.updated
        checked = (existing is not None and existing.reads_tables) or (updated is not None and updated.reads_tables)
        return bool(self._templates) or checked

    async def resolve(self, columns: Sequence[Any]) -> Resolved:
        """What becomes of the rows with these columns. Raises 21000 when DO UPDATE would change a row twice."""
        count = len(columns[0]) if columns else 0
        wanted = () if self._update is None else stored_columns(self._target.relation)
        found: list[Found] = []
        owned: list[tuple[UniqueKey, Sequence[Any], pa.Array | None]] = []
        relation = self._target.relation
        for key in self.arbiters:
            keys, rows = await key.keys_of([whole(columns[place]) for place in key.places])
            overlaps = isinstance(key.constraint, Index) and key.constraint.overlapping
            before = await self._there(key, keys, wanted)
            there = await self._locked_row(key, before) if count == 1 and not overlaps else None
            if there is None:
                if not self._running.transaction.is_own_table(relation):
                    await self._lock(key, keys)
                there = await self._newest(key, keys, wanted, before)
            found.append(there if rows is None else replace(there, keys=rows.to_numpy()[there.keys]))
            owned.append((key, keys, rows))
        self._may_begin_again = False
        theirs, inserted = await computed(ROW_WORK * count, lambda: self._decided(count, owned, found))
        if self._update is None or theirs is None:
            return Resolved(inserted=inserted)
        return await self._changed(self._update, columns, theirs, inserted)

    async def _lock(self, key: UniqueKey, keys: Sequence[Any]) -> None:
        """Have nobody else write one of `keys`, or such as conflict with one. Raises what waiting for a lock raises."""
        record = key.constraint
        if isinstance(record, Index) and record.overlapping:
            await wait_for_conflicting(self._running, self._target.relation, record, key.index, tuple(keys))
        else:
            await lock_keys(self._running, record.oid, key.index, keys)

    async def _there(
        self, key: UniqueKey, keys: Sequence[Any], columns: Sequence[StoredColumn] = (), as_of: Csn | None = None
    ) -> Found:
        """The rows that one of `keys` conflicts with; of those that overlap one, only that there are any."""
        overlap = _overlap(self._target.relation, key)
        if overlap is not None:
            return await taken_rows(self._running, self._target.relation, overlap, tuple(keys), as_of)
        return await find(self._running, self._target.relation, key.index, keys, columns, as_of=as_of)

    async def _locked_row(self, key: UniqueKey, there: Found) -> Found | None:
        """The newest version of the one row of others that is `there` with a key, locked so that it keeps that; None
        when there is no such row, or has not that key any more. Raises what `LockedRows.lock` raises."""
        running, relation = self._running, self._target.relation
        is_other = len(there.row_ids) == 1 and int(there.row_ids[0]) < PROVISIONAL_ROW_ID
        if not is_other or key.computed or not self._may_begin_again or self._own_from is not None:
            return None
        if running.transaction.is_own_table(relation):
            return None
        row_ids, row_id = np.asarray(there.row_ids, np.int64), int(there.row_ids[0])
        if self._update is None:
            if not running.is_alone:
                return None  # In PostgreSQL nobody waits for a block that has left such a row as it is.
            rows = LockedRows(running, relation, "locking")
            changed = await rows.lock(row_ids, np.array([FOR_KEY_SHARE]))
            return None if row_id in changed else there
        # What it reads besides would be older than a row that it follows to.
        reads = self.reads_tables or bool(templates_of(self._statement.source))
        is_plain = not reads and self._statement.view_checks is None and self._existing is None
        is_plain = is_plain and self._mode is FOR_NO_KEY_UPDATE
        follows = followed_by(running, self._statement.returning) if is_plain else Follows.NOBODY
        rows = LockedRows(running, relation, "locking", follows=follows)
        changed = await rows.lock(row_ids, np.array([self._mode]))
        if row_id not in changed:
            return there
        newest = await rows.newest_versions([at for at in changed.values() if at != DELETED])
        (now,) = newest.select(there.rows.schema.names).combine_chunks().to_batches() or [there.rows.slice(0, 0)]
        names = [column.name for column in key.index.inputs]
        if now.num_rows and now.select(names).equals(there.rows.select(names)):
            return Found(keys=there.keys, row_ids=np.array([changed[row_id]], np.int64), rows=now)
        await self._look_again_if_followed()
        return None

    async def _look_again_if_followed(self) -> None:
        """Raise BeginAgain, once they are durable, when the row of others that are decided will not do."""
        transaction = self._running.transaction
        if transaction.follows_now:
            await transaction.settled()
            raise BeginAgain

    async def _newest(
        self, key: UniqueKey, keys: Sequence[Any], columns: Sequence[StoredColumn], there: Found
    ) -> Found:
        """The rows that one of `keys` conflicts with: those that are there now, at levels that take a snapshot for each
        statement; at the others those of the snapshot, which are `there`. Rows that may change are locked. Raises
        BeginAgain or 40001 when other rows are there than may be changed."""
        running, relation = self._running, self._target.relation
        transaction, snapshot = running.transaction, running.transaction.snapshot
        if transaction.is_own_table(relation) or snapshot is None or relation.shard is None:
            return there
        as_of = snapshot.csn
        while True:
            ids = distinct_ids(there.row_ids[there.row_ids < PROVISIONAL_ROW_ID])
            if 0 < len(ids) <= MAX_KEYS and self._update is None:
                await wait_for_changes(running, relation, ids)
            elif 0 < len(ids) <= MAX_KEYS:
                await running.session.locks.lock_rows(relation.oid, ids, self._mode)
            until = newest(running)
            changes = await running.services.env.reader.changes(relation.shard, as_of, until)
            if not changes.inserts and not changes.deletes:
                return there
            now = await self._there(key, keys, columns, as_of=until)
            if _pairs(now) == _pairs(there):
                return there
            if transaction.isolation.keeps_snapshot:
                if self._may_begin_again and transaction.implicit and transaction.may_renew:
                    raise BeginAgain
                # DO NOTHING may go on where a row has gone, since nobody can tell: but for the keys of rows that are
                # there and that the snapshot does not have.
                if self._update is not None or not _pairs(now) <= _pairs(there):
                    raise serialization_failure(CONCURRENT_UPDATE)
            there, as_of = now, until

    def _decided(
        self,
        count: int,
        owned: Sequence[tuple[UniqueKey, Sequence[Any], pa.Array | None]],
        found: Sequence[Found],
    ) -> tuple[Found | None, pa.Array]:
        """The rows that have a key, if there are any to update, by the number of the new row; and the numbers of the
        rows to insert. `owned`: for each of the arbiters the keys of the new rows, and of which rows. May run on a
        thread."""
        taken = np.zeros(count, bool)
        numbers, row_ids, rows = [], [], []
        for rows_there in found:
            _, first = np.unique(rows_there.keys, return_index=True)
            first = first[~taken[rows_there.keys[first]]]
            taken[rows_there.keys[first]] = True
            if self._update is not None and len(first):
                numbers.append(rows_there.keys[first])
                row_ids.append(rows_there.row_ids[first])
                rows.append(rows_there.rows.take(pa.array(first)))
        written = [_own(key, keys, of, count) for key, keys, of in owned]
        if count > 1:
            self._look_for(written)
        inserted = []
        for number in range(count):
            own = [values[number] for values in written]
            before = any(value is not None and value in seen for value, seen in zip(own, self._written, strict=True))
            if before:
                if self._update is not None:
                    raise _twice()
                taken[number] = True
            if taken[number]:
                if self._update is None:
                    continue
            else:
                inserted.append(number)
            for value, seen in zip(own, self._written, strict=True):
                if value is not None:
                    seen.add(value)
        if not rows:
            return None, pa.array(inserted, pa.int64())
        order = np.argsort(np.concatenate(numbers))
        there = Found(
            keys=np.concatenate(numbers)[order],
            row_ids=np.concatenate(row_ids)[order],
            rows=_one_batch(rows).take(pa.array(order)),
        )
        return there, pa.array(inserted, pa.int64())

    def _look_for(self, proposed: Sequence[Sequence[Any]]) -> None:
        """Find out which keys, those of each arbiter, have been written if those that have are many."""
        for place, (keys, seen) in enumerate(zip(proposed, self._written, strict=True)):
            if isinstance(seen, set) and len(seen) > AT_ONCE_ROWS:
                seen = self._written[place] = WrittenKeys(self._running.session.temporary_files, seen)
            if isinstance(seen, WrittenKeys):
                seen.look_for(keys)

    async def _changed(
        self,
        update: BoundQuery,
        columns: Sequence[Any],
        there: Found,
        inserted: pa.Array,
    ) -> Resolved:
        mine = self._own_from is not None and int(there.row_ids.max()) >= self._own_from
        if mine or len(distinct_ids(there.row_ids)) < len(there.row_ids):
            raise _twice()
        places = pa.array(there.keys, pa.int64())
        old = there.rows.columns
        excluded = [column.take(places) for column in columns]
        chosen = chosen_columns(update, [*old, *excluded], given_to(self._running))
        kept, new = chosen or await self._by_engine(update, [*old, *excluded])
        if not len(kept):
            return Resolved(inserted=inserted)
        old = [column.take(kept) for column in old]
        if self._existing is not None:
            await self._existing.check(pa.record_batch(old, names=self._target.names))
        new = [column.cast(before.type) for column, before in zip(new, old, strict=True)]
        if self._target.keys is not None and self._running.transaction.follows_now:
            pairs = zip(self._target.columns, old, new, strict=True)
            if self._target.keys.touches(frozenset([at.attnum for at, before, now in pairs if not before.equals(now)])):
                await self._look_again_if_followed()
        return Resolved(
            inserted=inserted,
            changed=places.take(kept),
            row_ids=pa.array(there.row_ids, pa.int64()).take(kept),
            old=old,
            new=new,
        )

    async def _by_engine(self, update: BoundQuery, columns: Sequence[Any]) -> tuple[pa.Array, list[pa.Array]]:
        """What `chosen_columns` gives for `update` over the rows that are there and those that were to be inserted."""
        running = self._running
        names = [f"c{number}" for number in range(1, len(columns) + 1)]
        at_hand = {**self._at_hand, RETURNING_ROWS: pa.table(list(columns), names=names)}
        catalog = running.transaction.catalog
        read = await prepare_read(running, catalog, update, self._templates, constants=False, at_hand=at_hand)
        context = with_token(read.context, f"conflict{self._batches}")
        self._batches += 1
        stream: Any = running.engines.local.execute(
            read.query, read.resolved.inputs, running.params, context, extra=read.at_hand
        )
        async with aclosing(stream) as found:
            batches = [batch async for batch in found]
        result = pa.Table.from_batches(batches).combine_chunks()
        applies, *new = [whole(column) for column in result.columns]
        kept = pa.array(np.flatnonzero(np.asarray(applies.fill_null(False))), pa.int64())
        return kept, [column.take(kept) for column in new]


def _pairs(found: Found) -> set[tuple[int, int]]:
    """Which keys were found in which rows."""
    return set(zip(found.keys.tolist(), found.row_ids.tolist(), strict=True))


def retried(_: int) -> SqlError:
    """What the commit says of a key that somebody else has written meanwhile: the statement decides anew."""
    return serialization_failure(CONCURRENT_UPDATE)


def _twice() -> CardinalityViolation:
    return CardinalityViolation(
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
        hint="Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )


def _arbiters(clause: OnConflict, params: Sequence[Literal]) -> frozenset[int]:
    """The oids of the keys that decide, those among them that do for these values of parameters; none if all keys of
    the table do. Raises 42P10."""
    if not clause.conditional:
        return frozenset(clause.arbiters)

    def given(node: object) -> Literal | None:
        return params[node.index - 1] if isinstance(node, Param) else None

    follow = [key.oid for key in clause.conditional if implied(key.predicate, [transform(key.given, given)])]
    decide = frozenset((*clause.arbiters, *follow))
    if not decide:
        raise no_such_key()
    return decide


def _overlap(relation: Relation, key: UniqueKey) -> OverlapIndex | None:
    """The index of a constraint with &&."""
    record = key.constraint
    return overlaps_of(relation, record, key.index) if isinstance(record, Index) and record.overlapping else None


def _own(key: UniqueKey, keys: Sequence[Any], rows: pa.Array | None, count: int) -> list[Any]:
    """The keys of so many rows (`keys`, which belong to `rows`) as values that are equal when the keys are; None for
    rows without one and where a NULL is in one."""
    nulls = key.constraint.nulls_not_distinct
    own = [
        None if not nulls and None in values else tuple(map(_comparable, values))
        for values in zip(*(plain_list(column) for column in keys), strict=True)
    ]
    if rows is None:
        return own
    found: list[Any] = [None] * count
    for row, value in zip(rows.to_pylist(), own, strict=True):
        found[row] = value
    return found


def _comparable(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, (dict, list)):
        return repr(value)
    return value


def _one_batch(batches: Sequence[RecordBatch]) -> RecordBatch:
    """All rows of `batches`, of which there is one at least."""
    if len(batches) == 1:
        return batches[0]
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches() or [batches[0]]
    return batch


def whole(column: Any) -> Any:
    """A column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
