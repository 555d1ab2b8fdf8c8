"""COPY ... FROM STDIN: the frontend decodes the client's bytes to batches; they go into the transaction's buffer.

The buffer spills to uploaded parts, so a COPY of any size runs in bounded memory. Columns that are not copied get their
defaults: constants once, sequence numbers and volatile expressions for each row.
"""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from adapter.changes.constraints.deferred_checks import end_statement
from adapter.changes.constraints.row_checks import check_rows
from adapter.changes.constraints.statement_keys import StatementKeys
from adapter.changes.constraints.target import Target, target_of
from adapter.changes.copy.copy_options import begin_progress, copied_into, copy_format, unfreezable
from adapter.changes.copy.skipping import Skipping
from adapter.changes.rows.defaults import default_query
from adapter.changes.rows.laid_out import LaidOutRows
from adapter.changes.rows.over_rows import computed_rows, over_rows
from adapter.execution.statement import Running
from adapter.plans.computed.constant_rows import array_of, constant_value
from adapter.queries.acting.sequences import find_sequence, next_values
from adapter.queries.read import prepare_plan
from adapter.queries.single_row import evaluate
from adapter.results import ColumnDescription, CopyIn, CopyProgress, RecordBatch
from planner.definitions.row_expressions import computing_query, filtering_query
from planner.errors import ExclusionViolation, SqlError, UniqueViolation
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.physical import arrow_type
from planner.ir.rewrite import is_volatile, walk
from planner.queries.changes.column_values import default_text
from planner.resolution.reg_types import resolve_reg
from planner.statements import records as st
from planner.syntax.parse import split_and_parse
from planner.types.type_names import format_type
from planner.types.types import SqlType, type_of_column
from storage.catalog.model import CatalogSnapshot, Column, Sequence
from storage.catalog.temporary import FIRST_TEMPORARY_OID
from storage.off_loop import AT_ONCE_ROWS
from storage.shards.columns.widening import stored_as


class _Default(Struct, frozen=True, kw_only=True):
    """How a column that is not copied gets its values: a constant, a sequence, or an expression for each row."""

    type: SqlType
    value: Any = None
    sequence: Sequence | None = None
    expression: str | None = None


async def run_copy_in(running: Running, statement: st.Copy) -> CopyIn:
    """COPY table FROM STDIN, and what COPY from a file writes its rows with."""
    catalog = running.transaction.catalog
    relation, columns = copied_into(running, statement)
    running.given = {relation.oid: frozenset(column.attnum for column in columns)}
    format_ = copy_format(statement.options, [column.name for column in columns], relation)
    format_ = replace(format_, columns_named=bool(statement.columns))
    running.transaction.rely_on([relation])
    target = target_of(running, catalog, relation.oid)
    given = {column.attnum for column in columns}
    defaults = {
        column.attnum: await _default(running, catalog, column)
        for column in target.columns
        if column.attnum not in given
    }
    wanted = None
    if statement.where is not None:
        wanted, read = filtering_query(relation, statement.where, running.session.bind_context(catalog))
        if read:
            running.session.rights(catalog).require_columns(relation.oid, "r", read)
    marked: dict[int, _Default] = {}
    if statement.options.default is not None:
        with_default = [place for place, column in enumerate(columns) if _has_default(column)]
        format_ = replace(format_, with_default=tuple(with_default))
        marked = {place: await _default(running, catalog, columns[place]) for place in with_default}
    load = _Load(running, catalog, target, columns, defaults, wanted)
    load.marked = marked
    load.refusal = unfreezable(running, relation) if statement.options.freeze else None
    load.skipping = Skipping(running, relation.name, statement.options)
    load.progress = begin_progress(running, statement, relation)
    return CopyIn(
        relation_name=relation.name,
        columns=tuple(ColumnDescription(name=column.name, type=type_of_column(column)) for column in columns),
        format=format_,
        write=load.write,
        finish=load.finish,
        abort=load.abort,
        skip=load.skipping.skip if statement.options.ignores_errors else None,
        progress=load.progress,
        names=partial(resolve_reg, running.session.bind_context(catalog)),
    )


