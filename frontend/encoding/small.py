"""DataRow messages value by value, for results so small that the fixed cost of column kernels is more than the work.

Only for types whose text is one line of Python; everything else, and everything larger, goes column by column
(`frontend.encoding.rows`). Both give the same bytes, which tests hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from frontend.encoding.encoders import TEXT_FORMAT
from frontend.encoding.numbers import format_float
from frontend.encoding.settings import FormatSettings
from planner import types
from planner.types import SqlType

SMALL_CELLS = 64
"""Rows times columns up to which values are written one by one."""

ValueWriter: TypeAlias = Callable[[Any], bytes]
"""The text of a value that is not NULL."""

_NULL = (-1).to_bytes(4, "big", signed=True)


def _integer(value: int) -> bytes:
    return b"%d" % value


def _boolean(value: bool) -> bytes:
    return b"t" if value else b"f"


def _float(value: float, *, single: bool, extra_float_digits: int) -> bytes:
    return format_float(value, single=single, extra_float_digits=extra_float_digits).encode()


_PLAIN: dict[int, tuple[pa.DataType, ValueWriter]] = {
    types.INT2: (pa.int16(), _integer),
    types.INT4: (pa.int32(), _integer),
    types.INT8: (pa.int64(), _integer),
    types.TEXT: (pa.string(), str.encode),
    types.VARCHAR: (pa.string(), str.encode),
    types.BOOL: (pa.bool_(), _boolean),
}
_FLOATS: dict[int, tuple[pa.DataType, bool]] = {types.FLOAT4: (pa.float32(), True), types.FLOAT8: (pa.float64(), False)}


def value_writers(
    column_types: Sequence[SqlType], formats: Sequence[int], schema: pa.Schema, settings: FormatSettings
) -> list[ValueWriter] | None:
    """The writer of each column, or None when one of them has none or there are no columns."""
    writers: list[ValueWriter] = []
    for sql_type, code, field in zip(column_types, formats, schema, strict=True):
        if code != TEXT_FORMAT:
            return None
        if sql_type.oid in _FLOATS:
            arrow, single = _FLOATS[sql_type.oid]
            writer: ValueWriter = partial(_float, single=single, extra_float_digits=settings.extra_float_digits)
        elif sql_type.oid in _PLAIN:
            arrow, writer = _PLAIN[sql_type.oid]
        else:
            return None
        if field.type != arrow:
            return None
        writers.append(writer)
    return writers or None


def small_data_rows(batch: Any, writers: Sequence[ValueWriter]) -> memoryview:
    """The DataRow messages of all rows of a record batch, one after the other."""
    columns = [
        [_NULL if value is None else _counted(write(value)) for value in column.to_pylist()]
        for write, column in zip(writers, batch.columns, strict=True)
    ]
    head = len(columns).to_bytes(2, "big")
    messages = []
    for cells in zip(*columns, strict=True):
        body = head + b"".join(cells)
        messages.append(b"D" + (len(body) + 4).to_bytes(4, "big") + body)
    return memoryview(b"".join(messages))


def _counted(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text
