"""Queries over rows at hand that need no engine: conditions, and what the columns of the result are.

``SELECT a, b + 1 FROM t WHERE id = $1 AND c > 0`` over the few rows that an index has found takes Arrow some
microseconds; an engine would spend a hundred times that on getting to the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from adapter.plans.arrow_conditions import Vector, vector_of
from adapter.plans.computed.constant_rows import array_of, constant_value
from adapter.results import RecordBatch
from planner.ir import nodes as ir
from planner.ir.physical import arrow_type
from planner.types import types as t
from storage.shards.parts import ROW_ID

_INTEGERS = frozenset({t.INT2, t.INT4, t.INT8})
_ORDERED = _INTEGERS | {t.TEXT, t.VARCHAR, t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ, t.NUMERIC}
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}

MAX_CONSTANT_LENGTH = 1_000
"""A longer constant is not repeated for every row here: an engine holds it once."""


Step: TypeAlias = Callable[[RecordBatch], RecordBatch]


class RowQuery(Struct, frozen=True, kw_only=True):
    """A query over rows of one table, as steps from batch to batch."""

    steps: tuple[Step, ...]

    def answer(self, rows: RecordBatch) -> RecordBatch | None:
        """The answer over `rows`, under any names; None when a value is out of range: the engine says that better."""
        try:
            for step in self.steps:
                rows = step(rows)
        except pa.ArrowInvalid:
            return None
        return rows


def row_query(
    rel: ir.Rel, params: Sequence[ir.Literal], schema: pa.Schema, *, ordered: bool = False
) -> RowQuery | None:
    """`rel` with its parameters as such a query over rows of `schema` (of ``_row_id`` and ``c<attnum>``); None when it
    needs an engine. `ordered`: the rows are in the order that it asks for."""
    made = _steps(rel, params, schema, ordered)
    return None if made is None else RowQuery(steps=tuple(made[0]))


def filter_of(
    conditions: Sequence[ir.Scalar], scan: ir.Scan, params: Sequence[ir.Literal], schema: pa.Schema
) -> Step | None:
    """What leaves of rows of `schema` those that meet all `conditions`; None when it takes an engine to tell."""
    places = _places(scan, schema)
    tests = [vector_of(condition, places, params) for condition in conditions]
    if None in tests:
        return None
    met = [test for test in tests if test is not None]

    def filtered(rows: RecordBatch) -> RecordBatch:
        for test in met:
            rows = _filtered(rows, test(rows))
        return rows

    return filtered


def _filtered(rows: RecordBatch, met: Any) -> RecordBatch:
    if isinstance(met, pa.Scalar):
        return rows if met.as_py() else rows.slice(0, 0)
    return rows.filter(met)


def _places(scan: ir.Scan, schema: pa.Schema) -> dict[int, int]:
    """Where the scan's columns are; what only an index has is nowhere."""
    names = {field.id: ROW_ID if field.origin is None else f"c{field.origin.attnum}" for field in scan.fields}
    return {id_: place for id_, name in names.items() if (place := schema.get_field_index(name)) >= 0}


def _steps(
    rel: ir.Rel, params: Sequence[ir.Literal], schema: pa.Schema, ordered: bool
) -> tuple[list[Step], dict[int, int]] | None:
    """The steps to the rows of `rel`, and where its fields are in them."""
    if isinstance(rel, ir.Scan):
        return [], _places(rel, schema)
    if not isinstance(rel, (ir.Project, ir.Filter, ir.Limit, ir.Sort, ir.Aggregate)):
        return None
    below = _steps(rel.input, params, schema, ordered)
    if below is None:
        return None
    steps, places = below
    match rel:
        case ir.Filter():
            condition = vector_of(rel.condition, places, params)
            if condition is None:
                return None
            test = condition
            return [*steps, lambda rows: _filtered(rows, test(rows))], places
        case ir.Sort() if ordered and _is_of_rows(rel.input):
            return steps, places
        case ir.Limit(input=ir.Sort()) if not rel.ties:
            cut = _cut(rel, params)
            return None if cut is None else ([*steps, cut], places)
        case ir.Project():
            return _projected(rel, steps, places, params)
        case ir.Aggregate():
            return _aggregated(rel, steps, places)
        case _:
            return None


def _cut(limit: ir.Limit, params: Sequence[ir.Literal]) -> Step | None:
    bounds = []
    for expr in (limit.offset, limit.count):
        is_known, value = (True, None) if expr is None else constant_value(expr, params)
        if not is_known or (value or 0) < 0:
            return None
        bounds.append(value)
    offset, count = bounds
    return lambda rows: rows.slice(offset or 0, count)