def _has_default(column: Column) -> bool:
    return column.sequence is not None or default_text(column) is not None


async def _default(running: Running, catalog: CatalogSnapshot, column: Column) -> _Default:
    type_ = type_of_column(column)
    if column.sequence is not None:
        return _Default(type=type_, sequence=find_sequence(running, column.sequence))
    text = default_text(column)
    if text is None:
        return _Default(type=type_)
    query = default_query(running, column)
    for node in walk(query):
        if isinstance(node, ir.Call) and node.signature.name == "nextval":
            known, name = constant_value(node.args[0], ())
            if known:
                return _Default(type=type_, sequence=find_sequence(running, name, to_number=True))
    if is_volatile(query):
        return _Default(type=type_, expression=text)
    (constant,) = await evaluate(running, catalog, query)
    return _Default(type=type_, value=constant)


class _Load:
    """One COPY in progress."""

    def __init__(
        self,
        running: Running,
        catalog: CatalogSnapshot,
        target: Target,
        columns: list[Column],
        defaults: dict[int, _Default],
        wanted: BoundQuery | None,
    ) -> None:
        self._running = running
        self._positions = {column.attnum: position for position, column in enumerate(columns)}
        self._defaults = defaults
        self._rows = 0
        self._begin(catalog, target)
        self.progress = CopyProgress()
        self._read = 0
        self.skipping: Skipping | None = None
        self.marked: dict[int, _Default] = {}
        """By place among the columns that are copied: what the mark for its default stands for."""
        self._wanted = wanted
        """Which rows are taken; None: all."""

        self.refusal: SqlError | None = None
        """Why there may be no rows; told when the client has begun to send them."""

    def _begin(self, catalog: CatalogSnapshot, target: Target) -> None:
        """What comes now goes into `target`, which is of `catalog`."""
        running = self._running
        self._first_row = self._rows
        self._catalog = catalog
        self._target = target
        self._txn = running.transaction.writable(running.services.env, target.shard)
        self._laid_out: LaidOutRows | None = None
        if target.layout is not None:
            self._txn.lay_out(target.shard, target.layout.partition)
            self._laid_out = LaidOutRows(self._txn, target.shard, target.layout)
        self._keys = None if target.keys is None else StatementKeys(running, target, target.keys)
        self._computing = computing_query(target.relation, running.session.bind_context(catalog))

    async def _let_hold_nan(self, batch: RecordBatch) -> None:
        """Have the columns that get NaN in `batch` held so, together with the rows that have come before."""
        attnums = [
            column.attnum
            for column, type_ in zip(self._target.columns, self._target.types, strict=True)
            if (position := self._positions.get(column.attnum)) is not None
            and pa.types.is_decimal(arrow_type(type_))
            and pa.types.is_string(batch.column(position).type)
        ]
        if attnums:
            await self._end()
            running = self._running
            await running.let_hold_nan(running, self._target.relation.oid, frozenset(attnums))
            catalog = running.transaction.catalog
            self._begin(catalog, target_of(running, catalog, self._target.relation.oid))

    async def _end(self) -> None:
        """What has come is in its table. Raises 23505 and 23P01."""
        if self._laid_out is not None:
            await self._laid_out.finish()
        if self._keys is None:
            return
        try:
            await self._keys.finish()
        except (UniqueViolation, ExclusionViolation) as error:
            if self._wanted is not None:
                error.row = None  # It is counted among those that were taken.
            elif error.row is not None:
                error.row += self._first_row
            raise

    async def write(self, batch: RecordBatch) -> None:
        """Add rows; returns when the buffer has room again."""
        if self.refusal is not None:
            raise self.refusal
        if not batch.num_rows:
            return
        await self._let_hold_nan(batch)
        arrays = []
        for column, type_ in zip(self._target.columns, self._target.types, strict=True):
            position = self._positions.get(column.attnum)
            if position is not None:
                arrays.append(await self._given(batch, position, type_))
            else:
                arrays.append(await self._default_array(self._defaults[column.attnum], type_, batch.num_rows))
        rows = pa.record_batch(arrays, names=self._target.names)
        before, places = self._read, None
        try:
            if self._wanted is not None:
                places = await self._satisfying(self._wanted, rows)
                rows = rows.take(places)
            self._read += batch.num_rows
            self.progress.tuples_processed += rows.num_rows
            self.progress.tuples_excluded += batch.num_rows - rows.num_rows
            if not rows.num_rows:
                return
            if self._computing is not None:
                rows = await computed_rows(self._running, self._computing, rows, f"generated{self._rows}")
            await check_rows(self._running, self._target, rows)
        except SqlError as error:
            row = 0 if error.row is None and rows.num_rows == 1 else error.row
            if row is not None:
                error.row = before + (row if places is None else places[row].as_py())
            raise
        if self._laid_out is not None:
            await self._laid_out.write(rows)
        else:
            self._txn.write(self._target.shard, rows)
        if self._keys is not None:
            self._keys.add(rows.columns)
        self._rows += rows.num_rows
        await self._txn.spill()
        if self._keys is not None and self._keys.unspilled > AT_ONCE_ROWS:
            await self._keys.spill()

    async def _given(self, batch: RecordBatch, position: int, type_: SqlType) -> Any:
        """A column that is copied, with its default where the mark for it stands."""
        values, mark = batch.column(position), f"default {position}"
        if pa.types.is_decimal(values.type):
            # What comes after a NaN is read as decimals still.
            values = stored_as(values, arrow_type(type_))
        if mark not in batch.schema.names:
            return values
        is_marked = batch.column(mark)
        rows = pc.sum(is_marked).as_py()
        default = await self._default_array(self.marked[position], type_, rows)
        return pc.replace_with_mask(values, is_marked, default)

    async def _satisfying(self, wanted: BoundQuery, rows: RecordBatch) -> Any:
        """The places of the rows that are taken."""
        stream: Any = over_rows(self._running, wanted, rows, f"where{self._read}")
        async with aclosing(stream) as batches:
            satisfied = [batch.column(0) async for batch in batches]
        return pc.indices_nonzero(pa.concat_arrays(satisfied))

    async def _default_array(self, default: _Default, type_: SqlType, rows: int) -> Any:
        physical = arrow_type(type_)
        if default.sequence is not None:
            numbers = await next_values(self._running, default.sequence, rows)
            return pa.array(numbers, pa.int64()).cast(physical)
        if default.expression is not None:
            return await self._computed(default, rows)
        if default.value is None:
            return pa.nulls(rows, physical)
        return pa.repeat(array_of(type_, [default.value])[0], rows)

    async def _computed(self, default: _Default, rows: int) -> Any:
        type_text = format_type(default.type.oid, default.type.typmod)
        text = f"SELECT CAST(({default.expression}) AS {type_text}) FROM pg_catalog.generate_series(1, {rows})"
        read = await prepare_plan(self._running, self._running.session.plan(split_and_parse(text)[0], self._catalog))
        stream: Any = read.stream()
        async with aclosing(stream) as batches:
            arrays = [batch.column(0) async for batch in batches]
        return pa.concat_arrays(arrays)

    async def finish(self) -> int:
        """All rows have come: their number. Raises 23505, 23P01 and 23503."""
        if self.refusal is not None:
            raise self.refusal
        await self._end()
        if self._keys is not None:
            await end_statement(self._running)
        if self.skipping is not None:
            self.skipping.finish()
        if self._rows and self._target.relation.oid < FIRST_TEMPORARY_OID:
            running = self._running
            running.services.activity.changed(running.session.database_oid, self._target.relation.oid, self._rows, 0, 0)
        return self._rows

    async def abort(self, reason: BaseException | None) -> None:
        """The client gave up or sent bad data; the transaction fails and drops what was written."""
