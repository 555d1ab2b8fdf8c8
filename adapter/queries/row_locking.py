"""`SELECT ... FOR UPDATE` and its like: each row is locked before it is handed on (`ir.LockRows`).

PostgreSQL's rules (nodeLockRows.c, and "The Locking Clause" of SELECT). Rows are found at the snapshot, sorted, locked
in that order until LIMIT is reached, and only those count that could be locked. A row that has changed since goes on
with its newest version if that still fits: the rows that it was joined with stay the same (`locked_rows` has the rules
of the isolation levels). The values are the newest, the order is that of the snapshot.

Where locked rows are the whole result they stream: a statement keeps them aside before its first row is handed on,
since it may have to begin again; a cursor locks the rows that are fetched. Inside a larger query they are read first,
and the rest of the query finds them at hand.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from adapter.execution.statement import Running
from adapter.plans.computed.constant_rows import constant_value
from adapter.queries.locked_rows import SKIPPED, LockedRows, recheck
from adapter.queries.prepared_read import PreparedRead
from adapter.results import RecordBatch
from adapter.spilling.row_spool import RowSpool
from adapter.spilling.temporary_files import TemporaryFiles
from adapter.store_errors import CONCURRENT_UPDATE, serialization_failure
from adapter.transactions.decided_rows import DELETED
from adapter.transactions.locks import modes
from adapter.transactions.locks.modes import Mode
from adapter.transactions.transaction import BeginAgain
from planner.errors import FeatureNotSupported, InvalidRowCountInLimitClause, InvalidRowCountInResultOffsetClause
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.physical import arrow_type
from planner.ir.rewrite import column_ids, transform, walk
from planner.ir.row_marks import LockStrength
from planner.types import types as t
from planner.types.types import SqlType
from storage.catalog.model import Relation
from storage.catalog.temporary import is_temporary

AtHand = Mapping[int, Any]
"""Rows (Arrow tables) by the ids of the `CteScan`s that read them."""

Prepare = Callable[[BoundQuery, AtHand], Awaitable[PreparedRead]]
"""Makes a query ready to run that reads rows at hand."""

SPARE_ROWS = 16
"""So many rows that cannot be locked, or do not fit any more, are expected at first where there is a LIMIT."""

FIRST_AT_HAND = ir.RETURNING_ROWS - 1000
"""The id of the first `CteScan` of locked rows; lower ones follow."""

_MODES: Mapping[LockStrength, Mode] = {
    "key share": modes.FOR_KEY_SHARE,
    "share": modes.FOR_SHARE,
    "no key update": modes.FOR_NO_KEY_UPDATE,
    "update": modes.FOR_UPDATE,
}


def without_locking(query: BoundQuery) -> BoundQuery:
    """`query` as one that locks nothing, for EXPLAIN."""

    def plain(node: Any) -> Any:
        if not isinstance(node, ir.LockRows):
            return None
        rel = transform(node.input, plain)
        if node.count is None and node.offset is None:
            return rel
        return ir.Limit(input=rel, count=node.count, offset=node.offset, ties=False, fields=node.fields)

    return replace(query, rel=transform(query.rel, plain), locking=None)


async def prepare_locking(
    running: Running, query: BoundQuery, at_hand: AtHand, prepare: Prepare, *, lazily: bool
) -> PreparedRead:
    """`query`, which locks rows, ready to run. Without `lazily` its rows are locked now.

    Raises 25006 in a read-only transaction, 55P03, BeginAgain, 40001, and what waiting for a lock raises.
    """
    if not all(map(is_temporary, query.relations)):
        running.transaction.check_writable(f"SELECT {query.locking}")
    rel = query.rel
    if isinstance(rel, ir.Project) and isinstance(rel.input, ir.LockRows) and _are_columns(rel.exprs):
        node = rel.input
        inner, at_hand = await _inner(running, replace(query, rel=node.input, locking=None), at_hand, prepare)
        read = await prepare(inner, at_hand)
        places = [[field.id for field in node.fields].index(id) for id in column_ids(rel.exprs)]
        count, offset = await _bounds(running, query, node, at_hand, prepare)
        first = await _first_rows(inner, node, read, count, offset, lambda query: prepare(query, at_hand))
        locking = _Locking(running, replace(node, input=inner.rel), read, first)
        stream = _columns(locking.stream(count, offset, one_by_one=lazily), places)
        source = _or_fail(stream) if lazily else await _kept_aside(stream, running.session.temporary_files)
        return replace(read, query=query, rows=None, engine=None, writer=None, stream=lambda: source)
    return await prepare(*await _inner(running, query, at_hand, prepare))


def _are_columns(exprs: Sequence[ir.Scalar]) -> bool:
    return all(isinstance(expr, ir.ColumnRef) for expr in exprs)


async def _inner(running: Running, query: BoundQuery, given: AtHand, prepare: Prepare) -> tuple[BoundQuery, AtHand]:
    """`query` reading at hand what its locking parts find, and all rows at hand."""
    at_hand = dict(given)
    free = itertools.count(FIRST_AT_HAND, -1)
    common = {table.id: table for node in walk(query.rel) if isinstance(node, ir.With) for table in node.tables}
    scans: dict[int, ir.CteScan] = {}

    def at_hand_in(rel: Any) -> Any:
        return transform(rel, lambda node: scans.get(id(node)))

    def with_common_tables(rel: ir.Rel) -> ir.Rel:
        """`rel` with the common tables that it reads; they stand around it in the query."""
        own = {table.id for node in walk(rel) if isinstance(node, ir.With) for table in node.tables}
        needed: dict[int, ir.CommonTable] = {}
        left: list[Any] = [rel]
        while left:
            for node in walk(left.pop()):
                if isinstance(node, ir.CteScan) and node.cte in common.keys() - own - needed.keys():
                    needed[node.cte] = at_hand_in(common[node.cte])
                    left.append(needed[node.cte])
        tables = tuple(needed[id] for id in common if id in needed)
        return ir.With(tables=tables, body=rel, fields=rel.fields) if tables else rel

    async def carried_out(rel: Any) -> Any:
        nodes: dict[int, ir.LockRows] = {}

        def note(node: Any) -> Any:
            if isinstance(node, ir.LockRows):
                nodes[id(node)] = node
                return node
            return None

        transform(rel, note)
        for key, node in nodes.items():
            _check_alone(node)
            inner = with_common_tables(await carried_out(node.input))
            read = await prepare(replace(query, rel=inner, locking=None), at_hand)
            count, offset = await _bounds(running, query, node, at_hand, prepare)
            whole = replace(query, rel=inner, locking=None)
            first = await _first_rows(whole, node, read, count, offset, lambda query: prepare(query, at_hand))
            locking = _Locking(running, replace(node, input=inner), read, first)
            batches = [batch async for batch in locking.stream(count, offset, one_by_one=False)]
            cte = next(free)
            names = [f"c{place}" for place in range(1, len(node.fields) + 1)]
            schema = pa.schema([(name, arrow_type(field.type)) for name, field in zip(names, node.fields, strict=True)])
            tables = [pa.Table.from_batches([batch]).rename_columns(names) for batch in batches]
            at_hand[cte] = pa.concat_tables(tables) if tables else schema.empty_table()
            scans[key] = ir.CteScan(cte=cte, fields=node.fields)
        return at_hand_in(rel)

    return replace(query, rel=await carried_out(query.rel), locking=None), at_hand


def _check_alone(node: ir.LockRows) -> None:
    """0A000 when the rows depend on those of a query around it."""
    own = {field.id for part in walk(node) for field in getattr(part, "fields", ())}
    if not own.issuperset(column_ids(node)):
        raise FeatureNotSupported("locking rows in a correlated subquery is not supported")


async def _bounds(
    running: Running, query: BoundQuery, node: ir.LockRows, at_hand: AtHand, prepare: Prepare
) -> tuple[int | None, int]:
    """LIMIT (None: there is none) and OFFSET."""
    values: list[int | None] = []
    for expr in (node.count, node.offset):
        known, value = (True, None) if expr is None else constant_value(expr, running.params)
        if not known:
            assert expr is not None
            field = ir.Field(id=max(field.id for field in node.fields) + 1, name="bound", type=expr.type)
            rel = ir.Project(input=ir.OneRow(), exprs=(expr,), fields=(field,))
            read = await prepare(replace(query, rel=rel, locking=None), at_hand)
            (value,) = [batch.column(0)[0].as_py() async for batch in read.stream() if batch.num_rows]
        values.append(value)
    count, offset = values
    if offset is not None and offset < 0:
        raise InvalidRowCountInResultOffsetClause("OFFSET must not be negative")
    if count is not None and count < 0:
        raise InvalidRowCountInLimitClause("LIMIT must not be negative")
    return count, offset or 0


async def _first_rows(
    query: BoundQuery,
    node: ir.LockRows,
    read: PreparedRead,
    count: int | None,
    offset: int,
    prepare: Callable[[BoundQuery], Awaitable[PreparedRead]],
) -> tuple[PreparedRead, int] | None:
    """The first rows of `query` by themselves, and how many those are at most: where LIMIT says that others are only
    needed when some of these cannot be locked. None where that is no less work than `read`, of all its rows."""
    if count is None or not isinstance(node.input, ir.Sort) or read.resolved.are_small or read.rows is not None:
        return None
    most = count + offset + SPARE_ROWS
    limit = ir.Literal(value=most, type=SqlType(t.INT8))
    rel = ir.Limit(input=query.rel, count=limit, offset=None, ties=False, fields=query.rel.fields)
    return await prepare(replace(query, rel=rel)), most


async def _columns(stream: AsyncIterator[RecordBatch], places: Sequence[int]) -> AsyncIterator[RecordBatch]:
    """The columns of `stream` at `places`, named by their order."""
    names = [f"c{number}" for number in range(1, len(places) + 1)]
    async for batch in stream:
        yield pa.record_batch([batch.column(place) for place in places], names=names)


async def _kept_aside(stream: AsyncIterator[RecordBatch], files: TemporaryFiles) -> AsyncIterator[RecordBatch]:
    """All of `stream`, which has ended when this returns."""
    spool = RowSpool(files)
    try:
        async for batch in stream:
            await spool.append(batch)
    except BaseException:
        spool.close()
        raise

    async def read() -> AsyncIterator[RecordBatch]:
        try:
            async for batch in spool.read(0, spool.rows):
                yield batch
        finally:
            spool.close()

    return read()


async def _or_fail(stream: AsyncIterator[RecordBatch]) -> AsyncIterator[RecordBatch]:
    """`stream` of a cursor, which cannot begin again."""
    try:
        async for batch in stream:
            yield batch
    except BeginAgain as error:
        raise serialization_failure(CONCURRENT_UPDATE) from error


class _Locking:
    """One `LockRows` in progress, whose input is `read`, or to begin with what `_first_rows` says."""

    def __init__(
        self, running: Running, node: ir.LockRows, read: PreparedRead, first: tuple[PreparedRead, int] | None
    ) -> None:
        self._running = running
        self._read = read
        self._first = first
        self._marks = node.marks
        places = {field.id: place for place, field in enumerate(node.fields)}
        self._places = [places[mark.field] for mark in node.marks]
        catalog = running.transaction.catalog
        self._rows: list[LockedRows] = []
        for mark in node.marks:
            relation = catalog.get(mark.relation_oid)
            assert isinstance(relation, Relation)
            self._rows.append(LockedRows(running, relation, "locking"))
        self._rechecks = 0

    async def stream(self, count: int | None, offset: int, *, one_by_one: bool) -> AsyncIterator[RecordBatch]:
        """The locked rows. At most the rows that are handed on, and those that OFFSET skips, are locked."""
        left = None if count is None else count + offset
        async with aclosing(self._input()) as batches:
            if left == 0:
                return
            async for batch in batches:
                start = 0
                while start < batch.num_rows:
                    size = 1 if one_by_one else batch.num_rows - start
                    if left is not None:
                        size = min(size, left)
                    locked = await self._locked(batch.slice(start, size))
                    start += size
                    if left is not None:
                        left -= locked.num_rows
                    skipped = min(offset, locked.num_rows)
                    offset -= skipped
                    if locked.num_rows > skipped:
                        yield locked.slice(skipped)
                    if left == 0:
                        return

    async def _input(self) -> AsyncGenerator[RecordBatch, None]:
        """The rows to lock; the others after the first ones when it goes on."""
        seen: Counter[tuple[int, ...]] = Counter()
        if self._first is not None:
            read, most = self._first
            stream: Any = read.stream()
            async with aclosing(stream) as batches:
                async for batch in batches:
                    seen.update(self._ids_of_rows(batch))
                    yield batch
            if seen.total() < most:
                return
        stream = self._read.stream()
        async with aclosing(stream) as batches:
            async for batch in batches:
                if not seen:
                    yield batch
                    continue
                new = []
                for ids in self._ids_of_rows(batch):
                    new.append(not seen[ids])
                    if not new[-1]:
                        seen[ids] -= 1
                yield batch.filter(pa.array(new, pa.bool_()))

    def _ids_of_rows(self, batch: RecordBatch) -> list[tuple[int, ...]]:
        return list(zip(*[_ids(batch, place).tolist() for place in self._places], strict=True))

    async def _locked(self, batch: RecordBatch) -> RecordBatch:
        """Those rows of `batch` that could be locked and still fit, by their newest versions."""
        kept = np.ones(batch.num_rows, bool)
        stale = np.zeros(batch.num_rows, bool)
        ids = [_ids(batch, place) for place in self._places]
        for mark, rows, own in zip(self._marks, self._rows, ids, strict=True):
            if mark.strength is None:
                continue
            wanted = np.unique(own[kept & (own != _NO_ROW)])
            mode = _MODES[mark.strength]
            changed = await rows.lock(wanted, np.full(len(wanted), mode), mark.wait)
            for before, now in changed.items():
                there = own == before
                if now in (DELETED, SKIPPED):
                    kept[there] = False
                else:
                    own[there] = now
                    stale[there] = True
            if mode > modes.FOR_KEY_SHARE:
                rows.hold(np.unique(own[kept & (own != _NO_ROW)]))
        stale &= kept
        if not stale.any():
            return batch if kept.all() else batch.filter(pa.array(kept))
        return await self._rechecked(batch, kept, stale, ids)

    async def _rechecked(
        self,
        batch: RecordBatch,
        kept: np.ndarray[Any, Any],
        stale: np.ndarray[Any, Any],
        ids: list[np.ndarray[Any, Any]],
    ) -> RecordBatch:
        """`batch` with the stale rows by their newest versions (`ids`, by mark), if these fit."""
        found: dict[tuple[int, ...], list[RecordBatch]] = {}
        # Rows that lack the same tables (of outer joins) are looked at together.
        lacking: dict[tuple[bool, ...], list[int]] = {}
        for row in np.flatnonzero(stale).tolist():
            lacking.setdefault(tuple(bool(own[row] == _NO_ROW) for own in ids), []).append(row)
        for lacks, members in lacking.items():
            combinations = {tuple(int(own[row]) for own in ids) for row in members}
            for result in await self._newest(lacks, [own[members] for own in ids]):
                own = [_ids(result, place) for place in self._places]
                for row, combination in enumerate(zip(*(each.tolist() for each in own), strict=True)):
                    if combination in combinations:
                        found.setdefault(combination, []).append(result.slice(row, 1))
        pieces: list[RecordBatch] = []
        for row in np.flatnonzero(kept).tolist():
            if not stale[row]:
                pieces.append(batch.slice(row, 1))
                continue
            # Rows that a set-returning function or the like has made several of have the same ids.
            fitting = found.get(tuple(int(own[row]) for own in ids))
            if fitting:
                pieces.append(fitting.pop(0))
        if not pieces:
            return batch.slice(0, 0)
        tables = [pa.Table.from_batches([piece]).rename_columns(batch.schema.names) for piece in pieces]
        (merged,) = pa.concat_tables([table.cast(batch.schema) for table in tables]).combine_chunks().to_batches()
        return merged

    async def _newest(self, lacks: tuple[bool, ...], ids: list[np.ndarray[Any, Any]]) -> Sequence[RecordBatch]:
        """What the query gives for the rows with these ids and those that they are joined with, among others."""
        scans = {
            node.row_id: node for node in walk((self._read.again or self._read.query).rel) if isinstance(node, ir.Scan)
        }
        replaced = []
        for mark, rows, own, lacked in zip(self._marks, self._rows, ids, lacks, strict=True):
            if lacked or mark.strength is not None:
                wanted = [] if lacked else np.unique(own).tolist()
                replaced.append((scans[mark.row_id], await rows.newest_versions(wanted)))
        self._rechecks += 1
        return await recheck(self._running, self._read, replaced, f"newest{id(self)}.{self._rechecks}")


_NO_ROW = np.iinfo(np.int64).min
"""In place of the id of a row that an outer join lacks."""


def _ids(batch: RecordBatch, place: int) -> np.ndarray[Any, Any]:
    column = batch.column(place).fill_null(int(_NO_ROW))
    return np.array(column.to_numpy(zero_copy_only=False), np.int64)
