"""Text input of values: one value at a time, and whole columns at once.

`parse_value` is PostgreSQL's input function (planner.values.text_values). `parse_column` turns a column of field texts
into an Arrow array of the physical type: by Arrow's parsers where their answer is provably PostgreSQL's (the bytes are
restricted to a plain form and the result is checked), else once per distinct text through `parse_value`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from adapter.plans.computed.constant_rows import array_of
from frontend.encoding.columns import ArrowArray, as_binary, data_of, lengths_of, without_nulls
from planner.common_errors import NanNotHeld
from planner.errors import NumericValueOutOfRange
from planner.ir.physical import arrow_type
from planner.types import types
from planner.types.base_types import like_text
from planner.types.types import WIDE, SqlType, is_wide, numeric_precision_scale
from planner.values.text_values import Names, parse_text

_FIRST_ISO_DAY = -719_162
"""0001-01-01 in days since 1970: Arrow knows a year 0, PostgreSQL does not."""
_VARHDRSZ = 4


class _NotPlain(Exception):
    """The column is not in the plain form that Arrow reads as PostgreSQL does."""


def parse_value(text: str, sql_type: SqlType, settings: Mapping[str, str], names: Names | None = None) -> object:
    """The value of a literal of this type; `names` finds what regclass and its like name. Raises the type's input
    errors."""
    return parse_text(text, sql_type, settings, names)


def _byte_set(characters: bytes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    allowed = np.zeros(256, dtype=np.bool_)
    allowed[np.frombuffer(characters, dtype=np.uint8)] = True
    return allowed


_INTEGER_BYTES = _byte_set(b"0123456789-")
_NUMERIC_BYTES = _byte_set(b"0123456789-.")
_FLOAT_BYTES = _byte_set(b"0123456789-+.eE")
_DATE_BYTES = _byte_set(b"0123456789-")
_TIMESTAMP_BYTES = _byte_set(b"0123456789-:. ")


def _require_bytes(column: ArrowArray, allowed: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
    data, _ = data_of(without_nulls(column))
    if not allowed[data].all():
        raise _NotPlain


def _cast(column: ArrowArray, target: Any) -> ArrowArray:
    try:
        return pc.cast(column.view(pa.string()), target)
    except pa.ArrowInvalid as error:
        raise _NotPlain from error


def _integers(column: ArrowArray, sql_type: SqlType) -> ArrowArray:
    _require_bytes(column, _INTEGER_BYTES)
    return _cast(column, arrow_type(sql_type))


def _floats(column: ArrowArray, sql_type: SqlType) -> ArrowArray:
    _require_bytes(column, _FLOAT_BYTES)
    values = _cast(column, arrow_type(sql_type))
    numbers = pc.fill_null(values, 1.0).to_numpy()
    # Overflow and underflow are errors in PostgreSQL; zero is checked one by one because it may be an underflow.
    if not np.isfinite(numbers).all() or (numbers == 0).any():
        raise _NotPlain
    return values


def _numerics(column: ArrowArray, sql_type: SqlType) -> ArrowArray:
    _require_bytes(column, _NUMERIC_BYTES)
    if is_wide(sql_type):
        return _as_shown(column, sql_type)
    declared = numeric_precision_scale(sql_type.typmod)
    target = arrow_type(sql_type)
    if declared is not None and (declared[1] < 0 or declared != (target.precision, target.scale)):
        raise _NotPlain
    return _cast(column, target)


_SHOWN = "^(-?[1-9][0-9]*([.][0-9]+)?|0([.][0-9]+)?|-0[.][0-9]*[1-9][0-9]*)$"
"""Texts that are a numeric as it is shown."""


def _as_shown(column: ArrowArray, sql_type: SqlType) -> ArrowArray:
    text = column.view(pa.string())
    if sql_type.typmod >= 0 or not pc.all(pc.match_substring_regex(text, _SHOWN), skip_nulls=True).as_py():
        raise _NotPlain
    return text


def _texts(column: ArrowArray, sql_type: SqlType) -> ArrowArray:
    try:
        text = pc.cast(column, pa.string())
    except pa.ArrowInvalid as error:
        raise _NotPlain from error
    fitted = as_declared(text, sql_type)
    if fitted is None:
        raise _NotPlain
    return fitted


def as_declared(text: ArrowArray, sql_type: SqlType) -> ArrowArray | None:
    """Texts as a column of this type holds them, padded where it pads them. None when one is longer than it may be."""
    if sql_type.typmod < _VARHDRSZ or sql_type.oid not in (types.VARCHAR, types.BPCHAR):
        return text
    limit = sql_type.typmod - _VARHDRSZ
    longest = pc.max(pc.utf8_length(text)).as_py()
    if longest is not None and longest > limit:
        return None
    return pc.utf8_rpad(text, width=limit, padding=" ") if sql_type.oid == types.BPCHAR else text


def _require_lengths(column: ArrowArray, allowed: tuple[int, ...]) -> None:
    lengths = lengths_of(without_nulls(column))
    if column.null_count:
        lengths = lengths[~column.is_null().to_numpy(zero_copy_only=False)]
    if not np.isin(lengths, allowed).all():
        raise _NotPlain


def _dates(column: ArrowArray, sql_type: SqlType) -> ArrowArray:
    _require_bytes(column, _DATE_BYTES)
    _require_lengths(column, (10,))
    values = _cast(column, pa.date32())
    first = pc.min(values.view(pa.int32())).as_py()
    if first is not None and first < _FIRST_ISO_DAY:
        raise _NotPlain
    return values


def _timestamps(column: ArrowArray, sql_type: SqlType) -> ArrowArray:
    if sql_type.typmod not in (-1, 6):
        raise _NotPlain
    _require_bytes(column, _TIMESTAMP_BYTES)
    _require_lengths(column, (19, 21, 22, 23, 24, 25, 26))
    values = _cast(column, pa.timestamp("us"))
    first = pc.min(values.view(pa.int64())).as_py()
    if first is not None and first < _FIRST_ISO_DAY * 86_400_000_000:
        raise _NotPlain
    return values


def _instants(column: ArrowArray, sql_type: SqlType) -> ArrowArray:
    text = column.view(pa.string())
    if not pc.all(pc.ends_with(text, "+00"), skip_nulls=True).as_py():
        raise _NotPlain
    plain = as_binary(pc.utf8_slice_codeunits(text, 0, -3)) if column.null_count < len(column) else column
    return _timestamps(plain, sql_type).view(pa.int64()).view(arrow_type(sql_type))


_PLAIN: dict[int, Callable[[ArrowArray, SqlType], ArrowArray]] = {
    types.INT2: _integers,
    types.INT4: _integers,
    types.INT8: _integers,
    types.FLOAT4: _floats,
    types.FLOAT8: _floats,
    types.NUMERIC: _numerics,
    types.TEXT: _texts,
    types.VARCHAR: _texts,
    types.BPCHAR: _texts,
    types.DATE: _dates,
    types.TIMESTAMP: _timestamps,
    types.TIMESTAMPTZ: _instants,
}


def parse_column(
    column: ArrowArray, sql_type: SqlType, settings: Mapping[str, str], names: Names | None = None
) -> ArrowArray:
    """A binary array of field texts (valid UTF-8) as values of the type. Raises the first input error, without context;
    the caller finds the row."""
    sql_type = like_text(sql_type)
    plain = _PLAIN.get(sql_type.oid)
    # The plain forms of date and timestamp mean the same under every DateStyle.
    if plain is not None:
        try:
            return plain(column, sql_type)
        except _NotPlain:
            return _by_distinct(column, sql_type, settings, names)
    return _by_distinct(column, sql_type, settings, names)


def _by_distinct(column: ArrowArray, sql_type: SqlType, settings: Mapping[str, str], names: Names | None) -> ArrowArray:
    encoded = column.view(pa.string()).dictionary_encode()
    values = [parse_value(text, sql_type, settings, names) for text in encoded.dictionary.to_pylist()]
    return values_to_array(values, sql_type).take(encoded.indices)


def values_to_array(values: Sequence[object], sql_type: SqlType) -> ArrowArray:
    """Python values (as in `ir.Literal`) as an Arrow array of the physical type; numerics as texts when there is a NaN
    among them. Raises 22003 for a numeric that the physical type cannot hold."""
    try:
        return array_of(sql_type, values)
    except NanNotHeld:
        return array_of(replace(sql_type, shape=WIDE), values)
    except pa.ArrowInvalid:
        if sql_type.oid != types.NUMERIC:
            raise
        raise NumericValueOutOfRange("numeric field overflow") from None
