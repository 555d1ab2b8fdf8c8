"""Rows that need no engine: constants to Arrow.

`SELECT 1`, `VALUES` and the source of an `INSERT ... VALUES` are bound to literals and parameters. Their rows are made
here, in microseconds; whatever needs computing goes to an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, cast

import pyarrow as pa

from adapter.results import RecordBatch
from planner.common_errors import NanNotHeld
from planner.ir import nodes as ir
from planner.ir.array_value import ArrayValue, items_of, not_ordinary
from planner.ir.bound import BoundQuery
from planner.ir.composite import Composite
from planner.ir.physical import arrow_type, element_type, listed
from planner.types import types as t
from planner.types.types import SqlType, is_wide
from planner.types.user_types import attributes
from planner.values.datetimes.calendar_days import days_of, micros_of
from planner.values.text_values import apply_typmod, format_numeric
from storage.bounded_map import BoundedMap
from storage.cache_memory import aging

_EXACT = Context(prec=100, rounding=ROUND_HALF_UP)
_STRINGS = frozenset({t.TEXT, t.VARCHAR, t.BPCHAR})
_AS_THEY_ARE = frozenset({t.BOOL, t.INT2, t.INT4, t.INT8, t.FLOAT4, t.FLOAT8, *_STRINGS})
"""Types whose values are the same in Python and in Arrow."""

_INTEGER_BOUNDS = {t.INT2: 2**15, t.INT4: 2**31, t.INT8: 2**63}

MAX_KEPT_ROWS = 512
"""Queries whose row is kept."""

MAX_KEPT_BYTES = 1024
"""A longer row carries data and rarely comes again."""


def constant_batch(rel: ir.Rel, params: Sequence[ir.Literal]) -> RecordBatch | None:
    """The rows of `rel` when it consists of literals and parameters only; None when an engine has to compute."""
    rows = _rows(rel, params)
    if rows is None:
        return None
    return batch_of([field.type for field in rel.fields], rows)


class ConstantRows:
    """`constant_batch` of queries, which keeps the row of one without parameters, such as ``SELECT 1``. Belongs to the
    event loop."""

    def __init__(self) -> None:
        self._kept: BoundedMap[int, tuple[BoundQuery, RecordBatch]] = aging(BoundedMap(max_entries=MAX_KEPT_ROWS))
        """By identity of the query, which an entry keeps alive."""

    def of(self, query: BoundQuery, params: Sequence[ir.Literal]) -> RecordBatch | None:
        """See `constant_batch`."""
        known = self._kept.get(id(query))
        if known is not None:
            return known[1]
        rows = constant_batch(query.rel, params)
        if rows is not None and not query.param_types and rows.num_rows == 1 and rows.nbytes <= MAX_KEPT_BYTES:
            self._kept.put(id(query), (query, rows))
        return rows


def batch_of(types: Sequence[SqlType], rows: Sequence[Sequence[Any]]) -> RecordBatch:
    """Rows of Python values (as in `ir.Literal`) as a record batch of the physical types; columns c1, c2, ..."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    names = [f"c{index + 1}" for index in range(len(types))]
    if not types:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    arrays = [array_of(type_, values) for type_, values in zip(types, columns, strict=True)]
    return pa.record_batch(arrays, names=names)


def array_of(type_: SqlType, values: Sequence[Any]) -> Any:
    """Python values (as in `ir.Literal`) as an Arrow array of the physical type."""
    physical = arrow_type(type_)
    if type_.oid == t.DATE:
        return pa.array([_days(value) for value in values], pa.int32()).view(physical)
    if type_.oid in (t.TIMESTAMP, t.TIMESTAMPTZ):
        return pa.array([_micros(value) for value in values], pa.int64()).view(physical)
    if type_.oid in _BY_BYTES:
        for value in values:
            if value is not None and len(value) > LONG_VALUE:
                return _in_pieces(values, physical)
    if type_.oid in _AS_THEY_ARE:
        return pa.array(values, physical)
    return pa.array([_physical(type_, value) for value in values], physical)


LONG_VALUE = 1 << 20
"""Characters or bytes. More of them are copied in pieces, on a thread: Python lets no other thread run during one call,
which takes a tenth of a second for 100 MB."""

_BY_BYTES = frozenset({*_STRINGS, t.BYTEA})


def has_length(type_: SqlType) -> bool:
    """Whether values are texts or bytes, which may be longer than `LONG_VALUE`."""
    return type_.oid in _BY_BYTES


def _in_pieces(values: Sequence[Any], physical: Any) -> Any:
    """Texts or bytes as an array, copied in pieces."""
    data, ends = bytearray(), [0]
    for value in values:
        for start in range(0, 0 if value is None else len(value), LONG_VALUE):
            piece = value[start : start + LONG_VALUE]
            data += piece.encode() if isinstance(piece, str) else piece
        ends.append(len(data))
    present = pa.array([None if value is None else True for value in values], pa.bool_())
    buffers = [present.buffers()[0], pa.array(ends, pa.int32()).buffers()[1], pa.py_buffer(data)]
    return pa.Array.from_buffers(physical, len(values), buffers, present.null_count)


