"""The rows of a subscription: what its query gives at a CSN, then every change of it, each once, in CSN order.

A query is *linear* when its rows follow from single rows of its tables: filters, projections and UNION ALL. Of such a
query each change is the query over the rows that a commit has inserted, and over those that it has deleted. Of queries
that materialized views can follow (`deltas`) a change is worked out from these rows, and from what they touch. Of any
other query the result is kept, worked out again after each commit that wrote to one of its tables, and compared.

A subscription keeps nothing of the past for itself but what it reads just now. One whose reader is slow finds its next
changes in what the tables' retention keeps, and fails with 72000 when they are gone; its memory does not grow. What was
read up to a CSN can be gone on from on any server (``AS OF csn WITH (SNAPSHOT = false)``).

Rows come with the columns of `leading_columns` before those of the query. The sum of all rows up to a CSN is what the
query gives there. A row that is no change (`progressed`) says that all changes up to its CSN have come.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from adapter.engines.common.engine import TableInput
from adapter.execution.cursors import of_route
from adapter.execution.statement import Running
from adapter.materialized.views_read import is_exact
from adapter.plans.plan_cache import Plan
from adapter.queries.acting.session_functions import with_session_values
from adapter.queries.prepared_read import with_token
from adapter.queries.read import execution_context, not_populated
from adapter.results import ColumnDescription, RecordBatch
from adapter.store_errors import too_old
from adapter.subscriptions.deltas import Deltas, deltas_of
from adapter.subscriptions.result_changes import difference
from adapter.system_catalogs.functions.reg_columns import with_names
from planner.errors import FeatureNotSupported, ObjectNotInPrerequisiteState, ProgramLimitExceeded
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.physical import arrow_type
from planner.ir.rewrite import is_volatile, walk
from planner.syntax.parse import Parsed
from planner.types import types as t
from planner.types.types import SqlType
from storage.catalog.model import CatalogSnapshot, Relation
from storage.errors import AsOfNotReadable, UnknownShard
from storage.ids import ShardId
from storage.reading.subscribe import by_csn
from storage.shards.parts import Part
from storage.timestamps.csn import Csn, csn_from_ms, csn_ms

IDLE_S = 1.0
"""How long nothing has to happen until a subscription that tells its progress lets time go on."""

WINDOW_MS = 10_000
"""How much of the past is looked up at once by a subscription that is behind."""

MAX_COMPARED_ROWS = 100_000
"""Rows of one commit up to which a row that it deletes and inserts again, as the query sees it, is no change."""

MAX_KEPT_BYTES = 256 << 20
"""The largest result that is kept of a query which is not linear."""

_LINEAR = (ir.Scan, ir.Filter, ir.Project, ir.ProjectSet, ir.Sort, ir.SetOperation)
_SUBQUERIES = (ir.ScalarSubquery, ir.Exists, ir.QuantifiedSubquery, ir.ArraySubquery)


def leading_columns(*, progress: bool) -> tuple[ColumnDescription, ...]:
    """What stands before the columns of the query."""
    columns = [ColumnDescription(name="tidegate_csn", type=SqlType(t.INT8))]
    if progress:
        columns.append(ColumnDescription(name="tidegate_progressed", type=SqlType(t.BOOL)))
    return (*columns, ColumnDescription(name="tidegate_diff", type=SqlType(t.INT8)))


def is_linear(query: BoundQuery) -> bool:
    """See the module's contract."""
    for node in walk(query.rel):
        if isinstance(node, _SUBQUERIES) or (isinstance(node, ir.Rel) and not isinstance(node, _LINEAR)):
            return False
        if isinstance(node, ir.SetOperation) and not (node.op == "union" and node.all):
            return False
    return True


