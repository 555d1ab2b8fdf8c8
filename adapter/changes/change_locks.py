"""The locks of UPDATE and DELETE: on the rows that they change, or on the table when an engine changes it by itself.

A statement finds rows, keeps them aside, locks them all in the order of their ids, and only then writes. So two
statements that want the same rows meet at the first of them, and a statement that begins again has written nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from adapter.changes.constraints.statement_keys import differs
from adapter.changes.constraints.target import Target
from adapter.execution.statement import Running
from adapter.plans.plan_cache import Plan
from adapter.plans.predicates import templates_of
from adapter.queries.locked_rows import LockedRows, locked_scan, recheck
from adapter.queries.prepared_read import PreparedRead
from adapter.results import RecordBatch
from adapter.spilling.row_spool import RowSpool
from adapter.transactions.commit_request import Isolation
from adapter.transactions.decided_rows import DELETED
from adapter.transactions.locks import tags
from adapter.transactions.locks.lock import Follows
from adapter.transactions.locks.modes import FOR_NO_KEY_UPDATE, FOR_UPDATE, Mode
from adapter.transactions.locks.tags import Tag
from adapter.transactions.transaction import BeginAgain
from planner.ir.bound import BoundDelete, BoundMerge, BoundUpdate, Returning
from storage.off_loop import computed

ALONE_AFTER = 3
"""Attempts of a statement whose commit conflicts with others, before it keeps other writers away from what it reads."""


def against_all_writers(plan: Plan) -> tuple[tuple[Tag, Mode], ...]:
    """What a statement locks that has failed again and again: what it reads, against all writers, so that it succeeds
    beside any number of small ones."""
    return tuple((tag, Mode.EXCLUSIVE) for tag, _ in plan.locks)


async def lock_whole_table(running: Running, target: Target) -> None:
    """Lock all rows of a table for an engine that changes it without showing which. Raises BeginAgain when others have
    changed it since the snapshot, and what waiting for a lock raises."""
    transaction = running.transaction
    await transaction.lock([(tags.relation(target.relation.oid), Mode.EXCLUSIVE)])
    if not transaction.is_own_table(target.relation) and transaction.may_renew:
        registration = running.services.env.cache.state.registered.get(target.shard)
        assert transaction.snapshot is not None
        if registration is not None and registration.last_write > transaction.snapshot.csn:
            raise BeginAgain


async def locked_rows(
    running: Running,
    target: Target,
    read: PreparedRead,
    statement: BoundUpdate | BoundDelete,
    keys: Sequence[int] | None,
    rows: RecordBatch,
) -> RecordBatch:
    """As `locked_batches`, where all the rows are at hand."""
    if not rows.num_rows:
        return rows
    ids = rows.column(0).to_numpy()
    modes = modes_of_rows(rows, keys, len(target.columns))
    if len(ids) > 1:
        ids, modes = await computed(len(ids), partial(ascending, [ids], [modes]))
    changed, fitting = await _lock(running, target, read, statement, keys, ids, modes)
    return rows if fitting is None else _with_newest(rows, changed, fitting)


async def locked_batches(
    running: Running,
    target: Target,
    read: PreparedRead,
    statement: BoundUpdate | BoundDelete,
    keys: Sequence[int] | None,
) -> AsyncIterator[RecordBatch]:
    """The rows of `read` as UPDATE or DELETE has to write them, once they are locked: those that others have changed
    meanwhile by their newest versions, where these still fit. UPDATE assigns to the columns at the places `keys`, of
    those that other tables may refer to.

    Raises what `LockedRows.lock` raises, before the first batch.
    """
    spool = RowSpool(running.session.temporary_files)
    try:
        ids, modes = [], []
        stream: Any = read.stream()
        async with aclosing(stream) as batches:
            async for batch in batches:
                if batch.num_rows:
                    await spool.append(batch)
                    ids.append(batch.column(0).to_numpy())
                    modes.append(modes_of_rows(batch, keys, len(target.columns)))
        if not ids:
            return
        found, wanted = await computed(spool.rows, partial(ascending, ids, modes))
        changed, fitting = await _lock(running, target, read, statement, keys, found, wanted)
        async for batch in spool.read(0, spool.rows):
            yield batch if fitting is None else _with_newest(batch, changed, fitting)
    finally:
        spool.close()


async def _lock(
    running: Running,
    target: Target,
    read: PreparedRead,
    statement: BoundUpdate | BoundDelete,
    keys: Sequence[int] | None,
    ids: np.ndarray[Any, Any],
    modes: np.ndarray[Any, Any],
) -> tuple[Mapping[int, int], pa.Table | None]:
    """Lock rows (ids ascending). What has become of those that others have changed meanwhile, and what `read` gives for
    their newest versions; None when there are none of them."""
    is_update = isinstance(statement, BoundUpdate)
    follows = _followed_by(running, target, read, statement, modes)
    rows = LockedRows(running, target.relation, "updating" if is_update else "deleting", follows=follows)
    changed = await rows.lock(ids, modes)
    if not changed:
        return changed, None
    return changed, await _newest_that_fit(running, target, read, rows, changed, keys)


def _followed_by(
    running: Running,
    target: Target,
    read: PreparedRead,
    statement: BoundUpdate | BoundDelete,
    modes: np.ndarray[Any, Any],
) -> Follows:
    """From whose decided rows UPDATE or DELETE may go on."""
    if read.over is None:
        return Follows.NOBODY
    if isinstance(statement, BoundUpdate):
        if statement.view_checks is not None or not int(modes.min()) == FOR_NO_KEY_UPDATE == int(modes.max()):
            return Follows.NOBODY
    elif target.keys is not None and target.keys.referenced:
        return Follows.NOBODY
    return followed_by(running, statement.returning)


def followed_by(running: Running, returning: Returning | None) -> Follows:
    """From whose decided rows a statement may go on that has found its rows by a key, changes no key of theirs, and
    gives back `returning`: see `adapter.transactions.decided_rows`. Nobody's while others of its parts (WITH) may read
    an older version of a row."""
    transaction = running.transaction
    if transaction.snapshot is None or transaction.snapshot.ahead or transaction.own_before:
        return Follows.NOBODY
    if running.is_alone:
        is_plain = returning is None or not templates_of(returning.query)
        return Follows.ANYBODY if is_plain and running.attempt < ALONE_AFTER else Follows.NOBODY
    follows = (
        transaction.isolation is Isolation.READ_COMMITTED
        and returning is None
        and not transaction.pending.updates
        and not transaction.pending.deferred.length
    )
    return Follows.CERTAIN if follows else Follows.NOBODY


async def merged_batches(
    running: Running, target: Target, read: PreparedRead, statement: BoundMerge
) -> AsyncIterator[RecordBatch]:
    """The rows of `read` as MERGE has to write them, once those that it updates and deletes are locked.

    Raises what `LockedRows.lock` raises, before the first batch; and BeginAgain when others have changed one of them:
    which rows match, and what becomes of them, has to be found out anew.
    """
    keys, width = target.key_places, len(target.columns)
    commands = np.array(["", *(action.command for action in statement.actions)])
    spool = RowSpool(running.session.temporary_files)
    try:
        ids, modes = [], []
        stream: Any = read.stream()
        async with aclosing(stream) as batches:
            async for batch in batches:
                if batch.num_rows:
                    await spool.append(batch)
                    command = commands[batch.column(1 + 2 * width).to_numpy()]
                    wanted = np.where(command == "delete", FOR_UPDATE, modes_of_rows(batch, keys, width))
                    changed = command != "insert"
                    ids.append(batch.column(0).to_numpy(zero_copy_only=False)[changed].astype(np.int64))
                    modes.append(wanted[changed])
        if ids:
            found, wanted = await computed(spool.rows, partial(ascending, ids, modes))
            if await LockedRows(running, target.relation, "updating").lock(found, wanted):
                raise BeginAgain
        async for batch in spool.read(0, spool.rows):
            yield batch
    finally:
        spool.close()


def ascending(ids: list[Any], modes: list[Any]) -> tuple[Any, Any]:
    """Rows by id, each once, and their modes."""
    found, places = np.unique(np.concatenate(ids), return_index=True)
    return found, np.concatenate(modes)[places]


def modes_of_rows(batch: RecordBatch, keys: Sequence[int] | None, width: int) -> np.ndarray[Any, Any]:
    """By row, the mode in which DELETE (None) locks it, or UPDATE: FOR UPDATE where one of the `keys` changes, the
    places of the columns that other tables may refer to."""
    if keys is None:
        return np.full(batch.num_rows, FOR_UPDATE)
    modes = np.full(batch.num_rows, FOR_NO_KEY_UPDATE)
    for place in keys:
        old, new = batch.column(1 + place), batch.column(1 + width + place)
        if not old.equals(new):
            modes[differs(old, new)] = FOR_UPDATE
    return modes


async def _newest_that_fit(
    running: Running,
    target: Target,
    read: PreparedRead,
    rows: LockedRows,
    changed: Mapping[int, int],
    keys: Sequence[int] | None,
) -> pa.Table:
    """What `read` gives for the newest versions of the rows that have changed."""
    newest = await rows.newest_versions(at for at in changed.values() if at != DELETED)
    batches = await recheck(running, read, [(locked_scan((read.again or read.query).rel), newest)], "newest")
    for batch in batches:
        modes = modes_of_rows(batch, keys, len(target.columns))
        stronger = modes == FOR_UPDATE
        if keys is not None and stronger.any():
            await rows.lock_newest(np.sort(batch.column(0).to_numpy()[stronger]), FOR_UPDATE)
    if not batches:
        return pa.table({"id": pa.array([], pa.int64())})
    return pa.Table.from_batches(batches).combine_chunks()


def _with_newest(batch: RecordBatch, changed: Mapping[int, int], fitting: pa.Table) -> RecordBatch:
    """`batch` with each row that has changed replaced by its newest version, if that is among `fitting`."""
    ids = batch.column(0).to_numpy()
    place_of = {at: place for place, at in enumerate(fitting.column(0).to_pylist())}
    kept, places = [], []
    taken = []
    for place, row_id in enumerate(ids.tolist()):
        newest = changed.get(row_id)
        if newest is None:
            kept.append(place)
        elif newest in place_of:
            places.append(place)
            taken.append(place_of[newest])
    rows = pa.Table.from_batches([batch.take(pa.array(kept, pa.int64()))])
    if taken:
        newer = fitting.take(pa.array(taken, pa.int64())).rename_columns(rows.column_names).cast(rows.schema)
        rows = pa.concat_tables([rows, newer])
        rows = rows.take(pa.array(np.argsort([*kept, *places])))
    (merged,) = rows.combine_chunks().to_batches() or [batch.slice(0, 0)]
    return merged