def _physical(type_: SqlType, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, ir.Interval):
        return {"months": value.months, "days": value.days, "micros": value.micros}
    if isinstance(value, Composite):
        fields = attributes(type_.oid) or ()
        return {field.physical: _physical(field.type, item) for field, item in zip(fields, value.items, strict=True)}
    if type_.dimensioned:
        dims = value.dims if isinstance(value, ArrayValue) else None
        return {"items": _physical(listed(type_), list(items_of(value))), "dims": dims}
    if isinstance(value, ArrayValue):
        raise not_ordinary()
    if isinstance(value, (tuple, list)):
        element = element_type(type_)
        if element is None:
            return value
        if element.oid in _AS_THEY_ARE and element_type(element) is None:
            return value
        if element.oid == t.DATE:
            return [_days(item) for item in value]
        if element.oid in (t.TIMESTAMP, t.TIMESTAMPTZ):
            return [_micros(item) for item in value]
        return [_physical(element, item) for item in value]
    if type_.oid == t.NUMERIC and isinstance(value, str) and not is_wide(type_):
        value = Decimal(value)  # Of a wide numeric.
    if type_.oid == t.NUMERIC and isinstance(value, (Decimal, int)):
        if is_wide(type_):
            return format_numeric(Decimal(value))
        scale = arrow_type(type_).scale
        number = Decimal(value)
        if not number.is_finite():
            raise NanNotHeld
        return number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    return value


def _days(value: Any) -> int | None:
    if value is None or isinstance(value, int):
        return value
    return days_of(value)


def _micros(value: Any) -> int | None:
    if value is None or isinstance(value, int):
        return value
    return micros_of(value)


def plain_time(value: Any, type_: SqlType) -> Any:
    """A value of the type as a number, if it is a date or a timestamp: its days or its microseconds since 1970, with
    infinity at either end. Any other value as it is."""
    if type_.oid == t.DATE:
        return _days(value)
    return _micros(value) if type_.oid in (t.TIMESTAMP, t.TIMESTAMPTZ) else value


def _rows(rel: ir.Rel, params: Sequence[ir.Literal]) -> list[list[Any]] | None:
    match rel:
        case ir.OneRow():
            return [[]]
        case ir.Values():
            rows = []
            for row in rel.rows:
                values = _evaluate(row, {}, params)
                if values is None:
                    return None
                rows.append(values)
            return rows
        case ir.Project(input=ir.OneRow() | ir.Values() | ir.Project()):
            below = _rows(rel.input, params)
            if below is None:
                return None
            rows = []
            for known_row in below:
                known = {field.id: value for field, value in zip(rel.input.fields, known_row, strict=True)}
                values = _evaluate(rel.exprs, known, params)
                if values is None:
                    return None
                rows.append(values)
            return rows
        case _:
            return None


class NeedsEngine(Exception):
    """An engine has to compute the value."""


def _evaluate(exprs: Sequence[ir.Scalar], columns: dict[int, Any], params: Sequence[ir.Literal]) -> list[Any] | None:
    try:
        return [_scalar(expr, columns, params) for expr in exprs]
    except NeedsEngine:
        return None


def _scalar(expr: ir.Scalar, columns: dict[int, Any], params: Sequence[ir.Literal]) -> Any:
    if isinstance(expr, ir.Literal):
        return expr.value
    if isinstance(expr, ir.Param):
        return params[expr.index - 1].value
    if isinstance(expr, ir.ColumnRef) and expr.id in columns:
        return columns[expr.id]
    if isinstance(expr, ir.Collate):
        return _scalar(expr.arg, columns, params)
    if isinstance(expr, ir.Cast):
        return cast_value(expr, _scalar(expr.arg, columns, params))
    raise NeedsEngine


def cast_value(expr: ir.Cast, value: Any) -> Any:
    """`value`, which is that of the cast's argument, as its type: casts whose result needs no computing, with the type
    modifier applied. Raises NeedsEngine for the rest."""
    source, target = expr.arg.type, expr.type
    if value is None:
        return None
    if target.oid in _INTEGER_BOUNDS and isinstance(value, int) and not isinstance(value, bool):
        bound = _INTEGER_BOUNDS[target.oid]
        if -bound <= value < bound:
            return value
    elif target.oid == t.FLOAT8 and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**53:
        return float(value)
    elif target.oid in _STRINGS and source.oid in _STRINGS and isinstance(value, str):
        plain = value.rstrip(" ") if source.oid == t.BPCHAR and target.oid != t.BPCHAR else value
        return apply_typmod(plain, target, explicit=expr.explicit)
    elif target.oid == t.NUMERIC and isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return _numeric(Decimal(value), target, explicit=expr.explicit)
    elif source.oid == target.oid and target.typmod in (-1, source.typmod):
        return value
    raise NeedsEngine


def _numeric(number: Decimal, target: SqlType, *, explicit: bool) -> Decimal:
    shape = target.shape
    if target.typmod != -1:
        number = cast(Decimal, apply_typmod(number, target, explicit=explicit))
    if is_wide(target):
        return number
    if shape is None or not number.is_finite():
        raise NeedsEngine
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and -exponent <= shape.scale and number.adjusted() < shape.precision - shape.scale:
        return number
    raise NeedsEngine


def constant_value(expr: ir.Scalar, params: Sequence[ir.Literal]) -> tuple[bool, Any]:
    """Whether `expr` is a constant that needs no engine, and its value."""
    try:
        return True, _scalar(expr, {}, params)
    except NeedsEngine:
        return False, None
