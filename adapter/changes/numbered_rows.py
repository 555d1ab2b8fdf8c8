"""Columns of new rows that sequences number.

The source of an INSERT leaves a column empty that is to be nextval(): its numbers are taken for each batch of rows at
once. What asks for currval() of that sequence in a later column, or for lastval(), means the row's own number, since
PostgreSQL computes the columns of a row one after another.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from adapter.changes.rows.over_rows import computed_rows
from adapter.execution.statement import Running
from adapter.plans.computed.constant_rows import constant_value
from adapter.plans.plan_cache import has_acting_calls
from adapter.queries.acting.sequences import find_sequence, next_values
from adapter.results import RecordBatch
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.rewrite import transform, walk
from planner.types.types import INT8, SqlType
from storage.catalog.model import Sequence


class NumberedRows:
    """The numbered columns of one INSERT."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._sequences: dict[int, Sequence] = {}
        """By place of the column."""
        self._following: dict[int, ir.Scalar] = {}
        """What other columns make of the numbers."""
        self._query: BoundQuery | None = None

    def without(self, source: BoundQuery) -> BoundQuery:
        """`source` without the columns that are numbered here; itself when there are none."""
        rel = source.rel
        if not isinstance(rel, ir.Project) or isinstance(rel.input, ir.OneRow):
            return source
        exprs = list(rel.exprs)
        for index, expr in enumerate(exprs):
            inner = expr.arg if isinstance(expr, ir.Cast) else expr
            sequence = self._sequence(inner, "nextval")
            if sequence is not None:
                self._sequences[index] = sequence
            elif self._sequences and (following := self._with_numbers(expr, rel.fields)) is not None:
                self._following[index] = following
            else:
                continue
            exprs[index] = ir.Literal(value=None, type=rel.fields[index].type)
        if not self._sequences:
            return source
        if self._following:
            self._query = self._computing(source, rel.fields)
        return replace(source, rel=replace(rel, exprs=tuple(exprs)))

    async def fill(self, rows: RecordBatch) -> RecordBatch:
        """`rows` with their numbers, and with what follows from them."""
        columns: list[Any] = rows.columns
        places: dict[int, list[int]] = {}
        for index, sequence in self._sequences.items():
            places.setdefault(sequence.oid, []).append(index)
        for own in places.values():
            # Row by row, where a sequence numbers several columns.
            values = await next_values(self._running, self._sequences[own[0]], rows.num_rows * len(own))
            for place, index in enumerate(own):
                numbers = pa.array(values[place :: len(own)], pa.int64())
                columns[index] = numbers.cast(rows.schema.field(index).type)
        rows = pa.record_batch(columns, names=rows.schema.names)
        return rows if self._query is None else await computed_rows(self._running, self._query, rows, "numbered")

    def _sequence(self, expr: ir.Scalar, function: str) -> Sequence | None:
        """The sequence that a call of `function` is for, if it says so with a constant."""
        if not isinstance(expr, ir.Call) or expr.signature.name != function:
            return None
        known, name = constant_value(expr.args[0], self._running.params)
        return find_sequence(self._running, name, to_number=function == "nextval") if known else None

    def _with_numbers(self, expr: ir.Scalar, fields: SequenceOf[ir.Field]) -> ir.Scalar | None:
        """`expr` over the numbers of its row, if it asks for them and for nothing else."""
        found = False

        def number(node: object) -> ir.Scalar | None:
            nonlocal found
            if not isinstance(node, ir.Call):
                return None
            places = [*self._sequences]
            if node.signature.name == "currval" and node.args:
                asked = self._sequence(node, "currval")
                places = [place for place in places if asked is not None and self._sequences[place].oid == asked.oid]
            elif node.signature.name != "lastval":
                return None
            if not places:
                return None
            found = True
            field = fields[places[-1]]
            return ir.Cast(arg=ir.ColumnRef(id=field.id, type=field.type), type=SqlType(INT8))

        if any(isinstance(node, (ir.ColumnRef, ir.ScalarSubquery)) for node in walk(expr)):
            return None
        following: ir.Scalar = transform(expr, number)
        return following if found and not has_acting_calls(following) else None

    def _computing(self, source: BoundQuery, fields: tuple[ir.Field, ...]) -> BoundQuery:
        """What computes the columns that follow from numbers."""
        above = 1 + max(field.id for field in fields)
        exprs = [ir.ColumnRef(id=field.id, type=field.type) for field in fields]
        rel = ir.Project(
            input=ir.CteScan(cte=ir.RETURNING_ROWS, fields=fields),
            exprs=tuple(self._following.get(place, expr) for place, expr in enumerate(exprs)),
            fields=tuple(replace(field, id=above + place) for place, field in enumerate(fields)),
        )
        return replace(source, rel=rel)