class Feed:
    """One subscription: `begin`, then `next` gives its rows."""

    def __init__(
        self,
        running: Running,
        plan: Plan,
        parsed: Parsed,
        *,
        as_of: Csn,
        up_to: Csn | None,
        snapshot: bool,
        progress: bool,
    ) -> None:
        """`plan` was made of `parsed` with the catalog of `as_of`. Raises 0A000 for a query that cannot be subscribed
        to, and 55000 for one over a view that has not been populated."""
        query = plan.query
        assert query is not None
        if (
            plan.acts
            or plan.sizes
            or query.system
            or query.files
            or query.foreign
            or query.past
            or query.locking is not None
            or plan.steps
            or is_volatile(query.rel)
        ):
            raise FeatureNotSupported(
                "SUBSCRIBE is for queries over tables",
                detail="System catalogs, files, locking clauses, and functions that act or are volatile cannot be"
                " subscribed to.",
            )
        if plan.unpopulated is not None:
            raise not_populated(plan.unpopulated)
        self._running, self._plan, self._query = running, plan, query
        self._env = running.services.env
        self._up_to, self._progress = up_to, progress
        self._catalog: CatalogSnapshot = plan.catalog
        self._seen = as_of
        self._parsed = parsed
        self._linear = is_linear(query)
        self._deltas: Deltas | None = None
        self._tables: dict[int, Relation] = {}
        # What is stored of a view that the query goes through is not read, and lags behind what it is made of.
        for oid in query.relations - running.session.expanded:
            record = plan.catalog.get(oid)
            if isinstance(record, Relation) and record.shard is not None:
                self._tables[oid] = record
        self._result: Any = None
        self._waiting: list[tuple[Csn, Mapping[int, tuple[Part, ...]] | None]] = []
        """The next changes: the parts of each table (by oid); None: tables were replaced."""
        self._target = as_of
        self._rows: Any = None
        self._tell = snapshot
        self._numbers = itertools.count()
        self._told = Csn(0)

    async def begin(self) -> None:
        """Fix what the query takes from its session and its moment (current_user, now()), which stays as it is now, and
        how its changes are found."""
        if not self._linear:
            self._deltas = await deltas_of(self._running, self._plan, self._parsed, self._tables)
        self._query = await with_session_values(self._running, self._query, self._plan.session_values)
        if self._tell or self._keeps:
            self._rows = self._first(self._seen)

    @property
    def _keeps(self) -> bool:
        """Whether the result is kept."""
        return not self._linear and self._deltas is None

    async def next(self, patience_s: float | None = None) -> RecordBatch | None:
        """Some rows; None when there are no more. Raises TimeoutError when none have come for `patience_s`."""
        deadline = None if patience_s is None else asyncio.get_running_loop().time() + patience_s
        while True:
            if self._rows is not None:
                batch = await anext(self._rows, None)
                if batch is None:
                    self._rows = None
                elif batch.num_rows:
                    return batch
                continue
            if self._waiting:
                csn, parts = self._waiting.pop(0)
                self._seen = csn
                self._rows = self._changes(csn, parts)
                continue
            if self._progress and self._target > self._told:
                self._seen = self._told = self._target
                return self._progressed(self._target)
            self._seen = self._target
            if self._up_to is not None and self._seen >= self._up_to:
                return None
            if not await self._look_ahead():
                await self._wait(deadline)

    async def close(self) -> None:
        """Let go of everything."""
        if self._rows is not None:
            await self._rows.aclose()
            self._rows = None
        self._waiting.clear()
        self._result = None

    async def batches(self) -> AsyncIterator[RecordBatch]:
        """All rows, as they come."""
        try:
            while (batch := await self.next()) is not None:
                yield batch
        finally:
            await self.close()

    # ------------------------------------------------------------ what comes next

    async def _look_ahead(self) -> bool:
        """Find the changes after what has been seen; whether time has gone on at all."""
        cache = self._env.cache
        target = Csn(min(cache.upper - 1, csn_from_ms(csn_ms(self._seen) + WINDOW_MS)))
        if self._up_to is not None:
            target = min(target, self._up_to)
        if target <= self._seen:
            return False
        target, replaced = await self._until_definitions_change(target)
        found: dict[Csn, dict[int, tuple[Part, ...]]] = {}
        try:
            for oid, table in self._tables.items():
                assert table.shard is not None
                last = Csn(target - 1) if replaced else target
                if last <= self._seen:
                    continue
                changes = await self._env.reader.changes_before_drop(table.shard, self._seen, last)
                for change in by_csn(changes):
                    found.setdefault(change.until, {})[oid] = (*change.inserts, *change.deletes)
        except (AsOfNotReadable, UnknownShard) as error:
            raise too_old(error) from error
        self._waiting = [(csn, found[csn]) for csn in sorted(found)]
        if replaced:
            self._waiting.append((target, None))
        self._target = target
        return True

    async def _until_definitions_change(self, target: Csn) -> tuple[Csn, bool]:
        """How far what was bound holds, `target` at most; and whether tables are replaced just there (TRUNCATE)."""
        forgotten = self._env.cache.state.forgotten
        gone = [forgotten[r.shard] for r in self._tables.values() if r.shard is not None and r.shard in forgotten]
        at = min([csn for csn in gone if self._seen < csn <= target], default=None)
        if at is not None:
            target = at
        if self._env.catalog.current().csn > self._catalog.csn or self._env.catalog.is_behind:
            try:
                whole = await self._env.catalog.snapshot_at(target)
            except AsOfNotReadable as error:
                raise too_old(error) from error
            now = whole.databases.get(self._running.session.database_oid)
            if now is not None and now.csn <= self._catalog.csn:
                return target, at is not None
            for record in self._plan.relied_on:
                after = None if now is None else now.get(record.oid)
                if after is None or _meaning(after) != _meaning(record):
                    last = await self._last_before(target, record.oid)
                    if last > self._seen:
                        return last, False
                    raise ObjectNotInPrerequisiteState(
                        "the definition of what is subscribed to has changed",
                        detail=f"All changes up to CSN {self._seen} have been sent.",
                    )
            assert now is not None
            if at is None:
                self._catalog = now
        return target, at is not None

    async def _last_before(self, target: Csn, oid: int) -> Csn:
        """The last CSN before `target` at which the record of `oid` is as it was bound."""
        (bound,) = [record for record in self._plan.relied_on if record.oid == oid]
        low, high = self._seen, target
        while low + 1 < high:
            middle = Csn((low + high) // 2)
            whole = await self._env.catalog.snapshot_at(middle)
            now = whole.databases.get(self._running.session.database_oid)
            after = None if now is None else now.get(oid)
            if after is not None and _meaning(after) == _meaning(bound):
                low = middle
            else:
                high = middle
        return low

    async def _wait(self, deadline: float | None) -> None:
        """Return when something may have happened. Raises TimeoutError at the deadline."""
        loop = asyncio.get_running_loop()
        listens = self._progress or self._up_to is not None
        patience = IDLE_S if listens else None
        if deadline is not None:
            left = deadline - loop.time()
            if left <= 0:
                raise TimeoutError
            patience = left if patience is None else min(left, patience)
        waiting = asyncio.ensure_future(self._env.cache.changed())
        try:
            if self._env.cache.upper - 1 > self._seen:
                return
            done, _ = await asyncio.wait({waiting}, timeout=patience)
        finally:
            waiting.cancel()
        if not done and listens and (deadline is None or loop.time() < deadline):
            await self._env.txns_shard.advance_to_now(self._env.oracle)

    # ------------------------------------------------------------ rows

    async def _first(self, csn: Csn) -> AsyncIterator[RecordBatch]:
        """What the query gives at `csn`."""
        async with aclosing(_closable(self._at(csn))) as batches:
            if not self._keeps:
                async for batch in batches:
                    yield self._as_change(csn, 1, batch)
                return
            self._result = await self._kept(batches)
        if self._tell:
            for batch in self._result.to_batches():
                yield self._as_change(csn, 1, batch)

    async def _changes(self, csn: Csn, parts: Mapping[int, tuple[Part, ...]] | None) -> AsyncIterator[RecordBatch]:
        """How the result at `csn` differs from that before."""
        if parts is None:
            async for batch in self._replaced(csn):
                yield batch
        elif self._deltas is not None:
            gone, come = await self._worked_out(csn, parts, self._deltas)
            async for batch in self._compared(csn, gone, come):
                yield batch
        elif not self._linear:
            async with aclosing(_closable(self._at(csn))) as batches:
                result = await self._kept(batches)
            before, self._result = self._result, result
            async for batch in self._compared(csn, before, result):
                yield batch
        else:
            gone, come = self._delta(parts, "delete"), self._delta(parts, "insert")
            rows = sum(table.rows for table in (*gone.values(), *come.values()))
            both = any(table.rows for table in gone.values()) and any(table.rows for table in come.values())
            if both and rows <= MAX_COMPARED_ROWS:
                before, after = await self._table(self._run(gone)), await self._table(self._run(come))
                async for batch in self._compared(csn, before, after):
                    yield batch
                return
            for sign, inputs in ((-1, gone), (1, come)):
                if any(table.rows for table in inputs.values()):
                    async with aclosing(_closable(self._run(inputs))) as batches:
                        async for batch in batches:
                            yield self._as_change(csn, sign, batch)

    async def _worked_out(self, csn: Csn, parts: Mapping[int, tuple[Part, ...]], deltas: Deltas) -> tuple[Any, Any]:
        """Two tables of rows whose difference is that of the results before and after the commit at `csn`."""
        shards: list[ShardId] = [table.shard for table in self._tables.values() if table.shard is not None]
        try:
            async with await self._env.leases.hold(shards, Csn(csn - 1)):
                found = await deltas.between(self._tables, csn, parts)
        except (AsOfNotReadable, UnknownShard) as error:
            raise too_old(error) from error
        if found is not None:
            return found
        return await self._kept(self._at(Csn(csn - 1))), await self._kept(self._at(csn))

    async def _replaced(self, csn: Csn) -> AsyncIterator[RecordBatch]:
        """Tables have other rows altogether from `csn` on (TRUNCATE)."""
        before = self._result
        if not self._keeps:
            before = await self._kept(self._at(Csn(csn - 1)))
        whole = await self._env.catalog.snapshot_at(csn)
        now = whole.databases[self._running.session.database_oid]
        for oid in self._tables:
            record = now.get(oid)
            assert isinstance(record, Relation)
            self._tables[oid] = replace(self._tables[oid], shard=record.shard)
        after = await self._kept(self._at(csn))
        if self._keeps:
            self._result = after
        async for batch in self._compared(csn, before, after):
            yield batch

    async def _compared(self, csn: Csn, before: Any, after: Any) -> AsyncIterator[RecordBatch]:
        gone, come = await self._running.services.plans.aside(difference, before, after)
        for sign, rows in ((-1, gone), (1, come)):
            for batch in rows.to_batches():
                yield self._as_change(csn, sign, batch)

    def _delta(self, parts: Mapping[int, tuple[Part, ...]], kind: str) -> dict[int, TableInput]:
        """The rows that a commit has inserted or deleted, as the tables that the query reads."""
        inputs = {}
        for oid, table in self._tables.items():
            # A part of deleted rows has all their values.
            own = tuple([replace(part, kind="insert") for part in parts.get(oid, ()) if part.kind == kind])
            inputs[oid] = _input(table, own, ())
        return inputs

    async def _at(self, csn: Csn) -> AsyncIterator[RecordBatch]:
        """The rows that the query gives at `csn`."""
        shards: list[ShardId] = [table.shard for table in self._tables.values() if table.shard is not None]
        inputs = {}
        try:
            hold = await self._env.leases.hold(shards, csn)
        except (AsOfNotReadable, UnknownShard) as error:
            raise too_old(error) from error
        async with hold:
            try:
                for oid, table in self._tables.items():
                    assert table.shard is not None
                    snapshot = await self._env.reader.snapshot(table.shard, csn)
                    inputs[oid] = _input(table, tuple(snapshot.inserts), snapshot.deletes)
            except (AsOfNotReadable, UnknownShard) as error:
                raise too_old(error) from error
            async with aclosing(_closable(self._run(inputs))) as batches:
                async for batch in batches:
                    yield batch

    async def _run(self, inputs: Mapping[int, TableInput]) -> AsyncIterator[RecordBatch]:
        """The rows that the query gives over these tables."""
        running = self._running
        route = running.engines.choose_engine(self._query, inputs, running.params, running.session.values.flat)
        context = with_token(execution_context(running, self._plan.catalog), f"changes{next(self._numbers)}")
        batches: Any = of_route(route, self._query, inputs, running.params, context)()
        if self._plan.reg_columns:
            types = [field.type for field in self._query.rel.fields]
            batches = with_names(batches, types, context, running.engines.catalogs)
        async with aclosing(batches) as results:
            async for batch in results:
                yield batch

    async def _table(self, batches: AsyncIterator[RecordBatch]) -> Any:
        schema = pa.schema([(f"c{n}", arrow_type(field.type)) for n, field in enumerate(self._query.rel.fields, 1)])
        return pa.Table.from_batches([_named(batch, schema) async for batch in batches], schema)

    async def _kept(self, batches: AsyncIterator[RecordBatch]) -> Any:
        """A whole result. Raises 54000 when it is too large to be compared."""
        table = await self._table(batches)
        if table.nbytes > MAX_KEPT_BYTES:
            raise ProgramLimitExceeded(
                "the result of the query is too large to be subscribed to",
                detail=f"It has {table.nbytes} bytes; {MAX_KEPT_BYTES} can be compared.",
            )
        return table

    # ------------------------------------------------------------ the columns before the query's

    def _as_change(self, csn: Csn, diff: int, batch: RecordBatch) -> RecordBatch:
        count = batch.num_rows
        leading = [pa.array([csn] * count, pa.int64())]
        if self._progress:
            leading.append(pa.array([False] * count, pa.bool_()))
        leading.append(pa.array([diff] * count, pa.int64()))
        arrays = [*leading, *batch.columns]
        return pa.RecordBatch.from_arrays(arrays, [f"c{number}" for number in range(1, len(arrays) + 1)])

    def _progressed(self, csn: Csn) -> RecordBatch:
        arrays = [pa.array([csn], pa.int64()), pa.array([True]), pa.nulls(1, pa.int64())]
        arrays += [pa.nulls(1, arrow_type(field.type)) for field in self._query.rel.fields]
        return pa.RecordBatch.from_arrays(arrays, [f"c{number}" for number in range(1, len(arrays) + 1)])


def _closable(batches: AsyncIterator[RecordBatch]) -> Any:
    """Generators say of themselves only that they are iterators."""
    return batches


def _named(batch: RecordBatch, schema: Any) -> RecordBatch:
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _input(table: Relation, inserts: tuple[Part, ...], deletes: tuple[Part, ...]) -> TableInput:
    return TableInput(
        relation=table,
        inserts=inserts,
        deletes=deletes,
        bytes=sum(part.bytes for part in inserts),
        rows=sum(part.rows for part in inserts),
    )


def _meaning(record: object) -> object:
    """What of a catalog record decides what a query means that goes through it."""
    if isinstance(record, Relation):
        columns = [(column.attnum, column.name, column.type_oid, column.typmod) for column in record.live_columns()]
        how = record.materialized
        kept = None if how is None else (is_exact(record), how.populated)
        return record.kind, record.definition, columns, kept
    return record
