"""INSERT, UPDATE, DELETE and MERGE: a loop that reads, locks and then writes, and leaves it to the commit whether that
may stand.

The rows to change are read at the transaction's snapshot like any query's; what comes of them goes into the
transaction's buffer, which spills, so that memory is bounded (`Change.run`). When the router gives the
reading to Spark, the rows do not pass this process: the engine writes them as Parquet parts and only their pointers
enter the transaction (`Change.run`, too). What is changed is locked first (`adapter.changes.change_locks`), so
that the commit seldom finds that others changed what was read; then the statement's error is 40001, or, outside a
block, `adapter.sessions.statement_life` runs the statement again.

What the table requires of its rows is enforced on each batch, or on the parts that an engine wrote. RETURNING is
computed batch by batch over the affected rows and spooled until the statement has ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from collections.abc import Sequence as SequenceOf
from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from adapter.changes.change_locks import (
    ALONE_AFTER,
    against_all_writers,
    lock_whole_table,
    locked_batches,
    locked_rows,
    merged_batches,
)
from adapter.changes.constraints.deferred_checks import end_statement
from adapter.changes.constraints.row_checks import check_parts, check_rows
from adapter.changes.constraints.statement_keys import StatementKeys
from adapter.changes.constraints.table_checks import prepare_checks
from adapter.changes.constraints.target import Target, target_of
from adapter.changes.constraints.view_checks import CheckedPolicies, CheckedViews
from adapter.changes.foreign_insert import insert_into_files
from adapter.changes.merged_rows import Merge, taken
from adapter.changes.numbered_rows import NumberedRows
from adapter.changes.on_conflict import ConflictResolution, retried, whole
from adapter.changes.rows.changed_rows import ChangedRows, refuse_changed
from adapter.changes.rows.laid_out import LaidOutRows, sorted_stream
from adapter.changes.rows.over_rows import computed_rows
from adapter.changes.rows.returning import ReturnedRows
from adapter.changes.rows.written_rows import written_rows
from adapter.changes.together import rows_of_all
from adapter.changes.whole_parts import changes_unseen, whole_parts
from adapter.execution.statement import NotTogether, Outcome, RowsOutcome, Running
from adapter.plans.computed.constant_rows import constant_value
from adapter.plans.operands import operands_of
from adapter.plans.plan_cache import Plan, has_acting_calls
from adapter.queries.prepared_read import NOTHING, PreparedRead
from adapter.queries.read import may_skip_engines, prepare_plan, work_out_constants
from adapter.results import Command, RecordBatch
from adapter.transactions.decided_rows import DELETED, Replacement
from adapter.transactions.snapshots import reading_as_before
from planner.errors import InsufficientPrivilege, InternalError
from planner.ir import nodes as ir
from planner.ir.bound import BoundChange, BoundDelete, BoundInsert, BoundMerge, BoundUpdate
from storage.bounded_map import BoundedMap
from storage.catalog.temporary import FIRST_TEMPORARY_OID
from storage.layouts.ordering import order_of
from storage.off_loop import AT_ONCE_ROWS
from storage.shards.parts import NO_COLUMNS, ROW_ID, Part

MAX_STATEMENTS = 1000
"""UPDATEs of which it is known to what they assign."""

NOWHERE = -1
"""In place of the id of a new row that nothing asks for: it gets one later."""


async def run_change(running: Running, plan: Plan) -> Outcome:
    """Carry out INSERT, UPDATE, DELETE or MERGE. Raises BeginAgain."""
    if isinstance(plan.statement, BoundInsert) and plan.statement.foreign:
        return await insert_into_files(running, plan)
    if plan.denied is not None:
        raise InsufficientPrivilege(plan.denied)
    running.given = plan.given or running.given
    if isinstance(plan.statement, (BoundInsert, BoundMerge)):
        running.inserted |= {plan.statement.relation_oid}
    if not changes_temporary_table(plan):
        running.transaction.check_writable(plan.tag.split()[0])
    await running.transaction.lock(plan.locks if running.attempt < ALONE_AFTER else against_all_writers(plan))
    running.transaction.rely_on(plan.relied_on)
    if plan.has_many_checks and isinstance(plan.statement, BoundChange):
        await prepare_checks(running, plan.catalog, plan.statement.relation_oid)
    change = Change(running, plan)
    if change.reads_tables_late:
        async with reading_as_before(running.transaction, [change.target.shard]):
            await change.run()
    else:
        await change.run()
    await change.finish()
    if running.transaction.pending.deferred.length:
        await end_statement(running)
    return change.outcome()


def _check_constants(rel: ir.Rel, params: SequenceOf[ir.Literal]) -> None:
    """A constant that does not fit its column is an error though no row gets it: PostgreSQL folds it while planning."""
    while isinstance(rel, ir.Project):
        for expr in rel.exprs:
            if isinstance(expr, ir.Cast):
                constant_value(expr, params)
        rel = rel.input


def changes_temporary_table(plan: Plan) -> bool:
    """Whether the rows that the plan changes are the session's own, so that a read-only transaction may change them."""
    return isinstance(plan.statement, BoundChange) and plan.statement.relation_oid >= FIRST_TEMPORARY_OID


