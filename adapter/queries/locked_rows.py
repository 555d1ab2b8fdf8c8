"""Rows that a statement has found and locks: what has become of them in the meantime, and whether they still fit.

PostgreSQL's rules (README of its executor, "EvalPlanQual Rechecking"). A statement finds rows at its snapshot and locks
them. Where a row has been changed since by a transaction that committed:

- READ COMMITTED goes on with the row's newest version, if the statement's conditions hold for that, too; everything
  else is as of the snapshot. A row that was deleted is left out.
- FOR KEY SHARE asks for nothing but the row's key, at any level. Where that is what it was, and it did not have to wait
  for who changed the row, the newest version is locked, and the statement goes on with the one that it has found
  (heap_lock_updated_tuple).
- REPEATABLE READ and SERIALIZABLE fail with 40001. Outside of a block, where nobody has seen the snapshot, the
  statement begins again instead, with its locks.

Where the newest version cannot be told (`adapter.transactions.row_versions`), READ COMMITTED begins the statement
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import aclosing
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from adapter.distinct_ids import distinct_ids
from adapter.engines.common.scan_sources import conform, scan_columns, scan_schema
from adapter.execution.statement import Running
from adapter.plans.key_indexes import stored_columns
from adapter.queries.prepared_read import PreparedRead, with_token
from adapter.results import RecordBatch
from adapter.store_errors import CONCURRENT_DELETE, CONCURRENT_UPDATE, serialization_failure
from adapter.transactions.claims import Unchanged
from adapter.transactions.decided_rows import DELETED
from adapter.transactions.locks import tags
from adapter.transactions.locks.lock import Follows
from adapter.transactions.locks.modes import FOR_KEY_SHARE, FOR_UPDATE, Mode
from adapter.transactions.moving_on import moved_on
from adapter.transactions.row_versions import UNKNOWN
from adapter.transactions.transaction import BeginAgain, Transaction
from planner.errors import LockNotAvailable, SqlError
from planner.ir import nodes as ir
from planner.ir.rewrite import transform, walk
from planner.ir.row_marks import LockWait
from planner.types.table_indexes import unique_keys
from storage.catalog.model import Relation
from storage.off_loop import computed
from storage.shards.indexes.scalar_keys import plain_list
from storage.shards.parts import PROVISIONAL_ROW_ID, ROW_ID
from storage.timestamps.csn import Csn
from storage.transactions.rows_ahead import FIRST_AHEAD

SKIPPED: Final = -3
"""In place of a row that somebody else has locked and that is not waited for."""


class LockedRows:
    """Rows of one table in the hands of a statement. `action` is what messages say it does to them ("updating").

    `follows`: whose rows it goes on from before they are durable (`adapter.transactions.decided_rows`). If anybody's,
    then at every isolation level from the newest version of a row, since it is alone in its transaction and nothing but
    the row's key has found the row: beginning again would find the same.
    """

    def __init__(self, running: Running, relation: Relation, action: str, *, follows: Follows = Follows.NOBODY) -> None:
        assert relation.shard is not None
        assert running.transaction.snapshot is not None
        self._running = running
        self._relation = relation
        self._shard = relation.shard
        self._action = action
        self._follows = follows
        self._snapshot = running.transaction.snapshot.csn
        self._seen = self._snapshot
        self._waited = False
        """Whether somebody else had one of the rows, in a mode that excludes the one wanted."""

    async def lock(
        self, row_ids: np.ndarray[Any, Any], modes: np.ndarray[Any, Any], wait: LockWait = "block"
    ) -> dict[int, int]:
        """Lock rows (ids ascending, each once) in their modes; own rows of the transaction need none
        but those of the rows that they came of. For each that has
        been replaced or deleted since the snapshot: the id of its newest version, which is locked, or `DELETED`. With
        `wait` "skip" also for each that somebody else has: `SKIPPED`.

        Raises 40001 or BeginAgain where that is not wanted, what waiting for a lock raises, and 55P03 with "nowait"
        when one would have to be waited for. A statement that begins again has locked the newest versions before: what
        it finds next time, nobody can have changed.
        """
        foreign = row_ids < PROVISIONAL_ROW_ID
        if not foreign.all():
            await self._lock_origins(row_ids[~foreign], modes[~foreign], wait)
        newest, wanted = row_ids[foreign], modes[foreign]
        origin = newest
        seen = self._snapshot
        found: dict[int, int] = {}
        is_locked = False
        while True:
            changed = self._decided(newest) if self._follows and is_locked else {}
            same: Set[int] = frozenset()
            if not changed:
                keys_only = newest[:0] if self._waited else newest[wanted == FOR_KEY_SHARE]
                changed, same, seen = await self._changed_since(newest, keys_only, seen)
            if changed:
                for first, at in zip(origin.tolist(), newest.tolist(), strict=True):
                    if at in changed and (at not in same or first in found):
                        found[first] = changed[at]
                newest = np.fromiter((changed.get(at, at) for at in newest.tolist()), np.int64, len(newest))
                there = newest != DELETED
                newest, origin, wanted = newest[there], origin[there], wanted[there]
            if is_locked and not changed:
                self._seen = seen
                changes = any(at != SKIPPED for at in found.values())
                if changes and not self._follows and begins_again(self._running.transaction):
                    raise BeginAgain
                return found
            # What is locked already is locked again at no cost.
            refused = await self._lock_in_order(newest, wanted, wait)
            if len(refused):
                there = np.isin(newest, refused, invert=True)
                found.update(dict.fromkeys(origin[~there].tolist(), SKIPPED))
                newest, origin, wanted = newest[there], origin[there], wanted[there]
            is_locked = True

    async def _lock_origins(self, row_ids: np.ndarray[Any, Any], modes: np.ndarray[Any, Any], wait: LockWait) -> None:
        """Own rows that came of others need a stronger lock of those than they have, where others refer to them."""
        stronger = modes == FOR_UPDATE
        if not stronger.any():
            return
        ids = row_ids[stronger]
        for replacement in reversed(tuple(self._running.transaction.pending.replacements)):
            if replacement.shard == self._shard and replacement.first != DELETED:
                first, last = replacement.first, replacement.first + len(replacement.old)
                came = (ids >= first) & (ids < last)
                ids[came] = replacement.old[ids[came] - first]
        ids = distinct_ids(ids[ids < PROVISIONAL_ROW_ID])
        await self._lock_in_order(ids, np.full(len(ids), FOR_UPDATE), wait)

    def _decided(self, row_ids: np.ndarray[Any, Any]) -> dict[int, int]:
        """The decided versions of those of `row_ids`, which are locked, that others are about to replace."""
        decided, transaction = self._running.services.row_versions.decided, self._running.transaction
        found: dict[int, int] = {}
        for row_id in row_ids.tolist():
            newest, way = decided.newest(self._shard, row_id)
            if way:
                found[row_id] = newest
                transaction.followed.extend([each for each, _ in way])
                self._saw([row_id, *(name for _, name in way)])
        return found

    def _saw(self, rows: Iterable[int]) -> None:
        if self._follows is not Follows.ANYBODY:
            return  # Earlier statements may have read an older version.
        self._running.transaction.seen.setdefault(self._shard, set()).update(rows)

    async def _changed_since(
        self, row_ids: np.ndarray[Any, Any], keys_only: np.ndarray[Any, Any], after: Csn
    ) -> tuple[dict[int, int], Set[int], Csn]:
        """What has become of those of `row_ids` that are not there any more; which of these, of `keys_only`, have the
        key that they had; and up to which commit that is known."""
        running = self._running
        env = running.services.env
        until = Csn(env.cache.upper - 1)
        if until <= after or not len(row_ids):
            return {}, frozenset(), after
        ascending = await computed(len(row_ids), lambda: np.sort(row_ids))
        way: set[int] | None = set() if self._follows else None
        newest = await running.services.row_versions.newest(env, self._shard, ascending, after, until, way)
        if way:
            self._saw(way)
        same = await self._with_same_key(newest, keys_only)
        others = newest if not same else {before: now for before, now in newest.items() if before not in same}
        if others and (UNKNOWN in others.values() or not begins_again(running.transaction)):
            if not running.transaction.may_renew and await moved_on(env, running.transaction):
                raise BeginAgain
            refuse_changed(running.transaction, others.values(), changes=self._action != "locking")
        return newest, same, until

    async def _with_same_key(self, newest: Mapping[int, int], keys_only: np.ndarray[Any, Any]) -> Set[int]:
        """Those of `keys_only` whose `newest` versions have the same values in the columns that foreign keys may refer
        to."""
        pairs = {at: newest[at] for at in keys_only.tolist() if newest.get(at, DELETED) >= 0}
        if not pairs:
            return frozenset()
        keys = unique_keys(self._running.transaction.catalog, self._relation.oid)
        names = {f"c{attnum}" for key in keys for attnum in key.columns}
        rows = await self.newest_versions({*pairs, *pairs.values()})
        ids = rows.column(ROW_ID).to_pylist()
        columns = [plain_list(rows.column(name)) for name in names]
        key_of = {row_id: tuple(column[number] for column in columns) for number, row_id in enumerate(ids)}
        return {old for old, new in pairs.items() if old in key_of and key_of[old] == key_of.get(new)}

    def hold(self, row_ids: np.ndarray[Any, Any]) -> None:
        """Have the commit refuse when somebody whom the locks do not reach has changed rows that are locked."""
        held = row_ids[row_ids < PROVISIONAL_ROW_ID]
        if len(held):
            self._running.transaction.claim(Unchanged(shard=self._shard, row_ids=held, as_of=self._seen))

    async def _lock_in_order(
        self, row_ids: np.ndarray[Any, Any], modes: np.ndarray[Any, Any], wait: LockWait
    ) -> np.ndarray[Any, Any]:
        """Lock rows; those that others have when there is no waiting."""
        if self._follows:
            # Rows that are not there yet have the locks of those that they come from.
            there = row_ids < PROVISIONAL_ROW_ID
            row_ids, modes = row_ids[there], modes[there]
        order = await computed(len(row_ids), lambda: np.argsort(row_ids))
        row_ids, modes = row_ids[order], modes[order]
        # Runs of rows that are locked alike.
        ends = [*(np.flatnonzero(np.diff(modes)) + 1).tolist(), len(row_ids)]
        start = 0
        refused = [row_ids[:0]]
        for end in ends:
            if end > start and wait == "block":
                await self._lock_alike(row_ids[start:end], Mode(int(modes[start])))
            elif end > start:
                locks, mode = self._running.session.locks, Mode(int(modes[start]))
                refused.append(await locks.try_rows(self._relation.oid, row_ids[start:end], mode))
                if wait == "nowait" and len(refused[-1]):
                    raise LockNotAvailable(f'could not obtain lock on row in relation "{self._relation.name}"')
            start = end
        return np.concatenate(refused)

    async def _lock_alike(self, row_ids: np.ndarray[Any, Any], mode: Mode) -> None:
        locks = self._running.session.locks
        try:
            self._waited |= await locks.lock_rows(self._relation.oid, row_ids, mode, follows=self._follows)
        except SqlError as error:
            waiting = locks.owner.failed_at
            if error.where is None and waiting is not None and isinstance(waiting.item, int):
                block, number = tags.place(waiting.item)
                error.where = f'while {self._action} tuple ({block},{number}) in relation "{self._relation.name}"'
            raise

    async def lock_newest(self, row_ids: np.ndarray[Any, Any], mode: Mode) -> None:
        """Lock rows that are locked already in a stronger mode. Raises what waiting for a lock raises; and BeginAgain
        for rows that are not durable yet, once they are: who changes a key looks at more than the row."""
        if self._running.transaction.follows_now:
            await self._running.transaction.settled()
            raise BeginAgain
        await self._lock_alike(row_ids, mode)

    async def newest_versions(self, row_ids: Iterable[int]) -> pa.Table:
        """The rows with these ids, in the order of their ids, as `scan_schema` has them."""
        columns = scan_columns(self._relation)
        wanted = np.array(sorted(row_ids), np.int64)
        env, txn = self._running.services.env, self._running.transaction.own_rows(self._shard)
        reader, newest = env.reader, Csn(env.cache.upper - 1)
        pieces = [self._followed_row(name) for name in wanted[wanted >= FIRST_AHEAD].tolist()]
        wanted = wanted[wanted < FIRST_AHEAD]
        own = () if txn is None else txn.local_parts(self._shard)
        added = [part for part in own if part.kind == "insert"]
        there = (*(await reader.snapshot(self._shard, newest)).inserts, *added) if len(wanted) else ()
        for part in reversed(there):
            if not len(wanted):
                break
            low, high = part.row_id_bounds
            here = wanted[np.searchsorted(wanted, low) : np.searchsorted(wanted, high, "right")]
            if len(here) and part.inline is None and not part.has_row_id_column:
                rows = await env.keys.rows_of_ids(part, here, stored_columns(self._relation))
                pieces.append(rows.cast(scan_schema(columns)))
            elif len(here):
                held = set(part.columns)
                names = [column.name for column in columns if column.name in held]
                rows = await reader.read_part(part, [ROW_ID, *names])
                rows = rows.filter(pc.is_in(rows.column(ROW_ID), value_set=pa.array(wanted)))
                here = rows.column(ROW_ID).to_numpy()
                if rows.num_rows:
                    pieces.append(conform(rows, columns))
            if len(here):
                wanted = wanted[np.isin(wanted, here, invert=True)]
        if not pieces:
            return scan_schema(columns).empty_table()
        return pa.concat_tables(pieces).sort_by(ROW_ID)

    def _followed_row(self, name: int) -> pa.Table:
        """The row of another transaction with this name. Raises BeginAgain when that has gone."""
        transaction = self._running.transaction
        row = self._running.services.row_versions.decided.row(self._shard, name, transaction.followed)
        if row is None:
            raise BeginAgain
        named = row.add_column(0, pa.field(ROW_ID, pa.int64()), pa.array([name], pa.int64()))
        return conform(named, scan_columns(self._relation))


def begins_again(transaction: Transaction) -> bool:
    """Whether a statement starts over where rows have changed, because its transaction keeps to one snapshot, of which
    nobody has seen anything yet."""
    return transaction.isolation.keeps_snapshot and transaction.implicit and transaction.may_renew


def refuse_changed(transaction: Transaction, newest: Iterable[int], *, changes: bool) -> None:
    """Raise 40001 or BeginAgain unless the transaction may go on with the newest versions of rows that have changed.
    `changes`: it is to change them; PostgreSQL tells who only locks them nothing of a DELETE."""
    newest = list(newest)
    if begins_again(transaction):
        raise BeginAgain
    if transaction.isolation.keeps_snapshot:
        raise serialization_failure(CONCURRENT_DELETE if changes and newest[0] == DELETED else CONCURRENT_UPDATE)
    if UNKNOWN in newest:
        if not transaction.may_renew:
            raise serialization_failure(CONCURRENT_UPDATE)
        raise BeginAgain


def locked_scan(rel: ir.Rel) -> ir.Scan:
    """The scan of the rows that a change is about: the only one that asks for row ids."""
    return next(node for node in walk(rel) if isinstance(node, ir.Scan) and node.row_id is not None)


async def recheck(
    running: Running, read: PreparedRead, replaced: Sequence[tuple[ir.Scan, pa.Table]], purpose: str
) -> Sequence[RecordBatch]:
    """The rows that `read` gives when each scan in `replaced` finds these rows (in `scan_schema`) and nothing else.

    Raises BeginAgain when only Spark could tell.
    """
    if read.over is not None and len(replaced) == 1:
        batch = read.over(replaced[0][1])
        if batch is not None:
            return [batch] if batch.num_rows else []
    extra: dict[int, Any] = dict(read.at_hand)
    at_hand: dict[int, ir.CteScan] = {}
    for number, (scan, rows) in enumerate(replaced):
        key = ir.RETURNING_ROWS - number
        names = [ROW_ID if field.id == scan.row_id else _column(field) for field in scan.fields]
        extra[key] = rows.select(names).rename_columns([f"c{n}" for n in range(1, len(names) + 1)])
        at_hand[id(scan)] = ir.CteScan(cte=key, fields=scan.fields)
    plain = read.again or read.query
    query = replace(plain, rel=transform(plain.rel, lambda node: at_hand.get(id(node))))
    engine = running.engines.local
    if (read.engine is not None and read.engine.name != "local") or engine.unsupported(query) is not None:
        raise BeginAgain
    context = with_token(read.context, purpose)
    stream: Any = engine.execute(query, read.resolved.inputs, read.params, context, extra=extra)
    async with aclosing(stream) as batches:
        return [batch async for batch in batches]


def _column(field: ir.Field) -> str:
    assert field.origin is not None
    return f"c{field.origin.attnum}"
