"""Conditions over a record batch that need no engine: what compares columns with constants and with each other.

Arrow evaluates ``a > 0 AND b IN ('x', 'y')`` in some microseconds, for one row as for thousands; to reach an engine
takes a hundred times that. Only what means the same to Arrow and to PostgreSQL is taken, and nothing that can fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from adapter.plans.computed.constant_rows import array_of
from adapter.results import RecordBatch
from planner.ir import nodes as ir
from planner.ir.physical import arrow_type, element_type
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
SEVERAL = 4
"""So many constants are looked for at once rather than one by one."""

_LENGTHS = frozenset({"length", "char_length", "character_length"})

_NEW_CAPITALS = (
    "\u1c89\ua7cb\ua7cc\ua7ce\ua7d2\ua7d4\ua7da\ua7dc\ua7dd\ua7e2\uab6c\uab6d\U00010d50-\U00010d65\U00016ea0-\U00016eb8"
    "\U0001df40\U0001df48\U0001df4a\U0001df4d\U0001df51\U0001df68\U0001df6a\U0001df6c\U0001df6e\U0001df72\U0001df74"
    "\U0001df76\U0001df78\U0001df7a\U0001df7c\U0001df7e"
)
_NEW_SMALL = (
    "\xdf\u019b\u0264\u0277\u027c\u1c8a\u1f80-\u1f87\u1f90-\u1f97\u1fa0-\u1fa7\u1fb3\u1fc3\u1ff3\ua7cd\ua7cf\ua7d3\ua7d5\ua7db"
    "\uab4b\uab4c\U00010d70-\U00010d85\U00016ebb-\U00016ed3\U0001df41\U0001df49\U0001df4b\U0001df4e\U0001df52\U0001df69"
    "\U0001df6b\U0001df6d\U0001df6f\U0001df73\U0001df75\U0001df77\U0001df79\U0001df7b\U0001df7d\U0001df7f"
)


def _cased(mapped: Callable[[Any], Any], kept: str) -> Callable[[Any], Any]:
    """What changes the case of texts as PostgreSQL and the engines do: by `mapped`, but for letters of the class
    `kept`, which stay: Arrow knows a newer Unicode, or another rule."""
    pieces = re.compile(f"([{kept}])")

    def one(text: str | None) -> str | None:
        if text is None or pieces.search(text) is None:
            return text if text is None else str(mapped(text))
        parts = pieces.split(text)
        return "".join([part if place % 2 else str(mapped(part)) for place, part in enumerate(parts)])

    def cased(values: Any) -> Any:
        if isinstance(values, pa.Scalar):
            return pa.scalar(one(values.as_py()), pa.string())
        if not pc.any(pc.match_substring_regex(values, f"[{kept}]")).as_py():
            return mapped(values)
        return pa.array([one(text) for text in values.to_pylist()], pa.string())

    return cased


lower_case = _cased(pc.utf8_lower, _NEW_CAPITALS)
"""Texts in lower case."""

_OF_TEXT: Mapping[str, Callable[[Any], Any]] = {
    "lower": lower_case,
    "upper": _cased(pc.utf8_upper, _NEW_SMALL),
}
"""What gives a text for a text."""


def vector_of(scalar: ir.Scalar, columns: Mapping[int, int], params: Sequence[ir.Literal] = ()) -> Vector | None:
    """What computes `scalar` from a batch whose column `columns[id]` is the field `id`; None when an engine has to.
    `params`: the values of parameters."""
    match scalar:
        case ir.ColumnRef():
            place = columns.get(scalar.id)
            return None if place is None else lambda batch: batch.column(place)
        case ir.Param() if scalar.index <= len(params):
            return vector_of(params[scalar.index - 1], columns)
        case ir.Literal():
            constant = array_of(scalar.type, [scalar.value])[0]
            return lambda batch: constant
        case ir.Collate():
            return vector_of(scalar.arg, columns, params)
        case ir.Cast():
            return _cast(scalar, columns, params)
        case ir.IsNull():
            return _null_test(scalar, columns, params)
        case ir.BoolOp():
            return _boolean(scalar, columns, params)
        case ir.InList():
            return _in_list(scalar.arg, scalar.items, columns, params, negated=scalar.negated)
        case ir.QuantifiedArray(quantifier="any") if scalar.operator.name == "=":
            return _any_element(scalar.arg, _known(scalar.array, params), columns, params)
        case ir.Call(args=(left, right)) if scalar.signature.name in _COMPARE:
            return _comparison(scalar.signature.name, _known(left, params), _known(right, params), columns, params)
        case ir.Call(args=(arg, pattern)) if scalar.signature.name == "~~" and arg.type.oid in _STRINGS:
            return _prefix(arg, _known(pattern, params), columns, params)
        case ir.Call(args=(arg,)) if scalar.signature.name in _LENGTHS and arg.type.oid in _STRINGS:
            inner = vector_of(arg, columns, params)
            return None if inner is None else lambda batch: pc.utf8_length(inner(batch))
        case ir.Call(args=(arg,)) if scalar.signature.name in _OF_TEXT and arg.type.oid in _STRINGS:
            text, of_text = vector_of(arg, columns, params), _OF_TEXT[scalar.signature.name]
            return None if text is None else lambda batch: of_text(text(batch))
        case _:
            return None


def _null_test(node: ir.IsNull, columns: Mapping[int, int], params: Sequence[ir.Literal]) -> Vector | None:
    arg = vector_of(node.arg, columns, params)
    if arg is None:
        return None
    test, vector = pc.is_valid if node.negated else pc.is_null, arg
    return lambda batch: test(vector(batch))


def _cast(cast: ir.Cast, columns: Mapping[int, int], params: Sequence[ir.Literal]) -> Vector | None:
    """Casts that change no value."""
    source, target = cast.arg.type, cast.type
    arg = vector_of(cast.arg, columns, params)
    if arg is None or target.typmod not in (-1, source.typmod):
        return None
    if source.oid in _STRINGS and target.oid in _STRINGS:
        return arg
    if source.oid in _INTEGERS and target.oid in _INTEGERS and source.oid != t.INT8 and target.oid != t.INT2:
        wider = arrow_type(target)
        return lambda batch: pc.cast(arg(batch), wider)
    return None


def _prefix(
    arg: ir.Scalar, pattern: ir.Scalar, columns: Mapping[int, int], params: Sequence[ir.Literal]
) -> Vector | None:
    """LIKE with a pattern that is a text and then ``%``."""
    value = pattern.value if isinstance(pattern, ir.Literal) else None
    if not isinstance(value, str) or not value.endswith("%") or any(sign in value[:-1] for sign in "%_\\"):
        return None
    inner = vector_of(arg, columns, params)
    return None if inner is None else lambda batch: pc.starts_with(inner(batch), value[:-1])


def _boolean(node: ir.BoolOp, columns: Mapping[int, int], params: Sequence[ir.Literal]) -> Vector | None:
    args = [vector_of(arg, columns, params) for arg in node.args]
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


def _any_element(
    arg: ir.Scalar, array: ir.Scalar, columns: Mapping[int, int], params: Sequence[ir.Literal]
) -> Vector | None:
    """``arg = ANY (array)``, of an array that is no NULL and has one dimension."""
    if isinstance(array, ir.ArrayConstructor):
        return _in_list(arg, array.items, columns, params)
    element = element_type(array.type)
    if not isinstance(array, ir.Literal) or not isinstance(array.value, tuple) or element is None:
        return None
    if tuple in set(map(type, array.value)):
        return None
    if len(array.value) < SEVERAL:
        items = [ir.Literal(value=value, type=element) for value in array.value]
        return _in_list(arg, items, columns, params)
    return _among(arg, array.value, ir.Literal(value=None, type=element), columns, params)


def _in_list(
    arg: ir.Scalar,
    items: Sequence[ir.Scalar],
    columns: Mapping[int, int],
    params: Sequence[ir.Literal],
    *,
    negated: bool = False,
) -> Vector | None:
    known = [_known(item, params) for item in items]
    found: Vector | None = None
    literals = [item for item in known if isinstance(item, ir.Literal)]
    if len(literals) == len(known) >= SEVERAL and all(_alike(arg, item) for item in literals):
        found = _among(arg, [item.value for item in literals], literals[0], columns, params)
    if found is None:
        equal = [_comparison("=", arg, item, columns, params) for item in known]
        if None in equal or not equal:
            return None
        first, *rest = [test for test in equal if test is not None]

        def any_equal(batch: RecordBatch) -> Any:
            result = first(batch)
            for test in rest:
                result = pc.or_kleene(result, test(batch))
            return result

        found = any_equal
    vector = found
    return (lambda batch: pc.invert(vector(batch))) if negated else vector


def _among(
    arg: ir.Scalar, items: Sequence[Any], one: ir.Literal, columns: Mapping[int, int], params: Sequence[ir.Literal]
) -> Vector | None:
    """Whether a column has one of the values `items`, of the type of `one`, all at once: for types whose values Arrow
    compares as they are."""
    oid = arg.type.oid
    if isinstance(arg, ir.Literal) or oid not in _INTEGERS | _STRINGS | _THEMSELVES - {t.NUMERIC}:
        return None
    if not _alike(arg, one):
        return None
    column = vector_of(arg, columns, params)
    if column is None:
        return None
    values = [value for value in items if value is not None]
    type_ = SqlType(t.INT8) if oid in _INTEGERS else arg.type
    wanted, physical = array_of(type_, values), arrow_type(type_)
    some_null = len(values) < len(items)

    def among(batch: RecordBatch) -> Any:
        held = pc.cast(column(batch), physical)
        result = pc.if_else(pc.is_valid(held), pc.is_in(held, value_set=wanted), None)
        # What equals none of the others may equal the NULL, for all that is known.
        return pc.if_else(result, result, None) if some_null else result

    return among


def _known(scalar: ir.Scalar, params: Sequence[ir.Literal]) -> ir.Scalar:
    """The value of a parameter."""
    return params[scalar.index - 1] if isinstance(scalar, ir.Param) and scalar.index <= len(params) else scalar


def _comparison(
    op: str, left: ir.Scalar, right: ir.Scalar, columns: Mapping[int, int], params: Sequence[ir.Literal]
) -> Vector | None:
    types = _alike(left, right)
    if types is None:
        return None
    a, b = _operand(left, types[0], columns, params), _operand(right, types[1], columns, params)
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
    if one.oid == t.NUMERIC and (t.is_wide(one) or t.is_wide(other)):
        return None
    if one.oid == t.NUMERIC and one.shape != other.shape:
        # A constant is compared in the column's shape.
        if isinstance(right, ir.Literal) and not isinstance(left, ir.Literal):
            return one, one
        if isinstance(left, ir.Literal) and not isinstance(right, ir.Literal):
            return other, other
        return None
    return one, other


def _operand(
    scalar: ir.Scalar, type_: SqlType, columns: Mapping[int, int], params: Sequence[ir.Literal]
) -> Vector | None:
    if not isinstance(scalar, ir.Literal):
        return vector_of(scalar, columns, params)
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