class _Assigned(Struct, frozen=True):
    """To what an UPDATE of `target` assigns: to no column of its keys (`leaves_keys`), and to those at `key_places` of
    the columns that others may refer to."""

    statement: BoundUpdate
    target: Target
    leaves_keys: bool
    key_places: tuple[int, ...]


_assigned: BoundedMap[int, _Assigned] = BoundedMap(max_entries=MAX_STATEMENTS)
"""By identity of the statement, which an entry keeps alive."""


def assigned(statement: BoundUpdate, target: Target) -> _Assigned:
    """See `_Assigned`."""
    known = _assigned.get(id(statement))
    if known is None or known.target is not target:
        known = _assigned_by(statement, target)
        _assigned.put(id(statement), known)
    return known


def _assigned_by(statement: BoundUpdate, target: Target) -> _Assigned:
    rel, width = statement.read.rel, len(target.columns)
    if not isinstance(rel, ir.Project):
        return _Assigned(statement, target, False, target.key_places)
    old, new = rel.exprs[1 : 1 + width], rel.exprs[1 + width : 1 + 2 * width]
    places = [place for place, (before, after) in enumerate(zip(old, new, strict=True)) if before != after]
    attnums = frozenset([target.columns[place].attnum for place in places])
    leaves = target.keys is None or not target.keys.touches(attnums)
    return _Assigned(statement, target, leaves, tuple([place for place in target.key_places if place in places]))


