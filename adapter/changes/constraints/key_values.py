"""Keys of one table as values of another's columns: a foreign key's columns may have unlike types.

PostgreSQL compares them by the operator of both types, or of the referred-to one (ATAddForeignKeyConstraint). Keys are
looked up in the form in which their index has them; a value that no value of the other column equals becomes NULL,
which finds no row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from adapter.changes.constraints.table_keys import ForeignKey
from adapter.plans.computed.constant_rows import array_of
from adapter.plans.row_text import literal_value
from adapter.spilling.key_runs import Keys
from planner.common_errors import NanNotHeld
from planner.errors import FeatureNotSupported, NumericValueOutOfRange
from planner.ir.physical import arrow_type
from planner.types import types as t
from planner.types.type_names import format_type
from planner.types.types import SqlType, numeric_precision_scale

TYPMOD_HEADER = 4
"""What the typmod of char(n) is more than n (PostgreSQL's VARHDRSZ)."""

_BITS = {t.INT2: 16, t.INT4: 32, t.INT8: 64}


def keys_for_parent(key: ForeignKey, keys: Keys) -> Keys:
    """Referring keys as values of the columns that they refer to."""
    return tuple(
        column if pair is None else _as(column, pair.child, pair.parent, _equal)
        for column, pair in zip(keys, key.unlike, strict=True)
    )


def keys_for_child(key: ForeignKey, keys: Keys) -> Keys:
    """Keys that are referred to as values of the columns that refer to them."""
    return tuple(
        column if pair is None else _as(column, pair.parent, pair.child, _equal)
        for column, pair in zip(keys, key.unlike, strict=True)
    )


def values_for_child(key: ForeignKey, keys: Keys) -> Keys:
    """Keys that are referred to as what ON UPDATE CASCADE gives to the columns that refer to them. Raises 22003, and
    NanNotHeld."""
    values = []
    for attnum, column, pair in zip(key.constraint.columns, keys, key.unlike, strict=True):
        with naming_column(key, attnum):
            values.append(column if pair is None else _as(column, pair.parent, pair.child, _assigned))
    return tuple(values)


@contextmanager
def naming_column(key: ForeignKey, attnum: int) -> Iterator[None]:
    """Whatever meets a NaN in the block does so for this column of the table that refers."""
    try:
        yield
    except NanNotHeld as error:
        raise NanNotHeld(columns={key.child.oid: frozenset({attnum})}) from error


def _as(column: pa.Array, given: SqlType, wanted: SqlType, convert: Callable[[Any, SqlType], Any]) -> pa.Array:
    if given.oid in _NUMBERS and wanted.oid in _NUMBERS:
        values = [literal_value(column, row, given) for row in range(len(column))]
        return array_of(wanted, [None if value is None else convert(value, wanted) for value in values])
    if t.BPCHAR in (given.oid, wanted.oid):
        return pa.array(
            [None if value is None else _padded(value, wanted) for value in column.to_pylist()], pa.string()
        )
    found = column.cast(arrow_type(wanted), safe=False)
    same = pc.equal(found.cast(column.type, safe=False), column)
    return pc.if_else(same, found, pa.scalar(None, found.type))


def _padded(value: str, wanted: SqlType) -> str | None:
    """A text as the type `wanted` has it, of which trailing blanks say nothing in char(n)."""
    plain = value.rstrip(" ")
    if wanted.oid != t.BPCHAR or wanted.typmod < 0:
        return plain
    length = wanted.typmod - TYPMOD_HEADER
    return plain.ljust(length) if len(plain) <= length else None


_Numbers = Mapping[int, Callable[[Any, SqlType], Any]]


def _equal(value: Any, wanted: SqlType) -> Any:
    """The value of the type `wanted` that equals a number; None when there is none."""
    return _NUMBERS[wanted.oid](value, wanted)


def _equal_integer(value: Any, wanted: SqlType) -> int | None:
    if value != value or value in (_INFINITY, -_INFINITY) or value != int(value):
        return None
    return int(value) if _fits(int(value), wanted) else None


def _fits(value: int, wanted: SqlType) -> bool:
    limit = 1 << (_BITS[wanted.oid] - 1)
    return -limit <= value < limit


def _equal_numeric(value: Any, wanted: SqlType) -> Decimal | None:
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    bounds = numeric_precision_scale(wanted.typmod)
    if bounds is None or (exact.is_nan() and t.is_wide(wanted)):
        return exact
    if exact.is_nan():
        return None
    precision, scale = bounds
    if exact.is_infinite() or exact.copy_abs() >= Decimal(10) ** (precision - scale):
        return None
    with localcontext() as context:
        context.prec = _DIGITS
        rounded = exact.quantize(Decimal(1).scaleb(-scale))
    return rounded if rounded == exact else None


def _equal_float(value: Any, wanted: SqlType) -> float | None:
    try:
        found = float(value)
        narrow = struct.unpack("f", struct.pack("f", found))[0] if wanted.oid == t.FLOAT4 else found
    except OverflowError:
        return None
    return found if narrow == found or found != found else None


_NUMBERS: _Numbers = {
    **dict.fromkeys(_BITS, _equal_integer),
    t.NUMERIC: _equal_numeric,
    t.FLOAT4: _equal_float,
    t.FLOAT8: _equal_float,
}
_INFINITY = float("inf")
_DIGITS = 150_000
"""More than a numeric has (PostgreSQL 15, "Arbitrary Precision Numbers")."""


def _assigned(value: Any, wanted: SqlType) -> Any:
    """A number as it is assigned to a column of the type `wanted`. Raises 22003."""
    found = _equal(value, wanted)
    if found is None and value != value:
        if wanted.oid == t.NUMERIC:
            raise NanNotHeld
        raise FeatureNotSupported(f"cannot convert NaN to {format_type(wanted.oid)}")
    if found is not None:
        return found
    name = format_type(wanted.oid, wanted.typmod)
    if value in (_INFINITY, -_INFINITY):
        raise NumericValueOutOfRange(f"{name} out of range")
    if wanted.oid in _BITS:
        whole = round(value) if isinstance(value, float) else int(Decimal(value).to_integral_value(ROUND_HALF_UP))
        if not _fits(whole, wanted):
            raise NumericValueOutOfRange(f"{name} out of range")
        return whole
    if wanted.oid == t.NUMERIC:
        bounds = numeric_precision_scale(wanted.typmod)
        assert bounds is not None
        with localcontext() as context:
            context.prec = _DIGITS
            rounded = Decimal(repr(value) if isinstance(value, float) else value).quantize(
                Decimal(1).scaleb(-bounds[1]), ROUND_HALF_UP
            )
        if rounded.copy_abs() >= Decimal(10) ** (bounds[0] - bounds[1]):
            raise NumericValueOutOfRange("numeric field overflow")
        return rounded
    return float(value)
