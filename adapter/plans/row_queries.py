"""Queries over rows at hand that need no engine: conditions, and what the columns of the result are.

``SELECT a, b + 1 FROM t WHERE id = $1 AND c > 0`` over the few rows that an index has found takes Arrow some
microseconds; an engine would spend a hundred times that on getting to the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from adapter.plans.arrow_conditions import Vector, vector_of
from adapter.plans.constant_rows import array_of, constant_value
from adapter.results import RecordBatch
from planner.ir import nodes as ir
from planner.ir.physical import arrow_type
from planner.types import types as t
from storage.shards.parts import ROW_ID

_INTEGERS = frozenset({t.INT2, t.INT4, t.INT8})
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}

MAX_CONSTANT_LENGTH = 1_000
"""A longer constant is not repeated for every row here: an engine holds it once."""


class RowQuery(Struct, frozen=True, kw_only=True):
    """A query that picks rows of one table by `conditions` and computes `outputs` of them."""

    conditions: tuple[Vector, ...]
    outputs: tuple[Vector, ...]
    types: tuple[pa.DataType, ...]

    def answer(self, rows: RecordBatch) -> RecordBatch | None:
        """The answer over `rows`, in their order, under any names; None when a value is out of range: the engine says
        that better."""
        try:
            for condition in self.conditions:
                met = condition(rows)
                if isinstance(met, pa.Scalar):
                    rows = rows if met.as_py() else rows.slice(0, 0)
                else:
                    rows = rows.filter(met)
            arrays = [
                _column(output(rows), rows.num_rows, type_)
                for output, type_ in zip(self.outputs, self.types, strict=True)
            ]
        except pa.ArrowInvalid:
            return None
        if not arrays:
            return rows.select([])
        return pa.RecordBatch.from_arrays(arrays, names=[f"c{number}" for number in range(len(arrays))])


def _column(value: Any, rows: int, type_: pa.DataType) -> pa.Array:
    array = pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value
    return array if array.type == type_ else array.cast(type_)


def row_query(rel: ir.Rel, params: Sequence[ir.Literal], schema: pa.Schema) -> RowQuery | None:
    """`rel` with its parameters as such a query over rows of `schema` (of ``_row_id`` and ``c<attnum>``); None when it
    needs an engine."""
    outer: list[ir.Scalar] = [ir.ColumnRef(id=field.id, type=field.type) for field in rel.fields]
    conditions: list[ir.Scalar] = []
    if isinstance(rel, ir.Project):
        outer, rel = list(rel.exprs), rel.input
    while isinstance(rel, ir.Filter):
        conditions.append(rel.condition)
        rel = rel.input
    if not isinstance(rel, ir.Scan):
        return None
    places = {
        field.id: schema.get_field_index(ROW_ID if field.origin is None else f"c{field.origin.attnum}")
        for field in rel.fields
    }
    tests = [vector_of(condition, places, params) for condition in reversed(conditions)]
    outputs = [_value_of(expr, places, params) for expr in outer]
    if None in tests or None in outputs:
        return None
    return RowQuery(
        conditions=tuple([test for test in tests if test is not None]),
        outputs=tuple([output for output in outputs if output is not None]),
        types=tuple([arrow_type(expr.type) for expr in outer]),
    )


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