class Change:
    """One change of one table: a statement, or a step of one with others beside it.

    `at_hand` are rows of earlier steps that it reads. With `changed`, which such statements share, it leaves out rows
    that another of them has changed already, as PostgreSQL does.
    """

    def __init__(
        self,
        running: Running,
        plan: Plan,
        at_hand: Mapping[int, Any] = NOTHING,
        changed: ChangedRows | None = None,
    ) -> None:
        statement = plan.statement
        if not isinstance(statement, BoundChange):
            raise InternalError("not a change of rows")
        self._running = running
        self._plan = plan
        self._statement = statement
        self._at_hand = at_hand
        self._changed = changed
        self.target = target = target_of(running, plan.catalog, statement.relation_oid)
        self._txn = running.transaction.writable(running.services.env, target.shard)
        name = plan.tag.split()[0]
        self._tag_prefix = "INSERT 0 " if name == "INSERT" else name + " "
        self._changes_by_calls = running.session.changes_by_calls if changed is None else changed.changes_by_calls
        """How many there were before the statement began to call functions."""
        self._rows = 0
        self._updated = self._deleted = 0
        """Of rows that are proposed: those that led to a change of others."""
        self._own_rows = 0
        """Those of the statement itself, when others are carried out with it."""
        self.returned = None if statement.returning is None else ReturnedRows(running, statement.returning, at_hand)
        self._numbered: NumberedRows | None = None
        self._conflicts: ConflictResolution | None = None
        self._merge: Merge | None = None
        if isinstance(statement, BoundMerge):
            self._merge = Merge(running, target, statement, changed or ChangedRows(self._changes_by_calls))
        if isinstance(statement, BoundInsert) and statement.on_conflict is not None:
            self._conflicts = ConflictResolution(running, target, statement, statement.on_conflict, at_hand)
        self._keys: StatementKeys | None = None
        self._assigned = assigned(statement, target) if isinstance(statement, BoundUpdate) else None
        if target.keys is not None and not (self._assigned is not None and self._assigned.leaves_keys):
            self._keys = StatementKeys(running, target, target.keys)
        self._views: CheckedViews | None = None
        if isinstance(statement, (BoundInsert, BoundUpdate)) and statement.view_checks is not None:
            self._views = CheckedViews(running, target, statement.view_checks)
        checks = statement.policies if isinstance(statement, (BoundInsert, BoundUpdate)) else None
        self._policies = None if checks is None else CheckedPolicies(running, checks, "new")
        self._laid_out: LaidOutRows | None = None
        if target.layout is not None:
            self._txn.lay_out(target.shard, target.layout.partition)
        if target.layout is not None and isinstance(statement, BoundInsert) and self._conflicts is None:
            self._laid_out = LaidOutRows(self._txn, target.shard, target.layout)

    @property
    def reads_tables_late(self) -> bool:
        """Whether tables are read once something is written, which has not to be seen then."""
        returned, views, conflicts = self.returned, self._views, self._conflicts
        policies, merge = self._policies, self._merge
        return (
            (returned is not None and returned.reads_tables)
            or (views is not None and views.reads_tables)
            or (conflicts is not None and conflicts.reads_tables)
            or (policies is not None and policies.reads_tables)
            or (merge is not None and merge.reads_tables)
        )

    async def run(self) -> None:
        """Read the rows to change, and write what becomes of them. Raises BeginAgain before anything is written."""
        running, statement, plan = self._running, self._statement, self._plan
        if isinstance(statement, BoundInsert):
            is_short = plan.query is statement.source and not plan.templates and not running.parsed.is_long
            if is_short and may_skip_engines(running):
                if plan.folded is not None:
                    await work_out_constants(running, plan)
                rows = await written_rows(running, statement.source)
                if rows is not None:
                    self._own_rows = rows.num_rows // (1 + len(running.beside))
                    for each in running.beside:
                        each.tag = self._tag_prefix + str(self._own_rows)
                    await self._take(rows)
                    return
            plan = self._number_rows(plan, statement)
        if running.beside:
            await self._change_together()
            return
        may_follow = (keys := self.target.keys) is not None and keys.referenced and keys.let_numbers_follow
        if (plan.meets or may_follow) and running.in_block and running.before is None:
            running.before = running.transaction.mark(running.session.values)
        read = await prepare_plan(running, plan, at_hand=self._at_hand)
        _check_constants(read.query.rel, read.params)
        by_engine = self._may_be_written_by_engine()
        whole: tuple[Part, ...] = ()
        rest: PreparedRead | None = read
        if by_engine and isinstance(statement, BoundDelete):
            whole, rest = await whole_parts(running, read, self.target)
            if whole:
                await lock_whole_table(running, self.target)
        if rest is not None and by_engine and read.writer is not None:
            if not isinstance(statement, BoundInsert):
                await lock_whole_table(running, self.target)
            await self._write_by_engine(rest)
        elif rest is not None:
            await self._read_then_write(rest)
        # NOTE: when the others are locked: what begins again has written nothing.
        for part in whole:
            self._txn.delete_whole(self.target.shard, part)
            self._rows += part.rows

    async def _change_together(self) -> None:
        """Change what the statement and those beside it change."""
        running, statement = self._running, self._statement
        if not isinstance(statement, (BoundUpdate, BoundDelete)):
            raise NotTogether
        for params in (running.params, *[each.params for each in running.beside]):
            _check_constants(statement.read.rel, params)
        keys = None if self._assigned is None else self._assigned.key_places
        together = await rows_of_all(running, self._plan, self.target, keys)
        self._own_rows = together.counts[0]
        for each, count in zip(running.beside, together.counts[1:], strict=True):
            each.tag = self._tag_prefix + str(count)
        if together.rows is not None:
            await self._take(together.rows)

    async def finish(self) -> None:
        """Everything that the whole statement writes is written: check keys. Raises 23505, 23503."""
        if self._laid_out is not None:
            await self._laid_out.finish()
        if self._keys is not None:
            decided = () if self._conflicts is None else self._conflicts.arbiters
            await self._keys.finish({key.constraint.oid: retried for key in decided})
        rows, running, oid = self._rows, self._running, self.target.relation.oid
        if rows and oid < FIRST_TEMPORARY_OID:
            updated = rows if isinstance(self._statement, BoundUpdate) else self._updated
            deleted = rows if isinstance(self._statement, BoundDelete) else self._deleted
            inserted = rows - updated - deleted
            running.services.activity.changed(running.session.database_oid, oid, inserted, updated, deleted)

    def _may_be_written_by_engine(self) -> bool:
        """Whether the rows need not pass this process. Changed ones do that others refer to or that a cursor may be on,
        which may have to follow, row by row; so do rows without columns, of which no engine makes a file."""
        by_row = (self._changed, self.returned, self._numbered, self._conflicts, self._merge, self._views)
        if by_row.count(None) < len(by_row) or self._policies is not None or not self.target.names:
            return False
        if isinstance(self._statement, BoundInsert):
            # Generated columns of rows that are written out are computed from these.
            return self._statement.computed is None or self._statement.complete is not None
        portals = self._running.session.portals
        return changes_unseen(self.target) and not (portals.by_name and portals.on_rows_of(self.target.relation.oid))

    def _number_rows(self, plan: Plan, statement: BoundInsert) -> Plan:
        """Take columns whose value is nextval() out of the source, to be numbered row by row as they come."""
        if not plan.acts:
            return plan
        numbered = NumberedRows(self._running)
        query = numbered.without(statement.source)
        if query is statement.source:
            return plan
        self._numbered = numbered
        acts = has_acting_calls(query)
        return replace(plan, query=query, acts=acts, operands=None if acts else operands_of(query))

    async def _read_then_write(self, read: PreparedRead) -> None:
        statement = self._statement
        keys = None if self._assigned is None else self._assigned.key_places
        if read.rows is not None and not isinstance(statement, BoundMerge):
            rows = read.rows
            if isinstance(statement, (BoundUpdate, BoundDelete)):
                rows = await locked_rows(self._running, self.target, read, statement, keys, rows)
            await self._take(rows)
            return
        if self._may_be_sorted():
            assert self.target.layout is not None
            threads = self._running.services.file_threads
            stream = sorted_stream(read, self.target.names, self.target.layout, threads)
        elif isinstance(statement, (BoundUpdate, BoundDelete)):
            stream = locked_batches(self._running, self.target, read, statement, keys)
        elif isinstance(statement, BoundMerge):
            stream = merged_batches(self._running, self.target, read, statement)
        else:
            stream = read.stream()
        async with aclosing(_closable(stream)) as batches:
            async for batch in batches:
                await self._take(batch)

    def _may_be_sorted(self) -> bool:
        """Whether the rows of an INSERT may come in another order than they are read in."""
        query = self._plan.query
        if self._laid_out is None or self.returned is not None or self._numbered is not None:
            return False
        return not self._plan.acts and query is not None and query.locking is None

    async def _take(self, batch: RecordBatch) -> None:
        """Write what becomes of rows that were read."""
        statement, width = self._statement, len(self.target.columns)
        if self._changed is not None and isinstance(statement, (BoundUpdate, BoundDelete)):
            batch = self._changed.first_time(self.target.relation.oid, batch)
        if not batch.num_rows:
            return
        match statement:
            case BoundMerge():
                await self._merge_rows(batch)
            case BoundInsert() if statement.on_conflict is not None:
                await self._upsert((await self._completed(statement, batch)).columns)
                return
            case BoundInsert():
                rows = await self._completed(statement, batch)
                await self.insert(rows)
                if self._keys is not None:
                    self._keys.add(rows.columns)
            case BoundUpdate():
                if self.target.layout is not None and batch.num_rows > 1:
                    batch = self._by_new_values(batch)
                columns = batch.columns
                old, new = columns[1 : 1 + width], columns[1 + width : 1 + 2 * width]
                await self._delete(columns[0], old)
                self._replaced(columns[0], await self.insert(self._batch(new), columns[1 + 2 * width :]))
                if self._keys is not None:
                    self._keys.move(old, new)
            case BoundDelete():
                columns = batch.columns
                old = columns[1 : 1 + width]
                await self._delete(columns[0], old)
                self._replaced(columns[0], DELETED)
                if self._keys is not None:
                    self._keys.remove(old)
                await self._return(columns[1:])
        self._rows += batch.num_rows
        await self._txn.spill()
        if self._keys is not None and self._keys.unspilled > AT_ONCE_ROWS:
            await self._keys.spill()

    async def _upsert(self, columns: list[Any]) -> None:
        """Insert rows, but for those in conflict with others, which may change instead."""
        assert self._conflicts is not None
        if self._policies is not None:
            await self._policies.check(self._batch(columns))
        await check_rows(self._running, self.target, self._batch(columns))
        resolved = await self._conflicts.resolve(columns)
        written: list[tuple[Any, list[Any]]] = []
        if len(resolved.inserted):
            new = taken(columns, resolved.inserted)
            await self._write(self._batch(new), None)
            if self._keys is not None:
                self._keys.add(new)
            written.append((resolved.inserted, self._marked(new, found=False)))
        if resolved.old is not None and resolved.new is not None:
            await self._delete(resolved.row_ids, resolved.old)
            self._replaced(resolved.row_ids, await self._write(self._batch(resolved.new), self._conflicts.updated))
            if self._keys is not None:
                self._keys.move(resolved.old, resolved.new)
            written.append((resolved.changed, self._marked(resolved.new, found=True)))
            self._updated += len(written[-1][0])
        self._rows += sum(len(places) for places, _ in written)
        if self._running.beside:
            self._count_own([places for places, _ in written])
        if self.returned is not None and written:
            # In the order in which the rows were proposed.
            order = pc.array_sort_indices(pa.concat_arrays([places for places, _ in written]))
            merged = zip(*(new for _, new in written), strict=True)
            await self._return(taken([pa.concat_arrays(list(map(whole, pieces))) for pieces in merged], order))
        await self._txn.spill()
        if self._keys is not None and self._keys.unspilled > AT_ONCE_ROWS:
            await self._keys.spill()

    def _marked(self, rows: list[Any], *, found: bool) -> list[Any]:
        """The columns of `rows`, and whether they were `found` where RETURNING needs that."""
        returning = self._statement.returning
        if returning is None or not returning.marked:
            return rows
        return [*rows, pa.array([found] * len(rows[0]), pa.bool_())]

    def _count_own(self, written: SequenceOf[Any]) -> None:
        """Tell how many of the proposed rows, at the places `written`, are whose: each statement has proposed one."""
        there = {place for places in written for place in places.to_pylist()}
        self._own_rows = int(0 in there)
        for place, each in enumerate(self._running.beside, 1):
            each.tag = self._tag_prefix + str(int(place in there))

    async def _merge_rows(self, batch: RecordBatch) -> None:
        """Insert, update and delete rows by the actions that MERGE gives them."""
        assert self._merge is not None
        merged = await self._merge.rows(batch)
        await check_rows(self._running, self.target, self._batch(merged.written))
        for places in (merged.updated, merged.deleted):
            row_ids, old, new = merged.row_ids.take(places), taken(merged.old, places), taken(merged.new, places)
            if not len(places):
                continue
            await self._delete(row_ids, old)
            is_update = places is merged.updated
            if is_update:
                self._updated += len(places)
            else:
                self._deleted += len(places)
            first = self._txn.write(self.target.shard, self._batch(new)) if is_update else DELETED
            self._replaced(row_ids, first)
            if self._keys is not None and is_update:
                self._keys.move(old, new)
            elif self._keys is not None:
                self._keys.remove(old)
        if len(merged.inserted):
            new = taken(merged.new, merged.inserted)
            self._txn.write(self.target.shard, self._batch(new))
            if self._keys is not None:
                self._keys.add(new)
        if self._keys is not None and self._keys.unspilled > AT_ONCE_ROWS:
            await self._keys.spill()
        await self._return([*merged.new, *merged.joined])

    async def _completed(self, statement: BoundInsert, batch: RecordBatch) -> RecordBatch:
        """Proposed rows, with their numbers and generated columns."""
        rows = batch
        if not batch.num_columns or batch.schema.names != self.target.names:
            rows = self._batch(batch.columns or [pa.nulls(batch.num_rows, pa.bool_())])
        if self._numbered is not None:
            rows = self._batch((await self._numbered.fill(rows)).columns)
        if statement.computed is not None and (self._numbered is not None or statement.complete is None):
            rows = self._batch((await computed_rows(self._running, statement.computed, rows, "generated")).columns)
        return rows

    async def insert(self, rows: RecordBatch, joined: SequenceOf[Any] = ()) -> int:
        """Add rows; `joined` is what RETURNING needs besides. Returns the provisional id of the first."""
        first = await self._write(rows, self._policies)
        if self.returned is not None:
            await self.returned.add([*rows.columns, *joined])
        return first

    async def _write(self, rows: RecordBatch, policies: CheckedPolicies | None) -> int:
        """Check rows and add them. Returns the provisional id of the first."""
        if policies is not None:
            await policies.check(rows)
        await check_rows(self._running, self.target, rows)
        if self._views is not None:
            broken = await self._views.broken(rows)
            if broken is not None:
                await self._check_keys_up_to(rows.slice(0, broken[0] + 1))
                raise broken[1]
        if self._laid_out is not None:
            await self._laid_out.write(rows)
            return NOWHERE
        return self._txn.write(self.target.shard, rows)

    async def _check_keys_up_to(self, rows: RecordBatch) -> None:
        """Raise 23505 when one of `rows`, the last of which a view would not show, has a key that is taken: PostgreSQL
        has written each row, and its keys, before it asks the views."""
        statement = self._statement
        is_plain = isinstance(statement, BoundUpdate) or (
            isinstance(statement, BoundInsert) and statement.on_conflict is None
        )
        if self._keys is None or not is_plain:
            return
        if self._laid_out is not None:
            await self._laid_out.write(rows)
            await self._laid_out.finish()
        else:
            self._txn.write(self.target.shard, rows)
        self._keys.add(rows.columns)
        await self._keys.check_at_once()

    def _by_new_values(self, batch: RecordBatch) -> RecordBatch:
        """What an UPDATE has read, in the order that the layout wants the new rows in."""
        assert self.target.layout is not None
        width = len(self.target.columns)
        new = self._batch(batch.columns[1 + width : 1 + 2 * width])
        order = order_of(new, self.target.layout.order)
        return batch if order is None else batch.take(order)

    def _replaced(self, row_ids: Any, first: int) -> None:
        self._running.transaction.replace_rows(
            Replacement(
                relation_oid=self.target.relation.oid, shard=self.target.shard, old=row_ids.to_numpy(), first=first
            )
        )

    async def _delete(self, row_ids: Any, old: SequenceOf[Any]) -> None:
        """Delete rows by id, with their old values. 27000 for one that a function has changed which the statement
        calls."""
        if self._running.session.changes_by_calls != self._changes_by_calls:
            await refuse_changed(self._running, self.target.shard, self._txn, row_ids, self._statement)
        names = [ROW_ID, *self.target.names]
        self._txn.delete(self.target.shard, pa.record_batch([row_ids, *old], names=names))

    def _batch(self, columns: SequenceOf[Any]) -> RecordBatch:
        return pa.record_batch(list(columns), names=self.target.names or [NO_COLUMNS])

    async def _write_by_engine(self, read: PreparedRead) -> None:
        """Let the engine that reads the rows write what becomes of them, as parts."""
        statement, target, width = self._statement, self.target, len(self.target.columns)
        old = ((*range(1 + width),), [ROW_ID, *target.names])
        match statement:
            case BoundInsert():
                sets = [((*range(width),), target.names)]
            case BoundUpdate():
                sets = [old, ((*range(1 + width, 1 + 2 * width),), target.names)]
            case _:
                sets = [old]
        assert read.writer is not None
        written = await read.writer.write(
            read.query,
            read.resolved.inputs,
            read.params,
            read.context,
            shard=target.shard,
            columns=[columns for columns, _ in sets],
            names=[names for _, names in sets],
            layout=target.layout,
            extra=read.at_hand,
        )
        for (_, names), parts in zip(sets, written, strict=True):
            uploads = [part.uploaded() for part in parts]
            if names[0] == ROW_ID:
                for uploaded in uploads:
                    await self._txn.delete_part(target.shard, uploaded)
            else:
                taken = [await self._txn.write_part(target.shard, uploaded) for uploaded in uploads]
                await check_parts(self._running, target, taken)
                if self._keys is not None:
                    await self._note_parts(self._keys, taken)
        self._rows = sum(part.rows for part in written[0])

    async def _note_parts(self, keys: StatementKeys, parts: SequenceOf[Part]) -> None:
        for part in parts:
            rows = await self._running.services.env.reader.read_part(part, self.target.names)
            for batch in rows.to_batches():
                keys.add(batch.columns)
                if keys.unspilled > AT_ONCE_ROWS:
                    await keys.spill()

    async def _return(self, columns: SequenceOf[Any]) -> None:
        if self.returned is not None:
            await self.returned.add(columns)

    def outcome(self) -> Outcome:
        """The command tag, or the rows of RETURNING."""
        prefix, columns = self._tag_prefix, self._plan.columns
        if self.returned is None:
            return Command(tag=prefix + str(self._own_rows if self._running.beside else self._rows))
        assert columns is not None
        batches = self.returned.batches(columns)
        return RowsOutcome(columns=columns, batches=batches, tag=lambda count: prefix + str(count))


def _closable(stream: AsyncIterator[RecordBatch]) -> Any:
    """Every engine's stream is an async generator; the protocol only promises an iterator."""
    return stream
