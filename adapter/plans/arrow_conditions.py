"""Conditions over a record batch that need no engine: what compares columns with constants and with each other.

Arrow evaluates ``a > 0 AND b IN ('x', 'y')`` in some microseconds, for one row as for thousands; to reach an engine
takes a hundred times that. Only what means the same to Arrow and to PostgreSQL is taken, and nothing that can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from adapter.plans.constant_rows import array_of
from adapter.results import RecordBatch
from planner.ir import nodes as ir
from planner.ir.physical import arrow_type
from planner.types import types as t
from planner.types.types import SqlType

Vector: TypeAlias = Callable[[RecordBatch], Any]
"""From a batch to an array of one value for each of its rows, or to a scalar that stands for all of them."""

_INTEGERS = frozenset({t.INT2, t.INT4, t.INT8})
_STRINGS = frozenset({t.TEXT, t.VARCHAR})
_FLOATS = frozenset({t.FLOAT4, t.FLOAT8})
_THEMSELVES = frozenset({t.BOOL, t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ, t.UUID, t.NUMERIC})
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_LENGTHS = frozenset({"length", "char_length", "character_length"})


def vector_of(scalar: ir.Scalar, columns: Mapping[int, int]) -> Vector | None:
    """What computes `scalar` from a batch whose column `columns[id]` is the field `id`; None when an engine has to."""
    match scalar:
        case ir.ColumnRef():
            place = columns[scalar.id]
            return lambda batch: batch.column(place)
        case ir.Literal():
            constant = array_of(scalar.type, [scalar.value])[0]
            return lambda batch: constant
        case ir.Collate():
            return vector_of(scalar.arg, columns)
        case ir.Cast():
            return _cast(scalar, columns)
        case ir.IsNull():
            return _null_test(scalar, columns)
        case ir.BoolOp():
            return _boolean(scalar, columns)
        case ir.InList():
            return _in_list(scalar, columns)
        case ir.Call(args=(left, right)) if scalar.signature.name in _COMPARE:
            return _comparison(scalar.signature.name, left, right, columns)
        case ir.Call(args=(arg,)) if scalar.signature.name in _LENGTHS and arg.type.oid in _STRINGS:
            inner = vector_of(arg, columns)
            return None if inner is None else lambda batch: pc.utf8_length(inner(batch))
        case _:
            return None


def _null_test(node: ir.IsNull, columns: Mapping[int, int]) -> Vector | None:
    arg = vector_of(node.arg, columns)
    if arg is None:
        return None
    test, vector = pc.is_valid if node.negated else pc.is_null, arg
    return lambda batch: test(vector(batch))


def _cast(cast: ir.Cast, columns: Mapping[int, int]) -> Vector | None:
    """Casts that change no value."""
    source, target = cast.arg.type, cast.type
    arg = vector_of(cast.arg, columns)
    if arg is None or target.typmod not in (-1, source.typmod):
        return None
    if source.oid in _STRINGS and target.oid in _STRINGS:
        return arg
    if source.oid in _INTEGERS and target.oid in _INTEGERS and source.oid != t.INT8 and target.oid != t.INT2:
        wider = arrow_type(target)
        return lambda batch: pc.cast(arg(batch), wider)
    return None


def _boolean(node: ir.BoolOp, columns: Mapping[int, int]) -> Vector | None:
    args = [vector_of(arg, columns) for arg in node.args]
    if None in args:
        return None
    first, *rest = [arg for arg in args if arg is not None]
    if node.op == "not":
        return lambda batch: pc.invert(first(batch))
    combine = pc.and_kleene if node.op == "and" else pc.or_kleene

    def combined(batch: RecordBatch) -> Any:
        result = first(batch)
        for arg in rest:
            result = combine(result, arg(batch))
        return result

    return combined


def _in_list(node: ir.InList, columns: Mapping[int, int]) -> Vector | None:
    equal = [_comparison("=", node.arg, item, columns) for item in node.items]
    if None in equal:
        return None
    first, *rest = [test for test in equal if test is not None]

    def any_equal(batch: RecordBatch) -> Any:
        result = first(batch)
        for test in rest:
            result = pc.or_kleene(result, test(batch))
        return pc.invert(result) if node.negated else result

    return any_equal


def _comparison(op: str, left: ir.Scalar, right: ir.Scalar, columns: Mapping[int, int]) -> Vector | None:
    types = _alike(left, right)
    if types is None:
        return None
    a, b = _operand(left, types[0], columns), _operand(right, types[1], columns)
    if a is None or b is None:
        return None
    compare = _COMPARE[op]
    if left.type.oid not in _FLOATS:
        return lambda batch: compare(a(batch), b(batch))
    # A NaN equals itself and is greater than any number; to Arrow it is neither. Constants here are numbers.
    if isinstance(left, ir.Literal) == isinstance(right, ir.Literal):
        return None
    column, holds = (b, op in ("<>", "<", "<=")) if isinstance(left, ir.Literal) else (a, op in ("<>", ">", ">="))

    def compared(batch: RecordBatch) -> Any:
        result = compare(a(batch), b(batch))
        return pc.or_(result, pc.is_nan(column(batch))) if holds else result

    return compared


def _alike(left: ir.Scalar, right: ir.Scalar) -> tuple[SqlType, SqlType] | None:
    """The types in which Arrow compares the two as PostgreSQL does; None when it does not."""
    one, other = left.type, right.type
    if one.oid in _INTEGERS and other.oid in _INTEGERS:
        return one, other
    if one.oid in _STRINGS and other.oid in _STRINGS:
        return one, other
    if one.oid != other.oid or one.oid not in _THEMSELVES | _FLOATS:
        return None
    if one.oid == t.NUMERIC and one.shape != other.shape:
        # A constant is compared in the column's shape.
        if isinstance(right, ir.Literal) and not isinstance(left, ir.Literal):
            return one, one
        if isinstance(left, ir.Literal) and not isinstance(right, ir.Literal):
            return other, other
        return None
    return one, other


def _operand(scalar: ir.Scalar, type_: SqlType, columns: Mapping[int, int]) -> Vector | None:
    if not isinstance(scalar, ir.Literal):
        return vector_of(scalar, columns)
    value = scalar.value
    if isinstance(value, float) and value != value:
        return None
    if type_.oid == t.NUMERIC and value is not None and not _fits(value, type_):
        return None
    constant = array_of(type_, [value])[0]
    return lambda batch: constant


def _fits(value: object, type_: SqlType) -> bool:
    """Whether a column of this numeric type can hold exactly `value`."""
    shape = type_.shape
    if shape is None or not isinstance(value, (int, Decimal)):
        return False
    number = Decimal(value)
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and -exponent <= shape.scale and number.adjusted() < shape.precision - shape.scale


def false_rows(result: Any, rows: int) -> Any | None:
    """The result of a condition over `rows` rows as an array, when it is false for one of them; else None."""
    if isinstance(result, pa.Scalar):
        return pa.repeat(result, rows) if result.as_py() is False else None
    return result if result.false_count else None