def _projected(
    project: ir.Project, steps: list[Step], places: Mapping[int, int], params: Sequence[ir.Literal]
) -> tuple[list[Step], dict[int, int]] | None:
    outputs = [_value_of(expr, places, params) for expr in project.exprs]
    if None in outputs:
        return None
    vectors = [output for output in outputs if output is not None]
    types = [arrow_type(expr.type) for expr in project.exprs]
    names = [f"c{number}" for number in range(len(types))]

    def projected(rows: RecordBatch) -> RecordBatch:
        if not names:
            return rows.select([])
        count = rows.num_rows
        arrays = [_column(vector(rows), count, type_) for vector, type_ in zip(vectors, types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    return [*steps, projected], {field.id: place for place, field in enumerate(project.fields)}


def _is_of_rows(rel: ir.Rel) -> bool:
    """Whether `rel` has rows of the table and nothing of what has been made of them."""
    while isinstance(rel, (ir.Project, ir.Filter)):
        rel = rel.input
    return isinstance(rel, ir.Scan)


def _aggregated(
    aggregate: ir.Aggregate, steps: list[Step], places: Mapping[int, int]
) -> tuple[list[Step], dict[int, int]] | None:
    """min() and max() of types that Arrow orders as PostgreSQL does, and count(), of all rows together."""
    if aggregate.keys or aggregate.grouping_sets is not None or aggregate.groupings:
        return None
    calls = [_aggregate_of(call, places) for call in aggregate.calls]
    if None in calls:
        return None
    computed = [call for call in calls if call is not None]
    names = [f"c{number}" for number in range(len(computed))]

    def aggregated(rows: RecordBatch) -> RecordBatch:
        return pa.RecordBatch.from_arrays([call(rows) for call in computed], names=names)

    return [*steps, aggregated], {field.id: place for place, field in enumerate(aggregate.fields)}


def _aggregate_of(call: ir.AggregateCall, places: Mapping[int, int]) -> Vector | None:
    """An array of the one value of `call`."""
    if call.filter is not None or call.distinct:
        return None
    name, type_ = call.signature.name, arrow_type(call.type)
    if name == "count" and not call.args:
        return lambda rows: pa.array([rows.num_rows], type_)
    if len(call.args) != 1 or not isinstance(call.args[0], ir.ColumnRef) or call.args[0].id not in places:
        return None
    place = places[call.args[0].id]
    if name == "count":
        return lambda rows: pa.array([rows.num_rows - rows.column(place).null_count], type_)
    if name not in ("min", "max") or call.args[0].type.oid not in _ORDERED or t.is_wide(call.args[0].type):
        return None
    return lambda rows: pa.repeat(pc.min_max(rows.column(place))[name], 1).cast(type_)


def _column(value: Any, rows: int, type_: pa.DataType) -> pa.Array:
    array = pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value
    return array if array.type == type_ else array.cast(type_)


def _value_of(expr: ir.Scalar, places: Mapping[int, int], params: Sequence[ir.Literal]) -> Vector | None:
    """What computes `expr`; it may raise ArrowInvalid for a value that is out of range."""
    if isinstance(expr, ir.ColumnRef):
        return vector_of(expr, places)
    if isinstance(expr, ir.Param) and expr.index > len(params):
        return None
    is_constant, value = constant_value(expr, params)
    if is_constant:
        if isinstance(value, (str, bytes)) and len(value) > MAX_CONSTANT_LENGTH:
            return None
        constant = array_of(expr.type, [value])[0]
        return lambda batch: constant
    if isinstance(expr, ir.Call) and expr.signature.name in _ARITHMETIC and len(expr.args) == 2:
        return _arithmetic(expr, places, params)
    return vector_of(expr, places, params) if expr.type.oid == t.BOOL else None


def _arithmetic(expr: ir.Call, places: Mapping[int, int], params: Sequence[ir.Literal]) -> Vector | None:
    if not all(part.type.oid in _INTEGERS for part in (expr, *expr.args)):
        return None
    left, right = [_value_of(arg, places, params) for arg in expr.args]
    if left is None or right is None:
        return None
    a, b, compute, type_ = left, right, _ARITHMETIC[expr.signature.name], arrow_type(expr.type)
    return lambda batch: pc.cast(compute(pc.cast(a(batch), type_), pc.cast(b(batch), type_)), type_)
