"""The keys that one statement writes and removes in one table, and what is done about them when it ends.

Rows that follow a removed key (ON DELETE and ON UPDATE ... CASCADE, SET NULL, SET DEFAULT) are changed like a statement
changes them, with the checks of their own table; so one statement may reach any number of tables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapter.changes.constraints.key_checks import (
    aside,
    check_referring,
    check_unique,
    check_unreferenced,
    claim_unreferenced,
    defer,
    find,
    gone_keys,
    is_deferred,
    refuse_unseen,
)
from adapter.changes.constraints.key_locks import lock_found
from adapter.changes.constraints.key_values import keys_for_child, naming_column, values_for_child
from adapter.changes.constraints.overlap_checks import check_overlaps
from adapter.changes.constraints.row_checks import check_rows
from adapter.changes.constraints.table_keys import ForeignKey, TableKeys, UniqueKey, places_of
from adapter.changes.constraints.target import Target, target_of
from adapter.changes.rows.defaults import default_query
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.plans.computed.constant_rows import array_of
from adapter.plans.key_indexes import stored_columns
from adapter.queries.by_index.key_scan import distinct_keys
from adapter.queries.single_row import evaluate
from adapter.results import RecordBatch
from adapter.spilling.key_runs import Keys, joined, spill, taken
from adapter.store_errors import CONCURRENT_UPDATE, serialization_failure
from adapter.transactions.claims import Violation
from adapter.transactions.decided_rows import DELETED, Replacement
from adapter.transactions.locks.modes import FOR_NO_KEY_UPDATE, FOR_UPDATE
from planner.types.table_indexes import constraint_of_index
from storage.catalog.model import Index
from storage.catalog.temporary import FIRST_TEMPORARY_OID
from storage.off_loop import AT_ONCE_ROWS, computed
from storage.shards.parts import ROW_ID

SET_DEFAULT = "d"
"""pg_constraint.confdeltype and confupdtype of SET DEFAULT; a is NO ACTION, r RESTRICT, c CASCADE, n SET NULL."""


class StatementKeys:
    """See the module. Rows are given as one array for each live column of the table."""

    def __init__(
        self, running: Running, target: Target, keys: TableKeys, followers: deque[StatementKeys] | None = None
    ) -> None:
        self._running = running
        self._followers: deque[StatementKeys] = deque() if followers is None else followers
        """What the rows that follow removed keys have still to be checked for, in PostgreSQL's order: after everything
        that was queued before."""
        self._is_first = followers is None
        self._target = target
        self._keys = keys
        self._added = 0
        self.unspilled = 0
        """Rows that were noted since `spill` last looked at what they take."""
        self._own_places = [*(key.places for key in keys.unique), *(key.child_places for key in keys.foreign)]
        self._new: list[list[Keys]] = [[] for _ in self._own_places]
        """For each unique and foreign key: those of new rows."""
        self._removed: list[list[Keys]] = [[] for _ in keys.referenced]
        """For each foreign key that refers to the table: keys of rows that were deleted."""
        self._moved: list[list[Keys]] = [[] for _ in keys.referenced]
        """The same for rows that were updated: the columns of the keys before, then those after."""

    def add(self, columns: Sequence[Any]) -> None:
        """Rows have been inserted."""
        self._added += len(columns[0])
        self.unspilled += len(columns[0])
        for noted, places in zip(self._new, self._own_places, strict=True):
            noted.append(_of(columns, places))

    def remove(self, columns: Sequence[Any]) -> None:
        """Rows have been deleted."""
        self.unspilled += len(columns[0])
        for noted, key in zip(self._removed, self._keys.referenced, strict=True):
            noted.append(_of(columns, key.parent_places))

    def move(self, old: Sequence[Any], new: Sequence[Any]) -> None:
        """Rows have been updated: `old` became `new`, row by row."""
        self.unspilled += len(new[0])
        for noted, places in zip(self._new, self._own_places, strict=True):
            _, after = _changed(_of(old, places), _of(new, places))
            if len(after[0]):
                noted.append(after)
        for moved, key in zip(self._moved, self._keys.referenced, strict=True):
            before, after = _changed(_of(old, key.parent_places), _of(new, key.parent_places))
            if len(after[0]):
                moved.append((*before, *after))

    async def spill(self) -> None:
        """Put into files what is beyond the budget; when many rows are `unspilled`. Raises 53400."""
        self.unspilled = 0
        for noted in (*self._new, *self._removed, *self._moved):
            if noted:
                await spill(noted, self._running.session.temporary_files)

    async def finish(self, others: Mapping[int, Violation] | None = None) -> None:
        """The statement has written everything: check its keys, and let follow what refers to removed ones. `others`:
        by oid of a unique key, what the commit says when somebody else has written it, if not 23505."""
        running, keys = self._running, self._keys
        late = [number for number, unique in enumerate(keys.unique) if _is_checked_late(running, unique)]
        await self._finish_unique([number for number in range(len(keys.unique)) if number not in late], others)
        for removed, moved, key in zip(self._removed, self._moved, keys.referenced, strict=True):
            for piece in taken(removed) if removed else ():
                await self._deleted(key, piece)
            if not moved:
                continue
            pieces = taken(moved)
            # Of a cascade all keys are needed at once: rows that have followed one must not follow another.
            for piece in [joined(pieces)] if key.constraint.on_update == "c" else pieces:
                half = len(piece) // 2
                await self._updated(key, piece[:half], piece[half:])
        for noted, key in zip(self._new[len(keys.unique) :], keys.foreign, strict=True):
            for new in taken(noted) if noted else ():
                if is_deferred(running, key.constraint):
                    defer(running, key.constraint, new)
                else:
                    await check_referring(running, key, new)
        await self._finish_unique(late, others)
        while self._is_first and self._followers:
            await self._followers.popleft().finish()

    async def check_at_once(self) -> None:
        """Check the unique keys that are not left until the statement or the transaction is over. Raises 23505."""
        running = self._running
        await self._finish_unique(
            [
                number
                for number, unique in enumerate(self._keys.unique)
                if not _is_checked_late(running, unique) and not is_deferred(running, unique.constraint)
            ],
            None,
        )

    async def _finish_unique(self, numbers: Sequence[int], others: Mapping[int, Violation] | None) -> None:
        """Check the unique keys of these `numbers`, or have them checked later."""
        running = self._running
        transaction, shard = running.transaction, self._target.shard
        txn = transaction.txn if shard[0] == "s" else transaction.own_rows(shard)
        first_rows = txn is not None and txn.inserted_rows(self._target.shard) == self._added
        for unique, noted in [(self._keys.unique[number], self._new[number]) for number in numbers]:
            if not noted:
                continue
            pieces = taken(noted)
            if unique.computed:
                pieces = [await aside(running, (await unique.keys_of(piece))[0]) for piece in pieces]
            if is_deferred(running, unique.constraint):
                for new in pieces:
                    defer(running, unique.constraint, new)
                continue
            other = None if others is None else others.get(unique.constraint.oid)
            relation = self._target.relation
            if isinstance(unique.constraint, Index) and unique.constraint.overlapping:
                await check_overlaps(running, relation, unique.constraint, unique.index, joined(pieces), other)
            else:
                await check_unique(
                    running, relation, unique.constraint, unique.index, pieces, other, first_rows=first_rows
                )

    # ------------------------------------------------------------ referential actions

    async def _deleted(self, key: ForeignKey, removed: Keys) -> None:
        constraint = key.constraint
        match constraint.on_delete:
            case "r":
                await check_unreferenced(self._running, key, await gone_keys(self._running, key, removed))
            case "a":
                await self._no_action(key, removed)
            case "c":
                await self._follow(key, await gone_keys(self._running, key, removed), None, ())
            case action:
                attnums = constraint.delete_columns or constraint.columns
                values = await self._values(key, attnums, action)
                places = places_of(key.child, attnums)
                gone = await gone_keys(self._running, key, removed)
                await self._follow(key, gone, values, places)
                await self._still_default(key, gone, attnums, values)

    async def _updated(self, key: ForeignKey, before: Keys, after: Keys) -> None:
        constraint = key.constraint
        match constraint.on_update:
            case "r":
                # Whether or not another row has the key now.
                once = await computed(len(before[0]), partial(distinct_keys, before))
                await check_unreferenced(self._running, key, once)
            case "a":
                await self._no_action(key, before)
            case "c":
                valid = np.ones(len(before[0]), bool)
                for column in before:
                    valid &= np.asarray(column.is_valid())
                rows = pa.array(np.flatnonzero(valid))
                before, after = _take(before, rows), _take(after, rows)
                await self._follow(key, before, values_for_child(key, after), key.child_places)
            case action:
                values = await self._values(key, constraint.columns, action)
                gone = await gone_keys(self._running, key, before)
                await self._follow(key, gone, values, key.child_places)
                await self._still_default(key, gone, constraint.columns, values)

    async def _still_default(self, key: ForeignKey, gone: Keys, attnums: Sequence[int], values: Keys) -> None:
        """Rows whose default is the very key that is gone refer to it as before, and no check of theirs looks at a key
        that has not changed. 23503 for one. Other keys that are gone are not looked at: who refers to one of them by
        now came after those that have followed, which begins the statement again and is no violation."""
        same, seen = np.ones(len(gone[0]), bool), keys_for_child(key, gone)
        for attnum, value in zip(attnums, values, strict=True):
            column = seen[key.constraint.columns.index(attnum)]
            same &= value.null_count == 0
            same &= ~differs(column, value.cast(column.type).take(pa.array(np.zeros(len(column), np.int64))))
        await check_unreferenced(self._running, key, _take(gone, pa.array(np.flatnonzero(same))))

    async def _no_action(self, key: ForeignKey, removed: Keys) -> None:
        if is_deferred(self._running, key.constraint):
            defer(self._running, key.constraint, removed, referenced=True)
        else:
            await check_unreferenced(self._running, key, await gone_keys(self._running, key, removed))

    async def _values(self, key: ForeignKey, attnums: Sequence[int], action: str) -> Keys:
        """The one key that SET NULL or SET DEFAULT gives to the columns `attnums`."""
        running, catalog = self._running, own_catalog(self._running)
        target = target_of(running, running.transaction.catalog, key.child.oid)
        columns = []
        for attnum, place in zip(attnums, places_of(key.child, tuple(attnums)), strict=True):
            column, type_ = target.columns[place], target.types[place]
            value = None
            with naming_column(key, attnum):
                if action == SET_DEFAULT and column.default is not None:
                    (value,) = await evaluate(running, catalog, default_query(running, column))
                columns.append(array_of(type_, [value]))
        return tuple(columns)

    async def _follow(self, key: ForeignKey, gone: Keys, values: Keys | None, places: Sequence[int]) -> None:
        """Delete the rows that refer to `gone` (`values` None), or give their columns at `places` the `values`:
        those of the same number, or the only ones."""
        if not len(gone[0]):
            return
        gone = keys_for_child(key, gone)
        running = self._running
        target = target_of(running, running.transaction.catalog, key.child.oid)
        columns = stored_columns(key.child)
        found, as_of = await lock_found(
            running,
            key.child,
            FOR_UPDATE if values is None else FOR_NO_KEY_UPDATE,
            lambda as_of: find(running, key.child, key.child_index, gone, columns, as_of=as_of),
        )
        await refuse_unseen(running, key, gone, found)
        # A row that comes until the commit would have followed as well: to begin again is to have it follow.
        await claim_unreferenced(running, key, gone, lambda _: serialization_failure(CONCURRENT_UPDATE), as_of)
        if not len(found.keys):
            return
        txn = running.transaction.writable(running.services.env, target.shard)
        running.transaction.rely_on([key.child])
        old = list(found.rows.columns)
        row_ids = pa.array(found.row_ids, pa.int64())
        txn.delete(target.shard, pa.record_batch([row_ids, *old], names=[ROW_ID, *target.names]))
        after = None if target.keys is None else StatementKeys(running, target, target.keys, self._followers)
        first = DELETED
        if values is None:
            if after is not None:
                after.remove(old)
        else:
            new = list(old)
            numbers = pa.array(found.keys if len(values[0]) > 1 else np.zeros(len(found.keys), np.int64))
            for place, column in zip(places, values, strict=True):
                new[place] = column.take(numbers).cast(old[place].type)
            rows: RecordBatch = pa.record_batch(new, names=target.names)
            await check_rows(running, target, rows)
            first = txn.write(target.shard, rows)
            if after is not None:
                after.move(old, new)
        running.transaction.replace_rows(
            Replacement(relation_oid=key.child.oid, shard=target.shard, old=row_ids.to_numpy(), first=first)
        )
        if key.child.oid < FIRST_TEMPORARY_OID:
            count, is_update = len(found.keys), values is not None
            running.services.activity.changed(
                running.session.database_oid, key.child.oid, 0, count * is_update, count * (not is_update)
            )
        await txn.spill()
        if after is not None:
            if after.unspilled > AT_ONCE_ROWS:
                await after.spill()
            self._followers.append(after)


def _is_checked_late(running: Running, unique: UniqueKey) -> bool:
    """Whether PostgreSQL checks the key after foreign keys: by a trigger, as what is deferrable, whose name is greater
    than theirs, which a primary key's is not."""
    constraint = unique.constraint
    if isinstance(constraint, Index):
        found = constraint_of_index(own_catalog(running), constraint.oid)
        if found is None:
            return False
        constraint = found
    return constraint.deferrable and constraint.kind != "p"


def _of(columns: Sequence[Any], places: Sequence[int]) -> Keys:
    return tuple(columns[place] for place in places)


def _take(keys: Keys, rows: pa.Array) -> Keys:
    return tuple(column.take(rows) for column in keys)


def _changed(before: Keys, after: Keys) -> tuple[Keys, Keys]:
    """The rows whose key is not what it was."""
    if all(one.equals(other) for one, other in zip(before, after, strict=True)):
        return tuple(column.slice(0, 0) for column in before), tuple(column.slice(0, 0) for column in after)
    changed = np.zeros(len(before[0]), bool)
    for one, other in zip(before, after, strict=True):
        changed |= differs(one, other)
    rows = pa.array(np.flatnonzero(changed))
    return _take(before, rows), _take(after, rows)


def differs(one: Any, other: Any) -> Any:
    """Row by row whether two columns differ; NULL differs from a value only."""
    try:
        same = pc.fill_null(pc.equal(one, other), False)
    except pa.ArrowNotImplementedError:
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.array([left != right for left, right in pairs], bool)
    both_null = pc.and_(one.is_null(), other.is_null())
    return ~np.asarray(pc.or_(same, both_null))
