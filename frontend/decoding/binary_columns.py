"""Binary values of many rows at once: those of a column, which lie at known places of one buffer, as an Arrow array.

Only what can be read without looking at each value; everything else, errors among it, is left to `parse_binary`
(`NotPlain`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from frontend.decoding.text import as_declared
from planner.ir.physical import arrow_type
from planner.types import types
from planner.types.types import SqlType
from planner.values.datetimes.calendar_days import DAYS_1970_TO_2000, MICROS_1970_TO_2000

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

_FIRST_DAY, _LAST_DAY = -730_119, 2_921_939
"""The days of the years 1 to 9999, counted from 2000."""

_DAY = 86_400_000_000

_MOST_BYTES = 8 << 20
"""Texts of one column that are gathered byte by byte, which takes 16 times as much memory for a moment. What is longer
has few values."""


class NotPlain(Exception):
    """The values have to be looked at one by one."""


def parse_binary_column(data: Bytes, starts: Ints, lengths: Ints, sql_type: SqlType) -> Any:
    """The values at `starts` of `data`, each of so many bytes (-1: NULL), texts in UTF-8, as an array of the physical
    type. Raises NotPlain."""
    valid = lengths >= 0
    layout = _FIXED.get(sql_type.oid)
    if layout is not None and sql_type.typmod == -1 and not sql_type.domain:
        name, finish = layout
        return finish(_gathered(data, starts, lengths, valid, name), ~valid, sql_type)
    if sql_type.oid in _VARIABLE and not sql_type.domain:
        return _strings(data, starts, lengths, valid, sql_type)
    if sql_type.oid == types.NUMERIC and pa.types.is_decimal128(arrow_type(sql_type)) and not sql_type.domain:
        return _decimals(data, starts, lengths, valid, arrow_type(sql_type))
    raise NotPlain


def numbers_at(data: Bytes, starts: Ints, kind: str) -> Any:
    """The numbers of the numpy type `kind` that begin at `starts`, all of which have to lie within `data`."""
    type_ = np.dtype(kind)
    if not len(starts):
        return np.zeros(0, type_.newbyteorder("="))
    # One number begins at each byte; numpy reads them where they are.
    everywhere = np.ndarray((len(data) - type_.itemsize + 1,), type_, data, strides=(1,))
    return everywhere[starts].astype(type_.newbyteorder("="))


def _gathered(data: Bytes, starts: Ints, lengths: Ints, valid: np.ndarray[Any, Any], kind: str) -> Any:
    if (lengths[valid] != np.dtype(kind).itemsize).any():
        raise NotPlain
    if valid.all():
        return numbers_at(data, starts, kind)
    found = np.zeros(len(starts), np.dtype(kind).newbyteorder("="))
    found[valid] = numbers_at(data, starts[valid], kind)
    return found


def _numbers(values: Any, nulls: Any, sql_type: SqlType) -> Any:
    return pa.array(values, arrow_type(sql_type), mask=nulls)


def _bools(values: Any, nulls: Any, sql_type: SqlType) -> Any:
    return pa.array(values != 0, arrow_type(sql_type), mask=nulls)


def _dates(values: Any, nulls: Any, sql_type: SqlType) -> Any:
    if ((values < _FIRST_DAY) | (values > _LAST_DAY)).any() or arrow_type(sql_type) != pa.date32():
        raise NotPlain
    return pa.array(values + np.int32(DAYS_1970_TO_2000), pa.int32(), mask=nulls).view(pa.date32())


def _moments(values: Any, nulls: Any, sql_type: SqlType) -> Any:
    physical = arrow_type(sql_type)
    if ((values < _FIRST_DAY * _DAY) | (values >= (_LAST_DAY + 1) * _DAY)).any() or not pa.types.is_timestamp(physical):
        raise NotPlain
    return pa.array(values + MICROS_1970_TO_2000, pa.int64(), mask=nulls).view(physical)


_FIXED: dict[int, tuple[str, Callable[[Any, Any, SqlType], Any]]] = {
    types.BOOL: ("u1", _bools),
    types.INT2: (">i2", _numbers),
    types.INT4: (">i4", _numbers),
    types.INT8: (">i8", _numbers),
    types.FLOAT4: (">f4", _numbers),
    types.FLOAT8: (">f8", _numbers),
    types.DATE: (">i4", _dates),
    types.TIMESTAMP: (">i8", _moments),
    types.TIMESTAMPTZ: (">i8", _moments),
}

_MOST_DIGITS = 6
"""Groups of four digits of numerics that are read at once: more do not fit into 64 bits."""

_MAX_SCALE = 0x3FFF


def _decimals(
    data: Bytes, starts: Ints, lengths: Ints, valid: np.ndarray[Any, Any], physical: pa.Decimal128Type
) -> Any:
    """Numerics (numeric_send: number of digits, weight, sign, display scale, digits to base 10000) of a precision and
    scale, those whose digits fit into 64 bits and need no rounding."""
    if (lengths[valid] < 8).any():
        raise NotPlain
    at = starts[valid]
    counts = numbers_at(data, at, ">u2").astype(np.int64)
    weights = numbers_at(data, at + 2, ">i2").astype(np.int64)
    signs, scales = numbers_at(data, at + 4, ">u2"), numbers_at(data, at + 6, ">u2").astype(np.int64)
    most = int(counts.max(initial=0))
    if (lengths[valid] != 8 + 2 * counts).any() or most > _MOST_DIGITS or (scales > _MAX_SCALE).any():
        raise NotPlain
    if not np.isin(signs, (0x0000, 0x4000)).all():
        raise NotPlain
    found = np.zeros(len(at), np.int64)
    for index in range(most):
        some = np.flatnonzero(counts > index)
        digits = numbers_at(data, at[some] + 8 + 2 * index, ">u2").astype(np.int64)
        exponents = 4 * (weights[some] - index) + physical.scale
        if (digits > 9999).any() or (exponents > 14).any():
            raise NotPlain
        divisors = 10 ** np.clip(-exponents, 0, 4)
        if (digits % divisors).any():
            raise NotPlain
        found[some] += digits // divisors * 10 ** np.maximum(exponents, 0)
    # Digits beyond the display scale do not count.
    if (found % 10 ** np.clip(physical.scale - scales, 0, 18)).any():
        raise NotPlain
    if physical.precision < 19 and (found >= 10**physical.precision).any():
        raise NotPlain
    words = np.zeros((len(starts), 2), np.int64)
    words[valid, 0] = np.where(signs == 0, found, -found)
    words[:, 1] = words[:, 0] >> 63
    mask = None if valid.all() else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(physical, len(starts), [mask, pa.py_buffer(words)])


_VARIABLE = frozenset({types.TEXT, types.VARCHAR, types.BPCHAR, types.BYTEA})


def _strings(data: Bytes, starts: Ints, lengths: Ints, valid: np.ndarray[Any, Any], sql_type: SqlType) -> Any:
    physical = arrow_type(sql_type)
    is_text = pa.types.is_string(physical)
    if not is_text and not pa.types.is_binary(physical):
        raise NotPlain
    sizes = np.where(valid, lengths, 0)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    total = int(offsets[-1])
    if total > _MOST_BYTES:
        raise NotPlain
    content = data[np.repeat(starts - offsets[:-1], sizes) + np.arange(total)]
    if is_text and not content.all():
        raise NotPlain  # A zero byte, which no text has.
    mask = None if valid.all() else pa.array(valid).buffers()[1]
    buffers = [mask, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)]
    found = pa.Array.from_buffers(physical, len(sizes), buffers)
    if is_text:
        try:
            found.validate(full=True)
        except pa.ArrowInvalid as error:
            raise NotPlain from error
        found = as_declared(found, sql_type)
        if found is None:
            raise NotPlain
    return found
