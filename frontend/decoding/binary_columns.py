"""Binary values of many rows at once: those of a column, which lie at known places of one buffer, as an Arrow array.

Only what can be read without looking at each value; everything else, errors among it, is left to `parse_binary`
(`NotPlain`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from frontend.encoding.datetimes import DAYS_1970_TO_2000, MICROS_1970_TO_2000
from planner.ir.physical import arrow_type
from planner.types import types
from planner.types.types import SqlType

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
        return finish(_gathered(data, starts, lengths, valid, np.dtype(name)), ~valid, sql_type)
    if sql_type.oid in _VARIABLE and sql_type.typmod == -1 and not sql_type.domain:
        return _strings(data, starts, lengths, valid, sql_type)
    raise NotPlain


def _gathered(data: Bytes, starts: Ints, lengths: Ints, valid: np.ndarray[Any, Any], kind: np.dtype[Any]) -> Any:
    if (lengths[valid] != kind.itemsize).any():
        raise NotPlain
    found = np.zeros((len(starts), kind.itemsize), np.uint8)
    found[valid] = data[starts[valid][:, None] + np.arange(kind.itemsize)]
    return found.view(kind).ravel().astype(kind.newbyteorder("="))


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

_VARIABLE = frozenset({types.TEXT, types.VARCHAR, types.BYTEA})


def _strings(
    data: Bytes, starts: Ints, lengths: Ints, valid: np.ndarray[Any, Any], sql_type: SqlType
) -> Any:  # fmt: skip
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
    return found
